//! `ip6-hop-by-hop` after `ip6-input`.

use std::net::Ipv6Addr;

use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::extension::{MAX_OPTIONS, alert, option};
use wire::protocol;

use super::input6::Ip6Input;
use super::options6::Ip6HopByHop;
use crate::ip::Cause;
use crate::testing::Bench;

const HOST: &str = "2001:db8::9";
const FAR: &str = "2001:db8:1::1";
const GROUP: &str = "ff02::16";
/// A protocol number. In these tests, a node is registered for router alerts of this protocol.
const TAKEN: u8 = 46;

fn harness() -> (Bench, Harness) {
    let bench = Bench::new();
    let h = bench.harness(|b, t, _| {
        let tables = t.clone();
        b.frame(move |_| Ok(Ip6Input::new(&tables)));
        let tables = t.clone();
        b.packet(move |_| Ok(Ip6HopByHop::new(&tables)));
        t.ip6.router_alerts.register(b, u16::from(TAKEN), "rsvp").unwrap();
    });
    (bench, h)
}

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn packet(dst: &str, options: &[u8]) -> PacketBuilder {
    PacketBuilder::ipv6(ip(HOST), ip(dst)).extension(protocol::HOP_BY_HOP, options).udp(1, 2).payload(b"data")
}

fn send(packet: &[u8]) -> Out {
    let (_bench, mut h) = harness();
    let mut out = h.send("ip6-input", &[packet], |_, _| ());
    assert_eq!((out.len(), out[0].bytes == packet), (1, true), "packets stay as they are");
    out.remove(0)
}

/// Returns the packet's next node or drop reason, and the cause of its report.
fn fate(packet: &PacketBuilder) -> (String, Option<Cause>) {
    let out = send(&packet.build());
    let cause = (out.node == "ip6-icmp-error").then(|| Cause::from_raw(out.record.fwd));
    (out.reason.map_or(out.node, str::to_string), cause)
}

fn way(dst: &str, options: &[u8]) -> String {
    let (node, cause) = fate(&packet(dst, options));
    assert_eq!(cause, None);
    node
}

fn reported(dst: &str, options: &[u8]) -> Cause {
    fate(&packet(dst, options)).1.expect("the packet is reported")
}

const ALERT: [u8; 4] = [option::ROUTER_ALERT, 2, 0, alert::MLD as u8];

#[test]
fn packets_with_ignored_options_are_forwarded() {
    for options in [
        &[][..],
        &[option::PADN, 4, 0, 0, 0, 0],
        &[option::PAD1; 6],
        &[0x1e, 4, 9, 9, 9, 9],
        &[0x3e, 0, 1, 2, 0, 0],
    ] {
        assert_eq!(way(FAR, options), "ip6-unicast", "{options:?}");
        assert_eq!(way(GROUP, options), "ip6-multicast", "{options:?}");
    }
}

#[test]
fn rfc2711_router_alerts_go_to_the_registered_node() {
    let taken = packet(FAR, &ALERT).protocol(TAKEN);
    assert_eq!(fate(&taken).0, "rsvp");
    assert_eq!(fate(&taken.clone().protocol(TAKEN + 1)).0, "ip6-unicast");
    assert_eq!(fate(&packet(FAR, &[]).protocol(TAKEN)).0, "ip6-unicast", "without an alert");
    // The same after other headers. A packet whose headers are invalid is not delivered.
    assert_eq!(fate(&taken.clone().extension(protocol::DESTINATION_OPTIONS, &[])).0, "rsvp");
    let twice = taken.extension(protocol::HOP_BY_HOP, &[]);
    assert_eq!(fate(&twice).0, "ip6-unicast");
    assert_eq!(way(GROUP, &ALERT), "ip6-multicast");
}

