//! Tests of `udp4-local` and `udp6-local` with `ip4-local` and `ip6-local` before them.

use std::net::{Ipv4Addr, Ipv6Addr};

use buf::Flags;
use proptest::prelude::*;
use testkit::harness::{Harness, Out};
use wire::builder::PacketBuilder;
use wire::{UdpHeader, protocol};

use crate::ip::Cause;
use crate::nodes::ip::local::Ip4Local;
use crate::nodes::ip::local6::Ip6Local;
use crate::testing::Bench;

const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
const OWN: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PORT: u16 = 4789;

fn harness() -> Harness {
    Bench::new().harness(|b, t, hooks| {
        let tables = t.clone();
        b.frame(move |_| Ok(Ip4Local::new(&tables)));
        let tables = t.clone();
        b.frame(move |_| Ok(Ip6Local::new(&tables)));
        super::install(b, t, hooks).unwrap();
        t.ip4.udp_ports.register(b, PORT, "listener").unwrap();
        t.ip4.udp_ports.register(b, u16::MAX, "last-listener").unwrap();
        // The families have separate ports.
        t.ip6.udp_ports.register(b, PORT, "listener6").unwrap();
        t.ip6.udp_ports.register(b, u16::MAX - 1, "last-listener6").unwrap();
    })
}

fn datagram(payload: &[u8]) -> PacketBuilder {
    PacketBuilder::ipv4(HOST, OWN).udp(1000, PORT).payload(payload)
}

fn send(h: &mut Harness, packet: &[u8], flags: Flags) -> Out {
    let mut out = h.send("ip4-local", &[packet], |_, p| p.set_flags(p.flags() | flags));
    assert_eq!(out.len(), 1);
    out.remove(0)
}

fn way(out: &Out) -> (&str, Option<&str>) {
    (out.node.as_str(), out.reason)
}

/// Returns a datagram with the UDP length `length` and without a checksum (0).
fn of_length(length: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = datagram(payload).build();
    packet[24..26].copy_from_slice(&length.to_be_bytes());
    packet[26..28].fill(0);
    packet
}

proptest! {
    #[test]
    fn datagrams_reach_their_listener(len in 0usize..6000, options in 0usize..10) {
        let mut h = harness();
        let packet = datagram(&vec![0xa5; len]).options(&vec![1; options * 4]).build();
        let out = send(&mut h, &packet, Flags::NONE);
        prop_assert_eq!(way(&out), ("listener", None));
        prop_assert_eq!(out.bytes, packet);
    }

    /// RFC 1122 section 4.1.3.4: a datagram with a wrong bit in its ports or payload, in whichever buffer, is silently discarded.
    #[test]
    fn rfc1122_4_1_3_4_a_wrong_checksum_is_silently_dropped(len in 0usize..6000, at: prop::sample::Index, bit in 0u8..8) {
        let mut h = harness();
        let mut packet = datagram(&vec![0x11; len]).build();
        // Not in the length, which is checked earlier, and not in a way that removes the checksum.
        let fields: Vec<usize> = (20..24).chain(28..packet.len()).collect();
        packet[fields[at.index(fields.len())]] ^= 1 << bit;
        let out = send(&mut h, &packet, Flags::NONE);
        prop_assert_eq!(way(&out), ("udp4-local", Some("bad-checksum")));
    }
}

#[test]
fn the_pseudo_header_counts() {
    let mut packet = datagram(b"data").build();
    packet[15] ^= 1;
    assert_eq!(way(&send(&mut harness(), &packet, Flags::NONE)), ("udp4-local", Some("bad-checksum")));
}

#[test]
fn rfc768_a_checksum_of_zero_means_none() {
    let mut packet = datagram(b"data").build();
    packet[26..28].fill(0);
    assert_eq!(way(&send(&mut harness(), &packet, Flags::NONE)), ("listener", None));
}

#[test]
fn a_partial_checksum_is_not_checked() {
    let packet = datagram(b"data").partial_checksum().build();
    assert_eq!(way(&send(&mut harness(), &packet, Flags::CSUM_PARTIAL)), ("listener", None));
    assert_eq!(way(&send(&mut harness(), &packet, Flags::NONE)), ("udp4-local", Some("bad-checksum")));
}

#[test]
fn lengths_are_checked() {
    let mut h = harness();
    for length in [0, 7, 13, 2000, u16::MAX] {
        let out = send(&mut h, &of_length(length, b"data"), Flags::NONE);
        assert_eq!(way(&out), ("udp4-local", Some("bad-length")), "{length}");
    }
    for length in [8, 11, 12] {
        assert_eq!(
            way(&send(&mut h, &of_length(length, b"data"), Flags::NONE)),
            ("listener", None),
            "{length}"
        );
    }
    for len in 0..UdpHeader::LEN {
        let packet = PacketBuilder::ipv4(HOST, OWN).protocol(protocol::UDP).payload(&[0; 8][..len]).build();
        assert_eq!(way(&send(&mut h, &packet, Flags::NONE)), ("udp4-local", Some("too-short")), "{len}");
    }
}

