//! The switch, as an object of the configuration.

use std::net::{Ipv4Addr, Ipv6Addr};

use model::key::{Key, Kind};
use model::object::{Object, Refused, View, World, refuse};
use model::schema::{Parsed, Truth, Valued, text, truth};
use net::objects::Host;

/// An address family.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    Ip4,
    /// IPv6.
    Ip6,
}

impl Family {
    const ALL: [Family; 2] = [Family::Ip4, Family::Ip6];

    /// Returns the family with this name in a file.
    fn named(name: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|family| family.name() == name)
    }

    /// Returns the family's name in a file.
    fn name(self) -> &'static str {
        match self {
            Family::Ip4 => "ip4",
            Family::Ip6 => "ip6",
        }
    }

    /// Returns the family's word in commands.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Family::Ip4 => "ip",
            Family::Ip6 => "ip6",
        }
    }

    /// Returns the key of the family's switch in the configuration.
    pub(crate) fn key(self) -> Key {
        Key::with::<Unreachables>(self.name())
    }
}

/// Whether "destination unreachable" messages of a family are sent. Without this object, they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachables(pub bool);

impl Kind for Unreachables {
    /// The name of the family.
    type Key = String;
    const NAME: &'static str = "unreachables";
    const PHASE: u16 = 24;

    fn title(family: &String) -> String {
        format!("the {family} messages \"destination unreachable\"")
    }
}

impl<W: Host> Object<W> for Unreachables {
    fn validate(&self, family: &String, _: &View<'_, W>, _: &<W as World>::Abilities) -> Result<(), Refused> {
        match Family::named(family) {
            Some(_) => Ok(()),
            None => refuse(format!("unknown address family {family}: expected ip4 or ip6")),
        }
    }

    fn apply(&self, family: &String, _: Option<&Self>, world: &mut W) -> Result<(), Refused> {
        send(family, self.0, world);
        Ok(())
    }

    fn withdraw(&self, family: &String, world: &mut W) -> Result<(), Refused> {
        send(family, true, world);
        Ok(())
    }

    fn dump(&self, family: &String, _: bool) -> Vec<String> {
        let word = Family::named(family).map_or("ip", Family::word);
        vec![format!("set {word} unreachables {}", if self.0 { "enable" } else { "disable" })]
    }
}

/// Switches the messages of a family on or off.
fn send<W: Host>(family: &str, on: bool, world: &mut W) {
    let tables = world.router().tables();
    match Family::named(family) {
        Some(Family::Ip4) => tables.of::<Ipv4Addr>().unreachables.send(on),
        Some(Family::Ip6) => tables.of::<Ipv6Addr>().unreachables.send(on),
        None => {}
    }
}

impl Valued for Unreachables {
    type Form = Truth;

    fn names() -> Parsed<String> {
        text("ip4 or ip6", &["ip4", "ip6"])
    }

    fn form() -> Truth {
        truth()
    }

    fn value(&self) -> bool {
        self.0
    }

    fn with(are_sent: bool) -> Unreachables {
        Unreachables(are_sent)
    }
}
