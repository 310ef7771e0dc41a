//! Neighbor Discovery (RFC 4861): parsing and building its messages and their options (also RFC 4191 and RFC
//! 8106).
//!
//! [`parse`] makes all checks that a receiver can make on a single message. [`build`] returns a whole packet.

use std::fmt;
use std::net::Ipv6Addr;

use crate::icmpv6::{Icmpv6Header, MAX_ERROR_LEN, kind};
use crate::ipv4::protocol;
use crate::ipv6::{self, Ipv6Header};
use crate::mac::Mac;

/// Hop limit of every message: this value proves that no router has forwarded the packet.
pub const HOP_LIMIT: u8 = 255;
/// Bytes of a redirected header option before the quoted packet.
const QUOTE_AT: usize = 8;

/// Types of options.
mod option {
    pub const SOURCE: u8 = 1;
    pub const TARGET: u8 = 2;
    pub const PREFIX: u8 = 3;
    pub const REDIRECTED: u8 = 4;
    pub const MTU: u8 = 5;
    pub const RDNSS: u8 = 25;
}

/// A message without its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The sender asks which routers are on the link (section 4.1).
    RouterSolicitation,
    /// A router advertises itself (section 4.2).
    RouterAdvertisement(RouterAdvertisement),
    /// The sender asks which node has the target (section 4.3).
    NeighborSolicitation {
        /// The solicited address.
        target: Ipv6Addr,
    },
    /// The sender has the target (section 4.4).
    NeighborAdvertisement {
        /// The sender's address.
        target: Ipv6Addr,
        /// Router flag: the sender is a router.
        router: bool,
        /// Solicited flag: the advertisement answers a solicitation.
        solicited: bool,
        /// Override flag: the advertised Ethernet address replaces an earlier one.
        overrides: bool,
    },
    /// The target is a better first hop (section 4.5).
    Redirect {
        /// The first hop, or the destination itself if that is on the link.
        target: Ipv6Addr,
        /// The destination whose packets the redirect is about.
        destination: Ipv6Addr,
    },
}

/// The parameters of a router and of its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAdvertisement {
    /// Hop limit for hosts; 0: unspecified.
    pub hop_limit: u8,
    /// Addresses are available by DHCPv6 (managed flag).
    pub managed: bool,
    /// Other settings are available by DHCPv6 (other flag).
    pub other: bool,
    /// Preference over other routers (RFC 4191).
    pub preference: Preference,
    /// Lifetime as a default router in seconds; 0: the sender is no default router.
    pub lifetime: u16,
    /// Time for which a neighbor counts as reachable after its reachability was confirmed, in milliseconds; 0: unspecified.
    pub reachable: u32,
    /// Time between two solicitations in milliseconds; 0: unspecified.
    pub retransmit: u32,
}

/// Preference of a router (RFC 4191 section 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// Lower than others.
    Low,
    /// Medium, the default. The reserved value 2 in a packet is read as medium.
    #[default]
    Medium,
    /// Higher than others.
    High,
}

/// An option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdOption<'a> {
    /// The Ethernet address of the sender.
    SourceMac(Mac),
    /// The Ethernet address of the target.
    TargetMac(Mac),
    /// A network and its flags and lifetimes.
    Prefix(PrefixInformation),
    /// The front of the redirected packet, its length a multiple of 8 bytes.
    Redirected(&'a [u8]),
    /// The MTU of the link, in bytes.
    Mtu(u32),
    /// DNS servers (RFC 8106 section 5.1).
    DnsServers {
        /// Lifetime in seconds; `u32::MAX`: infinite, 0: withdrawn.
        lifetime: u32,
        /// Addresses of the servers, as bytes.
        servers: &'a [[u8; 16]],
    },
}

