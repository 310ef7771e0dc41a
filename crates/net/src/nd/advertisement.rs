//! What the router says of itself and of a link (RFC 4861 section 6.2.1).

use std::net::Ipv6Addr;

use wire::nd::{Message, NdOption, Preference, PrefixInformation, RouterAdvertisement};
use wire::{Mac, nd};

use super::advertiser::Interval;
use crate::ip::Prefix6;

/// The hop limit that hosts are told to use (CurHopLimit; the assigned default).
const HOP_LIMIT: u8 = 64;
/// How long addresses made of a prefix are valid and preferred, in seconds (AdvValidLifetime, AdvPreferredLifetime).
const VALID: u32 = 30 * 24 * 3600;
const PREFERRED: u32 = 7 * 24 * 3600;
/// Only networks of this length are made addresses of (RFC 4862 section 5.5.3 with RFC 2464).
const AUTONOMOUS: u8 = 64;

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
        }
    }
}

impl Advertisement {
    /// The packet from the link-local address `from` to `to`, about a link with these networks and this MTU; `last`: that the
    /// router is none any more (section 6.2.5).
    pub fn packet(
        &self,
        (from, to): (Ipv6Addr, Ipv6Addr),
        mac: Mac,
        mtu: u16,
        networks: &[Prefix6],
        last: bool,
    ) -> Vec<u8> {
        let message = Message::RouterAdvertisement(RouterAdvertisement {
            hop_limit: HOP_LIMIT,
            managed: self.managed,
            other: self.other,
            preference: self.preference,
            lifetime: if last { 0 } else { self.lifetime },
            reachable: 0,
            retransmit: 0,
        });
        let mut options = vec![NdOption::SourceMac(mac), NdOption::Mtu(mtu.into())];
        options.extend(networks.iter().map(|n| {
            NdOption::Prefix(PrefixInformation {
                prefix: n.address(),
                len: n.len(),
                on_link: true,
                autonomous: n.len() == AUTONOMOUS,
                valid: VALID,
                preferred: PREFERRED,
            })
        }));
        let servers: Vec<[u8; 16]> = self.dns.iter().map(Ipv6Addr::octets).collect();
        if !servers.is_empty() {
            // Three times the longest interval (RFC 8106 section 5.1).
            let lifetime = if last { 0 } else { self.interval.longest().saturating_mul(3) };
            options.push(NdOption::DnsServers { lifetime, servers: &servers });
        }
        nd::build(from, to, &message, &options)
    }
}
