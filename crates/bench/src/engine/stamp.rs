//! The stamp that the tester writes into its frames: 18 bytes, which fit a UDP datagram in a 64-byte frame.
//!
//! ```text
//!  0     4   6           12          18
//!  | signature | stream | sequence | ticks |
//! ```
//!
//! Each trial has its own signature, so that a late frame does not count for the next trial. Sequence and ticks of the time stamp counter
//! have 48 bits: enough for days of frames at any rate, and for more than a day of ticks.

use wire::checksum::Sum;
use wire::ethernet::ethertype;
use wire::ipv4::protocol;

/// Length of a stamp in bytes.
pub const LEN: usize = 18;
/// Mask of the 48 bits of sequence and ticks.
const CUT: u64 = (1 << 48) - 1;

/// Identity and time of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Signature of the trial.
    pub signature: u32,
    /// Number of the stream; each stream has its own sequence numbers.
    pub stream: u16,
    /// Number in the stream, from 0 on; 48 bits.
    pub sequence: u64,
    /// The lowest 48 bits of the sending time, in ticks of the time stamp counter.
    pub ticks: u64,
}

/// Position of a frame's stamp, of its headers, and of the checksum that covers the stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Offset of the transport payload in bytes from the start of the frame; always even.
    pub at: usize,
    /// Offset of the transport checksum in bytes.
    pub checksum: usize,
    /// Offset of the IP header in bytes.
    pub ip: usize,
    /// Offset of the transport header in bytes.
    pub transport: usize,
}

impl Place {
    /// Placeholder for an unknown place: all offsets are beyond the end of any frame.
    pub const NONE: Place =
        Place { at: usize::MAX, checksum: usize::MAX, ip: usize::MAX, transport: usize::MAX };

    /// Finds the stamp of a tester's frame, even if a router changed the frame: after Ethernet with any VLAN tags, IPv4 or IPv6, and UDP,
    /// TCP or an echo header. `None` for other frames and frames that are too short.
    #[inline]
    pub fn find(frame: &[u8]) -> Option<Place> {
        Place::find_with(frame, LEN)
    }

    /// Same as [`find`](Self::find), but with at least `room` bytes after the transport header instead of a whole stamp.
    #[inline]
    fn find_with(frame: &[u8], room: usize) -> Option<Place> {
        let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let (mut kind, mut at) = (word(12)?, 14);
        while ethertype::is_vlan(kind) {
            (kind, at) = (word(at + 2)?, at + 4);
        }
        let ip = at;
        let (next, transport) = match kind {
            ethertype::IPV4 => (*frame.get(ip + 9)?, ip + usize::from(*frame.get(ip)? & 15) * 4),
            ethertype::IPV6 => (*frame.get(ip + 6)?, ip + 40),
            _ => return None,
        };
        let (header, checksum) = match next {
            protocol::UDP => (8, 6),
            protocol::TCP => (usize::from(*frame.get(transport + 12)? >> 4) * 4, 16),
            protocol::ICMP | protocol::ICMPV6 => (8, 2),
            _ => return None,
        };
        let place = Place { at: transport + header, checksum: transport + checksum, ip, transport };
        (place.at + room <= frame.len()).then_some(place)
    }
}

impl Stamp {
    /// Returns the stamp as register-sized numbers. If the stamp were assembled in memory, the checksum would have to wait for the stores.
    #[inline(always)]
    fn words(self) -> (u64, u64, u16) {
        let sequence = self.sequence & CUT;
        let first = u64::from(self.signature) << 32 | u64::from(self.stream) << 16 | sequence >> 32;
        (first, sequence << 32 | (self.ticks & CUT) >> 16, self.ticks as u16)
    }

    /// Writes the stamp into a frame whose bytes for the stamp are 0, and updates the frame's checksum.
    #[inline(always)]
    pub fn write(self, frame: &mut [u8], place: Place) {
        let (first, second, third) = self.words();
        let Some(to) = frame.get_mut(place.at..).and_then(|f| f.first_chunk_mut::<LEN>()) else { return };
        to[..8].copy_from_slice(&first.to_be_bytes());
        to[8..16].copy_from_slice(&second.to_be_bytes());
        to[16..].copy_from_slice(&third.to_be_bytes());
        let Some(field) = frame.get_mut(place.checksum..).and_then(|f| f.first_chunk_mut::<2>()) else {
            return;
        };
        // RFC 1624, with zeros as the old value. A UDP checksum of 0 would mean that there is none.
        let stamp = Sum::of_u64(first).plus(Sum::of_u64(second)).plus(Sum::of_u16(third));
        let new = Sum::of_u16(!u16::from_be_bytes(*field)).plus(stamp).checksum_nonzero();
        *field = new.to_be_bytes();
    }

