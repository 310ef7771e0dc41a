//! The commands of bridge domains, in VPP's grammar.

use model::cli::{Args, CliError, Output, PAGE, Rows};
use model::key::Key;
use model::object::Change;
use net::feature::{App, Registrar};
use serde::Serialize;
use wire::Mac;

use super::bvi::BridgeBvi;
use super::host::{BridgeHost, Hosts, host};
use super::objects::{BridgeDomain, Bridged, FibEntry, Leads};
use super::table::Shown;
use super::{Bridges, Kind, flush_port};

/// Declares the commands.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    domains(r);
    ports(r);
    table(r);
}

/// Declares the commands of domains.
fn domains<C: App>(r: &mut Registrar<'_, C>) {
    r.command(
        "create bridge-domain <bd:1..16777215> [learn <learn:0..1>] [forward <forward:0..1>] [uu-flood <uu-flood:0..1>] [flood <flood:0..1>] \
         [arp-term <arp-term:0..1>] [arp-ufwd <arp-ufwd:0..1>] [mac-age <mac-age:0..255>] [bd-tag <bd-tag:word>] [del]",
        "Make a bridge domain, which switches frames between its ports. \"mac-age\" is in minutes; 0: learned addresses are kept. \"del\" removes \
         the domain, which must have no ports.",
        create,
    );
    r.command(
        "set bridge-domain {learn | forward | flood | uu-flood | arp-ufwd} <bd:1..16777215> [disable]",
        "Switch on or off what a bridge domain does with frames: learn source addresses, send frames to known stations to their ports only, flood \
         broadcast and multicast frames, flood frames to unknown stations, send ARP messages to all to the port for unknown unicast.",
        |c, a| {
            let is_on = !a.has("disable");
            change_domain(c, a, |d| match (a.has("learn"), a.has("forward"), a.has("flood")) {
                (true, ..) => d.policy.learn = is_on,
                (_, true, _) => d.policy.forward = is_on,
                (.., true) => d.policy.flood = is_on,
                _ if a.has("arp-ufwd") => d.policy.arp_ufwd = is_on,
                _ => d.policy.unknown = is_on,
            })
        },
    );
    r.command(
        "set bridge-domain arp term <bd:1..16777215> [disable]",
        "Answer ARP requests and neighbor solicitations for the hosts of a bridge domain (\"set bridge-domain arp entry\"), instead of flooding them.",
        |c, a| {
            let is_on = !a.has("disable");
            change_domain(c, a, |d| d.policy.arp_term = is_on)
        },
    );
    r.command(
        "set bridge-domain arp entry <bd:1..16777215> {<ip:ip> <mac:mac> [del] | del-all}",
        "Add a host of a bridge domain, or set its Ethernet address. \"del\" removes it, and \"del-all\" all hosts of the domain.",
        host,
    );
    r.command(
        "set bridge-domain mac-age <bd:1..16777215> <minutes:0..255>",
        "Set the time after which a learned address that is not heard any more is forgotten. 0: never.",
        |c, a| {
            let age = a.need("minutes")?;
            change_domain(c, a, |d| d.mac_age = age)
        },
    );
    r.command(
        "set bridge-domain learn-limit <bd:1..16777215> <limit:u32>",
        "Set the maximum number of learned addresses of a bridge domain. Addresses that are known already stay.",
        |c, a| {
            let limit = a.need("limit")?;
            change_domain(c, a, |d| d.policy.limit = limit)
        },
    );
    r.command(
        "show bridge-domain [<bd:1..16777215>] [{detail | int | arp}]",
        "Show the bridge domains; with \"detail\" or \"int\", also their ports; with \"arp\", the hosts for which they answer.",
        |c, a| {
            let (only, with_ports) = (a.get("bd"), a.has("detail") || a.has("int"));
            if let Some(id) = only.filter(|id| domain(c, *id).is_none()) {
                return Err(a.fault("bd", format!("there is no bridge domain {id}")));
            }
            if a.has("arp") {
                return Ok(Output::rows(Hosts::of(only), a.json()));
            }
            Ok(Output::rows(Domains { from: only.unwrap_or(0), only, with_ports, begun: false }, a.json()))
        },
    );
}

