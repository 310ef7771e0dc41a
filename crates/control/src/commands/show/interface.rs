//! Interfaces: state and counters, addresses, hardware, features.

use std::collections::BTreeMap;
use std::fmt::Write;

use net::interface::Kind;
use net::ip::Address;
use net::router::InterfaceInfo;
use serde::{Serialize, Serializer};

use crate::app::Rate;
use crate::app::{Context, Output};
use crate::cli::{Args, CliError, PAGE, Registry, Rows, Table};
use crate::intent::{Family, Find, mode_word};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("show interface [<interface:interface>]", "Show interfaces with state and counters.", show);
    r.add("show interface address [<interface:interface>]", "Show the addresses of interfaces.", addresses);
    r.add(
        "show interface rates [<interface:interface>]",
        "Show the rates of interfaces over the last 4 to 5 seconds; for a newer interface, since its creation.",
        all_rates,
    );
    r.add(
        "show interface description/tag [<interface:interface>]",
        "Show the descriptions of interfaces.",
        |c, a| {
            let table = Table::new(&["Name", "Idx", "State", "Description"]);
            Ok(Output::rows(Descriptions { chosen: Chosen::new(c, a)?, table }, a.json()))
        },
    );
    r.add(
        "show interface features <interface:interface>",
        "Show the feature arcs of an interface.",
        features,
    );
    r.add(
        "show interface rx-placement [<interface:interface>]",
        "Show which thread polls which receive queue.",
        placement,
    );
    r.add(
        "show hardware-interfaces [<interface:interface>] [{brief | verbose | detail}]",
        "Show devices and links; \"brief\" omits the details of devices.",
        hardware,
    );
    r.add("show features [verbose]", "Show the enabled features, by interface and arc.", |_, a| {
        Ok(Output::rows(
            AllFeatures { next: 0, table: Table::new(&["Interface", "Arc", "Features"]) },
            a.json(),
        ))
    });
    // In Volley, an interface and its device have the same counters.
    for noun in ["interfaces", "hardware-interfaces"] {
        r.add(&format!("clear {noun}"), "Reset the counters of all interfaces.", |c, _| {
            let all: Vec<u32> = c.system.router.interfaces().map(|i| i.index).collect();
            all.into_iter().for_each(|i| c.system.router.clear_interface(i));
            super::none()
        })
        .for_operators();
    }
}

#[derive(Serialize)]
struct Counter {
    name: &'static str,
    count: u64,
}

#[derive(Serialize)]
struct Interface {
    name: String,
    index: u32,
    admin_up: bool,
    link_up: bool,
    usable: bool,
    /// True if the interface waits for its device, which is missing.
    absent: bool,
    /// Why the device cannot be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    absent_because: Option<String>,
    /// The packets that a sub-interface receives, in the syntax of the command that creates the sub-interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    takes: Option<String>,
    mtu_bytes: u16,
    table: u32,
    mac: String,
    /// The same counters as in `counts`, in an older form.
    counters: Vec<Counter>,
    /// The counters that are not 0, by name.
    counts: BTreeMap<String, u64>,
    /// The rates over the last seconds.
    rates: Option<Rate>,
}

/// Returns the interface named in the command, or all interfaces if the command names none.
fn chosen<'c>(c: &'c Context, a: &Args) -> Result<Vec<&'c InterfaceInfo>, CliError> {
    match a.get::<String>("interface") {
        Some(name) => match c.system.router.interface_named(&name) {
            Some(i) => Ok(vec![i]),
            None => Err(CliError::new(format!("there is no interface {name}"))),
        },
        None => Ok(c.system.router.interfaces().collect()),
    }
}

