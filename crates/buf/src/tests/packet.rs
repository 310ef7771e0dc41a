//! Compares the cursor with a model: a buffer is an array of bytes, and the packet has a start and an end in
//! it that move.

use proptest::prelude::*;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{bytes_of, packet_of, pattern};
use crate::bpf::Program;
use crate::layout::{DATA, DATA_ROOM, HEADROOM, MAX_OFFSET, PEEK, STRIDE};
use crate::record::{Flags, NO_INTERFACE};
use crate::{FeatureFields, Gso, GsoKind, Held, Pool};

#[derive(Clone, Debug)]
enum Op {
    Advance(usize),
    Push(usize),
    SetLen(usize),
    Truncate(usize),
    Fill(Vec<u8>),
    FillChained(usize),
    Write(usize, u8),
    Mark(u8),
    RewindL2,
    RewindL3,
    Duplicate,
    /// Appends another packet, given in this order: its length in bytes, the number of bytes cut from its
    /// start, and the number of bytes cut from its end.
    Append(usize, usize, usize),
}

/// Generates numbers of bytes for an operation: mostly small ones, and those that just reach, or exceed, the limits of the buffer.
fn step() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0..100usize,
        2 => 0..STRIDE + 10,
        1 => Just(usize::MAX),
        1 => Just(DATA - HEADROOM),
        1 => Just(MAX_OFFSET - DATA),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => step().prop_map(Op::Advance),
        4 => step().prop_map(Op::Push),
        2 => step().prop_map(Op::SetLen),
        2 => prop_oneof![step(), 0..3 * STRIDE].prop_map(Op::Truncate),
        1 => prop::collection::vec(any::<u8>(), 0..STRIDE).prop_map(Op::Fill),
        2 => (0..3 * STRIDE).prop_map(Op::FillChained),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(i, b)| Op::Write(i, b)),
        2 => any::<u8>().prop_map(Op::Mark),
        1 => Just(Op::RewindL2),
        1 => Just(Op::RewindL3),
        1 => Just(Op::Duplicate),
        4 => (prop_oneof![0..200usize, 0..2 * STRIDE], 0..200usize, prop_oneof![Just(0), 0..STRIDE])
            .prop_map(|(n, lead, cut)| Op::Append(n, lead, cut)),
    ]
}

/// The expected packet.
#[derive(Clone)]
struct Model {
    /// The head buffer.
    memory: Vec<u8>,
    start: usize,
    end: usize,
    tail: Vec<u8>,
    /// True if a copy of the packet shares the tail.
    shared: bool,
    /// Offsets of the marked network header and of its link header; `None` before the first mark.
    mark: Option<(usize, usize)>,
}

impl Model {
    fn rewind(&mut self, to: usize) {
        self.start = to.max(HEADROOM).min(self.end).min(MAX_OFFSET);
    }
    fn all(&self) -> Vec<u8> {
        [&self.memory[self.start..self.end], &self.tail].concat()
    }
}