/// Declares the commands of ports.
fn ports<C: App>(r: &mut Registrar<'_, C>) {
    r.command(
        "set interface l2 bridge <interface:interface> <bd:1..16777215> [{bvi | uu-fwd}] [<shg:0..255>]",
        "Make an interface a port of a bridge domain, which is made if it does not exist. The interface must have no addresses. With \"bvi\", the \
         interface is a loopback, through which the router itself takes part in the domain: with its addresses, routes and neighbors. With \"uu-fwd\", \
         the port gets the frames to unknown stations, which are not flooded then, and no flooded frames. No frame goes from a port to another port of the same split-horizon group <shg>; 0: no group.",
        bridge,
    );
    r.command(
        "set interface l2 {learn | forward | flood} <interface:interface> [disable]",
        "Switch on or off what a bridge port does with received frames: learn source addresses, send frames to known stations to their ports only, \
         flood.",
        change_port,
    );
}

/// Declares the commands of the MAC table.
fn table<C: App>(r: &mut Registrar<'_, C>) {
    r.command(
        "l2fib add <mac:mac> <bd:1..16777215> {filter | <interface:interface> [static]}",
        "Add an entry to the MAC table. With \"static\", the station is on the port, and cannot move. With \"filter\", frames from and to the address \
         are dropped.",
        |c, a| {
            if a.get::<String>("interface").is_some() && !a.has("static") {
                let why = "add \"static\": entries of stations that may move are not supported yet";
                return Err(a.fault("interface", why));
            }
            let leads = match a.get::<String>("interface") {
                Some(interface) => Leads::To(interface),
                None => Leads::Nowhere,
            };
            let key = FibEntry::key(a.need("bd")?, a.need("mac")?);
            c.transact(vec![Change::set(key, FibEntry(leads))]).map_err(|e| a.about("mac", e))?;
            Ok(Output::none())
        },
    );
    r.command("l2fib del <mac:mac> <bd:1..16777215>", "Remove an entry of the MAC table.", |c, a| {
        let (bd, mac) = (a.need("bd")?, a.need::<Mac>("mac")?);
        let key = FibEntry::key(bd, mac);
        if c.store().get(&key).is_some() {
            c.transact(vec![Change::remove(key)])?;
        } else if !c.router_mut().state_mut::<Bridges>()?.remove_entry(bd, mac) {
            return Err(a.fault("mac", format!("bridge domain {bd} has no entry of {mac}")));
        }
        Ok(Output::none())
    });
    r.command(
        "l2fib flush-mac {all | interface <interface:interface> | bridge-domain <bd:1..16777215>}",
        "Forget the learned addresses of all bridge domains, of a port or of a domain. This takes effect at once.",
        flush,
    );
    r.command("clear l2fib", "Forget the learned addresses of all bridge domains.", |c, _| flush_all(c));
    r.command(
        "show l2fib [{all | verbose}] [bd_id <bd:1..16777215>] [{learn | add}]",
        "Show the MAC table: only learned entries (\"learn\"), or only configured ones (\"add\").",
        |c, a| {
            let bridges = c.router().state::<Bridges>()?;
            let only = a.has("learn").then_some(true).or(a.has("add").then_some(false));
            let (entries, bytes) = bridges.usage();
            Ok(Output::rows(
                Macs { line: 0, bd: a.get("bd"), learned: only, entries, bytes, shown: 0 },
                a.json(),
            ))
        },
    );
}

/// Returns the configuration of a domain.
pub(crate) fn domain<C: App>(c: &C, id: u32) -> Option<BridgeDomain> {
    c.store().get(&BridgeDomain::key(id)).and_then(|value| value.get::<BridgeDomain>()).cloned()
}

/// Returns the changes that remove a domain, with its hosts and its entries of the MAC table. Ports must leave before.
pub(crate) fn removal<C: App>(c: &C, id: u32) -> Vec<Change<C::World>> {
    let tree = c.store().tree();
    let of_domain = [Key::beginning::<BridgeHost>(id), Key::beginning::<FibEntry>(id)];
    let keys = of_domain.into_iter().flat_map(|keys| tree.range(keys)).map(|(key, _)| key.clone());
    keys.chain([BridgeDomain::key(id)]).map(Change::remove).collect()
}

