//! Large route tables: networks behind the router, with a route for each, and traffic to all of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::build::Ends;
use super::describe::{Family, Field, Flow, How, Kind, Traffic, Vary};

/// Maximum number of networks of a family in a direction: 4 Mi, so that the IPv4 networks of both directions fit below 224.0.0.0.
pub const MOST: u32 = 1 << 22;

/// Returns the first address of a direction's networks. IPv4: /24s from 20.0.0.0, and in the return direction from
/// 132.0.0.0. IPv6: /64s from 2a10::, and in the return direction from 2a11::. Their real owners are unaffected,
/// because the tester is alone with the router (RFC 6815).
fn first(family: Family, reverse: bool) -> IpAddr {
    match (family, reverse) {
        (Family::Ipv4, false) => Ipv4Addr::new(20, 0, 0, 0).into(),
        (Family::Ipv4, true) => Ipv4Addr::new(132, 0, 0, 0).into(),
        (Family::Ipv6, false) => Ipv6Addr::new(0x2a10, 0, 0, 0, 0, 0, 0, 0).into(),
        (Family::Ipv6, true) => Ipv6Addr::new(0x2a11, 0, 0, 0, 0, 0, 0, 0).into(),
    }
}

/// Returns the first `count` networks of `family` at the end of a direction, at most [`MOST`]. `reverse` is true for the return direction.
pub fn networks(family: Family, reverse: bool, count: u32) -> impl Iterator<Item = IpNet> {
    let first = first(family, reverse);
    (0..count.min(MOST)).map(move |n| match first {
        IpAddr::V4(ip) => IpNet::new_assert(Ipv4Addr::from_bits(ip.to_bits() + (n << 8)).into(), 24),
        IpAddr::V6(ip) => {
            IpNet::new_assert(Ipv6Addr::from_bits(ip.to_bits() + (u128::from(n) << 64)).into(), 64)
        }
    })
}

impl Traffic {
    /// Returns the traffic with destinations in the first `count` networks, which frames use in turn, in pseudorandom order. Frames
    /// that have a destination of their own in the description keep it.
    pub fn to_networks(&self, count: u32) -> Traffic {
        let mut spread = self.clone();
        let kinds = spread.flows.iter_mut().flat_map(|flow: &mut Flow| &mut flow.frames);
        kinds.filter(|kind| kind.destination.is_none()).for_each(|kind| spread_out(kind, count));
        spread
    }

    /// Returns the address families of the traffic's frames.
    pub fn families(&self) -> Vec<Family> {
        let kinds = self.flows.iter().flat_map(|flow| &flow.frames).map(|kind| kind.family);
        let mut families = Vec::new();
        kinds.for_each(|family| {
            if !families.contains(&family) {
                families.push(family)
            }
        });
        families
    }
}

