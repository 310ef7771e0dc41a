//! `ethernet-input`: which frames it accepts, on which interface, and what the next node sees.

use buf::Flags;
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::{Mac, ethertype};

use crate::ethernet::{HEADER, Match, PortMode, TAG, Tags, Vlans};
use crate::interface::{Interface, Kind};
use crate::testing::Bench;

const DEVICE: u32 = 0;
const DOT1Q: u32 = 1;
const QINQ: u32 = 2;
const DOUBLE: u32 = 3;
const SUB_DOWN: u32 = 4;
const DOWN: u32 = 5;
/// A device whose frames a bridge takes.
const SWITCHED: u32 = 6;
/// A device with the sub-interfaces below, one for each kind of match.
const PORT: u32 = 7;
const UNTAGGED: u32 = 8;
const EXACT: u32 = 9;
const ANY_INNER: u32 = 10;
const ANY_OUTER: u32 = 11;
const DEFAULT: u32 = 12;
const HOST: Mac = Mac([2, 0, 0, 0, 9, 9]);
/// An EtherType for which a feature's node is registered.
const OTHER: u16 = 0x88b5;
const GROUP: Mac = Mac([1, 0, 0x5e, 0, 0, 5]);

fn mac(interface: u32) -> Mac {
    Mac([2, 0, 0, 0, 0, interface as u8])
}

fn tags(outer_service: bool, outer: u16, inner: Option<u16>) -> Tags {
    Tags { outer_service, outer, inner }
}

/// Creates two devices with sub-interfaces, a device that is down, and a device whose frames a bridge takes. Each interface has its own
/// address, and VRF 10 + its index.
fn bench() -> (Bench, Harness) {
    let mut bench = Bench::new();
    let of_device = vec![
        (tags(false, 100, None).into(), DOT1Q),
        (tags(true, 200, Some(300)).into(), QINQ),
        (tags(false, 100, Some(7)).into(), DOUBLE),
        (tags(false, 101, None).into(), SUB_DOWN),
    ];
    let of_port = vec![
        (Match::Untagged, UNTAGGED),
        (tags(false, 100, None).into(), EXACT),
        (Match::AnyInner { outer_service: true, outer: 200 }, ANY_INNER),
        (Match::AnyOuter { outer_service: false }, ANY_OUTER),
        (Match::Default, DEFAULT),
    ];
    for index in DEVICE..=DEFAULT {
        assert_eq!(bench.interface(10 + index as u16, None), index);
        let device = matches!(index, DEVICE | DOWN | SWITCHED | PORT);
        let parent = if index > PORT { PORT } else { DEVICE };
        let record = Interface {
            kind: if device { Kind::Device } else { Kind::SubInterface },
            device: if device { index } else { parent },
            mac: mac(index),
            up: index != SUB_DOWN && index != DOWN,
            fib: 10 + index as u16,
            mtu: 1500,
            vlans: Vlans::new(match index {
                DEVICE => of_device.clone(),
                PORT => of_port.clone(),
                _ => Vec::new(),
            }),
            addresses: Vec::new(),
            proxy: false,
            mode: (index == SWITCHED).then_some(PortMode { number: 0, name: "bridged", whole: false }),
        };
        bench.writers.interfaces.set(index, record).unwrap();
    }
    let harness = bench.harness(|b, t, _| {
        super::install(b, t);
        for (kind, node) in [
            (ethertype::IPV4, "ip4-input"),
            (ethertype::ARP, "arp-input"),
            (ethertype::IPV6, "ip6-input"),
            (OTHER, "other-input"),
        ] {
            t.ethertypes.register(b, kind, node).unwrap();
        }
        t.port_modes.register(b, 0, "bridge").unwrap();
        let kept = t.ethertypes.register(b, ethertype::QINQ, "bridge").unwrap_err().to_string();
        assert!(kept.contains("handles number 34984 itself"), "{kept}");
    });
    (bench, harness)
}

