//! What the router says of itself and of a link (RFC 4861 section 6.2.1).

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv6Addr;

use wire::nd::{Message, NdOption, Preference, PrefixInformation, RouterAdvertisement};
use wire::{Mac, ipv6, nd};

use super::advertiser::Interval;
use crate::ip::Prefix6;

/// The hop limit that hosts are told to use (CurHopLimit; the assigned default).
const HOP_LIMIT: u8 = 64;
/// How long addresses made of a prefix are valid and preferred, in seconds (AdvValidLifetime, AdvPreferredLifetime).
const VALID: u32 = 30 * 24 * 3600;
const PREFERRED: u32 = 7 * 24 * 3600;
/// Only networks of this length are made addresses of (RFC 4862 section 5.5.3 with RFC 2464).
const AUTONOMOUS: u8 = 64;
/// Link-local addresses have ten bits in common (RFC 4291 section 2.5.6), groups eight (section 2.7).
const LINK_LOCAL: u8 = 10;
const GROUPS: u128 = 0xff << 120;
/// Bytes for the options of one packet, which every link carries: beside the header of IPv6 and the fixed part (RFC 4861 section 4.2).
const ROOM: usize = ipv6::MIN_MTU as usize - 40 - 16;

/// What hosts are told of a prefix (RFC 4861 sections 4.6.2 and 6.2.1, AdvPrefixList).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixAdvice {
    /// Whether they are told of it at all.
    pub advertised: bool,
    /// Its addresses are on the link (AdvOnLinkFlag).
    pub on_link: bool,
    /// They may make addresses of it, if it is of 64 bits (AdvAutonomousFlag).
    pub autonomous: bool,
    /// How long it is on the link, and how long addresses made of it are valid, in seconds.
    pub valid: u32,
    /// How long new connections begin from these addresses, in seconds.
    pub preferred: u32,
}

impl PrefixAdvice {
    /// The lifetime that never ends (RFC 4861 section 4.6.2).
    pub const INFINITE: u32 = u32::MAX;
}

impl Default for PrefixAdvice {
    fn default() -> Self {
        PrefixAdvice { advertised: true, on_link: true, autonomous: true, valid: VALID, preferred: PREFERRED }
    }
}

/// Why hosts cannot be told this of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAdvice {
    /// It has no bits.
    NoPrefix,
    /// Every link has it, with or without a router.
    LinkLocal,
    /// It is that of groups.
    Multicast,
    /// Addresses would be preferred for longer than they are valid.
    Lifetimes,
}

impl fmt::Display for BadAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadAdvice::NoPrefix => "hosts are told of prefixes with a length of 1 to 128 bits",
            BadAdvice::LinkLocal => {
                "hosts know that link-local addresses are on the link: there is nothing to tell"
            }
            BadAdvice::Multicast => "a multicast prefix is on no link",
            BadAdvice::Lifetimes => {
                "addresses cannot be preferred for longer than they are valid (RFC 4861 section 6.2.1)"
            }
        })
    }
}

impl std::error::Error for BadAdvice {}

/// What the operator wants said on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// How often.
    pub interval: Interval,
    /// How long the router is a default router, in seconds; 0: it is none (AdvDefaultLifetime).
    pub lifetime: u16,
    /// Addresses are to be had by DHCPv6.
    pub managed: bool,
    /// Other things are to be had by DHCPv6.
    pub other: bool,
    /// Whether hosts should prefer it to other routers (RFC 4191).
    pub preference: Preference,
    /// DNS servers (RFC 8106).
    pub dns: Vec<Ipv6Addr>,
    /// What is said of prefixes: of networks of the interface if it is not what is usual, and of others.
    pub prefixes: BTreeMap<Prefix6, PrefixAdvice>,
}

impl Default for Advertisement {
    fn default() -> Self {
        Advertisement {
            interval: Interval::default(),
            lifetime: 1800,
            managed: false,
            other: false,
            preference: Preference::Medium,
            dns: Vec::new(),
            prefixes: BTreeMap::new(),
        }
    }
}

impl Advertisement {
    /// Whether hosts can be told this of a prefix.
    ///
    /// # Errors
    /// Why not.
    pub fn check(prefix: Prefix6, advice: &PrefixAdvice) -> Result<(), BadAdvice> {
        // A shorter prefix may have them within it.
        let has = |bits: u128, len| {
            let other = Prefix6::new(Ipv6Addr::from_bits(bits), len);
            prefix.covers(other) || other.covers(prefix)
        };
        match prefix.len() {
            0 => Err(BadAdvice::NoPrefix),
            _ if has(ipv6::LINK_LOCAL_NETWORK, LINK_LOCAL) => Err(BadAdvice::LinkLocal),
            _ if has(GROUPS, 8) => Err(BadAdvice::Multicast),
            _ if advice.preferred > advice.valid => Err(BadAdvice::Lifetimes),
            _ => Ok(()),
        }
    }

