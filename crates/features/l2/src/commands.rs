//! The commands of cross-connects, in VPP's grammar.

use model::cli::{Args, CliError, Output, PAGE, Rows};
use model::object::Change;
use net::feature::{self, App, Foreign, Registrar};
use net::router::{InterfaceInfo, Router};
use serde::Serialize;

use crate::object::{CrossConnect, peer};

/// Commands of VPP that this feature does not have yet.
const NOT_YET: &[Foreign] = &[
    Foreign::not_yet("set interface l2 bridge"),
    Foreign::not_yet("set interface l2 learn"),
    Foreign::not_yet("set interface l2 forward"),
    Foreign::not_yet("set interface l2 flood"),
    Foreign::not_yet("set interface l2 efp-filter"),
    Foreign::not_yet("set interface l2 tag-rewrite"),
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
        "Send all frames received on an interface out of another, unchanged. This is one way: for both ways, repeat it with the names \
         swapped. The interface must have no addresses.",
        |c, a| {
            let (from, to) = (a.need::<String>("interface")?, a.need::<String>("peer")?);
            let change = Change::set(CrossConnect::key(&from), CrossConnect(to));
            c.transact(vec![change]).map_err(|e| a.about("interface", e))?;
            Ok(Output::none())
        },
    );
    r.command(
        "set interface l3 <interface:interface>",
        "Route the packets received on an interface again, instead of switching its frames.",
        |c, a| {
            let from = a.need::<String>("interface")?;
            feature::unset(c, CrossConnect::key(&from))
        },
    );
    r.command(
        "show mode [<interface:interface>]",
        "Show whether the packets received on each interface are routed (l3) or its frames are switched (l2).",
        show,
    );
}

/// The mode of an interface.
#[derive(Serialize)]
struct Mode {
    interface: String,
    /// `l3` if received packets are routed, `l2-xconnect` if received frames are sent out of another interface.
    mode: &'static str,
    /// The interface that sends the frames.
    peer: Option<String>,
}

impl Mode {
    fn of(router: &Router, interface: &InterfaceInfo) -> Mode {
        let peer = peer(router, interface.index);
        let peer = peer.and_then(|index| router.interface(index).ok()).map(|i| i.name.clone());
        let mode = if peer.is_some() { "l2-xconnect" } else { "l3" };
        Mode { interface: interface.name.clone(), mode, peer }
    }

    /// Returns the line for the interface, in VPP's format.
    fn line(&self) -> String {
        match &self.peer {
            Some(peer) => format!("l2 xconnect {} {peer}", self.interface),
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
