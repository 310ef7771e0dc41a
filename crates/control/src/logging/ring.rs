//! A buffer of the newest items, each with a number.

use std::collections::VecDeque;

/// Keeps the newest items, up to a maximum number. If the ring is full, a new item replaces the oldest.
#[derive(Debug)]
pub struct Ring<T> {
    items: VecDeque<T>,
    size: usize,
    /// The number of the oldest item. Each further item has the next number.
    first: u64,
    lost: u64,
}

impl<T> Ring<T> {
    /// Returns a ring with room for `size` items, at least one.
    pub fn new(size: usize) -> Ring<T> {
        Ring { items: VecDeque::new(), size: size.max(1), first: 0, lost: 0 }
    }

    /// Adds an item.
    pub fn push(&mut self, item: T) {
        self.items.push_back(item);
        self.shrink();
    }

    /// Sets the maximum number of items to `size`, at least one. Removes the oldest items if there are more.
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

    /// Removes all items, and resets the number of lost ones.
    pub fn clear(&mut self) {
        self.first += self.items.len() as u64;
        self.items.clear();
        self.lost = 0;
    }

    /// Returns the items from the number `number` on, with their numbers.
    pub fn from(&self, number: u64) -> impl Iterator<Item = (u64, &T)> {
        let skip = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        (self.first..).zip(&self.items).skip(skip)
    }

    /// Returns the number of the oldest of the last `n` items.
    pub fn last(&self, n: usize) -> u64 {
        self.first + self.items.len().saturating_sub(n) as u64
    }

    /// Returns the number of items, their maximum number, and the number of replaced items.
    pub fn usage(&self) -> Usage {
        Usage { entries: self.items.len(), size: self.size, lost: self.lost }
    }
}

/// The use of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Number of items in the ring.
    pub entries: usize,
    /// Maximum number of items.
    pub size: usize,
    /// Number of items that newer ones replaced.
    pub lost: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_last_items_and_counts_lost_ones() {
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
        // A reader that had reached number 5 continues with the new item.
        assert_eq!(
            (ring.from(5).next(), ring.usage()),
            (Some((5, &5)), Usage { entries: 1, size: 1, lost: 0 })
        );
    }
}