fn create<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let id = a.need("bd")?;
    let key = BridgeDomain::key(id);
    if a.has("del") {
        if domain(c, id).is_none() {
            return Err(a.fault("bd", format!("there is no bridge domain {id}")));
        }
        c.transact(removal(c, id)).map_err(|e| a.about("bd", e))?;
        return Ok(Output::none());
    }
    if domain(c, id).is_some() {
        let why = format!("there is a bridge domain {id} already: use \"set bridge-domain\" to change it");
        return Err(a.fault("bd", why));
    }
    let mut wanted = BridgeDomain::default();
    let flags = [
        ("learn", &mut wanted.policy.learn),
        ("forward", &mut wanted.policy.forward),
        ("uu-flood", &mut wanted.policy.unknown),
        ("flood", &mut wanted.policy.flood),
    ];
    for (word, flag) in flags {
        *flag = a.get::<u8>(word) != Some(0);
    }
    wanted.policy.arp_term = a.get::<u8>("arp-term") == Some(1);
    wanted.policy.arp_ufwd = a.get::<u8>("arp-ufwd") == Some(1);
    wanted.mac_age = a.get("mac-age").unwrap_or(0);
    wanted.tag = a.get("bd-tag").unwrap_or_default();
    c.transact(vec![Change::set(key, wanted)]).map_err(|e| a.about("bd", e))?;
    Ok(Output::text(format!("bridge-domain {id}\n")))
}

fn change_domain<C: App>(
    c: &mut C,
    a: &Args,
    change: impl FnOnce(&mut BridgeDomain),
) -> Result<Output<C>, CliError> {
    let id = a.need("bd")?;
    let Some(mut wanted) = domain(c, id) else {
        return Err(a.fault(
            "bd",
            format!("there is no bridge domain {id}: use \"create bridge-domain {id}\" first"),
        ));
    };
    change(&mut wanted);
    c.transact(vec![Change::set(BridgeDomain::key(id), wanted)]).map_err(|e| a.about("bd", e))?;
    Ok(Output::none())
}

/// The role of an interface in a bridge domain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Port,
    Bvi,
    /// The port for frames to unknown stations.
    UuFwd,
}

/// Returns the changes that make an interface a port, or the BVI.
pub(crate) fn joining<C: App>(
    c: &C,
    interface: &str,
    bridge: u32,
    role: Role,
    group: u8,
) -> Vec<Change<C::World>> {
    let joins = if role == Role::Bvi {
        Change::set(BridgeBvi::key(interface), BridgeBvi { bridge, group })
    } else {
        let mut wanted = port(c, interface).unwrap_or_default();
        (wanted.bridge, wanted.port.group, wanted.port.uu_fwd) = (bridge, group, role == Role::UuFwd);
        Change::set(Bridged::key(interface), wanted)
    };
    let is_new = domain(c, bridge).is_none();
    let made = is_new.then(|| Change::set(BridgeDomain::key(bridge), BridgeDomain::default()));
    made.into_iter().chain([joins]).collect()
}

/// Returns the bridge port of an interface.
pub(crate) fn port<C: App>(c: &C, interface: &str) -> Option<Bridged> {
    c.store().get(&Bridged::key(interface)).and_then(|value| value.get::<Bridged>()).cloned()
}

fn bridge<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let interface = a.need::<String>("interface")?;
    let role = match (a.has("bvi"), a.has("uu-fwd")) {
        (true, _) => Role::Bvi,
        (_, true) => Role::UuFwd,
        _ => Role::Port,
    };
    let changes = joining(c, &interface, a.need("bd")?, role, a.get("shg").unwrap_or(0));
    c.transact(changes).map_err(|e| a.about("interface", e))?;
    Ok(Output::none())
}

fn change_port<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let interface = a.need::<String>("interface")?;
    let Some(mut wanted) = port(c, &interface) else {
        return Err(a.fault("interface", format!("{interface} is no port of a bridge domain")));
    };
    let flag = match (a.has("learn"), a.has("forward")) {
        (true, _) => &mut wanted.port.learn,
        (_, true) => &mut wanted.port.forward,
        _ => &mut wanted.port.flood,
    };
    *flag = !a.has("disable");
    c.transact(vec![Change::set(Bridged::key(&interface), wanted)]).map_err(|e| a.about("interface", e))?;
    Ok(Output::none())
}

