//! References from configuration objects to the VRFs and interfaces that they need. A reference consists of a role and an identity. Also
//! defines the traits of a program that contains a router, and the indexes by which objects of one interface find each other: an interface
//! either routes packets or switches frames.

use std::net::IpAddr;

use model::cli::quote;
use model::key::{Need, Role};
use model::object::{Fact, Refused, View, World, refuse_as};
use model::reason::Reason;
use model::tuple::{Part, Push, Rest, Tuple};

use crate::ethernet::Tags;
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

/// The role of an object that gives a loopback a link with neighbors, identified by the loopback's name.
pub static LINK: Role = Role {
    name: "link",
    title: |id| id.get::<String>().map_or_else(|| "a link".into(), |name| format!("the link of {name}")),
};

/// Returns the reference by which an object of the configuration states that it needs a VRF; `None` for VRF 0, which always exists.
pub fn table(table: u32) -> Option<Need> {
    (table != 0).then(|| Need::new(&TABLE, table))
}

/// Returns the reference by which an object of the configuration states that it needs an interface.
pub fn interface(name: &str) -> Need {
    Need::new(&INTERFACE, name)
}

/// Returns the reference by which an object of the configuration states that it needs the link of a loopback.
pub fn link(name: &str) -> Need {
    Need::new(&LINK, name)
}

/// Loopbacks with a link, by name.
const LINKED: &str = "linked";
/// Interfaces: name, why no packet can be sent on it, and the other properties in [`Port`].
const INTERFACES: &str = "interface";
/// Interfaces that route IP packets: name, and the number of the use in [`Routes::ALL`].
const ROUTED: &str = "routed";
/// Interfaces whose received frames a feature switches: name, and the use as the end of a sentence, such as `is cross-connected with pg1`.
const SWITCHED: &str = "switched";

/// The properties of an interface that other objects need for their checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Why no packet can be sent on the interface; `None` if packets can.
    pub mute: Option<String>,
    /// True if it receives frames: it is no loopback.
    pub receives: bool,
    /// True if it is no sub-interface.
    pub is_device: bool,
    /// True if the packets on its link have no Ethernet headers.
    pub is_bare: bool,
    /// The VLAN tags of its frames, if it is a sub-interface with exact tags.
    pub tags: Option<Tags>,
}

impl Port {
    const RECEIVES: u32 = 1 << 31;
    const DEVICE: u32 = 1 << 30;
    const SERVICE: u32 = 1 << 29;
    const BARE: u32 = 1 << 28;
    const VLAN: u32 = 0xfff;
    /// Position of the inner VLAN. There is no VLAN 0.
    const INNER: u32 = 12;

    /// Returns the index entry of the interface.
    pub fn fact(&self, name: &str) -> Fact {
        let bit = |is_on, bit| if is_on { bit } else { 0 };
        let tags = self.tags.map_or(0, |Tags { outer_service, outer, inner }| {
            bit(outer_service, Port::SERVICE)
                | u32::from(outer)
                | u32::from(inner.unwrap_or(0)) << Port::INNER
        });
        let flags = tags
            | bit(self.receives, Port::RECEIVES)
            | bit(self.is_device, Port::DEVICE)
            | bit(self.is_bare, Port::BARE);
        Fact::new(INTERFACES, (name, self.mute.as_deref().unwrap_or_default(), flags))
    }

    /// Returns the interface with this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find<W: World>(name: &str, view: &View<'_, W>) -> Result<Port, Refused> {
        let Some((mute, flags)) = view.found::<(String, u32)>(INTERFACES, Tuple::of(name)).next() else {
            let why = format!("there is no interface {name}: create it first");
            return refuse_as(Reason::NoInterface, why);
        };
        let vlan = |at: u32| Some((flags >> at & Port::VLAN) as u16).filter(|vlan| *vlan != 0);
        let service = flags & Port::SERVICE != 0;
        let tags = vlan(0).map(|outer| Tags { outer_service: service, outer, inner: vlan(Port::INNER) });
        Ok(Port {
            mute: Some(mute).filter(|why| !why.is_empty()),
            receives: flags & Port::RECEIVES != 0,
            is_device: flags & Port::DEVICE != 0,
            is_bare: flags & Port::BARE != 0,
            tags,
        })
    }
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
pub fn may_be_switched<W: World>(name: &str, how: &str, view: &View<'_, W>) -> Result<Port, Refused> {
    let port = Port::find(name, view)?;
    if !port.receives {
        return refuse_as(Reason::Unfit, format!("{name} is a loopback: it receives no frames"));
    }
    if port.is_bare {
        return refuse_as(Reason::Unfit, format!("{name} receives no Ethernet frames"));
    }
    let uses = view.found::<u8>(ROUTED, Tuple::of(name));
    if let Some(routes) = uses.filter_map(|n| Routes::ALL.get(usize::from(n))).next() {
        return refuse_as(Reason::Unfit, routes.told(name));
    }
    match view.found::<String>(SWITCHED, Tuple::of(name)).find(|other| other != how) {
        Some(other) => refuse_as(Reason::Unfit, format!("{name} {other} already: {}", to_route(name))),
        None => Ok(port),
    }
}

/// Returns the index entry of a loopback that has a link with neighbors.
pub fn linked(name: &str) -> Fact {
    Fact::new(LINKED, (name, 0u8))
}

/// True if a loopback has a link with neighbors.
pub fn is_linked<W: World>(name: &str, view: &View<'_, W>) -> bool {
    view.found::<u8>(LINKED, Tuple::of(name)).next().is_some()
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
pub fn must_send<W: World>(name: &str, view: &View<'_, W>) -> Result<Port, Refused> {
    let mut port = Port::find(name, view)?;
    port.mute.take().map_or(Ok(port), |why| refuse_as(Reason::Unfit, why))
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
