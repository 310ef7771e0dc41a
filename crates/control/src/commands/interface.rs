//! Commands that create, configure and remove interfaces.

use std::time::Instant;

use drivers::{Patience, Waiter};
use graph::ArcError;
use net::ethernet::{Match, Tags};
use net::feature::{Prepared, Unready, free_number, unset};
use net::interface::Kind;
use net::ip::Address;
use wire::Mac;

use super::later::later;
use super::long::{ForClient, Told};
use super::table;
use crate::app::{AT_ONCE, Context, Done, Failure, Output, Removal, joined, on_a_thread};
use crate::cli::{Args, CliError, Registry};
use crate::intent::{
    Addresses, Change, Family, FeatureOn, Interface, Key, Refused, Snapshot, Unnumbered, VLANS, refuse,
};
use crate::system::{Absence, Backed, Loopback, Spec};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    made(r);
    set(r);
    of_the_network_layer(r);
}

/// Declares the commands that create and remove interfaces.
fn made(r: &mut Registry<Context>) {
    r.add(
        "bvi create [mac <mac:mac>] [instance <instance:u16>] [index <index:u32>]",
        "Make a loopback interface with a name of its own (bvi0, …) for a bridge domain: \"set interface l2 bridge\" makes it the domain's BVI. Any \
         loopback can be one.",
        create_loopback,
    );
    for words in ["create loopback interface", "loopback create-interface"] {
        r.add(
            &format!("{words} [mac <mac:mac>] [instance <instance:u16>] [index <index:u32>]"),
            "Make a loopback interface.",
            create_loopback,
        );
    }
    for words in ["delete loopback interface intfc", "loopback delete-interface intfc", "bvi delete"] {
        r.add(&format!("{words} <interface:interface>"), "Remove a loopback interface.", |c, a| {
            let name: String = a.need("interface")?;
            delete(c, a, "interface", &name, |spec| matches!(spec, Spec::Loopback(_)))
        });
    }
    r.add(
        "create sub-interfaces <interface:interface> <id:1..4294967295> [{dot1q <vlan:u16> | dot1ad <service:u16>}] \
         [inner-dot1q <inner:u16>] [exact-match] [index <index:u32>]",
        "Make a sub-interface for packets with these VLAN tags. Without tags, its number is the VLAN.",
        create_tagged,
    );
    r.add(
        "create sub-interfaces <interface:interface> <id:1..4294967295> {dot1q <vlan:u16> | dot1ad <service:u16>} inner-dot1q any \
         [exact-match] [index <index:u32>]",
        "Make a sub-interface for packets with two VLAN tags, whatever the VLAN of the inner tag. It only receives.",
        |c, a| {
            let outer_service = a.has("dot1ad");
            let tag = if outer_service { "service" } else { "vlan" };
            create_sub(c, a, tag, Match::AnyInner { outer_service, outer: a.need(tag)? })
        },
    );
    r.add(
        "create sub-interfaces <interface:interface> <id:1..4294967295> {dot1q any | dot1ad any} [exact-match] [index <index:u32>]",
        "Make a sub-interface for packets with one VLAN tag of any VLAN that no other sub-interface takes. It only receives.",
        |c, a| {
            let takes = Match::AnyOuter { outer_service: a.has("dot1ad") };
            create_sub(c, a, "any", takes)
        },
    );
    r.add(
        "create sub-interfaces <interface:interface> <id:1..4294967295> default [index <index:u32>]",
        "Make a sub-interface for packets with VLAN tags that no other sub-interface takes. It only receives.",
        |c, a| create_sub(c, a, "default", Match::Default),
    );
    r.add(
        "create sub-interfaces <interface:interface> <id:1..4294967295> untagged [index <index:u32>]",
        "Make a sub-interface for packets without VLAN tags. The device's own interface then no longer receives them.",
        |c, a| create_sub(c, a, "untagged", Match::Untagged),
    );
    r.add(
        "create sub-interfaces <interface:interface> <ids:range>",
        "Make a sub-interface for each VLAN of a range, such as 20-22. If one of them cannot be made, none is made.",
        create_range,
    );
    r.add("delete sub-interface <interface:interface>", "Remove a sub-interface.", |c, a| {
        delete(c, a, "interface", &a.need::<String>("interface")?, |spec| matches!(spec, Spec::Sub { .. }))
    });
}