fn flush<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    if let Some(interface) = a.get::<String>("interface") {
        if port(c, &interface).is_none() {
            return Err(a.fault("interface", format!("{interface} is no port of a bridge domain")));
        }
        if let Some(index) = c.router().interface_named(&interface).map(|i| i.index) {
            flush_port(c.router_mut(), index)?;
        }
        return Ok(Output::none());
    }
    let Some(bd) = a.get("bd") else { return flush_all(c) };
    if domain(c, bd).is_none() {
        return Err(a.fault("bd", format!("there is no bridge domain {bd}")));
    }
    c.router_mut().state_mut::<Bridges>()?.flush(bd);
    Ok(Output::none())
}

fn flush_all<C: App>(c: &mut C) -> Result<Output<C>, CliError> {
    c.router_mut().state_mut::<Bridges>()?.flush_all();
    Ok(Output::none())
}

/// An entry of the MAC table.
#[derive(Serialize)]
struct Row {
    mac: String,
    bridge_domain: u32,
    /// The interface, if the frames are not filtered.
    interface: Option<String>,
    /// `learned`, `static`, `filter` or `bvi`.
    kind: &'static str,
    /// For a learned address: seconds since the station was heard.
    age: Option<u16>,
}

/// Lists the MAC table, page by page.
struct Macs {
    line: usize,
    bd: Option<u32>,
    /// Only learned entries, or only others.
    learned: Option<bool>,
    entries: usize,
    bytes: usize,
    shown: usize,
}

/// Number of lines of the table in a page.
const LINES: usize = 256;

impl<C: App> Rows<C> for Macs {
    type Row = Row;

    fn next(&mut self, c: &C, page: &mut Vec<Row>) -> bool {
        let router = c.router();
        let Ok(bridges) = router.state::<Bridges>() else { return false };
        let end = self.line + LINES;
        for Shown { bd, mac, place, is_bvi } in bridges.entries(self.line..end, c.now()) {
            let is_learned = place.kind == Kind::Learned;
            if self.bd.is_some_and(|only| only != bd) || self.learned.is_some_and(|only| only != is_learned) {
                continue;
            }
            let interface = router.interface(place.port).ok().filter(|_| place.kind != Kind::Filter);
            let kind = match place.kind {
                _ if is_bvi => "bvi",
                Kind::Learned => "learned",
                Kind::Static => "static",
                Kind::Filter => "filter",
            };
            let age = is_learned.then(|| place.idle(super::mac::second(c.now())));
            let interface = interface.map(|i| i.name.clone());
            page.push(Row { mac: mac.to_string(), bridge_domain: bd, interface, kind, age });
        }
        self.line = end;
        end < bridges.lines()
    }

    fn text(&mut self, page: &[Row], out: &mut String) {
        if self.shown == 0 && !page.is_empty() {
            *out += &format!(
                "{:>17} {:>8} {:>8} {:>7} {}\n",
                "Mac-Address", "BD-ID", "Kind", "Age(s)", "Interface-Name"
            );
        }
        self.shown += page.len();
        for row in page {
            let age = row.age.map_or("-".into(), |age| age.to_string());
            let interface = row.interface.as_deref().unwrap_or("-");
            *out +=
                &format!("{:>17} {:>8} {:>8} {age:>7} {interface}\n", row.mac, row.bridge_domain, row.kind);
        }
    }

    fn end(&mut self, _: &C, out: &mut String) {
        if self.shown == 0 {
            *out += "no l2fib entries\n";
        }
        *out += &format!(
            "L2FIB total entries: {}, with those that are void, in {} KiB\n",
            self.entries,
            self.bytes >> 10
        );
    }
}

/// A bridge domain.
#[derive(Serialize)]
struct DomainRow {
    bridge_domain: u32,
    tag: String,
    learn: bool,
    forward: bool,
    flood: bool,
    uu_flood: bool,
    arp_term: bool,
    arp_ufwd: bool,
    /// In minutes; 0: learned addresses are kept.
    mac_age: u16,
    learned: usize,
    learn_limit: u32,
    /// The loopback that is the router's own interface in the domain.
    bvi: Option<String>,
    ports: Vec<PortRow>,
}

