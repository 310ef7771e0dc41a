//! Tests of `ip6-local`: to which protocol's node it delivers a packet, and the offset that it sets.

use std::net::Ipv6Addr;

use buf::{Flags, Frame};
use graph::{Cx, FrameNode, NoReason, Verdict};
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::extension::{MAX_OPTIONS, option};
use wire::protocol::{self, AH, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ICMPV6, MOBILITY, ROUTING, UDP};

use super::local6::{Ip6Local, unknown_at};
use crate::ip::Cause;
use crate::testing::Bench;

const HOST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);
const OWN: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

graph::edges! { enum Next { Taken = "taken" } }

/// Receives the packets of one protocol. For the test, writes the protocol to the flow hash and `l4_offset` to the forwarding index.
struct Taker(u8);

impl FrameNode for Taker {
    const NAME: &'static str = "taker";
    type Next = Next;
    type Drop = NoReason;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut graph::Out<'_, Next, NoReason>) {
        out.each(frame, |_, p| {
            p.set_hash(self.0.into());
            p.set_fwd(p.l4_offset().into());
            Verdict::Next(Next::Taken)
        });
    }
}

/// Creates `ip6-local`, followed by a node for UDP and a node for ICMPv6.
fn harness() -> Harness {
    Bench::new().harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |_| Ok(Ip6Local::new(&tables)));
        t.ip6.fragments.register(b, 0, "fragments").unwrap();
        for (protocol, name) in [(UDP, "udp"), (ICMPV6, "icmp")] {
            b.frame_as(name, move |_| Ok(Taker(protocol)));
            t.ip6.protocols.register(b, u16::from(protocol), name).unwrap();
        }
    })
}

fn packet(dst: Ipv6Addr) -> PacketBuilder {
    PacketBuilder::ipv6(HOST, dst).udp(1000, 2000).payload(b"data")
}

fn with(headers: &[(u8, &[u8])]) -> PacketBuilder {
    headers.iter().fold(packet(OWN), |b, (kind, body)| b.extension(*kind, body))
}

fn send(packet: &[u8]) -> Out {
    let mut out = harness().send("ip6-local", &[packet], |_, _| ());
    assert_eq!(out.len(), 1);
    out.remove(0)
}

/// Returns the protocol that the node finds in a packet, and the offset of its header.
fn found(packet: &PacketBuilder) -> (u8, u32) {
    let bytes = packet.build();
    let out = send(&bytes);
    assert_eq!((out.node.as_str(), &out.bytes), ("taken", &bytes));
    (out.record.hash as u8, out.record.fwd)
}

fn dropped(packet: &[u8]) -> &'static str {
    let out = send(packet);
    assert_eq!(out.node, "ip6-local");
    out.reason.unwrap()
}

fn reported(packet: &PacketBuilder) -> Cause {
    let out = send(&packet.build());
    assert_eq!((out.node.as_str(), out.reason), ("ip6-icmp-error", None));
    Cause::from_raw(out.record.fwd)
}

/// The body of an authentication header. Its length field counts units of 4 bytes.
const AH_BODY: [u8; 22] = [0; 22];

#[test]
fn each_protocol_has_its_node() {
    assert_eq!(found(&packet(OWN)), (UDP, 40));
    assert_eq!(found(&packet(OWN).echo_request(1, 2)), (ICMPV6, 40));
    for unknown in [1, 4, 6, 41, 50, 89, 132, 253, 255] {
        let packet = packet(OWN).protocol(unknown);
        assert_eq!(reported(&packet), Cause::ProtocolUnreachable, "{unknown}");
        assert_eq!(unknown_at(&packet.build()), 6);
    }
    assert_eq!(dropped(&packet(OWN).protocol(protocol::NONE).build()), "no-next-header");
}

#[test]
fn lengths_must_agree() {
    let good = packet(OWN).build();
    for len in 0..good.len() {
        assert_eq!(dropped(&good[..len]), "bad-length", "{len}");
    }
    for padding in [1, 7, 3000] {
        let out = send(&[&good[..], &vec![0xee; padding]].concat());
        assert_eq!((out.node.as_str(), &out.bytes), ("taken", &good), "{padding}");
    }
    let large = packet(OWN).payload(&[7; 5000]).build();
    let out = send(&[&large[..], &[0xee; 100]].concat());
    assert_eq!((out.node.as_str(), &out.bytes), ("taken", &large));
}

