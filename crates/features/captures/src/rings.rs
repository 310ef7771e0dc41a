//! The rings by which copies of packets come from the workers to the main thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use buf::Packet;
use buf::bpf::Program;
use infra::class_a::{Reader, Writer, published};
use infra::quiesce::{Domain, Guard};
use infra::ring::{Consumer, Producer, spsc};

/// Bytes of a packet that a copy has at most.
pub const MOST_BYTES: usize = 2048;
/// Copies that wait for the main thread at most, by worker and place.
pub(crate) const WAITING: usize = 1024;

/// Where packets are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// As they come in.
    Rx,
    /// As they go out.
    Tx,
    /// As they are dropped.
    Drop,
}

impl Point {
    /// Every point.
    pub const ALL: [Point; 3] = [Point::Rx, Point::Tx, Point::Drop];

    /// The arc and the feature that copy there.
    pub fn feature(self) -> (&'static str, &'static str) {
        match self {
            Point::Rx => ("device-input", "pcap-rx"),
            Point::Tx => ("interface-output", "pcap-tx"),
            Point::Drop => ("drop", "pcap-drop"),
        }
    }
}

/// A copy of a packet, from its link header on.
pub struct Captured {
    /// When, nanoseconds of the monotonic clock.
    pub time: u64,
    /// Bytes of the packet.
    pub len: u32,
    /// Which capture it is for.
    capture: u64,
    /// Which copy it is, counted over all workers.
    order: u64,
    kept: u16,
    bytes: [u8; MOST_BYTES],
}

impl Captured {
    fn new() -> Box<Captured> {
        Box::new(Captured { time: 0, len: 0, capture: 0, order: 0, kept: 0, bytes: [0; MOST_BYTES] })
    }

    /// The first bytes of the packet.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.kept)]
    }
}

/// What is copied.
#[derive(Default)]
pub struct Wanted {
    /// Which capture it is, counted.
    capture: u64,
    /// Bytes of a packet that are kept.
    keep: usize,
    /// Which packets; without it, all.
    filter: Option<Program>,
}

/// What workers have copied and the main thread has not taken yet. Cheap to clone.
#[derive(Clone)]
pub struct Rings(Arc<Shared>);

struct Shared {
    wanted: Reader<Wanted>,
    copied: AtomicU64,
    lost: AtomicU64,
    /// Locked when a worker is made, and by the main thread.
    control: Mutex<Control>,
}

struct Control {
    wanted: Writer<Wanted>,
    rings: Vec<Ring>,
}

/// The main thread's ends of the two rings by which copies go round between it and a place of a worker. A copy is made
/// once and written again and again where it lies.
struct Ring {
    point: Point,
    filled: Consumer<Box<Captured>>,
    empty: Producer<Box<Captured>>,
    /// Whether its copies have been made.
    made: bool,
}

/// A worker's ends of the same.
pub struct Copies {
    point: Point,
    empty: Consumer<Box<Captured>>,
    filled: Producer<Box<Captured>>,
    shared: Arc<Shared>,
}

impl Copies {
    /// What is copied now.
    pub fn wanted<'g>(&self, guard: &'g Guard) -> &'g Wanted {
        self.shared.wanted.get(guard)
    }

    /// Copies a packet at `now`, if it is wanted; without an empty copy it is lost, and counted.
    pub fn copy(&mut self, now: u64, wanted: &Wanted, p: &mut Packet<'_>) {
        if self.point == Point::Drop {
            // Its node may have looked at what is behind the link header.
            p.rewind_to_l2();
        }
        if wanted.filter.as_ref().is_some_and(|filter| !p.matches(filter)) {
            return;
        }
        let Some(mut copy) = self.empty.pop() else {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        (copy.time, copy.capture, copy.len) = (now, wanted.capture, p.total_len() as u32);
        copy.order = self.shared.copied.fetch_add(1, Ordering::Relaxed);
        let mut room = &mut copy.bytes[..wanted.keep];
        for segment in p.segments() {
            let n = segment.len().min(room.len());
            room[..n].copy_from_slice(&segment[..n]);
            room = &mut room[n..];
        }
        copy.kept = (wanted.keep - room.len()) as u16;
        // There is room for as many as there are.
        let _ = self.filled.push(copy);
    }
}

impl Rings {
    /// No capture.
    pub fn new(domain: &Domain) -> Rings {
        let (writer, wanted) = published(domain, Wanted::default());
        let control = Mutex::new(Control { wanted: writer, rings: Vec::new() });
        Rings(Arc::new(Shared { wanted, copied: AtomicU64::new(0), lost: AtomicU64::new(0), control }))
    }

    /// A capture begins at these places: `keep` bytes of each packet that `filter` takes, [`MOST_BYTES`] at most. What
    /// is left of an earlier one is forgotten.
    pub fn begin(&self, points: &[Point], keep: usize, filter: Option<Program>) {
        let mut control = self.control();
        let capture = control.wanted.get().capture + 1;
        control.wanted.set(Wanted { capture, keep: keep.min(MOST_BYTES), filter });
        for ring in &mut control.rings {
            while let Some(old) = ring.filled.pop() {
                let _ = ring.empty.push(old);
            }
            if points.contains(&ring.point) && !std::mem::replace(&mut ring.made, true) {
                // There is room for each of them in either ring.
                (0..WAITING).for_each(|_| drop(ring.empty.push(Captured::new())));
            }
        }
    }

    /// Copies that found no room, since the start.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Gives up to about `most` copies to `each`, as many of each worker and place as of the others, in the order in which they were copied.
    /// Returns how many there were.
    pub fn take(&self, most: usize, mut each: impl FnMut(&Captured)) -> usize {
        let mut control = self.control();
        let Control { wanted, rings } = &mut *control;
        let capture = wanted.get().capture;
        let filled = rings.iter().filter(|ring| !ring.filled.is_empty()).count();
        let share = most.div_ceil(filled.max(1));
        let mut taken = Vec::new();
        for (i, ring) in rings.iter_mut().enumerate() {
            taken.extend(std::iter::from_fn(|| ring.filled.pop()).take(share).map(|copy| (i, copy)));
        }
        // In one turn of a worker, which is one time, a packet may go out and the answer come in.
        taken.sort_unstable_by_key(|(_, copy)| copy.order);
        let n = taken.len();
        for (ring, copy) in taken {
            if copy.capture == capture {
                each(&copy);
            }
            let _ = rings[ring].empty.push(copy);
        }
        n
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        // A panic while the lock is held leaves at worst a copy less.
        self.0.control.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Copies that wait for the main thread.
    pub fn waiting(&self) -> usize {
        self.control().rings.iter().map(|ring| ring.filled.len()).sum()
    }

    /// The rings of a worker's place.
    pub fn copies(&self, point: Point) -> Copies {
        let (filled, filled_end) = spsc(WAITING);
        let (empty_end, empty) = spsc(WAITING);
        self.control().rings.push(Ring { point, filled: filled_end, empty: empty_end, made: false });
        Copies { point, empty, filled, shared: Arc::clone(&self.0) }
    }
}
