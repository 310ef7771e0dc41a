//! Generates the frames of one stream.

use buf::layout::DATA_ROOM;
use buf::{Cache, Frame};
use drivers::pktgen::{Field, Maker, Stream, StreamError, Template};
use infra::hash::mix64;

use super::check::Expected;
use super::stamp::{LEN, Place, Stamp};

/// Maximum total size in bytes of the frames that a flood repeats: some 70,000 frames of the minimum size. Floods whose fields run through
/// many values may be larger ([`MOST`]).
const FLOOD: usize = 4 << 20;

/// Maximum total size in bytes of the frames of a flood whose fields run through many values, such as the source addresses of a /16.
const MOST: usize = 128 << 20;

/// Maximum length of a mix's pattern, in frames. The pattern is the order in which the mix's templates are used, and repeats.
pub(crate) const TURNS: u64 = 4096;

/// How frames are generated and stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each frame carries its number and sending time, so that loss, order and delay are known for each frame.
    Stamped,
    /// A set of frames is generated once and sent repeatedly, which is faster. Each frame carries its number, but not its sending time. So
    /// loss, order and duplicates are known for each frame, but delays are not.
    Flood,
}

/// Generates frames from a weighted mix of templates.
pub struct Sender {
    mix: Mix,
    /// Stamp of the next frame.
    next: Stamp,
    /// Frames that a flood repeats; empty for stamped frames.
    made: Made,
}

/// Templates in their order of use.
struct Mix {
    kinds: Box<[Kind]>,
    /// Index of the template for each position of the pattern, in proportion to the weights.
    order: Box<[u16]>,
    turn: usize,
}

/// Ready-made frames.
#[derive(Default)]
struct Made {
    bytes: Vec<u8>,
    /// End offset of each frame, where the next one begins.
    ends: Vec<usize>,
    /// Offsets of each frame's stamp and of the checksum that covers it.
    places: Vec<[u16; 2]>,
    turn: usize,
}

struct Kind {
    maker: Maker,
    place: Place,
}

impl Sender {
    /// Creates a sender for one stream. Its frames carry `signature`, which identifies the trial, and `stream`, the number of the stream.
    /// Each template needs at least 18 bytes of payload after a UDP, TCP or echo header; the stamp overwrites these bytes.
    ///
    /// # Errors
    /// Returns an error that names the template if a template is invalid or too short. Also returns an error if the weights would
    /// make the pattern too long.
    pub fn new(
        templates: &[Template],
        mode: Mode,
        seed: u64,
        signature: u32,
        stream: u16,
    ) -> Result<Sender, StreamError> {
        let next = Stamp { signature, stream, sequence: 0, ticks: 0 };
        let mut kinds = Vec::new();
        for (i, template) in templates.iter().enumerate() {
            kinds.push(Kind::new(template, mix64(seed ^ i as u64)).map_err(|e| {
                let StreamError(what) = e;
                StreamError(format!("template {i}: {what}"))
            })?);
        }
        let mut mix = Mix { kinds: kinds.into(), order: order(templates, seed)?, turn: 0 };
        let made = if mode == Mode::Flood {
            mix.many(patterns(templates, mix.order.len()))
        } else {
            Made::default()
        };
        Ok(Sender { mix, next, made })
    }

    /// Returns the frames as they should arrive after `hops` routers. `templates` must be those of [`new`](Self::new).
    ///
    /// # Errors
    /// As [`Expected::new`].
    pub fn expected(&self, templates: &[Template], hops: u8) -> Result<Expected, StreamError> {
        Expected::new(templates, &self.mix.order, hops)
    }

    /// Appends up to `n` frames. Those of [`Mode::Stamped`] carry the time `now`. Returns the number of frames appended: fewer if the
    /// buffers run out.
    #[inline]
    pub fn fill(&mut self, frame: &mut Frame, cache: &mut Cache, n: usize, now: u64) -> usize {
        let first = frame.len();
        let n = frame.alloc(cache, n);
        let is_flood = !self.made.ends.is_empty();
        self.next.ticks = if is_flood { 0 } else { now };
        for mut packet in frame.packets().skip(first) {
            let room = packet.room_mut();
            let (len, place) = if is_flood { self.made.copy(room) } else { self.mix.make(room) };
            self.next.write(room, place);
            self.next.sequence += 1;
            packet.set_len(len);
        }
        n
    }
}

impl Mix {
    /// Generates the next frame. Returns the frame's length and the place of its stamp.
    #[inline(always)]
    fn make(&mut self, room: &mut [u8]) -> (usize, Place) {
        let kind = self.order.get(self.turn).copied().unwrap_or_default();
        self.turn = if self.turn + 1 < self.order.len() { self.turn + 1 } else { 0 };
        match self.kinds.get_mut(usize::from(kind)) {
            Some(kind) => (kind.maker.make(room), kind.place),
            None => (0, Place::NONE),
        }
    }