fn frame(dst: Mac, tags: &[(u16, u16)]) -> Vec<u8> {
    let b = PacketBuilder::ipv4([192, 0, 2, 9].into(), [192, 0, 2, 1].into()).ethernet(HOST, dst);
    tags.iter().fold(b, |b, &(tpid, tci)| b.tag(tpid, tci)).udp(1, 2).payload(b"data").build()
}

fn send(h: &mut Harness, interface: u32, frame: &[u8]) -> Out {
    let mut out = h.send("ethernet-input", &[frame], |_, p| p.set_rx_if(interface));
    assert_eq!(out.len(), 1);
    out.remove(0)
}

fn dropped(h: &mut Harness, interface: u32, frame: &[u8]) -> &'static str {
    let before = h.stats().dropped().iter().map(|d| d.packets).sum::<u64>();
    let out = send(h, interface, frame);
    assert_eq!((out.node.as_str(), &out.bytes[..]), ("ethernet-input", frame), "a dropped frame stays whole");
    assert_eq!(h.stats().dropped().iter().map(|d| d.packets).sum::<u64>(), before + 1);
    out.reason.expect("a drop has a reason")
}

/// Asserts that `frame` was sent to `node` as received on `interface`, with `header` bytes skipped.
fn taken(out: &Out, frame: &[u8], node: &str, interface: u32, header: usize) {
    assert_eq!((out.node.as_str(), out.reason), (node, None));
    assert_eq!((out.record.rx_if, out.record.fib), (interface, 10 + interface as u16));
    assert_eq!(out.bytes, frame[header..]);
}

const V: u16 = ethertype::VLAN;
const S: u16 = ethertype::QINQ;

#[test]
fn each_ethertype_has_its_node() {
    let (_bench, mut h) = bench();
    let mut frame = frame(mac(DEVICE), &[]);
    taken(&send(&mut h, DEVICE, &frame), &frame, "ip4-input", DEVICE, HEADER);
    frame[12..14].copy_from_slice(&ethertype::ARP.to_be_bytes());
    taken(&send(&mut h, DEVICE, &frame), &frame, "arp-input", DEVICE, HEADER);
    frame[12..14].copy_from_slice(&ethertype::IPV6.to_be_bytes());
    taken(&send(&mut h, DEVICE, &frame), &frame, "ip6-input", DEVICE, HEADER);
    frame[12..14].copy_from_slice(&OTHER.to_be_bytes());
    taken(&send(&mut h, DEVICE, &frame), &frame, "other-input", DEVICE, HEADER);
    for unknown in [0u16, 60, 0x05dc, 0x88cc, 0xffff] {
        frame[12..14].copy_from_slice(&unknown.to_be_bytes());
        assert_eq!(dropped(&mut h, DEVICE, &frame), "unknown-ethertype", "{unknown:#x}");
    }
}

#[test]
fn foreign_unicast_is_dropped_and_groups_are_flagged() {
    let (_bench, mut h) = bench();
    let flags = Flags::L2_BROADCAST | Flags::L2_MULTICAST;
    for (dst, expected) in [
        (mac(DEVICE), Flags::NONE),
        (Mac::BROADCAST, Flags::L2_BROADCAST),
        (GROUP, Flags::L2_MULTICAST),
        (Mac([0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]), Flags::L2_MULTICAST),
    ] {
        for tags in [&[][..], &[(V, 0)]] {
            let out = send(&mut h, DEVICE, &frame(dst, tags));
            assert_eq!(
                (out.node.as_str(), out.record.flags & flags),
                ("ip4-input", expected),
                "{dst} {tags:?}"
            );
        }
    }
    for dst in [HOST, mac(DOT1Q), Mac::ZERO, Mac([2, 0, 0, 0, 0, 0x80]), Mac([0, 0, 0, 0, 0, 0])] {
        assert_eq!(dropped(&mut h, DEVICE, &frame(dst, &[])), "not-for-us", "{dst}");
    }
    assert_eq!(
        dropped(&mut h, DEVICE, &frame(mac(DEVICE), &[(V, 100)])),
        "not-for-us",
        "the tag's own address"
    );
}