impl Traffic {
    /// Returns the networks on the receiving side of a direction. Only frames with addresses from the description count. Each kind of
    /// frame has one network, which contains all its addresses. Each network is listed once.
    pub fn own_networks(&self, reverse: bool) -> Vec<IpNet> {
        let kinds = self.flows.iter().flat_map(|flow| &flow.frames);
        let mut all: Vec<IpNet> = kinds.filter_map(|kind| kind.own_network(reverse)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl Kind {
    /// Returns a network with all addresses to which this kind of frame is sent. If `reverse` is true, returns one with all source
    /// addresses: frames of the return direction are sent there. `None` if the description gives no such address.
    fn own_network(&self, reverse: bool) -> Option<IpNet> {
        let own = if reverse { self.source } else { self.destination }?;
        let varies = |fields: [Field; 2]| self.vary.iter().filter(move |v| fields.contains(&v.field));
        let most = varies([Field::Destination, Field::DestinationNetwork]).map(|v| v.max).max().unwrap_or(0);
        let wide = |len: u8, differ: u32| len.saturating_sub(u8::try_from(differ).unwrap_or(len));
        let net = match own {
            IpAddr::V4(ip) => {
                let last = u64::from(ip.to_bits()).saturating_add(most).min(u32::MAX.into()) as u32;
                IpNet::new(own, wide(32, 32 - (ip.to_bits() ^ last).leading_zeros()))
            }
            // Either half of an IPv6 address may vary; a route to the enclosing network covers both cases.
            IpAddr::V6(ip) => {
                let upper = (ip.to_bits() >> 64) as u64;
                let network = varies([Field::DestinationNetwork; 2]).map(|v| v.max).max();
                let differ =
                    network.map_or(0, |max| 64 - (upper ^ upper.saturating_add(max)).leading_zeros());
                IpNet::new(own, wide(if most == 0 { 128 } else { 64 }, differ))
            }
        };
        net.ok().map(|net| net.trunc())
    }
}

fn spread_out(kind: &mut Kind, count: u32) {
    let (field, bits) = match kind.family {
        Family::Ipv4 => (Field::Destination, 8),
        Family::Ipv6 => (Field::DestinationNetwork, 0),
    };
    kind.vary.retain(|vary| !matches!(vary.field, Field::Destination | Field::DestinationNetwork));
    let max = u64::from(count.clamp(1, MOST) - 1) << bits;
    kind.vary.push(Vary { field, how: How::Permutation, min: 0, max, step: 1 << bits });
}

impl Ends {
    /// Returns these ends with a new destination: host 2 of the first network of the direction.
    pub fn to_networks(mut self, reverse: bool) -> Ends {
        if let (IpAddr::V4(v4), IpAddr::V6(v6)) = (first(Family::Ipv4, reverse), first(Family::Ipv6, reverse))
        {
            self.ipv4.1 = Ipv4Addr::from_bits(v4.to_bits() + 2);
            self.ipv6.1 = Ipv6Addr::from_bits(v6.to_bits() + 2);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use drivers::pktgen::{Maker, Stream};
    use proptest::prelude::*;
    use wire::Mac;

    use super::*;
    use crate::traffic::builtin;

    #[test]
    fn own_addresses_get_their_own_networks() {
        let said = |traffic: &Traffic, reverse| {
            traffic.own_networks(reverse).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let thesis = builtin("slavik-2025", 64).expect("built in");
        assert_eq!(said(&thesis, false), ["48.0.0.1/32"]);
        assert_eq!(said(&thesis, true), ["10.0.0.1/32", "16.0.0.1/32"]);
        assert!(said(&builtin("rfc2544-256", 64).expect("built in"), false).is_empty());
        let mut own = builtin("rfc5180-256", 84).expect("built in");
        own.flows[0].frames[0].destination = "2001:db8:0:7::9".parse().ok();
        assert_eq!(said(&own, false), ["2001:db8::/55"]);
        let mut own = builtin("rfc2544-256", 64).expect("built in");
        own.flows[0].frames[0].destination = "192.0.2.9".parse().ok();
        assert_eq!(said(&own, false), ["192.0.0.0/15"]);
    }

    #[test]
    fn networks_contain_no_groups_and_do_not_overlap() {
        let last = |reverse| networks(Family::Ipv4, reverse, MOST).last().expect("networks");
        assert_eq!(last(false).to_string(), "83.255.255.0/24");
        assert_eq!(last(true).to_string(), "195.255.255.0/24");
        assert_eq!(networks(Family::Ipv6, true, 2).last().expect("two").to_string(), "2a11:0:0:1::/64");
    }

    proptest! {
        /// Each frame goes to one of the networks, and the first `count` frames reach each network exactly once.
        #[test]
        fn each_network_is_sent_to_once(count in 1u32..300, v6: bool, reverse: bool) {
            let (name, size, at, family) =
                if v6 { ("rfc5180-256", 84, 38, Family::Ipv6) } else { ("rfc2544", 64, 30, Family::Ipv4) };
            let macs = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
            let ends = Ends::rfc(macs.0, macs.1, reverse).to_networks(reverse);
            let flows = builtin(name, size).unwrap().to_networks(count).flows(&ends).unwrap();
            let stream = Stream { templates: flows[0].templates.clone(), ..Stream::default() };
            let mut maker = Maker::new(&stream).unwrap();
            let mut frame = vec![0; buf::layout::DATA_ROOM];
            let mut left: Vec<IpNet> = networks(family, reverse, count).collect();
            for _ in 0..count {
                maker.make(&mut frame);
                let to = match family {
                    Family::Ipv4 => IpAddr::from(<[u8; 4]>::try_from(&frame[at..at + 4]).unwrap()),
                    Family::Ipv6 => IpAddr::from(<[u8; 16]>::try_from(&frame[at..at + 16]).unwrap()),
                };
                let found = left.iter().position(|net| net.contains(&to));
                prop_assert!(found.is_some(), "{to}");
                left.swap_remove(found.unwrap());
            }
        }
    }
}
