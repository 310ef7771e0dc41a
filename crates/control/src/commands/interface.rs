//! Making and setting interfaces.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use drivers::pcap::{self, Speed};
use drivers::{af_packet, af_xdp, tap};
use graph::ArcError;
use net::ethernet::Tags;
use net::interface::Kind;
use net::ip::Address;
use wire::Mac;

use super::config::LOOK;
use super::long::ForClient;
use super::whole::{Thread, Whole, joined, on_a_thread};
use super::{Context, Output, table};
use crate::cli::{Args, CliError, Job, Registry, Step};
use crate::files;
use crate::intent::{Addresses, Change, Family, FeatureOn, Interface, Key, Spec, Unnumbered, VLANS};

/// Objects that are looked at, or go, at once: a millisecond's worth.
const MANY: usize = 1000;

type Done = Result<Output, CliError>;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "create host-interface name <name:word> [hw-addr <mac:mac>] [shared] [v3] [force] [index <index:u32>]",
        "Take a Linux interface; it becomes host-NAME.",
        create_host,
    );
    r.add("delete host-interface name <name:word>", "Give a Linux interface back.", |c, a| {
        let host = format!("host-{}", a.need::<String>("name")?);
        delete(c, a, "name", &host, |spec| matches!(spec, Spec::Host(_)))
    });
    r.add(
        "create interface af_xdp host-if <name:word> [num-rx-queues {all | <queues:u32>}] [rx-queue-size <rx:u32>] \
         [tx-queue-size <tx:u32>] [{native | generic}] [{zero-copy | no-zero-copy}] [hw-addr <mac:mac>] [force] \
         [index <index:u32>]",
        "Take a Linux interface by AF_XDP, with all its queues; it becomes xdp-NAME.",
        create_xdp,
    );
    r.add("delete interface af_xdp <interface:interface>", "Give a Linux interface back.", |c, a| {
        delete(c, a, "interface", &a.need::<String>("interface")?, |spec| matches!(spec, Spec::Xdp(_)))
    });
    r.add(
        "create tap [id <id:u32>] [host-if-name <host:word>] [host-ns <ns:word>] [host-mac-addr <host-mac:mac>] \
         [host-ip4-addr <host-ip:address4>] [hw-addr <mac:mac>] [{gso | no-gso}] [index <index:u32>]",
        "Make a tap, whose other end is an interface of this host.",
        create_tap,
    );
    r.add("delete tap <interface:interface>", "Remove a tap.", |c, a| {
        delete(c, a, "interface", &a.need::<String>("interface")?, |spec| matches!(spec, Spec::Tap(..)))
    });
    r.add(
        "create loopback interface [mac <mac:mac>] [instance <instance:u16>] [index <index:u32>]",
        "Make a loopback interface.",
        create_loopback,
    );
    r.add("delete loopback interface intfc <interface:interface>", "Remove a loopback interface.", |c, a| {
        delete(c, a, "interface", &a.need::<String>("interface")?, |spec| matches!(spec, Spec::Loopback(_)))
    });
    r.add(
        "create sub-interfaces <interface:interface> <id:u32> [{dot1q <vlan:u16> | dot1ad <service:u16>}] \
         [inner-dot1q <inner:u16>] [exact-match] [index <index:u32>]",
        "Make an interface for packets with these VLAN tags; without tags given, its number is the VLAN.",
        create_sub,
    );
    r.add("delete sub-interface <interface:interface>", "Remove a sub-interface.", |c, a| {
        delete(c, a, "interface", &a.need::<String>("interface")?, |spec| matches!(spec, Spec::Sub { .. }))
    });
    r.add(
        "create packet-generator interface <name:word> [index <index:u32>]",
        "Make a packet generator and sink; names are pg0, pg1, ….",
        create_generator,
    );
    r.add("delete packet-generator interface <interface:interface>", "Remove a packet generator.", |c, a| {
        delete(c, a, "interface", &a.need::<String>("interface")?, |spec| matches!(spec, Spec::Generator(_)))
    });
    r.add(
        "create pcap interface <name:word> [rx <rx:path>] [{rate <pps:u32> | full-speed}] \
         [loop {forever | <rounds:u32>}] [tx <tx:path>] [max <most:u64>] [index <index:u32>]",
        "Make a device that receives the packets of one file (pcap or pcapng), with the times between them that it has or \
         faster, and writes what is sent to it to another; names are pcap0, pcap1, …. It plays from when it is set up.",
        create_pcap,
    );
    r.add("delete pcap interface <interface:interface>", "Remove a device of files.", |c, a| {
        delete(c, a, "interface", &a.need::<String>("interface")?, |spec| matches!(spec, Spec::Pcap(..)))
    });
    r.add(
        "set interface state <interface:interface> {up | down}",
        "Bring an interface up or down.",
        |c, a| {
            let up = a.has("up");
            change(c, a, "interface", |i| i.up = up)
        },
    );
    r.add(
        "set interface mtu [packet] <mtu:u16> <interface:interface>",
        "Set the largest packet, bytes.",
        mtu,
    );
    r.add(
        "set interface mac address <interface:interface> <mac:mac>",
        "Set the Ethernet address.",
        |c, a| {
            let mac = Some(a.need::<Mac>("mac")?);
            change(c, a, "mac", |i| i.mac = mac)
        },
    );
    // A VRF is one of both families.
    for family in Family::ALL {
        r.add(
            &format!("set interface {} table <interface:interface> <table:u16>", family.noun()),
            "Bind an interface to a VRF, for both families.",
            |c, a| {
                let table = table(a, "table");
                change(c, a, "table", |i| i.table = table)
            },
        );
    }
    r.add(
        "enable ip6 interface <interface:interface>",
        "Speak IPv6 on an interface, with its link-local address, even if it is given no other.",
        |c, a| change(c, a, "interface", |i| i.ip6 = true),
    );
    r.add(
        "disable ip6 interface <interface:interface>",
        "Speak no IPv6 on an interface, unless it has an IPv6 address.",
        disable_ip6,
    );
    r.add(
        "set interface unnumbered <interface:interface> use <lender:interface>",
        "Let an interface without addresses use those of another one.",
        |c, a| {
            let key = Unnumbered::key(&a.need::<String>("interface")?);
            let value = Unnumbered(a.need("lender")?);
            done(c, vec![Change::set(key, value)]).map_err(|e| a.about("interface", e))
        },
    );
    r.add(
        "set interface unnumbered del <interface:interface>",
        "Let an interface use no other one's addresses.",
        |c, a| c.unset(Unnumbered::key(&a.need::<String>("interface")?)),
    );
    r.add(
        "set interface proxy-arp <interface:interface> [{enable | disable}]",
        "Answer on an interface for hosts that are reached by others: ARP, and Neighbor Discovery if IPv6 is spoken there.",
        |c, a| {
            let on = !a.has("disable");
            change(c, a, "interface", |i| i.proxy = on)
        },
    );
    r.add(
        "set interface ip address [del] <interface:interface> <address:address>",
        "Give an interface an address, or take it away.",
        change_address,
    );
    r.add(
        "set interface ip address del <interface:interface> all",
        "Take all addresses from an interface.",
        |c, a| c.unset(Addresses::key(&a.need::<String>("interface")?)),
    );
    r.add(
        "set interface description <interface:interface> <description:word>",
        "Say what an interface is for, in a line for people; several words in double quotes.",
        |c, a| {
            let text: String = a.need("description")?;
            change(c, a, "description", |i| i.description = Some(text))
        },
    );
    r.add(
        "set interface description del <interface:interface>",
        "Forget what was said of an interface.",
        |c, a| change(c, a, "interface", |i| i.description = None),
    );
    r.add(
        "set interface feature <interface:interface> <feature:word> arc <arc:word> [disable]",
        "Switch a feature of an arc on or off for an interface.",
        switch_feature,
    );
}