#[test]
fn rfc8200_4_1_extension_headers_are_processed_in_order() {
    assert_eq!(found(&with(&[(HOP_BY_HOP, &[])])), (UDP, 48));
    assert_eq!(
        found(&with(&[(
            DESTINATION_OPTIONS,
            &[option::PADN, 4, 0, 0, 0, 0, option::PADN, 6, 0, 0, 0, 0, 0, 0]
        )])),
        (UDP, 56)
    );
    let all: [(u8, &[u8]); 4] =
        [(HOP_BY_HOP, &[]), (DESTINATION_OPTIONS, &[]), (ROUTING, &[0, 0]), (DESTINATION_OPTIONS, &[])];
    assert_eq!(found(&with(&all)), (UDP, 72));
    assert_eq!(found(&with(&[(ROUTING, &[4, 0][..]); 8])), (UDP, 104));
    assert_eq!(dropped(&with(&[(ROUTING, &[4, 0][..]); 9]).build()), "long-headers");
}

#[test]
fn the_upper_layer_begins_within_255_bytes() {
    let padding = |len: u8| {
        let body = [&[option::PADN, len - 4][..], &vec![0; usize::from(len) - 4]].concat();
        with(&[(DESTINATION_OPTIONS, &body)])
    };
    assert_eq!(found(&padding(208)), (UDP, 248));
    assert_eq!(dropped(&padding(216).build()), "long-headers");
    let long = [&[option::PADN, 250][..], &[0; 250], &[option::PADN, 250], &[0; 250]].concat();
    assert_eq!(dropped(&with(&[(DESTINATION_OPTIONS, &long[..]); 3]).build()), "long-headers");
}

#[test]
fn rfc8200_4_unknown_headers_are_reported_by_their_offset() {
    // Treated like an unknown protocol, named by the header before.
    for (headers, at) in [
        (&[(AH, &AH_BODY[..])][..], 6),
        (&[(DESTINATION_OPTIONS, &[][..]), (MOBILITY, &[])], 40),
        (&[(ROUTING, &[0, 0][..]), (DESTINATION_OPTIONS, &[]), (protocol::SHIM6, &[])], 48),
        (&[(protocol::HIP, &[][..])], 6),
        // Only the first header may be a hop-by-hop options header.
        (&[(DESTINATION_OPTIONS, &[][..]), (HOP_BY_HOP, &[])], 40),
        (&[(HOP_BY_HOP, &[][..]), (HOP_BY_HOP, &[])], 40),
        (&[(HOP_BY_HOP, &[][..]), (ROUTING, &[0, 0]), (HOP_BY_HOP, &[])], 48),
    ] {
        let packet = with(headers);
        assert_eq!(reported(&packet), Cause::ProtocolUnreachable, "{headers:?}");
        assert_eq!(unknown_at(&packet.build()), at, "{headers:?}");
    }
    let behind = with(&[(DESTINATION_OPTIONS, &[]), (ROUTING, &[0, 0])]).protocol(89);
    assert_eq!((reported(&behind), unknown_at(&behind.build())), (Cause::ProtocolUnreachable, 48));
}

#[test]
fn rfc5095_3_routing_headers_are_not_followed() {
    for kind in [0, 2, 3, 4, 253] {
        let left = with(&[(DESTINATION_OPTIONS, &[]), (ROUTING, &[kind, 1])]);
        assert_eq!(reported(&left), Cause::ParameterProblem(50), "{kind}");
        assert_eq!(found(&with(&[(ROUTING, &[kind, 0])])), (UDP, 48), "{kind}");
    }
    // A bad header after a processed one.
    assert_eq!(reported(&with(&[(ROUTING, &[0, 0]), (ROUTING, &[0, 255])])), Cause::ParameterProblem(50));
}

#[test]
fn rfc8200_4_6_destination_options_are_checked() {
    let options = |dst, options: &[u8]| packet(dst).extension(DESTINATION_OPTIONS, options);
    assert_eq!(found(&options(OWN, &[0x1e, 2, 0, 0])), (UDP, 48));
    assert_eq!(reported(&options(OWN, &[0x9e, 0])), Cause::UnknownOption(42));
    assert_eq!(reported(&options(OWN, &[0xde, 0])), Cause::UnknownOption(42));
    assert_eq!(reported(&options(GROUP, &[0, 0x9e, 0])), Cause::UnknownOption(43));
    assert_eq!(dropped(&options(GROUP, &[0xde, 0]).build()), "bad-options");
    assert_eq!(dropped(&options(OWN, &[0x5e, 0]).build()), "bad-options");
    assert_eq!(reported(&options(OWN, &[0x1e, 9])), Cause::ParameterProblem(42));
    assert_eq!(dropped(&options(OWN, &[0x1e, 0].repeat(MAX_OPTIONS + 1)).build()), "bad-options");
    // The same in a second header.
    let second = with(&[(DESTINATION_OPTIONS, &[]), (DESTINATION_OPTIONS, &[0x9e, 0])]);
    assert_eq!(reported(&second), Cause::UnknownOption(50));
}

