use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use super::array::Array;
use super::map::of;
use super::{Inserted, Map, Owner, map};
use crate::quiesce::Domain;

const MOST: usize = 1 << 30;

fn never(key: u64, value: u64) {
    panic!("lost {key} with {value}");
}

fn find(domain: &Domain, map: &Map, key: u64) -> Option<u64> {
    let mut reader = domain.register();
    let section = reader.enter();
    let view = map.view(section.guard());
    view.find(key, view.hash(key)).map(|entry| entry.value)
}

/// Inserts as a worker does.
fn insert(domain: &Domain, map: &Map, key: u64, value: u64) -> Inserted {
    let mut reader = domain.register();
    map.insert(reader.enter().guard(), key, value)
}

fn entries(owner: &Owner) -> HashMap<u64, u64> {
    owner.entries(0..usize::MAX).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Learn(u64, u64),
    Set(u64, u64),
    Change(u64, u64),
    Remove(u64),
    Tend(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let key = || prop_oneof![1..40u64, 1..400u64];
    let value = 1..5u64;
    prop_oneof![
        6 => (key(), value.clone()).prop_map(|(key, value)| Step::Learn(key, value)),
        1 => (key(), value.clone()).prop_map(|(key, value)| Step::Set(key, value)),
        2 => (key(), value).prop_map(|(key, value)| Step::Change(key, value)),
        3 => key().prop_map(Step::Remove),
        2 => (0..9usize).prop_map(Step::Tend),
    ]
}

proptest! {
    /// The table agrees with the map of the standard library, also while it grows.
    #[test]
    fn the_table_is_a_map(steps in prop::collection::vec(step(), 1..600)) {
        let domain = Domain::new();
        let (mut owner, map) = map(&domain, 4).unwrap();
        let mut known = HashMap::new();
        for step in steps {
            match step {
                Step::Learn(key, value) => match insert(&domain, &map, key, value) {
                    Inserted::Yes => prop_assert_eq!(known.insert(key, value), None),
                    Inserted::Present => prop_assert!(known.contains_key(&key)),
                    Inserted::Full => prop_assert!(!known.contains_key(&key)),
                    Inserted::Busy => prop_assert!(false, "nobody else has a lock"),
                },
                Step::Set(key, value) => {
                    let inserted = owner.insert(key, value);
                    prop_assert_eq!(inserted == Inserted::Present, known.contains_key(&key));
                    if inserted == Inserted::Yes {
                        known.insert(key, value);
                    }
                }
                Step::Change(key, value) => {
                    let mut reader = domain.register();
                    let section = reader.enter();
                    let view = map.view(section.guard());
                    let found = view.find(key, view.hash(key));
                    prop_assert_eq!(found.map(|entry| entry.value), known.get(&key).copied());
                    if let Some(entry) = found {
                        prop_assert!(entry.replace(value));
                        known.insert(key, value);
                    }
                }
                Step::Remove(key) => {
                    let seen = owner.get(key);
                    prop_assert_eq!(seen, known.get(&key).copied());
                    prop_assert!(!owner.remove(key, 9), "another value");
                    prop_assert_eq!(owner.remove(key, seen.unwrap_or(1)), known.remove(&key).is_some());
                }
                Step::Tend(lines) => drop(owner.tend(lines, MOST, never).unwrap()),
            }
            prop_assert_eq!(owner.len(), known.len());
        }
        for key in 1..400 {
            prop_assert_eq!(find(&domain, &map, key), known.get(&key).copied());
        }
        prop_assert_eq!(entries(&owner), known);
    }
}

/// With random keys, hardly an entry is not in its first line, and none is refused up to the number at which the table grows.
#[test]
fn a_table_takes_the_entries_that_it_is_made_for() {
    let domain = Domain::new();
    let (mut owner, map) = map(&domain, 100_000).unwrap();
    let bytes = owner.bytes();
    for key in 1..=100_000 {
        assert_eq!(insert(&domain, &map, key, key), Inserted::Yes);
    }
    assert!(!owner.tend(1, MOST, never).unwrap(), "it need not grow");
    assert_eq!((owner.bytes(), owner.len(), entries(&owner).len()), (bytes, 100_000, 100_000));
    assert!(bytes <= 100_000 * 64, "{bytes}");
}

#[test]
fn a_table_grows_up_to_its_limit() {
    let domain = Domain::new();
    let (mut owner, map) = map(&domain, 4).unwrap();
    let (mut taken, most) = (0, 1 << 16);
    for key in 1..1_000_000 {
        if insert(&domain, &map, key, 1) == Inserted::Yes {
            taken += 1;
        }
        owner.tend(1, most, never).unwrap();
    }
    while owner.tend(1, most, never).unwrap() {}
    assert_eq!(owner.bytes(), most);
    assert_eq!((owner.len(), entries(&owner).len()), (taken, taken));
    assert_eq!(taken, most / 64 * 4 * 3 / 5);
}

/// Places of removed entries are used again, but not while a reader may use them.
#[test]
fn places_are_reused_after_a_grace_period() {
    let domain = Domain::new();
    let (mut owner, map) = of(&domain, Array::new(1, 5).unwrap());
    let fill = |from: u64| -> Vec<u64> {
        (from..from + 50).filter(|key| insert(&domain, &map, *key, 7) == Inserted::Yes).collect()
    };
    // There is one line of four places, of which two may be in use.
    let (first, bytes) = (fill(1), owner.bytes());
    assert_eq!(first.len(), 2);
    let mut reader = domain.register();
    let mut section = reader.enter();
    let view = map.view(section.guard());
    let entry = view.find(first[0], view.hash(first[0])).unwrap();
    first.iter().for_each(|key| assert!(owner.remove(*key, 7)));
    assert!(!entry.replace(8), "it was removed");
    let second = fill(100);
    assert_eq!(second.len(), 2);
    second.iter().for_each(|key| assert!(owner.remove(*key, 7)));
    owner.tend(0, bytes, never).unwrap();
    assert!(fill(200).is_empty());
    section.quiescent();
    owner.tend(0, bytes, never).unwrap();
    assert_eq!(fill(300).len(), 2);
}

/// Several threads insert the same keys, change and find them, while the table grows and entries are removed. Each key is inserted by one of
/// them, no entry is missed or has a value of another key, and all entries are there at the end.
#[test]
fn threads_share_a_table() {
    const KEYS: u64 = 20_000;
    let domain = Domain::new();
    let (mut owner, map) = map(&domain, 4).unwrap();
    let (is_over, inserted) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..3u64 {
            let (domain, map, is_over, inserted) = (&domain, map.clone(), &is_over, &inserted);
            scope.spawn(move || {
                let mut reader = domain.register();
                let mut section = reader.enter();
                let mut known = HashSet::new();
                for n in 0.. {
                    let key = 1 + (n * 7 + thread * 1_000) % KEYS;
                    section.quiescent();
                    let view = map.view(section.guard());
                    match view.find(key, view.hash(key)) {
                        Some(entry) => {
                            assert_eq!(entry.value >> 8, key);
                            entry.replace(entry.value ^ thread);
                        }
                        None if known.contains(&key) => panic!("{key} is missing"),
                        None => match map.insert(section.guard(), key, key << 8) {
                            Inserted::Yes => drop(inserted.fetch_add(1, Ordering::Relaxed)),
                            Inserted::Present => {}
                            Inserted::Busy | Inserted::Full => continue,
                        },
                    }
                    known.insert(key);
                    if is_over.load(Ordering::Relaxed) && known.len() as u64 == KEYS {
                        // Not skipped: the thread has seen all keys.
                        return;
                    }
                }
            });
        }
        // Others come and go.
        for n in 0.. {
            let key = KEYS + 1 + n % 64;
            match owner.get(key) {
                Some(value) => assert!(owner.remove(key, value)),
                None => assert_ne!(owner.insert(key, key << 8), Inserted::Present),
            }
            owner.tend(8, MOST, never).unwrap();
            domain.collect();
            if inserted.load(Ordering::Relaxed) == KEYS && !owner.grows() && n > 10_000 {
                break;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let entries = entries(&owner);
    assert!((1..=KEYS).all(|key| entries[&key] >> 8 == key));
    assert_eq!(entries.len(), owner.len());
}

/// Who removes and inserts much at a time needs no larger table.
#[test]
fn room_of_removed_entries_is_used_before_the_table_grows() {
    let domain = Domain::new();
    let (mut owner, _) = map(&domain, 1000).unwrap();
    let bytes = owner.bytes();
    for round in 0..20u64 {
        for key in 1..=1000 {
            let key = 1000 * round + key;
            while owner.insert(key, 7) == Inserted::Full {
                assert!(owner.make_room(MOST, Duration::from_secs(1), never).unwrap());
            }
        }
        for key in 1..=1000 {
            assert!(owner.remove(1000 * round + key, 7));
        }
    }
    assert_eq!((owner.bytes(), owner.len()), (bytes, 0));
}