fn done(c: &mut Context, changes: Vec<Change>) -> Done {
    c.transact(changes)?;
    Ok(Output::none())
}

/// Makes an interface and says its name, and what there is to know of its device; a refusal is about the argument or word `about`.
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

fn create_host(c: &mut Context, a: &Args) -> Done {
    let name = a.need::<String>("name")?;
    let config = af_packet::Config {
        mode: if a.has("v3") { af_packet::Mode::V3 } else { af_packet::Mode::V2 },
        shared: a.has("shared"),
        force: a.has("force"),
        ..af_packet::Config::new(name.clone())
    };
    let interface = Interface { mac: a.get::<Mac>("mac"), ..Interface::new(Spec::Host(config)) };
    create(c, a, "name", Interface::key(&format!("host-{name}")), interface)
}

fn create_xdp(c: &mut Context, a: &Args) -> Done {
    let usual = af_xdp::Config::new(a.need::<String>("name")?);
    let config = af_xdp::Config {
        queues: a.get("queues"),
        rx_ring: a.get("rx").unwrap_or(usual.rx_ring),
        tx_ring: a.get("tx").unwrap_or(usual.tx_ring),
        attach: match (a.has("native"), a.has("generic")) {
            (true, _) => Some(af_xdp::Attach::Native),
            (_, true) => Some(af_xdp::Attach::Generic),
            _ => None,
        },
        copying: match (a.has("zero-copy"), a.has("no-zero-copy")) {
            (true, _) => af_xdp::Copying::Never,
            (_, true) => af_xdp::Copying::Always,
            _ => af_xdp::Copying::IfNeeded,
        },
        force: a.has("force"),
        ..usual
    };
    let key = Interface::key(&format!("xdp-{}", config.name));
    let interface = Interface { mac: a.get::<Mac>("mac"), ..Interface::new(Spec::Xdp(config)) };
    create(c, a, "name", key, interface)
}

