//! Traffic with the same mix of frames as a capture.

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

/// The parts of a capture to keep, in addition to sizes, address families and protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// True to keep addresses and ports. If false, addresses are the testbed's, and ports are random (RFC 4814 section 4.5).
    pub addresses: bool,
    /// True to keep VLAN tags. If false, frames have no tag, and are shorter by the length of the tag.
    pub vlans: bool,
}

/// Traffic made from a capture, with the numbers of frames that were changed or left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Captured {
    /// One flow, with one kind of frame for each group of frames that are alike.
    pub traffic: Traffic,
    /// Number of frames in the file.
    pub frames: u64,
    /// Number of frames made longer, because the tester's stamp did not fit.
    pub longer: u64,
    /// Numbers of frames that are left out, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
}

/// Length of the longest Ethernet frame, in bytes, with FCS and without tag.
const MOST: usize = 1518;

/// The properties that frames of one kind share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alike {
    size: usize,
    is_ipv6: bool,
    protocol: Proto,
    vlan: Option<u16>,
    /// Source, destination, source port and destination port, if kept.
    ends: Option<(IpAddr, IpAddr, u16, u16)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Proto {
    Udp,
    Tcp,
    Icmp,
}

/// Reads the mix of a capture: the kinds of frames and their proportions. Order and times are not kept.
///
/// # Errors
/// If the file cannot be read, or contains no frame that can be sent.
pub fn captured(path: &Path, name: &str, keep: Keep) -> Result<Captured, Fault> {
    let named = |why: String| Fault(format!("{}: {why}", path.display()));
    let mut kinds = BTreeMap::<Alike, u64>::new();
    let (mut frames, mut left_out) = (0, BTreeMap::new());
    pcap::each(path, |seen| {
        frames += 1;
        match alike(&seen, keep) {
            Ok(kind) => *kinds.entry(kind).or_default() += 1,
            Err(why) => *left_out.entry(why).or_default() += 1,
        }
        Ok(())
    })
    .map_err(named)?;
    if kinds.is_empty() {
        return Err(named(format!("none of its {frames} frames can be sent: {}", told(&left_out))));
    }
    let (mut mix, mut longer, mut rare) = (Vec::new(), 0, 0);
    let counts: Vec<u64> = kinds.values().copied().collect();
    for ((alike, count), turns) in kinds.into_iter().zip(turns(&counts)) {
        if turns == 0 {
            rare += count;
            continue;
        }
        let kind = Kind { weight: turns, ..kind(&alike) };
        if kind.size > alike.size {
            longer += count;
        }
        mix.push(kind);
    }
    if rare > 0 {
        left_out.insert("too rare for a mix of 4096 frames", rare);
    }
    let flow = Flow { name: "capture".into(), load: Load::default(), mark: Mark::default(), frames: mix };
    let traffic = Traffic { name: name.into(), seed: 1, flows: vec![flow] };
    Ok(Captured { traffic, frames, longer, left_out })
}

/// Formats the reasons for leaving out frames, each with its number of frames.
pub fn told(left_out: &BTreeMap<&'static str, u64>) -> String {
    let all: Vec<_> = left_out.iter().map(|(why, frames)| format!("{frames} {why}")).collect();
    if all.is_empty() { "it is empty".into() } else { all.join(", ") }
}

/// Returns a frame's properties, or why the tester cannot send frames like it.
fn alike(seen: &Seen<'_>, keep: Keep) -> Result<Alike, &'static str> {
    const SHORT: &str = "with truncated headers";
    let (ethernet, mut rest) = EthernetHeader::split(seen.bytes).ok_or(SHORT)?;
    let (mut kind, mut vlan, mut size) = (ethernet.ethertype(), None, seen.len as usize + FCS);
    if ethertype::is_vlan(kind) {
        let (tag, inner) = VlanTag::split(rest).ok_or(SHORT)?;
        vlan = Some(tag.vid()).filter(|vid| keep.vlans && (1..=4094).contains(vid));
        if vlan.is_none() {
            size -= VlanTag::LEN;
        }
        (kind, rest) = (tag.ethertype(), inner);
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
            let chain = Chain::of(rest).map_err(|_| "with invalid IPv6 extension headers")?;
            if chain.is_fragment() {
                return Err("fragments");
            }
            ((IpAddr::V6(ip.src()), IpAddr::V6(ip.dst())), chain.protocol, rest.get(chain.offset..))
        }
        kind if ethertype::is_vlan(kind) => return Err("with two VLAN tags"),
        _ => return Err("neither IPv4 nor IPv6"),
    };
    let protocol = match number {
        protocol::UDP => Proto::Udp,
        protocol::TCP => Proto::Tcp,
        protocol::ICMP | protocol::ICMPV6 => Proto::Icmp,
        _ => return Err("neither UDP, TCP nor ICMP"),
    };
    if ethernet.dst().is_multicast() || [ends.0, ends.1].into_iter().any(stays) {
        return Err("never forwarded by routers (multicast, broadcast, link-local, loopback)");
    }
    // Longer frames were joined by an offload on the capturing host; they never were on a wire.
    if size > MOST + if vlan.is_some() { VlanTag::LEN } else { 0 } {
        return Err("longer than 1518 bytes (capture without GRO and TSO: ethtool -K)");
    }
    // UDP and TCP headers begin with the ports. Nothing is kept of ICMP.
    let ports = transport.and_then(UdpHeader::split).map(|(ports, _)| (ports.src_port(), ports.dst_port()));
    let (from, to) = ports.filter(|_| protocol != Proto::Icmp).unwrap_or_default();
    let ends = keep.addresses.then_some((ends.0, ends.1, from, to));
    Ok(Alike { size, is_ipv6: kind == ethertype::IPV6, protocol, vlan, ends })
}

/// Makes a kind of frame with these properties, extended to the minimum size if necessary.
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

/// True if packets with this source or destination stay on their link or host (RFC 6890).
fn stays(ip: IpAddr) -> bool {
    let link = match ip {
        IpAddr::V4(ip) => ip.is_link_local() || ip.is_broadcast() || ip.octets()[0] == 0,
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    link || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast()
}

/// Returns the number of frames of each kind in a mix, for the given counts in a capture. A mix has at most [`TURNS`] frames. If all frames
/// of the capture fit, the numbers are the counts. Otherwise they are shares of [`TURNS`] in proportion to the counts, rounded by the
/// largest-remainder method.
fn turns(counts: &[u64]) -> Vec<u32> {
    let all: u128 = counts.iter().map(|n| u128::from(*n)).sum();
    let most = u128::from(TURNS);
    if all <= most {
        return counts.iter().map(|n| *n as u32).collect();
    }
    let share = |n: &u64| (u128::from(*n) * most / all, u128::from(*n) * most % all);
    let mut turns: Vec<u32> = counts.iter().map(|n| share(n).0 as u32).collect();
    let left = most as usize - turns.iter().map(|n| *n as usize).sum::<usize>();
    let mut by_rest: Vec<usize> = (0..counts.len()).collect();
    by_rest.sort_by_key(|at| std::cmp::Reverse(share(&counts[*at]).1));
    by_rest.into_iter().take(left).for_each(|at| turns[at] += 1);
    turns
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
