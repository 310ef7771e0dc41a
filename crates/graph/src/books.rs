//! Packet accounting. Debug builds check after each node's run that no packet was lost or duplicated:
//!
//! in + made = out + dropped + freed + kept
//!
//! All numbers except `kept` are observed from outside: from the lengths of frames, from the pending frames,
//! and from the counters of the worker's buffers. The node itself reports how many packets it keeps
//! ([`buf::Cache::note_kept`]).

use buf::{Cache, Tally};

use crate::pending::Pending;

/// The numbers before a node runs.
pub(crate) struct Books {
    came: usize,
    waiting: usize,
    to_drop: usize,
    tally: Tally,
}

impl Books {
    /// Records the numbers before a node receives `came` packets.
    pub(crate) fn open(came: usize, pending: &Pending, drop_node: u32, bufs: &Cache) -> Books {
        Books {
            came,
            waiting: pending.packets(),
            to_drop: pending.packets_of(drop_node),
            tally: bufs.tally(),
        }
    }

    /// Checks that the numbers match after the node's packets have left it. If the whole frame moves on to
    /// one node, its packets are not in `pending`, and `whole` is their number. Otherwise `whole` is 0.
    ///
    /// # Errors
    /// Returns a text with the numbers if they do not match.
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
