use super::*;
use crate::lpm::{Lpm, NaiveLpm};
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Op {
    Insert(u128, u8, u32),
    Remove(u128, u8),
}

/// Addresses with few different bytes, so that prefixes nest, repeat and share nodes.
fn address() -> impl Strategy<Value = u128> {
    let high =
        prop::sample::select(vec![0x2001_0db8u128, 0x2001_0db9, 0x2001_0d00, 0x2a00_1450, 0, 0xffff_ffff]);
    let byte = || prop::sample::select(vec![0u8, 1, 2, 127, 128, 255]);
    let any = prop_oneof![2 => byte(), 3 => any::<u8>()];
    (
        high,
        prop::array::uniform3(any),
        prop::array::uniform8(byte()),
        prop::sample::select(vec![0u128, 0xffff]),
    )
        .prop_map(|(high, middle, low, rest)| {
            let bytes = middle.iter().chain(&low).fold(high, |all, byte| all << 8 | u128::from(*byte));
            bytes << 8 | rest & 0xff
        })
}

fn length() -> impl Strategy<Value = u8> {
    let usual = prop::sample::select(vec![24u8, 29, 32, 36, 40, 44, 48, 56, 64, 112, 127, 128]);
    prop_oneof![1 => 0u8..14, 2 => 14u8..=24, 6 => 25u8..=48, 4 => 49u8..=128, 12 => usual, 1 => 129u8..=255]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (address(), length(), 1u32..9).prop_map(|(p, l, leaf)| Op::Insert(p, l, leaf)),
        1 => (address(), length()).prop_map(|(p, l)| Op::Remove(p, l)),
    ]
}

fn corners(p: u128, l: u8) -> [u128; 5] {
    let (first, len) = p.canonical(l);
    let last = first.last(len);
    [first, last, first.wrapping_sub(1), last.wrapping_add(1), p]
}

fn assert_same(reader: &TrieReader, oracle: &NaiveLpm<u128>, addrs: &[u128]) -> Result<(), TestCaseError> {
    let mut leaves = vec![u32::MAX; addrs.len()];
    reader.lookup_many(addrs, &mut leaves);
    for (&addr, &leaf) in addrs.iter().zip(&leaves) {
        prop_assert_eq!(reader.lookup(addr), oracle.lookup(addr), "{:032x}", addr);
        prop_assert_eq!(leaf, oracle.lookup(addr), "{:032x} by lookup_many", addr);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_the_oracle(ops in prop::collection::vec(op(), 1..250)) {
        let (mut writer, reader) = trie(&Domain::new()).unwrap();
        let mut oracle = NaiveLpm::new();
        let mut addrs = BTreeSet::new();
        for (n, op) in ops.iter().enumerate() {
            match *op {
                Op::Insert(p, l, leaf) => {
                    addrs.extend(corners(p, l));
                    prop_assert_eq!(writer.insert(p, l, leaf), oracle.insert(p, l, leaf));
                    prop_assert_eq!(writer.exact(p, l), Some(leaf));
                }
                Op::Remove(p, l) => {
                    // One that is there, more often than not.
                    let (p, l) = match oracle.iter().nth(n % 7 * oracle.len() / 5) {
                        Some((p, l, _)) => (p, l),
                        None => (p, l),
                    };
                    prop_assert_eq!(writer.remove(p, l), oracle.remove(p, l));
                    prop_assert_eq!(writer.exact(p, l), None);
                }
            }
            if n % 16 == 0 || n + 1 == ops.len() {
                let addrs: Vec<_> = addrs.iter().copied().collect();
                assert_same(&reader, &oracle, &addrs)?;
            }
        }
        prop_assert_eq!(writer.len(), oracle.len());
        prop_assert_eq!(writer.iter().collect::<BTreeSet<_>>(), oracle.iter().collect());
        // Emptied, it forgets everything and has all nodes back.
        for (p, l, _) in oracle.iter() {
            writer.remove(p, l);
        }
        let addrs: Vec<_> = addrs.iter().copied().collect();
        assert_same(&reader, &NaiveLpm::new(), &addrs)?;
        prop_assert_eq!(writer.nodes_in_use(), 0);
    }
}