#[test]
fn tags_lead_to_their_sub_interface() {
    let (bench, mut h) = bench();
    let cases = [
        (DOT1Q, vec![(V, 100)]),
        (DOT1Q, vec![(V, 0xe000 | 100)]),
        (QINQ, vec![(S, 200), (V, 300)]),
        (QINQ, vec![(S, 0x1000 | 200), (V, 0x8000 | 300)]),
        (DOUBLE, vec![(V, 100), (V, 7)]),
        // A priority tag only.
        (DEVICE, vec![(V, 0)]),
        (DEVICE, vec![(V, 0xa000)]),
        (DEVICE, vec![(S, 0)]),
    ];
    for (interface, tags) in &cases {
        let frame = frame(mac(*interface), tags);
        taken(&send(&mut h, DEVICE, &frame), &frame, "ip4-input", *interface, HEADER + TAG * tags.len());
    }
    let count = |i: u32| bench.tables.counters.rx.read(i);
    let len = frame(mac(0), &[]).len() as u64;
    assert_eq!(count(DOT1Q), [2, 2 * (len + 4)]);
    assert_eq!(count(QINQ), [2, 2 * (len + 8)]);
    assert_eq!(count(DOUBLE), [1, len + 8]);
    assert_eq!(count(DEVICE), [0, 0], "devices are counted by their input nodes");
    for tags in [
        vec![(V, 102)],
        vec![(S, 100)],
        vec![(V, 200), (V, 300)],
        vec![(S, 200)],
        vec![(S, 200), (V, 301)],
        vec![(V, 0), (V, 100)],
        vec![(V, 100), (V, 8)],
    ] {
        assert_eq!(dropped(&mut h, DEVICE, &frame(mac(DEVICE), &tags)), "unknown-vlan", "{tags:?}");
    }
    // An inner service tag is not a second tag, and a third tag is not a protocol.
    assert_eq!(dropped(&mut h, DEVICE, &frame(mac(DOT1Q), &[(V, 100), (S, 7)])), "unknown-ethertype");
    assert_eq!(
        dropped(&mut h, DEVICE, &frame(mac(DOUBLE), &[(V, 100), (V, 7), (V, 1)])),
        "unknown-ethertype"
    );
    assert_eq!(dropped(&mut h, DOWN, &frame(mac(DOWN), &[(V, 100)])), "interface-down");
    assert_eq!(dropped(&mut h, DOT1Q, &frame(mac(DOT1Q), &[(V, 100)])), "unknown-vlan");
}

#[test]
fn frames_go_to_the_most_specific_match() {
    let (bench, mut h) = bench();
    let cases = [
        (UNTAGGED, vec![]),
        (UNTAGGED, vec![(V, 0)]),
        (EXACT, vec![(V, 100)]),
        (ANY_OUTER, vec![(V, 101)]),
        (ANY_INNER, vec![(S, 200), (V, 1)]),
        (DEFAULT, vec![(S, 200)]),
        (DEFAULT, vec![(S, 201), (V, 1)]),
        (DEFAULT, vec![(V, 100), (V, 7)]),
        (DEFAULT, vec![(V, 0), (V, 100)]),
    ];
    for (interface, tags) in &cases {
        let frame = frame(mac(*interface), tags);
        taken(&send(&mut h, PORT, &frame), &frame, "ip4-input", *interface, HEADER + TAG * tags.len());
    }
    let count = |i: u32| bench.tables.counters.rx.read(i)[0];
    assert_eq!([PORT, UNTAGGED, EXACT, ANY_INNER, ANY_OUTER, DEFAULT].map(count), [0, 2, 1, 1, 1, 4]);
    // The device's own address is no longer that of untagged frames.
    assert_eq!(dropped(&mut h, PORT, &frame(mac(PORT), &[])), "not-for-us");
    let group = frame(GROUP, &[]);
    taken(&send(&mut h, PORT, &group), &group, "ip4-input", UNTAGGED, HEADER);
}