    /// Generates the frames of a flood, without stamps, in rounds of `patterns` patterns. In a round, every field that increments
    /// or runs through a list takes all its values. Generates as many rounds as fit into [`FLOOD`] bytes, but at least one.
    fn many(&mut self, patterns: usize) -> Made {
        let mut made = Made::default();
        let mut room = vec![0; DATA_ROOM];
        loop {
            let begun = made.bytes.len();
            for _ in 0..self.order.len() * patterns {
                let (len, place) = self.make(&mut room);
                made.places.push([place.at, place.checksum].map(|at| u16::try_from(at).unwrap_or(u16::MAX)));
                made.bytes.extend_from_slice(&room[..len]);
                made.ends.push(made.bytes.len());
            }
            // Only whole rounds are added: stop if one more would not fit.
            let round = made.bytes.len() - begun;
            if round == 0 || made.bytes.len() + round > FLOOD {
                return made;
            }
        }
    }
}

impl Made {
    /// Copies the next frame. Returns its length and the place of its stamp.
    #[inline(always)]
    fn copy(&mut self, room: &mut [u8]) -> (usize, Place) {
        let start = match self.turn.checked_sub(1) {
            Some(before) => self.ends.get(before).copied().unwrap_or_default(),
            None => 0,
        };
        let end = self.ends.get(self.turn).copied().unwrap_or_default();
        let [at, checksum] = self.places.get(self.turn).map_or([usize::MAX; 2], |both| both.map(usize::from));
        let place = Place { at, checksum, ..Place::NONE };
        self.turn = if self.turn + 1 < self.ends.len() { self.turn + 1 } else { 0 };
        let (Some(from), Some(to)) = (self.bytes.get(start..end), room.get_mut(..end - start)) else {
            return (0, Place::NONE);
        };
        to.copy_from_slice(from);
        (end - start, place)
    }
}

impl Kind {
    fn new(template: &Template, seed: u64) -> Result<Kind, StreamError> {
        let mut template = template.clone();
        let shortest = template.bytes.get(..*template.size.start()).unwrap_or(&template.bytes);
        let place = Place::find(shortest).ok_or_else(|| {
            StreamError(format!(
                "a frame of {} bytes has no room for the tester's stamp, which needs {LEN} bytes after a UDP, TCP or echo header",
                template.size.start()
            ))
        })?;
        if let Some(i) =
            template.fields.iter().position(|f| f.offset < place.at + LEN && place.at < f.offset + f.width)
        {
            return Err(StreamError(format!("field {i}: it overlaps the tester's stamp")));
        }
        template.bytes[place.at..place.at + LEN].fill(0);
        // Varying fields need a new checksum.
        template.l4_checksum = true;
        let stream = Stream { name: "trial".into(), templates: vec![template], seed, ..Stream::default() };
        Ok(Kind { maker: Maker::new(&stream)?, place })
    }
}

/// Returns the number of patterns, of `length` frames each, after which every field that increments or runs through a list has had all its
/// values. Returns 1 if the frames of so many patterns would exceed [`MOST`] bytes.
fn patterns(templates: &[Template], length: usize) -> usize {
    let divisor = templates.iter().fold(0, |all, t| gcd(all, t.weight)).max(1);
    let values = |field: &Field| match &field.mode {
        drivers::pktgen::Mode::Increment { min, max, step } => {
            (max.saturating_sub(*min) / step.max(&1)).saturating_add(1)
        }
        drivers::pktgen::Mode::List(all) => all.len() as u64,
        _ => 1,
    };
    let of = |t: &Template| {
        let values = t.fields.iter().map(values).max().unwrap_or(1);
        values.div_ceil(u64::from(t.weight / divisor).max(1))
    };
    let all = templates.iter().map(of).max().unwrap_or(1);
    let longest = templates.iter().map(|t| *t.size.end()).max().unwrap_or_default().max(1);
    match all.saturating_mul((length * longest) as u64) <= MOST as u64 {
        true => all as usize,
        false => 1,
    }
}

/// Returns the index of the template for each position of the pattern: in proportion to the weights, in pseudorandom order.
fn order(templates: &[Template], seed: u64) -> Result<Box<[u16]>, StreamError> {
    let divisor = templates.iter().fold(0, |all, t| gcd(all, t.weight)).max(1);
    let total: u64 = templates.iter().map(|t| u64::from(t.weight / divisor)).sum();
    if total > TURNS || templates.len() > usize::from(u16::MAX) {
        let what = format!(
            "the weights add up to {total} after reduction by common factors: at most {TURNS} is supported"
        );
        return Err(StreamError(what));
    }
    let times = |t: &Template| (t.weight / divisor) as usize;
    let mut order: Vec<u16> =
        (0u16..).zip(templates).flat_map(|(i, t)| std::iter::repeat_n(i, times(t))).collect();
    for i in (1..order.len()).rev() {
        let j = (u128::from(mix64(seed.wrapping_add(i as u64))) * (i as u128 + 1)) >> 64;
        order.swap(i, j as usize);
    }
    Ok(order.into())
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
