//! Tests cross-connects in a whole router with two links, against a plain description of what they send.

use net::ethernet::{HEADER, Tags};
use net::ip::Address;
use net::testing::{Lab, own_mac};
use proptest::prelude::*;
use wire::Mac;
use wire::builder::PacketBuilder;

use crate::node::{Way, install};
use crate::rewrite::Rewrite;

const HOST: Mac = Mac([2, 0, 0, 0, 0xa, 2]);
const MTU: usize = 1500;

fn lab() -> Lab {
    let all = |b: &mut graph::Builder, t: &net::Tables, hooks: &mut net::router::Hooks| {
        net::testing::install(b, t, hooks)?;
        install(b, t, hooks)
    };
    let mut lab = Lab::with(all, |link| Address::new([10, 0, link as u8, 1], 24));
    for link in 0..2 {
        lab.router.set_mtu(link, MTU as u16).unwrap();
    }
    lab
}

fn connect(lab: &mut Lab, from: u32, to: Option<u32>) {
    let router = &mut lab.router;
    let result = match to {
        Some(to) => super::connect(router, Way::CrossConnect, from, to),
        None => super::disconnect(router, from),
    };
    result.unwrap();
}

/// Returns a frame with these tags and this number of bytes after them.
fn frame(dst: Mac, tags: &[(u16, u16)], len: usize) -> Vec<u8> {
    let mut frame = [&dst.0[..], &HOST.0].concat();
    for (kind, tag) in tags {
        frame.extend([kind.to_be_bytes(), tag.to_be_bytes()].concat());
    }
    frame.extend([0x88, 0xb5]);
    frame.extend((0..len).map(|n| n as u8));
    frame
}

/// The packets of a reason's drops.
fn drops(lab: &Lab, reason: &str) -> u64 {
    let dropped = lab.router.graph().stats().dropped();
    dropped.iter().filter(|d| d.node == "l2-xconnect" && d.reason.name == reason).map(|d| d.packets).sum()
}

#[test]
fn a_cross_connect_is_one_way_and_ends() {
    let mut lab = lab();
    let passes = |lab: &mut Lab, from: u32| {
        let sent = frame(HOST, &[], 100);
        lab.receive(from, 0, sent.clone());
        (lab.sent(1 - from) == [sent], lab.sent(from).is_empty())
    };
    assert_eq!((passes(&mut lab, 0), passes(&mut lab, 1)), ((false, true), (false, true)));
    connect(&mut lab, 0, Some(1));
    assert_eq!((passes(&mut lab, 0), passes(&mut lab, 1)), ((true, true), (false, true)));
    connect(&mut lab, 1, Some(0));
    assert_eq!((passes(&mut lab, 0), passes(&mut lab, 1)), ((true, true), (true, true)));
    lab.router.set_admin(1, false).unwrap();
    assert_eq!(
        (passes(&mut lab, 0), passes(&mut lab, 1)),
        ((false, true), (false, true)),
        "its output is down"
    );
    lab.router.set_admin(1, true).unwrap();
    lab.run();
    drop((lab.sent(0), lab.sent(1)));
    connect(&mut lab, 0, None);
    assert_eq!((passes(&mut lab, 0), passes(&mut lab, 1)), ((false, true), (true, true)));
    // A routed interface answers again.
    let ping = PacketBuilder::ipv4([10, 0, 0, 2].into(), [10, 0, 0, 1].into()).ethernet(HOST, own_mac(0));
    lab.router.add_neighbor(0, std::net::Ipv4Addr::new(10, 0, 0, 2), HOST, true).unwrap();
    lab.receive(0, 0, ping.icmp(8, 0, 0).build());
    assert_eq!(lab.sent(0).len(), 1);
}

#[test]
fn a_peer_that_is_gone_drops_frames_with_a_reason() {
    let mut lab = lab();
    connect(&mut lab, 0, Some(1));
    lab.router.remove_interface(1).unwrap();
    lab.receive(0, 0, frame(HOST, &[], 50));
    assert_eq!(drops(&lab, "no-peer"), 1);
    assert!(lab.sent(1).is_empty());
}

