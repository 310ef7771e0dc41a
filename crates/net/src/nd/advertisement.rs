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
/// The prefixes of one packet: with all else that is usual in it they fit into the smallest MTU, 1,280 bytes.
const AT_ONCE: usize = 32;

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
        let prefixes: Vec<NdOption<'_>> = self.prefixes(networks).into_iter().map(NdOption::Prefix).collect();
        let (first, rest) = prefixes.split_at(prefixes.len().min(AT_ONCE));
        let mut options = vec![NdOption::SourceMac(mac), NdOption::Mtu(mtu.into())];
        options.extend(first);
        let servers: Vec<[u8; 16]> = self.dns.iter().map(Ipv6Addr::octets).collect();
        if !servers.is_empty() {
            // Three times the longest interval (RFC 8106 section 5.1).
            let lifetime = if last { 0 } else { self.interval.longest().saturating_mul(3) };
            options.push(NdOption::DnsServers { lifetime, servers: &servers });
        }
        let more = rest.chunks(AT_ONCE).map(|some| nd::build(from, to, &message, some));
        [nd::build(from, to, &message, &options)].into_iter().chain(more).collect()
    }
}
