//! `ip4-options`: handles packets with IPv4 options (RFC 1812 sections 4.2.2.1 and 5.3.13).
//!
//! Writes the address of the transmit interface into record route and timestamp options. The node looks up
//! this interface itself, before the features of the arcs. In a packet for the router itself, it writes the
//! packet's destination address. It drops packets with a source route and reports them to their source. This
//! is the default of RFC 7126 sections 4.3 and 4.4, but not of RFC 1812. It sends router alerts to the node
//! that registered for the packet's protocol. All other options pass unchanged.

use std::net::Ipv4Addr;

use buf::{Frame, Packet};
use graph::{Cx, FrameNode, NoReason, Out, Verdict, edges};
use infra::class_a::SlotReader;
use infra::quiesce::Guard;
use wire::ipv4::{self, Ipv4Header};
use wire::options::{Options, kind, record_route, timestamp};

use super::lookup::{share, through_tables};
use crate::Tables;
use crate::adjacency::Adjacency;
use crate::interface::Interface;
use crate::ip::{Cause, Forwarding, Object, UtcClock};

edges! { pub enum Next { Lookup = "ip4-unicast", Multicast = "ip4-multicast", Report = "ip4-icmp-error" } }

/// The options of a packet that this node handles: for record route and timestamp, where the option starts
/// and ends in the list of options; for all others, whether they occur.
#[derive(Default)]
struct Found {
    record: Option<(usize, usize)>,
    stamp: Option<(usize, usize)>,
    source_route: bool,
    alert: bool,
}

impl Found {
    /// Finds the options in the list `list`.
    ///
    /// # Errors
    /// The offset of the faulty byte: an invalid length, or the start of the second option of a kind that may
    /// occur only once.
    fn among(list: &[u8]) -> Result<Found, usize> {
        let mut found = Found::default();
        for option in Options::of(list) {
            let option = option?;
            let span = (option.at, option.at + option.bytes.len());
            let earlier = match option.kind {
                kind::RECORD_ROUTE => found.record.replace(span),
                kind::TIMESTAMP => found.stamp.replace(span),
                _ => None,
            };
            if earlier.is_some() {
                return Err(option.at);
            }
            found.source_route |= matches!(option.kind, kind::LOOSE_ROUTE | kind::STRICT_ROUTE);
            found.alert |= option.kind == kind::ROUTER_ALERT;
        }
        Ok(found)
    }
}

/// The node `ip4-options`.
pub struct Ip4Options {
    tables: Forwarding<Ipv4Addr>,
    adjacencies: SlotReader<Adjacency>,
    interfaces: SlotReader<Interface>,
    utc: UtcClock,
}

impl Ip4Options {
    pub fn new(t: &Tables) -> Ip4Options {
        Ip4Options {
            tables: t.ip4.clone(),
            adjacencies: t.adjacencies.clone(),
            interfaces: t.interfaces.clone(),
            utc: t.utc.clone(),
        }
    }

    fn one(&self, cx: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Next, NoReason> {
        let h = p.peek::<Ipv4Header>();
        let (header, protocol, dst) = (h.header_len(), h.protocol(), h.dst_u32());
        let list = p.bytes().get(Ipv4Header::LEN..header).unwrap_or(&[]);
        let found = match Found::among(list) {
            Ok(found) if found.source_route => return report(p, Cause::SourceRouteFailed),
            Ok(found) => found,
            Err(at) => return wrong(p, at),
        };
        if found.alert
            && let Some(edge) = self.tables.router_alerts.get(u16::from(protocol))
        {
            return Verdict::Edge(edge);
        }
        if (found.record.is_some() || found.stamp.is_some())
            && let Err(at) = self.write(cx, p, &found)
        {
            return wrong(p, at);
        }
        Verdict::Next(if ipv4::is_multicast(dst) { Next::Multicast } else { Next::Lookup })
    }

    /// Writes this router's address and the time into the options that were found.
    ///
    /// # Errors
    /// The offset of the faulty byte in the list of options.
    fn write(&self, cx: &Cx<'_>, p: &mut Packet<'_>, found: &Found) -> Result<(), usize> {
        let (own, fib) = (self.tables.own.get(cx.guard), p.fib());
        let Some(address) = self.address(cx.guard, p) else { return Ok(()) };
        let header = p.peek::<Ipv4Header>().header_len();
        let Some(list) = p.bytes_mut().get_mut(Ipv4Header::LEN..header) else { return Ok(()) };
        if let Some((from, to)) = found.record
            && let Some(option) = list.get_mut(from..to)
        {
            record_route(option, address).map_err(|at| from + at)?;
        }
        if let Some((from, to)) = found.stamp
            && let Some(option) = list.get_mut(from..to)
        {
            let is_own = |a: Ipv4Addr| own.contains(fib, a.to_bits());
            timestamp(option, self.utc.of_day(cx.now), address, is_own).map_err(|at| from + at)?;
        }
        ipv4::write_checksum(p.bytes_mut());
        Ok(())
    }

    /// Returns the address that this router writes into a packet's options: the packet's destination if this is an address of this router;
    /// for other packets the transmit interface's primary address, or without such an address the router's lowest address in the VRF.
    /// `None` if the packet is neither forwarded nor delivered to this router, or if there is no such address.
    fn address(&self, guard: &Guard, p: &mut Packet<'_>) -> Option<Ipv4Addr> {
        let (own, fib, dst) = (self.tables.own.get(guard), p.fib(), p.peek::<Ipv4Header>().dst_u32());
        if own.contains(fib, dst) {
            return Some(Ipv4Addr::from_bits(dst));
        }
        let mut object = {
            let Forwarding { fibs, objects, .. } = &self.tables;
            through_tables(fibs.get(guard), objects, dst, &mut 0, fib).ok()?
        };
        if let Object::Balance(buckets) = object {
            object = Object::from_word(share::<Ipv4Addr>(&self.tables.balances, guard, p, buckets));
        }
        let interface = match object {
            Object::Adjacency(adjacency) => self.adjacencies.get(guard, adjacency)?.interface,
            Object::Glean(interface) => interface,
            Object::Local => return own.first(fib),
            _ => return None,
        };
        self.interfaces.get(guard, interface).and_then(Interface::primary).or_else(|| own.first(fib))
    }
}

fn report(p: &mut Packet<'_>, cause: Cause) -> Verdict<Next, NoReason> {
    p.set_fwd(cause.to_raw());
    Verdict::Next(Next::Report)
}

/// Returns the verdict for a packet with a fault at offset `at` of its IP options: the fault is reported to the packet's source.
fn wrong(p: &mut Packet<'_>, at: usize) -> Verdict<Next, NoReason> {
    report(p, Cause::ParameterProblem((Ipv4Header::LEN + at) as u16))
}

impl FrameNode for Ip4Options {
    const NAME: &'static str = "ip4-options";
    type Next = Next;
    type Drop = NoReason;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, NoReason>) {
        out.each(frame, |_, p| self.one(cx, p));
    }
}