/// A received frame: the tags, the number of bytes after the header, and whether it is to the router's own address.
type Sent = (Vec<(u16, u16)>, usize, bool);

fn sent() -> impl Strategy<Value = Sent> {
    let tag =
        (prop::sample::select(vec![0x8100u16, 0x88a8]), prop::sample::select(vec![0u16, 1, 5, 9, 0xe005]));
    let near = (MTU - 10)..(MTU + 10);
    (prop::collection::vec(tag, 0..4), prop_oneof![0usize..60, near], any::<bool>())
}

/// Two VLANs with different tags are one link.
#[test]
fn tags_are_rewritten_on_the_way_in_and_out() {
    let mut lab = lab();
    let one = Tags { outer_service: false, outer: 5, inner: None };
    let two = Tags { outer_service: true, outer: 6, inner: Some(7) };
    let subs = [
        lab.router.add_subinterface("left.5", 0, one).unwrap(),
        lab.router.add_subinterface("right.6", 1, two).unwrap(),
    ];
    for (index, text) in subs.into_iter().zip(["pop 1", "pop 2"]) {
        let rewrite = Rewrite::parse(text).unwrap();
        let own = lab.router.interface(index).unwrap().tags;
        lab.router.set(index, rewrite.plans(own).unwrap()).unwrap();
        lab.router.set_admin(index, true).unwrap();
    }
    connect(&mut lab, subs[0], Some(subs[1]));
    connect(&mut lab, subs[1], Some(subs[0]));
    lab.pass(5000);
    drop((lab.sent(0), lab.sent(1)));
    // The priority stays.
    let (left, right) = ([(0x8100, 0x6005)], [(0x88a8, 0x6006), (0x8100, 0x6007)]);
    for len in [50, MTU] {
        lab.receive(0, 0, frame(HOST, &left, len));
        assert_eq!(lab.sent(1), [frame(HOST, &right, len)]);
        lab.receive(1, 0, frame(HOST, &right, len));
        // The priority is that of the outer tag.
        assert_eq!(lab.sent(0), [frame(HOST, &left, len)]);
    }
    // The outer interface has a push of its own: frames with fewer tags are dropped.
    let push = Rewrite::parse("push dot1q 9").unwrap().plans(None).unwrap();
    lab.router.set(1, push).unwrap();
    connect(&mut lab, subs[0], Some(1));
    lab.receive(0, 0, frame(HOST, &left, 50));
    assert_eq!((lab.sent(1).len(), drops(&lab, "too-few-tags")), (0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every frame leaves unchanged and in order, unless the frame is larger than the MTU. Up to two tags do not count. A patch takes
    /// also the frames of a sub-interface, a cross-connect does not.
    #[test]
    fn all_frames_leave_as_they_came(all in prop::collection::vec(sent(), 1..20), sub: bool, patch: bool) {
        let mut lab = lab();
        if sub {
            let tags = Tags { outer_service: false, outer: 5, inner: None };
            let index = lab.router.add_subinterface("left.5", 0, tags).unwrap();
            lab.router.set_admin(index, true).unwrap();
        }
        let way = if patch { Way::Patch } else { Way::CrossConnect };
        super::connect(&mut lab.router, way, 0, 1).unwrap();
        lab.pass(5000);
        drop((lab.sent(0), lab.sent(1)));
        let (mut expected, mut large) = (Vec::new(), 0);
        for (tags, len, own) in &all {
            let bytes = frame(if *own { own_mac(0) } else { HOST }, tags, *len);
            lab.put(0, 0, bytes.clone());
            // A second tag of the other type is no tag of the sub-interface's.
            let one = tags.get(1).is_none_or(|(kind, _)| *kind != 0x8100);
            if sub && !patch && one && matches!(tags.first(), Some((0x8100, tag)) if tag & 0xfff == 5) {
                continue;
            }
            match bytes.len() <= HEADER + 4 * tags.len().min(2) + MTU {
                true => expected.push(bytes),
                false => large += 1,
            }
        }
        for _ in 0..10 {
            lab.run();
        }
        prop_assert_eq!(lab.sent(1), expected);
        prop_assert_eq!(drops(&lab, "above-mtu"), large);
        prop_assert!(lab.sent(0).is_empty());
    }
}