fn counters(c: &Context, i: &InterfaceInfo) -> Vec<Counter> {
    let t = &c.system.router.tables().counters;
    let ([missed, unusable], tx_errors) = (t.rx_lost.read(i.index), t.tx_error.read(i.index)[0]);
    let (rx, tx) = (t.rx.read(i.index), t.tx.read(i.index));
    let drops = c.system.router.graph().stats().drops_of(i.index);
    let all = [
        ("rx packets", rx[0]),
        ("rx bytes", rx[1]),
        ("tx packets", tx[0]),
        ("tx bytes", tx[1]),
        ("drops", drops),
        ("rx-miss", missed),
        ("rx-error", unusable),
        ("tx-error", tx_errors),
    ];
    all.into_iter().filter(|(_, n)| *n > 0).map(|(name, count)| Counter { name, count }).collect()
}

/// Returns the counters as an object: `{"rx_packets": 5}`.
fn counts(counters: &[Counter]) -> BTreeMap<String, u64> {
    counters.iter().map(|counter| (counter.name.replace([' ', '-'], "_"), counter.count)).collect()
}

/// The interfaces of a command: one, or all in order of their indices.
pub(super) struct Chosen {
    next: u32,
    one: bool,
}

impl Chosen {
    pub(super) fn new(c: &Context, a: &Args) -> Result<Chosen, CliError> {
        let one = a.get::<String>("interface").is_some();
        let next = chosen(c, a)?.first().filter(|_| one).map_or(0, |i| i.index);
        Ok(Chosen { next, one })
    }

    /// Appends a row for each of the next interfaces. Returns true if there may be more.
    pub(super) fn page<R>(
        &mut self,
        c: &Context,
        page: &mut Vec<R>,
        row: impl Fn(&InterfaceInfo) -> R,
    ) -> bool {
        let behind = c.system.router.interfaces_from(self.next);
        let wanted = behind.take_while(|i| !self.one || i.index == self.next);
        let mut last = None;
        for i in wanted.take(PAGE) {
            page.push(row(i));
            last = Some(i.index);
        }
        self.next = last.map_or(0, |last| last + 1);
        last.is_some() && !self.one
    }
}

/// Returns the state of an interface in words.
fn state(admin_up: bool, link_up: bool) -> &'static str {
    match (admin_up, link_up) {
        (false, _) => "down",
        (true, true) => "up",
        (true, false) => "up, link down",
    }
}

struct Interfaces {
    chosen: Chosen,
    table: Table,
}

impl Rows<Context> for Interfaces {
    type Row = Interface;

    fn next(&mut self, c: &Context, page: &mut Vec<Interface>) -> bool {
        let now = c.now();
        self.chosen.page(c, page, |i| {
            let counters = counters(c, i);
            Interface {
                name: i.name.clone(),
                index: i.index,
                admin_up: i.admin_up,
                takes: i.takes.map(|takes| takes.to_string()),
                link_up: c.system.router.link_up(i.index),
                usable: c.system.router.usable(i.index),
                absent: i.is_absent(),
                absent_because: c.system.why_absent(&i.name).map(str::to_string),
                mtu_bytes: i.mtu,
                table: c.system.router.vrfs().table(i.fib),
                mac: i.mac.to_string(),
                counts: counts(&counters),
                counters,
                rates: c.rates.of(&c.system.router, i, now),
            }
        })
    }

    fn text(&mut self, page: &[Interface], out: &mut String) {
        for i in page {
            let mut head = vec![
                i.name.clone(),
                i.index.to_string(),
                match &i.absent_because {
                    Some(why) if i.absent => format!("{}, no device: {why}", state(i.admin_up, i.link_up)),
                    None if i.absent => format!("{}, no device", state(i.admin_up, i.link_up)),
                    _ => state(i.admin_up, i.link_up).to_string(),
                },
                format!("{}/0/0/0", i.mtu_bytes),
            ];
            if i.counters.is_empty() {
                self.table.row(head.clone());
            }
            for k in &i.counters {
                head.extend([k.name.to_string(), k.count.to_string()]);
                self.table.row(std::mem::replace(&mut head, vec![String::new(); 4]));
            }
        }
        self.table.flush(out);
    }
}

