//! The packets on the rings between workers and the main thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use buf::Held;
use infra::counters::Lane;
use infra::doorbell::Doorbell;
use infra::ring::{Consumer, Producer};

use crate::edge::EdgeId;

/// The number of a punt reason, from [`Builder::punt_reason`](crate::Builder::punt_reason).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PuntReason(pub u32);

/// A punt reason.
#[derive(Debug)]
pub struct PuntInfo {
    /// Name of the punt reason.
    pub name: &'static str,
    /// The declared maximum number of packets per second that one worker passes to the main thread for this reason.
    pub default_rate: u32,
    /// The current maximum, in packets per second for each worker.
    rate: AtomicU32,
}

impl PuntInfo {
    pub(crate) fn new(name: &'static str, rate: u32) -> PuntInfo {
        PuntInfo { name, default_rate: rate, rate: AtomicU32::new(rate) }
    }

    /// Returns the current maximum number of packets per second that one worker passes to the main thread for this reason.
    pub fn rate(&self) -> u32 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Sets the maximum number of packets per second that each worker passes to the main thread. It applies from the next packet on.
    pub fn set_rate(&self, rate: u32) {
        self.rate.store(rate, Ordering::Relaxed);
    }
}

/// A packet for the main thread.
pub struct Punted {
    /// The reason why the packet was punted.
    pub reason: PuntReason,
    /// The packet. Its data starts at the offset that the punting node set.
    pub packet: Held,
}

/// A packet from the main thread.
pub struct Inject {
    /// An edge of the [`INJECT`](crate::INJECT) node, from [`Builder::inject_to`](crate::Builder::inject_to).
    pub edge: EdgeId,
    /// The packet.
    pub packet: Held,
}

/// A worker's ends of the rings to and from the main thread.
pub(crate) struct Rings {
    pub(crate) punt: Producer<Punted>,
    pub(crate) punted: Lane<2>,
    pub(crate) wake_main: Arc<Doorbell>,
    pub(crate) inject: Consumer<Inject>,
    pub(crate) wake: Arc<Doorbell>,
    pub(crate) reasons: Arc<[PuntInfo]>,
}
