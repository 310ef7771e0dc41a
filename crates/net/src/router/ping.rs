//! The router's own pings: echo requests from the main thread, and the replies that workers punt.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use buf::Held;
use buf::layout::DATA_ROOM;
use wire::builder::PacketBuilder;
use wire::{IcmpHeader, Ipv4Header};

use super::{Router, RouterError};
use crate::ip::{Address, Ip, Path};

/// The node that requests are sent to.
pub(crate) const SEND: &str = "ip4-lookup";
/// Pings under way at once, at most.
const SESSIONS: usize = 64;
/// Requests of one ping that wait for their reply, and replies that wait to be taken, at most.
const WAITING: usize = 256;
/// Lookups from VRF to VRF on the way to an interface.
const MAX_HOPS: usize = 8;
/// Bytes of the headers of an echo request.
const HEADERS: usize = Ipv4Header::LEN + IcmpHeader::LEN;

/// A reply to one of the router's own pings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PingReply {
    /// Sequence number of the request.
    pub seq: u16,
    /// Who answered.
    pub from: Ipv4Addr,
    /// Bytes of ICMP header and data.
    pub bytes: usize,
    /// Time to live that the reply had left.
    pub ttl: u8,
    /// Time from request to reply.
    pub rtt: Duration,
}

/// The pings under way, by identifier.
#[derive(Default)]
pub(crate) struct Pings {
    sessions: BTreeMap<u16, Session>,
    last: u16,
}

struct Session {
    fib: u16,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    size: usize,
    /// Sequence number and time of requests without a reply, the oldest first.
    sent: VecDeque<(u16, u64)>,
    replies: VecDeque<PingReply>,
}

impl Router {
    /// Begins to ping `destination` in a VRF with requests of `size` bytes of data; without `source`, from the address of
    /// the interface that they leave by. Gives the identifier, by which the ping goes on until [`Router::ping_stop`].
    ///
    /// # Errors
    /// When no route leads there, the router has no such address (or none at all), a request would not fit in one packet,
    /// or too many pings are under way.
    pub fn ping_start(
        &mut self,
        fib: u16,
        destination: Ipv4Addr,
        source: Option<Ipv4Addr>,
        size: usize,
    ) -> Result<u16, RouterError> {
        if HEADERS + size > DATA_ROOM {
            let most = DATA_ROOM - HEADERS;
            return Err(RouterError(format!("a ping of {size} bytes is too large: {most} at most")));
        }
        let (interface, near) = self.egress(fib, destination)?;
        if let Some(i) = interface.and_then(|i| self.near.interfaces.get(i))
            && HEADERS + size > usize::from(i.mtu)
        {
            let most = usize::from(i.mtu) - HEADERS;
            return Err(RouterError(format!(
                "a ping of {size} bytes does not fit {}: {most} at most",
                i.name
            )));
        }
        let source = match source {
            Some(own) if self.ip4.own.get().contains(fib, own.to_bits()) => own,
            Some(other) => {
                return Err(RouterError(format!("{other} is no address of this router in table {fib}")));
            }
            None => self.source_for(fib, interface, near)?,
        };
        if self.pings.sessions.len() >= SESSIONS {
            return Err(RouterError(format!("there are {SESSIONS} pings under way: stop one first")));
        }
        let mut id = self.pings.last.wrapping_add(1);
        while self.pings.sessions.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        self.pings.last = id;
        let session =
            Session { fib, source, destination, size, sent: VecDeque::new(), replies: VecDeque::new() };
        self.pings.sessions.insert(id, session);
        Ok(id)
    }

    /// Sends request number `seq` of a ping at `now` (nanoseconds of the monotonic clock).
    ///
    /// # Errors
    /// When there is no such ping, no buffer is free, or the worker is too busy.
    pub fn ping_send(&mut self, id: u16, seq: u16, now: u64) -> Result<(), RouterError> {
        let missing = || RouterError(format!("there is no ping {id}"));
        let s = self.pings.sessions.get_mut(&id).ok_or_else(missing)?;
        let data: Vec<u8> = (0..s.size).map(|i| i as u8).collect();
        let request =
            PacketBuilder::ipv4(s.source, s.destination).id(seq).echo_request(id, seq).payload(&data);
        let fib = s.fib;
        s.sent.retain(|(waiting, _)| *waiting != seq);
        if s.sent.len() >= WAITING {
            s.sent.pop_front();
        }
        s.sent.push_back((seq, now));
        let no_buffer = || RouterError("no buffer is free for the echo request".into());
        let mut held = self.packet(&request.build()).ok_or_else(no_buffer)?;
        held.packet().set_fib(fib);
        if self.send(0, SEND, held) {
            Ok(())
        } else {
            Err(RouterError("the worker does not take packets from the main thread: it is too busy".into()))
        }
    }

