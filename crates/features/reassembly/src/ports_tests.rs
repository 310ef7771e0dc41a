//! Tests which fragments pass and when, against a simple model.

use std::collections::BTreeMap;

use proptest::prelude::*;

use net::ip::Ports;

use super::{PortsOf, Reason};
use crate::waiting::{Limits, Span};

const LIMITS: Limits = Limits { datagrams: 8, fragments: 4, buffers: 100, timeout: 3 };

const SPAN: Span = Span { start: 8, end: 16, buffers: 1 };

fn ports(n: u16) -> Ports {
    Ports { src: n, dst: n + 1 }
}

/// What happened to fragments: the ports with which they passed or the reason for dropping them, and their numbers.
type Outcome = Vec<(Result<Ports, Reason>, usize)>;

proptest! {
    /// Later fragments that arrive before the first one wait, and then follow it in order; those that arrive after the first one pass at
    /// once. In `all`, `Some` stands for a first fragment.
    #[test]
    fn no_fragment_passes_before_the_first(all in prop::collection::vec((0u16..4, prop::option::of(0u16..2)), 0..60)) {
        let mut t = PortsOf::new(LIMITS);
        let mut plain: BTreeMap<u16, (Option<Ports>, Vec<usize>)> = BTreeMap::new();
        for (n, (id, first)) in all.into_iter().enumerate() {
            let (mut got, mut expected) = (Outcome::new(), Outcome::new());
            let d = plain.entry(id).or_default();
            match (first, d.0) {
                (Some(p), Some(known)) if ports(p) != known => expected.push((Err(Reason::Overlap), n)),
                (Some(p), _) => {
                    expected.push((Ok(ports(p)), n));
                    expected.extend(d.1.drain(..).map(|n| (Ok(ports(p)), n)));
                    d.0 = Some(ports(p));
                }
                (None, Some(known)) => expected.push((Ok(known), n)),
                (None, None) if d.1.len() == 4 => expected.push((Err(Reason::TooMany), n)),
                (None, None) => d.1.push(n),
            }
            match first {
                Some(p) => t.first(0, id, ports(p), n, |how, n| got.push((how, n))),
                None => t.later(0, id, SPAN, n, |how, n| got.push((how, n))),
            }
            prop_assert_eq!(got, expected);
            prop_assert_eq!(t.fill().fragments as usize, plain.values().map(|d| d.1.len()).sum::<usize>());
        }
        prop_assert_eq!(t.learned() as usize, plain.values().filter(|d| d.0.is_some()).count());
        t.clear(|_| ());
    }
}

#[test]
fn waiting_fragments_and_known_ports_expire() {
    let mut t = PortsOf::new(LIMITS);
    let mut out = Outcome::new();
    t.later(0, 1, SPAN, 0, |how, n| out.push((how, n)));
    t.first(1, 2, ports(5), 1, |how, n| out.push((how, n)));
    assert_eq!(out, [(Ok(ports(5)), 1)]);
    let mut gone = Vec::new();
    t.expire(2, 9, |n| gone.push(n));
    assert_eq!((gone.len(), t.due()), (0, Some(3)));
    t.expire(4, 9, |n| gone.push(n));
    assert_eq!((gone, t.due()), (vec![0], None));
    t.later(5, 2, SPAN, 2, |how, n| out.push((how, n)));
    assert_eq!(out.len(), 1, "it waits for a new first fragment");
    t.clear(|_| ());
}

#[test]
fn a_full_table_evicts_the_oldest_datagrams() {
    let mut t = PortsOf::new(Limits { datagrams: 2, buffers: 3, ..LIMITS });
    let mut out = Outcome::new();
    for id in 0u16..3 {
        t.later(0, id, SPAN, usize::from(id), |how, n| out.push((how, n)));
    }
    assert_eq!(out, [(Err(Reason::Displaced), 0)]);
    t.later(0, 2, Span { buffers: 2, ..SPAN }, 3, |how, n| out.push((how, n)));
    assert_eq!(out[1..], [(Err(Reason::Crowded), 1)]);
    t.later(0, 2, Span { buffers: 4, ..SPAN }, 4, |how, n| out.push((how, n)));
    assert_eq!(out[2..], [(Err(Reason::Crowded), 4)]);
    t.clear(|_| ());
}
