//! Buffers lent to a device. The device fills or reads them on its own, while the router continues.
//!
//! A device identifies a buffer by its offset in a [`Window`], the part of the arena that the device can
//! access. Offsets returned by the device are looked up in [`Lent`]; an offset whose buffer is not lent is
//! ignored. So whatever the device reports, no buffer has two owners. A device that returns buffers in order
//! need not identify them: [`LentInOrder`](crate::LentInOrder).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::frame::Frame;
use crate::layout::STRIDE;
use crate::packet::Held;
use crate::pool::{self, Cache, Pool};
use crate::record::{Flags, Record, Snapshot};
use crate::window::Window;

impl Window {
    /// Returns the window offset of a packet's buffer if it can be lent: it is the only buffer of the packet,
    /// and it is in the window.
    #[inline(always)]
    fn lendable(&self, flags: Flags, buffer: u32) -> Option<usize> {
        if flags.any(Flags::CHAINED) { None } else { self.place(buffer) }
    }

    /// Gives the buffers of packets from the front of a frame to `owner`: at most `n`, up to the first packet
    /// that cannot be lent or is empty. `owner` receives the buffer, its offset in the window, and the
    /// packet's offset and length in the buffer. Returns the number of buffers.
    #[inline(always)]
    pub(crate) fn lend_front(
        &self,
        frame: &mut Frame,
        n: usize,
        mut owner: impl FnMut(u32, usize, u16, u16),
    ) -> usize {
        frame.give_front(n, |record| match self.lendable(record.flags, record.buf) {
            Some(place) if record.len > 0 => {
                owner(record.buf, place, record.off, record.len);
                true
            }
            _ => false,
        })
    }

    /// Takes the next free buffer of the window. Returns the buffer and its offset in the window; `None` if neither the cache nor the
    /// depot has one.
    #[inline]
    pub(crate) fn next(&self, cache: &mut Cache) -> Option<(u32, usize)> {
        // Only the buffer's index is used, so the compiler leaves out the other fields of the record.
        let record = cache.take()?;
        match self.place(record.buf) {
            Some(place) => Some((record.buf, place)),
            None => self.next_inside(record, cache),
        }
    }

    /// Takes the next free buffer of the window in place of `outside`, and frees `outside`: that buffer was added to the pool
    /// later, so it is not in the window.
    #[cold]
    #[inline(never)]
    fn next_inside(&self, outside: Record, cache: &mut Cache) -> Option<(u32, usize)> {
        cache.free(outside);
        if !cache.surface() {
            return None;
        }
        let record = cache.take()?;
        match self.place(record.buf) {
            Some(place) => Some((record.buf, place)),
            // The cache belongs to another pool, so it has no buffer of this window.
            None => {
                cache.free(record);
                None
            }
        }
    }

    /// Returns a new, empty packet in a buffer of the window. `None` if no buffer of the window is free.
    pub fn alloc(&self, cache: &mut Cache) -> Option<Held> {
        self.next(cache).map(|(buffer, _)| Held::new(pool::fresh(buffer)))
    }
}

/// The buffers of a pool's [`Window`] that are lent to one device queue. The device identifies a returned buffer by its offset, and
/// may return the buffers in any order.
///
/// Dropping a `Lent` returns all its buffers to their pool: the device must have released them before.
pub struct Lent {
    window: Window,
    /// One bit for each buffer of the window, set while the buffer is lent.
    bits: Vec<u64>,
    /// Number of lent buffers.
    n: usize,
    /// Number of lent buffers, for the pool's statistics.
    count: Arc<AtomicUsize>,
}

impl Lent {
    /// Returns a `Lent` without buffers.
    pub fn new(pool: &Pool, window: Window) -> Lent {
        Lent { window, bits: vec![0; (window.len() / STRIDE).div_ceil(64)], n: 0, count: pool.lender() }
    }

    /// Number of lent buffers.
    pub fn len(&self) -> usize {
        self.n
    }

