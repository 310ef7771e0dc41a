//! Accounting of all packets: their origins and their ends.

use graph::stats::{MAIN_THREAD, NodeBooks};
use graph::{INJECT, PuntReason};

use super::Router;
use crate::handoff;
use crate::interface::TX;

/// Packet counts since the start, unaffected by clears:
///
/// received + injected + made = sent + dropped + consumed + handled + waiting
///
/// Exact while no packet moves. Excludes packets that the main thread hands to a device directly, outside the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Packets received from devices.
    pub received: u64,
    /// Packets that the main thread sent into the graph.
    pub injected: u64,
    /// Packets that nodes made: ICMP errors, fragments, requests to the main thread.
    pub made: u64,
    /// Packets that devices took.
    pub sent: u64,
    /// Packets that nodes dropped, each for a reason.
    pub dropped: u64,
    /// Packets that ended in nodes: ignored, cut into others, merged with others, messages of the main thread.
    pub consumed: u64,
    /// Punted packets that the main thread has handled.
    pub handled: u64,
    /// The part of `handled` that the main thread dropped, each for a reason.
    pub handled_dropped: u64,
    /// Packets waiting: for next hops, for other fragments, for the main thread, or between workers.
    pub waiting: i64,
}

impl Accounts {
    /// Returns the packets without an end, or, if negative, without an origin. 0 while no packet moves.
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
            // Buffers inside a device are up to its driver.
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

/// Packets that waited on a retired worker and moved to another one, so that they are counted once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rehomed {
    sent: u64,
    /// Dropped by the main thread, because the other worker was busy.
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
