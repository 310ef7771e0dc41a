//! A bounded ring from one producer to one consumer, for handoff between workers, injection and punt.

use crate::sync::{
    Arc, UnsafeCell,
    atomic::{
        AtomicUsize,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use std::mem::MaybeUninit;

/// An index on its own pair of cache lines, because one core writes it and another one reads it.
#[repr(align(128))]
struct Index(AtomicUsize);

/// Indices increase and wrap; `tail - head` is the number of items, and the low bits of an index select its
/// cell.
struct Ring<T> {
    /// Next item to pop; written by the consumer.
    head: Index,
    /// Next item to push; written by the producer.
    tail: Index,
    cells: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a cell is accessed by the producer while it is outside of head..tail, and by the consumer while it
// is inside; the Release stores and Acquire loads of the indices order the two. Items only move between
// threads.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    fn cell(&self, index: usize) -> &UnsafeCell<MaybeUninit<T>> {
        // SAFETY: the number of cells is a power of two, and not zero.
        unsafe { self.cells.get_unchecked(index & (self.cells.len() - 1)) }
    }

    fn len(&self) -> usize {
        // Load the head first: the tail only moves away from it, so the difference is never negative. Pushes and pops between the two loads
        // may make the difference larger than the number of items at any moment.
        let head = self.head.0.load(Acquire);
        self.tail.0.load(Acquire).wrapping_sub(head).min(self.cells.len())
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let (mut head, tail) = (self.head.0.load(Relaxed), self.tail.0.load(Relaxed));
        while head != tail {
            // SAFETY: cells in head..tail hold items, and both ends are gone.
            self.cell(head).with_mut(|p| unsafe { (*p).assume_init_drop() });
            head = head.wrapping_add(1);
        }
    }
}

/// Makes a ring for at least `capacity` items (rounded up to a power of two).
pub fn spsc<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let cells =
        (0..capacity.max(1).next_power_of_two()).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let ring = Arc::new(Ring { head: Index(AtomicUsize::new(0)), tail: Index(AtomicUsize::new(0)), cells });
    (Producer { ring: ring.clone(), tail: 0, head: 0 }, Consumer { ring, head: 0, tail: 0 })
}

/// The producer's end.
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    /// The index after the last item, [staged](Self::stage) items included.
    tail: usize,
    /// The head that the producer read last. The consumer may have advanced the head since then, so there is
    /// at least as much room as this value shows.
    head: usize,
}

impl<T> Producer<T> {
    /// Appends `item`, and publishes it with all staged items. Returns `item` if the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        self.stage(item)?;
        self.publish();
        Ok(())
    }

    /// Like [`push`](Self::push), but the consumer sees the item only after [`publish`](Self::publish). With
    /// many items staged at once, the tail's cache line moves between the two cores only once.
    #[inline]
    pub fn stage(&mut self, item: T) -> Result<(), T> {
        let capacity = self.ring.cells.len();
        if self.tail.wrapping_sub(self.head) == capacity {
            self.head = self.ring.head.0.load(Acquire);
            if self.tail.wrapping_sub(self.head) == capacity {
                return Err(item);
            }
        }
        // SAFETY: the cell is outside of head..tail, and the consumer is done with it (Acquire above).
        self.ring.cell(self.tail).with_mut(|p| unsafe { (*p).write(item) });
        self.tail = self.tail.wrapping_add(1);
        Ok(())
    }

    /// Publishes the staged items to the consumer.
    #[inline]
    pub fn publish(&mut self) {
        self.ring.tail.0.store(self.tail, Release);
    }

    /// Returns the approximate number of published items: the consumer may remove some meanwhile.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// True if the ring has no published items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Maximum number of items.
    pub fn capacity(&self) -> usize {
        self.ring.cells.len()
    }

    /// Returns a handle that shows whether the ring is empty, for a thread that is neither producer nor
    /// consumer.
    pub fn gauge(&self) -> Gauge<T> {
        Gauge(self.ring.clone())
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        // The ring drops the staged items.
        self.publish();
    }
}

/// Shows whether a ring is empty; see [`Producer::gauge`].
pub struct Gauge<T>(Arc<Ring<T>>);

impl<T> Gauge<T> {
    /// True if the ring has no published items. This is exact once the producer and the consumer are idle.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }
}

/// The consumer's end.
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    head: usize,
    /// The tail that the consumer read last.
    tail: usize,
}

impl<T> Consumer<T> {
    /// Removes and returns the oldest published item; `None` if there is none.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.head == self.tail {
            self.tail = self.ring.tail.0.load(Acquire);
            if self.head == self.tail {
                return None;
            }
        }
        // SAFETY: the cell is inside head..tail, so the producer wrote it (Acquire above) and does not access
        // it.
        let item = self.ring.cell(self.head).with_mut(|p| unsafe { (*p).assume_init_read() });
        self.head = self.head.wrapping_add(1);
        self.ring.head.0.store(self.head, Release);
        Some(item)
    }

    /// Returns the approximate number of items: the producer may add some meanwhile.
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    /// True if the ring has no published items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Op {
        Push,
        Stage,
        Publish,
        Pop,
    }

    proptest! {
        #[test]
        fn behaves_as_a_bounded_queue(
            capacity in 1usize..9,
            ops in prop::collection::vec(prop::sample::select(&[Op::Push, Op::Stage, Op::Publish, Op::Pop][..]), 0..200),
        ) {
            let (mut tx, mut rx) = spsc(capacity);
            let gauge = tx.gauge();
            let bound = capacity.next_power_of_two();
            prop_assert_eq!(tx.capacity(), bound);
            let (mut oracle, mut staged) = (VecDeque::new(), VecDeque::new());
            for (i, op) in ops.into_iter().enumerate() {
                let full = oracle.len() + staged.len() == bound;
                // Boxed, so that miri detects a leak or a double drop.
                let answer = if full { Err(Box::new(i)) } else { Ok(()) };
                match op {
                    Op::Stage => prop_assert_eq!(tx.stage(Box::new(i)), answer),
                    Op::Push => prop_assert_eq!(tx.push(Box::new(i)), answer),
                    Op::Publish => tx.publish(),
                    Op::Pop => prop_assert_eq!(rx.pop(), oracle.pop_front()),
                }
                if matches!(op, Op::Push | Op::Stage) && !full {
                    staged.push_back(Box::new(i));
                }
                // A refused push publishes nothing.
                if op == Op::Publish || op == Op::Push && !full {
                    oracle.append(&mut staged);
                }
                prop_assert_eq!((tx.len(), rx.len(), rx.is_empty()), (oracle.len(), oracle.len(), oracle.is_empty()));
                prop_assert_eq!(gauge.is_empty(), oracle.is_empty());
            }
        }
    }

    #[test]
    fn remaining_items_are_dropped() {
        let item = Arc::new(());
        let (mut tx, rx) = spsc(4);
        tx.push(item.clone()).unwrap();
        tx.stage(item.clone()).unwrap();
        drop((tx, rx));
        assert_eq!(Arc::strong_count(&item), 1);
    }

    #[test]
    fn order_is_kept_between_threads() {
        let n = if cfg!(miri) { 200 } else { 200_000 };
        let (mut tx, mut rx) = spsc(16);
        let producer = std::thread::spawn(move || {
            for mut i in 0..n {
                while let Err(back) = tx.push(i) {
                    i = back;
                    std::thread::yield_now();
                }
            }
        });
        for expected in 0..n {
            let got = loop {
                match rx.pop() {
                    Some(got) => break got,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(got, expected);
        }
        producer.join().unwrap();
    }
}
