//! Bridge domains, their ports and entries of the MAC table as objects of the configuration.

use std::fmt;
use std::sync::LazyLock;

use model::cli::quote;
use model::key::{Key, Kind as ObjectKind, Need, Role};
use model::object::{Effect, Fact, Get, Object, Refused, View, World, refuse, refuse_as};
use model::reason::Reason;
use model::schema::{Described, Named, Parsed, Schema, Valued, number, parsed, text, truth};
use model::tuple::Tuple;
use model::visible::hidden;
use model::yaml::quoted;
use net::feature::{App, Registrar, Section};
use net::objects::{self, Host, Port};
use wire::Mac;

use super::bvi::BridgeBvi;
use super::host::BridgeHost;
use super::{BridgePort, Bridges, Kind, Policy};

/// The numbers of bridge domains, as in VPP.
pub(crate) const IDS: std::ops::RangeInclusive<u32> = 1..=(1 << 24) - 1;
/// The learn limit of a domain if none is configured.
const LIMIT: u32 = 1 << 20;
/// Maximum length of a domain's tag in bytes, as in VPP.
const MAX_TAG: usize = 63;

/// The role by which ports and entries refer to bridge domains.
pub(super) static DOMAIN: Role = Role {
    name: "bridge-domain",
    title: |id| id.get::<u32>().map_or_else(|| "a bridge domain".into(), |id| format!("bridge domain {id}")),
};

/// The role by which entries refer to bridge ports.
static PORT: Role = Role {
    name: "bridge-port",
    title: |id| {
        id.get::<String>().map_or_else(|| "a bridge port".into(), |name| format!("bridge port {name}"))
    },
};

/// A bridge domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeDomain {
    /// What the domain does with frames. Its age is not used: see `mac_age`.
    pub policy: Policy,
    /// Time in minutes after which a learned address that is not heard any more is forgotten. 0 is never.
    pub mac_age: u8,
    /// The operator's name for the domain.
    pub tag: String,
}

impl Default for BridgeDomain {
    fn default() -> BridgeDomain {
        let policy = Policy { limit: LIMIT, ..Policy::PLAIN };
        BridgeDomain { policy, mac_age: 0, tag: String::new() }
    }
}

impl BridgeDomain {
    /// Returns the key of the domain with this number.
    pub fn key(id: u32) -> Key {
        Key::with::<BridgeDomain>(id)
    }
}

impl ObjectKind for BridgeDomain {
    /// The domain's number.
    type Key = u32;
    const NAME: &'static str = "bridge-domain";
    const PHASE: u16 = 113;
    const NEEDS: bool = false;

    fn title(id: &u32) -> String {
        format!("bridge domain {id}")
    }

    fn role(id: &u32) -> Option<Need> {
        Some(Need::new(&DOMAIN, *id))
    }
}

impl<W: Host> Object<W> for BridgeDomain {
    fn validate(&self, id: &u32, _: &View<'_, W>, _: &<W as World>::Abilities) -> Result<(), Refused> {
        if !IDS.contains(id) {
            return refuse(format!("the number of a bridge domain is from {} to {}", IDS.start(), IDS.end()));
        }
        if self.tag.len() > MAX_TAG {
            return refuse(format!("the tag has {} bytes, more than {MAX_TAG}", self.tag.len()));
        }
        hidden(&self.tag).map_or(Ok(()), refuse)
    }

    fn apply(&self, id: &u32, _: Option<&Self>, world: &mut W) -> Result<(), Refused> {
        let policy = Policy { age: u16::from(self.mac_age) * 60, ..self.policy };
        Ok(super::set_domain(world.router(), *id, policy)?)
    }

    fn withdraw(&self, id: &u32, world: &mut W) -> Result<(), Refused> {
        Ok(super::remove_domain(world.router(), *id)?)
    }

    fn dump(&self, id: &u32, _: bool) -> Vec<String> {
        let Policy { learn, forward, flood, unknown, arp_term, arp_ufwd, limit, .. } = self.policy;
        let mut line = format!("create bridge-domain {id}");
        for (word, is_on) in [("learn", learn), ("forward", forward), ("uu-flood", unknown), ("flood", flood)]
        {
            line += &if is_on { String::new() } else { format!(" {word} 0") };
        }
        for (word, is_on) in [("arp-term", arp_term), ("arp-ufwd", arp_ufwd)] {
            line += &if is_on { format!(" {word} 1") } else { String::new() };
        }
        if self.mac_age != 0 {
            line += &format!(" mac-age {}", self.mac_age);
        }
        if !self.tag.is_empty() {
            line += &format!(" bd-tag {}", quote(&self.tag));
        }
        let limit = (limit != LIMIT).then(|| format!("set bridge-domain learn-limit {id} {limit}"));
        std::iter::once(line).chain(limit).collect()
    }
}