#[test]
fn rfc8200_4_2_unknown_options_are_handled_by_their_type() {
    for (kind, to_host, to_group) in [
        (0x1e, "ip6-unicast", "ip6-multicast"),
        (0x5e, "bad-options", "bad-options"),
        (0x9e, "ip6-icmp-error", "ip6-icmp-error"),
        (0xde, "ip6-icmp-error", "bad-options"),
        (option::JUMBO, "ip6-icmp-error", "bad-options"),
    ] {
        let options = [option::PADN, 1, 0, kind, 1, 0];
        let unknown = Some(Cause::UnknownOption(45));
        for (dst, node) in [(FAR, to_host), (GROUP, to_group)] {
            let expected = (node.to_string(), unknown.filter(|_| node == "ip6-icmp-error"));
            assert_eq!(fate(&packet(dst, &options)), expected, "{kind:#x} to {dst}");
        }
    }
    // The first unsupported option decides.
    assert_eq!(way(FAR, &[0x1e, 0, 0x5e, 0, 0x9e, 0]), "bad-options");
    assert_eq!(reported(FAR, &[0x1e, 0, 0x9e, 0, 0x5e, 0]), Cause::UnknownOption(44));
}

#[test]
fn malformed_options_are_reported_by_their_offset() {
    for (options, at) in [
        (&[0x1e, 5, 0, 0, 0, 0][..], 42),
        (&[option::PADN, 3, 0, 0, 0, 0x1e], 47),
        (&[option::PADN, 2, 0, 0, option::PADN, 1], 46),
        (&[option::ROUTER_ALERT, 1, 0, 0, 0, 0], 42),
        (&[0, 0, option::ROUTER_ALERT, 0, 0, 0], 44),
    ] {
        assert_eq!(reported(FAR, options), Cause::ParameterProblem(at), "{options:?}");
    }
}

#[test]
fn too_many_or_too_long_options_are_dropped() {
    let many = |n: usize| [0x1e, 0].repeat(n);
    assert_eq!(way(FAR, &many(MAX_OPTIONS - 1)), "ip6-unicast");
    assert_eq!(way(FAR, &many(MAX_OPTIONS + 1)), "bad-options");
    // Headers of this length, all padding except the first two bytes.
    let long = |len: usize| -> Vec<u8> {
        let full = [&[option::PADN, 250][..], &[0; 250]].concat();
        let mut options = full.repeat((len - 2) / full.len());
        let rest = len - 2 - options.len();
        options.extend([option::PADN, rest as u8 - 2]);
        options.resize(len - 2, 0);
        options
    };
    assert_eq!(way(FAR, &long(1240)), "ip6-unicast");
    assert_eq!(way(FAR, &long(1248)), "long-header");
    assert_eq!(way(FAR, &long(2048)), "long-header");
}

#[test]
fn truncated_headers_are_dropped() {
    let whole = packet(FAR, &[&[option::PADN, 12][..], &[0; 12]].concat()).build();
    for len in 41..56 {
        let mut cut = whole[..len].to_vec();
        cut[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        assert_eq!(send(&cut).reason, Some("truncated-header"), "{len}");
    }
}

proptest! {
    /// For any options, the packet goes to an arc or to the registered node, is reported with an offset behind the IPv6 header, or is
    /// dropped.
    #[test]
    fn any_options(options in prop::collection::vec(any::<u8>(), 0..400), next: u8, units: Option<u8>, group: bool) {
        let dst = if group { GROUP } else { FAR };
        let mut bytes = packet(dst, &options).protocol(next).build();
        if let Some(units) = units {
            bytes[41] = units;
        }
        let out = send(&bytes);
        let dropped = ["truncated-header", "long-header", "bad-options"];
        match (out.reason, out.node.as_str()) {
            (Some(reason), "ip6-hop-by-hop") => prop_assert!(dropped.contains(&reason)),
            (None, "ip6-icmp-error") => {
                let (Cause::ParameterProblem(at) | Cause::UnknownOption(at)) = Cause::from_raw(out.record.fwd) else {
                    panic!("no such cause");
                };
                prop_assert!((42..bytes.len()).contains(&usize::from(at)));
            }
            (None, "rsvp") => prop_assert!(bytes.contains(&TAKEN)),
            (None, node) => prop_assert_eq!(node, if group { "ip6-multicast" } else { "ip6-unicast" }),
            (reason, node) => panic!("{node} {reason:?}"),
        }
    }
}
