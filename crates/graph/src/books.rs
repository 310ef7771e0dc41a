//! Packet accounting. Debug builds check after each dispatch that no packet was lost or duplicated:
//!
//! in + made = out + dropped + freed + kept
//!
//! All numbers but the last are observed from outside: by the lengths of frames, by the pending frames, and
//! by the tally of the worker's buffers. A node itself reports the packets that it keeps
//! ([`buf::Cache::note_kept`]).

use buf::{Cache, Tally};

use crate::pending::Pending;

/// The numbers before a dispatch.
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

    /// Checks the numbers after the node's packets have left it; `whole` of them are still in its frame.
    ///
    /// # Errors
    /// The mismatch, with the numbers.
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