impl Named for BridgeDomain {
    fn names() -> Parsed<u32> {
        parsed("1 to 16777215", &["10", "16777215"], id_of, u32::to_string)
    }
}

pub(super) fn id_of(text: &str) -> Result<u32, String> {
    let id = text.parse().ok().filter(|id| IDS.contains(id));
    id.ok_or_else(|| format!("\"{text}\" is not the number of a bridge domain, 1 to 16777215"))
}

impl Described for BridgeDomain {
    fn schema() -> &'static Schema<Self> {
        static SCHEMA: LazyLock<Schema<BridgeDomain>> = LazyLock::new(|| {
            Schema::new(BridgeDomain::default())
                .field(
                    "learn",
                    truth(),
                    |d| d.policy.learn,
                    |d, on| d.policy.learn = on,
                    "Learn the source addresses of received frames.",
                )
                .field(
                    "forward",
                    truth(),
                    |d| d.policy.forward,
                    |d, on| d.policy.forward = on,
                    "Send frames to known stations to their ports only. Without it, they are flooded like frames to unknown stations.",
                )
                .field(
                    "flood",
                    truth(),
                    |d| d.policy.flood,
                    |d, on| d.policy.flood = on,
                    "Send broadcast and multicast frames to all ports.",
                )
                .field(
                    "uu-flood",
                    truth(),
                    |d| d.policy.unknown,
                    |d, on| d.policy.unknown = on,
                    "Send frames to unknown stations to all ports.",
                )
                .field(
                    "arp-term",
                    truth(),
                    |d| d.policy.arp_term,
                    |d, on| d.policy.arp_term = on,
                    "Answer ARP requests and neighbor solicitations for the hosts in bridge-hosts, instead of flooding them.",
                )
                .field(
                    "arp-ufwd",
                    truth(),
                    |d| d.policy.arp_ufwd,
                    |d, on| d.policy.arp_ufwd = on,
                    "Send broadcast ARP that is not answered only to the port for unknown unicast (uu-fwd), if there is one. With a BVI, it is flooded, and goes to that port, too.",
                )
                .field(
                    "mac-age",
                    number(0..=u8::MAX).unit("minutes"),
                    |d| d.mac_age,
                    |d, age| d.mac_age = age,
                    "Time after which a learned address that is not heard any more is forgotten. 0: never.",
                )
                .field(
                    "learn-limit",
                    number(0..=u32::MAX),
                    |d| d.policy.limit,
                    |d, limit| d.policy.limit = limit,
                    "Maximum number of learned addresses.",
                )
                .field(
                    "tag",
                    text("a text of at most 63 bytes", &["office"]),
                    |d| d.tag.clone(),
                    |d, tag| d.tag = tag,
                    "A name, for operators.",
                )
        });
        &SCHEMA
    }
}

/// The index of the ports for unknown unicast: the domain's number, and the interface's name.
const UU_FWD: &str = "uu-fwd";

/// An interface that is a port of a bridge domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridged {
    /// The domain's number.
    pub bridge: u32,
    /// What the port does with frames.
    pub port: BridgePort,
}

impl Default for Bridged {
    fn default() -> Bridged {
        Bridged { bridge: 0, port: BridgePort::PLAIN }
    }
}

impl Bridged {
    /// Returns the key of an interface's membership.
    pub fn key(interface: &str) -> Key {
        Key::with::<Bridged>(interface)
    }

    /// Returns the end of a sentence that begins with the interface.
    fn how(&self) -> String {
        format!("is a port of bridge domain {}", self.bridge)
    }
}

impl ObjectKind for Bridged {
    /// The interface's name.
    type Key = String;
    const NAME: &'static str = "bridge-port";
    const PHASE: u16 = 115;

    fn title(interface: &String) -> String {
        format!("the bridge port {interface}")
    }

    fn role(interface: &String) -> Option<Need> {
        Some(Need::new(&PORT, interface.as_str()))
    }
}

