//! A second packet with the contents of a packet.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Held, Packet};
use crate::arena;
use crate::layout::{COLD, HEADROOM};
use crate::pool::Cache;
use crate::record::{Flags, Record};

impl Packet<'_> {
    /// Returns a second packet with the same bytes and metadata: the first buffer's contents (with the link header and feature bytes) are
    /// copied, and both packets share all later buffers. `None` if no buffer is free.
    pub fn duplicate(&self, cache: &mut Cache) -> Option<Held> {
        let record = cache.take()?;
        let copy = Record { buf: record.buf, ..*self.record };
        let first = match copy.l3 {
            0 => copy.off as usize,
            l3 => (l3 as usize).saturating_sub(copy.l2_len as usize).clamp(HEADROOM, copy.off as usize),
        };
        let last = copy.off as usize + self.len();
        // SAFETY: both heads are owned (ours, and the new one), so they do not overlap; both ranges are
        // within a buffer. The link of the copy keeps its own pool and state.
        unsafe {
            let to = arena::at(self.base, copy.buf).as_ptr();
            std::ptr::copy_nonoverlapping(self.ptr(first), to.add(first), last - first);
            std::ptr::copy_nonoverlapping(self.ptr(COLD), to.add(COLD), HEADROOM - COLD);
            let link = arena::link(copy.buf);
            (link.next, link.tail_len) = (self.link().next, self.link().tail_len);
        }
        if copy.flags.any(Flags::CHAINED) {
            // SAFETY: the share count of the second buffer stands for all buffers after the first. It is changed atomically because other
            // threads may hold or release these buffers.
            unsafe {
                let shares = AtomicU32::from_ptr(&raw mut (*arena::link_ptr(self.link().next)).shares);
                shares.fetch_add(1, Ordering::AcqRel);
            }
        }
        Some(Held::new(copy))
    }
}
