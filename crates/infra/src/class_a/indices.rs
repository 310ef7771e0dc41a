//! Allocates the indices of a table. A released index is reused only when no reader can still use it.

use crate::quiesce::{Domain, Mark};
use std::{collections::VecDeque, fmt};

/// A table has no room. All indices are in use or may still be used by readers, the requested index is not below the capacity, or there is
/// no memory for more indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Maximum number of entries of the table.
    pub capacity: u32,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table full: it holds at most {} entries", self.capacity)
    }
}

impl std::error::Error for Full {}

pub(crate) struct Indices {
    domain: Domain,
    capacity: u32,
    /// This index and all higher ones were never used.
    next: u32,
    used: Vec<bool>,
    len: u32,
    /// Free indices, the one released first at the front. The mark ends the index's grace period. It is `None` for an index that was never
    /// used: [`claim`](Self::claim) has taken a higher one.
    released: VecDeque<(Option<Mark>, u32)>,
}

impl Indices {
    pub fn new(domain: Domain, capacity: u32) -> Self {
        Self { domain, capacity, next: 0, used: Vec::new(), len: 0, released: VecDeque::new() }
    }

    pub fn full(&self) -> Full {
        Full { capacity: self.capacity }
    }

    /// Returns the highest index ever used, plus one.
    pub fn end(&self) -> u32 {
        self.next
    }

    /// Returns the number of indices in use.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Takes a free index: the first one in `released`, if readers cannot use it any more; otherwise the lowest index above all that were
    /// ever in use.
    pub fn take(&mut self) -> Result<u32, Full> {
        if let Some(&(mark, idx)) = self.released.front()
            && mark.is_none_or(|m| self.domain.passed(m))
        {
            self.released.pop_front();
            self.set_used(idx);
            return Ok(idx);
        }
        let idx = self.next;
        self.claim(idx)?;
        Ok(idx)
    }

    /// True if the index is free: it was never used, or its grace period after the release has ended.
    pub fn is_free(&self, idx: u32) -> bool {
        let passed = |&(mark, released): &(Option<Mark>, u32)| {
            released == idx && mark.is_none_or(|m| self.domain.passed(m))
        };
        (self.next..self.capacity).contains(&idx) || self.released.iter().any(passed)
    }

    /// Takes the index `idx`. If the index is in use already, does nothing. If the index was released, does not wait for the grace period.
    pub fn claim(&mut self, idx: u32) -> Result<(), Full> {
        if idx >= self.capacity {
            return Err(self.full());
        }
        if idx >= self.next {
            let more = (idx + 1 - self.next) as usize;
            // Reserve room for all indices in `released` too, so that a release cannot fail.
            self.used.try_reserve(more).map_err(|_| self.full())?;
            let room = (idx as usize + 1).saturating_sub(self.released.len());
            self.released.try_reserve(room).map_err(|_| self.full())?;
            self.used.resize(idx as usize + 1, false);
            self.released.extend((self.next..idx).map(|skipped| (None, skipped)));
            self.next = idx + 1;
        } else if !self.used[idx as usize] {
            self.released.retain(|&(_, r)| r != idx);
        } else {
            return Ok(());
        }
        self.set_used(idx);
        Ok(())
    }

    /// Releases an index. The caller makes sure that readers cannot find the value at this index any more.
    pub fn release(&mut self, idx: u32) {
        if let Some(used) = self.used.get_mut(idx as usize).filter(|used| **used) {
            *used = false;
            self.len -= 1;
            self.released.push_back((Some(self.domain.mark()), idx));
        }
    }

    fn set_used(&mut self, idx: u32) {
        self.used[idx as usize] = true;
        self.len += 1;
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn reuses_an_index_only_after_a_grace_period() {
        let d = Domain::new();
        let mut reader = d.register();
        let mut t = Indices::new(d, 4);
        assert_eq!((t.take(), t.take()), (Ok(0), Ok(1)));
        let mut section = reader.enter();
        t.release(0);
        t.release(0);
        assert_eq!((t.len(), t.take()), (1, Ok(2)));
        assert_eq!([0, 1, 3, 4].map(|idx| t.is_free(idx)), [false, false, true, false]);
        section.quiescent();
        assert!(t.is_free(0));
        assert_eq!((t.take(), t.take(), t.take()), (Ok(0), Ok(3), Err(Full { capacity: 4 })));
    }

    #[test]
    fn claimed_indices_and_the_gaps_below_them() {
        let mut t = Indices::new(Domain::new(), 8);
        t.claim(3).unwrap();
        t.claim(1).unwrap();
        t.claim(3).unwrap();
        assert_eq!((t.len(), t.end()), (2, 4));
        assert_eq!((t.take(), t.take(), t.take()), (Ok(0), Ok(2), Ok(4)));
        assert_eq!(t.claim(8), Err(Full { capacity: 8 }));
    }
}
