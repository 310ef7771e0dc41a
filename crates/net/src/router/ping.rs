//! Pings by the router itself: the main thread sends echo requests, and workers punt the replies.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use buf::{FRAME_SIZE, Packet};
use wire::builder::PacketBuilder;
use wire::extension::Chain;
use wire::{IcmpHeader, Icmpv6Header, Ipv4Header, Ipv6Header};

use super::{Routed, Router, RouterError};
use crate::Unused;
use crate::ip::{Address, Packets, Path};

/// Maximum number of active pings.
const SESSIONS: usize = 64;
/// Maximum number of requests without a reply, and maximum number of replies that have not been taken, for each ping.
const WAITING: usize = 256;
/// Maximum number of VRFs that are looked up to find the output interface.
const MAX_HOPS: usize = 8;

/// Returns the maximum number of data bytes in an echo request to `destination`, as limited by the length field of the IP header.
fn most(destination: IpAddr) -> usize {
    let counted = match destination {
        IpAddr::V4(_) => Ipv4Header::LEN + IcmpHeader::LEN,
        IpAddr::V6(_) => Icmpv6Header::LEN,
    };
    usize::from(u16::MAX) - counted
}

/// Returns the maximum number of data bytes in an IPv4 echo request over a link with this MTU, because a packet is cut into at most
/// [`FRAME_SIZE`] fragments.
fn most_in_fragments(mtu: u16) -> usize {
    let each = usize::from(mtu).saturating_sub(Ipv4Header::LEN) & !7;
    (each * FRAME_SIZE).saturating_sub(IcmpHeader::LEN)
}

/// The destination of a ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingTarget {
    /// The destination.
    pub address: IpAddr,
    /// The interface on whose link the destination is, if the address is link-local.
    pub interface: Option<u32>,
}

impl<A: Into<IpAddr>> From<A> for PingTarget {
    fn from(address: A) -> PingTarget {
        PingTarget { address: address.into(), interface: None }
    }
}

/// A reply to a ping by the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingReply {
    /// Sequence number of the request.
    pub seq: u16,
    /// The source address of the reply.
    pub from: IpAddr,
    /// Length of ICMP header and data, in bytes.
    pub bytes: usize,
    /// Time to live (hop limit) with which the reply arrived.
    pub ttl: u8,
    /// Round-trip time.
    pub rtt: Duration,
}

/// The active pings, by identifier.
#[derive(Default)]
pub(crate) struct Pings {
    sessions: BTreeMap<u16, Session>,
    last: u16,
    /// Identification of the last IPv4 request. All pings share it, so that fragments of different requests are not mixed up.
    datagram: u16,
}

struct Session {
    fib: u16,
    source: IpAddr,
    to: PingTarget,
    size: usize,
    /// Sequence number and send time of each request without a reply, the oldest first.
    sent: VecDeque<(u16, u64)>,
    replies: VecDeque<PingReply>,
}

impl Router {
    /// Starts a ping of `to` in a VRF, with `size` bytes of data per request. Without `source`, requests are sent from an address of their
    /// output interface. Returns the identifier of the ping, which is valid until [`Router::ping_stop`].
    ///
    /// # Errors
    /// If there is no such VRF, no route covers the destination, `source` is not the router's, the router has no address, a request would
    /// be too large, or too many pings are active.
    pub fn ping_start(
        &mut self,
        table: u32,
        to: impl Into<PingTarget>,
        source: Option<IpAddr>,
        size: usize,
    ) -> Result<u16, RouterError> {
        let (fib, to) = (self.fib(table)?, to.into());
        // Include addresses added or removed in this turn.
        self.publish_own();
        let source = match to.address {
            IpAddr::V4(a) => self.ping_source(fib, (a, to.interface), source, size)?.into(),
            IpAddr::V6(a) => self.ping_source(fib, (a, to.interface), source, size)?.into(),
        };
        if self.pings.sessions.len() >= SESSIONS {
            return Err(RouterError(format!("{SESSIONS} pings are active already: stop one first")));
        }
        let mut id = self.pings.last.wrapping_add(1);
        while self.pings.sessions.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        self.pings.last = id;
        let session = Session { fib, source, to, size, sent: VecDeque::new(), replies: VecDeque::new() };
        self.pings.sessions.insert(id, session);
        Ok(id)
    }