fn create_tap(c: &mut Context, a: &Args) -> Done {
    let id = match a.get::<u32>("id") {
        Some(id) => id,
        None => free_number(c, "tap"),
    };
    let host_namespace = a.get::<String>("ns").map(PathBuf::from);
    let config = tap::Config {
        host_namespace: host_namespace.clone(),
        host_mac: a.get::<Mac>("host-mac").map(|m| m.0),
        host_ip4: a.get::<Address>("host-ip").and_then(Address::of::<Ipv4Addr>).map(|a| (a.address, a.len)),
        gso: !a.has("no-gso"),
        ..tap::Config::new(a.get::<String>("host").unwrap_or_else(|| format!("tap{id}")))
    };
    let interface = Interface { mac: a.get::<Mac>("mac"), ..Interface::new(Spec::Tap(id, config)) };
    // What is left to refuse is a name that is taken, here or at the host's end.
    let about = ["host", "id"].into_iter().find(|name| a.has(name)).unwrap_or("tap");
    let name = format!("tap{id}");
    let Some(namespace) = host_namespace else {
        return create(c, a, about, Interface::key(&name), interface);
    };
    let looked = on_a_thread(move || {
        let found = files::open_by(&tap::namespace_file(&namespace), tap::open_namespace);
        Ok(match found.map_err(|e| (e.kind(), e)) {
            Ok(_) => Ok(None),
            Err((ErrorKind::NotFound, _)) => {
                Err(("ns", format!("there is no network namespace {}", namespace.display())))
            }
            Err((_, e)) => {
                Err(("ns", format!("the network namespace {} cannot be opened: {e}", namespace.display())))
            }
        })
    })?;
    Ok(Output::job(CreateLater { args: a.clone(), name, interface, about, looked: Some(looked) }))
}

fn create_loopback(c: &mut Context, a: &Args) -> Done {
    let instance = match a.get::<u16>("instance") {
        Some(instance) => instance,
        None => u16::try_from(free_number(c, "loop"))
            .map_err(|_| a.fault("loopback", "there are as many loopback interfaces as there can be"))?,
    };
    let interface = Interface { mac: a.get::<Mac>("mac"), ..Interface::new(Spec::Loopback(instance)) };
    create(c, a, "instance", Interface::key(&format!("loop{instance}")), interface)
}

/// The name of a device, and the number in it: one name a number, as the Ethernet address follows from it.
fn numbered(a: &Args, prefix: &str, what: &str) -> Result<(String, u16), CliError> {
    let name = a.need::<String>("name")?;
    let number = name.strip_prefix(prefix).and_then(|n| n.parse().ok());
    match number.filter(|n: &u16| format!("{prefix}{n}") == name) {
        Some(number) => Ok((name, number)),
        None => {
            let last = u16::MAX;
            let names = format!("{prefix}0, {prefix}1, … {prefix}{last}");
            Err(a.fault("name", format!("\"{name}\" is no name for a {what}: they are {names}")))
        }
    }
}

