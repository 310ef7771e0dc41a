//! Captures: copies of packets for a file that tcpdump and Wireshark read.
//!
//! Three features copy packets where they come in (`device-input`), go out (`interface-output`) and are dropped (`drop`)
//! into a ring of each worker, from which the main thread takes them. They are on only for the interfaces of a running
//! capture, and cost nothing otherwise. A ring that is full loses copies, never packets.

mod node;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use graph::{Builder, GraphError};
use infra::ring::{Consumer, Producer, spsc};

use crate::Tables;
use node::{DropPlace, Pcap, RxPlace, TxPlace};

/// Bytes of a packet that a copy has at most.
pub const MOST_BYTES: usize = 2048;
/// Copies that wait for the main thread at most, by worker and place.
const WAITING: usize = 1024;

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
    /// The interface that it came in by, or goes out by.
    pub interface: u32,
    /// Where it was copied.
    pub point: Point,
    /// Why it is dropped, if it is: see [`graph::stats::Stats::reason`].
    pub reason: u32,
    /// Bytes of the packet.
    pub len: u32,
    kept: u16,
    bytes: [u8; MOST_BYTES],
}

impl Captured {
    /// The first bytes of the packet.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.kept)]
    }
}

/// What workers have copied and the main thread has not taken yet.
#[derive(Clone, Default)]
pub struct Captures(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Bytes of a packet that are kept.
    keep: AtomicU32,
    lost: AtomicU64,
    /// Locked when a worker is made, and by the main thread.
    rings: Mutex<Vec<Consumer<Captured>>>,
}

impl Captures {
    /// How many bytes of each packet are kept, [`MOST_BYTES`] at most.
    pub fn keep(&self, bytes: u32) {
        self.0.keep.store(bytes.min(MOST_BYTES as u32), Ordering::Relaxed);
    }

    /// Copies that found no room, since the start.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Gives up to `most` copies to `each`. Those of one worker and place come in order. Returns how many there were.
    pub fn take(&self, most: usize, mut each: impl FnMut(Captured)) -> usize {
        let mut taken = 0;
        for ring in self.rings().iter_mut() {
            while taken < most
                && let Some(captured) = ring.pop()
            {
                each(captured);
                taken += 1;
            }
        }
        taken
    }

    fn rings(&self) -> MutexGuard<'_, Vec<Consumer<Captured>>> {
        // A panic while the lock is held leaves the rings as they were.
        self.0.rings.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A ring of a worker's.
    fn ring(&self) -> Producer<Captured> {
        let (producer, consumer) = spsc(WAITING);
        self.rings().push(consumer);
        producer
    }
}

/// Adds the features, last on their arcs.
///
/// # Errors
/// When they do not fit in.
pub fn install(b: &mut Builder, t: &Tables) -> Result<(), GraphError> {
    for point in Point::ALL {
        let (arc, feature) = point.feature();
        b.feature(arc, feature, &[], &[]);
    }
    let captures = t.captures.clone();
    b.frame(move |_| Ok(Pcap::<RxPlace>::new(&captures)));
    let captures = t.captures.clone();
    b.frame(move |_| Ok(Pcap::<TxPlace>::new(&captures)));
    let captures = t.captures.clone();
    b.frame(move |_| Ok(Pcap::<DropPlace>::new(&captures)));
    Ok(())
}

#[cfg(test)]
mod tests;
