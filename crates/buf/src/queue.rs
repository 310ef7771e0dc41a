//! What a driver is to the rest: queues that packets come from and go to.

use std::os::fd::BorrowedFd;

use crate::frame::Frame;
use crate::pool::Cache;

/// The device behind a queue is gone, for good or until it is opened again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone(pub String);

/// Packets that came to a device, and did not become the router's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Dropped by the device before its queue saw them.
    pub missed: u64,
    /// Of no use when the queue saw them: cut off, contradictory, or too large for the free buffers.
    pub unusable: u64,
}

/// A queue that packets come in by. One worker at a time polls it.
pub trait RxQueue: Send {
    /// Appends what has come, at most as many packets as the frame has room for. Each begins with its Ethernet
    /// header (or its IP header for devices of layer 3). Never blocks.
    ///
    /// # Errors
    /// [`Gone`] when the device vanished; the queue is not polled again.
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone>;

    /// What to sleep on until packets come; `None` for a queue that has to be polled while it is
    /// [active](RxQueue::active).
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Whether a queue without an `fd` may have packets: if not, it keeps no worker awake. Whoever makes it active
    /// again wakes the worker.
    fn active(&self) -> bool {
        true
    }

    /// When an active queue without an `fd` has its next packets, nanoseconds of the monotonic clock, as far as that is
    /// known: until then its worker may sleep. `None`: it has to be polled.
    fn next_due(&self) -> Option<u64> {
        None
    }

    /// Its worker is about to sleep on [`fd`](RxQueue::fd). `false`: there are packets already, and it must not. A queue
    /// whose peer wakes it only when asked to asks here, and looks once more.
    fn before_sleep(&mut self) -> bool {
        true
    }

    /// Packets that there is room for while nobody polls: those beyond are lost. It may be another number after each change
    /// of the device's link.
    fn depth(&self) -> usize {
        512
    }

    /// What was lost since the last call. It may ask the kernel, so it is called once in many polls.
    fn take_lost(&mut self) -> Lost {
        Lost::default()
    }
}

/// What a transmit queue can do for the packets given to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCaps {
    /// Takes packets with `GSO` (larger than the MTU, to be cut by whoever receives or sends them).
    pub gso: bool,
    /// Takes packets with `CSUM_PARTIAL`.
    pub csum: bool,
}

/// Why a transmit queue left packets in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// There is no room for them now.
    Full,
    /// The device's link is down.
    Down,
    /// The device does not take the first of them, now or later. Those behind it may go: take it out, and call again.
    Refused,
    /// The device vanished.
    Gone,
}

/// A queue that packets go out by. Locked once a frame where workers share it.
pub trait TxQueue: Send {
    /// Sends packets from the front of the frame and frees what was sent.
    ///
    /// # Errors
    /// Why the packets that are still in the frame were not sent.
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent>;

    /// What it can do.
    fn caps(&self) -> TxCaps;
}
