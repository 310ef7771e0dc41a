//! `l2-xconnect` sends the frames received on an interface out of its peer. Only VLAN tags change, if that is configured.
//!
//! A frame larger than the peer's MTU is dropped, because there is nobody to report it to.

use buf::{Flags, Frame, Packet};
use graph::{Builder, Cx, FrameNode, GraphError, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::quiesce::Guard;
use net::Tables;
use net::ethernet::{HEADER, PortMode, PortModeInfo, TAG};
use net::interface::{Interface, Kind};
use net::router::{Hooks, Router, RouterError};
use net::setting::{Setting, Switch};
use wire::ethernet::{EthernetHeader, VlanTag, ethertype};

use crate::rewrite::{Fault, Plan, Plans};

/// Name of the node.
pub(crate) const NODE: &str = "l2-xconnect";

/// The interface that sends the frames received on an interface. `None` if the interface is not cross-connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer(pub Option<u32>);

impl Setting for Peer {
    type Counts = ();
    const COUNTED: &'static str = "/feature/l2-xconnect";

    fn switches(&self) -> Vec<Switch> {
        Vec::new()
    }
}

/// The port modes of this feature.
struct Modes {
    xconnect: PortMode,
    patch: PortMode,
}

/// What a connection does with the frames of a device's sub-interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A cross-connect: sub-interfaces receive the frames with their tags.
    CrossConnect,
    /// A patch between devices: it takes all frames.
    Patch,
}

/// Adds the node.
///
/// # Errors
/// Fails if address space for the table of settings cannot be reserved, or if there are too many port modes.
pub fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let (interfaces, peers, plans) =
        (t.interfaces.clone(), hooks.setting::<Peer>()?, hooks.setting::<Plans>()?);
    b.frame(move |_| {
        let (interfaces, peers, plans) = (interfaces.clone(), peers.values.clone(), plans.values.clone());
        Ok(Xconnect { interfaces, peers, plans })
    });
    let mut mode = |name, whole| hooks.port_mode(b, t, PortModeInfo { name, node: NODE, whole });
    let modes = Modes { xconnect: mode("cross-connect", false)?, patch: mode("patch", true)? };
    hooks.state(|_| Ok(modes)).map(drop)
}

/// Sends the frames received on the interface `from` out of the interface `to`.
///
/// # Errors
/// If an interface does not exist or has no Ethernet frames, or if `from` is in another port mode. For a patch, also if an interface is
/// not a device. Nothing is changed then.
pub fn connect(router: &mut Router, way: Way, from: u32, to: u32) -> Result<(), RouterError> {
    let modes = router.state::<Modes>()?;
    let mode = if way == Way::Patch { modes.patch } else { modes.xconnect };
    for index in [from, to] {
        let info = router.interface(index)?;
        let why = match info.kind {
            _ if index == to && !info.kind.has_neighbors() => "sends no Ethernet frames",
            kind if way == Way::Patch && kind != Kind::Device => {
                "is not a device: a patch is between devices"
            }
            _ => continue,
        };
        return Err(RouterError::new(format!("{} {why}", info.name)));
    }
    let before = router.setting::<Peer>(from);
    // The peer first: as soon as the interface is in the mode, workers need it.
    router.set(from, Peer(Some(to)))?;
    if let Err(e) = router.set_port_mode(from, Some(mode)) {
        router.set(from, before)?;
        return Err(e);
    }
    Ok(())
}

/// Routes the packets received on an interface again.
///
/// # Errors
/// If the interface does not exist.
pub fn disconnect(router: &mut Router, from: u32) -> Result<(), RouterError> {
    router.set_port_mode(from, None)?;
    router.set(from, Peer(None))
}

edges! { pub enum Next { Output = "interface-output" } }
reasons! {
    pub enum Reason {
        NoPeer = "no-peer", Info, "the interface's cross-connect was removed while the frame was on its way";
        FewTags = "too-few-tags", Warn, "the frame has fewer VLAN tags than the rewriting removes";
        NoHeadroom = "no-headroom", Error, "there is no room for the new VLAN tags in front of the frame";
        AboveMtu = "above-mtu", Warn, "the frame is larger than the MTU of the cross-connect's output interface";
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

pub struct Xconnect {
    interfaces: SlotReader<Interface>,
    peers: SlotReader<Peer>,
    plans: SlotReader<Plans>,
}

/// The output of one interface's frames.
#[derive(Clone, Copy)]
struct To {
    interface: u32,
    /// The output interface's MTU in bytes, without the Ethernet header.
    mtu: usize,
    /// How the tags change.
    plan: Plan,
}

impl Xconnect {
    #[inline(never)]
    fn find(&self, guard: &Guard, rx: u32) -> Option<To> {
        let interface = self.peers.get(guard, rx)?.0?;
        let mtu = self.interfaces.get(guard, interface)?.mtu;
        let plans = |index| self.plans.get(guard, index).copied().unwrap_or_default();
        let is_patch = self.interfaces.get(guard, rx).and_then(|i| i.mode).is_some_and(|mode| mode.whole);
        let plan = if is_patch { Plan::default() } else { plans(rx).rx.then(&plans(interface).tx) };
        Some(To { interface, mtu: mtu.into(), plan })
    }
}

/// True if a frame that is larger than an untagged frame of the MTU fits nevertheless: its VLAN tags do not count, nor does the length of a
/// frame that will be segmented.
#[cold]
#[inline(never)]
pub(crate) fn fits(p: &mut Packet<'_>, mtu: usize) -> bool {
    let mut len = p.total_len();
    if p.flags().any(Flags::GSO)
        && let Some(gso) = p.cold().gso()
    {
        len = usize::from(gso.header_len) + usize::from(gso.size);
    }
    let (mut header, mut kind) = (HEADER, p.peek::<EthernetHeader>().ethertype());
    while ethertype::is_vlan(kind) && header < HEADER + 2 * TAG && p.len() >= header + TAG {
        kind = p.peek_at::<VlanTag>(header).ethertype();
        header += TAG;
    }
    len <= header + mtu
}

impl FrameNode for Xconnect {
    const NAME: &'static str = NODE;
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = net::trace::ethernet;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let Some(first) = frame.get(0).map(|p| p.rx_if()) else { return };
        let (mut rx, mut to) = (first, self.find(cx.guard, first));
        out.mostly(Verdict::Next(Next::Output), frame, |_, p| {
            if p.rx_if() != rx {
                rx = p.rx_if();
                to = self.find(cx.guard, rx);
            }
            let Some(to) = &to else { return Some(Verdict::Drop(Reason::NoPeer)) };
            if !to.plan.is_empty()
                && let Err(fault) = to.plan.apply(&mut p.again())
            {
                return Some(Verdict::Drop(fault.into()));
            }
            p.set_tx_if(to.interface);
            if p.total_len() > HEADER + to.mtu && !fits(&mut p.again(), to.mtu) {
                return Some(Verdict::Drop(Reason::AboveMtu));
            }
            None
        });
    }
}
