use std::net::Ipv6Addr;

use proptest::prelude::*;
use wire::builder::PacketBuilder;
use wire::checksum::finish_partial;
use wire::gso::{GsoError, Kind, Segmentation};
use wire::tcp::Flags;
use wire::{Ipv4Header, Ipv6Header, Mac, TcpHeader, UdpHeader, protocol};

use crate::{plain_checksum, plain_transport_checksum};

/// Segments a frame as a driver does when it sends, and returns whole frames.
fn cut(plan: &Segmentation, frame: &[u8]) -> Vec<Vec<u8>> {
    let payload = &frame[plan.header_len()..];
    plan.segments()
        .map(|s| {
            let mut out = vec![0xaa; plan.header_len() + s.len];
            assert!(plan.write_headers(frame, &s, &mut out));
            out[plan.header_len()..].copy_from_slice(&payload[s.start..][..s.len]);
            assert!(finish_partial(&mut out, [], plan.csum_start(), plan.csum_offset()));
            out
        })
        .collect()
}

fn builder(tags: usize, options: &[u8]) -> PacketBuilder {
    let b = PacketBuilder::ipv4([10, 0, 0, 1].into(), [10, 0, 1, 1].into())
        .ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))
        .options(options)
        .dont_fragment()
        .partial_checksum();
    (0..tags).fold(b, |b, vid| b.vlan(vid as u16 + 1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn tcp_segments_make_up_the_packet(
        payload in prop::collection::vec(any::<u8>(), 0..5000),
        size in 1u16..3000,
        (seq, id, flags) in any::<(u32, u16, u8)>(),
        tags in 0usize..3,
        options in prop::collection::vec(Just(1u8), 0..40),
        tcp_words in 0usize..=10,
    ) {
        let l3 = 14 + 4 * tags;
        let b = builder(tags, &options).id(id).tcp(1234, 80, seq, 99, Flags(flags));
        let l4 = b.header_len() - 20;
        // The TCP options are the front of the builder's payload.
        let with_options = [&vec![1; tcp_words * 4][..], &payload].concat();
        let mut frame = b.payload(&with_options).build();
        frame[l4 + 12] = (5 + tcp_words as u8) << 4;
        let headers = l4 + 20 + tcp_words * 4;

        // Only the headers are known.
        let plan = Segmentation::new(Kind::Tcp, &frame[..headers], l3, payload.len(), size).unwrap();
        prop_assert_eq!(plan.header_len(), headers);
        let segments = cut(&plan, &frame);
        prop_assert_eq!(segments.len(), plan.count());
        prop_assert_eq!(plan.count(), payload.len().div_ceil(size.into()).max(1));

        let mut reassembled = Vec::<u8>::new();
        for (i, s) in segments.iter().enumerate() {
            let (ip, _) = Ipv4Header::split(&s[l3..]).unwrap();
            prop_assert_eq!(usize::from(ip.total_len()), s.len() - l3);
            prop_assert!(s.len() <= headers + usize::from(size));
            prop_assert_eq!(ip.id(), id.wrapping_add(i as u16));
            prop_assert!(ip.dont_fragment());
            prop_assert_eq!(plain_checksum(&s[l3..l4]), 0);
            prop_assert_eq!(plain_transport_checksum(&s[l3..]), 0);
            let (tcp, _) = TcpHeader::split(&s[l4..]).unwrap();
            prop_assert_eq!(tcp.seq(), seq.wrapping_add(reassembled.len() as u32));
            let mut expected = flags;
            if i > 0 { expected &= !0x80 }
            if i + 1 < segments.len() { expected &= !0x09 }
            prop_assert_eq!(tcp.flags().0, expected);
            prop_assert_eq!((tcp.ack(), tcp.window()), (99, 65_535));
            prop_assert_eq!(&s[..l3], &frame[..l3]);
            prop_assert_eq!(&s[l4 + 20..headers], &frame[l4 + 20..headers]);
            reassembled.extend(&s[headers..]);
        }
        prop_assert_eq!(reassembled, payload);
    }

    #[test]
    fn udp_datagrams_make_up_the_packet(payload in prop::collection::vec(any::<u8>(), 0..5000), size in 1u16..3000) {
        let frame = builder(0, &[]).udp(1, 2).payload(&payload).build();
        let plan = Segmentation::new(Kind::Udp, &frame, 14, payload.len(), size).unwrap();
        let mut reassembled = Vec::<u8>::new();
        for s in cut(&plan, &frame) {
            prop_assert_eq!(plain_checksum(&s[14..34]), 0);
            prop_assert_eq!(plain_transport_checksum(&s[14..]), 0);
            let (udp, data) = UdpHeader::split(&s[34..]).unwrap();
            prop_assert_eq!(usize::from(udp.length()), 8 + data.len());
            prop_assert_ne!(udp.checksum(), 0);
            reassembled.extend(data);
        }
        prop_assert_eq!(reassembled, payload);
    }

    #[test]
    fn segments_of_ipv6_make_up_the_packet(
        payload in prop::collection::vec(any::<u8>(), 0..5000),
        size in 1u16..3000,
        (tcp, options) in any::<(bool, bool)>(),
    ) {
        let b = PacketBuilder::ipv6(Ipv6Addr::from_bits(0x2001 << 112 | 5), Ipv6Addr::from_bits(0x2001 << 112 | 9));
        let b = b.ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])).partial_checksum();
        // Destination options: padding.
        let b = if options { b.extension(protocol::DESTINATION_OPTIONS, &[1, 4, 0, 0, 0, 0]) } else { b };
        let l4 = 14 + 40 + if options { 8 } else { 0 };
        let (b, kind, own) = if tcp { (b.tcp(1, 80, 7, 9, Flags::ACK), Kind::Tcp, 20) } else { (b.udp(1, 2), Kind::Udp, 8) };
        let frame = b.payload(&payload).build();
        let plan = Segmentation::new(kind, &frame, 14, payload.len(), size).unwrap();
        prop_assert_eq!(plan.header_len(), l4 + own);
        let mut reassembled = Vec::<u8>::new();
        for s in cut(&plan, &frame) {
            let (ip, _) = Ipv6Header::split(&s[14..]).unwrap();
            prop_assert_eq!(ip.total_len(), s.len() - 14);
            let mut pseudo = [ip.src().octets(), ip.dst().octets()].concat();
            pseudo.extend((s.len() as u32 - l4 as u32).to_be_bytes());
            pseudo.extend([0, 0, 0, if tcp { protocol::TCP } else { protocol::UDP }]);
            pseudo.extend(&s[l4..]);
            prop_assert_eq!(plain_checksum(&pseudo), 0);
            if tcp {
                prop_assert_eq!(TcpHeader::split(&s[l4..]).unwrap().0.seq(), 7 + reassembled.len() as u32);
            }
            reassembled.extend(&s[l4 + own..]);
        }
        prop_assert_eq!(reassembled, payload);
        // A fragment is not segmented.
        let fragment = PacketBuilder::ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST).fragment(0, true).udp(1, 2).build();
        prop_assert!(Segmentation::new(kind, &fragment, 0, 100, size).is_err());
    }

    #[test]
    fn any_bytes_are_segmented_or_refused(
        noise in prop::collection::vec(any::<u8>(), 0..120),
        valid in any::<bool>(),
        (at, value) in (any::<prop::sample::Index>(), any::<u8>()),
        (l3, payload_len, size) in (0usize..40, 0usize..70_000, any::<u16>()),
        tcp in any::<bool>(),
    ) {
        let mut frame = if valid { builder(0, &[]).tcp(1, 2, 3, 4, Flags::ACK).build() } else { noise };
        if !frame.is_empty() {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        let kind = if tcp { Kind::Tcp } else { Kind::Udp };
        let l3 = if valid { 14 } else { l3 };
        if let Ok(plan) = Segmentation::new(kind, &frame, l3, payload_len, size) {
            prop_assert!(plan.header_len() <= frame.len());
            let total: usize = plan.segments().map(|s| s.len).sum();
            prop_assert_eq!(total, payload_len);
            let mut out = vec![0; plan.header_len()];
            for s in plan.segments().take(3) {
                prop_assert!(plan.write_headers(&frame, &s, &mut out));
                prop_assert!(!plan.write_headers(&frame, &s, &mut out[1..]));
                prop_assert!(!plan.write_headers(&frame[..plan.header_len() - 1], &s, &mut out));
            }
        }
    }
}

