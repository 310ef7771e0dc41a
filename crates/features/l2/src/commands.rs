//! The commands of cross-connects, in VPP's grammar.

use model::cli::{Args, CliError, Output, PAGE, Rows};
use model::object::Change;
use net::feature::{App, Foreign, Registrar};
use net::router::{InterfaceInfo, Router};
use serde::Serialize;

use crate::bridge::{self, bvi::BridgeBvi, objects::Bridged};
use crate::node::Way;
use crate::object::{Connection, CrossConnect, Patch, connection};

/// Commands of VPP that this feature does not have yet.
const NOT_YET: &[Foreign] = &[
    Foreign::not_yet("set bridge-domain default-learn-limit"),
    Foreign::not_yet("set bridge-domain rewrite"),
    Foreign::not_yet("set l2fib scan-delay"),
    Foreign::not_yet("test l2fib"),
    Foreign::not_yet("set interface l2 efp-filter"),
    Foreign::not_yet("set interface l2 pbb-tag-rewrite"),
    Foreign::not_yet("set interface l2 input"),
    Foreign::not_yet("set interface l2 output"),
    Foreign::not_yet("set interface l2 rewrite"),
    Foreign::not_yet("set interface l2 xcrw"),
];

/// Declares the commands.
pub(crate) fn register<C: App>(r: &mut Registrar<'_, C>) {
    r.foreign(NOT_YET);
    r.command(
        "set interface l2 xconnect <interface:interface> <peer:interface>",
        "Send all frames received on an interface out of another. Their VLAN tags stay, unless \"set interface l2 tag-rewrite\" changes them: \
         a sub-interface as the output adds none. This is one way: \
         for both ways, repeat it with the names swapped. The interface must have no addresses; packets that are routed out of it \
         are still sent.",
        |c, a| {
            let (from, to) = (a.need::<String>("interface")?, a.need::<String>("peer")?);
            let change = Change::set(CrossConnect::key(&from), Connection::<false>(to));
            c.transact(vec![change]).map_err(|e| a.about("interface", e))?;
            Ok(Output::none())
        },
    );
    r.command(
        "test l2patch rx <interface:interface> tx <peer:interface> [del]",
        "Send all frames received on a device out of another, unchanged, also those of its sub-interfaces, and without \
         rewriting tags. This is one way. \"del\" \
         removes the patch.",
        patch,
    );
    r.command("show l2patch", "Show the patches between devices.", |c, _| {
        let router = c.router();
        let patches: Vec<Patched> = router.interfaces().filter_map(|i| Patched::of(router, i)).collect();
        let lines = patches.iter().map(|p| format!("{:>26} -> {}\n", p.rx, p.tx));
        let text: String = if patches.is_empty() { "no l2patch entries\n".into() } else { lines.collect() };
        Ok(Output::show(patches, text))
    });
    r.command(
        "set interface l3 <interface:interface>",
        "Route the packets received on an interface again, instead of switching its frames.",
        |c, a| {
            let from = a.need::<String>("interface")?;
            let keys =
                [CrossConnect::key(&from), Patch::key(&from), Bridged::key(&from), BridgeBvi::key(&from)];
            let had = keys.into_iter().filter(|key| c.store().get(key).is_some());
            let changes = had.map(Change::remove).collect();
            c.transact(changes)?;
            Ok(Output::none())
        },
    );
    r.command(
        "show mode [<interface:interface>]",
        "Show whether the packets received on each interface are routed (l3) or its frames are switched (l2).",
        show,
    );
}

/// Adds or removes a patch.
fn patch<C: App>(c: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let (from, to) = (a.need::<String>("interface")?, a.need::<String>("peer")?);
    let key = Patch::key(&from);
    let change = match a.has("del") {
        false => Change::set(key, Connection::<true>(to)),
        true => {
            let has = c.store().get(&key).and_then(|value| value.get::<Patch>());
            if has.is_none_or(|Connection(other)| *other != to) {
                return Err(a.fault("peer", format!("there is no patch from {from} to {to}")));
            }
            Change::remove(key)
        }
    };
    c.transact(vec![change]).map_err(|e| a.about("interface", e))?;
    Ok(Output::none())
}

/// A patch.
#[derive(Serialize)]
struct Patched {
    /// The device that receives the frames.
    rx: String,
    /// The device that sends them.
    tx: String,
}

impl Patched {
    fn of(router: &Router, interface: &InterfaceInfo) -> Option<Patched> {
        let (way, to) = connection(router, interface.index)?;
        (way == Way::Patch).then(|| Patched { rx: interface.name.clone(), tx: to.to_owned() })
    }
}

/// The mode of an interface.
#[derive(Serialize)]
struct Mode {
    interface: String,
    /// `l3` if received packets are routed, `l2-xconnect` or `l2-patch` if received frames are sent out of another interface, `l2-bridge` if
    /// the interface is a port of a bridge domain.
    mode: &'static str,
    /// The interface that sends the frames.
    peer: Option<String>,
    /// The number of the bridge domain, and the split-horizon group.
    #[serde(skip_serializing_if = "Option::is_none")]
    bridge_domain: Option<(u32, u8)>,
    /// True if the interface is the domain's BVI.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_bvi: bool,
}

impl Mode {
    fn of(router: &Router, interface: &InterfaceInfo) -> Mode {
        let connection = connection(router, interface.index);
        let bridge_domain = bridge::membership(router, interface.index);
        let mode = match connection {
            _ if bridge_domain.is_some() => "l2-bridge",
            Some((Way::CrossConnect, _)) => "l2-xconnect",
            Some((Way::Patch, _)) => "l2-patch",
            None => "l3",
        };
        let peer = connection.map(|(_, to)| to.to_owned());
        let is_bvi = bridge::bvi::of(router, interface.index).is_some();
        Mode { interface: interface.name.clone(), mode, peer, bridge_domain, is_bvi }
    }

    /// Returns the line for the interface, in VPP's format.
    fn line(&self) -> String {
        if let Some((id, group)) = self.bridge_domain {
            let bvi = if self.is_bvi { " bvi" } else { "" };
            return format!("l2 bridge {} bd_id {id}{bvi} shg {group}", self.interface);
        }
        match &self.peer {
            Some(peer) => format!("{} {} {peer}", self.mode.replace('-', " "), self.interface),
            None => format!("l3 {}", self.interface),
        }
    }
}

/// Lists the modes of interfaces, page by page.
enum Modes {
    /// All interfaces, from this index on.
    From(u32),
    /// The interface with this name only.
    Only(String),
}

fn show<C: App>(_: &mut C, a: &Args) -> Result<Output<C>, CliError> {
    let rows = a.get("interface").map_or(Modes::From(0), Modes::Only);
    Ok(Output::rows(rows, a.json()))
}

impl<C: App> Rows<C> for Modes {
    type Row = Mode;

    fn next(&mut self, c: &C, page: &mut Vec<Mode>) -> bool {
        let router = c.router();
        let from = match self {
            Modes::From(from) => *from,
            Modes::Only(name) => {
                page.extend(router.interface_named(name).map(|i| Mode::of(router, i)));
                return false;
            }
        };
        let mut last = None;
        for interface in router.interfaces_from(from).take(PAGE) {
            last = Some(interface.index);
            page.push(Mode::of(router, interface));
        }
        *self = Modes::From(last.map_or(0, |last| last + 1));
        last.is_some()
    }

    fn text(&mut self, page: &[Mode], out: &mut String) {
        for mode in page {
            *out += &mode.line();
            out.push('\n');
        }
    }
}
