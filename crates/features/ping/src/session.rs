//! The active pings, each with its requests that have no reply yet, and the replies that its client has not taken.
//!
//! Clients that are not admins (viewers and operators) are called readers here. Their pings share limits.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use buf::Packet;
use net::ip::Packets;
use net::router::{Router, RouterError};
use wire::builder::PacketBuilder;
use wire::extension::Chain;
use wire::{IcmpHeader, Ipv4Header, Ipv6Header};

use crate::Reason;
use crate::route::{self, Target};

/// Maximum number of active pings.
pub(crate) const SESSIONS: usize = 64;
/// Maximum number of active pings of all viewers and operators together. It is lower than [`SESSIONS`], so that admins can still start
/// pings.
const READERS: usize = 16;
/// Time in nanoseconds for which one packet of a viewer or an operator uses up their common rate: all their pings together send 500 packets
/// a second.
const READERS_PACKET: u64 = 2_000_000;
/// The burst of this rate in nanoseconds: all pings of viewers and operators together may send 64 packets at once.
const READERS_AHEAD: u64 = READERS_AT_ONCE as u64 * READERS_PACKET;
/// Maximum number of packets that a viewer or an operator sends at once.
pub(crate) const READERS_AT_ONCE: u32 = 64;
/// A request counts as one packet against the limits, and as one more for each [`COUNTED`] bytes of data, because long requests leave in
/// fragments.
const COUNTED: usize = 1400;
/// Time in nanoseconds after which a waiting ping loses its place in the queue, unless its client asks again whether it may send.
const ASKS: u64 = 1_000_000_000;
/// Limit for each ping: the maximum number of unanswered requests, and the maximum number of replies that have not been taken.
pub(crate) const WAITING: usize = 256;

/// TTL or hop limit of requests.
const HOPS: u8 = 255;

/// Returns the approximate number of packets in which a request with `size` bytes of data leaves. Only the limits of viewers and operators
/// use this number.
pub(crate) fn packets(size: usize) -> u32 {
    1 + u32::try_from(size / COUNTED).unwrap_or(u32::MAX - 1)
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Sequence number of the request.
    pub(crate) seq: u16,
    /// The source address of the reply.
    pub(crate) from: IpAddr,
    /// Length of ICMP header and data, in bytes.
    pub(crate) bytes: usize,
    /// Time to live (hop limit) with which the reply arrived.
    pub(crate) ttl: u8,
    /// Round-trip time.
    pub(crate) rtt: Duration,
}

/// A client's ping. If this value is dropped, the ping ends when the next client starts a ping.
#[derive(Debug)]
pub(crate) struct Held {
    /// The identifier of the requests.
    pub(crate) id: u16,
    token: Arc<()>,
}

/// The active pings, by identifier: the feature's state.
#[derive(Default)]
pub(crate) struct Pings {
    pub(crate) sessions: BTreeMap<u16, Session>,
    pub(crate) last: u16,
    /// Identification of the last IPv4 request. All pings share it, so that fragments of different requests are not mixed up.
    datagram: u16,
    /// Time in nanoseconds of the monotonic clock up to which viewers and operators have used up their common rate. It may be later than
    /// now by at most [`READERS_AHEAD`].
    paid: u64,
    /// The pings of viewers and operators that wait until they may send. The ping that may send next is the first.
    waiting: VecDeque<Waiting>,
}

/// A ping that waits until it may send.
struct Waiting {
    id: u16,
    /// Last time at which the ping's client asked whether it may send, in nanoseconds of the monotonic clock.
    asked: u64,
}

/// An active ping.
pub(crate) struct Session {
    fib: u16,
    pub(crate) source: IpAddr,
    to: Target,
    /// Weak reference to the token in [`Held`]. The token exists as long as the ping's client.
    token: Weak<()>,
    /// True for a viewer or an operator.
    reader: bool,
    /// Sequence number and send time of each request without a reply, the oldest first.
    pub(crate) sent: VecDeque<(u16, u64)>,
    replies: VecDeque<Reply>,
}

impl Pings {
    /// Returns the pings of a router.
    ///
    /// # Errors
    /// If the router does not have this feature.
    pub(crate) fn of(router: &mut Router) -> Result<&mut Pings, RouterError> {
        router.state_mut()
    }

    /// Ends the pings of disconnected clients. Then checks that the client may start another ping. `reader` is true for a viewer or an
    /// operator.
    ///
    /// # Errors
    /// If viewers and operators have too many active pings.
    pub(crate) fn admit(&mut self, reader: bool) -> Result<(), RouterError> {
        self.sessions.retain(|_, s| s.token.strong_count() > 0);
        if reader && self.sessions.values().filter(|s| s.reader).count() >= READERS {
            return Err(RouterError::new(format!(
                "viewers and operators have the maximum of {READERS} active pings: stop one, or wait"
            )));
        }
        Ok(())
    }

    /// Returns a free identifier.
    fn free(&mut self) -> Result<u16, RouterError> {
        if self.sessions.len() >= SESSIONS {
            return Err(RouterError::new(format!("{SESSIONS} pings are active already: stop one first")));
        }
        let mut id = self.last.wrapping_add(1);
        while self.sessions.contains_key(&id) {
            id = id.wrapping_add(1);
        }
        self.last = id;
        Ok(id)
    }