    /// What is said of prefixes on a link with these networks.
    pub fn prefixes(&self, networks: impl IntoIterator<Item = Prefix6>) -> Vec<PrefixInformation> {
        let usual = networks.into_iter().map(|network| (network, PrefixAdvice::default()));
        let mut all: BTreeMap<Prefix6, PrefixAdvice> = usual.collect();
        all.extend(&self.prefixes);
        let told = all.into_iter().filter(|(_, advice)| advice.advertised);
        let information = told.map(|(prefix, advice)| PrefixInformation {
            prefix: prefix.address(),
            len: prefix.len(),
            on_link: advice.on_link,
            autonomous: advice.autonomous && prefix.len() == AUTONOMOUS,
            valid: advice.valid,
            preferred: advice.preferred,
        });
        information.collect()
    }

    /// The packets from the link-local address `from` to `to`, about a link with these networks and this MTU; `last`: that the
    /// router is none any more (section 6.2.5). There is more than one if there is more to say than one holds (section 6.2.3).
    pub fn packets(
        &self,
        (from, to): (Ipv6Addr, Ipv6Addr),
        mac: Mac,
        mtu: u16,
        networks: impl IntoIterator<Item = Prefix6>,
        last: bool,
    ) -> Vec<Vec<u8>> {
        let message = Message::RouterAdvertisement(RouterAdvertisement {
            hop_limit: HOP_LIMIT,
            managed: self.managed,
            other: self.other,
            preference: self.preference,
            lifetime: if last { 0 } else { self.lifetime },
            reachable: 0,
            retransmit: 0,
        });
        let servers: Vec<[u8; 16]> = self.dns.iter().map(Ipv6Addr::octets).collect();
        // Three times the longest interval (RFC 8106 section 5.1).
        let lifetime = if last { 0 } else { self.interval.longest().saturating_mul(3) };
        let mut shares = Shares { full: Vec::new(), filling: Vec::new(), room: ROOM };
        shares.add(NdOption::SourceMac(mac), 8);
        shares.add(NdOption::Mtu(mtu.into()), 8);
        self.prefixes(networks).into_iter().for_each(|p| shares.add(NdOption::Prefix(p), 32));
        let mut left = &servers[..];
        while !left.is_empty() {
            // As many as there is room for, or as one packet has.
            let room = if shares.room < 8 + 16 { ROOM } else { shares.room };
            let (some, others) = left.split_at(left.len().min((room - 8) / 16));
            shares.add(NdOption::DnsServers { lifetime, servers: some }, 8 + 16 * some.len());
            left = others;
        }
        let all = shares.full.into_iter().chain([shares.filling]);
        all.map(|options| nd::build(from, to, &message, &options)).collect()
    }
}

/// Options, shared out between packets.
struct Shares<'o> {
    full: Vec<Vec<NdOption<'o>>>,
    filling: Vec<NdOption<'o>>,
    /// Bytes that are left in the last packet.
    room: usize,
}

impl<'o> Shares<'o> {
    /// One more, of so many bytes.
    fn add(&mut self, option: NdOption<'o>, bytes: usize) {
        if bytes > self.room {
            self.full.push(std::mem::take(&mut self.filling));
            self.room = ROOM;
        }
        self.filling.push(option);
        self.room = self.room.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::Ipv6Header;

    use super::*;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    proptest! {
        /// However much is to be said, it is all said once, in packets that every link carries.
        #[test]
        fn rfc4861_6_2_3_options_are_shared_out_between_packets(prefixes in 0u128..200, dns in 0u128..300, last: bool) {
            let address = |n: u128| Ipv6Addr::from_bits(0x2001_0db8 << 96 | n << 64);
            let networks: Vec<Prefix6> = (0..prefixes).map(|n| Prefix6::new(address(n), 64)).collect();
            let says = Advertisement { dns: (0..dns).map(address).collect(), managed: true, ..Advertisement::default() };
            let (from, to) = (Ipv6Addr::from_bits(0xfe80 << 112 | 1), Ipv6Addr::from_bits(ipv6::ALL_NODES));
            let packets = says.packets((from, to), MAC, 9000, networks.iter().copied(), last);
            let (mut told, mut servers, mut rest) = (Vec::new(), Vec::new(), Vec::new());
            for packet in &packets {
                prop_assert!(packet.len() <= usize::from(ipv6::MIN_MTU), "{}", packet.len());
                let (ip, icmp) = Ipv6Header::split(packet).unwrap();
                let (message, options) = nd::parse(ip, icmp).unwrap();
                // What is said of the router, each of them says.
                let Message::RouterAdvertisement(ra) = message else { panic!("{message:?}") };
                prop_assert_eq!((ra.lifetime, ra.managed), (if last { 0 } else { 1800 }, true));
                for option in options {
                    match option {
                        NdOption::Prefix(p) => told.push(Prefix6::new(p.prefix, p.len)),
                        NdOption::DnsServers { servers: some, .. } => servers.extend(some.iter().copied().map(Ipv6Addr::from)),
                        NdOption::SourceMac(_) => rest.push("mac"),
                        NdOption::Mtu(9000) => rest.push("mtu"),
                        other => panic!("{other:?}"),
                    }
                }
            }
            prop_assert_eq!(told, networks);
            prop_assert_eq!(servers, says.dns);
            prop_assert_eq!(rest, ["mac", "mtu"]);
            // No more of them than it takes.
            let bytes = 16 + 32 * prefixes as usize + 16 * dns as usize + if dns > 0 { 8 } else { 0 };
            prop_assert!(packets.len() <= bytes.div_ceil(ROOM - 40).max(1), "{} for {bytes} bytes", packets.len());
        }
    }
}
