use proptest::prelude::*;
use wire::checksum::{Sum, checksum, finish_partial, nonzero, update_partial32, update16, update32};
use wire::{Ipv4Header, TcpHeader, UdpHeader};

use crate::plain_checksum;

/// Words that often hit the corner cases of ones' complement arithmetic.
fn word() -> impl Strategy<Value = u16> {
    prop_oneof![Just(0), Just(0xffff), Just(0xfeff), Just(0x0100), any::<u16>()]
}

fn words() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(word(), 1..40).prop_map(|w| w.iter().flat_map(|w| w.to_be_bytes()).collect())
}

/// An IPv4 header without options, with arbitrary fields and the right checksum.
fn header() -> impl Strategy<Value = Ipv4Header> {
    prop::array::uniform10(word()).prop_map(|w| {
        let mut h = Ipv4Header::zeroed();
        for (at, word) in w.iter().enumerate() {
            h.0[2 * at..][..2].copy_from_slice(&word.to_be_bytes());
        }
        h.0[0] = 0x45;
        h.set_checksum(0);
        h.set_checksum(plain_checksum(&h.0));
        h
    })
}

proptest! {
    /// The header in three words matches its fields, with a valid checksum and with an arbitrary one.
    #[test]
    fn header_words_equal_the_fields(mut h in header(), noise in word()) {
        for _ in 0..2 {
            let w = h.words();
            prop_assert_eq!((w.version_ihl(), w.total_len()), (h.version_ihl(), h.total_len()));
            prop_assert_eq!((w.src_u32(), w.dst_u32()), (h.src_u32(), h.dst_u32()));
            prop_assert_eq!(u32::from(w.src_first()), h.src_u32() >> 24);
            prop_assert_eq!(w.checksum_ok(), h.checksum_ok());
            h.set_checksum(noise);
        }
    }
}

#[test]
fn known_sum() {
    // RFC 1071 section 3.
    assert_eq!(Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]).fold(), 0xddf2);
    assert_eq!(checksum(&[]), 0xffff);
    assert_eq!(Sum::of(&[0xff; 1500]).fold(), 0xffff);
    assert_eq!(Sum::of(&[0xff; 65_535]).checksum(), plain_checksum(&[0xff; 65_535]));
}

#[test]
fn ttl_with_every_checksum() {
    let mut seen = vec![false; 65_536];
    for id in 0..=u16::MAX {
        let mut h = Ipv4Header::new([10, 0, 0, 1].into(), [10, 0, 1, 1].into(), 17, 26);
        h.set_id(id);
        h.set_checksum(h.compute_checksum());
        seen[usize::from(h.checksum())] = true;
        h.decrement_ttl();
        assert_eq!(h.ttl(), 63);
        assert_eq!(h.checksum(), h.compute_checksum(), "id {id}");
        assert!(h.checksum_ok());
    }
    // 0xffff is impossible: the other words would have to add up to zero.
    assert_eq!(seen.iter().filter(|s| !**s).count(), 1);
    assert!(!seen[0xffff]);
}

/// A computed UDP checksum of 0 is sent as 0xffff, since 0 means "no checksum" (RFC 768).
#[test]
fn udp_checksum_is_never_none() {
    let ip = Ipv4Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 10);
    let mut udp = UdpHeader::new(1, 2, 2);
    // With the checksum of the rest as payload, everything adds up to zero.
    let payload = udp.compute_checksum(&ip, &[0, 0]).to_be_bytes();
    udp.set_checksum(udp.compute_checksum(&ip, &payload));
    assert_eq!(udp.checksum(), 0xffff);
    assert!(udp.checksum_ok(&ip, &payload));
    udp.update_checksum16(1, 3);
    udp.update_checksum32(3, 1);
    assert_eq!(udp.checksum(), 0xffff);

    udp.set_checksum(ip.pseudo_sum(10).fold());
    let mut datagram = [&udp.0[..], &payload].concat();
    assert!(finish_partial(&mut datagram, [], 0, 6));
    assert_eq!(datagram[6..8], [0xff, 0xff]);
}

