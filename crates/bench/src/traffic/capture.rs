//! Traffic that is mixed as a capture is.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use drivers::pcap::{self, Seen};
use wire::extension::Chain;
use wire::{EthernetHeader, Ipv4Header, Ipv6Header, Mac, UdpHeader, VlanTag, ethertype, protocol};

use super::build::{Ends, FCS, Fault};
use super::builtin;
use super::describe::{Family, Flow, Kind, Load, Mark, Protocol, Traffic};
use crate::engine::sender::TURNS;

/// Traffic of a capture, and what of that is not in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Captured {
    /// One flow, with a kind for all frames that are alike.
    pub traffic: Traffic,
    /// Frames of the file.
    pub frames: u64,
    /// Frames that are longer than they were: the tester's mark would not have had room.
    pub longer: u64,
    /// Frames that the tester cannot send, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
}

/// In what frames are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    size: usize,
    is_ipv6: bool,
    protocol: Proto,
    vlan: Option<u16>,
    /// Source, destination, and their ports, where these are wanted.
    ends: Option<(IpAddr, IpAddr, u16, u16)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Proto {
    Udp,
    Tcp,
    Icmp,
}

/// Reads the traffic of a capture: how often which sizes, families, protocols and VLANs come, and with `addresses` between whom. Without,
/// addresses are those of the testbed, and ports are random (RFC 4814 section 4.5). In which order frames came, and when, is not in it.
///
/// # Errors
/// When the file cannot be read, has no frame that can be sent, or more kinds of them than a mix can have.
pub fn captured(path: &Path, name: &str, addresses: bool) -> Result<Captured, Fault> {
    let named = |why: String| Fault(format!("{}: {why}", path.display()));
    let mut kinds = BTreeMap::<Alike, u64>::new();
    let (mut frames, mut left_out) = (0, BTreeMap::new());
    pcap::each(path, |seen| {
        frames += 1;
        match alike(&seen, addresses) {
            Ok(kind) => *kinds.entry(kind).or_default() += 1,
            Err(why) => *left_out.entry(why).or_default() += 1,
        }
    })
    .map_err(named)?;
    let (mut of, mut longer) = (Vec::new(), 0);
    for (alike, count) in kinds {
        let kind = kind(&alike);
        if kind.size > alike.size {
            longer += count;
        }
        of.push((kind, count));
    }
    if of.is_empty() {
        return Err(named(format!("none of its {frames} frames can be sent: {}", told(&left_out))));
    }
    if of.len() as u64 > TURNS {
        let what = if addresses { ": leave --addresses away" } else { "" };
        return Err(named(format!("it has {} kinds of frames, and {TURNS} is the most{what}", of.len())));
    }
    weigh(&mut of);
    let frames_of = of.into_iter().map(|(kind, _)| kind).collect();
    let flow =
        Flow { name: "capture".into(), load: Load::default(), mark: Mark::default(), frames: frames_of };
    let traffic = Traffic { name: name.into(), seed: 1, flows: vec![flow] };
    Ok(Captured { traffic, frames, longer, left_out })
}

/// Reasons, each with its number, in words.
pub fn told(left_out: &BTreeMap<&'static str, u64>) -> String {
    let all: Vec<_> = left_out.iter().map(|(why, frames)| format!("{frames} {why}")).collect();
    if all.is_empty() { "there are none".into() } else { all.join(", ") }
}

/// What a frame is like, or why the tester cannot send one like it.
fn alike(seen: &Seen<'_>, addresses: bool) -> Result<Alike, &'static str> {
    const SHORT: &str = "of which the file has not all headers";
    let (ethernet, mut rest) = EthernetHeader::split(seen.bytes).ok_or(SHORT)?;
    if ethernet.dst().is_multicast() {
        return Err("to groups or to all, which routers do not forward");
    }
    let (mut kind, mut vlan) = (ethernet.ethertype(), None);
    if ethertype::is_vlan(kind) {
        let (tag, inner) = VlanTag::split(rest).ok_or(SHORT)?;
        (kind, rest, vlan) = (tag.ethertype(), inner, Some(tag.vid()).filter(|vid| *vid > 0));
    }
    let (ends, number, transport) = match kind {
        ethertype::IPV4 => {
            let (ip, _) = Ipv4Header::split(rest).ok_or(SHORT)?;
            if ip.is_fragment() {
                return Err("fragments");
            }
            ((ip.src().into(), ip.dst().into()), ip.protocol(), rest.get(ip.header_len()..))
        }
        ethertype::IPV6 => {
            let (ip, _) = Ipv6Header::split(rest).ok_or(SHORT)?;
            let chain = Chain::of(rest).map_err(|_| "of IPv6 whose headers cannot be followed")?;
            if chain.is_fragment() {
                return Err("fragments");
            }
            ((IpAddr::V6(ip.src()), IpAddr::V6(ip.dst())), chain.protocol, rest.get(chain.offset..))
        }
        kind if ethertype::is_vlan(kind) => return Err("with two VLANs"),
        _ => return Err("neither of IPv4 nor of IPv6"),
    };
    let protocol = match number {
        protocol::UDP => Proto::Udp,
        protocol::TCP => Proto::Tcp,
        protocol::ICMP | protocol::ICMPV6 => Proto::Icmp,
        _ => return Err("neither of UDP, TCP nor ICMP"),
    };
    let size = seen.len as usize + FCS;
    if size > buf::layout::DATA_ROOM + FCS {
        return Err("too long for one buffer");
    }
    // The first four bytes of both transports are ports; of ICMP nothing is kept.
    let ports = transport.and_then(UdpHeader::split).map(|(ports, _)| (ports.src_port(), ports.dst_port()));
    let (from, to) = ports.filter(|_| protocol != Proto::Icmp).unwrap_or_default();
    let ends = addresses.then_some((ends.0, ends.1, from, to));
    Ok(Alike { size, is_ipv6: kind == ethertype::IPV6, protocol, vlan, ends })
}

/// A frame like that, as long as it must be.
fn kind(alike: &Alike) -> Kind {
    let family = if alike.is_ipv6 { Family::Ipv6 } else { Family::Ipv4 };
    let mut kind = Kind { vlan: alike.vlan, vary: builtin::ports(), ..Kind::udp(family, alike.size) };
    kind.protocol = match alike.protocol {
        Proto::Udp => Protocol::Udp,
        Proto::Tcp => Protocol::Tcp,
        Proto::Icmp => Protocol::Icmp,
    };
    if let Some((source, destination, from, to)) = alike.ends {
        (kind.source, kind.destination) = (Some(source), Some(destination));
        (kind.source_port, kind.destination_port, kind.vary) = (from, to, Vec::new());
    }
    let least = kind.least_size(&Ends::rfc(Mac([0; 6]), Mac([0; 6]), false)).unwrap_or(kind.size);
    kind.size = kind.size.max(least);
    kind
}

/// Gives each kind its share of the turns that a mix can have: exactly, if there are not more frames than that, and one at least.
fn weigh(kinds: &mut [(Kind, u64)]) {
    let all: u64 = kinds.iter().map(|(_, count)| count).sum();
    let spare = TURNS.saturating_sub(kinds.len() as u64);
    for (kind, count) in kinds {
        let weight = match all <= TURNS {
            true => *count,
            false => 1 + (u128::from(*count) * u128::from(spare) / u128::from(all)) as u64,
        };
        kind.weight = u32::try_from(weight).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