fn show(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let table = Table::new(&["Name", "Idx", "State", "MTU (L3/IP4/IP6/MPLS)", "Counter", "Count"]);
    Ok(Output::rows(Interfaces { chosen: Chosen::new(c, a)?, table }, a.json()))
}

#[derive(Serialize)]
struct InterfaceRates {
    name: String,
    index: u32,
    admin_up: bool,
    link_up: bool,
    #[serde(flatten)]
    rates: Option<Rate>,
}

/// The rates of interfaces, one per line, for comparison.
struct AllRates {
    chosen: Chosen,
    table: Table,
    /// Shortest and longest averaging time of the rates shown so far, in seconds; `None` if no rate was shown.
    windows: Option<(f64, f64)>,
}

impl Rows<Context> for AllRates {
    type Row = InterfaceRates;

    fn next(&mut self, c: &Context, page: &mut Vec<InterfaceRates>) -> bool {
        let now = c.now();
        self.chosen.page(c, page, |i| InterfaceRates {
            name: i.name.clone(),
            index: i.index,
            admin_up: i.admin_up,
            link_up: c.system.router.link_up(i.index),
            rates: c.rates.of(&c.system.router, i, now),
        })
    }

    fn text(&mut self, page: &[InterfaceRates], out: &mut String) {
        for i in page {
            let mut row = vec![i.name.clone(), i.index.to_string(), state(i.admin_up, i.link_up).to_string()];
            if let Some(rate) = &i.rates {
                row.extend(rate.whole().map(|n| n.to_string()));
                let window = rate.window_seconds;
                let (least, most) = self.windows.unwrap_or((window, window));
                self.windows = Some((least.min(window), most.max(window)));
            }
            self.table.row(row);
        }
        self.table.flush(out);
    }

    fn end(&mut self, _: &Context, out: &mut String) {
        let Some((least, most)) =
            self.windows.map(|(least, most)| (format!("{least:.1}"), format!("{most:.1}")))
        else {
            return;
        };
        let time = if least == most { most } else { format!("{least} to {most}") };
        let _ = writeln!(out, "over the last {time} s; bits include link headers");
    }
}

fn all_rates(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let headings =
        ["Name", "Idx", "State", "rx packets/s", "rx bits/s", "tx packets/s", "tx bits/s", "drops/s"];
    Ok(Output::rows(
        AllRates { chosen: Chosen::new(c, a)?, table: Table::new(&headings), windows: None },
        a.json(),
    ))
}

#[derive(Serialize)]
struct Description {
    name: String,
    index: u32,
    admin_up: bool,
    link_up: bool,
    description: Option<String>,
}

struct Descriptions {
    chosen: Chosen,
    table: Table,
}

impl Rows<Context> for Descriptions {
    type Row = Description;

    fn next(&mut self, c: &Context, page: &mut Vec<Description>) -> bool {
        self.chosen.page(c, page, |i| Description {
            name: i.name.clone(),
            index: i.index,
            admin_up: i.admin_up,
            link_up: c.system.router.link_up(i.index),
            description: c.store.interface(&i.name).and_then(|i| i.description.clone()),
        })
    }

    fn text(&mut self, page: &[Description], out: &mut String) {
        for i in page {
            let text = i.description.clone().unwrap_or_default();
            let state = state(i.admin_up, i.link_up).to_string();
            self.table.row(vec![i.name.clone(), i.index.to_string(), state, text]);
        }
        self.table.flush(out);
    }
}

#[derive(Serialize)]
struct Addresses {
    name: String,
    admin_up: bool,
    table: u32,
    #[serde(serialize_with = "as_texts")]
    addresses: Vec<Address>,
}

/// Serializes addresses as text.
fn as_texts<S: Serializer>(addresses: &[Address], s: S) -> Result<S::Ok, S::Error> {
    s.collect_seq(addresses.iter().map(ToString::to_string))
}

struct AllAddresses(Chosen);

impl Rows<Context> for AllAddresses {
    type Row = Addresses;