/// Declares the commands for settings of every interface.
fn set(r: &mut Registry<Context>) {
    r.add(
        "set interface state <interface:interface> {up | down}",
        "Bring an interface up or down.",
        |c, a| {
            let up = a.has("up");
            change(c, a, "interface", |i| i.up = up)
        },
    );
    r.add("set interface mtu [packet] <mtu:u16> <interface:interface>", "Set the MTU in bytes.", mtu);
    r.add(
        "set interface mac address <interface:interface> <mac:mac>",
        "Set the Ethernet address.",
        |c, a| {
            let mac = Some(a.need::<Mac>("mac")?);
            change(c, a, "mac", |i| i.mac = mac)
        },
    );
    r.add(
        "set interface description/tag <interface:interface> <description:word>",
        "Set the description of an interface: a line of text. Put several words in double quotes.",
        |c, a| {
            let text: String = a.need("description")?;
            change(c, a, "description", |i| i.description = Some(text))
        },
    );
    r.add(
        "set interface description/tag del <interface:interface>",
        "Remove the description of an interface.",
        |c, a| change(c, a, "interface", |i| i.description = None),
    );
    r.add(
        "set interface feature <interface:interface> <feature:word> arc <arc:word> [disable]",
        "Switch a feature of an arc on or off for an interface.",
        switch_feature,
    );
}

/// Declares the commands for VRFs and addresses.
fn of_the_network_layer(r: &mut Registry<Context>) {
    // The command of either family binds the interface for both families.
    for family in Family::ALL {
        r.add(
            &format!("set interface {} table <interface:interface> <table:table>", family.noun()),
            "Bind an interface to a VRF, for both families.",
            |c, a| {
                let table = table(a, "table");
                change(c, a, "table", |i| i.table = table)
            },
        );
    }
    r.add(
        "enable ip6 interface <interface:interface>",
        "Enable IPv6 on an interface, with its link-local address, even if the interface has no other IPv6 address.",
        |c, a| change(c, a, "interface", |i| i.ip6 = true),
    );
    r.add(
        "disable ip6 interface <interface:interface>",
        "Disable IPv6 on an interface. It stays enabled while the interface has an IPv6 address.",
        disable_ip6,
    );
    r.add(
        "set interface unnumbered <interface:interface> use <lender:interface>",
        "Let an interface without addresses use those of another interface.",
        |c, a| {
            let key = Unnumbered::key(&a.need::<String>("interface")?);
            let value = Unnumbered(a.need("lender")?);
            done(c, vec![Change::set(key, value)]).map_err(|e| a.about("interface", e))
        },
    );
    r.add(
        "set interface unnumbered del <interface:interface>",
        "Stop using the addresses of another interface.",
        |c, a| unset(c, Unnumbered::key(&a.need::<String>("interface")?)),
    );
    r.add(
        "set interface ip address [del] <interface:interface> <address:address>",
        "Add an address to an interface, or remove it.",
        change_address,
    );
    r.add(
        "set interface ip address del <interface:interface> all",
        "Remove all addresses of an interface.",
        |c, a| unset(c, Addresses::key(&a.need::<String>("interface")?)),
    );
    r.add(
        "set interface proxy-arp <interface:interface> [{enable | disable}]",
        "Answer ARP requests for hosts behind other interfaces; also Neighbor Discovery, if IPv6 is enabled on the interface.",
        |c, a| {
            let on = !a.has("disable");
            change(c, a, "interface", |i| i.proxy = on)
        },
    );
}

fn done(c: &mut Context, changes: Vec<Change>) -> Done {
    c.transact(changes)?;
    Ok(Output::none())
}