proptest! {
    #[test]
    fn sum_agrees(bytes in prop::collection::vec(any::<u8>(), 0..2100), from in 0usize..16) {
        let bytes = bytes.get(from..).unwrap_or(&[]);
        prop_assert_eq!(checksum(bytes), plain_checksum(bytes));
    }

    #[test]
    fn sum_of_corner_words_agrees(bytes in words()) {
        prop_assert_eq!(checksum(&bytes), plain_checksum(&bytes));
        prop_assert_eq!(Sum::of(&bytes).is_valid(), plain_checksum(&bytes) == 0);
    }

    #[test]
    fn sums_of_parts_add_up(bytes in prop::collection::vec(any::<u8>(), 0..200), cuts in prop::array::uniform3(0usize..200)) {
        let mut cuts = cuts.map(|c| c.min(bytes.len()));
        cuts.sort();
        let mut sum = Sum::ZERO;
        for (from, to) in [(0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], cuts[2]), (cuts[2], bytes.len())] {
            let part = Sum::of(&bytes[from..to]);
            sum = sum.plus(if from % 2 == 1 { part.at_odd_offset() } else { part });
        }
        prop_assert_eq!(sum.checksum(), plain_checksum(&bytes));
    }

    #[test]
    fn numbers_sum_as_their_bytes(a in any::<u16>(), b in any::<u32>(), c in any::<u32>(), proto in any::<u8>()) {
        prop_assert_eq!(Sum::of_u16(a).checksum(), plain_checksum(&a.to_be_bytes()));
        let mut bytes = [b.to_be_bytes(), c.to_be_bytes()].concat();
        prop_assert_eq!(Sum::of_u32(b).checksum(), plain_checksum(&b.to_be_bytes()));
        prop_assert_eq!(Sum::of_u64(u64::from(b) << 32 | u64::from(c)).checksum(), plain_checksum(&bytes));
        bytes.extend([0, proto]);
        bytes.extend(a.to_be_bytes());
        prop_assert_eq!(Sum::of_ipv4_pseudo(b, c, proto, a).checksum(), plain_checksum(&bytes));
    }

    #[test]
    fn update_agrees(mut data in words(), at in any::<prop::sample::Index>(), new in word()) {
        let at = at.index(data.len() / 2) * 2;
        let before = plain_checksum(&data);
        let old = u16::from_be_bytes([data[at], data[at + 1]]);
        data[at..at + 2].copy_from_slice(&new.to_be_bytes());
        // Data of zeros only is the exception in the documentation of `update16`.
        prop_assume!(data.iter().any(|&b| b != 0));
        prop_assert_eq!(update16(before, old, new), plain_checksum(&data));
    }

    #[test]
    fn update_of_two_words_agrees(mut data in words(), at in any::<prop::sample::Index>(), new in (word(), word())) {
        data.extend([0x45, 0, 0, 0]);
        let at = at.index(data.len() / 2 - 1) * 2;
        let before = plain_checksum(&data);
        let old = u32::from_be_bytes(*data[at..].first_chunk().unwrap());
        let new = u32::from(new.0) << 16 | u32::from(new.1);
        data[at..at + 4].copy_from_slice(&new.to_be_bytes());
        prop_assume!(data.iter().any(|&b| b != 0));
        prop_assert_eq!(update32(before, old, new), plain_checksum(&data));
        // A partial checksum is the same without the complement.
        prop_assert_eq!(update_partial32(!before, old, new), !plain_checksum(&data));
    }

    #[test]
    fn ttl_agrees(mut h in header()) {
        h.set_ttl(h.ttl().max(1));
        h.set_checksum(h.compute_checksum());
        let ttl = h.ttl();
        h.decrement_ttl();
        prop_assert_eq!(h.ttl(), ttl - 1);
        let updated = h.checksum();
        h.set_checksum(0);
        prop_assert_eq!(updated, plain_checksum(&h.0));
    }

    #[test]
    fn header_check_agrees(h in header(), damage in any::<[u8; 20]>(), bit in 0usize..160) {
        prop_assert!(h.checksum_ok());
        prop_assert_eq!(h.checksum(), h.compute_checksum());
        let mut flipped = h;
        flipped.0[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!flipped.checksum_ok());
        prop_assert_eq!(Ipv4Header(damage).checksum_ok(), plain_checksum(&damage) == 0);
    }

    #[test]
    fn header_with_options(h in header(), options in prop::collection::vec(any::<u8>(), 0..44), missing in 0usize..3) {
        let words = options.len() / 4;
        let mut bytes = h.0.to_vec();
        bytes.extend(&options[..words * 4]);
        bytes[0] = 0x40 | (5 + words as u8);
        let whole = bytes.len();
        bytes.truncate(whole - missing);
        prop_assert_eq!(wire::ipv4::write_checksum(&mut bytes), missing == 0);
        if missing == 0 {
            prop_assert_eq!(plain_checksum(&bytes), 0);
        }
    }

    #[test]
    fn udp_checksum_follows_changes(
        payload in prop::collection::vec(any::<u8>(), 0..64),
        ports in any::<(u16, u16)>(),
        new_port in word(),
        new_src in any::<u32>(),
        with in any::<bool>(),
    ) {
        let mut ip = Ipv4Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 17, 8 + payload.len());
        let mut udp = UdpHeader::new(ports.0, ports.1, payload.len());
        if with {
            udp.set_checksum(udp.compute_checksum(&ip, &payload));
            prop_assert!(udp.checksum_ok(&ip, &payload));
        }
        udp.update_checksum32(ip.src_u32(), new_src);
        ip.set_src(new_src.into());
        udp.update_checksum16(udp.dst_port(), new_port);
        udp.set_dst_port(new_port);
        prop_assert_eq!(udp.checksum(), if with { udp.compute_checksum(&ip, &payload) } else { 0 });
        let l3 = [&ip.0[..], &udp.0[..], &payload].concat();
        prop_assert!(!with || crate::plain_transport_checksum(&l3) == 0);
        prop_assert!(udp.checksum_ok(&ip, &payload));
    }

    #[test]
    fn tcp_checksum_follows_changes(mut rest in prop::collection::vec(any::<u8>(), 0..64), seq in any::<u32>(), port in word()) {
        let ip = Ipv4Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 6, 20 + rest.len());
        let mut tcp = TcpHeader::new(1, 2, 3, 4, wire::tcp::Flags::ACK);
        tcp.set_checksum(tcp.compute_checksum(&ip, &rest));
        tcp.update_checksum32(tcp.seq(), seq);
        tcp.set_seq(seq);
        tcp.update_checksum16(tcp.src_port(), port);
        tcp.set_src_port(port);
        prop_assert!(tcp.checksum_ok(&ip, &rest));
        prop_assert_eq!(crate::plain_transport_checksum(&[&ip.0[..], &tcp.0[..], &rest].concat()), 0);
        if let Some(last) = rest.last_mut() {
            *last ^= 1;
            prop_assert!(!tcp.checksum_ok(&ip, &rest));
        }
    }

    #[test]
    fn partial_checksum_is_finished(
        bytes in prop::collection::vec(any::<u8>(), 40..300),
        start in 0usize..60,
        offset in 0usize..40,
        cuts in prop::array::uniform2(0usize..300),
    ) {
        let mut cuts = cuts.map(|c| c.min(bytes.len()));
        cuts.sort();
        let mut head = bytes[..cuts[0]].to_vec();
        let tail = [&bytes[cuts[0]..cuts[1]], &bytes[cuts[1]..]];
        let done = finish_partial(&mut head, tail, start, offset);
        prop_assert_eq!(done, start + offset + 2 <= head.len());
        if done {
            let field = start + offset;
            let expected = nonzero(plain_checksum(&bytes[start..]));
            prop_assert_eq!(&head[field..field + 2], expected.to_be_bytes());
            prop_assert_eq!(&head[..field], &bytes[..field]);
            prop_assert_eq!(&head[field + 2..], &bytes[field + 2..cuts[0]]);
        } else {
            prop_assert_eq!(&head[..], &bytes[..cuts[0]]);
        }
    }
}