    /// Takes the replies that have come since the last call, the oldest first.
    pub fn ping_take_replies(&mut self, id: u16) -> Vec<PingReply> {
        self.pings.sessions.get_mut(&id).map_or_else(Vec::new, |s| s.replies.drain(..).collect())
    }

    /// Ends a ping; replies that are still on their way are dropped. One that has ended stays so.
    pub fn ping_stop(&mut self, id: u16) {
        self.pings.sessions.remove(&id);
    }

    /// The interface that packets to `destination` leave by (`None`: they stay here), and the neighbour they go to.
    fn egress(&self, fib: u16, destination: Ipv4Addr) -> Result<(Option<u32>, Ipv4Addr), RouterError> {
        let refused = |why: &str| RouterError(format!("{destination} cannot be pinged: {why}"));
        let mut table = fib;
        for _ in 0..MAX_HOPS {
            let Some((prefix, _, to)) = self.ip4.routes.lookup(table, destination) else {
                return Err(refused(&format!("no route in table {table} covers it")));
            };
            // What is looked up has an end, if it is recursive. Of several ways any will do.
            let end = to.trail.as_ref().and_then(|t| t.ends.first()).map(|end| end.0);
            let Some(path) = end.or_else(|| to.list.paths().next()) else { continue };
            return match path {
                Path::Via { next_hop, interface } => {
                    let next_hop = Ipv4Addr::of(next_hop)
                        .ok_or_else(|| refused("its next hop is of the other family"))?;
                    let interface = interface.or_else(|| self.near.connected(table, next_hop.into()));
                    Ok((interface, next_hop))
                }
                Path::Attached(interface) => Ok((Some(interface), destination)),
                Path::Local => Ok((None, destination)),
                Path::Drop => Err(refused(&format!("the route {prefix} drops packets"))),
                Path::Unreachable => Err(refused(&format!("the route {prefix} says unreachable"))),
                Path::Prohibit => Err(refused(&format!("the route {prefix} says prohibit"))),
                Path::LinkLocal => Err(refused("it is on one link only, and the interface is not said")),
                Path::Table(next) => {
                    table = next;
                    continue;
                }
            };
        }
        Err(refused("its routes lead from table to table without an end"))
    }

    /// The address to send from: on the network of the next hop, else the first one of the interface, else the first one in
    /// the VRF.
    fn source_for(&self, fib: u16, interface: Option<u32>, near: Ipv4Addr) -> Result<Ipv4Addr, RouterError> {
        let own = self.ip4.own.get();
        if interface.is_none() && own.contains(fib, near.to_bits()) {
            return Ok(near);
        }
        let of = interface.and_then(|i| self.near.interfaces.get(i)).filter(|i| i.fib == fib);
        let addresses: Vec<Address<Ipv4Addr>> = of.map_or_else(Vec::new, |i| i.addresses_of().collect());
        let best = addresses.iter().find(|a| a.prefix().contains(near)).or_else(|| addresses.first());
        let none = || RouterError(format!("the router has no address in table {fib} to ping from"));
        best.map(|a| a.address).or_else(|| own.first(fib)).ok_or_else(none)
    }
}

/// Handles an echo reply that a worker punted.
pub(crate) fn reply(router: &mut Router, now: u64, _worker: usize, mut held: Held) {
    let p = held.packet();
    note(&mut router.pings, now, p.bytes(), p.total_len());
    held.free(&mut router.bufs);
}

/// Notes the reply `l3`, `total` bytes long of which these are the first, if anybody waits for it.
fn note(pings: &mut Pings, now: u64, l3: &[u8], total: usize) -> Option<()> {
    let (ip, _) = Ipv4Header::split(l3)?;
    let (icmp, _) = IcmpHeader::split(l3.get(ip.header_len()..)?)?;
    let s = pings.sessions.get_mut(&icmp.echo_id())?;
    if ip.dst() != s.source || ip.src() != s.destination {
        return None;
    }
    let at = s.sent.iter().position(|(seq, _)| *seq == icmp.echo_seq())?;
    let (seq, sent) = s.sent.remove(at)?;
    if s.replies.len() >= WAITING {
        s.replies.pop_front();
    }
    s.replies.push_back(PingReply {
        seq,
        from: ip.src(),
        bytes: total.saturating_sub(ip.header_len()),
        ttl: ip.ttl(),
        rtt: Duration::from_nanos(now.saturating_sub(sent)),
    });
    Some(())
}

#[cfg(test)]
#[path = "ping_tests.rs"]
mod tests;
