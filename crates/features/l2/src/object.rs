//! Cross-connects and patches as objects of the configuration, by the interface that receives the frames.

use model::cli::quote;
use model::key::{Key, Kind, Need};
use model::object::{Fact, Get, Object, Refused, View, World, refuse_as};
use model::reason::Reason;
use model::schema::{Parsed, Valued, text};
use net::feature::{App, Registrar, Section};
use net::objects::{self, Host};
use net::router::Router;

use crate::node::{Peer, Way, connect, disconnect};

/// An interface whose received frames are sent out of another interface, with this name. `PATCH` is true for a [patch](Way::Patch).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection<const PATCH: bool>(pub String);

/// A connection that leaves the frames of sub-interfaces to them.
pub type CrossConnect = Connection<false>;
/// A connection of devices, with all their frames.
pub type Patch = Connection<true>;

impl<const PATCH: bool> Kind for Connection<PATCH> {
    /// The name of the receiving interface.
    type Key = String;
    const NAME: &'static str = if PATCH { "l2-patch" } else { "cross-connect" };
    const PHASE: u16 = 115;

    fn title(from: &String) -> String {
        format!("the {} of {from}", if PATCH { "patch" } else { "cross-connect" })
    }
}

impl<const PATCH: bool> Connection<PATCH> {
    /// Returns the key of an interface's connection.
    pub fn key(from: &str) -> Key {
        Key::with::<Connection<PATCH>>(from)
    }

    /// Returns the end of a sentence that begins with the receiving interface.
    fn how(&self) -> String {
        format!("is {} {}", if PATCH { "patched to" } else { "cross-connected with" }, self.0)
    }
}

impl<W: Host, const PATCH: bool> Object<W> for Connection<PATCH> {
    fn validate(
        &self,
        from: &String,
        view: &View<'_, W>,
        _: &<W as World>::Abilities,
    ) -> Result<(), Refused> {
        let Connection(to) = self;
        let ports =
            [(from, objects::may_be_switched(from, &self.how(), view)?), (to, objects::must_send(to, view)?)];
        if let Some((name, _)) = ports.iter().find(|(_, port)| PATCH && !port.is_device) {
            return refuse_as(Reason::Unfit, format!("{name} is not a device: a patch is between devices"));
        }
        if ports[1].1.is_bare {
            return refuse_as(Reason::Unfit, format!("{to} sends no Ethernet frames"));
        }
        if from == to {
            return refuse_as(Reason::Unfit, format!("{from} cannot be connected with itself"));
        }
        Ok(())
    }

    fn apply(&self, from: &String, _: Option<&Self>, world: &mut W) -> Result<(), Refused> {
        let (index, peer) = (world.index(from)?, world.index(&self.0)?);
        let way = if PATCH { Way::Patch } else { Way::CrossConnect };
        Ok(connect(world.router(), way, index, peer)?)
    }

    fn withdraw(&self, from: &String, world: &mut W) -> Result<(), Refused> {
        let index = world.index(from)?;
        Ok(disconnect(world.router(), index)?)
    }

    fn dump(&self, from: &String, _: bool) -> Vec<String> {
        let (from, to) = (quote(from), quote(&self.0));
        vec![match PATCH {
            true => format!("test l2patch rx {from} tx {to}"),
            false => format!("set interface l2 xconnect {from} {to}"),
        }]
    }

    fn needs(&self, from: &String, to: &mut dyn FnMut(Need)) {
        to(objects::interface(from));
        to(objects::interface(&self.0));
    }

    fn facts(&self, from: &String, _: Get<'_, W>, to: &mut dyn FnMut(Fact)) {
        to(objects::switched(from, &self.how()));
    }
}

impl<const PATCH: bool> Valued for Connection<PATCH> {
    type Form = Parsed<String>;

    fn names() -> Parsed<String> {
        interface()
    }

    fn form() -> Parsed<String> {
        interface()
    }

    fn value(&self) -> String {
        self.0.clone()
    }

    fn with(to: String) -> Connection<PATCH> {
        Connection(to)
    }
}

fn interface() -> Parsed<String> {
    text("an interface's name", &["pg0", "pg1"])
}

/// Returns the connection of an interface: its way, and the interface that sends the frames.
pub(crate) fn connection(router: &Router, index: u32) -> Option<(Way, &str)> {
    let to = router.setting::<Peer>(index).0?;
    let way = if router.interface(index).ok()?.mode?.whole { Way::Patch } else { Way::CrossConnect };
    Some((way, &router.interface(to).ok()?.name))
}

/// Declares the sections of the configuration file.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.section(Section::values::<CrossConnect>("cross-connects"));
    r.section(Section::values::<Patch>("l2-patches"));
}
