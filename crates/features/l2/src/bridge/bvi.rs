//! The router's own interface in a bridge domain: its bridge virtual interface (BVI), a loopback. `l2-bvi` takes the frames that the router
//! sends out of it into the domain. In the other direction, `l2-bridge` and `l2-flood` pass frames to `ethernet-input`.

use std::sync::LazyLock;

use buf::{Flags, Frame};
use graph::{Builder, Cx, FrameNode, GraphError, NoReason, Out, Verdict, edges};
use model::cli::quote;
use model::key::{Key, Kind as ObjectKind, Need};
use model::object::{Effect, Fact, Get, Object, Refused, View, World, refuse_as};
use model::reason::Reason;
use model::schema::{Described, Named, Parsed, Schema, number, text};
use model::tuple::Tuple;
use net::Tables;
use net::interface::{InterfaceKind, InterfaceKindInfo, Kind};
use net::objects::{self, Host, Port};
use net::router::{Hooks, Router, RouterError};

use super::objects::{DOMAIN, IDS};
use super::{BridgePort, Bridges};

/// Name of the node.
const NODE: &str = "l2-bvi";

/// The kind of the link of such an interface.
struct Link(InterfaceKind);

/// Adds the node.
///
/// # Errors
/// If there are too many kinds of interfaces.
pub(super) fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    b.frame(|_| Ok(Output));
    let info = InterfaceKindInfo { name: "bridge domain", node: NODE, point_to_point: false };
    let link = Link(hooks.interface_kind(b, t, info)?);
    hooks.state(|_| Ok(link))?;
    // Its Ethernet address may have changed.
    hooks.on_change(|router, index, _| {
        if let Some((id, group)) = of(router, index)
            && let Ok(mac) = router.interface(index).map(|info| info.mac)
            && let Ok(bridges) = router.state_mut::<Bridges>()
            && bridges.bvi(id) != Some((index, mac))
        {
            // The domain has this interface already.
            let _ = bridges.set_bvi(id, index, mac, group);
        }
    });
    Ok(())
}

/// Returns the domain whose BVI an interface is, and its split-horizon group.
pub(crate) fn of(router: &Router, index: u32) -> Option<(u32, u8)> {
    let port = router.setting::<BridgePort>(index);
    let bridges = router.state::<Bridges>().ok()?;
    let id = bridges.id(port.domain)?;
    bridges.bvi(id).is_some_and(|(interface, _)| interface == index).then_some((id, port.group))
}

/// Makes a loopback the router's own interface in a bridge domain, or changes its split-horizon group.
///
/// # Errors
/// If there is no such domain, if it has another such interface, or if the interface is not a loopback, or is in another domain. Nothing is
/// changed then.
pub fn attach(router: &mut Router, interface: u32, id: u32, group: u8) -> Result<(), RouterError> {
    let kind = router.state::<Link>()?.0;
    let (info, before) = (router.interface(interface)?, of(router, interface));
    if let Some((other, _)) = before.filter(|(other, _)| *other != id) {
        let why = format!("{} is the BVI of bridge domain {other} already", info.name);
        return Err(RouterError::new(why));
    }
    if !matches!(info.kind, Kind::Loopback(_)) {
        return Err(RouterError::new(format!("{} is not a loopback", info.name)));
    }
    let mac = info.mac;
    let (port, was) =
        (router.state_mut::<Bridges>()?.set_bvi(id, interface, mac, group)?, router.setting(interface));
    // The port first: as soon as the loopback has its link, workers need it.
    let set = router.set(interface, port).and_then(|()| router.set_link(interface, Some(kind)));
    if set.is_err() {
        let bridges = router.state_mut::<Bridges>()?;
        let back = match before {
            Some((_, group)) => bridges.set_bvi(id, interface, mac, group).map(drop),
            None => {
                bridges.remove_bvi(id);
                Ok(())
            }
        };
        // This fails only for want of memory.
        let _ = back.and(router.set::<BridgePort>(interface, was));
    }
    set
}

/// Takes a loopback out of its bridge domain.
///
/// # Errors
/// If the interface does not exist, or if its routes cannot be changed.
pub fn detach(router: &mut Router, interface: u32) -> Result<(), RouterError> {
    let Some((id, group)) = of(router, interface) else { return Ok(()) };
    let (mac, was) = (router.interface(interface)?.mac, router.setting::<BridgePort>(interface));
    // The domain first: nothing more comes from the link when it is gone.
    router.state_mut::<Bridges>()?.remove_bvi(id);
    let set = router.set(interface, BridgePort::default()).and_then(|()| router.set_link(interface, None));
    if set.is_err() {
        let back = router.state_mut::<Bridges>()?.set_bvi(id, interface, mac, group).map(drop);
        // This fails only for want of memory.
        let _ = back.and(router.set(interface, was));
    }
    set
}

edges! { pub enum Next { Bridge = "l2-bridge" } }

