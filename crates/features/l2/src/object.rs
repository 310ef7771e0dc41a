//! Cross-connects as objects of the configuration, by the interface that receives the frames.

use model::cli::quote;
use model::key::{Key, Kind, Need};
use model::object::{Fact, Get, Object, Refused, View, World, refuse_as};
use model::reason::Reason;
use model::schema::{Parsed, Valued, text};
use net::feature::{App, Registrar, Section};
use net::objects::{self, Host};
use net::router::Router;

use crate::node::{Peer, connect, disconnect};

/// An interface whose received frames are sent out of another interface, with this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrossConnect(pub String);

impl Kind for CrossConnect {
    /// The name of the receiving interface.
    type Key = String;
    const NAME: &'static str = "cross-connect";
    const PHASE: u16 = 115;

    fn title(from: &String) -> String {
        format!("the cross-connect of {from}")
    }
}

impl CrossConnect {
    /// Returns the key of an interface's cross-connect.
    pub fn key(from: &str) -> Key {
        Key::with::<CrossConnect>(from)
    }

    /// Returns the end of a sentence that begins with the receiving interface.
    fn how(&self) -> String {
        format!("is cross-connected with {}", self.0)
    }
}

impl<W: Host> Object<W> for CrossConnect {
    fn validate(
        &self,
        from: &String,
        view: &View<'_, W>,
        _: &<W as World>::Abilities,
    ) -> Result<(), Refused> {
        let CrossConnect(to) = self;
        objects::may_be_switched(from, &self.how(), view)?;
        objects::must_send(to, view)?;
        if from == to {
            return refuse_as(Reason::Unfit, format!("{from} cannot be cross-connected with itself"));
        }
        Ok(())
    }

    fn apply(&self, from: &String, _: Option<&Self>, world: &mut W) -> Result<(), Refused> {
        let (index, peer) = (world.index(from)?, world.index(&self.0)?);
        Ok(connect(world.router(), index, peer)?)
    }

    fn withdraw(&self, from: &String, world: &mut W) -> Result<(), Refused> {
        let index = world.index(from)?;
        Ok(disconnect(world.router(), index)?)
    }

    fn dump(&self, from: &String, _: bool) -> Vec<String> {
        vec![format!("set interface l2 xconnect {} {}", quote(from), quote(&self.0))]
    }

    fn needs(&self, from: &String, to: &mut dyn FnMut(Need)) {
        to(objects::interface(from));
        to(objects::interface(&self.0));
    }

    fn facts(&self, from: &String, _: Get<'_, W>, to: &mut dyn FnMut(Fact)) {
        to(objects::switched(from, &self.how()));
    }
}

impl Valued for CrossConnect {
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

    fn with(to: String) -> CrossConnect {
        CrossConnect(to)
    }
}

fn interface() -> Parsed<String> {
    text("an interface's name", &["pg0", "pg1"])
}

/// Returns the interface that sends the frames received on the interface with this index, if that is cross-connected.
pub(crate) fn peer(router: &Router, index: u32) -> Option<u32> {
    router.setting::<Peer>(index).0
}

/// Declares the section `cross-connects` of the configuration file.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.section(Section::values::<CrossConnect>("cross-connects"));
}
