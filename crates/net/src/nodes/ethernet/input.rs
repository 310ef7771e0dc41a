//! `ethernet-input`: the MAC filter, VLAN tags, and dispatch by EtherType.

use std::io;

use buf::{Flags, Frame, Packet};
use graph::{Cx, EdgeId, FrameNode, NoNext, Out, Verdict, reasons};
use infra::class_a::SlotReader;
use infra::counters::Lane;
use infra::quiesce::Guard;
use wire::ethernet::{EthernetHeader, VlanTag, ethertype};

use crate::Tables;
use crate::ethernet::{HEADER, TAG, Tags};
use crate::interface::Interface;
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

pub struct EthernetInput {
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
const NO_STATION: u64 = u64::MAX;
/// A number that no EtherType has.
const NO_TYPE: u32 = u32::MAX;

/// The properties of a receive interface by which nearly all of its frames get the usual verdict at once: their destination is `station`.
/// [`EthernetInput::checked`] handles all other frames.
#[derive(Clone, Copy)]
struct Plain {
    interface: u32,
    /// The port's address, [`Port::mac`]. [`NO_STATION`] if the port is down.
    station: u64,
    fib: u16,
}

impl EthernetInput {
    pub fn new(t: &Tables, worker: usize) -> io::Result<EthernetInput> {
        let (ethertypes, modes, interfaces) =
            (t.ethertypes.clone(), t.port_modes.clone(), t.interfaces.clone());
        Ok(EthernetInput { ethertypes, modes, interfaces, sub_rx: t.counters.rx.lane(worker)? })
    }

    fn port(&self, guard: &Guard, interface: u32) -> Port {
        let Some(i) = self.interfaces.get(guard, interface) else {
            return Port { interface, mac: NO_STATION, fib: 0, up: false, mode: None, untagged: None };
        };
        let mode = i.mode.and_then(|mode| self.modes.get(mode.number.into()));
        let untagged = i.vlans.untagged();
        let mac = if mode.is_some() || untagged.is_some() { NO_STATION } else { i.mac.to_word() };
        Port { interface, mac, fib: i.fib, up: i.up, mode, untagged }
    }

    /// Returns the properties by which nearly all frames of an interface are handled at once.
    #[inline(always)]
    fn plain(&self, guard: &Guard, interface: u32) -> Plain {
        let Port { interface, mac, fib, up, .. } = self.port(guard, interface);
        Plain { interface, station: if up { mac } else { NO_STATION }, fib }
    }

    /// As [`plain`](Self::plain), but never inlined: the loop over the packets is faster without these instructions.
    #[inline(never)]
    fn next_plain(&self, guard: &Guard, interface: u32) -> Plain {
        self.plain(guard, interface)
    }

    /// Makes all checks of a frame. Sets `subs` if the frame may belong to a sub-interface.
    #[inline(never)]
    fn checked(&mut self, guard: &Guard, p: &mut Packet<'_>, subs: &mut bool) -> Verdict<NoNext, Reason> {
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
    ) -> Verdict<NoNext, Reason> {
        if p.len() < HEADER + TAG {
            return Verdict::Drop(Reason::Runt);
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
        let found = self.interfaces.get(guard, device.interface).and_then(|d| d.vlans.get(tags));
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
    ) -> Verdict<NoNext, Reason> {
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
    ) -> Verdict<NoNext, Reason> {
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
    fn filter(
        &self,
        p: &mut Packet<'_>,
        port: Port,
        ethertype: u16,
        header: usize,
    ) -> Verdict<NoNext, Reason> {
        let h = p.peek::<EthernetHeader>();
        if h.dst_word() != port.mac {
            let dst = h.dst();
            let flag = match dst {
                _ if dst.is_broadcast() => Flags::L2_BROADCAST,
                _ if dst.is_multicast() => Flags::L2_MULTICAST,
                _ if port.mode.is_some() => Flags::NONE,
                _ => return Verdict::Drop(Reason::NotForUs),
            };
            p.set_flags(p.flags() | flag);
        }
        if let Some(edge) = port.mode {
            return Verdict::Edge(edge);
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

    /// Returns the EtherType that most frames of a vector probably have, and the verdict for frames with this EtherType. `first` is
    /// the EtherType of the vector's first frame. Frames with other EtherTypes cost more. [`NO_TYPE`] if not even IPv4 has a node.
    #[inline(always)]
    fn usual(&self, first: u16) -> (u32, Verdict<NoNext, Reason>) {
        let of = |kind| self.ethertypes.get(kind).map(|edge| (u32::from(kind), Verdict::Edge(edge)));
        of(first).or_else(|| of(ethertype::IPV4)).unwrap_or((NO_TYPE, Verdict::Drop(Reason::UnknownType)))
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
        usual: (u32, Verdict<NoNext, Reason>),
    ) -> (u32, Verdict<NoNext, Reason>) {
        self.port(guard, interface).mode.map_or(usual, |edge| (NO_TYPE, Verdict::Edge(edge)))
    }
}

/// Prepares a packet for its protocol's node by skipping `header` bytes. Returns false, without a change, if the packet is too short.
#[inline(always)]
fn accept(p: &mut Packet<'_>, fib: u16, header: usize) -> bool {
    if !p.advance(header) {
        return false;
    }
    p.mark_l3(header as u8);
    p.set_fib(fib);
    true
}

impl FrameNode for EthernetInput {
    const NAME: &'static str = "ethernet-input";
    type Next = NoNext;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::ethernet;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, NoNext, Reason>) {
        let Some(mut first) = frame.get(0) else { return };
        let mut plain = self.plain(cx.guard, first.rx_if());
        let mut usual = self.usual(first.peek::<EthernetHeader>().ethertype());
        if plain.station == NO_STATION {
            usual = self.usual_of_port(cx.guard, plain.interface, usual);
        }
        let (kind, usual) = usual;
        let mut subs = false;
        out.mostly(usual, frame, |_, p| {
            if p.rx_if() != plain.interface {
                plain = self.next_plain(cx.guard, p.rx_if());
            }
            // In a frame that is too short, the header is old data, and `accept` returns false.
            let header = p.peek::<EthernetHeader>();
            let (ethertype, dst) = (header.ethertype(), header.dst_word());
            if dst == plain.station {
                if u32::from(ethertype) == kind && accept(p, plain.fib, HEADER) {
                    return None;
                }
                // Another protocol, such as IPv6 beside IPv4. VLAN tags are no protocol.
                if let Some(edge) = self.ethertypes.get(ethertype)
                    && accept(p, plain.fib, HEADER)
                {
                    return Some(Verdict::Edge(edge));
                }
            }
            let verdict = self.checked(cx.guard, &mut p.again(), &mut subs);
            (verdict != usual).then_some(verdict)
        });
        if subs {
            frame.forget_uniform_rx();
        }
    }
}