/// A port of a bridge domain.
#[derive(Serialize)]
struct PortRow {
    interface: String,
    split_horizon_group: u8,
    learn: bool,
    forward: bool,
    flood: bool,
    uu_fwd: bool,
}

/// Lists the bridge domains, page by page.
struct Domains {
    from: u32,
    only: Option<u32>,
    with_ports: bool,
    begun: bool,
}

impl<C: App> Rows<C> for Domains {
    type Row = DomainRow;

    fn next(&mut self, c: &C, page: &mut Vec<DomainRow>) -> bool {
        let router = c.router();
        let Ok(bridges) = router.state::<Bridges>() else { return false };
        let mut last = None;
        let wanted = |id: u32| self.only.is_none_or(|only| only == id);
        for (id, policy, members) in bridges.domains(self.from).take(PAGE).filter(|(id, ..)| wanted(*id)) {
            last = Some(id);
            let ports = members.iter().filter_map(|(index, group)| {
                let port = router.setting::<super::BridgePort>(*index);
                Some(PortRow {
                    interface: router.interface(*index).ok()?.name.clone(),
                    split_horizon_group: *group,
                    learn: port.learn,
                    forward: port.forward,
                    flood: port.flood,
                    uu_fwd: port.uu_fwd,
                })
            });
            page.push(DomainRow {
                bridge_domain: id,
                tag: domain(c, id).map(|d| d.tag).unwrap_or_default(),
                learn: policy.learn,
                forward: policy.forward,
                flood: policy.flood,
                uu_flood: policy.unknown,
                arp_term: policy.arp_term,
                arp_ufwd: policy.arp_ufwd,
                mac_age: policy.age / 60,
                learned: bridges.learned(id),
                learn_limit: policy.limit,
                bvi: bridges.bvi(id).and_then(|(index, _)| Some(router.interface(index).ok()?.name.clone())),
                ports: ports.collect(),
            });
        }
        let Some(last) = last.filter(|_| self.only.is_none()) else { return false };
        self.from = last + 1;
        true
    }

    fn text(&mut self, page: &[DomainRow], out: &mut String) {
        let word = |is_on: bool| if is_on { "on" } else { "off" };
        if !self.begun && !page.is_empty() {
            self.begun = true;
            *out += &format!(
                "{:>8} {:>8} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8} {:>11} {:>11} {:>5} {:>8} {}\n",
                "BD-ID",
                "Age(min)",
                "Learning",
                "U-Forwrd",
                "UU-Flood",
                "Flooding",
                "ARP-Term",
                "arp-ufwd",
                "Learn-count",
                "Learn-limit",
                "Ports",
                "BVI-Intf",
                "Tag"
            );
        }
        for d in page {
            let tag = if d.tag.is_empty() { String::new() } else { format!(" {}", d.tag) };
            let age = if d.mac_age == 0 { "off".into() } else { d.mac_age.to_string() };
            *out += &format!(
                "{:>8} {age:>8} {:>8} {:>9} {:>8} {:>8} {:>8} {:>8} {:>11} {:>11} {:>5} {:>8}{tag}\n",
                d.bridge_domain,
                word(d.learn),
                word(d.forward),
                word(d.uu_flood),
                word(d.flood),
                word(d.arp_term),
                word(d.arp_ufwd),
                d.learned,
                d.learn_limit,
                d.ports.len(),
                d.bvi.as_deref().unwrap_or("-")
            );
            for port in d.ports.iter().filter(|_| self.with_ports) {
                *out += &format!(
                    "{:>20} split-horizon-group {} learn {} forward {} flood {}{}\n",
                    port.interface,
                    port.split_horizon_group,
                    word(port.learn),
                    word(port.forward),
                    word(port.flood),
                    if port.uu_fwd { " uu-fwd" } else { "" }
                );
            }
        }
    }

    fn end(&mut self, _: &C, out: &mut String) {
        if !self.begun {
            *out += "no bridge-domains in use\n";
        }
    }
}
