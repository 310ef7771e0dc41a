use std::net::Ipv4Addr;

use proptest::prelude::*;
use wire::arp::{ArpError, Operation};
use wire::{
    ArpPacket, EthernetHeader, IcmpHeader, Icmpv6Header, Ipv4Header, Ipv6Header, Mac, TcpHeader, UdpHeader,
    VirtioNetHeader, VlanTag, ethertype, ipv4, virtio,
};

#[test]
fn ethernet_and_tag() {
    let h = EthernetHeader::new(Mac([1, 2, 3, 4, 5, 6]), Mac([7, 8, 9, 10, 11, 12]), ethertype::QINQ);
    assert_eq!(h.0, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x88, 0xa8]);
    assert_eq!((h.dst().0[0], h.src().0[0], h.ethertype()), (1, 7, ethertype::QINQ));
    let tag = VlanTag::with_tci(0xb123, ethertype::IPV4);
    assert_eq!(tag.0, [0xb1, 0x23, 0x08, 0x00]);
    assert_eq!((tag.pcp(), tag.dei(), tag.vid(), tag.ethertype()), (5, true, 0x123, ethertype::IPV4));
    assert_eq!(VlanTag::new(0xf00a, ethertype::ARP).tci(), 10);
}

#[test]
fn arp() {
    let (a, b) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    let (ip_a, ip_b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let request = ArpPacket::request(a, ip_a, ip_b);
    #[rustfmt::skip]
    assert_eq!(request.0, [
        0, 1, 8, 0, 6, 4, 0, 1,
        2, 0, 0, 0, 0, 1, 10, 0, 0, 1,
        0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
    ]);
    assert_eq!(request.check(), Ok(Operation::Request));
    let reply = request.reply(b);
    assert_eq!(reply.check(), Ok(Operation::Reply));
    assert_eq!((reply.sender_mac(), reply.sender_ip()), (b, ip_b));
    assert_eq!((reply.target_mac(), reply.target_ip()), (a, ip_a));
    assert!(ArpPacket::gratuitous(a, ip_a).is_gratuitous() && !request.is_gratuitous());

    for (at, value, error) in [
        (1, 6, ArpError::Hardware),
        (4, 8, ArpError::Hardware),
        (2, 0x86, ArpError::Protocol),
        (5, 16, ArpError::Protocol),
        (7, 0, ArpError::Operation),
        (7, 3, ArpError::Operation),
    ] {
        let mut bad = request;
        bad.0[at] = value;
        assert_eq!(bad.check(), Err(error), "byte {at}");
    }
}

#[test]
fn martian_sources_are_recognized() {
    for addr in
        ["127.0.0.1", "127.255.255.255", "224.0.0.1", "239.1.1.1", "239.255.255.255", "255.255.255.255"]
    {
        assert!(ipv4::is_martian_source(addr.parse::<Ipv4Addr>().unwrap().to_bits()), "{addr}");
    }
    for addr in [
        "0.0.0.0",
        "0.0.0.1",
        "1.0.0.0",
        "10.0.0.1",
        "126.255.255.255",
        "128.0.0.0",
        "169.254.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "198.19.255.255",
        "223.255.255.255",
        "240.0.0.1",
        "255.255.255.254",
    ] {
        assert!(!ipv4::is_martian_source(addr.parse::<Ipv4Addr>().unwrap().to_bits()), "{addr}");
    }
    assert!(ipv4::is_unspecified(0) && !ipv4::is_unspecified(1));
    assert!(ipv4::is_broadcast(u32::MAX) && !ipv4::is_broadcast(u32::MAX - 1));
}

#[test]
fn virtio() {
    let mut h = VirtioNetHeader::needs_csum(34, 16).with_gso(virtio::GSO_TCPV4 | virtio::GSO_ECN, 66, 1448);
    assert!(h.is_csum_partial() && h.is_gso() && h.gso_ecn());
    assert_eq!((h.flags(), h.gso_type()), (virtio::NEEDS_CSUM, virtio::GSO_TCPV4));
    let words: Vec<u16> = h.0[2..].chunks(2).map(|w| u16::from_ne_bytes([w[0], w[1]])).collect();
    assert_eq!(words, [66, 1448, 34, 16]);
    assert_eq!((h.hdr_len(), h.gso_size(), h.csum_start(), h.csum_offset()), (66, 1448, 34, 16));
    h.shift(4);
    assert_eq!((h.hdr_len(), h.csum_start(), h.csum_offset()), (70, 38, 16));
    h.shift(-4);
    assert_eq!((h.hdr_len(), h.csum_start()), (66, 34));
    let mut plain = VirtioNetHeader::zeroed();
    plain.shift(4);
    assert_eq!(plain.0, [0; 10]);
}

#[test]
fn udp_and_tcp_lengths() {
    assert_eq!(UdpHeader::new(1, 2, 12).length(), 20);
    assert_eq!(UdpHeader::new(1, 2, usize::MAX).length(), u16::MAX);
    assert_eq!(Ipv4Header::new([1; 4].into(), [2; 4].into(), 17, usize::MAX).total_len(), u16::MAX);
    assert_eq!(Ipv4Header([0x40; 20]).options_len(), 0);
    assert_eq!(Ipv4Header([0x4f; 20]).options_len(), 40);
}

proptest! {
    /// Each header type is returned exactly if the bytes are long enough for it, together with the bytes after it.
    #[test]
    fn views_split_at_their_end(bytes in prop::collection::vec(any::<u8>(), 0..48)) {
        macro_rules! check {
            ($($header:ty),*) => {$(
                match <$header>::split(&bytes) {
                    Some((h, rest)) => {
                        prop_assert_eq!(&h.0[..], &bytes[..<$header>::LEN]);
                        prop_assert_eq!(rest, &bytes[<$header>::LEN..]);
                    }
                    None => prop_assert!(bytes.len() < <$header>::LEN),
                }
                prop_assert_eq!(<$header>::split_mut(&mut bytes.clone()).is_some(), bytes.len() >= <$header>::LEN);
            )*};
        }
        check!(EthernetHeader, VlanTag, ArpPacket, Ipv4Header, IcmpHeader, UdpHeader, TcpHeader, VirtioNetHeader, Ipv6Header, Icmpv6Header);
    }

    /// The getters agree with the etherparse crate.
    #[test]
    fn ipv4_agrees_with_etherparse(mut bytes in any::<[u8; 20]>()) {
        bytes[0] = 0x45;
        // etherparse does not keep the reserved flag.
        bytes[6] &= 0x7f;
        let ours = Ipv4Header(bytes);
        let theirs = etherparse::Ipv4HeaderSlice::from_slice(&bytes).unwrap();
        prop_assert_eq!(ours.version(), theirs.version());
        prop_assert_eq!(ours.ihl(), theirs.ihl());
        prop_assert_eq!(ours.dscp(), theirs.dcp().value());
        prop_assert_eq!(ours.ecn(), theirs.ecn().value());
        prop_assert_eq!(ours.total_len(), theirs.total_len());
        prop_assert_eq!(ours.id(), theirs.identification());
        prop_assert_eq!(ours.dont_fragment(), theirs.dont_fragment());
        prop_assert_eq!(ours.more_fragments(), theirs.more_fragments());
        prop_assert_eq!(u32::from(ours.fragment_offset()), u32::from(theirs.fragments_offset().value()) * 8);
        prop_assert_eq!(ours.is_fragment(), theirs.is_fragmenting_payload());
        prop_assert_eq!(ours.ttl(), theirs.ttl());
        prop_assert_eq!(ours.protocol(), theirs.protocol().0);
        prop_assert_eq!(ours.checksum(), theirs.header_checksum());
        prop_assert_eq!(ours.src(), theirs.source_addr());
        prop_assert_eq!(ours.dst(), theirs.destination_addr());
        prop_assert_eq!(ours.compute_checksum(), theirs.to_header().calc_header_checksum());
    }

    /// Setting a field changes that field only.
    #[test]
    fn ipv4_setters(bytes in any::<[u8; 20]>(), v in any::<u16>(), addr in any::<u32>()) {
        let all = |h: &Ipv4Header| {
            [h.version_ihl().into(), h.tos().into(), h.total_len(), h.id(), h.flags_fragment(), h.ttl().into(), h.protocol().into(), h.checksum()]
        };
        let before = Ipv4Header(bytes);
        let setters: [fn(&mut Ipv4Header, u16); 8] = [
            |h, v| h.set_ihl(v as u8),
            |h, v| h.set_tos(v as u8),
            |h, v| h.set_total_len(v),
            |h, v| h.set_id(v),
            |h, v| h.set_flags_fragment(v),
            |h, v| h.set_ttl(v as u8),
            |h, v| h.set_protocol(v as u8),
            |h, v| h.set_checksum(v),
        ];
        let values = [0x40 | v & 15, v & 0xff, v, v, v, v & 0xff, v & 0xff, v];
        for (i, set) in setters.iter().enumerate() {
            let mut after = before;
            set(&mut after, v);
            let mut expected = all(&before);
            expected[i] = values[i];
            prop_assert_eq!(all(&after), expected);
            prop_assert_eq!((after.src_u32(), after.dst_u32()), (before.src_u32(), before.dst_u32()));
        }
        let mut after = before;
        after.set_src(addr.into());
        prop_assert_eq!((after.src_u32(), after.dst_u32(), all(&after)), (addr, before.dst_u32(), all(&before)));
        let mut after = before;
        after.set_dst(addr.into());
        prop_assert_eq!((after.src_u32(), after.dst_u32(), all(&after)), (before.src_u32(), addr, all(&before)));
        after.set_dont_fragment(v & 1 != 0);
        prop_assert_eq!(after.dont_fragment(), v & 1 != 0);
        prop_assert_eq!(after.flags_fragment() & !0x4000, before.flags_fragment() & !0x4000);
    }

    #[test]
    fn tcp_agrees_with_etherparse(mut bytes in any::<[u8; 20]>()) {
        bytes[12] = 5 << 4;
        let ours = TcpHeader(bytes);
        let theirs = etherparse::TcpHeaderSlice::from_slice(&bytes).unwrap();
        prop_assert_eq!((ours.src_port(), ours.dst_port()), (theirs.source_port(), theirs.destination_port()));
        prop_assert_eq!((ours.seq(), ours.ack()), (theirs.sequence_number(), theirs.acknowledgment_number()));
        prop_assert_eq!(ours.data_offset(), theirs.data_offset());
        prop_assert_eq!(ours.window(), theirs.window_size());
        prop_assert_eq!(ours.checksum(), theirs.checksum());
        use wire::tcp::Flags;
        for (flag, expected) in [
            (Flags::FIN, theirs.fin()), (Flags::SYN, theirs.syn()), (Flags::RST, theirs.rst()),
            (Flags::PSH, theirs.psh()), (Flags::ACK, theirs.ack()), (Flags::URG, theirs.urg()),
            (Flags::ECE, theirs.ece()), (Flags::CWR, theirs.cwr()),
        ] {
            prop_assert_eq!(ours.flags().any(flag), expected);
        }
    }
}
