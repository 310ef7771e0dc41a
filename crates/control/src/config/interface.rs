//! Interfaces with their sub-interfaces, and loopbacks.

use std::iter;

use model::yaml::{At, Fields, Node, Reader};
use net::ethernet::{Match, Tags};
use net::feature::{Backing, Begun, Interfaces, Opened, Prepared, Unopened};

use super::beside::{ADDRESSES, BEHIND_SETTINGS, LENDER};
use super::body::body;
use super::encapsulation::encapsulation;
use super::{Doubt, Reading};
use crate::intent::{FeatureOn, Interface, Key, numbered};
use crate::system::{Backed, Catalog, Loopback, Spec, System};

/// The `device-type` that vppcfg uses for hardware that DPDK drives. No interface of Volley has this type, but the word is accepted
/// here, so that the error can name the correct type.
const DPDK: &str = "dpdk";

/// Stands for options of an interface that could not be read, so that the rest of the interface is still
/// checked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unread;

impl Backing<System> for Unread {
    const DEVICE: bool = true;

    fn open(&self, _: &str, _: Prepared, _: &mut System) -> Result<Opened, Unopened> {
        Err(Unopened::new("its options could not be read"))
    }

    fn dump(&self, _: &str) -> String {
        String::new()
    }
}

/// Reads a section that defines interfaces of one type. The section `interfaces` adds their other fields.
pub(super) fn made(reading: &mut Reading<'_>, kind: &Interfaces<System>, node: &Node) {
    for (name, at, node) in reading.r.entries(node) {
        if !matches!((kind.names)(name), Some(Ok(()))) {
            let section = kind.section.unwrap_or_default();
            reading.r.fault(at, format!("{section} are named {}", kind.named));
            reading.lost.interfaces = true;
            continue;
        }
        let mut fields = reading.r.fields(node);
        let begun = (kind.read)(&mut reading.r, name, at, &mut fields).unwrap_or_else(|| Begun::by(Unread));
        fields.end(&mut reading.r);
        let mut interface = Interface::new(Spec::Backed(begun.backed));
        (interface.up, interface.mtu, interface.description) = (true, begun.mtu, begun.description);
        reading.set(at, Interface::key(name), interface);
    }
}

/// Reads `interfaces`, a map by name. An entry for an interface of another section adds fields to that interface.
pub(super) fn interfaces(reading: &mut Reading<'_>, node: &Node) {
    for (name, at, node) in reading.r.entries(node) {
        let key = Interface::key(name);
        let mut fields = reading.r.fields(node);
        let made = reading.tree.remove(&key);
        if made.is_some() {
            reading.places.remove(&key);
        }
        let begun = match made.as_ref().and_then(|made| made.get::<Interface>()) {
            Some(made) => Begun {
                backed: made.spec.backed().cloned().unwrap_or_else(|| Backed::by(Unread)),
                mtu: made.mtu,
                description: made.description.clone(),
            },
            None => {
                let begun = begun(reading.catalog, &mut reading.r, name, at, &mut fields);
                device_type(reading.catalog, &mut reading.r, name, &mut fields);
                // The rest is read in any case, to report all faults.
                begun.unwrap_or_else(|| Begun::by(Unread))
            }
        };
        let subs = fields.take("sub-interfaces");
        let mut interface = Interface::new(Spec::Backed(begun.backed));
        interface.up = true;
        read_body(reading, name, &mut fields, &mut interface);
        interface.description = interface.description.or(begun.description);
        match (begun.mtu, interface.mtu) {
            (Some(host), Some(own)) if host != own => reading.r.fault(
                at,
                format!("{name} has MTU {own}, but its host end has MTU {host}: they must be equal"),
            ),
            _ => interface.mtu = interface.mtu.or(begun.mtu),
        }
        fields.end(&mut reading.r);
        if let Some(subs) = subs {
            sub_interfaces(reading, name, &interface, subs);
        }
        reading.set(at, key, interface);
    }
}

