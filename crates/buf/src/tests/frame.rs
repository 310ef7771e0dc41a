//! Compares frames with a plain list of packets, and the facts of frames with their packets.

use proptest::prelude::*;

use crate::record::Flags;
use crate::{Cache, FRAME_SIZE, Frame, Held, Pool};

#[derive(Clone, Debug)]
enum Op {
    Push {
        frame: usize,
        flags: u8,
        rx: u32,
    },
    Pop(usize),
    TakeFront(usize),
    /// Moves packets from the other frame.
    Append(usize),
    Alloc(usize, usize),
    FreeFront(usize, usize),
    Truncate(usize, usize),
    Drain(usize),
    SetRx(usize, u32),
    SetTraced(usize, usize, usize),
    Note(usize, usize),
}

fn op() -> impl Strategy<Value = Op> {
    let f = || 0..2usize;
    let n = || prop_oneof![0..10usize, 0..300usize];
    prop_oneof![
        8 => (f(), any::<u8>(), 1..3u32).prop_map(|(frame, flags, rx)| Op::Push { frame, flags, rx }),
        2 => f().prop_map(Op::Pop),
        2 => f().prop_map(Op::TakeFront),
        3 => f().prop_map(Op::Append),
        2 => (f(), n()).prop_map(|(f, n)| Op::Alloc(f, n)),
        2 => (f(), n()).prop_map(|(f, n)| Op::FreeFront(f, n)),
        1 => (f(), n()).prop_map(|(f, n)| Op::Truncate(f, n)),
        1 => f().prop_map(Op::Drain),
        1 => (f(), 1..3u32).prop_map(|(f, i)| Op::SetRx(f, i)),
        1 => (f(), n(), n()).prop_map(|(f, a, b)| Op::SetTraced(f, a, b)),
        1 => (f(), any::<usize>()).prop_map(|(f, i)| Op::Note(f, i)),
    ]
}

/// Returns the numbers that identify the packets of a frame. Each is in the packet's `fwd`, which the
/// operations here do not change.
fn ids(frame: &mut Frame) -> Vec<u32> {
    frame.packets().map(|p| p.fwd()).collect()
}

fn held(cache: &mut Cache, id: u32, flags: u8, rx: u32) -> Option<Held> {
    let mut held = Held::alloc(cache)?;
    let mut p = held.packet();
    p.set_fwd(id);
    p.set_rx_if(rx);
    // Few packets have flags; otherwise the facts would never be wrong.
    p.set_flags(match flags {
        0 => Flags::TRACED,
        1 => Flags::GSO,
        2 => Flags::CSUM_PARTIAL,
        _ => Flags::NONE,
    });
    if flags == 3 && !p.fill_chained(&[7; 3000], cache) {
        held.free(cache);
        return None;
    }
    Some(held)
}

