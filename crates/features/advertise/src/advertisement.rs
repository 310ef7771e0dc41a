//! The router advertisements for one link (RFC 4861 section 6.2.1).

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv6Addr;

use net::ip::Prefix6;
use wire::nd::{Message, NdOption, Preference, PrefixInformation, RouterAdvertisement};
use wire::{Mac, ipv6, nd};

use crate::advertiser::Interval;

/// The word for an infinite lifetime.
pub(crate) const INFINITE: &str = "infinite";
/// The default of the advertised hop limit (CurHopLimit), as assigned by IANA.
pub(crate) const HOP_LIMIT: u8 = 64;
/// Default valid lifetime of addresses formed from a prefix, in seconds (AdvValidLifetime).
const VALID: u32 = 30 * 24 * 3600;
/// Default preferred lifetime of addresses formed from a prefix, in seconds (AdvPreferredLifetime).
const PREFERRED: u32 = 7 * 24 * 3600;
/// Hosts only form addresses from prefixes of this length (RFC 4862 section 5.5.3 with RFC 2464).
const AUTONOMOUS: u8 = 64;
/// Prefix length of link-local addresses (RFC 4291 section 2.5.6).
const LINK_LOCAL: u8 = 10;
/// Prefix of multicast addresses (RFC 4291 section 2.7).
const GROUPS: u128 = 0xff << 120;
/// Bytes for the options of one packet: the minimum MTU without the IPv6 header and the fixed part (RFC 4861
/// section 4.2).
const ROOM: usize = ipv6::MIN_MTU as usize - 40 - 16;

/// Advertisement settings of a prefix (RFC 4861 sections 4.6.2 and 6.2.1, AdvPrefixList).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixAdvice {
    /// True if the prefix is advertised.
    pub advertised: bool,
    /// True if addresses of the prefix are on the link (AdvOnLinkFlag).
    pub on_link: bool,
    /// True if hosts may form addresses from the prefix; requires a length of 64 (AdvAutonomousFlag).
    pub autonomous: bool,
    /// Seconds for which the prefix is on the link, and for which addresses formed from the prefix are valid.
    pub valid: u32,
    /// Seconds for which addresses formed from the prefix are preferred for new connections.
    pub preferred: u32,
}

impl PrefixAdvice {
    /// The infinite lifetime (RFC 4861 section 4.6.2).
    pub const INFINITE: u32 = u32::MAX;
}

impl Default for PrefixAdvice {
    fn default() -> Self {
        PrefixAdvice { advertised: true, on_link: true, autonomous: true, valid: VALID, preferred: PREFERRED }
    }
}

/// Why a prefix cannot be advertised with these settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAdvice {
    /// The prefix has length 0.
    NoPrefix,
    /// The prefix overlaps the link-local prefix, which is on every link, with or without a router.
    LinkLocal,
    /// The prefix overlaps the multicast prefix.
    Multicast,
    /// The preferred lifetime is longer than the valid lifetime.
    Lifetimes,
}

impl fmt::Display for BadAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadAdvice::NoPrefix => "the length of an advertised prefix must be 1 to 128",
            BadAdvice::LinkLocal => "the link-local prefix is on every link and is never advertised",
            BadAdvice::Multicast => "a multicast prefix cannot be advertised",
            BadAdvice::Lifetimes => {
                "the preferred lifetime must not be longer than the valid lifetime (RFC 4861 section 6.2.1)"
            }
        })
    }
}

impl std::error::Error for BadAdvice {}

/// The configured router advertisement of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// Time between advertisements.
    pub interval: Interval,
    /// Seconds for which hosts may use the router as a default router; 0: it is not a default router
    /// (AdvDefaultLifetime).
    pub lifetime: u16,
    /// The managed flag: hosts can get addresses by DHCPv6.
    pub managed: bool,
    /// The other flag: hosts can get other settings by DHCPv6.
    pub other: bool,
    /// The router's preference among the default routers of a link (RFC 4191).
    pub preference: Preference,
    /// DNS servers (RFC 8106).
    pub dns: Vec<Ipv6Addr>,
    /// Settings of prefixes. Connected networks without settings here are advertised with the defaults;
    /// prefixes that are not connected networks can be advertised too.
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
    /// Checks that a prefix can be advertised with these settings.
    ///
    /// # Errors
    /// The reason why the prefix cannot be advertised.
    pub fn check(prefix: Prefix6, advice: &PrefixAdvice) -> Result<(), BadAdvice> {
        // A prefix that contains one of these networks is not allowed either.
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

    /// Returns the prefix information options for a link with these connected networks.
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

    /// Returns the IPv6 packets of an advertisement from `from`, a link-local address, to `to`; there are
    /// several if the options do not fit into one (section 6.2.3). `mac`, `mtu` and `networks` are those of
    /// the interface. If `last`, the router is advertised with lifetime 0: it is no longer a default router
    /// (section 6.2.5).
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
            // As many servers as fit into the rest of this packet. If not even one fits, as many as fit into a new packet.
            let room = if shares.room < 8 + 16 { ROOM } else { shares.room };
            let (some, others) = left.split_at(left.len().min((room - 8) / 16));
            shares.add(NdOption::DnsServers { lifetime, servers: some }, 8 + 16 * some.len());
            left = others;
        }
        let all = shares.full.into_iter().chain([shares.filling]);
        all.map(|options| nd::build(from, to, &message, &options)).collect()
    }
}

/// The operator's settings for the router advertisements of an interface, and whether these advertisements are suppressed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advice {
    /// The contents of the router advertisements; `None` if the operator has configured no advertisements.
    pub says: Option<Box<Advertisement>>,
    /// True if the interface sends no advertisements, although it keeps their settings. Has no effect without settings.
    pub suppressed: bool,
}

/// The options of one advertisement, divided among packets.
struct Shares<'o> {
    full: Vec<Vec<NdOption<'o>>>,
    filling: Vec<NdOption<'o>>,
    /// Free bytes in the packet that is being filled.
    room: usize,
}

impl<'o> Shares<'o> {
    /// Adds an option with a length of `bytes`. If the current packet has no room for it, starts the next packet with this option.
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
        /// For any number of options, every option is sent exactly once, and no packet is larger than the
        /// minimum MTU.
        #[test]
        fn rfc4861_6_2_3_options_are_split_over_several_packets(prefixes in 0u128..200, dns in 0u128..300, last: bool) {
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
                // Every packet has the router's own parameters.
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
            // No more packets than necessary.
            let bytes = 16 + 32 * prefixes as usize + 16 * dns as usize + if dns > 0 { 8 } else { 0 };
            prop_assert!(packets.len() <= bytes.div_ceil(ROOM - 40).max(1), "{} for {bytes} bytes", packets.len());
        }
    }
}
