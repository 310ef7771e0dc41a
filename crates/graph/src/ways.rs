//! Distributes the packets that leave a node: along its edges, into arcs, to `error-drop`, or out of the graph.

use buf::{Cache, Frame, Held};
use infra::counters::Lane;
use kernels::Codes;

use crate::arc::{ArcKey, Row, Rows, TO_END};
use crate::edge::{CONSUMED, FIRST_REASON, HELD, Outcome, ReasonInfo};
use crate::info::{NO_NODE, NO_ROW, Target};
use crate::pending::Pending;

/// Returns the row of an edge that enters an arc; `None` if no feature of the row is enabled on any interface, or the edge enters no arc.
#[inline(always)]
fn enabled<'r>(targets: &[Target], rows: &'r Rows, edge: u8) -> Option<&'r Row> {
    rows.0.get(usize::from(targets[usize::from(edge)].row)).filter(|row| row.any)
}

/// Replaces each packet's edge that enters an arc. The new edge is the one that the arc's row has for the packet's interface.
#[inline(always)]
pub(crate) fn enter_arcs(
    targets: &[Target],
    arc_edges: &[u8],
    rows: &Rows,
    frame: &mut Frame,
    codes: &mut Codes,
    outcome: Outcome,
) -> Outcome {
    // Usually no node is enabled. This test is inlined here, apart from the rest, because that is faster for short frames.
    if arc_edges.iter().all(|edge| enabled(targets, rows, *edge).is_none()) {
        return outcome;
    }
    enter_enabled(targets, arc_edges, rows, frame, codes, outcome)
}

#[inline(never)]
fn enter_enabled(
    targets: &[Target],
    arc_edges: &[u8],
    rows: &Rows,
    frame: &mut Frame,
    codes: &mut Codes,
    outcome: Outcome,
) -> Outcome {
    let mut outcome = outcome;
    for &edge in arc_edges {
        let Some(row) = enabled(targets, rows, edge) else { continue };
        match outcome {
            Outcome::All(code) if code != edge => continue,
            Outcome::All(_) => {
                if row.key == ArcKey::Rx
                    && let Some(interface) = frame.uniform_rx()
                {
                    return Outcome::All(row.edge(interface, edge));
                }
                codes.0[..frame.len()].fill(edge);
                outcome = Outcome::Mixed;
            }
            Outcome::Mixed | Outcome::InOrder => {}
        }
        for (code, p) in codes.0.iter_mut().zip(frame.packets()) {
            if *code == edge {
                *code = row.edge(key(row, &p), edge);
            }
        }
    }
    outcome
}

#[inline(always)]
fn key(row: &Row, p: &buf::Packet<'_>) -> u32 {
    match row.key {
        ArcKey::Rx => p.rx_if(),
        ArcKey::Tx => p.tx_if(),
    }
}

/// Distributes the packets of a frame that do not all leave by the same edge.
pub(crate) struct Ways<'a> {
    pub(crate) targets: &'a [Target],
    pub(crate) first_reason: u32,
    pub(crate) reason_info: &'a [&'static ReasonInfo],
    pub(crate) drop_node: u32,
    pub(crate) pending: &'a mut Pending,
    pub(crate) reasons: &'a mut Lane<1>,
    pub(crate) bufs: &'a mut Cache,
    pub(crate) held: &'a mut Option<Box<Frame>>,
}

impl Ways<'_> {
    /// Frees the packets that the node is done with.
    fn free(&mut self, fill: impl FnOnce(&mut Frame)) {
        let mut done = self.pending.spare();
        fill(&mut done);
        done.free(self.bufs);
        self.pending.recycle(done);
    }
}