    fn next(&mut self, c: &Context, page: &mut Vec<Addresses>) -> bool {
        self.0.page(c, page, |i| Addresses {
            name: i.name.clone(),
            admin_up: i.admin_up,
            table: c.system.router.vrfs().table(i.fib),
            addresses: i.addresses.clone(),
        })
    }

    fn text(&mut self, page: &[Addresses], out: &mut String) {
        for i in page {
            let _ = writeln!(out, "{} ({}):", i.name, if i.admin_up { "up" } else { "dn" });
            for address in &i.addresses {
                let word = Family::of(address.address).word();
                let table =
                    if i.table == 0 { String::new() } else { format!(" {word} table-id {}", i.table) };
                let _ = writeln!(out, "  L3 {address}{table}");
            }
        }
    }
}

fn addresses(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    Ok(Output::rows(AllAddresses(Chosen::new(c, a)?), a.json()))
}

#[derive(Serialize)]
struct RxQueue {
    thread: usize,
    node: &'static str,
    interface: String,
    queue: usize,
    mode: &'static str,
    /// True if the operator chose the worker of the queue.
    chosen: bool,
    /// True if the flows of the queue are distributed over the workers.
    shared_out: bool,
}

fn placement(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let slots = c.system.router.tables().placement.slots();
    let mut all = Vec::new();
    for i in chosen(c, a)? {
        for slot in slots.iter().filter(|s| s.interface == i.index) {
            let how = slot.attention();
            let (thread, interface) = (how.worker + 1, i.name.clone());
            let (mode, shared_out) = (mode_word(how.mode), how.spread);
            let (queue, chosen) = (slot.number, how.chosen);
            all.push(RxQueue { thread, node: slot.node, interface, queue, mode, chosen, shared_out });
        }
    }
    all.sort_by_key(|q| (q.thread, q.node));
    let mut text = String::new();
    let mut head = None;
    for q in &all {
        if head.map(|h: (usize, &str)| h.0) != Some(q.thread) {
            let _ = writeln!(text, "Thread {} (volley_wk_{}):", q.thread, q.thread - 1);
        }
        if head != Some((q.thread, q.node)) {
            let _ = writeln!(text, "  node {}:", q.node);
        }
        head = Some((q.thread, q.node));
        let shared = if q.shared_out { ", flows are spread over the workers" } else { "" };
        let _ = writeln!(text, "    {} queue {} ({}{shared})", q.interface, q.queue, q.mode);
    }
    Ok(Output::show(&all, text))
}

#[derive(Serialize)]
struct Arc {
    arc: &'static str,
    features: Vec<Feature>,
}

#[derive(Serialize)]
struct Feature {
    name: &'static str,
    enabled: bool,
}

fn features(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let name = a.need::<String>("interface")?;
    let index = c.system.index(&name).map_err(|e| CliError::new(e.to_string()))?;
    let arcs: Vec<Arc> = c
        .system
        .router
        .features(index)
        .into_iter()
        .map(|(arc, features)| Arc {
            arc,
            features: features.into_iter().map(|(name, enabled)| Feature { name, enabled }).collect(),
        })
        .collect();
    let mut text = format!("Feature paths configured on {name}...\n");
    for arc in &arcs {
        let _ = writeln!(text, "\n{}:", arc.arc);
        let on: Vec<&Feature> = arc.features.iter().filter(|f| f.enabled).collect();
        if on.is_empty() {
            text.push_str("  none configured\n");
        }
        on.iter().for_each(|f| text += &format!("  {}\n", f.name));
        let off: Vec<&str> = arc.features.iter().filter(|f| !f.enabled).map(|f| f.name).collect();
        if !off.is_empty() {
            let _ = writeln!(text, "  (available: {})", off.join(", "));
        }
    }
    Ok(Output::show(&arcs, text))
}

#[derive(Serialize)]
struct FeaturesOn {
    interface: String,
    arc: &'static str,
    features: Vec<&'static str>,
}

