//! Accounting of all packets: where each came from and where it ended.

use graph::stats::{MAIN_THREAD, NodeBooks};
use graph::{INJECT, PuntReason};

use super::Router;
use crate::handoff;
use crate::interface::TX;

/// Packet counts since the start; clearing counters does not change them:
///
/// received + injected + made = sent + dropped + consumed + handled + waiting
///
/// The equation is exact while no packet moves. Packets that the main thread gives to a device directly, outside the graph, are not
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Packets received from devices.
    pub received: u64,
    /// Packets that the main thread sent into the graph.
    pub injected: u64,
    /// Packets that nodes made: ICMP errors, fragments, requests to the main thread.
    pub made: u64,
    /// Packets that devices accepted.
    pub sent: u64,
    /// Packets that nodes dropped.
    pub dropped: u64,
    /// Packets that ended in nodes without a drop: they were ignored, fragmented, merged into others, or were messages from the main
    /// thread.
    pub consumed: u64,
    /// Punted packets that the main thread has handled.
    pub handled: u64,
    /// Packets in `handled` that the main thread dropped.
    pub handled_dropped: u64,
    /// Packets that wait: for next hops, for other fragments, for the main thread, or between workers.
    pub waiting: i64,
}

impl Accounts {
    /// Returns the number of packets that vanished; a negative number counts packets that came from nowhere. It is 0 while no packet
    /// moves.
    pub fn unaccounted(&self) -> i64 {
        let came = self.received + self.injected + self.made;
        let ended = self.sent + self.dropped + self.consumed + self.handled;
        came.wrapping_sub(ended) as i64 - self.waiting
    }

    fn count(&mut self, node: &NodeBooks) {
        self.dropped += node.dropped;
        match node.name {
            INJECT => self.injected += node.packets,
            handoff::INPUT => self.waiting -= node.packets as i64,
            _ if node.input => self.received += node.packets,
            // A packet counts as sent when the device accepts it; its buffers inside the device are the
            // driver's responsibility.
            TX => self.sent += node.packets.saturating_sub(node.dropped),
            // Dropped packets end here. Their reasons counted them already.
            graph::DROPPED => {}
            _ => {
                self.made += node.made;
                self.consumed += node.freed;
                self.waiting += node.kept;
            }
        }
    }
}

/// Packets that waited on a worker when it was removed. The main thread passes them to the first worker, or drops them. The graph counts
/// each passed packet again, as an injected packet. With the numbers here, the accounts correct this.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rehomed {
    sent: u64,
    /// Packets that the main thread dropped because the first worker did not take them in time.
    dropped: u64,
}

impl Rehomed {
    pub(super) fn count(&mut self, sent: bool) {
        *(if sent { &mut self.sent } else { &mut self.dropped }) += 1;
    }
}

impl Router {
    /// Returns the accounting of all packets.
    pub fn accounts(&self) -> Accounts {
        let stats = self.graph().stats();
        let reasons = 0..self.graph().punt_reasons().len() as u32;
        let handled: u64 = reasons.map(|number| stats.handled_total(PuntReason(number))).sum();
        let main = stats.dropped_totals().filter(|d| d.node == MAIN_THREAD && d.reason.drops);
        let handled_dropped = main.map(|d| d.packets).sum();
        let mut accounts =
            Accounts { handled, handled_dropped, waiting: -(handled as i64), ..Accounts::default() };
        stats.node_books().for_each(|node| accounts.count(&node));
        let Rehomed { sent, dropped } = self.rehomed;
        accounts.injected -= sent;
        accounts.handled += dropped;
        accounts.waiting -= (sent + dropped) as i64;
        accounts
    }
}