#[test]
fn rfc6946_an_atomic_fragment_is_whole() {
    let atomic = packet(OWN).fragment(0, false);
    assert_eq!(found(&atomic), (UDP, 48));
    assert_eq!(found(&atomic.extension(DESTINATION_OPTIONS, &[])), (UDP, 56));
}

/// True if a packet is passed on as a fragment: neither dropped, reported nor delivered to a protocol's node.
fn is_piece(packet: &PacketBuilder) -> bool {
    let out = send(&packet.build());
    (out.node.as_str(), out.reason) == ("fragments", None)
}

#[test]
fn fragments_go_to_reassembly() {
    for (offset, more) in [(0, true), (1, true), (1, false), (0x1fff, false)] {
        assert!(is_piece(&packet(OWN).payload(&[1; 64]).fragment(offset, more)), "{offset} {more}");
    }
    // A later fragment has no headers after its fragment header, whatever the bytes are.
    assert!(is_piece(&with(&[(FRAGMENT, &[0, 8, 0, 0, 0, 1]), (ROUTING, &[0, 1])])));
    // A fragment after an atomic fragment header is still a fragment.
    assert!(is_piece(&with(&[(FRAGMENT, &[0; 6]), (FRAGMENT, &[0, 8, 0, 0, 0, 1])])));
}

