//! Compares buffers that are lent and returned in order with a plain queue.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::packet_of;
use crate::layout::{DATA, DATA_ROOM, STRIDE};
use crate::{Frame, Lent, LentInOrder, Pool};

/// A packet of a frame.
#[derive(Clone, Debug)]
enum Kind {
    /// A packet of this many bytes that can be lent.
    Good(usize),
    /// A packet without bytes.
    Empty,
    /// A packet of two buffers.
    Long,
    /// A packet in a buffer of another pool.
    Foreign,
}

#[derive(Clone, Debug)]
enum Op {
    /// Lends these packets to a device that has room for this many.
    Front(Vec<Kind>, usize),
    New(usize),
    /// Receives, given in this order: the maximum number of buffers, the number of other packets in the frame, and the number of buffers in
    /// which the device has received a packet.
    Receive(usize, usize, usize),
    Back(usize),
    Free(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![
        12 => (1..=DATA_ROOM).prop_map(Kind::Good),
        1 => Just(Kind::Empty),
        1 => Just(Kind::Long),
        1 => Just(Kind::Foreign),
    ];
    prop_oneof![
        (prop::collection::vec(kind, 1..40), 0..48usize).prop_map(|(kinds, n)| Op::Front(kinds, n)),
        (0..80usize).prop_map(Op::New),
        (0..80usize, prop_oneof![Just(0), 200..=256usize], 0..80usize)
            .prop_map(|(n, others, stop)| Op::Receive(n, others, stop)),
        (0..20usize).prop_map(Op::Back),
        (0..80usize).prop_map(Op::Free),
    ]
}

const SIZE: usize = 64;
const BUFFERS: usize = 1024;

fn is_good(kind: &Kind) -> bool {
    matches!(kind, Kind::Good(_))
}

proptest! {
    #![proptest_config(super::cases(64))]
    #[test]
    fn lent_buffers_return_in_order(ops in prop::collection::vec(op(), 1..super::steps(60))) {
        let (pool, other) = (Pool::new(BUFFERS).unwrap(), Pool::new(64).unwrap());
        let (mut cache, mut others) = (pool.cache(), other.cache());
        let window = pool.window();
        let mut lent = LentInOrder::new(&pool, SIZE);
        // The models: places in order, and a device that identifies buffers.
        let mut queue: VecDeque<usize> = VecDeque::new();
        let mut by_name = Lent::new(&pool, window);
        for op in ops {
            let mut frame = Frame::new();
            match op {
                Op::Front(kinds, n) => {
                    for kind in &kinds {
                        let held = match kind {
                            Kind::Good(len) => packet_of(&vec![1; *len], &mut cache),
                            Kind::Empty => packet_of(&[], &mut cache),
                            Kind::Long => packet_of(&vec![1; DATA_ROOM + 1], &mut cache),
                            Kind::Foreign => packet_of(&[1; 60], &mut others),
                        };
                        prop_assert!(frame.push(held.unwrap()).is_ok());
                    }
                    let all: Vec<_> = (0..kinds.len()).map(|i| frame.snapshot(i).unwrap()).collect();
                    let room = n.min(SIZE - queue.len());
                    let fit = kinds.iter().take(room).take_while(|k| is_good(k)).count();
                    let mut said = Vec::new();
                    let given = lent.lend_front(&mut frame, n, |place, offset, len| said.push((place, offset, len)));
                    let expected: Vec<_> =
                        all[..fit].iter().map(|p| (window.place(p.buffer).unwrap(), p.offset, p.len)).collect();
                    prop_assert_eq!((given, &said), (fit, &expected));
                    queue.extend(said.iter().map(|s| s.0));
                    let left: Vec<_> = (0..frame.len()).map(|i| frame.snapshot(i).unwrap()).collect();
                    prop_assert_eq!(&left[..], &all[fit..], "the others are still in the frame");
                    // Lends the remaining packets to the device that identifies its buffers. It must accept the same kinds of packets.
                    let mut named = Vec::new();
                    let fit = kinds[fit..].iter().take(n).take_while(|k| is_good(k)).count();
                    prop_assert_eq!(by_name.lend_front(&mut frame, n, |place, _, _| named.push(place)), fit);
                    prop_assert_eq!(by_name.len(), fit);
                    prop_assert!(named.into_iter().all(|place| by_name.free(place, &mut cache)));
                    for i in (0..frame.len()).rev() {
                        let foreign = window.place(frame.snapshot(i).unwrap().buffer).is_none();
                        frame.pop().unwrap().free(if foreign { &mut others } else { &mut cache });
                    }
                }
                Op::New(n) => {
                    let room = SIZE - queue.len();
                    prop_assert_eq!(lent.lend_new(&mut cache, n, |place| queue.push_back(place)), n.min(room));
                }
                Op::Receive(n, before, stop) => {
                    prop_assert_eq!(frame.alloc(&mut cache, before), before);
                    let expected = n.min(stop).min(queue.len()).min(256 - before);
                    let got = lent.receive(&mut frame, n, |i| (i < stop).then_some(i + 1));
                    prop_assert_eq!(got, expected);
                    for (i, place) in queue.drain(..got).enumerate() {
                        let p = frame.snapshot(before + i).unwrap();
                        prop_assert_eq!(window.place(p.buffer), Some(place));
                        prop_assert_eq!((usize::from(p.offset), usize::from(p.len)), (DATA, i + 1));
                    }
                    prop_assert_eq!(frame.len(), before + got);
                    frame.free(&mut cache);
                }
                Op::Back(n) => {
                    let n = n.min(queue.len());
                    let mut expected: Vec<_> = queue.drain(..n).enumerate().collect();
                    expected.reverse();
                    let mut got = Vec::new();
                    lent.back(n, |i, held| {
                        got.push((i, window.place(held.snapshot().buffer).unwrap()));
                        held.free(&mut cache);
                    });
                    prop_assert_eq!(got, expected);
                }
                Op::Free(n) => {
                    lent.free(n, &mut cache);
                    queue.drain(..n.min(queue.len()));
                }
            }
            prop_assert!(lent.oldest(SIZE).eq(queue.iter().copied()));
            prop_assert!(queue.iter().all(|place| place + STRIDE <= window.len()));
            cache.publish();
            let stats = pool.stats();
            prop_assert_eq!((stats.lent, stats.used, lent.len()), (queue.len(), 0, queue.len()));
        }
        drop((lent, by_name, cache));
        prop_assert_eq!((pool.stats().free, pool.stats().lost), (BUFFERS, 0));
    }
}