proptest! {
    #![proptest_config(super::cases(100))]

    #[test]
    fn frames_agree_with_lists(ops in prop::collection::vec(op(), 1..super::steps(120))) {
        let pool = Pool::new(1024)?;
        let mut cache = pool.cache();
        let mut frames = [Frame::new(), Frame::new()];
        let mut lists: [Vec<u32>; 2] = Default::default();
        let mut next = 0;
        for op in ops {
            match op {
                Op::Push { frame: f, flags, rx } => {
                    next += 1;
                    let Some(h) = held(&mut cache, next, flags, rx) else { continue };
                    match frames[f].push(h) {
                        Ok(()) => lists[f].push(next),
                        Err(back) => {
                            prop_assert_eq!(lists[f].len(), FRAME_SIZE);
                            back.free(&mut cache);
                        }
                    }
                }
                Op::Pop(f) => {
                    let popped = frames[f].pop().map(|mut h| {
                        let id = h.packet().fwd();
                        h.free(&mut cache);
                        id
                    });
                    prop_assert_eq!(popped, lists[f].pop());
                }
                Op::TakeFront(f) => {
                    let taken = frames[f].take_front().map(|mut h| {
                        let id = h.packet().fwd();
                        h.free(&mut cache);
                        id
                    });
                    let first = (!lists[f].is_empty()).then(|| lists[f].remove(0));
                    prop_assert_eq!(taken, first);
                }
                Op::Append(f) => {
                    let [a, b] = &mut frames;
                    let (to, from) = if f == 0 { (a, b) } else { (b, a) };
                    to.append(from);
                    let n = (FRAME_SIZE - lists[f].len()).min(lists[1 - f].len());
                    let moved: Vec<u32> = lists[1 - f].drain(..n).collect();
                    lists[f].extend(moved);
                }
                Op::Alloc(f, n) => {
                    let got = frames[f].alloc(&mut cache, n);
                    prop_assert_eq!(got, n.min(FRAME_SIZE - lists[f].len()));
                    for mut p in frames[f].packets().skip(lists[f].len()) {
                        next += 1;
                        p.set_fwd(next);
                    }
                    lists[f].extend(next + 1 - got as u32..=next);
                }
                Op::FreeFront(f, n) => {
                    frames[f].free_front(n, &mut cache);
                    let n = n.min(lists[f].len());
                    lists[f].drain(..n);
                }
                Op::Truncate(f, n) => {
                    frames[f].truncate(n, &mut cache);
                    lists[f].truncate(n);
                }
                Op::Drain(f) => {
                    let mut drained = Vec::new();
                    frames[f].drain(|mut h| {
                        drained.push(h.packet().fwd());
                        h.free(&mut cache);
                    });
                    prop_assert_eq!(drained, std::mem::take(&mut lists[f]));
                }
                Op::SetRx(f, rx) => {
                    frames[f].set_rx(rx);
                    prop_assert!(frames[f].is_empty() || frames[f].uniform_rx() == Some(rx));
                }
                Op::SetTraced(f, a, b) => {
                    frames[f].set_traced(a.min(b)..b, 100);
                    for (i, p) in frames[f].packets().enumerate().take(b).skip(a) {
                        prop_assert!(p.flags().any(Flags::TRACED));
                        prop_assert_eq!(p.cold().trace as usize, 100 + i - a);
                    }
                }
                Op::Note(f, i) => {
                    let n = frames[f].len();
                    if n > 0 && let Some(mut p) = frames[f].get(i % n) {
                        p.set_flags(p.flags() | Flags::GSO);
                        frames[f].note(Flags::GSO);
                    }
                }
            }
            for (frame, list) in frames.iter_mut().zip(&lists) {
                prop_assert_eq!(&ids(frame), list);
                prop_assert_eq!((frame.len(), frame.room()), (list.len(), FRAME_SIZE - list.len()));
                let (any, uniform) = (frame.any(), frame.uniform_rx());
                for i in 0..frame.len() {
                    let s = frame.snapshot(i).ok_or(TestCaseError::fail("no snapshot"))?;
                    prop_assert!((s.flags & !any).is_empty(), "any() misses {:?}", s.flags);
                    prop_assert!(uniform.is_none_or(|u| u == s.rx_if), "uniform_rx() lies");
                }
            }
        }
        frames.iter_mut().for_each(|f| f.free(&mut cache));
        drop(cache);
        prop_assert_eq!((pool.stats().used, pool.stats().lost), (0, 0));
    }
}

fn three(cache: &mut Cache) -> Frame {
    let mut frame = Frame::new();
    for id in 0..3 {
        if let Some(h) = held(cache, id, 255, 1) {
            assert!(frame.push(h).is_ok());
        }
    }
    frame
}

#[test]
fn an_emptied_frame_has_no_metadata() -> std::io::Result<()> {
    let pool = Pool::new(16)?;
    let mut cache = pool.cache();
    let ways: [fn(&mut Frame, &mut Cache); 5] = [
        |f, c| {
            while let Some(h) = f.take_front() {
                h.free(c);
            }
        },
        |f, c| f.free(c),
        |f, c| f.truncate(0, c),
        |f, c| f.drain(|h| h.free(c)),
        |f, c| {
            let mut other = Frame::new();
            other.append(f);
            other.free(c);
        },
    ];
    for empty in ways {
        let mut frame = three(&mut cache);
        frame.set_traced(0..1, 1);
        empty(&mut frame, &mut cache);
        assert!(frame.is_empty() && frame.any().is_empty() && frame.uniform_rx().is_none());
    }
    Ok(())
}

#[test]
fn a_frame_knows_that_its_packets_have_one_interface() -> std::io::Result<()> {
    let pool = Pool::new(16)?;
    let mut cache = pool.cache();
    let (mut a, mut b) = (three(&mut cache), three(&mut cache));
    assert_eq!(a.uniform_rx(), Some(1));
    a.append(&mut b);
    assert_eq!((a.uniform_rx(), b.uniform_rx()), (Some(1), None));
    a.get(1).into_iter().for_each(|mut p| p.set_rx_if(2));
    a.forget_uniform_rx();
    assert_eq!(a.uniform_rx(), None);
    a.free(&mut cache);
    Ok(())
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "not noted in its frame")]
fn an_unnoted_flag_is_detected() {
    let pool = Pool::new(16).expect("a pool");
    let mut frame = three(&mut pool.cache());
    frame.get(2).into_iter().for_each(|mut p| p.set_flags(Flags::CSUM_PARTIAL));
    frame.any();
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "another receive interface")]
fn an_unnoted_interface_is_detected() {
    let pool = Pool::new(16).expect("a pool");
    let mut frame = three(&mut pool.cache());
    frame.get(0).into_iter().for_each(|mut p| p.set_rx_if(9));
    frame.uniform_rx();
}