/// A network that a router advertises (RFC 4861 section 4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInformation {
    /// First address of the network.
    pub prefix: Ipv6Addr,
    /// Length of the prefix in bits.
    pub len: u8,
    /// True if the network's addresses are on this link.
    pub on_link: bool,
    /// Hosts may form addresses from the prefix.
    pub autonomous: bool,
    /// Seconds for which the network is on the link, and for which an address formed from it is valid; `u32::MAX`:
    /// infinite.
    pub valid: u32,
    /// Seconds for which an address formed from the network is preferred; `u32::MAX`: infinite.
    pub preferred: u32,
}

/// The reason why a packet is not a valid message (RFC 4861 sections 6.1, 7.1 and 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdError {
    /// The message has none of the five types of [`Message`].
    Kind,
    /// The hop limit is not 255: a router has forwarded the packet.
    HopLimit,
    /// The checksum is wrong.
    Checksum,
    /// The code is not 0.
    Code,
    /// The message is shorter than its type requires.
    Short,
    /// An option has length 0 or does not end within the message.
    OptionLength,
    /// An option contains an address that is not a unicast Ethernet address.
    LinkLayerAddress,
    /// The source of a router advertisement or redirect is not link-local.
    Source,
    /// The target of a neighbor solicitation or advertisement, or the destination of a redirect, is multicast; or the target of a redirect
    /// is neither link-local nor the destination.
    Target,
    /// A neighbor solicitation from `::` is not sent to a solicited-node group.
    Destination,
    /// A router or neighbor solicitation from `::` has a source link-layer address.
    SourceMac,
    /// A multicast advertisement has the solicited flag.
    Solicited,
}

impl fmt::Display for NdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NdError::Kind => "not a Neighbor Discovery message",
            NdError::HopLimit => "hop limit is not 255",
            NdError::Checksum => "checksum is wrong",
            NdError::Code => "code is not 0",
            NdError::Short => "message is too short",
            NdError::OptionLength => "option has an invalid length",
            NdError::LinkLayerAddress => "link-layer address is not unicast",
            NdError::Source => "source is not link-local",
            NdError::Target => "target address is invalid",
            NdError::Destination => "solicitation from :: is not sent to a solicited-node group",
            NdError::SourceMac => "solicitation from :: has a source link-layer address",
            NdError::Solicited => "multicast advertisement has the solicited flag",
        })
    }
}

impl std::error::Error for NdError {}

/// Iterates over the options of a message. Unknown and malformed options are skipped.
#[derive(Clone, Debug)]
pub struct NdOptions<'a> {
    rest: &'a [u8],
}

impl NdOptions<'_> {
    /// The sender's Ethernet address, if there is one.
    pub fn source_mac(&self) -> Option<Mac> {
        self.clone().find_map(|o| if let NdOption::SourceMac(mac) = o { Some(mac) } else { None })
    }

    /// The target's Ethernet address, if there is one.
    pub fn target_mac(&self) -> Option<Mac> {
        self.clone().find_map(|o| if let NdOption::TargetMac(mac) = o { Some(mac) } else { None })
    }
}

impl<'a> Iterator for NdOptions<'a> {
    type Item = NdOption<'a>;

    fn next(&mut self) -> Option<NdOption<'a>> {
        loop {
            let (bytes, rest) = split_option(self.rest)?;
            self.rest = rest;
            if let Some(option) = read_option(bytes) {
                return Some(option);
            }
        }
    }
}

/// Returns the first option and the bytes after it, if the option is complete.
fn split_option(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = usize::from(*bytes.get(1)?) * 8;
    bytes.split_at_checked(len).filter(|_| len > 0)
}

