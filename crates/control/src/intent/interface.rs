//! Interfaces and sub-interfaces.

use std::ops::RangeInclusive;

use model::key::{Kind, Need};
use model::object::{Effect, Fact};
use model::visible::is_hidden;
use net::ethernet::{Match, Tags};
use net::feature::Attached;
use net::objects::{self, Port, Routes};
use net::router::{Receive, check_mac, check_mtu};
use net::tables::MAX_INTERFACES;
use wire::{Mac, ipv6};

use super::index::{self, Find};
use super::{Addresses, Get, Key, Object, Reason, Refused, View, refuse, refuse_as, table};
use crate::cli::{quote, quote_last};
use crate::system::{Abilities, Catalog, Loopback, Spec, System};

/// The valid VLAN IDs (IEEE 802.1Q-2022 table 9-2 reserves 0 and 4095).
pub const VLANS: RangeInclusive<u16> = 1..=4094;

/// Returns the default match of a sub-interface: the VLAN whose ID is the sub-interface's number `id`. `None` if that is not a
/// valid VLAN ID.
pub fn numbered(id: u32) -> Option<Match> {
    let outer = u16::try_from(id).ok().filter(|vlan| VLANS.contains(vlan))?;
    Some(Tags { outer_service: false, outer, inner: None }.into())
}

/// An interface and its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// The type, with its options.
    pub spec: Spec,
    /// True if it is administratively up.
    pub up: bool,
    /// The MTU in bytes; `None` for the device's own. The effective MTU of a sub-interface is at most that of its
    /// device.
    pub mtu: Option<u16>,
    /// The Ethernet address; `None` for the device's own.
    pub mac: Option<Mac>,
    /// The VRF.
    pub table: u32,
    /// The index (`sw_if_index`), used by monitoring. A transaction sets a missing one.
    pub index: Option<u32>,
    /// A description for people.
    pub description: Option<String>,
    /// The polling modes and workers of its receive queues.
    pub receive: Receive,
    /// The settings of features.
    pub attached: Attached,
    /// True to enable IPv6 even without a configured IPv6 address.
    pub ip6: bool,
    /// True to answer ARP requests for hosts behind other interfaces (proxy ARP). If IPv6 is enabled, neighbor solicitations are answered,
    /// too.
    pub proxy: bool,
}

/// Maximum length of a description in characters, as in Linux (`IFALIASZ`).
const LONGEST: usize = 255;

impl Interface {
    /// Returns the interface called `name`, with its key.
    pub fn find(tree: &super::Tree, name: &str) -> Option<(Key, Interface)> {
        let keys = [Interface::key(name), Interface::sub_key(name)];
        keys.into_iter().find_map(|key| {
            let found = tree.get(&key)?.get::<Interface>()?.clone();
            Some((key, found))
        })
    }

    /// Returns an interface with default settings.
    pub fn new(spec: Spec) -> Interface {
        Interface {
            spec,
            up: false,
            mtu: None,
            mac: None,
            table: 0,
            index: None,
            description: None,
            receive: Receive::default(),
            attached: Attached::default(),
            ip6: false,
            proxy: false,
        }
    }

    /// Returns the key of an interface that is not a sub-interface.
    pub fn key(name: &str) -> Key {
        Key::with::<Interface>((false, name))
    }

    /// Returns the key of a sub-interface.
    pub fn sub_key(name: &str) -> Key {
        Key::with::<Interface>((true, name))
    }

    /// Returns the name from the key of an interface or sub-interface.
    pub fn name_in(key: &Key) -> Option<String> {
        key.get::<Interface>().map(|(_, name)| name)
    }

    /// Returns the name from the key of an interface that is not a sub-interface.
    pub fn device_in(key: &Key) -> Option<String> {
        key.get::<Interface>().filter(|(sub, _)| !sub).map(|(_, name)| name)
    }
}

