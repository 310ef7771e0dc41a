//! The last things of many, each with a number.

use std::collections::VecDeque;

/// Remembers the last so many; an older one gives way to a new one.
#[derive(Debug)]
pub struct Ring<T> {
    items: VecDeque<T>,
    size: usize,
    /// The number of the first one; each has the next number.
    first: u64,
    lost: u64,
}

impl<T> Ring<T> {
    /// Room for `size`, at least one.
    pub fn new(size: usize) -> Ring<T> {
        Ring { items: VecDeque::new(), size: size.max(1), first: 0, lost: 0 }
    }

    /// Adds one.
    pub fn push(&mut self, item: T) {
        self.items.push_back(item);
        self.shrink();
    }

    /// Makes room for `size`.
    pub fn resize(&mut self, size: usize) {
        self.size = size.max(1);
        self.shrink();
    }

    fn shrink(&mut self) {
        let over = self.items.len().saturating_sub(self.size);
        self.items.drain(..over);
        self.first += over as u64;
        self.lost += over as u64;
    }

    /// Forgets all, and how many were lost.
    pub fn clear(&mut self) {
        self.first += self.items.len() as u64;
        self.items.clear();
        self.lost = 0;
    }

    /// Those whose numbers are not below this one, with their numbers.
    pub fn from(&self, number: u64) -> impl Iterator<Item = (u64, &T)> {
        let skip = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        (self.first..).zip(&self.items).skip(skip)
    }

    /// The number of the first of the last `n`.
    pub fn last(&self, n: usize) -> u64 {
        self.first + self.items.len().saturating_sub(n) as u64
    }

    /// How much is in it.
    pub fn usage(&self) -> Usage {
        Usage { entries: self.items.len(), size: self.size, lost: self.lost }
    }
}

/// How much is in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Those that are remembered.
    pub entries: usize,
    /// How many there is room for.
    pub size: usize,
    /// Those that gave way to newer ones.
    pub lost: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_last_ones_and_counts_the_others() {
        let mut ring = Ring::new(3);
        (0..5).for_each(|n| ring.push(n));
        assert_eq!(
            ring.from(0).map(|(number, n)| (number, *n)).collect::<Vec<_>>(),
            [(2, 2), (3, 3), (4, 4)]
        );
        assert_eq!(ring.from(ring.last(2)).count(), 2);
        assert_eq!((ring.from(4).count(), ring.from(9).count(), ring.last(99)), (1, 0, 2));
        assert_eq!(ring.usage(), Usage { entries: 3, size: 3, lost: 2 });
        ring.resize(1);
        assert_eq!((ring.from(0).next(), ring.usage().lost), (Some((4, &4)), 4));
        ring.clear();
        ring.push(5);
        // Whoever was reading goes on with what came since.
        assert_eq!(
            (ring.from(5).next(), ring.usage()),
            (Some((5, &5)), Usage { entries: 1, size: 1, lost: 0 })
        );
    }
}