    /// True if no buffer is lent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if a packet can be lent: it has one buffer, which is in the window.
    #[inline]
    pub fn takes(&self, packet: &Snapshot) -> bool {
        self.window.lendable(packet.flags, packet.buffer).is_some()
    }

    /// Lends the buffers of packets from the front of a frame: at most `n`, up to the first packet that
    /// cannot be lent or is empty. For each buffer, passes to `each` its offset in the window, and the
    /// packet's offset and length in the buffer. Returns the number of buffers.
    #[inline]
    pub fn lend_front(
        &mut self,
        frame: &mut Frame,
        n: usize,
        mut each: impl FnMut(usize, u16, u16),
    ) -> usize {
        let window = self.window;
        let given = window.lend_front(frame, n, |_, place, off, len| {
            // From here on, the set bit owns the buffer.
            self.mark(place);
            each(place, off, len);
        });
        self.show();
        given
    }

    /// Lends the buffer of a new, empty packet. Returns its offset in the window; `None` if no buffer of the
    /// window is free.
    #[inline]
    pub fn lend_new(&mut self, cache: &mut Cache) -> Option<usize> {
        let (_, place) = self.window.next(cache)?;
        self.mark(place);
        self.show();
        Some(place)
    }

    /// Returns a new, empty packet that can be lent. `None` if no buffer of the window is free.
    pub fn alloc(&self, cache: &mut Cache) -> Option<Held> {
        self.window.alloc(cache)
    }

    /// Takes back the buffer at this offset of the window and frees it. Returns false if no buffer is lent
    /// there.
    #[inline]
    pub fn free(&mut self, place: usize, cache: &mut Cache) -> bool {
        let back = self.take(place).map(|buffer| cache.free(pool::fresh(buffer)));
        back.is_some()
    }

    /// Takes back the buffer at this offset of the window, and appends it to a frame as a packet of `len`
    /// bytes, at most the buffer's room. Returns false, without a change, if no buffer is lent there or the
    /// frame is full.
    #[inline]
    pub fn receive(&mut self, place: usize, len: usize, frame: &mut Frame) -> bool {
        if frame.room() == 0 {
            return false;
        }
        let back = self.take(place).map(|buffer| frame.push_new(buffer, len));
        back.is_some()
    }

    /// Takes back the buffer at this offset of the window as an empty packet. `None` if no buffer is lent
    /// there.
    #[inline]
    pub fn back(&mut self, place: usize) -> Option<Held> {
        self.take(place).map(|buffer| Held::new(pool::fresh(buffer)))
    }

    #[inline]
    fn mark(&mut self, place: usize) {
        // Buffers are adjacent, so an offset is a multiple of the stride.
        let number = place / STRIDE;
        self.bits[number / 64] |= 1 << (number % 64);
        self.n += 1;
    }

    /// Ends the loan of the buffer at this offset of the window. The caller then owns the buffer. `None` if
    /// no buffer is lent there.
    #[inline]
    fn take(&mut self, place: usize) -> Option<u32> {
        let number = self.window.number(place)?;
        let (word, bit) = (self.bits.get_mut(number / 64)?, 1 << (number % 64));
        if *word & bit == 0 {
            return None;
        }
        *word &= !bit;
        self.n -= 1;
        self.show();
        // The set bit stood for the buffer's only record. The bit is cleared, so a new record is allowed.
        Some(self.window.buffer(number))
    }

    /// Updates the pool's statistics.
    #[inline]
    fn show(&self) {
        // Only one thread at a time owns the queue, so there is no other writer.
        self.count.store(self.n, Ordering::Relaxed);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        for number in (0..self.bits.len() * 64).filter(|n| self.bits[n / 64] & 1 << (n % 64) != 0) {
            Held::new(pool::fresh(self.window.buffer(number))).discard();
        }
        self.count.store(0, Ordering::Relaxed);
    }
}
