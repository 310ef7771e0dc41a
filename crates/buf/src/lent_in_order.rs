//! Buffers lent to a device that returns them in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::frame::Frame;
use crate::packet::Held;
use crate::pool::{self, BATCH, Cache, Pool};
use crate::window::Window;

/// The buffers of a pool's [`Window`] that are lent to one device ring, the oldest first. The device returns them in this order and
/// does not identify them. So whatever the device reports, no buffer has two owners.
///
/// Dropping a `LentInOrder` returns all its buffers to their pool: the device must have released them before.
pub struct LentInOrder {
    window: Window,
    /// The lent buffers, in a ring whose number of slots is a power of two. The slots from `first` to `end` have buffers; both
    /// counters increase without limit.
    ring: Box<[u32]>,
    first: usize,
    end: usize,
    /// Number of lent buffers, for the pool's statistics.
    count: Arc<AtomicUsize>,
}

impl LentInOrder {
    /// Returns a `LentInOrder` without buffers, for at most `size` buffers, rounded up to a power of two.
    pub fn new(pool: &Pool, size: usize) -> LentInOrder {
        let ring = vec![0; size.next_power_of_two()].into();
        LentInOrder { window: pool.window(), ring, first: 0, end: 0, count: pool.lender() }
    }

    /// Number of lent buffers.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.first
    }

    /// True if no buffer is lent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The window of the buffers.
    #[inline]
    pub fn window(&self) -> &Window {
        &self.window
    }

    #[inline(always)]
    fn slot(&self, i: usize) -> usize {
        i & (self.ring.len() - 1)
    }

    /// Number of buffers that can still be lent.
    #[inline]
    fn room(&self) -> usize {
        self.ring.len() - self.len()
    }

    /// Returns the `n` buffers that were lent first (all, if fewer are lent), as offsets in the window.
    #[inline]
    pub fn oldest(&self, n: usize) -> impl Iterator<Item = usize> {
        let buffers = (self.first..self.first + n.min(self.len())).map(|i| self.ring[self.slot(i)]);
        buffers.filter_map(|buffer| self.window.place(buffer))
    }

    /// Lends the buffers of packets from the front of a frame: at most `n`, at most as many as the ring has room for, and up to the first
    /// packet that cannot be lent or is empty. For each buffer, passes to `each` its offset in the window, and the packet's offset and
    /// length in the buffer. Returns the number of buffers.
    #[inline]
    pub fn lend_front(
        &mut self,
        frame: &mut Frame,
        n: usize,
        mut each: impl FnMut(usize, u16, u16),
    ) -> usize {
        let window = self.window;
        let given = window.lend_front(frame, n.min(self.room()), |buffer, place, off, len| {
            let slot = self.slot(self.end);
            self.ring[slot] = buffer;
            self.end += 1;
            each(place, off, len);
        });
        self.show();
        given
    }

    /// Lends the buffers of `n` new, empty packets, or of fewer if the ring has less room or not enough buffers are free. Passes the
    /// offset of each buffer in the window to `each`. Returns the number of buffers.
    #[inline]
    pub fn lend_new(&mut self, cache: &mut Cache, n: usize, mut each: impl FnMut(usize)) -> usize {
        let n = n.min(self.room());
        let mut given = 0;
        let mut lend = |(buffer, place): (u32, usize)| {
            let slot = self.end & (self.ring.len() - 1);
            self.ring[slot] = buffer;
            self.end += 1;
            each(place);
        };
        while given < n {
            let some = (n - given).min(BATCH);
            let got = cache.take_while(some, |buffer| match self.window.place(buffer) {
                Some(place) => {
                    lend((buffer, place));
                    true
                }
                None => false,
            });
            given += got;
            if got < some {
                // The next free buffer is outside of the window, or there is none.
                let Some(next) = self.window.next(cache) else { break };
                lend(next);
                given += 1;
            }
        }
        self.show();
        given
    }

    /// Takes back the oldest buffers and appends them to a frame as packets. Stops after `n` packets, when the frame is full, or at the
    /// first buffer for which `len` returns `None`. `len` gets the number of packets received before, and returns the length of the next
    /// one, which is limited to the buffer's room. Returns the number of packets.
    #[inline]
    pub fn receive(
        &mut self,
        frame: &mut Frame,
        n: usize,
        mut len: impl FnMut(usize) -> Option<usize>,
    ) -> usize {
        let n = n.min(self.len()).min(frame.room());
        let mut got = 0;
        while got < n
            && let Some(len) = len(got)
        {
            let buffer = self.ring[self.slot(self.first)];
            self.first += 1;
            frame.push_new(buffer, len);
            got += 1;
        }
        self.show();
        got
    }

    /// Takes back the oldest `n` buffers (all, if fewer are lent) as empty packets. Passes them to `each` with their positions, the newest
    /// one first; the oldest one has position 0.
    pub fn back(&mut self, n: usize, mut each: impl FnMut(usize, Held)) {
        let (first, n) = (self.first, n.min(self.len()));
        // If `each` panics, the remaining buffers are leaked rather than owned twice.
        self.first += n;
        for i in (0..n).rev() {
            each(i, Held::new(pool::fresh(self.ring[self.slot(first + i)])));
        }
        self.show();
    }

    /// Takes back the oldest `n` buffers (all, if fewer are lent), and frees them.
    #[inline]
    pub fn free(&mut self, n: usize, cache: &mut Cache) {
        let (n, at) = (n.min(self.len()), self.slot(self.first));
        self.first += n;
        let (wrapped, first) = self.ring.split_at(at);
        let straight = n.min(first.len());
        cache.free_heads(&first[..straight]);
        cache.free_heads(&wrapped[..n - straight]);
        self.show();
    }

    /// Updates the pool's statistics.
    #[inline]
    fn show(&self) {
        // Only one thread at a time owns the queue, so there is no other writer.
        self.count.store(self.len(), Ordering::Relaxed);
    }
}

impl Drop for LentInOrder {
    fn drop(&mut self) {
        self.back(self.len(), |_, held| held.discard());
    }
}