/// The enabled features of the interfaces from index `next` on.
struct AllFeatures {
    next: u32,
    table: Table,
}

impl Rows<Context> for AllFeatures {
    type Row = FeaturesOn;

    fn next(&mut self, c: &Context, page: &mut Vec<FeaturesOn>) -> bool {
        let mut last = None;
        for i in c.system.router.interfaces_from(self.next).take(PAGE) {
            for (arc, features) in c.system.router.features(i.index) {
                let features: Vec<_> =
                    features.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect();
                if !features.is_empty() {
                    page.push(FeaturesOn { interface: i.name.clone(), arc, features });
                }
            }
            last = Some(i.index);
        }
        self.next = last.map_or(0, |last| last + 1);
        last.is_some()
    }

    fn text(&mut self, page: &[FeaturesOn], out: &mut String) {
        for f in page {
            self.table.row(vec![f.interface.clone(), f.arc.into(), f.features.join(" ")]);
        }
        self.table.flush(out);
    }
}

#[derive(Serialize)]
struct Hardware {
    name: String,
    index: u32,
    kind: &'static str,
    carrier: bool,
    present: bool,
    speed_mbps: Option<u32>,
    mac: String,
    details: Vec<(&'static str, String)>,
}

impl Hardware {
    fn of(i: &InterfaceInfo) -> Hardware {
        let d = i.device.as_ref();
        Hardware {
            name: i.name.clone(),
            index: i.index,
            kind: d.map_or(i.kind.name().unwrap_or("-"), |d| d.driver),
            carrier: d.map_or(i.kind.needs_no_device(), |d| d.link.carrier),
            present: d.map_or(i.kind.needs_no_device(), |d| d.link.present),
            speed_mbps: d.and_then(|d| d.link.speed_mbps),
            mac: i.mac.to_string(),
            details: d.map(|d| d.describe()).unwrap_or_default(),
        }
    }
}

/// Devices and other interfaces, except sub-interfaces. Not a table, because each may have several lines of details.
struct AllHardware {
    chosen: Chosen,
    brief: bool,
    begun: bool,
}

impl Rows<Context> for AllHardware {
    type Row = Hardware;

    fn next(&mut self, c: &Context, page: &mut Vec<Hardware>) -> bool {
        let mut rows = Vec::new();
        let own = |i: &InterfaceInfo| (i.kind != Kind::SubInterface).then(|| Hardware::of(i));
        let more = self.chosen.page(c, &mut rows, own);
        page.extend(rows.into_iter().flatten());
        more
    }

    fn text(&mut self, page: &[Hardware], out: &mut String) {
        if !std::mem::replace(&mut self.begun, true) {
            let _ = writeln!(out, "{:<24} {:>4}  {:<5} Hardware", "Name", "Idx", "Link");
        }
        for h in page {
            let link = match (h.present, h.carrier) {
                (false, _) => "gone",
                (true, true) => "up",
                (true, false) => "down",
            };
            let _ = writeln!(out, "{:<24} {:>4}  {link:<5} {}", h.name, h.index, h.kind);
            if self.brief {
                continue;
            }
            let speed = h.speed_mbps.map_or("unknown".into(), |s| format!("{s} Mbit/s"));
            let _ = writeln!(out, "  Link speed: {speed}\n  Ethernet address {}", h.mac);
            h.details.iter().for_each(|(name, value)| *out += &format!("  {name}: {value}\n"));
        }
    }
}

fn hardware(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    if let [i] = chosen(c, a)?.as_slice()
        && a.has("interface")
        && i.kind == Kind::SubInterface
    {
        let of = c.system.router.interface(i.parent).map_or("none", |p| &p.name);
        let message = format!("{} is a sub-interface: its hardware is that of {of}", i.name);
        return Err(a.fault("interface", message));
    }
    let rows = AllHardware { chosen: Chosen::new(c, a)?, brief: a.has("brief"), begun: false };
    Ok(Output::rows(rows, a.json()))
}
