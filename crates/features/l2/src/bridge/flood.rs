//! `l2-flood` sends a copy of each frame out of all other ports of its bridge domain.

use buf::{Frame, Held};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::quiesce::Guard;
use net::ethernet::HEADER;
use net::interface::Interface;

use super::table::{BridgePort, Domain};
use crate::node::fits;
use crate::rewrite::{Fault, Plans};

edges! { pub enum Next { Output = "interface-output" } }
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
    pub domains: SlotReader<Domain>,
    pub interfaces: SlotReader<Interface>,
    pub ports: SlotReader<BridgePort>,
    pub plans: SlotReader<Plans>,
}

impl Flood {
    /// Sends a frame out of a port.
    fn send(&self, guard: &Guard, mut held: Held, port: u32, out: &mut Out<'_, Next, Reason>) {
        let plan = self.plans.get(guard, port).copied().unwrap_or_default().tx;
        let Some(mtu) = self.interfaces.get(guard, port).map(|i| usize::from(i.mtu)) else {
            return out.drop(Reason::NoPort, held);
        };
        let mut p = held.packet();
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
        let rx = held.packet().rx_if();
        let from = self.ports.get(cx.guard, rx).copied().unwrap_or_default();
        let members = self.domains.get(cx.guard, from.domain).map_or(&[][..], |domain| &domain.members);
        // An interface that is gone, or has left just now, is no target.
        let is_target = |&(port, group): &(u32, u8)| {
            let joined = self.ports.get(cx.guard, port).is_some_and(|to| to.domain == from.domain);
            joined && port != rx && (group == 0 || group != from.group)
        };
        // The frame itself goes out of the last port.
        let mut last = None;
        for &(port, _) in members.iter().filter(|member| is_target(member)) {
            let Some(to) = last.replace(port) else { continue };
            match held.packet().duplicate(cx.bufs) {
                Some(copy) => self.send(cx.guard, copy, to, out),
                None => out.count(Reason::NoBuffer, 1),
            }
        }
        match last {
            Some(port) => self.send(cx.guard, held, port, out),
            None => out.drop(Reason::NoPort, held),
        }
    }
}
