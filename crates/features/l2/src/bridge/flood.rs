//! `l2-flood` sends a copy of each frame out of all other ports of its bridge domain.

use buf::{Frame, Held};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::counters::Lane;
use infra::quiesce::Guard;
use net::ethernet::HEADER;
use wire::ethernet::EthernetHeader;

use super::node::Domains;
use super::{answer, mac};
use crate::node::fits;
use crate::rewrite::Fault;

edges! { pub enum Next { Output = "interface-output", Bvi = "ethernet-input" } }
reasons! {
    pub enum Reason {
        NoPort = "no-port", Info, "the bridge domain has no other port for the frame";
        FewTags = "too-few-tags", Warn, "a copy of the frame has fewer VLAN tags than the rewriting removes";
        NoHeadroom = "no-headroom", Error, "there is no room for the new VLAN tags in front of a copy of the frame";
        AboveMtu = "above-mtu", Warn, "a copy of the frame is larger than the MTU of its output interface";
        NoBuffer = "no-buffer", Error, counted, "copies that were not made, because no buffer was free";
    }
}

impl From<Fault> for Reason {
    fn from(fault: Fault) -> Reason {
        match fault {
            Fault::FewTags => Reason::FewTags,
            Fault::NoHeadroom => Reason::NoHeadroom,
        }
    }
}

/// The node.
pub(crate) struct Flood {
    pub domains: Domains,
    /// Counts the packets that BVIs receive.
    pub rx: Lane<2>,
}

/// Where a copy goes.
#[derive(Clone, Copy)]
enum To {
    Port(u32),
    Bvi(u32),
}

/// Sends a frame out of a port, or passes it to the BVI.
fn send(
    domains: &Domains,
    rx: &mut Lane<2>,
    guard: &Guard,
    mut held: Held,
    to: To,
    out: &mut Out<'_, Next, Reason>,
) {
    let mut p = held.packet();
    let port = match to {
        To::Port(port) => port,
        To::Bvi(bvi) => {
            p.set_rx_if(bvi);
            rx.add(bvi, [1, p.total_len() as u64]);
            return out.emit(Next::Bvi, held);
        }
    };
    let plan = domains.plans.get(guard, port).copied().unwrap_or_default().tx;
    let Some(mtu) = domains.interfaces.get(guard, port).map(|i| usize::from(i.mtu)) else {
        return out.drop(Reason::NoPort, held);
    };
    if !plan.is_empty()
        && let Err(fault) = plan.apply(&mut p)
    {
        return out.drop(fault.into(), held);
    }
    p.set_tx_if(port);
    if p.total_len() > HEADER + mtu && !fits(&mut p, mtu) {
        return out.drop(Reason::AboveMtu, held);
    }
    out.emit(Next::Output, held);
}

impl FrameNode for Flood {
    const NAME: &'static str = "l2-flood";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = net::trace::ethernet;

    fn run(&mut self, _: &mut Cx<'_>, _: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        out.all(Verdict::Hold);
    }

    fn held(&mut self, cx: &mut Cx<'_>, mut held: Held, out: &mut Out<'_, Next, Reason>) {
        let Flood { domains, rx: received } = self;
        let (guard, rx) = (cx.guard, held.packet().rx_if());
        let from = domains.ports.get(guard, rx).copied().unwrap_or_default();
        let domain = domains.shared.domains.get(guard, from.domain);
        // An interface that is gone or down, or has left just now, is no target.
        let is_target = |port: u32, group: u8| {
            let joined = domains.ports.get(guard, port).is_some_and(|to| to.domain == from.domain);
            let is_up = domains.interfaces.get(guard, port).is_some_and(|interface| interface.up);
            joined && is_up && port != rx && (group == 0 || group != from.group)
        };
        let members = domain.map_or(&[][..], |domain| &domain.members);
        let members = members.iter().filter(|(port, group)| is_target(*port, *group));
        // With a BVI, ARP goes to the port for unknown unicast beside the others.
        let takes_arp = domain.is_some_and(|domain| domain.arp_ufwd && domain.bvi.is_some());
        let uu_fwd = domain.and_then(|domain| domain.uu_fwd).filter(|port| {
            let group = domains.ports.get(guard, *port).map_or(0, |to| to.group);
            takes_arp && is_target(*port, group) && answer::is_arp(&mut held.packet())
        });
        // The BVI is no unknown station.
        let is_group = mac::is_group(mac::number(held.packet().peek::<EthernetHeader>().dst()));
        let bvi = domain.and_then(|domain| domain.bvi);
        let bvi = bvi.filter(|bvi| is_group && is_target(bvi.interface, bvi.group));
        let targets = bvi.map(|bvi| To::Bvi(bvi.interface)).into_iter().chain(uu_fwd.map(To::Port));
        // The frame itself goes to the last target.
        let mut last = None;
        for to in targets.chain(members.map(|(port, _)| To::Port(*port))) {
            let Some(to) = last.replace(to) else { continue };
            match held.packet().duplicate(cx.bufs) {
                Some(copy) => send(domains, received, guard, copy, to, out),
                None => out.count(Reason::NoBuffer, 1),
            }
        }
        match last {
            Some(to) => send(domains, received, guard, held, to, out),
            None => out.drop(Reason::NoPort, held),
        }
    }
}
