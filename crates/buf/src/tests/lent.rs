//! What a device names is taken for a buffer only if it has it.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::packet_of;
use crate::layout::{DATA_ROOM, STRIDE};
use crate::{Held, Lent, Pool};

#[derive(Clone, Debug)]
enum Op {
    Lend,
    /// The device gives back one that it has.
    Back(usize),
    /// The device says anything.
    Babble(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => Just(Op::Lend),
        2 => any::<usize>().prop_map(Op::Back),
        2 => prop_oneof![0..64 * STRIDE, any::<usize>()].prop_map(Op::Babble),
    ]
}

proptest! {
    #[test]
    fn each_buffer_comes_back_once(ops in prop::collection::vec(op(), 1..200)) {
        let pool = Pool::new(64).unwrap();
        let mut cache = pool.cache();
        let window = pool.window();
        let mut lent = Lent::new(&pool, window);
        let (mut has, mut packets) = (BTreeSet::new(), Vec::new());
        for op in ops {
            match op {
                Op::Lend => {
                    let Some(held) = Held::alloc(&mut cache).or_else(|| packets.pop()) else { continue };
                    let place = lent.lend(held).ok().unwrap();
                    prop_assert!(has.insert(place) && place + STRIDE <= window.len());
                }
                Op::Back(_) if has.is_empty() => {}
                Op::Back(i) => {
                    let place = *has.iter().nth(i % has.len()).unwrap();
                    has.remove(&place);
                    let held = lent.back(place).unwrap();
                    prop_assert_eq!(window.place(held.snapshot().buffer), Some(place));
                    packets.push(held);
                }
                Op::Babble(place) => match lent.back(place) {
                    Some(held) => {
                        prop_assert!(has.remove(&place));
                        packets.push(held);
                    }
                    None => prop_assert!(!has.contains(&place)),
                },
            }
            cache.publish();
            let stats = pool.stats();
            prop_assert_eq!((stats.lent, stats.used, lent.len()), (has.len(), packets.len(), has.len()));
        }
        packets.into_iter().for_each(|p| p.free(&mut cache));
        drop(lent);
        cache.publish();
        prop_assert_eq!((pool.stats().lent, pool.stats().used), (0, 0));
    }
}

#[test]
fn a_packet_of_several_buffers_and_one_of_another_pool_are_not_lent() {
    let (pool, other) = (Pool::new(8).unwrap(), Pool::new(8).unwrap());
    let (mut cache, mut others) = (pool.cache(), other.cache());
    let mut lent = Lent::new(&pool, pool.window());
    let long = packet_of(&vec![1; 2 * DATA_ROOM], &mut cache).unwrap();
    lent.lend(long).expect_err("it is given back").free(&mut cache);
    let foreign = packet_of(&[1; 60], &mut others).unwrap();
    lent.lend(foreign).expect_err("it is given back").free(&mut others);
    assert!(lent.is_empty());
}
