use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use wire::builder::{PacketBuilder, arp_frame};
use wire::tcp::Flags;
use wire::{ArpPacket, Mac, ethertype};

use crate::{plain_checksum, plain_transport_checksum};

proptest! {
    #[test]
    fn built_ipv4_packets_are_read_by_etherparse(
        (src, dst, ttl, tos, id) in any::<(u32, u32, u8, u8, u16)>(),
        (sport, dport, seq, ack) in any::<(u16, u16, u32, u32)>(),
        tags in prop::collection::vec(0u16..4096, 0..3),
        options in prop::collection::vec(Just(1u8), 0..40),
        payload in prop::collection::vec(any::<u8>(), 0..1500),
        transport in 0..3,
    ) {
        let mut b = PacketBuilder::ipv4(src.into(), dst.into())
            .ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))
            .ttl(ttl).tos(tos).id(id).options(&options).payload(&payload);
        for &vid in &tags {
            b = b.vlan(vid);
        }
        b = match transport {
            0 => b.udp(sport, dport),
            1 => b.tcp(sport, dport, seq, ack, Flags::ACK.with(Flags::PSH)),
            _ => b.echo_request(sport, dport),
        };
        let frame = b.build();
        let l3 = &frame[b.link_len()..];
        prop_assert_eq!(frame.len(), b.header_len() + payload.len());
        prop_assert_eq!(&frame[b.header_len()..], &payload[..]);

        let p = SlicedPacket::from_ethernet(&frame).unwrap();
        prop_assert_eq!(p.vlan_ids().iter().map(|v| v.value()).collect::<Vec<_>>(), tags);
        let Some(NetSlice::Ipv4(ip)) = p.net else { panic!("no IPv4: {:?}", p.net) };
        let h = ip.header();
        prop_assert_eq!((h.source_addr().to_bits(), h.destination_addr().to_bits()), (src, dst));
        prop_assert_eq!((h.ttl(), h.dcp().value() << 2 | h.ecn().value(), h.identification()), (ttl, tos, id));
        prop_assert_eq!(usize::from(h.total_len()), l3.len());
        prop_assert_eq!(h.header_checksum(), h.to_header().calc_header_checksum());
        match p.transport {
            Some(TransportSlice::Udp(u)) => {
                prop_assert_eq!((transport, u.source_port(), u.destination_port()), (0, sport, dport));
                prop_assert_eq!(plain_transport_checksum(l3), 0);
                prop_assert_ne!(u.checksum(), 0);
            }
            Some(TransportSlice::Tcp(t)) => {
                prop_assert_eq!((transport, t.source_port(), t.destination_port()), (1, sport, dport));
                prop_assert_eq!((t.sequence_number(), t.acknowledgment_number()), (seq, ack));
                prop_assert!(t.ack() && t.psh() && !t.syn());
                prop_assert_eq!(plain_transport_checksum(l3), 0);
            }
            Some(TransportSlice::Icmpv4(_)) => {
                prop_assert_eq!(transport, 2);
                prop_assert_eq!(plain_checksum(&l3[h.slice().len()..]), 0);
            }
            other => panic!("unexpected transport {other:?}"),
        }
    }
}