#[test]
fn interfaces_that_are_down_or_gone_take_nothing() {
    let (bench, mut h) = bench();
    assert_eq!(dropped(&mut h, DOWN, &frame(mac(DOWN), &[])), "interface-down");
    assert_eq!(dropped(&mut h, DEVICE, &frame(mac(SUB_DOWN), &[(V, 101)])), "interface-down");
    assert_eq!(bench.tables.counters.rx.read(SUB_DOWN), [0, 0]);
    assert_eq!(dropped(&mut h, 77, &frame(mac(DEVICE), &[])), "interface-down");
    assert_eq!(dropped(&mut h, buf::NO_INTERFACE, &frame(mac(DEVICE), &[])), "interface-down");
}

#[test]
fn truncated_frames_are_runts() {
    let (_bench, mut h) = bench();
    let plain = frame(mac(DEVICE), &[]);
    let tagged = frame(mac(DOT1Q), &[(V, 100)]);
    for len in 0..HEADER {
        assert_eq!(dropped(&mut h, DEVICE, &plain[..len]), "runt", "{len}");
    }
    for len in HEADER..HEADER + TAG {
        assert_eq!(dropped(&mut h, DEVICE, &tagged[..len]), "runt", "{len}");
    }
    // A header alone is an empty packet, which the next node checks.
    taken(&send(&mut h, DEVICE, &plain[..HEADER]), &plain[..HEADER], "ip4-input", DEVICE, HEADER);
    let cut = &tagged[..HEADER + TAG];
    taken(&send(&mut h, DEVICE, cut), cut, "ip4-input", DOT1Q, HEADER + TAG);
    let double = frame(mac(DOT1Q), &[(V, 100), (V, 7)]);
    for len in HEADER + TAG..HEADER + 2 * TAG {
        // The second tag is cut off: the frame has the first tag's VLAN, and an unknown type.
        assert_eq!(dropped(&mut h, DEVICE, &double[..len]), "unknown-ethertype", "{len}");
    }
}