/// Creates an interface. Outputs its name, followed by a warning if the interface's device has one. Error messages point to the
/// argument or keyword `about` of the command.
pub(super) fn create(c: &mut Context, a: &Args, about: &str, key: Key, mut interface: Interface) -> Done {
    interface.index = a.get::<u32>("index");
    let Some(name) = Interface::name_in(&key) else { return Err(CliError::new("not an interface")) };
    if c.store.get(&key).is_some() {
        return Err(a.fault(about, format!("there is an interface {name} already")));
    }
    let change = Change::set(key, interface);
    c.transact(vec![change]).map_err(|e| a.about(about, e))?;
    let device = c.system.router.interface_named(&name).and_then(|i| i.device.as_ref());
    let warning = device.and_then(|d| d.warning()).map(|text| format!("warning: {text}\n"));
    Ok(Output::text(format!("{name}\n{}", warning.unwrap_or_default())))
}

fn create_loopback(c: &mut Context, a: &Args) -> Done {
    let of_bvi = a.has("bvi");
    let (prefix, word) = if of_bvi { ("bvi", "bvi") } else { ("loop", "loopback") };
    let instance = match a.get::<u16>("instance") {
        Some(instance) => instance,
        None => u16::try_from(free_number(c, prefix))
            .map_err(|_| a.fault(word, "all numbers of loopback interfaces are in use"))?,
    };
    let loopback = if of_bvi { Loopback::Bvi(instance) } else { Loopback::Loop(instance) };
    let interface = Interface { mac: a.get::<Mac>("mac"), ..Interface::new(Spec::Loopback(loopback)) };
    create(c, a, "instance", Interface::key(&loopback.to_string()), interface)
}

/// See [`App::create_interface`](net::feature::App::create_interface).
pub(super) fn create_backed(c: &mut Context, a: &Args, about: &str, name: &str, backed: Backed) -> Done {
    let spec = Spec::Backed(backed.clone());
    let interface = Interface { mac: a.get::<Mac>("mac"), mtu: a.get::<u16>("mtu"), ..Interface::new(spec) };
    if !backed.is_slow() {
        return create(c, a, about, Interface::key(name), interface);
    }
    let (of, is_start) = (backed.clone(), c.system.absence == Absence::Missing);
    let patience = if is_start { Patience::of(c.system.patience) } else { Patience::without_end() };
    let (begun, waiter) = (Instant::now(), Waiter(patience.clone()));
    let work = move || {
        let ready = of.prepare(&patience);
        // At the start, the interface waits for its device. The other files are looked up when it is opened.
        Ok(if is_start { Ok(ready) } else { ready.and_then(|ready| of.find().map(|()| Ok(ready))) })
    };
    let mut preparing = Some(on_a_thread(work)?);
    let look = move |a: &Args| {
        // If the client leaves, the command is dropped, and its reading ends.
        let _ = &waiter;
        let prepared = joined(preparing.take_if(|preparing| preparing.is_finished())?);
        Some(prepared.and_then(|prepared| prepared.map_err(|e| a.fault(e.about, e.why.to_string()))))
    };
    let (name, about) = (name.to_string(), about.to_string());
    let then = move |c: &mut Context, a: &Args, prepared: Result<Prepared, Unready>| {
        if is_start {
            c.system.patience = c.system.patience.saturating_sub(begun.elapsed());
        }
        // A running apply may have prepared an interface of this name.
        c.changes.must_be_free().map_err(|e| a.about(&about, e))?;
        c.system.prepared.insert(name.clone(), (backed, prepared));
        let made = create(c, a, &about, Interface::key(&name), interface);
        c.system.prepared.remove(&name);
        made
    };
    Ok(later(a, look, then))
}