proptest! {
    #[test]
    fn built_ipv6_packets_are_read_by_etherparse(
        (src, dst, hops, class, label) in any::<(u128, u128, u8, u8, u32)>(),
        (sport, dport, seq, ack) in any::<(u16, u16, u32, u32)>(),
        tags in prop::collection::vec(0u16..4096, 0..3),
        extensions in prop::collection::vec((prop::sample::select(vec![43u8, 60]), 0usize..20), 0..3),
        atomic in prop::option::of(any::<u16>()),
        payload in prop::collection::vec(any::<u8>(), 0..1500),
        transport in 0..3,
    ) {
        let mut b = PacketBuilder::ipv6(src.into(), dst.into())
            .ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))
            .ttl(hops).tos(class).flow_label(label).payload(&payload);
        b = tags.iter().fold(b, |b, vid| b.vlan(*vid));
        b = extensions.iter().fold(b, |b, (kind, len)| b.extension(*kind, &vec![0; *len]));
        if let Some(id) = atomic {
            b = b.id(id).fragment(0, false);
        }
        b = match transport {
            0 => b.udp(sport, dport),
            1 => b.tcp(sport, dport, seq, ack, Flags::ACK.with(Flags::PSH)),
            _ => b.echo_request(sport, dport),
        };
        let frame = b.build();
        prop_assert_eq!(frame.len(), b.header_len() + payload.len());
        prop_assert_eq!(&frame[b.header_len()..], &payload[..]);

        let p = SlicedPacket::from_ethernet(&frame).unwrap();
        prop_assert_eq!(p.vlan_ids().iter().map(|v| v.value()).collect::<Vec<_>>(), tags);
        let Some(NetSlice::Ipv6(ip)) = p.net else { panic!("no IPv6: {:?}", p.net) };
        let h = ip.header();
        prop_assert_eq!((h.source_addr().to_bits(), h.destination_addr().to_bits()), (src, dst));
        prop_assert_eq!((h.hop_limit(), h.traffic_class(), h.flow_label().value()), (hops, class, label & 0xf_ffff));
        prop_assert_eq!(usize::from(h.payload_length()), frame.len() - b.link_len() - 40);
        let found = wire::extension::Chain::of(&frame[b.link_len()..]).unwrap();
        prop_assert_eq!(found.fragment.map(|f| f.id), atomic.map(u32::from));
        match p.transport {
            Some(TransportSlice::Udp(u)) => {
                prop_assert_eq!((transport, u.source_port(), u.destination_port()), (0, sport, dport));
                let sum = u.to_header().calc_checksum_ipv6_raw(h.source(), h.destination(), &payload).unwrap();
                prop_assert_eq!(u.checksum(), sum);
            }
            Some(TransportSlice::Tcp(t)) => {
                prop_assert_eq!((transport, t.source_port(), t.destination_port()), (1, sport, dport));
                let sum = t.to_header().calc_checksum_ipv6_raw(h.source(), h.destination(), &payload).unwrap();
                prop_assert_eq!(t.checksum(), sum);
            }
            Some(TransportSlice::Icmpv6(i)) => {
                prop_assert_eq!((transport, i.type_u8(), i.code_u8()), (2, 128, 0));
                prop_assert!(i.is_checksum_valid(h.source(), h.destination()));
            }
            other => panic!("unexpected transport {other:?}"),
        }
    }
}

#[test]
fn lengths() {
    let b = PacketBuilder::ipv4([1; 4].into(), [2; 4].into()).udp(1, 2);
    assert_eq!(b.build().len(), 28);
    assert_eq!(b.clone().payload(&[0; 70_000]).build().len(), 65_535);
    assert_eq!(b.clone().options(&[1; 60]).build().len(), 68);
    let b6 = PacketBuilder::ipv6([1; 16].into(), [2; 16].into()).extension(60, &[0; 7]).udp(1, 2);
    assert_eq!(b6.build().len(), 40 + 16 + 8);
    assert_eq!(b6.clone().payload(&[0; 70_000]).build().len(), 65_575);
    assert_eq!(b6.extension(60, &[0; 3000]).build().len(), 40 + 16 + 2048 + 8);
    let b = b.ethernet(Mac::ZERO, Mac::BROADCAST).tag(ethertype::QINQ, 0x600a).vlan(20);
    let frame = b.clone().frame_len(60).build();
    assert_eq!(frame.len(), 60);
    assert_eq!(frame[12..22], [0x88, 0xa8, 0x60, 0x0a, 0x81, 0, 0, 20, 0x08, 0]);
    assert_eq!(b.frame_len(10).build().len(), 50);
}

#[test]
fn arp() {
    let (a, b) = (Mac([2, 0, 0, 0, 0, 1]), Mac::BROADCAST);
    let packet = ArpPacket::request(a, [10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let frame = arp_frame(a, b, &packet);
    assert_eq!(frame[..14], [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6]);
    assert_eq!(frame[14..], packet.0);
}
