//! References from configuration objects to the VRFs and interfaces that they need. A reference consists of a role and an identity. Also
//! defines the traits of a program that contains a router, and the indexes by which objects of one interface find each other: an interface
//! either routes packets or switches frames.

use std::net::IpAddr;

use model::cli::quote;
use model::key::{Need, Role};
use model::object::{Fact, Refused, View, World, refuse_as};
use model::reason::Reason;
use model::tuple::{Part, Push, Rest, Tuple};

use crate::ip::IpPrefix;
use crate::router::{Router, RouterError};

/// The role of a VRF, identified by its table number.
pub static TABLE: Role = Role {
    name: "table",
    title: |id| id.get::<u32>().map_or_else(|| "a table".into(), |table| format!("table {table}")),
};

/// The role by which objects of the configuration refer to an interface or sub-interface. The name identifies the interface.
pub static INTERFACE: Role = Role {
    name: "interface",
    title: |id| id.get::<String>().map_or_else(|| "an interface".into(), |name| format!("interface {name}")),
};

/// Returns the reference by which an object of the configuration states that it needs a VRF; `None` for VRF 0, which always exists.
pub fn table(table: u32) -> Option<Need> {
    (table != 0).then(|| Need::new(&TABLE, table))
}

/// Returns the reference by which an object of the configuration states that it needs an interface.
pub fn interface(name: &str) -> Need {
    Need::new(&INTERFACE, name)
}

/// Interfaces: name, and why no packet can be sent on it; empty if packets can.
const INTERFACES: &str = "interface";
/// Interfaces that route IP packets: name, and the number of the use in [`Routes::ALL`].
const ROUTED: &str = "routed";
/// Interfaces whose received frames a feature switches: name, and the use as the end of a sentence, such as `is cross-connected with pg1`.
const SWITCHED: &str = "switched";

/// Returns the index entry of an interface. `mute` says why no packet can be sent on it, if so.
pub fn exists(name: &str, mute: Option<&str>) -> Fact {
    Fact::new(INTERFACES, (name, mute.unwrap_or_default()))
}

/// A use of an interface for routing, which excludes that a feature switches its received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routes {
    /// It has addresses.
    Addresses,
    /// It uses another interface's addresses.
    Unnumbered,
    /// IPv6 is enabled without addresses.
    Ip6,
    /// It answers ARP for other hosts.
    Proxy,
}

impl Routes {
    const ALL: [Routes; 4] = [Routes::Addresses, Routes::Unnumbered, Routes::Ip6, Routes::Proxy];

    /// Returns the index entry of an interface with this use.
    pub fn fact(self, name: &str) -> Fact {
        Fact::new(ROUTED, (name, self as u8))
    }

    /// Says that the interface has this use, and which command ends it.
    fn told(self, name: &str) -> String {
        let quoted = quote(name);
        let (what, command) = match self {
            Routes::Addresses => ("has addresses", format!("set interface ip address del {quoted} all")),
            Routes::Unnumbered => {
                ("uses the addresses of another interface", format!("set interface unnumbered del {quoted}"))
            }
            Routes::Ip6 => ("has IPv6 enabled", format!("disable ip6 interface {quoted}")),
            Routes::Proxy => {
                ("answers ARP for other hosts", format!("set interface proxy-arp {quoted} disable"))
            }
        };
        format!("{name} {what}: use \"{command}\" first")
    }
}

/// Returns the index entry of an interface whose received frames a feature switches. `how` ends the sentence that begins with the interface's
/// name: `is cross-connected with pg1`.
pub fn switched(name: &str, how: &str) -> Fact {
    Fact::new(SWITCHED, (name, how))
}

/// Checks that an interface exists, and that a feature may switch its received frames: it must not route packets, and no other feature
/// may switch them. `how` is that of the feature's own [`switched`].
///
/// # Errors
/// Says what to change.
pub fn may_be_switched<W: World>(name: &str, how: &str, view: &View<'_, W>) -> Result<(), Refused> {
    must_exist(name, view)?;
    let uses = view.found::<u8>(ROUTED, Tuple::of(name));
    if let Some(routes) = uses.filter_map(|n| Routes::ALL.get(usize::from(n))).next() {
        return refuse_as(Reason::Unfit, routes.told(name));
    }
    match view.found::<String>(SWITCHED, Tuple::of(name)).find(|other| other != how) {
        Some(other) => refuse_as(Reason::Unfit, format!("{name} {other} already: {}", to_route(name))),
        None => Ok(()),
    }
}

/// Checks that an interface may route packets: no feature switches its received frames.
///
/// # Errors
/// Says what to change.
pub fn may_route<W: World>(name: &str, view: &View<'_, W>) -> Result<(), Refused> {
    match view.found::<String>(SWITCHED, Tuple::of(name)).next() {
        Some(how) => {
            let why = format!("{name} {how}, so it cannot route packets: {}", to_route(name));
            refuse_as(Reason::Unfit, why)
        }
        None => Ok(()),
    }
}

/// Checks that an interface exists, and that packets can be sent on it.
///
/// # Errors
/// The reason why not.
pub fn must_send<W: World>(name: &str, view: &View<'_, W>) -> Result<(), Refused> {
    match must_exist(name, view)? {
        mute if mute.is_empty() => Ok(()),
        mute => refuse_as(Reason::Unfit, mute),
    }
}

/// Checks that an interface exists. Returns why no packet can be sent on it; empty if packets can be sent.
///
/// # Errors
/// If there is no such interface.
pub fn must_exist<W: World>(name: &str, view: &View<'_, W>) -> Result<String, Refused> {
    let found = view.found::<String>(INTERFACES, Tuple::of(name)).next();
    found.ok_or_else(|| {
        Refused::new(format!("there is no interface {name}: create it first")).because(Reason::NoInterface)
    })
}

fn to_route(name: &str) -> String {
    format!("use \"set interface l3 {}\" first", quote(name))
}

/// Properties of a router that never change while it runs. Features read them during validation, on any thread.
pub trait Ability {
    /// Number of packet buffers at the start. Buffers that were added later do not count, because a configuration must also be valid at the
    /// next start.
    fn buffers(&self) -> usize;

    /// The names of the punt reasons.
    fn punt_reasons(&self) -> &[&'static str];
}

/// A program with a router; features apply their configuration objects to it.
pub trait Host: World<Abilities: Ability> {
    /// The router.
    fn router(&mut self) -> &mut Router;

    /// Returns the index of the interface with this name.
    ///
    /// # Errors
    /// If no interface has this name.
    fn index(&self, name: &str) -> Result<u32, Refused>;
}

impl From<RouterError> for Refused {
    fn from(e: RouterError) -> Self {
        Refused::new(e.to_string()).because(e.reason())
    }
}

/// Orders prefixes so that a network comes before the networks inside it.
impl Push for IpPrefix {
    fn push(&self, to: &mut Tuple) {
        (self.address(), self.len()).push(to);
    }
}
impl Part for IpPrefix {
    fn pull(from: &mut Rest<'_>) -> Option<IpPrefix> {
        let (address, len) = <(IpAddr, u8)>::pull(from)?;
        Some(IpPrefix::new(address, len))
    }
}