impl<W: Host> Object<W> for Bridged {
    fn validate(
        &self,
        interface: &String,
        view: &View<'_, W>,
        _: &<W as World>::Abilities,
    ) -> Result<(), Refused> {
        if !Port::find(interface, view)?.receives {
            let id = self.bridge;
            let why = format!(
                "{interface} is a loopback, and no port: \"set interface l2 bridge {interface} {id} bvi\" makes it the BVI"
            );
            return refuse_as(Reason::Unfit, why);
        }
        objects::may_be_switched(interface, &self.how(), view)?;
        objects::must_send(interface, view)?;
        let (id, mut there) = (self.bridge, view.found::<String>(UU_FWD, Tuple::of(&self.bridge)));
        match there.find(|other| self.port.uu_fwd && other != interface) {
            Some(other) => refuse_as(
                Reason::InUse,
                format!("{other} is the port for unknown unicast of bridge domain {id} already"),
            ),
            None => Ok(()),
        }
    }

    fn apply(&self, interface: &String, _: Option<&Self>, world: &mut W) -> Result<(), Refused> {
        let index = world.index(interface)?;
        Ok(super::join(world.router(), index, self.bridge, self.port)?)
    }

    fn withdraw(&self, interface: &String, world: &mut W) -> Result<(), Refused> {
        let index = world.index(interface)?;
        Ok(super::leave(world.router(), index)?)
    }

    fn dump(&self, interface: &String, _: bool) -> Vec<String> {
        let (name, port) = (quote(interface), self.port);
        let group = if port.group == 0 { String::new() } else { format!(" {}", port.group) };
        let role = if port.uu_fwd { " uu-fwd" } else { "" };
        let mut lines = vec![format!("set interface l2 bridge {name} {}{role}{group}", self.bridge)];
        for (word, is_on) in [("learn", port.learn), ("forward", port.forward), ("flood", port.flood)] {
            lines.extend((!is_on).then(|| format!("set interface l2 {word} {name} disable")));
        }
        lines
    }

    fn needs(&self, interface: &String, to: &mut dyn FnMut(Need)) {
        to(objects::interface(interface));
        to(Need::new(&DOMAIN, self.bridge));
    }

    /// A port that loses its role, or leaves, does so before another gets the role.
    fn staying(&self, new: &Self) -> Option<Self> {
        let mut stays = self.clone();
        stays.port.uu_fwd &= new.port.uu_fwd && new.bridge == self.bridge;
        Some(stays)
    }

    /// In another domain, the entries that lead to the port are checked again.
    fn effect(&self, old: &Self) -> Effect {
        if self.bridge == old.bridge { Effect::Stays } else { Effect::Moved }
    }

    fn facts(&self, interface: &String, _: Get<'_, W>, to: &mut dyn FnMut(Fact)) {
        to(objects::switched(interface, &self.how()));
        if self.port.uu_fwd {
            to(Fact::new(UU_FWD, (self.bridge, interface.as_str())));
        }
    }
}

impl Named for Bridged {
    fn names() -> Parsed<String> {
        text("an interface's name", &["pg0", "pg1"])
    }
}

impl Described for Bridged {
    fn schema() -> &'static Schema<Self> {
        static SCHEMA: LazyLock<Schema<Bridged>> = LazyLock::new(|| {
            Schema::new(Bridged::default())
                .field(
                    "bridge-domain",
                    number(IDS),
                    |b| b.bridge,
                    |b, id| b.bridge = id,
                    "The number of the bridge domain.",
                )
                .needed("the port needs a bridge-domain")
                .field(
                    "split-horizon-group",
                    number(0..=u8::MAX),
                    |b| b.port.group,
                    |b, group| b.port.group = group,
                    "No frame goes from a port of a group to another port of the same group. 0: no group.",
                )
                .field(
                    "learn",
                    truth(),
                    |b| b.port.learn,
                    |b, on| b.port.learn = on,
                    "Learn the source addresses of frames that the port receives.",
                )
                .field(
                    "forward",
                    truth(),
                    |b| b.port.forward,
                    |b, on| b.port.forward = on,
                    "Send received frames to known stations to their ports only. Without it, they are flooded.",
                )
                .field(
                    "flood",
                    truth(),
                    |b| b.port.flood,
                    |b, on| b.port.flood = on,
                    "Flood received frames.",
                )
                .field(
                    "uu-fwd",
                    truth(),
                    |b| b.port.uu_fwd,
                    |b, on| b.port.uu_fwd = on,
                    "Send frames to unknown stations to this port, instead of flooding them. The port gets no flooded frames.",
                )
        });
        &SCHEMA
    }
}

/// Where the frames to a configured address go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// To this interface. The station cannot move to another one.
    To(String),
    /// Nowhere: frames from and to the address are dropped.
    Nowhere,
}

