//! Packet accounting. Debug builds check after each node's run that no packet was lost or duplicated:
//!
//! in + made = out + dropped + freed + kept
//!
//! The graph measures all numbers except `kept`: from the lengths of frames, from the pending frames, and from the counters of the worker's
//! buffers. The node itself reports how many packets it keeps ([`buf::Cache::note_kept`]).

use buf::{Cache, Tally};

use crate::pending::Pending;

/// The counts of packets before a node runs, for the comparison after the run.
pub(crate) struct Books {
    came: usize,
    waiting: usize,
    to_drop: usize,
    tally: Tally,
}

impl Books {
    /// Records the counts of packets before a node receives `came` packets.
    pub(crate) fn open(came: usize, pending: &Pending, drop_node: u32, bufs: &Cache) -> Books {
        Books {
            came,
            waiting: pending.packets(),
            to_drop: pending.packets_of(drop_node),
            tally: bufs.tally(),
        }
    }

    /// Checks the counts of packets after a node has run and its packets have been passed on. If the whole frame moves on to one node,
    /// `whole` is the number of packets in the frame, because they are not in `pending`. Otherwise `whole` is 0.
    ///
    /// # Errors
    /// If packets were lost or duplicated: a text with the counts.
    pub(crate) fn close(
        self,
        whole: usize,
        pending: &Pending,
        drop_node: u32,
        bufs: &Cache,
    ) -> Result<(), String> {
        let now = bufs.tally();
        let count = |now: usize, before: usize| now as i64 - before as i64;
        let dropped = count(pending.packets_of(drop_node), self.to_drop);
        let out = count(pending.packets() + whole, self.waiting) - dropped;
        let (came, made) = (self.came as i64, (now.made - self.tally.made) as i64);
        let (freed, kept) = ((now.freed - self.tally.freed) as i64, now.kept - self.tally.kept);
        if came + made == out + dropped + freed + kept {
            return Ok(());
        }
        Err(format!(
            "{came} in + {made} made is not {out} out + {dropped} dropped + {freed} freed + {kept} kept"
        ))
    }
}