/// Parses an option, if it is known and well-formed.
fn read_option(bytes: &[u8]) -> Option<NdOption<'_>> {
    Some(match *bytes {
        [option::SOURCE, 1, ref mac @ ..] => NdOption::SourceMac(Mac(*mac.first_chunk()?)),
        [option::TARGET, 1, ref mac @ ..] => NdOption::TargetMac(Mac(*mac.first_chunk()?)),
        [option::PREFIX, 4, len, flags, ref rest @ ..] => NdOption::Prefix(PrefixInformation {
            prefix: address_at(rest, 12)?,
            len: (len <= 128).then_some(len)?,
            on_link: flags & 0x80 != 0,
            autonomous: flags & 0x40 != 0,
            valid: word_at(rest, 0)?,
            preferred: word_at(rest, 4)?,
        }),
        [option::REDIRECTED, _, _, _, _, _, _, _, ref quote @ ..] => NdOption::Redirected(quote),
        [option::MTU, 1, _, _, ref mtu @ ..] => NdOption::Mtu(word_at(mtu, 0)?),
        [option::RDNSS, _, _, _, ref rest @ ..] => {
            let (servers, []) = rest.get(4..)?.as_chunks::<16>() else { return None };
            NdOption::DnsServers { lifetime: word_at(rest, 0)?, servers }
        }
        _ => return None,
    })
}

fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_be_bytes(*b))
}

fn address_at(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    bytes.get(at..)?.first_chunk::<16>().map(|b| Ipv6Addr::from(*b))
}

/// Parses the complete ICMPv6 message `icmp`, received in a packet with the header `ip`.
///
/// # Errors
/// The reason why the message must be silently discarded, see [`NdError`].
pub fn parse<'a>(ip: &Ipv6Header, icmp: &'a [u8]) -> Result<(Message, NdOptions<'a>), NdError> {
    let (header, body) = Icmpv6Header::split(icmp).ok_or(NdError::Short)?;
    let fixed = match header.kind() {
        kind::ROUTER_SOLICITATION => 0,
        kind::ROUTER_ADVERTISEMENT => 8,
        kind::NEIGHBOR_SOLICITATION | kind::NEIGHBOR_ADVERTISEMENT => 16,
        kind::REDIRECT => 32,
        _ => return Err(NdError::Kind),
    };
    if ip.hop_limit() != HOP_LIMIT {
        return Err(NdError::HopLimit);
    }
    if !header.checksum_ok(ip, body) {
        return Err(NdError::Checksum);
    }
    if header.code() != 0 {
        return Err(NdError::Code);
    }
    let (fixed, rest) = body.split_at_checked(fixed).ok_or(NdError::Short)?;
    check_options(rest)?;
    let (message, options) = (read(header, fixed).ok_or(NdError::Short)?, NdOptions { rest });
    check(ip, &message, &options)?;
    Ok((message, options))
}

/// Checks that all options end within the message, and that Ethernet addresses are complete and unicast.
fn check_options(mut rest: &[u8]) -> Result<(), NdError> {
    while !rest.is_empty() {
        let (option, behind) = split_option(rest).ok_or(NdError::OptionLength)?;
        if matches!(option[0], option::SOURCE | option::TARGET) {
            match read_option(option) {
                Some(NdOption::SourceMac(mac) | NdOption::TargetMac(mac)) if mac.is_unicast() => {}
                _ => return Err(NdError::LinkLayerAddress),
            }
        }
        rest = behind;
    }
    Ok(())
}

/// Parses the fields of a message; `fixed` is the fixed part after the header.
fn read(header: &Icmpv6Header, fixed: &[u8]) -> Option<Message> {
    let (rest, target) = (header.rest(), address_at(fixed, 0));
    Some(match header.kind() {
        kind::ROUTER_SOLICITATION => Message::RouterSolicitation,
        kind::ROUTER_ADVERTISEMENT => {
            let [hop_limit, flags, a, b] = rest.to_be_bytes();
            Message::RouterAdvertisement(RouterAdvertisement {
                hop_limit,
                managed: flags & 0x80 != 0,
                other: flags & 0x40 != 0,
                preference: match flags >> 3 & 3 {
                    1 => Preference::High,
                    3 => Preference::Low,
                    _ => Preference::Medium,
                },
                lifetime: u16::from_be_bytes([a, b]),
                reachable: word_at(fixed, 0)?,
                retransmit: word_at(fixed, 4)?,
            })
        }
        kind::NEIGHBOR_SOLICITATION => Message::NeighborSolicitation { target: target? },
        kind::NEIGHBOR_ADVERTISEMENT => Message::NeighborAdvertisement {
            target: target?,
            router: rest & ROUTER != 0,
            solicited: rest & SOLICITED != 0,
            overrides: rest & OVERRIDE != 0,
        },
        _ => Message::Redirect { target: target?, destination: address_at(fixed, 16)? },
    })
}