    /// Returns the source address for requests with `size` bytes of data, and checks that such requests can be sent.
    fn ping_source<A: Routed>(
        &self,
        fib: u16,
        (destination, by): (A, Option<u32>),
        source: Option<IpAddr>,
        size: usize,
    ) -> Result<A, RouterError> {
        let most = most(destination.into());
        if size > most {
            return Err(RouterError(format!("a ping of {size} bytes is too large: the maximum is {most}")));
        }
        let scoped = |address: A, on| A::scoped(address.to_bits(), on);
        let link = by.filter(|on| scoped(destination, *on) != destination.to_bits());
        let (interface, near) = match link {
            Some(on) => (Some(on), destination),
            None => self.egress(fib, destination)?,
        };
        if let Some(i) = interface.and_then(|i| self.near.interfaces.get(i))
            && destination.into().is_ipv4()
            && size > most_in_fragments(i.mtu)
        {
            return Err(RouterError(format!(
                "a ping of {size} bytes needs too many fragments at the MTU of {}: the maximum is {}",
                i.name,
                most_in_fragments(i.mtu)
            )));
        }
        let is_own = |a: &A| A::side(self).own.get().contains(fib, scoped(*a, interface.unwrap_or(0)));
        let tentative = || self.tentative_source::<A>(fib, interface, source);
        if let Some(why) = source.and_then(|_| tentative()) {
            return Err(why);
        }
        let found = match source {
            Some(own) => A::of(own).filter(is_own).ok_or_else(|| {
                RouterError(format!(
                    "{own} is not an address of this router in table {}",
                    self.vrfs.table(fib)
                ))
            }),
            None => self.source_towards(fib, interface, near),
        };
        found.map_err(|why| tentative().unwrap_or(why))
    }

    /// If no source address was found because the router is still testing an address for duplicates (RFC 4862 section 5.4), returns an
    /// error that says so.
    fn tentative_source<A: Routed>(
        &self,
        fib: u16,
        interface: Option<u32>,
        source: Option<IpAddr>,
    ) -> Option<RouterError> {
        let wanted = |address: &A| source.is_none_or(|source| A::of(source) == Some(*address));
        let mut all = self.interfaces().filter(|i| i.fib == fib);
        let (address, name) = all.find_map(|i| {
            let here = source.is_some() || interface.is_none_or(|on| on == i.index);
            let address = A::tentative(i).find(wanted).filter(|_| here)?;
            Some((address, &i.name))
        })?;
        Some(RouterError(format!(
            "the address {address} of {name} is still being tested for duplicates (DAD): try again in a second"
        )))
    }

    /// Sends request number `seq` of a ping. `now` is in nanoseconds of the monotonic clock.
    ///
    /// # Errors
    /// If there is no such ping, no buffer is free, or the worker's ring is full.
    pub fn ping_send(&mut self, id: u16, seq: u16, now: u64) -> Result<(), RouterError> {
        let missing = || RouterError(format!("there is no ping {id}"));
        let datagram = self.pings.datagram.wrapping_add(1);
        let s = self.pings.sessions.get_mut(&id).ok_or_else(missing)?;
        self.pings.datagram = datagram;
        let data: Vec<u8> = (0..s.size).map(|i| i as u8).collect();
        let (request, node) = match (s.source, s.to.address) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                (PacketBuilder::ipv4(from, to).id(datagram), Ipv4Addr::NODES.lookup)
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => (PacketBuilder::ipv6(from, to), Ipv6Addr::NODES.lookup),
            _ => return Err(missing()),
        };
        let request = request.echo_request(id, seq).payload(&data);
        let (fib, by) = (s.fib, s.to.interface);
        s.sent.retain(|(waiting, _)| *waiting != seq);
        if s.sent.len() >= WAITING {
            s.sent.pop_front();
        }
        s.sent.push_back((seq, now));
        let no_buffer = || RouterError("no free buffer for the echo request".into());
        let mut held = self.packet(&request.build()).ok_or_else(no_buffer)?;
        let mut p = held.packet();
        p.set_fib(fib);
        by.into_iter().for_each(|interface| p.set_tx_if(interface));
        if self.send(0, node, held) {
            Ok(())
        } else {
            Err(RouterError("the worker is too busy: its ring from the main thread is full".into()))
        }
    }

    /// Takes the replies received since the last call, the oldest first.
    pub fn ping_take_replies(&mut self, id: u16) -> Vec<PingReply> {
        self.pings.sessions.get_mut(&id).map_or_else(Vec::new, |s| s.replies.drain(..).collect())
    }

    /// Ends a ping. Replies that arrive later are dropped. If the ping has already ended, nothing happens.
    pub fn ping_stop(&mut self, id: u16) {
        self.pings.sessions.remove(&id);
    }

    /// Returns the output interface to `destination`, and the next hop or the destination on its link. The interface is `None` if the
    /// destination is the router itself.
    fn egress<A: Routed>(&self, fib: u16, destination: A) -> Result<(Option<u32>, A), RouterError> {
        let refused = |why: &str| RouterError(format!("{destination} cannot be pinged: {why}"));
        let mut table = fib;
        for _ in 0..MAX_HOPS {
            let Some((prefix, _, to)) = A::side(self).routes.lookup(table, destination) else {
                let table = self.vrfs.table(table);
                return Err(refused(&format!("no route in table {table} covers it")));
            };
            // The ends of a recursive path, if any. Any of several paths will do.
            let end = to.trail.as_ref().and_then(|t| t.ends.first()).map(|end| end.0);
            let Some(path) = end.or_else(|| to.list.paths().next()) else { continue };
            return match path {
                Path::Via { next_hop, interface } => {
                    let next_hop = A::of(next_hop)
                        .ok_or_else(|| refused("its next hop is of the other address family"))?;
                    let interface = interface.or_else(|| self.near.connected(table, next_hop.into()));
                    Ok((interface, next_hop))
                }
                Path::Attached(interface) => Ok((Some(interface), destination)),
                Path::Local => Ok((None, destination)),
                Path::Drop => Err(refused(&format!("the route {prefix} drops packets"))),
                Path::Unreachable => Err(refused(&format!("the route {prefix} is unreachable"))),
                Path::Prohibit => Err(refused(&format!("the route {prefix} is prohibited"))),
                Path::Feature(kind, index) => {
                    let what = self.forwarding_text(kind, index);
                    Err(refused(&format!(
                        "the route {prefix} leads to {what}, not to an interface: give an interface"
                    )))
                }
                Path::LinkLocal => Err(refused("it is link-local: give an interface")),
                Path::Table(next) => {
                    table = next;
                    continue;
                }
            };
        }
        Err(refused("its routes form a loop between tables"))
    }

    /// Returns the source address to use: an address in the network of `near`, otherwise the first of the interface, otherwise the first in
    /// the VRF. `near` is the next hop or the destination on the interface's link.
    fn source_towards<A: Routed>(&self, fib: u16, interface: Option<u32>, near: A) -> Result<A, RouterError> {
        let own = A::side(self).own.get();
        if interface.is_none() && own.contains(fib, near.to_bits()) {
            return Ok(near);
        }
        let of = interface.and_then(|i| self.near.interfaces.get(i)).filter(|i| i.fib == fib);
        let addresses: Vec<Address<A>> = of.map_or_else(Vec::new, |i| A::own(i).collect());
        let best = addresses.iter().find(|a| a.prefix().contains(near)).or_else(|| addresses.first());
        let table = self.vrfs.table(fib);
        let none = || RouterError(format!("the router has no address in table {table} to ping from"));
        best.map(|a| a.address).or_else(|| own.first(fib)).ok_or_else(none)
    }
}