#[test]
fn rfc7112_5_a_first_fragment_has_all_headers() {
    let first = with(&[(FRAGMENT, &[0, 1, 0, 0, 0, 1]), (DESTINATION_OPTIONS, &[])]).build();
    for len in 48..first.len() {
        let mut cut = first[..len].to_vec();
        cut[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        let out = send(&cut);
        let whole = len >= 56 + 8;
        let expected = if whole { "fragments" } else { "ip6-icmp-error" };
        assert_eq!((out.node.as_str(), out.reason), (expected, None), "{len}");
        assert!(whole || Cause::from_raw(out.record.fwd) == Cause::IncompleteHeaders);
    }
    // A first fragment may not have misplaced headers either, or more than this router processes.
    assert_eq!(
        reported(&with(&[(FRAGMENT, &[0, 1, 0, 0, 0, 1]), (HOP_BY_HOP, &[])])),
        Cause::ProtocolUnreachable
    );
    let mut many = vec![(FRAGMENT, &[0, 1, 0, 0, 0, 1][..])];
    many.resize(9, (ROUTING, &[0; 6]));
    assert_eq!(dropped(&with(&many).build()), "long-headers");
}

#[test]
fn rfc6980_5_neighbor_discovery_is_not_fragmented() {
    let message = |kind| PacketBuilder::ipv6(HOST, OWN).icmp(kind, 0, 0).payload(&[0; 32]);
    for kind in 133..=137 {
        for more in [false, true] {
            for b in
                [message(kind).fragment(0, more), message(kind).fragment(0, more).extension(ROUTING, &[])]
            {
                assert_eq!(dropped(&b.build()), "fragmented-neighbor-discovery", "{kind} {more}");
            }
        }
        assert_eq!(found(&message(kind)), (ICMPV6, 40));
    }
    assert_eq!(found(&message(128).fragment(0, false)), (ICMPV6, 48));
    assert!(is_piece(&message(128).fragment(0, true)));
}

#[test]
fn truncated_headers_are_dropped() {
    for kind in [HOP_BY_HOP, DESTINATION_OPTIONS, ROUTING, FRAGMENT] {
        let whole = with(&[(DESTINATION_OPTIONS, &[]), (ROUTING, &[0, 0])]).build();
        let mut headers = whole.clone();
        headers[6] = if kind == HOP_BY_HOP { HOP_BY_HOP } else { DESTINATION_OPTIONS };
        headers[40] = kind.max(ROUTING);
        for len in 40..56 {
            let mut cut = headers[..len].to_vec();
            cut[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
            assert_eq!(dropped(&cut), "truncated-header", "{kind} {len}");
        }
    }
}

/// Returns the cause that must be reported for a first fragment that has hop-by-hop options after its fragment header, within the limit of
/// processed headers; `None` for any other fragment.
fn misplaced(fragment: &[u8; 6], behind: &[(u8, [u8; 6])]) -> Option<Cause> {
    let is_first = |body: &[u8; 6]| body[0] == 0 && body[1] & !7 == 0;
    let read = behind.iter().scan(is_first(fragment), |go_on, (kind, body)| {
        let header = go_on.then_some(*kind);
        *go_on &= *kind != FRAGMENT || is_first(body);
        header
    });
    read.into_iter().any(|kind| kind == HOP_BY_HOP).then_some(Cause::ProtocolUnreachable)
}

/// Returns the expected result for a packet with these headers before UDP, by a simple implementation. Each header is 8 bytes long. The
/// result is the offset of the UDP header, or the cause to report. The error is `None` if the packet is dropped, or passed on as a
/// fragment.
fn plain(headers: &[(u8, [u8; 6])]) -> Result<u32, Option<Cause>> {
    for (i, (kind, body)) in headers.iter().enumerate() {
        let at = 40 + 8 * i as u16;
        match *kind {
            HOP_BY_HOP if i > 0 => return Err(Some(Cause::ProtocolUnreachable)),
            AH | MOBILITY => return Err(Some(Cause::ProtocolUnreachable)),
            _ if i == 8 => return Err(None),
            ROUTING if body[1] != 0 => return Err(Some(Cause::ParameterProblem(at + 2))),
            FRAGMENT if body[0] != 0 || body[1] & !6 != 0 => {
                return Err(misplaced(body, &headers[i + 1..8.min(headers.len())]));
            }
            DESTINATION_OPTIONS => match body[0] >> 6 {
                _ if body[1] != 4 => return Err(Some(Cause::ParameterProblem(at + 2))),
                0 => {}
                1 => return Err(None),
                _ => return Err(Some(Cause::UnknownOption(at + 2))),
            },
            _ => {}
        }
    }
    Ok(40 + 8 * headers.len() as u32)
}

fn header() -> impl Strategy<Value = (u8, [u8; 6])> {
    let option = prop::sample::select(vec![0x1e, 0x1e, 0x1e, 0x5e, 0x9e, 0xde]);
    prop_oneof![
        1 => Just((HOP_BY_HOP, [option::PADN, 4, 0, 0, 0, 0])),
        4 => (option, prop_oneof![8 => Just(4u8), 1 => Just(5)])
            .prop_map(|(kind, len)| (DESTINATION_OPTIONS, [kind, len, 1, 2, 3, 4])),
        4 => (any::<u8>(), prop_oneof![8 => Just(0u8), 1 => any::<u8>()])
            .prop_map(|(kind, left)| (ROUTING, [kind, left, 0, 0, 0, 0])),
        2 => prop_oneof![4 => Just([0u8; 2]), 1 => any::<[u8; 2]>()]
            .prop_map(|[a, b]| (FRAGMENT, [a, b, 0, 0, 0, 1])),
        1 => Just((MOBILITY, [0; 6])),
    ]
}

proptest! {
    /// The node agrees with a simple walk through the headers.
    #[test]
    fn a_simple_implementation_agrees(headers in prop::collection::vec(header(), 0..11)) {
        let chain: Vec<(u8, &[u8])> = headers.iter().map(|(kind, body)| (*kind, &body[..])).collect();
        let out = send(&with(&chain).build());
        let found = match (out.node.as_str(), out.reason) {
            ("taken", None) => Ok(out.record.fwd),
            ("ip6-icmp-error", None) => Err(Some(Cause::from_raw(out.record.fwd))),
            _ => Err(None),
        };
        prop_assert_eq!(found, plain(&headers));
    }

    /// For any bytes after the header, in any number of buffers, the packet is delivered, reported, passed on as a fragment, or dropped.
    #[test]
    fn any_bytes_are_handled(next in prop::sample::select(vec![0u8, 17, 43, 44, 51, 58, 59, 60, 135]), rest in prop::collection::vec(any::<u8>(), 0..3000), chained: bool) {
        let mut bytes = packet(OWN).protocol(next).payload(&rest).build();
        if chained {
            bytes.resize(bytes.len() + 3000, 0xee);
        }
        let out = harness().send("ip6-local", &[&bytes], |_, p| p.set_flags(p.flags() | Flags::L2_MULTICAST)).remove(0);
        if out.node == "taken" {
            prop_assert_eq!(out.bytes.len(), 40 + rest.len());
            prop_assert!(out.record.fwd as usize <= out.bytes.len());
        } else {
            prop_assert!(out.reason.is_some() || ["ip6-icmp-error", "fragments"].contains(&out.node.as_str()));
        }
    }
}