proptest! {
    #![proptest_config(super::cases(300))]

    #[test]
    fn the_cursor_agrees_with_the_model(ops in prop::collection::vec(op(), 1..super::steps(60))) {
        let pool = Pool::new(64)?;
        let mut cache = pool.cache();
        let mut held = Held::alloc(&mut cache).ok_or(TestCaseError::fail("no buffer"))?;
        // The memory holds leftovers of other packets: set all of it to known values.
        let mut model =
            Model { memory: vec![0; STRIDE], start: DATA, end: DATA, tail: Vec::new(), shared: false, mark: None };
        while held.packet().push(1) {}
        held.packet().room_mut().fill(0);
        prop_assert!(held.packet().advance(DATA - HEADROOM));
        let mut others = Vec::new();
        for op in ops {
            let mut p = held.packet();
            let m = &mut model;
            let len = m.end - m.start;
            match op.clone() {
                Op::Advance(n) => {
                    let fits = n <= len && m.start + n <= MAX_OFFSET;
                    prop_assert_eq!(p.advance(n), fits);
                    m.start += if fits { n } else { 0 };
                }
                Op::Push(n) => {
                    let fits = n <= m.start - HEADROOM;
                    prop_assert_eq!(p.push(n), fits);
                    m.start -= if fits { n } else { 0 };
                }
                Op::SetLen(n) => {
                    p.set_len(n);
                    m.end = m.start + n.min(STRIDE - m.start);
                }
                Op::Truncate(n) => {
                    p.truncate(n, &mut cache);
                    if n > len {
                        m.tail.truncate(n - len);
                    } else {
                        m.end = m.start + n;
                        m.tail.clear();
                        m.shared = false;
                    }
                }
                Op::Fill(bytes) => {
                    let fits = bytes.len() <= STRIDE - m.start;
                    prop_assert_eq!(p.fill(&bytes), fits);
                    if fits {
                        m.end = m.start + bytes.len();
                        m.memory[m.start..m.end].copy_from_slice(&bytes);
                    }
                }
                Op::FillChained(n) => {
                    let bytes = pattern(n as u32, n);
                    prop_assert!(p.fill_chained(&bytes, &mut cache));
                    let first = n.min(STRIDE - m.start);
                    m.end = m.start + first;
                    m.memory[m.start..m.end].copy_from_slice(&bytes[..first]);
                    m.tail = bytes[first..].to_vec();
                    m.shared = false;
                }
                Op::Write(i, b) => {
                    if len > 0 {
                        p.bytes_mut()[i % len] = b;
                        m.memory[m.start + i % len] = b;
                    }
                }
                Op::Mark(l2) => {
                    p.mark_l3(l2);
                    prop_assert_eq!(p.l2_len(), l2);
                    m.mark = Some((m.start, m.start.saturating_sub(usize::from(l2))));
                }
                Op::RewindL2 => {
                    p.rewind_to_l2();
                    if let Some((_, l2)) = m.mark {
                        m.rewind(l2);
                    }
                }
                Op::RewindL3 => {
                    p.rewind_to_l3();
                    if let Some((l3, _)) = m.mark {
                        m.rewind(l3);
                    }
                }
                Op::Duplicate => {
                    // The test continues with the copy; the original must be unaffected.
                    let Some(copy) = p.duplicate(&mut cache) else { continue };
                    let old = std::mem::replace(&mut held, copy);
                    let copied = m.mark.map_or(m.start, |(_, l2)| l2.clamp(HEADROOM, m.start))..m.end;
                    others.push((old, m.all()));
                    // Outside of the copied bytes the copy's buffer is undefined: set it to known values.
                    let mut p = held.packet();
                    let (start, len) = (m.start, p.len());
                    prop_assert!(p.push(start - HEADROOM));
                    let room = p.room_mut();
                    for (at, byte) in m.memory.iter().enumerate().skip(HEADROOM) {
                        if !copied.contains(&at) {
                            room[at - HEADROOM] = *byte;
                        }
                    }
                    prop_assert!(p.advance(start - HEADROOM));
                    prop_assert_eq!(p.len(), len);
                    m.shared = p.flags().any(Flags::CHAINED);
                }
                Op::Append(n, lead, cut) => {
                    let mut bytes = pattern(n as u32, n);
                    let Some(mut other) = packet_of(&bytes, &mut cache) else { continue };
                    let mut o = other.packet();
                    if o.advance(lead) {
                        bytes.drain(..lead);
                    }
                    bytes.truncate(bytes.len() - cut.min(bytes.len()));
                    o.truncate(bytes.len(), &mut cache);
                    let done = p.append(other, &mut cache);
                    prop_assert_eq!(done.is_err(), m.shared);
                    if let Err(other) = done {
                        other.free(&mut cache);
                        continue;
                    }
                    m.tail.extend(bytes);
                    let moved = PEEK.saturating_sub(len).min(m.tail.len());
                    for byte in m.tail.drain(..moved) {
                        m.memory[m.end] = byte;
                        m.end += 1;
                    }
                }
            }
            let mut p = held.packet();
            let m = &model;
            let s = p.snapshot();
            prop_assert_eq!((s.offset as usize, p.len()), (m.start, m.end - m.start), "after {:?}", op);
            prop_assert!((HEADROOM..=MAX_OFFSET).contains(&m.start) && m.end <= STRIDE);
            prop_assert_eq!(p.bytes(), &m.memory[m.start..m.end]);
            prop_assert_eq!(p.total_len(), m.all().len());
            // A packet that was cut to its first buffer may still have an unused tail.
            prop_assert!(p.flags().any(Flags::CHAINED) || m.tail.is_empty());
            prop_assert_eq!(p.room_mut().len(), STRIDE - m.start);
            let all = m.all();
            // A truncated tail still exists.
            prop_assert!(p.buffers() >= p.segments().count() && (p.buffers() > 1) == p.flags().any(Flags::CHAINED));
            let segments = p.segments().collect::<Vec<_>>().concat();
            prop_assert!(segments == all, "the segments differ after {:?}", op);
            for (other, bytes) in &mut others {
                prop_assert!(bytes_of(other) == *bytes, "a copy's packet changed by {:?}", op);
            }
        }
        held.free(&mut cache);
        others.into_iter().for_each(|(h, _)| h.free(&mut cache));
        drop(cache);
        prop_assert_eq!(pool.stats().used, 0);
    }

    #[test]
    fn headers_are_read_from_the_packets_bytes(
        (len, at) in (0..100usize, 0..100usize),
        advance in prop_oneof![0..100usize, Just(MAX_OFFSET - DATA)],
    ) {
        let pool = Pool::new(8)?;
        let mut cache = pool.cache();
        let bytes = pattern(3, DATA_ROOM);
        let mut held = packet_of(&bytes, &mut cache).ok_or(TestCaseError::fail("no buffer"))?;
        let mut p = held.packet();
        prop_assert!(p.advance(advance));
        p.set_len(len);
        let whole = len >= size_of::<Words>();
        prop_assert_eq!(p.head::<Words>().is_some(), whole);
        prop_assert_eq!(&p.peek::<Words>().0[..], &bytes[advance..][..9]);
        // A header is limited to the first 64 bytes, so that it cannot exceed the buffer.
        prop_assert_eq!(&p.peek_at::<Words>(at).0[..], &bytes[advance + at.min(64)..][..9]);
        p.peek_at::<Words>(usize::MAX).0 = [0xaa; 9];
        p.set_len(STRIDE);
        prop_assert_eq!(&p.bytes()[64..73], &[0xaa; 9]);
        held.free(&mut cache);
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
struct Words([u8; 9]);

#[test]
fn a_copy_has_its_own_head_fields() -> std::io::Result<()> {
    let pool = Pool::new(8)?;
    let mut cache = pool.cache();
    let mut held = packet_of(b"bytes", &mut cache).ok_or(std::io::ErrorKind::OutOfMemory)?;
    let mut p = held.packet();
    let gso = Gso { kind: GsoKind::Tcp4, ecn: true, size: 1448, header_len: 54 };
    p.set_flags(Flags::GSO | Flags::RECIRCULATED);
    p.cold_mut().set_gso(gso);
    p.cold_mut().trace = 3;
    let field = FeatureFields::default().add::<[u8; 64]>("all").map_err(std::io::Error::other)?;
    *p.feature_mut(field) = [7; 64];
    p.set_fib(4);
    p.set_rx_if(5);
    p.set_tx_if(6);
    p.set_fwd(7);
    p.set_hash(8);
    p.set_l4_offset(20);
    let mut copy = p.duplicate(&mut cache).ok_or(std::io::ErrorKind::OutOfMemory)?;
    *p.feature_mut(field) = [9; 64];
    p.cold_mut().trace = 0;
    p.set_fib(0);
    let c = copy.packet();
    assert_eq!((c.cold().gso(), c.cold().trace), (Some(gso), 3));
    assert_eq!(c.feature(field), [7; 64]);
    let s = c.snapshot();
    assert_eq!((s.fib, s.rx_if, s.tx_if, s.fwd, s.hash, c.l4_offset()), (4, 5, 6, 7, 8, 20));
    held.free(&mut cache);
    copy.free(&mut cache);
    Ok(())
}

#[test]
fn a_new_packet_has_no_metadata_of_the_last_one() -> std::io::Result<()> {
    let pool = Pool::new(1)?;
    let mut cache = pool.cache();
    let mut held = packet_of(b"old", &mut cache).ok_or(std::io::ErrorKind::OutOfMemory)?;
    let mut p = held.packet();
    p.set_flags(Flags::TRACED | Flags::GSO);
    p.set_rx_if(1);
    p.set_tx_if(1);
    p.set_fwd(1);
    p.set_fib(1);
    p.mark_l3(14);
    held.free(&mut cache);
    let mut held = Held::alloc(&mut cache).ok_or(std::io::ErrorKind::OutOfMemory)?;
    let mut p = held.packet();
    let s = p.snapshot();
    assert!(s.flags.is_empty());
    assert_eq!((s.rx_if, s.tx_if, s.fwd, s.fib, s.len), (NO_INTERFACE, NO_INTERFACE, 0, 0, 0));
    assert!(p.push(10), "there is headroom");
    p.rewind_to_l2();
    p.rewind_to_l3();
    assert_eq!(p.len(), 10, "without a mark, rewinding does nothing");
    held.free(&mut cache);
    Ok(())
}

#[test]
fn the_chained_flag_cannot_be_set_by_hand() -> std::io::Result<()> {
    let pool = Pool::new(8)?;
    let mut cache = pool.cache();
    let mut one = packet_of(b"x", &mut cache).ok_or(std::io::ErrorKind::OutOfMemory)?;
    let mut two = packet_of(&pattern(1, STRIDE), &mut cache).ok_or(std::io::ErrorKind::OutOfMemory)?;
    one.packet().set_flags(!Flags::NONE);
    two.packet().set_flags(Flags::NONE);
    assert!(!one.packet().flags().any(Flags::CHAINED) && one.packet().flags().any(Flags::TRACED));
    assert!(two.packet().flags() == Flags::CHAINED);
    // The link cannot be exchanged either: the cold header contains no part of it.
    std::mem::swap(one.packet().cold_mut(), two.packet().cold_mut());
    assert_eq!(two.packet().total_len(), STRIDE);
    one.free(&mut cache);
    two.free(&mut cache);
    drop(cache);
    assert_eq!(pool.stats().used, 0);
    Ok(())
}

#[test]
fn a_chain_without_a_free_buffer_stays_consistent() -> std::io::Result<()> {
    let pool = Pool::new(3)?;
    let mut cache = pool.cache();
    let mut held = Held::alloc(&mut cache).ok_or(std::io::ErrorKind::OutOfMemory)?;
    assert!(!held.packet().fill_chained(&pattern(1, 10 * DATA_ROOM), &mut cache));
    assert_eq!(bytes_of(&mut held).len(), held.packet().total_len());
    held.free(&mut cache);
    drop(cache);
    assert_eq!(pool.stats().used, 0);
    Ok(())
}

#[test]
fn appended_packets_have_their_headers_in_one_buffer() -> std::io::Result<()> {
    let pool = Pool::new(100)?;
    let mut cache = pool.cache();
    let bytes = pattern(5, 40 * 8);
    let mut whole: Option<Held> = None;
    for piece in bytes.chunks(8).rev() {
        let mut held = packet_of(piece, &mut cache).ok_or(std::io::ErrorKind::OutOfMemory)?;
        if let Some(rest) = whole.take() {
            assert!(held.packet().append(rest, &mut cache).is_ok());
        }
        whole = Some(held);
    }
    let mut whole = whole.ok_or(std::io::ErrorKind::OutOfMemory)?;
    assert_eq!(bytes_of(&mut whole), bytes);
    assert_eq!(whole.packet().bytes()[..PEEK], bytes[..PEEK]);
    // A filter sees the bytes of all buffers, also across the borders between buffers, and nothing after the last one.
    for at in 0..bytes.len() + 4 {
        let word = bytes.get(at..at + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
        let lines = [
            format!("32 0 0 {at}"),
            format!("21 0 1 {}", word.unwrap_or(0)),
            "6 0 0 1".into(),
            "6 0 0 0".into(),
        ];
        let filter =
            lines.iter().map(|l| l.parse()).collect::<Result<Vec<_>, _>>().and_then(|all| Program::new(&all));
        assert_eq!(filter.map(|f| whole.packet().matches(&f)), Ok(word.is_some()), "{at}");
    }
    whole.free(&mut cache);
    drop(cache);
    assert_eq!(pool.stats().used, 0);
    Ok(())
}