impl Kind for Interface {
    /// True for a sub-interface, and the name of the interface or sub-interface.
    type Key = (bool, String);
    const NAME: &'static str = "interface";
    const PHASE: u16 = 100;

    fn title((_, name): &Self::Key) -> String {
        format!("interface {name}")
    }

    fn role((_, name): &Self::Key) -> Option<Need> {
        Some(objects::interface(name))
    }
}

impl Object<System> for Interface {
    fn validate(&self, (_, name): &Self::Key, view: &View<'_>, abilities: &Abilities) -> Result<(), Refused> {
        table::must_have(self.table, view)?;
        super::unnumbered::may_be_in(name, self.table, view)?;
        if let Some(index) = self.index {
            if index >= MAX_INTERFACES {
                return refuse(format!("invalid index {index}: expected 0 to {}", MAX_INTERFACES - 1));
            }
            if let Some(other) = index::numbered(view, index).find(|other| other != name) {
                return refuse(format!("{other} has the index {index} already"));
            }
        }
        if let Some(text) = &self.description {
            if text.is_empty() {
                return refuse("the description is empty: leave it out");
            }
            if text.chars().count() > LONGEST || text.contains(is_hidden) {
                return refuse(format!("a description must be one line of at most {LONGEST} characters"));
            }
        }
        super::receive::validate(self)?;
        self.attached.validate().or_else(|why| refuse_as(Reason::Value, why))?;
        self.mtu.map_or(Ok(()), check_mtu)?;
        let mut missing = None;
        self.attached.uses(&mut |key| missing = missing.take().or(view.get(&key).is_none().then_some(key)));
        if let Some(key) = missing {
            return refuse_as(Reason::NotThere, format!("there is no {key}: add it first"));
        }
        let given = super::list(view.get(&Addresses::key(name)));
        self.can_speak_ip6(name, self.ip6 || given.iter().any(|a| a.address.is_ipv6()))?;
        self.mac.map_or(Ok(()), check_mac)?;
        if self.ip6 || self.proxy || self.attached.must_send() {
            self.can_send(name)?;
        }
        if self.ip6 || self.proxy {
            objects::may_route(name, view)?;
        }
        let (parent, takes) = match &self.spec {
            Spec::Backed(backed) => return backed.validate(name, self.mtu, view, abilities),
            Spec::Loopback(_) => return Ok(()),
            Spec::Sub { id: 0, .. } => {
                return refuse(format!("the number of a sub-interface must be 1 to {}", u32::MAX));
            }
            Spec::Sub { parent, takes, .. } => (parent, *takes),
        };
        let over = view.must_have_interface(parent)?;
        if !over.spec.is_device() {
            let why = format!("{parent} cannot have sub-interfaces: it is not a device");
            return refuse_as(Reason::Unfit, why);
        }
        if over.spec.backed().is_some_and(|backed| backed.is_bare()) {
            let why = format!(
                "{parent} cannot have sub-interfaces: the packets on its link have no Ethernet headers"
            );
            return refuse_as(Reason::Unfit, why);
        }
        if let Some(vid) = takes.vlans().find(|vid| !VLANS.contains(vid)) {
            return refuse_as(Reason::Value, format!("invalid VLAN {vid}: expected 1 to 4094"));
        }
        match index::tagged(view, parent, takes).find(|other| other != name) {
            Some(other) => refuse_as(
                Reason::There,
                format!("{other} already receives packets with these tags ({takes})"),
            ),
            None => Ok(()),
        }
    }

    /// Creates the interface, or applies the differences from `old`.
    fn apply(
        &self,
        (_, name): &Self::Key,
        old: Option<&Interface>,
        system: &mut System,
    ) -> Result<(), Refused> {
        match old {
            None => system.create(name, &self.spec, self.index)?,
            Some(old) if old.spec != self.spec => system.reopen(name, &self.spec)?,
            Some(_) => {}
        }
        let result = self.settings(name, old, system);
        if result.is_err() {
            match old {
                None => system.delete(name)?,
                Some(old) => {
                    let reopened =
                        if old.spec == self.spec { Ok(()) } else { system.reopen(name, &old.spec) };
                    // Applies them even if the interface has no device now: they take effect once it has one.
                    old.settings(name, Some(self), system)?;
                    reopened?
                }
            }
        }
        result
    }