/// A configured entry of the MAC table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FibEntry(pub Leads);

impl ObjectKind for FibEntry {
    /// The domain's number, and the address as a number.
    type Key = (u32, u64);
    const NAME: &'static str = "l2fib-entry";
    const PHASE: u16 = 118;

    fn title((id, mac): &(u32, u64)) -> String {
        format!("the entry of {} in bridge domain {id}", Mac::from_u64(*mac))
    }
}

impl FibEntry {
    /// Returns the key of an address in a domain.
    pub fn key(id: u32, mac: Mac) -> Key {
        Key::of::<FibEntry>(&(id, mac.to_u64()))
    }
}

impl<W: Host> Object<W> for FibEntry {
    fn validate(
        &self,
        (id, mac): &(u32, u64),
        view: &View<'_, W>,
        _: &<W as World>::Abilities,
    ) -> Result<(), Refused> {
        if !Mac::from_u64(*mac).is_unicast() {
            return refuse(format!("{} is no address of a station", Mac::from_u64(*mac)));
        }
        let Leads::To(port) = &self.0 else { return Ok(()) };
        let there = view.get(&Bridged::key(port)).and_then(|value| value.get::<Bridged>());
        match there.is_some_and(|there| there.bridge == *id) {
            true => Ok(()),
            false => refuse_as(Reason::Unfit, format!("{port} is not a port of bridge domain {id}")),
        }
    }

    fn apply(&self, (id, mac): &(u32, u64), _: Option<&Self>, world: &mut W) -> Result<(), Refused> {
        let (kind, port) = match &self.0 {
            Leads::To(port) => (Kind::Static, world.index(port)?),
            Leads::Nowhere => (Kind::Filter, 0),
        };
        Ok(world.router().state_mut::<Bridges>()?.set_entry(*id, Mac::from_u64(*mac), kind, port)?)
    }

    fn withdraw(&self, (id, mac): &(u32, u64), world: &mut W) -> Result<(), Refused> {
        world.router().state_mut::<Bridges>()?.remove_entry(*id, Mac::from_u64(*mac));
        Ok(())
    }

    fn dump(&self, (id, mac): &(u32, u64), _: bool) -> Vec<String> {
        let to = match &self.0 {
            Leads::To(port) => format!("{} static", quote(port)),
            Leads::Nowhere => "filter".into(),
        };
        vec![format!("l2fib add {} {id} {to}", Mac::from_u64(*mac))]
    }

    fn needs(&self, (id, _): &(u32, u64), to: &mut dyn FnMut(Need)) {
        to(Need::new(&DOMAIN, *id));
        if let Leads::To(port) = &self.0 {
            to(Need::new(&PORT, port.as_str()));
        }
    }
}

impl fmt::Display for Leads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leads::To(port) => f.write_str(port),
            Leads::Nowhere => f.write_str("filter"),
        }
    }
}

impl Valued for FibEntry {
    type Form = Parsed<Leads>;

    fn names() -> Parsed<(u32, u64)> {
        let read = |text: &str| {
            let (id, mac) = text.split_once(' ').unwrap_or((text, ""));
            let mac: Mac = mac.parse().map_err(|_| {
                format!("\"{text}\": expected the number of a bridge domain, a space and an Ethernet address")
            })?;
            Ok((id_of(id)?, mac.to_u64()))
        };
        let write = |(id, mac): &(u32, u64)| quoted(&format!("{id} {}", Mac::from_u64(*mac)));
        parsed(
            "a bridge domain and an address",
            &["10 02:00:00:00:00:01", "7 02:fe:00:00:00:02"],
            read,
            write,
        )
    }

    fn form() -> Parsed<Leads> {
        let read =
            |text: &str| Ok(if text == "filter" { Leads::Nowhere } else { Leads::To(text.to_owned()) });
        parsed("an interface's name, or `filter`", &["pg0", "filter"], read, |leads| {
            quoted(&leads.to_string())
        })
    }

    fn value(&self) -> Leads {
        self.0.clone()
    }

    fn with(leads: Leads) -> FibEntry {
        FibEntry(leads)
    }
}

/// Declares the sections of the configuration file.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.section(Section::named::<BridgeDomain>("bridge-domains"));
    r.section(Section::named::<Bridged>("bridge-ports"));
    r.section(Section::named::<BridgeBvi>("bvis"));
    r.section(Section::values::<FibEntry>("l2fib"));
    r.section(Section::values::<BridgeHost>("bridge-hosts"));
}
