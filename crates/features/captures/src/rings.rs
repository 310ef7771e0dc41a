//! The rings that carry copies of packets from the workers to the main thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use buf::Packet;
use buf::bpf::Program;
use infra::class_a::{Reader, Writer, published};
use infra::quiesce::{Domain, Guard};
use infra::ring::{Consumer, Producer, spsc};

/// Maximum number of bytes of a packet in a copy.
pub const MOST_BYTES: usize = 2048;
/// Maximum number of copies that wait for the main thread, for each worker and point.
pub(crate) const WAITING: usize = 1024;

/// The point at which packets are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Received packets.
    Rx,
    /// Transmitted packets.
    Tx,
    /// Dropped packets.
    Drop,
}

impl Point {
    /// Every point.
    pub const ALL: [Point; 3] = [Point::Rx, Point::Tx, Point::Drop];

    /// Returns the name of this point's arc, and the name of the feature on this arc that copies packets.
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
    /// Time of the copy, in nanoseconds of the monotonic clock.
    pub time: u64,
    /// Length of the packet, in bytes.
    pub len: u32,
    /// Number of the capture that the copy belongs to.
    capture: u64,
    /// The copy's number, counted over all workers.
    order: u64,
    kept: u16,
    bytes: [u8; MOST_BYTES],
}

impl Captured {
    fn new() -> Box<Captured> {
        Box::new(Captured { time: 0, len: 0, capture: 0, order: 0, kept: 0, bytes: [0; MOST_BYTES] })
    }

    /// Returns the first bytes of the packet.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.kept)]
    }
}

/// The packets to copy.
#[derive(Default)]
pub struct Wanted {
    /// The number of the capture.
    capture: u64,
    /// Maximum number of bytes kept of each packet.
    keep: usize,
    /// The filter; without it, all packets.
    filter: Option<Program>,
}

/// Copies made by the workers and not yet taken by the main thread. Cheap to clone.
#[derive(Clone)]
pub struct Rings(Arc<Shared>);

struct Shared {
    wanted: Reader<Wanted>,
    copied: AtomicU64,
    lost: AtomicU64,
    /// Lock for changes of the capture and of the list of rings. The main thread takes it, and so does the creation of a worker.
    control: Mutex<Control>,
}

struct Control {
    wanted: Writer<Wanted>,
    rings: Vec<Ring>,
}

/// The main thread's ends of the two rings for one capture point of one worker: `filled` brings copies to the main thread, and
/// `empty` returns them to the worker for reuse. A copy is allocated once and overwritten in place.
struct Ring {
    point: Point,
    filled: Consumer<Box<Captured>>,
    empty: Producer<Box<Captured>>,
    /// True if the copies for these rings have been allocated.
    made: bool,
    /// Weak reference that is valid as long as the worker has its ends of the rings.
    worker: Weak<()>,
}

/// A worker's ends of the two rings of one point.
pub struct Copies {
    point: Point,
    empty: Consumer<Box<Captured>>,
    filled: Producer<Box<Captured>>,
    shared: Arc<Shared>,
    /// Token for [`Ring::worker`]: shows the main thread that the worker still has its ends of the rings.
    _worker: Arc<()>,
}

impl Copies {
    /// Returns which packets are to be copied now.
    pub fn wanted<'g>(&self, guard: &'g Guard) -> &'g Wanted {
        self.shared.wanted.get(guard)
    }

    /// Copies a packet, if the filter matches it. `now` is the time of the copy in nanoseconds. If all preallocated copies are in
    /// use, the packet is not copied, and counts as lost.
    pub fn copy(&mut self, now: u64, wanted: &Wanted, p: &mut Packet<'_>) {
        if self.point == Point::Drop {
            // An earlier node may have moved the packet's start behind the link header.
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
        // The ring has room for all copies.
        let _ = self.filled.push(copy);
    }
}

impl Rings {
    /// Returns rings without a capture.
    pub fn new(domain: &Domain) -> Rings {
        let (writer, wanted) = published(domain, Wanted::default());
        let control = Mutex::new(Control { wanted: writer, rings: Vec::new() });
        Rings(Arc::new(Shared { wanted, copied: AtomicU64::new(0), lost: AtomicU64::new(0), control }))
    }

    /// Begins a capture at these points. Of each packet that matches `filter`, it keeps up to `keep` bytes, at
    /// most [`MOST_BYTES`]. Waiting copies of an earlier capture are discarded.
    pub fn begin(&self, points: &[Point], keep: usize, filter: Option<Program>) {
        let mut control = self.control();
        let capture = control.wanted.get().capture + 1;
        control.wanted.set(Wanted { capture, keep: keep.min(MOST_BYTES), filter });
        for ring in &mut control.rings {
            while let Some(old) = ring.filled.pop() {
                let _ = ring.empty.push(old);
            }
            if points.contains(&ring.point) && !std::mem::replace(&mut ring.made, true) {
                // Each ring has room for all copies.
                (0..WAITING).for_each(|_| drop(ring.empty.push(Captured::new())));
            }
        }
    }

    /// Returns the number of copies that were lost because a ring was full, since the router started.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Passes up to about `most` copies to `each`, in the order in which they were made. Takes the same
    /// number from each worker and point, if they have as many. Returns the number of copies taken.
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
        // Sort by number, not by time: all copies of one turn of a worker have the same time, even if they
        // contain a packet and the answer to it.
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
        // A panic while the lock is held loses at most one copy.
        self.0.control.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the number of copies that wait for the main thread.
    pub fn waiting(&self) -> usize {
        self.control().rings.iter().map(|ring| ring.filled.len()).sum()
    }

    /// Returns the number of pairs of rings. Each worker has one pair for each point.
    #[cfg(test)]
    pub(crate) fn points(&self) -> usize {
        self.control().rings.len()
    }

    /// Returns a worker's rings for a point. Frees the rings of removed workers whose copies have been taken.
    pub fn copies(&self, point: Point) -> Copies {
        let (filled, filled_end) = spsc(WAITING);
        let (empty_end, empty) = spsc(WAITING);
        let worker = Arc::new(());
        let mut control = self.control();
        control.rings.retain(|ring| ring.worker.strong_count() > 0 || !ring.filled.is_empty());
        control.rings.push(Ring {
            point,
            filled: filled_end,
            empty: empty_end,
            made: false,
            worker: Arc::downgrade(&worker),
        });
        drop(control);
        Copies { point, empty, filled, shared: Arc::clone(&self.0), _worker: worker }
    }
}