/// Creates a sub-interface for packets with exact tags.
fn create_tagged(c: &mut Context, a: &Args) -> Done {
    let id = a.need::<u32>("id")?;
    let (service, inner) = (a.get::<u16>("service"), a.get::<u16>("inner"));
    let outer = match service.or(a.get::<u16>("vlan")) {
        Some(vlan) => vlan,
        None if inner.is_some() => {
            return Err(
                a.fault("inner", "an inner tag needs an outer one: put dot1q VLAN or dot1ad VLAN before it")
            );
        }
        None => u16::try_from(id)
            .map_err(|_| a.fault("id", "without tags, the number is the VLAN and must be 1 to 4094"))?,
    };
    let tags = Tags { outer_service: service.is_some(), outer, inner };
    let given = ["service", "vlan", "id"].into_iter().find(|n| a.get::<u32>(n).is_some());
    let about = match inner {
        Some(inner) if VLANS.contains(&outer) && !VLANS.contains(&inner) => "inner",
        _ => given.unwrap_or("id"),
    };
    create_sub(c, a, about, tags.into())
}

/// Creates a sub-interface for the packets that `takes` matches. Error messages about `takes` point to the argument or keyword
/// `of_match` of the command.
fn create_sub(c: &mut Context, a: &Args, of_match: &str, takes: Match) -> Done {
    let (parent, id) = (a.need::<String>("interface")?, a.need::<u32>("id")?);
    let over = c.system.router.interface_named(&parent);
    let about = if over.is_some_and(|over| over.kind != Kind::Device) { "interface" } else { of_match };
    let name = format!("{parent}.{id}");
    if c.store.get(&Interface::sub_key(&name)).is_some() {
        return Err(a.fault("id", format!("there is an interface {name} already")));
    }
    create(c, a, about, Interface::sub_key(&name), Interface::new(Spec::Sub { parent, id, takes }))
}

/// Creates the sub-interfaces of a range of VLANs, all or none. A long range is made in slices.
fn create_range(c: &mut Context, a: &Args) -> Done {
    let (parent, (first, last)) = (a.need::<String>("interface")?, a.need::<(u32, u32)>("ids")?);
    let vlan = |id: u32| u16::try_from(id).ok().filter(|vlan| VLANS.contains(vlan));
    let (Some(first), Some(last)) = (vlan(first), vlan(last)) else {
        return Err(a.fault("ids", format!("VLANs must be {} to {}", VLANS.start(), VLANS.end())));
    };
    let device = c.system.router.interface_named(&parent).is_none_or(|i| i.kind == Kind::Device);
    let about = if device { "ids" } else { "interface" };
    let names: String = (first..=last).map(|vlan| format!("{parent}.{vlan}\n")).collect();
    let changes = move |now: &Snapshot| {
        let new = (first..=last).map(|vlan| {
            let name = format!("{parent}.{vlan}");
            let key = Interface::sub_key(&name);
            if now.tree().get(&key).is_some() {
                return refuse(format!("there is an interface {name} already; no interface was made"));
            }
            let tags = Tags { outer_service: false, outer: vlan, inner: None };
            let spec = Spec::Sub { parent: parent.clone(), id: vlan.into(), takes: tags.into() };
            Ok(Change::set(key, Interface::new(spec)))
        });
        new.collect::<Result<Vec<Change>, Refused>>()
    };
    // The snapshot is dropped before the change. If it still existed, the change would copy the whole tree.
    let few = changes(&c.store.snapshot()).map_err(|e| a.about("ids", Failure::from(e)))?;
    if few.len() <= AT_ONCE {
        c.transact(few).map_err(|e| a.about(about, e))?;
        return Ok(Output::text(names));
    }
    let told = Told::new(c.change_many(changes)).about(a, about).ending_with(names);
    Ok(Output::job(ForClient::new(told, c)))
}

/// Changes the settings of an interface. Error messages point to the argument `about` of the command.
pub(super) fn change(c: &mut Context, a: &Args, about: &str, f: impl FnOnce(&mut Interface)) -> Done {
    let name = a.need::<String>("interface")?;
    let (key, old) = find(c, &name)?;
    let mut new = old;
    f(&mut new);
    done(c, vec![Change::set(key, new)]).map_err(|e| a.about(about, e))
}

