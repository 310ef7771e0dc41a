//! `arp-input`: checks ARP packets (RFC 826), and punts relevant packets to the main thread.

use std::fmt::Write;

use std::net::Ipv4Addr;

use buf::Packet;
use graph::trace::Entry;
use graph::{Cx, PacketNode, PuntReason, Verdict, edges, reasons};
use infra::class_a::{Reader, SlotReader, WordReader};
use infra::lpm::LpmLookup;
use wire::Mac;
use wire::arp::{ArpError, ArpPacket, Operation};
use wire::ipv4;

use crate::Tables;
use crate::adjacency::Adjacency;
use crate::interface::Interface;
use crate::ip::{Fibs, Object, OwnAddresses};

edges! { pub enum Next { Punt = "error-punt" } }
reasons! {
    pub enum Reason {
        Short = "too-short", Error, "the packet is shorter than an ARP packet";
        Hardware = "bad-hardware", Error, "the hardware type is not Ethernet, or its address length is not 6";
        Protocol = "bad-protocol", Error, "the protocol type is not IPv4, or its address length is not 4";
        Operation = "bad-operation", Error, "the packet is neither a request nor a reply";
        BadMac = "bad-sender-mac", Error, "the sender's Ethernet address is multicast or zero";
        BadIp = "bad-sender-ip", Error, "the sender's IPv4 address is no host address: 127/8, multicast, or broadcast";
        Echo = "own-packet", Warn, "the packet is this router's own and came back: the link has a loop";
        NotForUs = "not-for-us", Info, counted, "a request for an address that is not this router's";
    }
}

/// Punt reasons of ARP packets. There are several so that a flood of packets of one kind does not block packets of other kinds.
#[derive(Clone, Copy)]
pub struct Punts {
    /// Requests for an address of this router. On an interface with proxy ARP, requests for any host.
    pub request: PuntReason,
    /// Replies, announcements, and requests from a known neighbor with a new Ethernet address.
    pub reply: PuntReason,
    /// Another station claims an address of this router.
    pub conflict: PuntReason,
}

pub struct ArpInput {
    interfaces: SlotReader<Interface>,
    own: Reader<OwnAddresses<Ipv4Addr>>,
    fibs: Reader<Fibs<Ipv4Addr>>,
    objects: WordReader,
    adjacencies: SlotReader<Adjacency>,
    punts: Punts,
}

impl ArpInput {
    pub fn new(t: &Tables, punts: Punts) -> ArpInput {
        ArpInput {
            interfaces: t.interfaces.clone(),
            own: t.ip4.own.clone(),
            fibs: t.ip4.fibs.clone(),
            objects: t.ip4.objects.clone(),
            adjacencies: t.adjacencies.clone(),
            punts,
        }
    }

    /// True if the sender is a resolved neighbor whose Ethernet address differs from the known one. RFC 826
    /// then requires an update of the entry, whatever the target address is.
    fn is_news(&self, cx: &Cx<'_>, rx_if: u32, fib: u16, sender: u32, mac: Mac) -> bool {
        let Some(table) = self.fibs.get(cx.guard).get(fib) else { return false };
        let found = Object::adjacency(self.objects.get(table.lookup(sender)));
        let Some(known) = found.and_then(|index| self.adjacencies.get(cx.guard, index)) else { return false };
        let Some(rewrite) = &known.rewrite else { return false };
        known.interface == rx_if
            && known.next_hop == Ipv4Addr::from_bits(sender)
            && !rewrite.bytes().starts_with(&mac.0)
    }
}

impl PacketNode for ArpInput {
    const NAME: &'static str = "arp-input";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = trace;

    #[inline(always)]
    fn one(&mut self, cx: &Cx<'_>, p: &mut Packet<'_>) -> Verdict<Next, Reason> {
        let (rx_if, fib) = (p.rx_if(), p.fib());
        let Some(arp) = p.head::<ArpPacket>() else { return Verdict::Drop(Reason::Short) };
        let op = match arp.check() {
            Ok(op) => op,
            Err(ArpError::Hardware) => return Verdict::Drop(Reason::Hardware),
            Err(ArpError::Protocol) => return Verdict::Drop(Reason::Protocol),
            Err(ArpError::Operation) => return Verdict::Drop(Reason::Operation),
        };
        if !arp.sender_mac().is_unicast() {
            return Verdict::Drop(Reason::BadMac);
        }
        let (sender, target, mac) = (arp.sender_ip_u32(), arp.target_ip_u32(), arp.sender_mac());
        if ipv4::is_martian_source(sender) {
            return Verdict::Drop(Reason::BadIp);
        }
        if self.interfaces.get(cx.guard, rx_if).is_some_and(|i| i.mac == arp.sender_mac()) {
            return Verdict::Drop(Reason::Echo);
        }
        let own = self.own.get(cx.guard);
        let reason = if own.contains(fib, sender) {
            self.punts.conflict
        } else if op == Operation::Reply || arp.is_gratuitous() {
            self.punts.reply
        } else if own.contains(fib, target) {
            self.punts.request
        } else if self.is_news(cx, rx_if, fib, sender, mac) {
            self.punts.reply
        } else if op == Operation::Request
            && is_host(target)
            && self.interfaces.get(cx.guard, rx_if).is_some_and(|i| i.proxy)
        {
            self.punts.request
        } else {
            return Verdict::Ignore(Reason::NotForUs);
        };
        p.set_fwd(reason.0);
        Verdict::Next(Next::Punt)
    }
}

/// True for an address that a host can have. A proxy must not answer for groups, broadcasts, loopback or 0.0.0.0, although a
/// default route covers them, too.
#[inline(always)]
fn is_host(address: u32) -> bool {
    !ipv4::is_martian_source(address) && !ipv4::is_unspecified(address)
}

fn trace(e: &Entry, text: &mut String) {
    let Some((arp, _)) = ArpPacket::split(e.bytes_before()) else { return };
    let what = match arp.check() {
        Ok(Operation::Request) => "request".to_string(),
        Ok(Operation::Reply) => "reply".to_string(),
        Err(e) => e.to_string(),
    };
    let (sender, target) = ((arp.sender_mac(), arp.sender_ip()), (arp.target_mac(), arp.target_ip()));
    let _ = write!(text, "{what}\n{}/{} -> {}/{}", sender.0, sender.1, target.0, target.1);
}
