//! Tests of the harness with simple nodes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use buf::{Frame, Held, Packet};
use graph::{Builder, Cx, FrameNode, PacketNode, Verdict};

use super::Harness;

/// Sends each packet to the edge that its first byte selects, and removes that byte.
struct Sorter;

graph::edges! { enum SorterNext { Left = "left", Right = "right", Arc = "some-arc", Punt = "error-punt" } }
graph::reasons! { enum SorterDrop { Empty = "empty", Error, "the packet has no first byte"; } }

impl PacketNode for Sorter {
    const NAME: &'static str = "sorter";
    type Next = SorterNext;
    type Drop = SorterDrop;

    fn one(&mut self, _: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<SorterNext, SorterDrop> {
        let Some(&first) = p.bytes().first() else { return Verdict::Drop(SorterDrop::Empty) };
        assert!(p.advance(1));
        Verdict::Next(match first {
            b'l' => SorterNext::Left,
            b'a' => SorterNext::Arc,
            b'p' => {
                p.set_fwd(0);
                SorterNext::Punt
            }
            _ => SorterNext::Right,
        })
    }
}

/// A node that holds all packets. It frees them when it is dropped, but only if `gives_up` is set.
struct Keeper {
    kept: Vec<Held>,
    gives_up: bool,
}

graph::edges! { enum KeeperNext { On = "next-feature" } }

impl FrameNode for Keeper {
    const NAME: &'static str = "keeper";
    type Next = KeeperNext;
    type Drop = graph::NoReason;

    fn run(&mut self, _: &mut Cx<'_>, _: &mut Frame, out: &mut graph::Out<'_, KeeperNext, graph::NoReason>) {
        out.all(Verdict::Hold);
    }
    fn held(&mut self, cx: &mut Cx<'_>, p: Held, _: &mut graph::Out<'_, KeeperNext, graph::NoReason>) {
        self.kept.push(p);
        cx.bufs.note_kept(1);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.gives_up {
            self.kept.drain(..).for_each(Held::discard);
        }
    }
}

fn install(b: &mut Builder, gives_up: bool) {
    b.packet(|_| Ok(Sorter));
    b.punt_reason("for-main", 1000);
    b.arc("some-arc", "arc-end", graph::ArcKey::Rx);
    b.frame(move |_| Ok(Keeper { kept: Vec::new(), gives_up }));
    b.feature("some-arc", "keeper", &["not-here"], &[]);
}

#[test]
fn every_exit_of_a_packet_is_recorded() {
    let mut h = Harness::new(|b| install(b, true));
    let long = [b"r".to_vec(), vec![7; 5000]].concat();
    let sent =
        [b"left".to_vec(), b"rr".to_vec(), Vec::new(), b"punted".to_vec(), b"arc".to_vec(), long.clone()];
    let out = h.send("sorter", &sent, |i, p| p.set_rx_if(i as u32));
    let seen: Vec<_> = out.iter().map(|o| (o.from, o.node.as_str(), o.reason, o.bytes.as_slice())).collect();
    let mut expected = vec![
        (Some(0), "left", None, &b"eft"[..]),
        (Some(1), "right", None, b"r"),
        (Some(2), "sorter", Some("empty"), b""),
        (Some(3), "punt", Some("for-main"), b"unted"),
        (Some(4), "arc-end", None, b"rc"),
        (Some(5), "right", None, &long[1..]),
    ];
    let by_from = |v: &mut Vec<(Option<usize>, &str, _, _)>| v.sort_by_key(|x| x.0);
    let mut sorted = seen.clone();
    by_from(&mut sorted);
    by_from(&mut expected);
    assert_eq!(sorted, expected);
    assert!(out.iter().all(|o| o.record.rx_if as usize == o.from.unwrap_or(9)));
    assert_eq!(h.dropped("sorter", "empty"), 1);
    assert!(h.trace().contains("dropped: the packet has no first byte (empty)"), "{}", h.trace());
}

#[test]
fn features_can_be_enabled_and_keep_packets() {
    let mut h = Harness::new(|b| install(b, true));
    assert!(h.arcs().enable("some-arc", "keeper", 3, true).is_ok());
    let out = h.send("sorter", &[b"a1", b"a2", b"a3"], |i, p| p.set_rx_if(2 + i as u32));
    let seen: Vec<_> = out.iter().map(|o| (o.from, o.node.as_str())).collect();
    assert_eq!(seen, [(Some(0), "arc-end"), (Some(2), "arc-end")]);
}

#[test]
fn more_packets_than_a_frame_are_sent_in_order() {
    let mut h = Harness::new(|b| install(b, true));
    let sent: Vec<[u8; 2]> = (0..600).map(|i| [b'r', i as u8]).collect();
    let out = h.send("sorter", &sent, |_, _| ());
    assert!(out.iter().map(|o| o.from).eq((0..600).map(Some)));
}

#[test]
fn a_lost_packet_fails_the_test() {
    let mut h = Harness::new(|b| install(b, false));
    assert!(h.arcs().enable("some-arc", "keeper", 1, true).is_ok());
    assert!(h.send("sorter", &[b"a1"], |_, p| p.set_rx_if(1)).is_empty());
    let failed = catch_unwind(AssertUnwindSafe(|| drop(h))).expect_err("the drop must fail");
    let message = failed.downcast_ref::<String>().map_or("", String::as_str);
    assert!(message.contains("packets left without a reason") && message.contains("held"), "{message}");
}

#[test]
fn a_leaked_packet_fails_the_test() {
    let mut h = Harness::new(|b| install(b, true));
    let held = h.held(b"x");
    let failed = catch_unwind(AssertUnwindSafe(|| drop(h))).expect_err("the drop must fail");
    assert!(failed.downcast_ref::<String>().is_some_and(|m| m.contains("buffers leaked")));
    held.discard();
}
