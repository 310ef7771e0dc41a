//! The part of the arena that a device can access.

use std::ptr::NonNull;

use crate::arena;
use crate::layout::{LINE, STRIDE};

/// The memory of a pool's initial buffers. A device reads and writes packets there without the router's help.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    first: u32,
    len: usize,
}

impl Window {
    pub(crate) fn new(at: usize, len: usize) -> Window {
        Window { first: (at / LINE) as u32, len }
    }

    /// The first byte of the window.
    pub fn start(&self) -> NonNull<u8> {
        // SAFETY: `first` is the start of a pool's region, within the reserved range.
        unsafe { arena::at(arena::base(), self.first) }
    }

    /// The length of the window in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns false, because a window always has buffers.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a buffer's offset from the window's start; `None` if the buffer is outside of the window.
    #[inline]
    pub fn place(&self, buffer: u32) -> Option<usize> {
        let place = buffer.checked_sub(self.first)? as usize * LINE;
        (place + STRIDE <= self.len).then_some(place)
    }

    /// Returns the number of the buffer at this offset of the window; `None` if the offset is outside of the window or not a multiple of
    /// the stride. After the last buffer, the window may have unused bytes; an offset there gets the number of a buffer that does not
    /// exist.
    #[inline]
    pub(crate) fn number(&self, place: usize) -> Option<usize> {
        (place < self.len && place.is_multiple_of(STRIDE)).then_some(place / STRIDE)
    }

    /// Returns the buffer with this number.
    #[inline]
    pub(crate) fn buffer(&self, number: usize) -> u32 {
        self.first + (number * (STRIDE / LINE)) as u32
    }
}