impl kernels::Target for Ways<'_> {
    fn with(&mut self, code: u8, count: usize, fill: impl FnOnce(&mut Frame)) {
        match code {
            HELD => fill(self.held.get_or_insert_with(|| self.pending.spare())),
            code if code < FIRST_REASON && usize::from(code) < self.targets.len() => {
                fill(self.pending.frame_for(self.targets[usize::from(code)].node, count));
            }
            code if let Some(info) = self.reason_info.get(usize::from(code.wrapping_sub(FIRST_REASON))) => {
                let reason = self.first_reason + u32::from(code - FIRST_REASON);
                self.reasons.add(reason, [count as u64]);
                if !info.drops {
                    return self.free(fill);
                }
                let frame = self.pending.frame_for(self.drop_node, count);
                let first = frame.len();
                fill(frame);
                frame.packets().skip(first).for_each(|mut p| p.set_fwd(reason));
            }
            CONSUMED => self.free(fill),
            // The code is not the number of an edge, which is always a bug: the packets are freed and counted
            // as lost.
            _ => {
                let mut stray = Frame::new();
                fill(&mut stray);
            }
        }
    }
}

/// Receives the packets that a node sends but that are not in its frame.
pub struct Sink<'o> {
    pub(crate) pending: &'o mut Pending,
    pub(crate) targets: &'o [Target],
    pub(crate) rows: &'o Rows,
    pub(crate) reasons: &'o mut Lane<1>,
    pub(crate) runtime: &'o mut Lane<4>,
    /// The nodes of [`FrameNode::THROUGH`](crate::FrameNode::THROUGH), [`NO_NODE`] in place of one that does not exist.
    pub(crate) through: &'o [u32],
    /// True if the call is timed.
    pub(crate) timed: bool,
    pub(crate) freed_by: &'o mut u32,
    pub(crate) first_reason: u32,
    pub(crate) drop_node: u32,
}

impl Sink<'_> {
    /// See [`Out::meets_feature`](crate::Out::meets_feature).
    #[inline(always)]
    pub(crate) fn meets_feature(&self, edge: u8, interface: Option<u32>) -> bool {
        let row = enabled(self.targets, self.rows, edge);
        row.is_some_and(|row| interface.is_none_or(|i| row.edge(i, TO_END) != TO_END))
    }

    /// See [`Out::is_alone`](crate::Out::is_alone).
    #[inline(always)]
    pub(crate) fn is_alone(&self) -> bool {
        self.pending.is_empty()
    }

    /// See [`Out::ended_in`](crate::Out::ended_in).
    #[inline(always)]
    pub(crate) fn ended_in(&mut self, through: usize, packets: u64) {
        self.went_through(through, packets);
        if let Some(&node) = self.through.get(through)
            && node != NO_NODE
        {
            *self.freed_by = node;
        }
    }

    /// See [`Out::went_through`](crate::Out::went_through).
    #[inline(always)]
    pub(crate) fn went_through(&mut self, through: usize, packets: u64) {
        // The time is counted for the node that took the packets through. Here it is 0, so that the averages of all nodes add up.
        if let Some(&node) = self.through.get(through)
            && node != NO_NODE
            && packets > 0
        {
            self.runtime.add(node, [1, packets, if self.timed { packets } else { 0 }, 0]);
        }
    }

    pub(crate) fn emit(&mut self, code: u8, mut packet: Held) {
        if code >= FIRST_REASON {
            let reason = self.first_reason + u32::from(code - FIRST_REASON);
            self.reasons.add(reason, [1]);
            packet.packet().set_fwd(reason);
            self.put(self.drop_node, packet);
            return;
        }
        // The node does not have this edge: dropping the packet as a value frees it and counts it as lost.
        let Some(&target) = self.targets.get(usize::from(code)) else { return };
        let row = if target.row == NO_ROW { None } else { self.rows.0.get(usize::from(target.row)) };
        let code = match row {
            Some(row) if row.any => row.edge(key(row, &packet.packet()), code),
            _ => code,
        };
        if let Some(target) = self.targets.get(usize::from(code)) {
            self.put(target.node, packet);
        }
    }

    fn put(&mut self, node: u32, packet: Held) {
        if let Err(packet) = self.pending.frame_for(node, 1).push(packet) {
            // `frame_for` returned a frame with room for one packet, so this does not happen.
            drop(packet);
        }
    }

    pub(crate) fn count(&mut self, reason: u8, n: u64) {
        self.reasons.add(self.first_reason + u32::from(reason), [n]);
    }
}