/// Reads the options of the interface `name` that are specific to its type. Reports a fault and returns `None` if the name belongs to no
/// type or to a type with its own section, or if the options cannot be read.
fn begun(
    catalog: &Catalog,
    r: &mut Reader,
    name: &str,
    at: At,
    fields: &mut Fields<'_>,
) -> Option<Begun<System>> {
    let kind = catalog.interfaces_named(name).map(|kind| (kind, (kind.names)(name)));
    let elsewhere = match (kind, catalog.interfaces_left_out(name)) {
        (Some((kind @ Interfaces { section: None, .. }, Some(Ok(())))), _) => {
            return (kind.read)(r, name, at, fields);
        }
        (Some((Interfaces { section: None, .. }, Some(Err(why)))), _) => why.to_string(),
        (Some((Interfaces { section: Some(section), what, .. }, _)), _) => {
            let one = what.strip_prefix("a ").unwrap_or(what);
            format!("{name}: no such {one} in \"{section}\"")
        }
        (_, Some(why)) => format!("{name}: it {why}"),
        (_, None) => match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "loop" | "bvi" => format!("{name}: loopbacks belong in the section \"loopbacks\""),
            "BondEthernet" => format!("{name}: bonding is not supported yet"),
            "vxlan_tunnel" => format!("{name}: VXLAN is not supported yet"),
            _ => {
                let kinds = catalog.interfaces().iter().map(|kind| format!("{} ({})", kind.named, kind.what));
                let kinds: Vec<String> = kinds.collect();
                format!("unknown interface type: \"{name}\" is none of {}", kinds.join(", "))
            }
        },
    };
    r.fault(at, elsewhere);
    // The options of an interface that is refused must not be reported as unknown fields, too.
    catalog.interfaces().iter().filter_map(|kind| kind.field).for_each(|field| _ = fields.take(field));
    None
}

/// Reads `device-type`, which vppcfg has for any interface. The name of some interfaces already determines their type, for example
/// the name of a Linux interface. The field must then match the name.
fn device_type(catalog: &Catalog, r: &mut Reader, name: &str, fields: &mut Fields<'_>) {
    let Some(node) = fields.take("device-type") else { return };
    let words: Vec<&str> =
        catalog.interfaces().iter().filter_map(|kind| kind.device_type).chain([DPDK]).collect();
    let Some(word) = r.word(node, &words) else { return };
    let own = catalog.interfaces_named(name).and_then(|kind| kind.device_type);
    if let Some(own) = own.filter(|own| *own != word) {
        let other = catalog.interfaces().iter().find(|kind| kind.device_type == Some(word));
        let rename = other.map_or_else(String::new, |kind| format!("; {} is {}", kind.named, kind.what));
        r.fault(node.at, format!("{name} needs the device-type {own}, not {word}{rename}"));
    }
}

/// Reads `loopbacks`, a map by name (loopN, bviN).
pub(super) fn loopbacks(reading: &mut Reading<'_>, node: &Node) {
    for (name, at, node) in reading.r.entries(node) {
        let Some(loopback) = Loopback::named(name) else {
            reading.r.fault(at, "loopbacks are named loop0, loop1, …, or bvi0, bvi1, …");
            reading.lost.interfaces = true;
            continue;
        };
        let mut fields = reading.r.fields(node);
        let mut interface = Interface::new(Spec::Loopback(loopback));
        interface.up = true;
        read_body(reading, name, &mut fields, &mut interface);
        fields.end(&mut reading.r);
        reading.set(at, Interface::key(name), interface);
    }
}

/// Reads the common fields of an interface, and the objects on it: addresses, neighbors, features.
fn read_body(reading: &mut Reading<'_>, name: &str, fields: &mut Fields<'_>, interface: &mut Interface) {
    let r = &mut reading.r;
    let faulty = body().read_into(r, fields, interface);
    interface.attached = reading.catalog.read(r, fields);
    for beside in iter::once(&LENDER).chain(BEHIND_SETTINGS) {
        let Some(node) = fields.take(beside.name) else { continue };
        let objects = (beside.read)(&mut reading.r, name, node);
        // Without the VRF, conflicts between addresses cannot be checked.
        if beside.name == ADDRESSES.name && faulty.contains(&"table") {
            continue;
        }
        for (at, key, value) in objects {
            let catalog = reading.catalog;
            let is_setting = key.get::<FeatureOn>().is_some_and(|(_, arc, feature)| {
                catalog.switch_by_name(&arc, &feature, true, &mut interface.attached)
            });
            if !is_setting {
                reading.set(at, key, value);
            }
        }
    }
}

