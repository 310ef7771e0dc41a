//! Buffers that are lent to a device, which fills or reads them by itself while the router does other things.
//!
//! A device names a buffer by its place in a [`Window`], the part of the arena that it was shown. What it gives back is
//! looked up in [`Lent`]: a name that is not lent, or no longer, is nobody's buffer. So whatever a device says, no buffer
//! has two owners.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::arena;
use crate::frame::Held;
use crate::layout::{LINE, STRIDE};
use crate::pool::{self, Pool};
use crate::record::{Flags, Snapshot};

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

    /// The line of the arena that begins so many bytes from the window's start: a buffer's index, if one begins there.
    #[inline]
    fn line(&self, place: usize) -> Option<usize> {
        (place < self.len && place.is_multiple_of(LINE)).then_some(place / LINE)
    }
}

/// The buffers of a window that one queue of a device has.
///
/// Dropped, it gives all of them back to their pool: the device must have let go of them.
pub struct Lent {
    window: Window,
    /// A bit for each line of the window: set where a buffer begins that is lent.
    bits: Vec<u64>,
    /// How many are, for the pool's statistics.
    count: Arc<AtomicUsize>,
}

impl Lent {
    /// None yet.
    pub fn new(pool: &Pool, window: Window) -> Lent {
        Lent { window, bits: vec![0; (window.len / LINE).div_ceil(64)], count: pool.lender() }
    }

    /// How many buffers are lent.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a packet can be lent: it has one buffer, which lies in the window.
    #[inline]
    pub fn takes(&self, packet: &Snapshot) -> bool {
        !packet.flags.any(Flags::CHAINED) && self.window.place(packet.buffer).is_some()
    }

    /// Lends a packet's buffer; gives its place in the window. What is known of the packet is forgotten.
    ///
    /// # Errors
    /// Gives the packet back that has more than one buffer, or lies outside of the window.
    #[inline]
    pub fn lend(&mut self, held: Held) -> Result<usize, Held> {
        let snapshot = held.snapshot();
        let place = self.window.place(snapshot.buffer);
        let (Some(place), false) = (place, snapshot.flags.any(Flags::CHAINED)) else { return Err(held) };
        let line = place / LINE;
        self.bits[line / 64] |= 1 << (line % 64);
        self.add(1);
        // The bit is the owner now.
        let _ = held.into_record();
        Ok(place)
    }

    /// Takes the buffer back that begins at this place: an empty packet. `None` when none is lent there.
    #[inline]
    pub fn back(&mut self, place: usize) -> Option<Held> {
        let line = self.window.line(place)?;
        let (word, bit) = (self.bits.get_mut(line / 64)?, 1 << (line % 64));
        if *word & bit == 0 {
            return None;
        }
        *word &= !bit;
        self.add(-1);
        // A bit is set by `lend` only, which took the buffer's one record; it is cleared, so this is again the only one.
        Some(Held::new(pool::fresh(self.window.first + line as u32)))
    }

    #[inline]
    fn add(&self, change: isize) {
        // One thread at a time has the queue: nobody else writes.
        self.count.store(self.len().wrapping_add_signed(change), Ordering::Relaxed);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        for line in (0..self.bits.len() * 64).filter(|line| self.bits[line / 64] & 1 << (line % 64) != 0) {
            Held::new(pool::fresh(self.window.first + line as u32)).discard();
        }
        self.count.store(0, Ordering::Relaxed);
    }
}
