//! The interface of drivers: receive and transmit queues.

use std::os::fd::BorrowedFd;

use crate::frame::Frame;
use crate::pool::Cache;

/// The device behind a queue has vanished, for good or until it is opened again. The text is the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gone(pub String);

/// Packets that arrived at a device but were not received by the router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Packets that the device dropped before they reached its queue.
    pub missed: u64,
    /// Packets that were unusable in the queue: truncated, inconsistent, or too large for the free buffers.
    pub unusable: u64,
}

/// A receive queue. Only one worker at a time polls it.
pub trait RxQueue: Send {
    /// Appends received packets, at most as many as the frame has room for. Each begins with its Ethernet
    /// header (or its IP header, for layer 3 devices). Never blocks.
    ///
    /// # Errors
    /// [`Gone`] if the device has vanished; the queue is not polled again.
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone>;

    /// The descriptor to sleep on until packets arrive; `None` for a queue that must be polled while it is
    /// [active](RxQueue::active).
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// True if a queue without an `fd` may have packets. If false, its worker may sleep, and code that makes the queue active again
    /// must wake the worker.
    fn active(&self) -> bool {
        true
    }

    /// Time at which the next packets of an active queue without an `fd` are due, in nanoseconds of the monotonic clock. The worker
    /// may sleep until then. `None` if the time is unknown: the worker must poll the queue.
    fn next_due(&self) -> Option<u64> {
        None
    }

    /// Called before the queue's worker sleeps on [`fd`](RxQueue::fd). Returns false if there are packets
    /// already, so that the worker must not sleep. A queue whose peer wakes it only on request makes the
    /// request here, and checks for packets once more.
    fn before_sleep(&mut self) -> bool {
        true
    }

    /// Number of packets that fit into the queue while it is not polled; further packets are lost. The number
    /// may change with each change of the device's link.
    fn depth(&self) -> usize {
        512
    }

    /// Packets lost since the last call. May make a system call, so it is only called once in many polls.
    fn take_lost(&mut self) -> Lost {
        Lost::default()
    }
}

/// Capabilities of a transmit queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCaps {
    /// True if the queue accepts packets with `GSO` (larger than the MTU, to be segmented by the device or the receiver).
    pub gso: bool,
    /// True if the queue accepts packets with `CSUM_PARTIAL`.
    pub csum: bool,
}

/// The reason why a transmit queue left packets in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// There is no room for these packets now.
    Full,
    /// The device's link is down.
    Down,
    /// The device will never accept the first packet left in the frame, but it may accept the next ones.
    /// Remove the first packet and call again.
    Refused,
    /// The device has vanished.
    Gone,
}

/// A transmit queue. It is locked once per frame if workers share it.
pub trait TxQueue: Send {
    /// Sends packets from the front of the frame and frees them.
    ///
    /// # Errors
    /// If some packets stay in the frame. The error is the reason.
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent>;

    /// The capabilities of the queue.
    fn caps(&self) -> TxCaps;
}