/// Handles an echo reply that a worker punted.
///
/// # Errors
/// If no ping waits for the reply.
pub(crate) fn reply(router: &mut Router, now: u64, _worker: usize, p: &mut Packet<'_>) -> Result<(), Unused> {
    note(&mut router.pings, now, p.bytes(), p.total_len()).ok_or(Unused::NoPing)
}

/// The header fields of an echo reply that the router needs.
struct Header {
    src: IpAddr,
    dst: IpAddr,
    hops: u8,
    icmp_at: usize,
}

fn header(l3: &[u8]) -> Option<Header> {
    if l3.first()? >> 4 == 6 {
        let (ip, _) = Ipv6Header::split(l3)?;
        let icmp_at = Chain::of(l3).ok()?.offset;
        return Some(Header { src: ip.src().into(), dst: ip.dst().into(), hops: ip.hop_limit(), icmp_at });
    }
    let (ip, _) = Ipv4Header::split(l3)?;
    Some(Header { src: ip.src().into(), dst: ip.dst().into(), hops: ip.ttl(), icmp_at: ip.header_len() })
}

/// Stores an echo reply in its ping; `None` if no ping waits for it. `l3` is the reply's first segment from the IP header on, and `total`
/// the length of the reply in bytes.
fn note(pings: &mut Pings, now: u64, l3: &[u8], total: usize) -> Option<()> {
    let ip = header(l3)?;
    // Echo fields are at the same offsets in ICMP and ICMPv6.
    let (icmp, _) = IcmpHeader::split(l3.get(ip.icmp_at..)?)?;
    let s = pings.sessions.get_mut(&icmp.echo_id())?;
    if ip.dst != s.source || ip.src != s.to.address {
        return None;
    }
    let at = s.sent.iter().position(|(seq, _)| *seq == icmp.echo_seq())?;
    let (seq, sent) = s.sent.remove(at)?;
    if s.replies.len() >= WAITING {
        s.replies.pop_front();
    }
    s.replies.push_back(PingReply {
        seq,
        from: ip.src,
        bytes: total.saturating_sub(ip.icmp_at),
        ttl: ip.hops,
        rtt: Duration::from_nanos(now.saturating_sub(sent)),
    });
    Some(())
}

#[cfg(test)]
#[path = "ping_tests.rs"]
mod tests;
