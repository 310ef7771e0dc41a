//! A queue in which parties, such as clients, take turns: no party keeps the others waiting, however many items it adds.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// The waiting items of each party.
#[derive(Debug)]
pub(crate) struct Queue<P, T> {
    /// The items of each party, oldest first. Each item has its number in the order of arrival.
    waiting: BTreeMap<P, VecDeque<(u64, T)>>,
    /// The parties with waiting items. The first party is next, unless it also had the last turn and other parties wait.
    order: VecDeque<P>,
    /// The party that had the last turn.
    last: Option<P>,
    len: usize,
    /// Number of items added so far.
    arrivals: u64,
}

impl<P, T> Default for Queue<P, T> {
    fn default() -> Queue<P, T> {
        Queue { waiting: BTreeMap::new(), order: VecDeque::new(), last: None, len: 0, arrivals: 0 }
    }
}

impl<P: Clone + Ord, T> Queue<P, T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an item of a party.
    pub(crate) fn add(&mut self, party: P, more: T) {
        let of_party = self.waiting.entry(party.clone()).or_default();
        if of_party.is_empty() {
            self.order.push_back(party);
        }
        of_party.push_back((self.arrivals, more));
        self.arrivals += 1;
        self.len += 1;
    }

    /// Removes and returns the next item: the oldest one of the party whose turn it is.
    pub(crate) fn next(&mut self) -> Option<(P, T)> {
        // What else a party has waits until all other parties have had their turns, also those that came back meanwhile.
        if self.last.is_some() && self.order.front() == self.last.as_ref() {
            self.order.rotate_left(1);
        }
        let party = self.order.front()?.clone();
        let next = self.take(&party)?;
        self.last = Some(party.clone());
        Some((party, next))
    }

    /// Removes and returns the oldest item of the party with the most items. If several parties have equally many, it is the party whose
    /// oldest item has waited longest. So the item of a new party stays.
    pub(crate) fn displace(&mut self) -> Option<(P, T)> {
        let oldest = |all: &VecDeque<(u64, T)>| Reverse(all.front().map(|(arrival, _)| *arrival));
        let (most, _) = self.waiting.iter().max_by_key(|(_, all)| (all.len(), oldest(all)))?;
        let most = most.clone();
        self.take(&most).map(|taken| (most, taken))
    }

    /// Removes and returns the oldest item of a party.
    fn take(&mut self, party: &P) -> Option<T> {
        let of_party = self.waiting.get_mut(party)?;
        let (_, taken) = of_party.pop_front()?;
        if of_party.is_empty() {
            self.waiting.remove(party);
            self.order.retain(|other| other != party);
        }
        self.len -= 1;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parties_take_turns() {
        let mut queue = Queue::default();
        assert_eq!(queue.next(), None);
        (0..20).for_each(|n| queue.add('a', n));
        queue.add('b', 100);
        queue.add('c', 200);
        let mut order = Vec::new();
        while let Some((party, n)) = queue.next() {
            order.push(n);
            // This party has only one at a time.
            if party == 'b' && n < 103 {
                queue.add('b', n + 1);
            }
        }
        assert_eq!(order[..8], [0, 100, 200, 1, 101, 2, 102, 3]);
        assert_eq!(order.len(), 25);
        assert!(queue.is_empty() && queue.order.is_empty() && queue.waiting.is_empty());
    }

    #[test]
    fn the_party_with_the_most_is_displaced() {
        let mut queue = Queue::default();
        (0..8).for_each(|n| queue.add('a', n));
        queue.add('b', 100);
        assert_eq!((queue.displace(), queue.displace(), queue.len()), (Some(('a', 0)), Some(('a', 1)), 7));
        let rest: Vec<i32> = std::iter::from_fn(|| queue.next()).map(|(_, n)| n).collect();
        assert_eq!(rest, [2, 100, 3, 4, 5, 6, 7]);
        assert_eq!(queue.displace(), None);
    }

    /// Each party has one item, and the newcomer's name sorts before or after all others. The parties that have waited longest lose their
    /// items.
    #[test]
    fn a_newcomer_is_not_displaced() {
        for newcomer in ['a', 'z'] {
            let mut queue = Queue::default();
            ('d'..='h').for_each(|party| queue.add(party, party));
            queue.add(newcomer, newcomer);
            assert_eq!(queue.displace(), Some(('d', 'd')));
            queue.add('y', 'y');
            assert_eq!(queue.displace(), Some(('e', 'e')));
        }
    }
}
