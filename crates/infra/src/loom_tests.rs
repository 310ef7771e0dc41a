//! Tests all interleavings of the concurrent parts, explored by loom: `make loom`, or
//! `cargo test -p infra --features loom --lib loom_`

use crate::{
    class_a::{published, slots, words},
    doorbell::Sleep,
    lpm::loom_tests::{List, Wide},
    quiesce::Domain,
    ring::spsc,
    sync::{Arc, UnsafeCell, thread},
};

/// A cell to which loom checks all accesses. The cell outlives the value that it stands for. So if a reader uses the value too late, loom
/// reports a race, and the test does not crash.
struct Witness(UnsafeCell<()>);

// SAFETY: the cell holds nothing; loom reports the races that the tests look for.
unsafe impl Sync for Witness {}

/// A value. For loom, reading it reads the cell, and dropping it writes the cell.
struct Tracked(u32, Arc<Witness>);

impl Tracked {
    fn new(value: u32) -> Self {
        Self(value, Arc::new(Witness(UnsafeCell::new(()))))
    }

    fn read(&self) -> u32 {
        self.1.0.with(|_| self.0)
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.1.0.with_mut(|_| ());
    }
}

#[test]
fn loom_ring_keeps_order_and_drops_remaining_items() {
    loom::model(|| {
        let (mut tx, mut rx) = spsc(2);
        let producer = thread::spawn(move || (0..3).take_while(|&i| tx.push(Box::new(i)).is_ok()).count());
        let mut popped = 0;
        for _ in 0..2 {
            match rx.pop() {
                Some(item) => {
                    assert_eq!(*item, popped);
                    popped += 1;
                }
                None => thread::yield_now(),
            }
        }
        let pushed = producer.join().unwrap();
        assert!(pushed >= 2 && rx.len() == pushed - popped);
    });
}

/// Staged items are published together: a consumer that sees one of them also sees those staged before and
/// after it.
#[test]
fn loom_staged_items_are_published_together() {
    loom::model(|| {
        let (mut tx, mut rx) = spsc(2);
        let producer = thread::spawn(move || {
            tx.stage(Box::new(1)).unwrap();
            tx.stage(Box::new(2)).unwrap();
            tx.publish();
        });
        if let Some(first) = rx.pop() {
            assert_eq!((*first, rx.pop().as_deref()), (1, Some(&2)));
        }
        producer.join().unwrap();
    });
}

/// A worker falls asleep while another thread passes it a packet. The worker sees the packet, or is woken.
#[test]
fn loom_a_sleeper_is_woken_for_its_packet() {
    loom::model(|| {
        let sleep = Arc::new(Sleep::default());
        let (mut tx, mut rx) = spsc(1);
        let of_producer = sleep.clone();
        let producer = thread::spawn(move || {
            tx.push(1).unwrap();
            of_producer.wake()
        });
        sleep.announce();
        let seen = rx.pop().is_some();
        let rung = producer.join().unwrap();
        assert!(seen || rung);
    });
}

#[test]
fn loom_published_value_outlives_its_readers() {
    loom::model(|| {
        let domain = Domain::new();
        let mut worker = domain.register();
        let old = Tracked::new(1);
        let _witness = old.1.clone();
        let (mut writer, reader) = published(&domain, old);
        let looking = thread::spawn(move || {
            let mut section = worker.enter();
            let first = reader.get(section.guard()).read();
            section.quiescent();
            let second = reader.get(section.guard()).read();
            assert!(first <= second);
        });
        writer.set(Tracked::new(2));
        domain.collect();
        looking.join().unwrap();
        domain.collect();
        assert_eq!(domain.pending(), 0);
    });
}

#[test]
fn loom_slot_outlives_its_readers() {
    loom::model(|| {
        let domain = Domain::new();
        let mut worker = domain.register();
        let (mut writer, reader) = slots(&domain, 1).unwrap();
        let value = Tracked::new(1);
        let _witness = value.1.clone();
        writer.insert(value).unwrap();
        let looking = thread::spawn(move || {
            let section = worker.enter();
            if let Some(value) = reader.get(section.guard(), 0) {
                assert_eq!(value.read(), 1);
            }
        });
        writer.remove(0);
        domain.collect();
        looking.join().unwrap();
    });
}

/// If a reader takes an index from one table, it never finds the word of another owner at this index in the
/// second table.
#[test]
fn loom_index_is_not_reused_under_a_reader() {
    loom::model(|| {
        let domain = Domain::new();
        let mut worker = domain.register();
        let (mut route_writer, route) = words(&domain, 1).unwrap();
        let (mut objects, object) = words(&domain, 1).unwrap();
        let idx = objects.insert(7).unwrap();
        route_writer.set(0, u64::from(idx) + 1).unwrap();
        let looking = thread::spawn(move || {
            let _section = worker.enter();
            if let Some(idx) = route.get(0).checked_sub(1) {
                assert!([0, 7].contains(&object.get(idx as u32)));
            }
        });
        route_writer.set(0, 0).unwrap();
        objects.remove(idx);
        let _ = objects.insert(8);
        looking.join().unwrap();
        assert!(objects.get(0) == 8 || objects.insert(8).is_ok());
    });
}

/// A list of the trie is replaced, and then memory for a third list is requested. A reader finds the leaf of
/// the old list or of its replacement, never that of the third list.
#[test]
fn loom_list_is_not_reused_under_a_reader() {
    loom::model(|| {
        let domain = Domain::new();
        let mut worker = domain.register();
        let mut list = List::new(&domain, 1);
        let reader = list.reader();
        let looking = thread::spawn(move || {
            let mut section = worker.enter();
            assert!([1, 2].contains(&reader.leaf()));
            section.quiescent();
        });
        list.replace(2);
        list.build_elsewhere(3);
        looking.join().unwrap();
    });
}

/// A longer route is added before the default route is removed. A reader always finds one of the two.
#[test]
fn loom_a_reader_finds_the_wide_or_the_narrow_route() {
    loom::model(|| {
        let mut wide = Wide::new(1);
        let reader = wide.reader();
        let looking = thread::spawn(move || assert!([1, 2].contains(&reader.leaf())));
        wide.set_narrow(2);
        wide.set_wide(0);
        looking.join().unwrap();
    });
}
