//! Buffers that are lent to a device, which fills or reads them by itself while the router does other things.
//!
//! A device names a buffer by its place in a [`Window`], the part of the arena that it was shown. What it gives back is
//! looked up in [`Lent`]: a name that is not lent, or no longer, is nobody's buffer. So whatever a device says, no buffer
//! has two owners. One that gives buffers back in the order in which it got them need not name them: [`LentInOrder`](crate::LentInOrder).

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::arena;
use crate::frame::{Frame, Held};
use crate::layout::{LINE, STRIDE};
use crate::pool::{self, Cache, Pool};
use crate::record::{Flags, Record, Snapshot};

/// The memory of a pool, for a device that reads and writes packets there by itself.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    first: u32,
    len: usize,
}

impl Window {
    pub(crate) fn new(at: usize, len: usize) -> Window {
        Window { first: (at / LINE) as u32, len }
    }

    /// Its first byte.
    pub fn start(&self) -> NonNull<u8> {
        // SAFETY: `first` is where a region of a pool begins, within the reserved range.
        unsafe { arena::at(arena::base(), self.first) }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no byte. It has.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where a buffer begins, in bytes from the window's start; `None` when it lies elsewhere.
    #[inline]
    pub fn place(&self, buffer: u32) -> Option<usize> {
        let place = buffer.checked_sub(self.first)? as usize * LINE;
        (place + STRIDE <= self.len).then_some(place)
    }

    /// Where the buffer of a packet begins that can be lent: it has only this one.
    #[inline(always)]
    fn lendable(&self, flags: Flags, buffer: u32) -> Option<usize> {
        if flags.any(Flags::CHAINED) { None } else { self.place(buffer) }
    }

    /// Gives the buffers of packets from the front of a frame to `owner`, `n` at most, up to the first that cannot be lent or is
    /// empty. `owner` is told the buffer, where in the window it begins, and offset and length of the packet in it. Gives how many.
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

    /// The next free buffer of the window, which is the caller's then, and its place there. `None` when none is free.
    #[inline]
    pub(crate) fn next(&self, cache: &mut Cache) -> Option<(u32, usize)> {
        // A record that is not looked at is never written.
        let record = cache.take()?;
        match self.place(record.buf) {
            Some(place) => Some((record.buf, place)),
            None => self.next_inside(record, cache),
        }
    }

    /// The same, where the next of all lies elsewhere: it was added to the pool since devices were shown its memory.
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
            // The cache is of another pool.
            None => {
                cache.free(record);
                None
            }
        }
    }

    /// A new, empty packet in a buffer of the window. `None` when none is free.
    pub fn alloc(&self, cache: &mut Cache) -> Option<Held> {
        self.next(cache).map(|(buffer, _)| Held::new(pool::fresh(buffer)))
    }

    /// Which of the window's buffers begins so many bytes from its start.
    #[inline]
    fn number(&self, place: usize) -> Option<usize> {
        (place < self.len && place.is_multiple_of(STRIDE)).then_some(place / STRIDE)
    }

    /// The buffer of this number.
    #[inline]
    fn buffer(&self, number: usize) -> u32 {
        self.first + (number * (STRIDE / LINE)) as u32
    }
}

/// The buffers of a window that one queue of a device has, which gives them back by name, in any order.
///
/// Dropped, it gives all of them back to their pool: the device must have let go of them.
pub struct Lent {
    window: Window,
    /// A bit for each buffer of the window: set where it is lent.
    bits: Vec<u64>,
    /// How many are.
    n: usize,
    /// The same, for the pool's statistics.
    count: Arc<AtomicUsize>,
}

impl Lent {
    /// None yet.
    pub fn new(pool: &Pool, window: Window) -> Lent {
        Lent { window, bits: vec![0; (window.len / STRIDE).div_ceil(64)], n: 0, count: pool.lender() }
    }

    /// How many buffers are lent.
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a packet can be lent: it has one buffer, which lies in the window.
    #[inline]
    pub fn takes(&self, packet: &Snapshot) -> bool {
        self.window.lendable(packet.flags, packet.buffer).is_some()
    }

    /// Lends the buffers of packets from the front of a frame, `n` at most, up to the first that cannot be lent or is empty. Says
    /// of each where in the window it begins, and offset and length of the packet in it. Gives how many.
    #[inline]
    pub fn lend_front(
        &mut self,
        frame: &mut Frame,
        n: usize,
        mut each: impl FnMut(usize, u16, u16),
    ) -> usize {
        let window = self.window;
        let given = window.lend_front(frame, n, |_, place, off, len| {
            // The bit is the owner now.
            self.mark(place);
            each(place, off, len);
        });
        self.show();
        given
    }

    /// Lends the buffer of a new, empty packet; gives its place in the window. `None` when no buffer of the window is free.
    #[inline]
    pub fn lend_new(&mut self, cache: &mut Cache) -> Option<usize> {
        let (_, place) = self.window.next(cache)?;
        self.mark(place);
        self.show();
        Some(place)
    }

    /// A new, empty packet that can be lent. `None` when no buffer of the window is free.
    pub fn alloc(&self, cache: &mut Cache) -> Option<Held> {
        self.window.alloc(cache)
    }

    /// Takes the buffer back that begins at this place, and frees it. `false` when none is lent there.
    #[inline]
    pub fn free(&mut self, place: usize, cache: &mut Cache) -> bool {
        let back = self.take(place).map(|buffer| cache.free(pool::fresh(buffer)));
        back.is_some()
    }

    /// Takes the buffer back that begins at this place, and appends it to a frame, which has room: a packet of `len` bytes, or of
    /// what the buffer has room for. `false` when none is lent there.
    #[inline]
    pub fn receive(&mut self, place: usize, len: usize, frame: &mut Frame) -> bool {
        if frame.room() == 0 {
            return false;
        }
        let back = self.take(place).map(|buffer| frame.push_new(buffer, len));
        back.is_some()
    }

    /// Takes the buffer back that begins at this place: an empty packet. `None` when none is lent there.
    #[inline]
    pub fn back(&mut self, place: usize) -> Option<Held> {
        self.take(place).map(|buffer| Held::new(pool::fresh(buffer)))
    }

    #[inline]
    fn mark(&mut self, place: usize) {
        // Buffers follow each other without gaps.
        let number = place / STRIDE;
        self.bits[number / 64] |= 1 << (number % 64);
        self.n += 1;
    }

    /// The buffer that is lent at this place, and is not any more. Whoever calls owns it.
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
        // A bit is set where the buffer's one record was taken; it is cleared, so there may be one again.
        Some(self.window.buffer(number))
    }

    /// Has the pool's statistics count what is lent.
    #[inline]
    fn show(&self) {
        // One thread at a time has the queue: nobody else writes.
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