    fn withdraw(&self, (_, name): &Self::Key, system: &mut System) -> Result<(), Refused> {
        system.delete(name)
    }

    fn dump(&self, (_, plain): &Self::Key, indices: bool) -> Vec<String> {
        let name = quote(plain);
        let mut lines = vec![match &self.spec {
            Spec::Backed(backed) => backed.dump(plain),
            Spec::Loopback(Loopback::Loop(n)) => format!("create loopback interface instance {n}"),
            Spec::Loopback(Loopback::Bvi(n)) => format!("bvi create instance {n}"),
            Spec::Sub { parent, id, takes } => {
                let parent = quote(parent);
                match takes {
                    _ if numbered(*id) == Some(*takes) => format!("create sub-interfaces {parent} {id}"),
                    Match::Untagged | Match::Default => {
                        format!("create sub-interfaces {parent} {id} {takes}")
                    }
                    _ => format!("create sub-interfaces {parent} {id} {takes} exact-match"),
                }
            }
        }];
        if let (true, Some(index)) = (indices, self.index) {
            lines.iter_mut().for_each(|line| *line += &format!(" index {index}"));
        }
        if let Some(text) = &self.description {
            lines.push(format!("set interface description {name} {}", quote_last(text)));
        }
        if self.table != 0 {
            lines.push(format!("set interface ip table {name} {}", self.table));
        }
        if let Some(mac) = self.mac {
            lines.push(format!("set interface mac address {name} {mac}"));
        }
        if let Some(mtu) = self.mtu {
            lines.push(format!("set interface mtu {mtu} {name}"));
        }
        super::receive::dump(plain, &self.receive, &mut lines);
        lines.extend(self.attached.dump(&name));
        if self.proxy {
            lines.push(format!("set interface proxy-arp {name} enable"));
        }
        if self.ip6 {
            lines.push(format!("enable ip6 interface {name}"));
        }
        if self.up {
            lines.push(format!("set interface state {name} up"));
        }
        lines
    }

    fn needs(&self, _: &Self::Key, to: &mut dyn FnMut(Need)) {
        objects::table(self.table).into_iter().for_each(&mut *to);
        self.attached.uses(&mut |key| key.role().into_iter().for_each(&mut *to));
        match &self.spec {
            Spec::Backed(backed) => backed.needs(to),
            Spec::Sub { parent, .. } => to(objects::interface(parent)),
            Spec::Loopback(_) => {}
        }
    }

    fn effect(&self, old: &Self) -> Effect {
        let stays = old.spec == self.spec || self.spec.takes_over(&old.spec);
        if !stays || old.index != self.index {
            Effect::Anew
        } else if old.table != self.table {
            Effect::Moved
        } else {
            Effect::Stays
        }
    }

    fn facts(&self, (_, name): &Self::Key, _: Get<'_>, to: &mut dyn FnMut(Fact)) {
        if let Some(number) = self.index {
            to(Fact::new(index::NUMBERS, (number, name)));
        }
        let (receives, is_device) = match self.spec {
            Spec::Loopback(_) => (false, true),
            Spec::Backed(_) => (true, true),
            Spec::Sub { .. } => (true, false),
        };
        let tags = match &self.spec {
            Spec::Sub { takes, .. } => takes.tags(),
            _ => None,
        };
        let is_bare = self.spec.backed().is_some_and(|backed| backed.is_bare());
        to(Port { mute: self.mute(name), receives, is_device, is_bare, tags }.fact(name));
        let routes = [(self.ip6, Routes::Ip6), (self.proxy, Routes::Proxy)];
        routes.into_iter().filter(|(is_on, _)| *is_on).for_each(|(_, routes)| to(routes.fact(name)));
        match &self.spec {
            Spec::Sub { parent, takes, .. } => to(index::tagged_as(parent, *takes, name)),
            Spec::Backed(backed) => backed.facts(name, to),
            Spec::Loopback(_) => {}
        }
    }