/// Reads `sub-interfaces` of a device, a map by number.
fn sub_interfaces(reading: &mut Reading<'_>, parent: &str, over: &Interface, node: &Node) {
    // Sub-interfaces with one tag: true for a service tag, VLAN, key, MTU. They carry the sub-interfaces with the same outer tag and an
    // inner tag.
    let mut one_tag: Vec<(bool, u16, Key, Option<u16>)> = Vec::new();
    let mut two_tags = Vec::new();
    for (id, at, node) in reading.r.entries(node) {
        let name = format!("{parent}.{id}");
        let Some(id) = id.parse::<u32>().ok().filter(|n| *n > 0 && n.to_string() == id) else {
            reading
                .r
                .fault(at, format!("\"{id}\" is not a sub-interface number: expected 1 to {}", u32::MAX));
            reading.lost.interfaces = true;
            continue;
        };
        let mut fields = reading.r.fields(node);
        let takes = match fields.take("encapsulation") {
            Some(node) => {
                encapsulation().read(&mut reading.r, node.at, node).and_then(|said| said.takes().ok())
            }
            None => tags_of(&mut reading.r, at, id),
        };
        let Some(takes) = takes else {
            reading.lost.interfaces = true;
            continue;
        };
        let mut interface = Interface::new(Spec::Sub { parent: parent.into(), id, takes });
        interface.up = over.up;
        read_body(reading, &name, &mut fields, &mut interface);
        if interface.up && !over.up {
            let doubt = Doubt::Up { sub: Interface::sub_key(&name), over: Interface::key(parent) };
            reading.doubt(at, doubt, format!("{name} cannot be up while {parent} is down"));
        }
        fields.end(&mut reading.r);
        within(reading, at, (&name, interface.mtu), (parent, Interface::key(parent), over.mtu));
        match takes {
            Match::Tags(Tags { outer_service, outer, inner: None }) => {
                one_tag.push((outer_service, outer, Interface::sub_key(&name), interface.mtu));
            }
            Match::Tags(Tags { outer_service, outer, .. }) | Match::AnyInner { outer_service, outer } => {
                two_tags.push((at, name.clone(), (outer_service, outer), interface.mtu));
            }
            Match::Untagged | Match::AnyOuter { .. } | Match::Default => {}
        }
        reading.set(at, Interface::sub_key(&name), interface);
    }
    for (at, name, tag, mtu) in two_tags {
        let outer = one_tag.iter().find(|(service, vlan, ..)| (*service, *vlan) == tag);
        if let Some((_, vlan, key, limit)) = outer {
            let over = format!("the sub-interface of VLAN {vlan}");
            within(reading, at, (&name, mtu), (&over, key.clone(), *limit));
        }
    }
}

/// Checks that a sub-interface's MTU is at most that of the interface that carries it.
fn within(
    reading: &mut Reading<'_>,
    at: At,
    (name, mtu): (&str, Option<u16>),
    (over, key, limit): (&str, Key, Option<u16>),
) {
    if let (Some(mtu), Some(limit)) = (mtu, limit)
        && mtu > limit
    {
        let doubt = Doubt::Mtu { sub: Interface::sub_key(name), over: key };
        let message = format!("{name} has MTU {mtu}, but {over}, which carries it, has only {limit}");
        reading.doubt(at, doubt, message);
    }
}

/// Returns the default match of a sub-interface: the VLAN whose ID is the sub-interface's number `id`. Reports a fault if that is
/// not a valid VLAN ID.
fn tags_of(r: &mut Reader, at: At, id: u32) -> Option<Match> {
    let takes = numbered(id);
    if takes.is_none() {
        r.fault(at, format!("{id} is not a VLAN: this sub-interface needs an \"encapsulation\""));
    }
    takes
}