/// The router flag of a neighbor advertisement, in the second word of the header.
const ROUTER: u32 = 1 << 31;
/// The solicited flag of a neighbor advertisement, in the second word of the header.
const SOLICITED: u32 = 1 << 30;
/// The override flag of a neighbor advertisement, in the second word of the header.
const OVERRIDE: u32 = 1 << 29;

/// Checks that the addresses in the packet are valid for `message`.
fn check(ip: &Ipv6Header, message: &Message, options: &NdOptions<'_>) -> Result<(), NdError> {
    let from_nobody = ipv6::is_unspecified(ip.src_u128());
    let to_group = ipv6::is_multicast(ip.dst_u128());
    let from_router = ipv6::is_link_local(ip.src_u128());
    let is_group = |a: Ipv6Addr| ipv6::is_multicast(a.to_bits());
    match *message {
        Message::RouterSolicitation | Message::NeighborSolicitation { .. }
            if from_nobody && options.source_mac().is_some() =>
        {
            Err(NdError::SourceMac)
        }
        Message::RouterAdvertisement(_) | Message::Redirect { .. } if !from_router => Err(NdError::Source),
        Message::NeighborSolicitation { target } | Message::NeighborAdvertisement { target, .. }
            if is_group(target) =>
        {
            Err(NdError::Target)
        }
        Message::NeighborSolicitation { .. } if from_nobody && !ipv6::is_solicited_node(ip.dst_u128()) => {
            Err(NdError::Destination)
        }
        Message::NeighborAdvertisement { solicited: true, .. } if to_group => Err(NdError::Solicited),
        Message::Redirect { target, destination }
            if is_group(destination) || (target != destination && !ipv6::is_link_local(target.to_bits())) =>
        {
            Err(NdError::Target)
        }
        _ => Ok(()),
    }
}