fn disable_ip6(c: &mut Context, a: &Args) -> Done {
    change(c, a, "interface", |i| i.ip6 = false)?;
    let name = a.need::<String>("interface")?;
    match c.system.router.interface_named(&name) {
        Some(i) if i.speaks_ip6() => {
            Ok(Output::text(format!("IPv6 stays enabled on {name} while it has an IPv6 address")))
        }
        _ => Ok(Output::none()),
    }
}

fn mtu(c: &mut Context, a: &Args) -> Done {
    let (name, wanted) = (a.need::<String>("interface")?, a.need::<u16>("mtu")?);
    change(c, a, "mtu", |i| i.mtu = Some(wanted))?;
    let has = c.system.router.interface_named(&name).map_or(wanted, |i| i.mtu);
    if has < wanted {
        return Ok(Output::text(format!(
            "the MTU of {name} is limited to {has} until the MTU of its device is raised"
        )));
    }
    Ok(Output::none())
}

pub(super) fn find(c: &Context, name: &str) -> Result<(Key, Interface), CliError> {
    Interface::find(c.store.tree(), name)
        .ok_or_else(|| CliError::new(format!("there is no interface {name}")))
}

/// Adds an address at the end of the interface's list of addresses. With `del`, removes the address.
fn change_address(c: &mut Context, a: &Args) -> Done {
    let (interface, address) = (a.need::<String>("interface")?, a.need::<Address>("address")?);
    let mut list = Addresses::on(&interface, c.store.tree());
    let had = list.contains(&address);
    match (a.has("del"), had) {
        (false, true) => return Ok(Output::none()),
        (false, false) => list.push(address),
        (true, true) => list.retain(|a| *a != address),
        (true, false) => return Err(a.fault("address", format!("{interface} has no address {address}"))),
    }
    done(c, vec![Addresses::change_to(&interface, list)]).map_err(|e| a.about("address", e))
}

fn switch_feature(c: &mut Context, a: &Args) -> Done {
    let (arc, feature) = (a.need::<String>("arc")?, a.need::<String>("feature")?);
    if let Err(e) = c.system.abilities.check_feature(&arc, &feature) {
        let about = if matches!(e, ArcError::NoArc(_)) { "arc" } else { "feature" };
        return Err(a.fault(about, e.to_string()));
    }
    let interface = a.need::<String>("interface")?;
    let on = !a.has("disable");
    let (key, mut value) = find(c, &interface).map_err(|e| a.about("interface", e))?;
    if c.system.abilities.catalog.switch_by_name(&arc, &feature, on, &mut value.attached) {
        return done(c, vec![Change::set(key, value)]).map_err(|e| a.about("feature", e));
    }
    // A setting enables this feature: it can be neither enabled nor disabled here.
    if let Some(way) = c.system.abilities.catalog.way(&feature, &interface) {
        return Err(a.fault("feature", way));
    }
    let key = FeatureOn::key(&interface, &arc, &feature);
    let was_on = c.store.get(&key).is_some();
    // No change if the feature already has this state.
    let changes = (was_on != on).then(|| Change { key, value: on.then(|| FeatureOn.into()) });
    done(c, changes.into_iter().collect()).map_err(|e| a.about("feature", e))
}

/// Removes an interface with all dependents: sub-interfaces, features, addresses, neighbors, and routes that name the interface.
/// Refuses an interface for which `is_kind` is false: the operator probably mistyped the name. Error messages point to the argument
/// or keyword `place` of the command.
pub(super) fn delete(
    c: &mut Context,
    a: &Args,
    place: &str,
    name: &str,
    is_kind: impl Fn(&Spec) -> bool,
) -> Done {
    let (key, interface) = find(c, name).map_err(|e| a.about(place, e))?;
    if !is_kind(&interface.spec) {
        return Err(a.fault(
            place,
            format!("{name} is of another kind (see \"show config\"): use the delete command of that kind"),
        ));
    }
    match c.removal(key) {
        Removal::AtOnce(changes) => done(c, changes),
        Removal::Long(change) => Ok(Output::job(ForClient::new(Told::new(change), c))),
    }
}