fn create_pcap(_: &mut Context, a: &Args) -> Done {
    let (name, number) = numbered(a, "pcap", "device of files")?;
    let mut config = pcap::Config::new(number);
    if let Some(file) = a.get::<PathBuf>("rx") {
        let speed = match a.get::<u32>("pps") {
            Some(0) => return Err(a.fault("pps", "a rate is at least one packet a second")),
            Some(pps) => Speed::Rate(pps),
            None if a.has("full-speed") => Speed::Full,
            None => Speed::Own,
        };
        let rounds = match a.get::<u32>("rounds") {
            Some(0) => return Err(a.fault("rounds", "a file is replayed at least once")),
            rounds => rounds.or((!a.has("forever")).then_some(1)),
        };
        config.replay = Some(pcap::Replay { file, speed, rounds });
    } else if let Some(word) = ["rate", "full-speed", "loop"].into_iter().find(|word| a.has(word)) {
        return Err(a.fault(word, "this is of a file that is replayed: rx FILE"));
    }
    if let Some(file) = a.get::<PathBuf>("tx") {
        config.record = Some(pcap::Record { file, most: a.get::<u64>("most").unwrap_or(pcap::PACKETS) });
    } else if a.has("max") {
        return Err(a.fault("max", "this is of a file that is recorded: tx FILE"));
    }
    if config.replay.is_none() && config.record.is_none() {
        return Err(a.fault("name", "it has no file: rx FILE to replay one, tx FILE to record one, or both"));
    }
    let (replay, record) = (config.replay.clone(), config.record.clone());
    let looked = on_a_thread(move || {
        Ok(match (replay.map(|replay| pcap::load(&replay)).transpose(), record) {
            (Err(e), _) => Err(("rx", e.to_string())),
            (Ok(recording), None) => Ok(recording),
            (Ok(recording), Some(pcap::Record { file, .. })) => match files::may_be_made(&file) {
                Ok(()) => Ok(recording),
                Err(e) => Err(("tx", format!("{} cannot be written: {e}", file.display()))),
            },
        })
    })?;
    let about = if config.replay.is_some() { "rx" } else { "tx" };
    let interface = Interface::new(Spec::Pcap(number, config));
    Ok(Output::job(CreateLater { args: a.clone(), name, interface, about, looked: Some(looked) }))
}

/// What was found of the files of an interface: what it replays, or an argument and what is wrong with it.
type Looked = Result<Option<pcap::Recording>, (&'static str, String)>;

/// An interface that is made when its files were looked at, which may take long.
struct CreateLater {
    args: Args,
    name: String,
    interface: Interface,
    /// The argument or word that a refusal is about.
    about: &'static str,
    looked: Option<Thread<Looked>>,
}

impl Job<Context> for CreateLater {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        let Some(looked) = self.looked.take_if(|looked| looked.is_finished()) else {
            return Step::After(LOOK);
        };
        let a = &self.args;
        // Others may have said commands meanwhile.
        c.origin = a.origin();
        let looked = joined(looked).and_then(|looked| looked.map_err(|(about, e)| a.fault(about, e)));
        let made = looked.and_then(|recording| {
            c.system.recordings.extend(recording.map(|recording| (self.name.clone(), recording)));
            create(c, a, self.about, Interface::key(&self.name), self.interface.clone())
        });
        c.system.recordings.remove(&self.name);
        match made {
            Ok(said) => {
                *out += &said.render(a.json()).text;
                *out += &c.notice.take().filter(|_| !a.json()).unwrap_or_default();
                Step::Done
            }
            Err(e) => Step::Failed(e),
        }
    }
}

fn create_generator(c: &mut Context, a: &Args) -> Done {
    let (name, number) = numbered(a, "pg", "packet generator")?;
    create(c, a, "name", Interface::key(&name), Interface::new(Spec::Generator(number)))
}

fn create_sub(c: &mut Context, a: &Args) -> Done {
    let (parent, id) = (a.need::<String>("interface")?, a.need::<u32>("id")?);
    let (service, inner) = (a.get::<u16>("service"), a.get::<u16>("inner"));
    let outer = match service.or(a.get::<u16>("vlan")) {
        Some(vlan) => vlan,
        None if inner.is_some() => {
            return Err(
                a.fault("inner", "an inner tag needs an outer one: dot1q VLAN or dot1ad VLAN before it")
            );
        }
        None => u16::try_from(id)
            .map_err(|_| a.fault("id", "without tags given, the number is the VLAN: 1 to 4094"))?,
    };
    let tags = Tags { outer_service: service.is_some(), outer, inner };
    let given = ["service", "vlan", "id"].into_iter().find(|n| a.get::<u32>(n).is_some());
    let about = match (c.system.router.interface_named(&parent), inner) {
        (Some(over), _) if over.kind != Kind::Device => "interface",
        (_, Some(inner)) if VLANS.contains(&outer) && !VLANS.contains(&inner) => "inner",
        _ => given.unwrap_or("id"),
    };
    let name = format!("{parent}.{id}");
    if c.store.get(&Interface::sub_key(&name)).is_some() {
        return Err(a.fault("id", format!("there is an interface {name} already")));
    }
    create(c, a, about, Interface::sub_key(&name), Interface::new(Spec::Sub { parent, id, tags }))
}