#[test]
fn a_checksum_covers_the_length_of_the_datagram_only() {
    let inner = datagram(b"data").build();
    // The same datagram in a longer packet.
    let mut packet = datagram(b"data with a tail").build();
    packet[24..32].copy_from_slice(&inner[24..32]);
    assert_eq!(way(&send(&mut harness(), &packet, Flags::NONE)), ("listener", None));
}

#[test]
fn rfc1812_5_2_7_1_a_closed_port_is_reported() {
    let mut h = harness();
    let packet = PacketBuilder::ipv4(HOST, OWN).udp(1000, PORT + 1).payload(b"data").build();
    let out = send(&mut h, &packet, Flags::NONE);
    assert_eq!((way(&out), out.record.fwd), (("ip4-icmp-error", None), Cause::PortUnreachable.to_raw()));
    let packet = PacketBuilder::ipv4(HOST, OWN).udp(1000, u16::MAX).build();
    assert_eq!(way(&send(&mut h, &packet, Flags::NONE)), ("last-listener", None));
}

const HOST6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);
const OWN6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

fn datagram6(payload: &[u8]) -> PacketBuilder {
    PacketBuilder::ipv6(HOST6, OWN6).udp(1000, PORT).payload(payload)
}

fn send6(packet: &[u8], flags: Flags) -> Out {
    let mut h = harness();
    let mut out = h.send("ip6-local", &[packet], |_, p| p.set_flags(p.flags() | flags));
    assert_eq!(out.len(), 1);
    out.remove(0)
}

proptest! {
    #[test]
    fn datagrams_over_ipv6_reach_their_listener(len in 0usize..6000, extensions in 0usize..3) {
        let mut b = datagram6(&vec![0xa5; len]);
        for _ in 0..extensions {
            b = b.extension(protocol::DESTINATION_OPTIONS, &[1, 4]);
        }
        let packet = b.build();
        let out = send6(&packet, Flags::NONE);
        prop_assert_eq!(way(&out), ("listener6", None));
        prop_assert_eq!(out.bytes, packet);
    }

    #[test]
    fn a_wrong_checksum_over_ipv6_is_silently_dropped(len in 0usize..6000, at: prop::sample::Index, bit in 0u8..8) {
        let mut packet = datagram6(&vec![0x11; len]).build();
        // In the addresses, the ports, the checksum (without removing it) or the payload.
        let fields: Vec<usize> = (8..44).chain(48..packet.len()).collect();
        packet[fields.get(at.index(fields.len())).copied().unwrap_or(8)] ^= 1 << bit;
        let out = send6(&packet, Flags::NONE);
        prop_assert_eq!(way(&out), ("udp6-local", Some("bad-checksum")));
    }
}

#[test]
fn rfc8200_8_1_a_datagram_over_ipv6_has_a_checksum() {
    let mut packet = datagram6(b"data").build();
    packet[46..48].fill(0);
    assert_eq!(way(&send6(&packet, Flags::NONE)), ("udp6-local", Some("no-checksum")));
    let partial = datagram6(b"data").partial_checksum().build();
    assert_eq!(way(&send6(&partial, Flags::CSUM_PARTIAL)), ("listener6", None));
    assert_eq!(way(&send6(&partial, Flags::NONE)), ("udp6-local", Some("bad-checksum")));
}

#[test]
fn lengths_over_ipv6_are_checked() {
    for length in [0u16, 7, 13, 2000] {
        let mut packet = datagram6(b"data").build();
        packet[44..46].copy_from_slice(&length.to_be_bytes());
        assert_eq!(way(&send6(&packet, Flags::NONE)), ("udp6-local", Some("bad-length")), "{length}");
    }
    let short = PacketBuilder::ipv6(HOST6, OWN6).protocol(protocol::UDP).payload(&[0; 7]).build();
    assert_eq!(way(&send6(&short, Flags::NONE)), ("udp6-local", Some("too-short")));
}

#[test]
fn rfc4443_3_1_a_closed_port_is_reported() {
    // There is a listener on IPv4.
    let packet = PacketBuilder::ipv6(HOST6, OWN6).udp(1000, u16::MAX).payload(b"data").build();
    let out = send6(&packet, Flags::NONE);
    assert_eq!((way(&out), out.record.fwd), (("ip6-icmp-error", None), Cause::PortUnreachable.to_raw()));
}