    /// Returns the key of the interface's addresses. Their index entries contain the interface's VRF, so they change when the
    /// interface changes.
    fn touches((_, name): &Self::Key) -> Option<Key> {
        Some(Addresses::key(name))
    }

    /// True if the interface has an index. A transaction sets a missing one.
    fn is_complete(&self) -> bool {
        self.index.is_some()
    }

    fn without_secrets(&self) -> Option<Self> {
        let backed = self.spec.backed()?.without_secrets()?;
        Some(Interface { spec: Spec::Backed(backed), ..self.clone() })
    }
}

impl Interface {
    /// Checks that packets can be sent on the interface: the router must know their VLAN tags. A sub-interface that accepts different tags
    /// can only receive.
    pub(super) fn can_send(&self, name: &str) -> Result<(), Refused> {
        match self.spec {
            Spec::Sub { .. } => self.mute(name).map_or(Ok(()), |why| refuse_as(Reason::Unfit, why)),
            // An address of a loopback is reachable, though no packet is sent on it.
            _ => Ok(()),
        }
    }

    /// Returns why no packet can be sent on the interface, if so.
    fn mute(&self, name: &str) -> Option<String> {
        match self.spec {
            Spec::Sub { takes, .. } if !takes.sends() => Some(format!(
                "{name} only receives: it takes packets with different VLAN tags ({takes}), so the router cannot know which tags to send"
            )),
            Spec::Loopback(_) => Some(format!("{name} is a loopback: it sends no packets")),
            _ => None,
        }
    }

    /// If IPv6 is to be enabled (`is_to`), checks that the MTU is large enough for IPv6. Only the interface's configured MTU is known here,
    /// not that of its device.
    pub(super) fn can_speak_ip6(&self, name: &str, is_to: bool) -> Result<(), Refused> {
        match self.mtu.filter(|mtu| is_to && *mtu < ipv6::MIN_MTU) {
            Some(mtu) => {
                let why = format!("the MTU of {name} is {mtu}, but IPv6 needs at least {}", ipv6::MIN_MTU);
                refuse_as(Reason::Value, why)
            }
            None => Ok(()),
        }
    }

    fn settings(&self, name: &str, old: Option<&Interface>, system: &mut System) -> Result<(), Refused> {
        let index = system.index(name)?;
        let before = Interface::new(self.spec.clone());
        let old = old.unwrap_or(&before);
        if self.mtu != old.mtu {
            system.set_mtu(name, self.mtu)?;
        }
        let r = &mut system.router;
        if self.receive != old.receive {
            r.set_receive(index, self.receive.clone())?;
        }
        if self.table != old.table {
            r.set_table(index, self.table)?;
        }
        if self.mac != old.mac {
            r.set_mac(index, self.mac)?;
        }
        self.attached.apply(&old.attached, r, index)?;
        if self.proxy != old.proxy {
            r.set_proxy(index, self.proxy)?;
        }
        if self.ip6 != old.ip6 {
            r.set_ip6(index, self.ip6)?;
        }
        if self.up != old.up {
            r.set_admin(index, self.up)?;
            tracing::debug!(event = "interface", "{name}: set {}", if self.up { "up" } else { "down" });
        }
        Ok(())
    }
}

/// True if an interface or sub-interface could have this name.
pub fn can_be_name(name: &str, catalog: &Catalog) -> bool {
    let with_id = name.rsplit_once('.').filter(|(_, id)| id.parse::<u32>().is_ok());
    let device = with_id.map_or(name, |(device, _)| device);
    Loopback::named(device).is_some()
        || catalog.interfaces().iter().any(|kind| (kind.names)(device).is_some_and(|can| can.is_ok()))
}