    /// Returns true if a ping of a viewer or an operator may send this number of requests now, and counts the requests. If not, the ping
    /// waits in a queue, and its client must ask again. Pings behind it in the queue may send only after it has sent, or after its client
    /// has not asked for [`ASKS`].
    pub(crate) fn may_send(&mut self, id: u16, requests: u32, now: u64) -> bool {
        let Pings { sessions, waiting, .. } = self;
        if let Some(own) = waiting.iter_mut().find(|one| one.id == id) {
            own.asked = now;
        }
        // A client that does not read its output does not ask again, and must not keep the others waiting.
        let asks = |one: &Waiting| now.saturating_sub(one.asked) <= ASKS;
        waiting.retain(|one| asks(one) && sessions.get(&one.id).is_some_and(|s| s.token.strong_count() > 0));
        let packets: u64 = sessions.get(&id).map_or(1, |s| packets(s.to.size)).into();
        let paid = self.paid.max(now) + u64::from(requests) * packets * READERS_PACKET;
        let is_next = waiting.front().is_none_or(|next| next.id == id);
        if is_next && paid <= now + READERS_AHEAD {
            waiting.pop_front();
            self.paid = paid;
            return true;
        }
        if !waiting.iter().any(|one| one.id == id) {
            waiting.push_back(Waiting { id, asked: now });
        }
        false
    }

    /// Takes the replies received since the last call, the oldest first.
    pub(crate) fn take_replies(&mut self, id: u16) -> Vec<Reply> {
        self.sessions.get_mut(&id).map_or_else(Vec::new, |s| s.replies.drain(..).collect())
    }

    /// Ends a ping. Replies that arrive later are dropped. If the ping has already ended, nothing happens.
    pub(crate) fn stop(&mut self, id: u16) {
        self.sessions.remove(&id);
    }

    /// Stores an echo reply for the ping that sent the request. Returns `None` if no ping waits for this reply. `l3` has the bytes of the
    /// reply's first buffer from the IP header on, and `total` the length of the reply in bytes.
    fn note(&mut self, now: u64, l3: &[u8], total: usize) -> Option<()> {
        let ip = header(l3)?;
        // Echo fields are at the same offsets in ICMP and ICMPv6.
        let (icmp, _) = IcmpHeader::split(l3.get(ip.icmp_at..)?)?;
        let s = self.sessions.get_mut(&icmp.echo_id())?;
        if ip.dst != s.source || ip.src != s.to.address {
            return None;
        }
        let at = s.sent.iter().position(|(seq, _)| *seq == icmp.echo_seq())?;
        let (seq, sent) = s.sent.remove(at)?;
        if s.replies.len() >= WAITING {
            s.replies.pop_front();
        }
        s.replies.push_back(Reply {
            seq,
            from: ip.src,
            bytes: total.saturating_sub(ip.icmp_at),
            ttl: ip.hops,
            rtt: Duration::from_nanos(now.saturating_sub(sent)),
        });
        Some(())
    }
}

/// Starts a ping in a VRF. `reader` is true for a viewer or an operator. The ping is active until [`Pings::stop`], or as long as [`Held`]
/// describes.
///
/// # Errors
/// If there is no such VRF, no route covers the destination, the source is not the router's, the router has no address, a request would be
/// too large, or too many pings are active.
pub(crate) fn start(router: &mut Router, table: u32, to: Target, reader: bool) -> Result<Held, RouterError> {
    let fib = router.fib(table)?;
    let source = route::source(router, fib, &to)?;
    let pings = Pings::of(router)?;
    let held = Held { id: pings.free()?, token: Arc::new(()) };
    let (token, sent, replies) = (Arc::downgrade(&held.token), VecDeque::new(), VecDeque::new());
    pings.sessions.insert(held.id, Session { fib, source, to, token, reader, sent, replies });
    Ok(held)
}

/// Sends request number `seq` of a ping. `now` is in nanoseconds of the monotonic clock.
///
/// # Errors
/// If there is no such ping, no buffer is free, or the worker's ring is full.
pub(crate) fn send(router: &mut Router, id: u16, seq: u16, now: u64) -> Result<(), RouterError> {
    let missing = || RouterError::new(format!("there is no ping {id}"));
    let pings = Pings::of(router)?;
    let datagram = pings.datagram.wrapping_add(1);
    let s = pings.sessions.get_mut(&id).ok_or_else(missing)?;
    pings.datagram = datagram;
    let data: Vec<u8> = (0..s.to.size).map(|i| i as u8).collect();
    let (request, node) = match (s.source, s.to.address) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            (PacketBuilder::ipv4(from, to).id(datagram), Ipv4Addr::NODES.lookup)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => (PacketBuilder::ipv6(from, to), Ipv6Addr::NODES.lookup),
        _ => return Err(missing()),
    };
    let request = request.ttl(HOPS).echo_request(id, seq).payload(&data);
    let (fib, by) = (s.fib, s.to.interface);
    if s.sent.len() >= WAITING {
        s.sent.pop_front();
    }
    s.sent.push_back((seq, now));
    let no_buffer = || RouterError::new("no free buffer for the echo request");
    let mut held = router.packet(&request.build()).ok_or_else(no_buffer)?;
    let mut p = held.packet();
    p.set_fib(fib);
    by.into_iter().for_each(|interface| p.set_tx_if(interface));
    if router.send(0, node, held) {
        Ok(())
    } else {
        Err(RouterError::new(
            "the worker is too busy to send the request: its ring from the main thread is full",
        ))
    }
}

/// Handles an echo reply that a worker punted.
///
/// # Errors
/// If no ping waits for the reply.
pub(crate) fn reply(router: &mut Router, now: u64, _: usize, p: &mut Packet<'_>) -> Result<(), Reason> {
    let pings = Pings::of(router).map_err(|_| Reason::NoPing)?;
    pings.note(now, p.bytes(), p.total_len()).ok_or(Reason::NoPing)
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
