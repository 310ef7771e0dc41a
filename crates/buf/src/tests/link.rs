//! Link headers, and the facts about all packets of a frame.

use proptest::prelude::*;

use super::packet_of;
use crate::layout::{DATA, HEADROOM};
use crate::{FRAME_SIZE, Frame, LinkHeader, Pool};

proptest! {
    /// A link header is written exactly in front of the packet, wherever the packet begins.
    #[test]
    fn a_link_header_is_written_in_front(header in prop::collection::vec(any::<u8>(), 0..40), back in 0..300usize) {
        let Some(link) = LinkHeader::new(&header) else {
            prop_assert!(!(8..=LinkHeader::MAX).contains(&header.len()));
            return Ok(());
        };
        prop_assert_eq!(link.bytes(), &header[..]);
        let pool = Pool::new(8)?;
        let mut cache = pool.cache();
        let mut held = packet_of(&[0x11; 100], &mut cache).ok_or(TestCaseError::fail("no buffer"))?;
        let mut p = held.packet();
        let back = back.min(DATA - HEADROOM);
        // All room in front of the packet has a known value, and the packet another.
        prop_assert!(p.push(DATA - HEADROOM));
        p.bytes_mut().fill(0x33);
        prop_assert!(p.advance(DATA - HEADROOM - back));
        p.bytes_mut().fill(0x22);
        let fits = DATA - back >= HEADROOM + header.len();
        prop_assert_eq!(p.prepend(&link), fits);
        let packet = vec![0x22; 100 + back];
        if fits {
            prop_assert_eq!(usize::from(p.l2_len()), header.len());
            prop_assert_eq!(p.bytes(), [&header[..], &packet].concat());
            let free = DATA - back - header.len() - HEADROOM;
            prop_assert!(p.push(free));
            prop_assert!(p.bytes()[..free].iter().all(|b| *b == 0x33), "bytes before the header were written");
        } else {
            prop_assert_eq!(p.bytes(), packet);
        }
        held.free(&mut cache);
    }

    /// Headers of a tunnel, of any length, are written exactly in front of the packet.
    #[test]
    fn bytes_are_written_in_front(header in prop::collection::vec(any::<u8>(), 0..300), back in 0..300usize) {
        let pool = Pool::new(8)?;
        let mut cache = pool.cache();
        let mut held = packet_of(&[0x11; 100], &mut cache).ok_or(TestCaseError::fail("no buffer"))?;
        let mut p = held.packet();
        let back = back.min(DATA - HEADROOM);
        prop_assert!(p.push(DATA - HEADROOM));
        p.bytes_mut().fill(0x33);
        prop_assert!(p.advance(DATA - HEADROOM - back));
        let packet = p.bytes().to_vec();
        let fits = DATA - back >= HEADROOM + header.len();
        prop_assert_eq!(p.push_bytes(&header), fits);
        let put = if fits { &header[..] } else { &[] };
        prop_assert_eq!(p.bytes(), [put, &packet].concat());
        let free = DATA - back - put.len() - HEADROOM;
        prop_assert!(p.push(free));
        prop_assert!(p.bytes()[..free].iter().all(|b| *b == 0x33), "bytes before the header were written");
        held.free(&mut cache);
    }

    #[test]
    fn a_frame_knows_its_one_interface_and_its_bytes(
        packets in prop::collection::vec((0u32..2, 0..100usize), 0..FRAME_SIZE),
        one in any::<bool>(),
    ) {
        let pool = Pool::new(512)?;
        let mut cache = pool.cache();
        let mut frame = Frame::new();
        frame.alloc(&mut cache, packets.len());
        let packets: Vec<_> = packets.into_iter().map(|(tx, len)| (if one { 7 } else { tx }, len)).collect();
        for (mut p, (tx, len)) in frame.packets().zip(&packets) {
            p.set_tx_if(*tx);
            p.set_len(*len);
        }
        let first = packets.first().map(|p| p.0);
        prop_assert_eq!(frame.uniform_tx(), first.filter(|first| packets.iter().all(|p| p.0 == *first)));
        prop_assert_eq!(frame.total_len(), packets.iter().map(|p| p.1).sum::<usize>());
        frame.free(&mut cache);
    }
}
