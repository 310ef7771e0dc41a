//! One packet outside of a frame.

use std::mem::MaybeUninit;

use super::Packet;
use crate::arena;
use crate::pool::{self, Cache};
use crate::record::{Record, Snapshot};

/// A packet outside of a frame: in a queue, on its way between threads, or newly made.
///
/// A `Held` is put back into a frame ([`Frame::push`](crate::Frame::push)) or freed ([`Held::free`]). If it is dropped instead, its
/// buffers are freed too, but the packet is counted as lost, because no node has counted the packet's end.
pub struct Held(MaybeUninit<Record>);

// A record is plain integers, and every thread can access its buffer's memory.
const _: () = {
    const fn send<T: Send>() {}
    send::<Held>();
};

impl Held {
    #[inline(always)]
    pub(crate) fn new(record: Record) -> Held {
        Held(MaybeUninit::new(record))
    }

    #[inline(always)]
    pub(crate) fn into_record(self) -> Record {
        // SAFETY: a Held always has its record; `forget` keeps the drop from freeing it.
        let record = unsafe { self.0.assume_init_read() };
        std::mem::forget(self);
        record
    }

    /// Returns a new, empty packet; `None` if no buffer is free.
    #[inline]
    pub fn alloc(cache: &mut Cache) -> Option<Held> {
        cache.take().map(Held::new)
    }

    /// Returns a cursor over the packet.
    #[inline]
    pub fn packet(&mut self) -> Packet<'_> {
        // SAFETY: a Held always has its record, and the borrow is unique.
        Packet::new(unsafe { self.0.assume_init_mut() }, arena::base())
    }

    /// Returns the packet's metadata.
    #[inline(always)]
    pub fn snapshot(&self) -> Snapshot {
        // SAFETY: a Held always has its record.
        unsafe { self.0.assume_init_ref() }.snapshot()
    }

    /// Frees the buffers.
    #[inline]
    pub fn free(self, cache: &mut Cache) {
        cache.free(self.into_record());
    }

    /// Frees the packet's buffers, from a thread without a cache.
    pub fn discard(self) {
        pool::free_far(&self.into_record(), false);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: a Held always has its record.
        pool::free_far(unsafe { self.0.assume_init_ref() }, true);
    }
}