/// Returns a whole packet from `src` to `dst` with this message and these options. A [`Redirected`](NdOption::Redirected) quote is cut to a
/// multiple of 8 bytes. It is also cut so that it ends within the first 1,280 bytes of the packet. At most 127 DNS servers are included.
/// Everything else is used as given.
pub fn build(src: Ipv6Addr, dst: Ipv6Addr, message: &Message, options: &[NdOption<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    let (kind, rest) = match *message {
        Message::RouterSolicitation => (kind::ROUTER_SOLICITATION, 0),
        Message::RouterAdvertisement(ra) => {
            let preference = match ra.preference {
                Preference::Low => 3,
                Preference::Medium => 0,
                Preference::High => 1,
            };
            let flags = u8::from(ra.managed) << 7 | u8::from(ra.other) << 6 | preference << 3;
            let [a, b] = ra.lifetime.to_be_bytes();
            body.extend(ra.reachable.to_be_bytes());
            body.extend(ra.retransmit.to_be_bytes());
            (kind::ROUTER_ADVERTISEMENT, u32::from_be_bytes([ra.hop_limit, flags, a, b]))
        }
        Message::NeighborSolicitation { target } => {
            body.extend(target.octets());
            (kind::NEIGHBOR_SOLICITATION, 0)
        }
        Message::NeighborAdvertisement { target, router, solicited, overrides } => {
            body.extend(target.octets());
            let flag = |on, flag| if on { flag } else { 0 };
            let flags = flag(router, ROUTER) | flag(solicited, SOLICITED) | flag(overrides, OVERRIDE);
            (kind::NEIGHBOR_ADVERTISEMENT, flags)
        }
        Message::Redirect { target, destination } => {
            body.extend(target.octets());
            body.extend(destination.octets());
            (kind::REDIRECT, 0)
        }
    };
    options.iter().for_each(|option| write_option(option, &mut body));
    let mut ip = Ipv6Header::new(src, dst, protocol::ICMPV6, Icmpv6Header::LEN + body.len());
    ip.set_hop_limit(HOP_LIMIT);
    let icmp = Icmpv6Header::new(&ip, kind, 0, rest, &body);
    [&ip.0[..], &icmp.0, &body].concat()
}

/// Length of an [`answer`] in bytes.
pub const ANSWER_LEN: usize = Ipv6Header::LEN + Icmpv6Header::LEN + 24;

/// Returns the whole packet that answers a solicitation of `asker` for another host, which has the target and is no router: a solicited
/// advertisement that replaces earlier ones. Nothing is allocated.
pub fn answer(asker: Ipv6Addr, target: Ipv6Addr, mac: Mac) -> [u8; ANSWER_LEN] {
    let mut body = [0; 24];
    body[..16].copy_from_slice(&target.octets());
    body[16..18].copy_from_slice(&[option::TARGET, 1]);
    body[18..].copy_from_slice(&mac.0);
    let mut ip = Ipv6Header::new(target, asker, protocol::ICMPV6, Icmpv6Header::LEN + body.len());
    ip.set_hop_limit(HOP_LIMIT);
    let icmp = Icmpv6Header::new(&ip, kind::NEIGHBOR_ADVERTISEMENT, 0, SOLICITED | OVERRIDE, &body);
    let mut packet = [0; ANSWER_LEN];
    let (head, rest) = packet.split_at_mut(Ipv6Header::LEN);
    head.copy_from_slice(&ip.0);
    rest[..Icmpv6Header::LEN].copy_from_slice(&icmp.0);
    rest[Icmpv6Header::LEN..].copy_from_slice(&body);
    packet
}

fn write_option(option: &NdOption<'_>, out: &mut Vec<u8>) {
    match *option {
        NdOption::SourceMac(mac) => {
            out.extend([option::SOURCE, 1]);
            out.extend(mac.0);
        }
        NdOption::TargetMac(mac) => {
            out.extend([option::TARGET, 1]);
            out.extend(mac.0);
        }
        NdOption::Prefix(p) => {
            out.extend([option::PREFIX, 4, p.len, u8::from(p.on_link) << 7 | u8::from(p.autonomous) << 6]);
            out.extend(p.valid.to_be_bytes());
            out.extend(p.preferred.to_be_bytes());
            out.extend([0; 4]);
            out.extend(p.prefix.octets());
        }
        NdOption::Redirected(quote) => {
            let used = Ipv6Header::LEN + Icmpv6Header::LEN + out.len() + QUOTE_AT;
            let room = MAX_ERROR_LEN.saturating_sub(used);
            let quote = &quote[..quote.len().min(room) / 8 * 8];
            out.extend([option::REDIRECTED, ((QUOTE_AT + quote.len()) / 8) as u8]);
            out.extend([0; 6]);
            out.extend(quote);
        }
        NdOption::Mtu(mtu) => {
            out.extend([option::MTU, 1, 0, 0]);
            out.extend(mtu.to_be_bytes());
        }
        NdOption::DnsServers { lifetime, servers } => {
            // The length, in units of 8 bytes, has 8 bits.
            let servers = &servers[..servers.len().min(127)];
            out.extend([option::RDNSS, (1 + 2 * servers.len()) as u8, 0, 0]);
            out.extend(lifetime.to_be_bytes());
            out.extend(servers.as_flattened());
        }
    }
}
