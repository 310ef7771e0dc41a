//! `ethernet-input`: the MAC filter, VLAN tags, and dispatch by EtherType.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use buf::{Flags, Frame, Packet};
use graph::{Cx, EdgeId, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::counters::Lane;
use infra::quiesce::Guard;
use wire::ethernet::{EthernetHeader, VlanTag, ethertype};

use super::straight::{THROUGH, straight};
use crate::Tables;
use crate::ethernet::{HEADER, TAG, Tags};
use crate::interface::Interface;
use crate::nodes::ip::straight::Straight;
use crate::registry::Registry;

reasons! {
    pub enum Reason {
        Runt = "runt", Error, "the frame is shorter than an Ethernet header";
        NotForUs = "not-for-us", Info, "the destination address is neither the interface's nor a group address";
        UnknownType = "unknown-ethertype", Info, "the EtherType is not supported";
        GroupType = "group-ethertype", Info, counted, "the frame is to a group address, and its EtherType is not supported (LLDP, spanning tree)";
        UnknownVlan = "unknown-vlan", Info, "no sub-interface has the frame's VLAN tags";
        Down = "interface-down", Info, "the frame's input interface is down";
    }
}

edges! {
    /// The edges for packets that the node takes further itself. The edges to the nodes of EtherTypes are in [`Tables::ethertypes`].
    pub enum Next {
        Lookup4 = "ip4-unicast",
        Rewrite4 = "ip4-rewrite",
        Output4 = "ip4-output",
        Lookup6 = "ip6-unicast",
        Rewrite6 = "ip6-rewrite",
        Output6 = "ip6-output",
    }
}

pub struct EthernetInput {
    checks: Checks,
    ip4: Straight<Ipv4Addr>,
    ip6: Straight<Ipv6Addr>,
}

impl EthernetInput {
    pub fn new(t: &Tables, worker: usize) -> io::Result<EthernetInput> {
        let checks = Checks::new(t, worker)?;
        Ok(EthernetInput { checks, ip4: Straight::new(t, worker)?, ip6: Straight::new(t, worker)? })
    }
}

/// The tables for the checks of frames.
pub(super) struct Checks {
    ethertypes: Registry,
    modes: Registry,
    interfaces: SlotReader<Interface>,
    /// Counts packets received on sub-interfaces. Input nodes count those received on devices.
    sub_rx: Lane<2>,
}

/// The properties of an interface that the filter needs.
#[derive(Clone, Copy)]
struct Port {
    interface: u32,
    /// The interface's Ethernet address as a word. [`NO_STATION`] if the interface is not routed or if a sub-interface takes its untagged
    /// frames, so that no frame matches.
    mac: u64,
    fib: u16,
    up: bool,
    /// The edge for the interface's frames if it is in a port mode instead of routed.
    mode: Option<EdgeId>,
    /// The sub-interface for the device's untagged frames, if it has one.
    untagged: Option<u32>,
}

/// A value of [`Port::mac`] that matches no destination address.
pub(super) const NO_STATION: u64 = u64::MAX;
/// A number that no EtherType has.
const NO_TYPE: u32 = u32::MAX;

/// The properties of a receive interface by which nearly all of its frames get the usual verdict at once: their destination is `station`.
/// [`Checks::checked`] handles all other frames.
#[derive(Clone, Copy)]
pub(super) struct Usual {
    pub(super) interface: u32,
    /// The port's address, [`Port::mac`]. [`NO_STATION`] if the port is down.
    pub(super) station: u64,
    pub(super) fib: u16,
}

impl Checks {
    fn new(t: &Tables, worker: usize) -> io::Result<Checks> {
        let (ethertypes, modes, interfaces) =
            (t.ethertypes.clone(), t.port_modes.clone(), t.interfaces.clone());
        Ok(Checks { ethertypes, modes, interfaces, sub_rx: t.counters.rx.lane(worker)? })
    }

    fn port(&self, guard: &Guard, interface: u32) -> Port {
        let Some(i) = self.interfaces.get(guard, interface) else {
            return Port { interface, mac: NO_STATION, fib: 0, up: false, mode: None, untagged: None };
        };
        let mode = i.mode.and_then(|mode| self.modes.get(mode.number.into()));
        let untagged = i.vlans.untagged().filter(|_| !i.mode.is_some_and(|mode| mode.whole));
        let mac = if mode.is_some() || untagged.is_some() { NO_STATION } else { i.mac.to_word() };
        Port { interface, mac, fib: i.fib, up: i.up, mode, untagged }
    }

    /// Returns the properties by which nearly all frames of an interface are handled at once.
    #[inline(always)]
    fn usual_of(&self, guard: &Guard, interface: u32) -> Usual {
        let Port { interface, mac, fib, up, .. } = self.port(guard, interface);
        Usual { interface, station: if up { mac } else { NO_STATION }, fib }
    }

    /// As [`usual_of`](Self::usual_of), but never inlined: the loop over the packets is faster without these instructions.
    #[inline(never)]
    pub(super) fn next_usual(&self, guard: &Guard, interface: u32) -> Usual {
        self.usual_of(guard, interface)
    }

    /// Makes all checks of a frame. Sets `subs` if the frame may belong to a sub-interface.
    #[inline(never)]
    pub(super) fn checked(
        &mut self,
        guard: &Guard,
        p: &mut Packet<'_>,
        subs: &mut bool,
    ) -> Verdict<Next, Reason> {
        let port = self.port(guard, p.rx_if());
        if !port.up {
            return Verdict::Drop(Reason::Down);
        }
        let Some(kind) = p.head::<EthernetHeader>().map(|h| h.ethertype()) else {
            return Verdict::Drop(Reason::Runt);
        };
        let tagged = ethertype::is_vlan(kind);
        *subs |= tagged || port.untagged.is_some();
        if tagged {
            return self.tagged(guard, p, port, kind);
        }
        self.untagged(guard, p, port, kind, HEADER)
    }

    /// Handles a frame with VLAN tags: finds its sub-interface and skips the tags.
    #[cold]
    fn tagged(
        &mut self,
        guard: &Guard,
        p: &mut Packet<'_>,
        device: Port,
        outer: u16,
    ) -> Verdict<Next, Reason> {
        if p.len() < HEADER + TAG {
            return match device.mode {
                Some(edge) => Verdict::Edge(edge),
                None => Verdict::Drop(Reason::Runt),
            };
        }
        let tag = *p.peek_at::<VlanTag>(HEADER);
        if tag.vid() == 0 && !ethertype::is_vlan(tag.ethertype()) {
            // A priority tag (802.1Q clause 6.9): the frame belongs to no VLAN.
            return self.untagged(guard, p, device, tag.ethertype(), HEADER + TAG);
        }
        let mut tags = Tags { outer_service: outer != ethertype::VLAN, outer: tag.vid(), inner: None };
        let (mut inner_type, mut header) = (tag.ethertype(), HEADER + TAG);
        if inner_type == ethertype::VLAN && p.len() >= HEADER + 2 * TAG {
            let tag = *p.peek_at::<VlanTag>(HEADER + TAG);
            tags.inner = Some(tag.vid());
            (inner_type, header) = (tag.ethertype(), HEADER + 2 * TAG);
        }
        let found =
            self.interfaces.get(guard, device.interface).filter(|d| !d.mode.is_some_and(|mode| mode.whole));
        let found = found.and_then(|d| d.vlans.get(tags));
        let Some(sub) = found else {
            return match device.mode {
                Some(_) => self.filter(p, device, outer, HEADER),
                None => Verdict::Drop(Reason::UnknownVlan),
            };
        };
        self.taken(guard, p, sub, inner_type, header)
    }

    /// Handles a frame without VLAN tags, or with only a priority tag, that did not get the [usual](Self::usual) verdict at once.
    #[cold]
    fn untagged(
        &mut self,
        guard: &Guard,
        p: &mut Packet<'_>,
        device: Port,
        ethertype: u16,
        header: usize,
    ) -> Verdict<Next, Reason> {
        match device.untagged {
            Some(sub) => self.taken(guard, p, sub, ethertype, header),
            None => self.filter(p, device, ethertype, header),
        }
    }

    /// Handles a frame that belongs to the sub-interface `sub`.
    fn taken(
        &mut self,
        guard: &Guard,
        p: &mut Packet<'_>,
        sub: u32,
        ethertype: u16,
        header: usize,
    ) -> Verdict<Next, Reason> {
        let port = self.port(guard, sub);
        if !port.up {
            return Verdict::Drop(Reason::Down);
        }
        self.sub_rx.add(sub, [1, p.total_len() as u64]);
        p.set_rx_if(sub);
        self.filter(p, port, ethertype, header)
    }

    /// Marks frames to group addresses, drops frames to other stations, and passes all others to their protocol's node. If the interface is
    /// in a port mode, all frames go to the mode's node instead.
    #[cold]
    fn filter(&self, p: &mut Packet<'_>, port: Port, ethertype: u16, header: usize) -> Verdict<Next, Reason> {
        if let Some(edge) = port.mode {
            return Verdict::Edge(edge);
        }
        let h = p.peek::<EthernetHeader>();
        if h.dst_word() != port.mac {
            let dst = h.dst();
            let flag = match dst {
                _ if dst.is_broadcast() => Flags::L2_BROADCAST,
                _ if dst.is_multicast() => Flags::L2_MULTICAST,
                _ => return Verdict::Drop(Reason::NotForUs),
            };
            p.set_flags(p.flags() | flag);
        }
        match self.ethertypes.get(ethertype) {
            Some(edge) if accept(p, port.fib, header) => Verdict::Edge(edge),
            Some(_) => Verdict::Drop(Reason::Runt),
            // Frames to group addresses are announcements to every station that supports the protocol, for example LLDP.
            None if p.flags().any(Flags::L2_BROADCAST | Flags::L2_MULTICAST) => {
                Verdict::Ignore(Reason::GroupType)
            }
            None => Verdict::Drop(Reason::UnknownType),
        }
    }

    /// Returns the verdict for a frame to the station of its port, with another EtherType than most, such as IPv6 beside IPv4. `None` if the
    /// frame must be [`checked`](Self::checked). VLAN tags are no EtherType of a node.
    #[inline(always)]
    pub(super) fn other_type(
        &self,
        p: &mut Packet<'_>,
        port: &Usual,
        ethertype: u16,
    ) -> Option<Verdict<Next, Reason>> {
        let edge = self.ethertypes.get(ethertype)?;
        accept(p, port.fib, HEADER).then_some(Verdict::Edge(edge))
    }

    /// Returns the EtherType that most frames of a vector probably have, and the verdict for frames with this EtherType. `first` is
    /// the EtherType of the vector's first frame. Frames with other EtherTypes cost more. [`NO_TYPE`] if not even IPv4 has a node.
    #[inline(always)]
    fn usual(&self, first: u16) -> (u32, Verdict<Next, Reason>) {
        let of = |kind| self.ethertypes.get(kind).map(|edge| (u32::from(kind), Verdict::Edge(edge)));
        of(first).or_else(|| of(ethertype::IPV4)).unwrap_or((NO_TYPE, Verdict::Drop(Reason::UnknownType)))
    }

    /// Returns the edge of a frame's port mode, if all packets of the frame take it: no packet belongs to a sub-interface or is too
    /// short.
    #[cold]
    #[inline(never)]
    fn whole(&self, guard: &Guard, frame: &mut Frame) -> Option<EdgeId> {
        let port = self.interfaces.get(guard, frame.uniform_rx()?)?;
        let mode = port.mode?;
        let edge = self.modes.get(mode.number.into())?;
        let all = port.up && (mode.whole || port.vlans.is_empty());
        (all && frame.packets().fold(usize::MAX, |least, p| least.min(p.len())) >= HEADER).then_some(edge)
    }

    /// As [`usual`](Self::usual), for a port whose frames must all be checked one by one. If the port is in a port mode, most frames go to
    /// the mode's edge, so this edge is the usual verdict. The EtherType is then [`NO_TYPE`], so that no frame of another port in the
    /// vector takes this edge. In all other cases, returns `usual`, which is the result for other ports.
    #[cold]
    #[inline(never)]
    fn usual_of_port(
        &self,
        guard: &Guard,
        interface: u32,
        usual: (u32, Verdict<Next, Reason>),
    ) -> (u32, Verdict<Next, Reason>) {
        self.port(guard, interface).mode.map_or(usual, |edge| (NO_TYPE, Verdict::Edge(edge)))
    }
}

/// Prepares a packet for its protocol's node by skipping `header` bytes. Returns false, without a change, if the packet is too short.
#[inline(always)]
pub(super) fn accept(p: &mut Packet<'_>, fib: u16, header: usize) -> bool {
    if !p.advance(header) {
        return false;
    }
    p.mark_l3(header as u8);
    p.set_fib(fib);
    true
}

impl FrameNode for EthernetInput {
    const NAME: &'static str = "ethernet-input";
    const THROUGH: &'static [&'static str] = THROUGH;
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ethernet;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let EthernetInput { checks, ip4, ip6 } = self;
        let Some(mut first) = frame.get(0) else { return };
        let port = checks.usual_of(cx.guard, first.rx_if());
        let kind = first.peek::<EthernetHeader>().ethertype();
        let mut usual = checks.usual(kind);
        if port.station == NO_STATION {
            if let Some(edge) = checks.whole(cx.guard, frame) {
                return out.all(Verdict::Edge(edge));
            }
            usual = checks.usual_of_port(cx.guard, port.interface, usual);
        }
        let went = match kind {
            ethertype::IPV4 => straight(checks, ip4, port, usual, cx, frame, out),
            ethertype::IPV6 => straight(checks, ip6, port, usual, cx, frame, out),
            _ => None,
        };
        let subs = went.unwrap_or_else(|| by_type(checks, port, usual, cx, frame, out));
        if subs {
            frame.forget_uniform_rx();
        }
    }
}

/// Sends each packet of a frame to the node for its EtherType. Returns true if frames may belong to sub-interfaces. `usual` is the EtherType
/// of most packets, with its verdict.
#[inline(always)]
fn by_type(
    checks: &mut Checks,
    mut port: Usual,
    (kind, usual): (u32, Verdict<Next, Reason>),
    cx: &Cx<'_>,
    frame: &mut Frame,
    out: &mut Out<'_, Next, Reason>,
) -> bool {
    let mut subs = false;
    out.mostly(usual, frame, |_, p| {
        if p.rx_if() != port.interface {
            port = checks.next_usual(cx.guard, p.rx_if());
        }
        // In a frame that is too short, the header is old data, and `accept` returns false.
        let header = p.peek::<EthernetHeader>();
        let (ethertype, dst) = (header.ethertype(), header.dst_word());
        if dst == port.station {
            if u32::from(ethertype) == kind && accept(p, port.fib, HEADER) {
                return None;
            }
            if let Some(verdict) = checks.other_type(p, &port, ethertype) {
                return Some(verdict);
            }
        }
        let verdict = checks.checked(cx.guard, &mut p.again(), &mut subs);
        (verdict != usual).then_some(verdict)
    });
    subs
}
