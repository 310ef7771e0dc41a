//! The four-tuple that identifies a UDP connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use drivers::pktgen::{Field, Mode, Template};
use infra::hash::mix64;
use wire::ethernet::ethertype;
use wire::ipv4::protocol;

/// The first source port, and the number of source ports (RFC 4814 section 4.5).
const SOURCES: (u16, u32) = (1024, 64_512);
/// The first destination port.
const DESTINATIONS: u16 = 1;
/// Maximum number of connections in a test. The tester keeps about 300 bytes for each.
pub const MOST: u32 = 1 << 22;

/// The four-tuple of a connection, as seen in the frames of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Source address.
    pub source: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
}

/// Position of the four-tuple in a UDP frame; offsets are from the start of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// Offset of the source address; the destination address follows.
    addresses: usize,
    /// Length of an address, in bytes.
    len: usize,
    /// Offset of the source port; the destination port follows.
    ports: usize,
}

impl Place {
    fn find(frame: &[u8]) -> Option<Place> {
        let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        let (mut kind, mut at) = (word(12)?, 14);
        while ethertype::is_vlan(kind) {
            (kind, at) = (word(at + 2)?, at + 4);
        }
        let (next, place) = match kind {
            ethertype::IPV4 => {
                let ports = at + usize::from(*frame.get(at)? & 15) * 4;
                (*frame.get(at + 9)?, Place { addresses: at + 12, len: 4, ports })
            }
            ethertype::IPV6 => (*frame.get(at + 6)?, Place { addresses: at + 8, len: 16, ports: at + 40 }),
            _ => return None,
        };
        (next == protocol::UDP && place.ports + 8 <= frame.len()).then_some(place)
    }
}

impl Tuple {
    /// Returns the four-tuple of a frame; `None` if the frame is not UDP, or too short for the UDP header.
    pub fn of(frame: &[u8]) -> Option<Tuple> {
        let Place { addresses, len, ports } = Place::find(frame)?;
        let ip = |at: usize| -> Option<IpAddr> {
            Some(match len {
                4 => Ipv4Addr::from(*frame.get(at..)?.first_chunk::<4>()?).into(),
                _ => Ipv6Addr::from(*frame.get(at..)?.first_chunk::<16>()?).into(),
            })
        };
        let port = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        Some(Tuple {
            source: ip(addresses)?,
            source_port: port(ports)?,
            destination: ip(addresses + len)?,
            destination_port: port(ports + 2)?,
        })
    }

    /// Returns the four-tuple of an answer: source and destination exchanged.
    pub fn answer(self) -> Tuple {
        Tuple {
            source: self.destination,
            source_port: self.destination_port,
            destination: self.source,
            destination_port: self.source_port,
        }
    }

    /// Writes the four-tuple into a UDP frame of the same address family, without updating checksums. Returns false if the frame is not
    /// UDP, or has another address family.
    pub fn write(self, frame: &mut [u8]) -> bool {
        let Some(Place { addresses, len, ports }) = Place::find(frame) else { return false };
        let mut put = |at: usize, bytes: &[u8]| {
            let to = frame.get_mut(at..at + bytes.len());
            to.map(|to| to.copy_from_slice(bytes)).is_some()
        };
        let mut ip = |at: usize, ip: IpAddr| match ip {
            IpAddr::V4(ip) => len == 4 && put(at, &ip.octets()),
            IpAddr::V6(ip) => len == 16 && put(at, &ip.octets()),
        };
        ip(addresses, self.source)
            && ip(addresses + len, self.destination)
            && put(ports, &self.source_port.to_be_bytes())
            && put(ports + 2, &self.destination_port.to_be_bytes())
    }
}

/// Returns `count` different four-tuples, but at most [`MOST`], in pseudorandom order (RFC 9693 section 4.1). All have the
/// addresses of `of`. Source ports are those of RFC 4814. There are only as many destination ports as needed.
pub fn tuples(of: Tuple, count: u32, seed: u64) -> Vec<Tuple> {
    let (first, each) = SOURCES;
    let tuple = |n: u32| Tuple {
        source_port: first + (n % each) as u16,
        destination_port: DESTINATIONS + (n / each) as u16,
        ..of
    };
    let mut all: Vec<Tuple> = (0..count.min(MOST)).map(tuple).collect();
    for i in (1..all.len()).rev() {
        let j = (u128::from(mix64(seed.wrapping_add(i as u64))) * (i as u128 + 1)) >> 64;
        all.swap(i, j as usize);
    }
    all
}

