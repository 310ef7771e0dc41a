//! Buffers that are lent to a device which gives them back in the order in which it got them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::frame::{Frame, Held};
use crate::lent::Window;
use crate::pool::{self, BATCH, Cache, Pool};

/// The buffers of a window that one ring of a device has, the oldest first. Nobody names them: what comes back are the oldest, so
/// whatever a device says, no buffer has two owners.
///
/// Dropped, it gives all of them back to their pool: the device must have let go of them.
pub struct LentInOrder {
    window: Window,
    /// As many places as the device has, a power of two: those from `first` to `end`, counted without an end, have buffers.
    ring: Box<[u32]>,
    first: usize,
    end: usize,
    /// How many are lent, for the pool's statistics.
    count: Arc<AtomicUsize>,
}

impl LentInOrder {
    /// None yet, of `size` at most, which is made a power of two.
    pub fn new(pool: &Pool, size: usize) -> LentInOrder {
        let ring = vec![0; size.next_power_of_two()].into();
        LentInOrder { window: pool.window(), ring, first: 0, end: 0, count: pool.lender() }
    }

    /// How many buffers are lent.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.first
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The window that the buffers lie in.
    #[inline]
    pub fn window(&self) -> &Window {
        &self.window
    }

    #[inline(always)]
    fn slot(&self, i: usize) -> usize {
        i & (self.ring.len() - 1)
    }

    /// How many more can be lent.
    #[inline]
    fn room(&self) -> usize {
        self.ring.len() - self.len()
    }

    /// Where in the window the oldest `n` begin.
    #[inline]
    pub fn oldest(&self, n: usize) -> impl Iterator<Item = usize> {
        let buffers = (self.first..self.first + n.min(self.len())).map(|i| self.ring[self.slot(i)]);
        buffers.filter_map(|buffer| self.window.place(buffer))
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
        let given = window.lend_front(frame, n.min(self.room()), |buffer, place, off, len| {
            let slot = self.slot(self.end);
            self.ring[slot] = buffer;
            self.end += 1;
            each(place, off, len);
        });
        self.show();
        given
    }

    /// Lends the buffers of `n` new, empty packets, or as many as are free; says where in the window each begins. Gives how many.
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
                // The next one lies elsewhere, or there is none.
                let Some(next) = self.window.next(cache) else { break };
                lend(next);
                given += 1;
            }
        }
        self.show();
        given
    }

    /// Takes the oldest buffers back and appends them to a frame, `n` at most and as far as that has room, up to the first that
    /// `len` gives no length for: packets of that length, or of what a buffer has room for. Gives how many.
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

    /// Takes the oldest `n` buffers back, each an empty packet, from the last of them to the first.
    pub fn back(&mut self, n: usize, mut each: impl FnMut(usize, Held)) {
        let (first, n) = (self.first, n.min(self.len()));
        // Should `each` panic, those that are left are forgotten rather than owned twice.
        self.first += n;
        for i in (0..n).rev() {
            each(i, Held::new(pool::fresh(self.ring[self.slot(first + i)])));
        }
        self.show();
    }

    /// Takes the oldest `n` buffers back, and frees them.
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

    /// Has the pool's statistics count what is lent.
    #[inline]
    fn show(&self) {
        // One thread at a time has the queue: nobody else writes.
        self.count.store(self.len(), Ordering::Relaxed);
    }
}

impl Drop for LentInOrder {
    fn drop(&mut self) {
        self.back(self.len(), |_, held| held.discard());
    }
}
