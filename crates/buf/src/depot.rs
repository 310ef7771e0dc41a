//! The free buffers of a pool outside of the threads' caches.
//!
//! Devices with access to the pool's memory (see [`Lent`](crate::Lent)) can only access the [`Window`], the
//! memory of the initial buffers. So free initial buffers are on a separate stack, and threads first get
//! the buffers that were added later.

use crate::window::Window;

/// Two stacks of free buffers.
pub(crate) struct Depot {
    window: Window,
    /// Free initial buffers of the pool, which are in the window. Until buffers are added to the pool, all free buffers are here.
    home: Vec<u32>,
    /// Free buffers that were added to the pool later.
    others: Vec<u32>,
    /// True if buffers were added to the pool later.
    grown: bool,
}

impl Depot {
    /// Returns a depot with all buffers of the window, and room for `spare` more.
    pub fn new(window: Window, buffers: impl ExactSizeIterator<Item = u32>, spare: usize) -> Depot {
        let mut home = Vec::with_capacity(buffers.len() + spare);
        home.extend(buffers);
        Depot { window, home, others: Vec::new(), grown: false }
    }

    /// Returns the number of initial buffers and the number of added buffers in this depot.
    pub fn lens(&self) -> (usize, usize) {
        (self.home.len(), self.others.len())
    }

    /// Returns all buffers of the depot.
    pub fn all(&self) -> Vec<u32> {
        [&self.home[..], &self.others].concat()
    }

    /// Adds the buffers in `added`. From then on, the depot uses `added` itself as its list of added buffers,
    /// so it must have the capacity for all buffers ever added. Returns the old list, so that the caller can
    /// drop it without holding a lock.
    pub fn add(&mut self, mut added: Vec<u32>) -> Vec<u32> {
        added.append(&mut self.others);
        self.grown = true;
        std::mem::replace(&mut self.others, added)
    }

    /// Takes buffers back: those in the window to `home`, all others to `others`. Until buffers are added to the pool, all go to `home`.
    pub fn give(&mut self, buffers: impl Iterator<Item = u32>) {
        if !self.grown {
            return self.home.extend(buffers);
        }
        for buffer in buffers {
            match self.window.place(buffer) {
                Some(_) => self.home.push(buffer),
                None => self.others.push(buffer),
            }
        }
    }

    /// Moves up to `n` buffers to the stack `to`. Prefers buffers that were added to the pool; takes initial buffers only if those
    /// do not suffice.
    pub fn take(&mut self, n: usize, to: &mut Vec<u32>) {
        let others = n.min(self.others.len());
        take(&mut self.home, n - others, to);
        take(&mut self.others, others, to);
    }

    /// Exchanges at most `n` buffers for a device, which can access only initial buffers. Moves added buffers from the bottom of `stack` to
    /// the depot, and puts initial buffers on top of `stack`. Returns the number of initial buffers put there.
    pub fn exchange(&mut self, n: usize, stack: &mut Vec<u32>) -> usize {
        let n = n.min(self.home.len());
        self.others.extend(stack.drain(..n.min(stack.len())));
        take(&mut self.home, n, stack);
        n
    }
}

/// Moves up to `n` buffers from the top of one stack to another.
fn take(from: &mut Vec<u32>, n: usize, to: &mut Vec<u32>) {
    to.extend(from.drain(from.len() - n.min(from.len())..));
}