/// Returns the expected interface of a frame with an IPv4 packet, or the reason to drop it, by a simple implementation.
fn plain(interface: u32, dst: Mac, tags_of: &[(u16, u16)]) -> Result<u32, &'static str> {
    let by = match (interface, tags_of) {
        (DEVICE, [] | [(_, 0)]) => DEVICE,
        (DEVICE, [(V, 100)]) => DOT1Q,
        (DEVICE, [(S, 200), (V, 300)]) => QINQ,
        (DEVICE, [(V, 100), (V, 7)]) => DOUBLE,
        (DEVICE, [(V, 101)]) => return Err("interface-down"),
        (DEVICE, _) => return Err("unknown-vlan"),
        (PORT, [] | [(_, 0)]) => UNTAGGED,
        (PORT, [(V, 100)]) => EXACT,
        (PORT, [(V, _)]) => ANY_OUTER,
        (PORT, [(S, 200), (V, _)]) => ANY_INNER,
        (PORT, _) => DEFAULT,
        _ => return Err("interface-down"),
    };
    if dst == mac(by) || dst.is_multicast() { Ok(by) } else { Err("not-for-us") }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Each frame of a mixed vector gets the interface or the drop reason that [`plain`] returns.
    #[test]
    fn mixed_vectors(
        frames in prop::collection::vec((
            prop_oneof![8 => Just(DEVICE), 4 => Just(PORT), 1 => Just(DOWN)],
            prop_oneof![1 => prop::sample::select(vec![GROUP, HOST]), 3 => (DEVICE..=DEFAULT).prop_map(mac)],
            prop_oneof![
                3 => Just(vec![]), 2 => Just(vec![(V, 100)]), 1 => Just(vec![(S, 200), (V, 300)]),
                1 => Just(vec![(V, 100), (V, 7)]), 1 => Just(vec![(V, 101)]), 1 => Just(vec![(V, 0)]),
                1 => Just(vec![(V, 5)]),
            ],
        ), 1..400),
    ) {
        let (_bench, mut h) = bench();
        let bytes: Vec<Vec<u8>> = frames.iter().map(|(_, dst, tags)| frame(*dst, tags)).collect();
        let out = h.send("ethernet-input", &bytes, |i, p| p.set_rx_if(frames[i].0));
        prop_assert_eq!(out.len(), frames.len());
        for o in out {
            let (interface, dst, tags) = &frames[o.from.unwrap()];
            let found = match o.reason {
                Some(reason) => Err(reason),
                None => Ok(o.record.rx_if),
            };
            prop_assert_eq!(found, plain(*interface, *dst, tags));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Each packet goes to the node of its own protocol, whatever the protocol of the vector's first packet is.
    #[test]
    fn protocols_in_one_vector(kinds in prop::collection::vec(0..4usize, 1..300)) {
        const KINDS: [(u16, &str); 4] = [
            (ethertype::IPV4, "ip4-input"), (ethertype::IPV6, "ip6-input"), (OTHER, "other-input"), (0x88cc, "ethernet-input"),
        ];
        let (_bench, mut h) = bench();
        let frames: Vec<Vec<u8>> = kinds.iter().map(|kind| {
            let mut frame = frame(mac(DEVICE), &[]);
            frame[12..14].copy_from_slice(&KINDS[*kind].0.to_be_bytes());
            frame
        }).collect();
        let out = h.send("ethernet-input", &frames, |_, p| p.set_rx_if(DEVICE));
        prop_assert_eq!(out.len(), frames.len());
        for o in out {
            let at = o.from.unwrap();
            match KINDS[kinds[at]].1 {
                "ethernet-input" => prop_assert_eq!(o.reason, Some("unknown-ethertype")),
                node => taken(&o, &frames[at], node, DEVICE, HEADER),
            }
        }
    }
}

proptest! {
    /// The path of a frame depends only on the frame and its interface, not on the rest of the vector.
    #[test]
    fn path_of_a_frame_does_not_depend_on_its_vector(
        frames in prop::collection::vec((prop::bool::ANY, 0u8..3, prop::bool::ANY, prop::bool::ANY), 1..20),
    ) {
        let (_bench, mut h) = bench();
        let (on, packets): (Vec<u32>, Vec<Vec<u8>>) = frames
            .into_iter()
            .map(|(switched, to, other, tagged)| {
                let on = if switched { SWITCHED } else { DEVICE };
                let tags: &[(u16, u16)] = if tagged { &[(ethertype::VLAN, 100)] } else { &[] };
                let mut bytes = frame([mac(on), GROUP, HOST][usize::from(to)], tags);
                if other {
                    let at = HEADER - 2 + if tagged { TAG } else { 0 };
                    bytes[at..at + 2].copy_from_slice(&OTHER.to_be_bytes());
                }
                (on, bytes)
            })
            .unzip();
        let end = |out: &Out| (out.node.clone(), out.reason, out.bytes.clone());
        let mut alone = Vec::new();
        for (on, packet) in on.iter().zip(&packets) {
            let out = h.send("ethernet-input", std::slice::from_ref(packet), |_, p| p.set_rx_if(*on));
            alone.push(end(&out[0]));
        }
        let together = h.send("ethernet-input", &packets, |i, p| p.set_rx_if(on[i]));
        prop_assert_eq!(together.len(), packets.len());
        for out in &together {
            prop_assert_eq!(&end(out), &alone[out.from.unwrap()]);
        }
    }
}