#[test]
fn invalid_segmentations_are_refused() {
    let tcp = builder(0, &[]).tcp(1, 2, 3, 4, Flags::ACK);
    let frame = tcp.build();
    let new = |kind, frame: &[u8], size| Segmentation::new(kind, frame, 14, 5000, size).map(|_| ());
    assert_eq!(new(Kind::Tcp, &frame, 1448), Ok(()));
    assert_eq!(new(Kind::Tcp, &frame, 65_495), Ok(()));
    assert_eq!(new(Kind::Tcp, &frame, 65_496), Err(GsoError::Size));
    assert_eq!(new(Kind::Tcp, &frame, 0), Err(GsoError::Size));
    assert_eq!(new(Kind::Udp, &frame, 1448), Err(GsoError::Kind));
    assert_eq!(new(Kind::Tcp, &tcp.fragment(0, true).build(), 1448), Err(GsoError::Kind));
    assert_eq!(new(Kind::Tcp, &frame[..53], 1448), Err(GsoError::Header));
    let mut bad = frame.clone();
    bad[14 + 20 + 12] = 4 << 4;
    assert_eq!(new(Kind::Tcp, &bad, 1448), Err(GsoError::Header));
    bad[14 + 20 + 12] = 6 << 4;
    assert_eq!(new(Kind::Tcp, &bad, 1448), Err(GsoError::Header));
    let mut short = builder(0, &[]).udp(1, 2).build();
    assert_eq!(new(Kind::Udp, &short, 1448), Ok(()));
    short[14] = 0x44;
    assert_eq!(new(Kind::Udp, &short, 1448), Err(GsoError::Header));
    let mut six = frame;
    six[14] = 0x65;
    assert_eq!(new(Kind::Tcp, &six, 1448), Err(GsoError::Kind));
}