/// Flags of packets on their way through the router.
const ROUTED: Flags =
    Flags::L2_BROADCAST.or(Flags::L2_MULTICAST).or(Flags::LOCAL_ORIGIN).or(Flags::RECIRCULATED);

/// The node.
struct Output;

impl FrameNode for Output {
    const NAME: &'static str = NODE;
    type Next = Next;
    type Drop = NoReason;
    const TRACE: graph::trace::TraceFn = net::trace::ethernet;

    fn run(&mut self, _: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, NoReason>) {
        for mut p in frame.packets() {
            p.set_rx_if(p.tx_if());
            // These belong to the packet's way through the router, which ends here.
            p.set_flags(p.flags() & !ROUTED);
        }
        frame.forget_uniform_rx();
        out.all(Verdict::Next(Next::Bridge));
    }
}

/// A loopback that is the router's own interface in a bridge domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeBvi {
    /// The domain's number.
    pub bridge: u32,
    /// The split-horizon group. 0 is no group.
    pub group: u8,
}

/// The index of these objects: the domain's number, and the loopback's name.
const BVIS: &str = "bvi";

impl BridgeBvi {
    /// Returns the key of a loopback's membership.
    pub fn key(loopback: &str) -> Key {
        Key::with::<BridgeBvi>(loopback)
    }
}

impl ObjectKind for BridgeBvi {
    /// The loopback's name.
    type Key = String;
    const NAME: &'static str = "bridge-bvi";
    const PHASE: u16 = 116;

    fn title(loopback: &String) -> String {
        format!("the BVI {loopback}")
    }

    fn role(loopback: &String) -> Option<Need> {
        Some(objects::link(loopback))
    }
}

impl<W: Host> Object<W> for BridgeBvi {
    fn validate(
        &self,
        loopback: &String,
        view: &View<'_, W>,
        _: &<W as World>::Abilities,
    ) -> Result<(), Refused> {
        let Port { receives, is_device, .. } = Port::find(loopback, view)?;
        if receives || !is_device {
            let why =
                format!("{loopback} is not a loopback: only a loopback can be the BVI of a bridge domain");
            return refuse_as(Reason::Unfit, why);
        }
        let (id, mut there) = (self.bridge, view.found::<String>(BVIS, Tuple::of(&self.bridge)));
        match there.find(|other| other != loopback) {
            Some(other) => refuse_as(
                Reason::InUse,
                format!(
                    "bridge domain {id} has the BVI {other} already: use \"set interface l3 {}\" first",
                    quote(&other)
                ),
            ),
            None => Ok(()),
        }
    }

    fn apply(&self, loopback: &String, _: Option<&Self>, world: &mut W) -> Result<(), Refused> {
        let index = world.index(loopback)?;
        Ok(attach(world.router(), index, self.bridge, self.group)?)
    }

    fn withdraw(&self, loopback: &String, world: &mut W) -> Result<(), Refused> {
        let index = world.index(loopback)?;
        Ok(detach(world.router(), index)?)
    }

    fn dump(&self, loopback: &String, _: bool) -> Vec<String> {
        let group = if self.group == 0 { String::new() } else { format!(" {}", self.group) };
        vec![format!("set interface l2 bridge {} {} bvi{group}", quote(loopback), self.bridge)]
    }

    fn needs(&self, loopback: &String, to: &mut dyn FnMut(Need)) {
        to(objects::interface(loopback));
        to(Need::new(&DOMAIN, self.bridge));
    }

    /// In another domain, the loopback has another link.
    fn effect(&self, old: &Self) -> Effect {
        if self.bridge == old.bridge { Effect::Stays } else { Effect::Anew }
    }

    fn staying(&self, new: &Self) -> Option<Self> {
        (self.bridge == new.bridge).then(|| self.clone())
    }

    fn facts(&self, loopback: &String, _: Get<'_, W>, to: &mut dyn FnMut(Fact)) {
        to(objects::linked(loopback));
        to(Fact::new(BVIS, (self.bridge, loopback.as_str())));
    }
}

impl Named for BridgeBvi {
    fn names() -> Parsed<String> {
        text("a loopback's name", &["loop0", "loop1"])
    }
}

impl Described for BridgeBvi {
    fn schema() -> &'static Schema<Self> {
        static SCHEMA: LazyLock<Schema<BridgeBvi>> = LazyLock::new(|| {
            Schema::new(BridgeBvi::default())
                .field(
                    "bridge-domain",
                    number(IDS),
                    |b| b.bridge,
                    |b, id| b.bridge = id,
                    "The number of the bridge domain.",
                )
                .needed("the BVI needs a bridge-domain")
                .field(
                    "split-horizon-group",
                    number(0..=u8::MAX),
                    |b| b.group,
                    |b, group| b.group = group,
                    "No frame goes between the BVI and the ports of the same group. 0: no group.",
                )
        });
        &SCHEMA
    }
}