/// Returns the template changed so that its frames use these four-tuples in turn, and vary in nothing else. `None` if the template
/// is not UDP, or if its address family is not that of the four-tuples.
pub fn with(template: &Template, tuples: &[Tuple]) -> Option<Template> {
    let place = Place::find(&template.bytes)?;
    if tuples
        .iter()
        .any(|t| (t.source.is_ipv4(), t.destination.is_ipv4()) != (place.len == 4, place.len == 4))
    {
        return None;
    }
    let list = |offset: usize, width: usize, value: &dyn Fn(&Tuple) -> u64| {
        let mut values: Vec<u64> = tuples.iter().map(value).collect();
        // A constant field needs only one value.
        if values.windows(2).all(|pair| pair[0] == pair[1]) {
            values.truncate(1);
        }
        let ip4_checksum = place.len == 4 && offset < place.ports;
        Field { offset, width, mode: Mode::List(values.into()), ip4_checksum }
    };
    let address = |at: usize, ip: fn(&Tuple) -> IpAddr| match place.len {
        4 => vec![list(at, 4, &|t| bits(ip(t)) as u64)],
        _ => vec![list(at, 8, &|t| (bits(ip(t)) >> 64) as u64), list(at + 8, 8, &|t| bits(ip(t)) as u64)],
    };
    let mut fields = address(place.addresses, |t| t.source);
    fields.extend(address(place.addresses + place.len, |t| t.destination));
    fields.push(list(place.ports, 2, &|t| t.source_port.into()));
    fields.push(list(place.ports + 2, 2, &|t| t.destination_port.into()));
    Some(Template { fields, ..template.clone() })
}

fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use drivers::pktgen::{Maker, Stream};
    use proptest::prelude::*;
    use wire::Mac;
    use wire::builder::PacketBuilder;

    use super::*;

    fn frame(tuple: Tuple, vlan: bool) -> Vec<u8> {
        let b = match (tuple.source, tuple.destination) {
            (IpAddr::V4(a), IpAddr::V4(b)) => PacketBuilder::ipv4(a, b),
            (IpAddr::V6(a), IpAddr::V6(b)) => PacketBuilder::ipv6(a, b),
            _ => panic!("two families"),
        };
        let b = b.ethernet(Mac([2; 6]), Mac([4; 6]));
        let b = if vlan { b.vlan(7) } else { b };
        b.udp(tuple.source_port, tuple.destination_port).payload(&[0; 18]).build()
    }

    fn any_tuple(v6: bool) -> impl Strategy<Value = Tuple> {
        let ip = move |bits: u128| match v6 {
            true => IpAddr::from(Ipv6Addr::from_bits(bits)),
            false => Ipv4Addr::from_bits(bits as u32).into(),
        };
        (any::<[u128; 2]>(), any::<[u16; 2]>()).prop_map(move |(ips, ports)| Tuple {
            source: ip(ips[0]),
            source_port: ports[0],
            destination: ip(ips[1]),
            destination_port: ports[1],
        })
    }

    proptest! {
        /// Each frame sent equals one built from its four-tuple, including checksums, and parses to that four-tuple.
        #[test]
        fn frames_have_consecutive_tuples(
            (v6, all) in any::<bool>().prop_flat_map(|v6| (Just(v6), prop::collection::vec(any_tuple(v6), 1..20))),
            vlan: bool,
        ) {
            prop_assert_eq!(Tuple::of(&frame(all[0], vlan)), Some(all[0]));
            let template = Template { l4_checksum: true, ..Template::fixed(frame(all[0], vlan)) };
            let template = with(&template, &all).ok_or_else(|| TestCaseError::fail(format!("{v6}")))?;
            let stream = Stream { templates: vec![template], ..Stream::default() };
            let mut maker = Maker::new(&stream).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let mut room = vec![0; buf::layout::DATA_ROOM];
            for tuple in all.iter().chain(&all) {
                let len = maker.make(&mut room);
                prop_assert_eq!(&room[..len], &frame(*tuple, vlan)[..]);
                let mut other = frame(all[0], vlan);
                prop_assert!(tuple.write(&mut other));
                prop_assert_eq!(Tuple::of(&other), Some(*tuple));
            }
        }

        /// Arbitrary bytes must not cause a panic.
        #[test]
        fn any_frame_is_parsed_without_a_panic(mut frame in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(tuple) = Tuple::of(&frame) {
                prop_assert!(tuple.write(&mut frame));
            }
        }
    }

    proptest! {
        // Each case has about a hundred thousand four-tuples.
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn the_requested_number_of_distinct_tuples_is_made(count in 1u32..200_000, seed: u64) {
            let of = Tuple {
                source: Ipv4Addr::new(198, 18, 0, 2).into(),
                source_port: 0,
                destination: Ipv4Addr::new(198, 19, 0, 2).into(),
                destination_port: 0,
            };
            let all = tuples(of, count, seed);
            let different: HashSet<_> = all.iter().collect();
            prop_assert_eq!((all.len(), different.len()), (count as usize, count as usize));
            prop_assert!(all.iter().all(|t| t.source_port >= 1024 && (1..=4).contains(&t.destination_port)));
            // Consecutive four-tuples are rarely neighbors: the order is pseudorandom.
            let rising = all.windows(2).filter(|t| t[0].source_port.wrapping_add(1) == t[1].source_port).count();
            prop_assert!(rising <= 8 + all.len() / 100, "{rising} of {count}");
        }
    }
}