/// The lowest number that no interface `PREFIXn` has.
fn free_number(c: &Context, prefix: &str) -> u32 {
    let taken = |n: &u32| c.system.router.interface_named(&format!("{prefix}{n}")).is_some();
    (0..).find(|n| !taken(n)).unwrap_or(u32::MAX)
}

/// Changes what is set on an interface; a refusal is about the argument `about`.
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
            Ok(Output::text(format!("{name} speaks IPv6 as long as it has an IPv6 address")))
        }
        _ => Ok(Output::none()),
    }
}

fn mtu(c: &mut Context, a: &Args) -> Done {
    let (name, wanted) = (a.need::<String>("interface")?, a.need::<u16>("mtu")?);
    change(c, a, "mtu", |i| i.mtu = Some(wanted))?;
    let has = c.system.router.interface_named(&name).map_or(wanted, |i| i.mtu);
    if has < wanted {
        return Ok(Output::text(format!("{name} has an MTU of {has} until that of its device is larger")));
    }
    Ok(Output::none())
}

pub(super) fn find(c: &Context, name: &str) -> Result<(Key, Interface), CliError> {
    for key in [Interface::key(name), Interface::sub_key(name)] {
        if let Some(i) = c.store.get(&key).and_then(|value| value.get::<Interface>()) {
            return Ok((key, i.clone()));
        }
    }
    Err(CliError::new(format!("there is no interface {name}")))
}

/// Gives an interface an address, behind those that it has, or takes one away.
fn change_address(c: &mut Context, a: &Args) -> Done {
    let (interface, address) = (a.need::<String>("interface")?, a.need::<Address>("address")?);
    let key = Addresses::key(&interface);
    let list = c.store.get(&key).and_then(|value| value.get::<Addresses>());
    let mut list = list.map(|addresses| addresses.0.clone()).unwrap_or_default();
    let had = list.contains(&address);
    match (a.has("del"), had) {
        (false, true) => return Ok(Output::none()),
        (false, false) => list.push(address),
        (true, true) => list.retain(|a| *a != address),
        (true, false) => return Err(a.fault("address", format!("{interface} has no address {address}"))),
    }
    let value = (!list.is_empty()).then(|| Addresses(list).into());
    done(c, vec![Change { key, value }]).map_err(|e| a.about("address", e))
}

fn switch_feature(c: &mut Context, a: &Args) -> Done {
    let (arc, feature) = (a.need::<String>("arc")?, a.need::<String>("feature")?);
    if let Err(e) = c.system.abilities.check_feature(&arc, &feature) {
        let about = if matches!(e, ArcError::NoArc(_)) { "arc" } else { "feature" };
        return Err(a.fault(about, e.to_string()));
    }
    let interface = a.need::<String>("interface")?;
    // Neither on nor off: a setting says which.
    if let Some(way) = c.system.abilities.catalog.way(&feature, &interface) {
        return Err(a.fault("feature", way));
    }
    let key = FeatureOn::key(&interface, &arc, &feature);
    let (was_on, on) = (c.store.get(&key).is_some(), !a.has("disable"));
    // What is on stays on, and what is off, off.
    let changes = (was_on != on).then(|| Change { key, value: on.then(|| FeatureOn.into()) });
    done(c, changes.into_iter().collect()).map_err(|e| a.about("feature", e))
}

/// Removes an interface with all that depends on it: sub-interfaces, features, addresses, neighbours, routes by its name.
/// One of another kind than the command says, which `is_kind` tells, stays: its name was a slip.
pub(super) fn delete(c: &mut Context, a: &Args, place: &str, name: &str, is_kind: fn(&Spec) -> bool) -> Done {
    let (key, interface) = find(c, name).map_err(|e| a.about(place, e))?;
    if !is_kind(&interface.spec) {
        return Err(
            a.fault(place, format!("{name} is of another kind: show config has the command that made it"))
        );
    }
    let tree = c.store.snapshot();
    if tree.has_many_dependents(&key, MANY) {
        return Ok(Output::job(ForClient::new(Whole::without(key, c.origin.clone()), c)));
    }
    let all = tree.with_dependents(&key);
    drop(tree);
    done(c, all.into_iter().map(Change::remove).collect())
}
