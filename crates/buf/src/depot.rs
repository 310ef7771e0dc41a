//! The free buffers of a pool that lie in no thread's cache.
//!
//! Devices that were shown the pool's memory (see [`Lent`](crate::Lent)) know the [`Window`] only, where the buffers lie
//! that there were at the start. So those lie on a stack of their own, and threads are given the others first.

use crate::lent::Window;

/// Two stacks of buffers.
pub(crate) struct Depot {
    window: Window,
    /// Those of the window. As long as no buffer was added, all.
    home: Vec<u32>,
    /// Those that were added.
    others: Vec<u32>,
    /// Whether any were.
    grown: bool,
}

impl Depot {
    /// All buffers of the window, with room for `spare` more.
    pub fn new(window: Window, buffers: impl ExactSizeIterator<Item = u32>, spare: usize) -> Depot {
        let mut home = Vec::with_capacity(buffers.len() + spare);
        home.extend(buffers);
        Depot { window, home, others: Vec::new(), grown: false }
    }

    /// How many lie here, of the window and others.
    pub fn lens(&self) -> (usize, usize) {
        (self.home.len(), self.others.len())
    }

    /// Every buffer that lies here.
    pub fn all(&self) -> Vec<u32> {
        [&self.home[..], &self.others].concat()
    }

    /// Adds buffers. They come in a list that has room for all others, too: what was their list is given back, to be
    /// dropped by whoever holds no lock.
    pub fn add(&mut self, mut added: Vec<u32>) -> Vec<u32> {
        added.append(&mut self.others);
        self.grown = true;
        std::mem::replace(&mut self.others, added)
    }

    /// Takes buffers back.
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

    /// Moves up to `n` buffers to a stack.
    pub fn take(&mut self, n: usize, to: &mut Vec<u32>) {
        let others = n.min(self.others.len());
        take(&mut self.home, n - others, to);
        take(&mut self.others, others, to);
    }

    /// Takes as many from the bottom of a stack of buffers that were added as it puts buffers of the window on top of it, `n`
    /// at most. Gives how many.
    pub fn exchange(&mut self, n: usize, stack: &mut Vec<u32>) -> usize {
        let n = n.min(self.home.len());
        self.others.extend(stack.drain(..n.min(stack.len())));
        take(&mut self.home, n, stack);
        n
    }
}

/// Moves up to `n` from the top of a stack to another.
fn take(from: &mut Vec<u32>, n: usize, to: &mut Vec<u32>) {
    to.extend(from.drain(from.len() - n.min(from.len())..));
}
