//! Makes the frames of one direction.

use buf::{Cache, Frame};
use drivers::pktgen::{Maker, Stream, StreamError, Template};
use infra::hash::mix64;

use super::stamp::{LEN, Place, Stamp};

/// Turns after which a mix of templates begins anew, at most.
const TURNS: u64 = 4096;

/// How frames are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each frame has its number and its time: everything is known of it.
    Stamped,
    /// All frames of a template are the same but for the fields that vary: only counted. Quicker.
    Flood,
}

/// Makes frames of a weighted mix of templates.
pub struct Sender {
    kinds: Box<[Kind]>,
    /// The kinds in the order in which they take turns: each as often as it weighs, in one turn of the whole.
    order: Box<[u16]>,
    turn: usize,
    mode: Mode,
    next: Stamp,
}

struct Kind {
    maker: Maker,
    place: Place,
}

impl Sender {
    /// For the frames of one direction, marked as `stream` of the trial with this signature. Each template has at least 18 bytes of
    /// payload behind UDP, TCP or an echo, which are the stamp's.
    ///
    /// # Errors
    /// When a template cannot be as described, is too short, or the weights have no short pattern; the text says which.
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
            kinds.push(Kind::new(template, mode, mix64(seed ^ i as u64), next).map_err(|e| {
                let StreamError(what) = e;
                StreamError(format!("template {i}: {what}"))
            })?);
        }
        let order = order(templates, seed)?;
        Ok(Sender { kinds: kinds.into(), order, turn: 0, mode, next })
    }

    /// Appends `n` frames, as far as there are buffers; gives how many. Their time is `now`.
    #[inline]
    pub fn fill(&mut self, frame: &mut Frame, cache: &mut Cache, n: usize, now: u64) -> usize {
        let first = frame.len();
        let n = frame.alloc(cache, n);
        self.next.ticks = now;
        for mut packet in frame.packets().skip(first) {
            let kind = self.order.get(self.turn).copied().unwrap_or_default();
            self.turn = if self.turn + 1 < self.order.len() { self.turn + 1 } else { 0 };
            let Some(kind) = self.kinds.get_mut(usize::from(kind)) else { continue };
            let room = packet.room_mut();
            let len = kind.maker.make(room);
            if self.mode == Mode::Stamped {
                self.next.write(room, kind.place);
                self.next.sequence += 1;
            }
            packet.set_len(len);
        }
        n
    }
}

impl Kind {
    fn new(template: &Template, mode: Mode, seed: u64, stamp: Stamp) -> Result<Kind, StreamError> {
        let mut template = template.clone();
        let shortest = template.bytes.get(..*template.size.start()).unwrap_or(&template.bytes);
        let place = Place::find(shortest).ok_or_else(|| {
            StreamError(format!(
                "a frame of {} bytes has no room for the tester's mark: {LEN} bytes behind UDP, TCP or an echo",
                template.size.start()
            ))
        })?;
        if let Some(i) =
            template.fields.iter().position(|f| f.offset < place.at + LEN && place.at < f.offset + f.width)
        {
            return Err(StreamError(format!("field {i}: it lies on the tester's mark")));
        }
        template.bytes[place.at..place.at + LEN].fill(0);
        if mode == Mode::Flood {
            stamp.write(&mut template.bytes, place);
        }
        // Whatever varies, the checksum is right.
        template.l4_checksum = true;
        let stream = Stream { name: "trial".into(), templates: vec![template], seed, ..Stream::default() };
        Ok(Kind { maker: Maker::new(&stream)?, place })
    }
}

/// Which template's turn it is: each as often as it weighs, spread by chance.
fn order(templates: &[Template], seed: u64) -> Result<Box<[u16]>, StreamError> {
    let divisor = templates.iter().fold(0, |all, t| gcd(all, t.weight)).max(1);
    let total: u64 = templates.iter().map(|t| u64::from(t.weight / divisor)).sum();
    if total > TURNS || templates.len() > usize::from(u16::MAX) {
        let what =
            format!("their weights add up to {total} even when shortened: at most {TURNS} are possible");
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