    /// Returns the signature and the stream number: the first 6 bytes of a stamp, whose other bytes may be missing. `None` if the frame has
    /// no place for these 6 bytes.
    #[cold]
    pub fn cut(frame: &[u8]) -> Option<(u32, u16)> {
        let place = Place::find_with(frame, 6)?;
        let bytes: [u8; 6] = *frame.get(place.at..)?.first_chunk()?;
        let [a, b, c, d, e, f] = bytes;
        Some((u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f])))
    }

    /// Reads the stamp at `place`. Any 18 bytes can be read as a stamp: only the signature shows that the tester wrote them. `None` if the
    /// frame ends before the stamp does.
    #[inline(always)]
    pub fn read(frame: &[u8], place: Place) -> Option<Stamp> {
        let bytes: &[u8; LEN] = frame.get(place.at..)?.first_chunk()?;
        let (first, rest) = bytes.split_first_chunk::<8>()?;
        let (second, third) = rest.split_first_chunk::<8>()?;
        let (first, second) = (u64::from_be_bytes(*first), u64::from_be_bytes(*second));
        Some(Stamp {
            signature: (first >> 32) as u32,
            stream: (first >> 16) as u16,
            sequence: (first & 0xffff) << 32 | second >> 32,
            ticks: (second & 0xffff_ffff) << 16 | u64::from(u16::from_be_bytes(*third.first_chunk()?)),
        })
    }

    /// Returns the ticks from the sending of the frame until `now`. A clock that went backwards gives 0.
    #[inline(always)]
    pub fn age(self, now: u64) -> u64 {
        let ticks = now.wrapping_sub(self.ticks) & CUT;
        if ticks <= CUT / 2 { ticks } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;
    use wire::Mac;
    use wire::builder::PacketBuilder;

    use super::*;

    fn packets() -> Vec<PacketBuilder> {
        let (a4, b4) = (Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 19, 0, 2));
        let (a6, b6) =
            (Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2), Ipv6Addr::new(0x2001, 2, 0, 0x8000, 0, 0, 0, 2));
        [PacketBuilder::ipv4(a4, b4), PacketBuilder::ipv6(a6, b6)]
            .into_iter()
            .flat_map(|ip| {
                let ip = ip.ethernet(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
                let tagged = ip.clone().vlan(100);
                [ip, tagged]
            })
            .flat_map(|ip| {
                [
                    ip.clone().udp(1024, 7),
                    ip.clone().tcp(1024, 80, 1, 1, wire::tcp::Flags::ACK),
                    ip.echo_request(1, 1),
                ]
            })
            .collect()
    }

    proptest! {
        /// A stamp survives writing and reading, and the frame equals one built with the stamp as its payload.
        #[test]
        fn a_stamp_is_read_back_and_checksums_are_valid(
            signature: u32,
            stream: u16,
            sequence in 0u64..1 << 48,
            ticks in 0u64..1 << 48,
            behind in 0usize..40,
        ) {
            let stamp = Stamp { signature, stream, sequence, ticks };
            for packet in packets() {
                let mut frame = packet.clone().payload(&vec![0; LEN + behind]).build();
                let place = Place::find(&frame).ok_or_else(|| TestCaseError::fail("no place"))?;
                stamp.write(&mut frame, place);
                prop_assert_eq!(Stamp::read(&frame, place), Some(stamp));
                let mut payload = [
                    &signature.to_be_bytes()[..],
                    &stream.to_be_bytes(),
                    &sequence.to_be_bytes()[2..],
                    &ticks.to_be_bytes()[2..],
                ]
                .concat();
                payload.resize(LEN + behind, 0);
                let expected = packet.payload(&payload).build();
                let field = place.checksum..place.checksum + 2;
                // Both zeros of ones' complement are the same number (RFC 1071).
                if frame[field.clone()] == [0xff, 0xff] && expected[field.clone()] == [0, 0] {
                    frame[field].fill(0);
                }
                prop_assert_eq!(frame, expected);
            }
        }

        /// Arbitrary bytes cause no panic.
        #[test]
        fn any_frame_is_parsed_without_a_panic(frame in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(place) = Place::find(&frame) {
                prop_assert!(Stamp::read(&frame, place).is_some());
            }
        }
    }

    #[test]
    fn a_stamp_fits_into_an_ipv4_frame_of_64_bytes() {
        let ip = PacketBuilder::ipv4(Ipv4Addr::new(198, 18, 0, 2), Ipv4Addr::new(198, 19, 0, 2));
        let frame = ip.ethernet(Mac([2; 6]), Mac([4; 6])).udp(1024, 7).payload(&[0; 18]).build();
        assert_eq!(frame.len() + 4, 64);
        assert_eq!(Place::find(&frame), Some(Place { at: 42, checksum: 40, ip: 14, transport: 34 }));
        assert_eq!(Place::find(&frame[..59]), None);
    }

    #[test]
    fn age_handles_a_48_bit_wraparound_and_a_clock_that_goes_back() {
        let stamp = Stamp { signature: 1, stream: 0, sequence: 0, ticks: (1 << 48) - 10 };
        assert_eq!(stamp.age((1 << 48) + 5), 15);
        assert_eq!(stamp.age((1 << 48) - 11), 0);
    }
}
