//! Bridge domains: groups of ports between which frames are switched by the MAC addresses of the stations.

mod alike;
#[cfg(test)]
mod alike_tests;
mod answer;
#[cfg(test)]
mod answer_tests;
pub(crate) mod bvi;
#[cfg(test)]
mod bvi_tests;
mod domain;
mod flood;
pub(crate) mod host;
mod mac;
mod node;
mod table;
#[cfg(test)]
mod tests;

pub(crate) mod commands;
pub(crate) mod exercise;
pub(crate) mod messages;
pub(crate) mod objects;

use graph::{Builder, GraphError};
use net::Tables;
use net::ethernet::{PortMode, PortModeInfo};
use net::router::{Change, Hooks, Router, RouterError};
use wire::Mac;

use crate::rewrite::Plans;
pub use bvi::{attach, detach};
pub use domain::{BridgePort, Policy};
use flood::Flood;
pub(crate) use mac::Kind;
use node::{Bridge, Domains};
pub(crate) use table::Bridges;

/// The port mode of bridge ports.
struct Mode(PortMode);

/// Adds the nodes.
///
/// # Errors
/// Fails if address space for the tables cannot be reserved, or if there are too many port modes.
pub(crate) fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let shared = hooks.state(Bridges::new)?.shared();
    let (interfaces, ports, plans) =
        (t.interfaces.clone(), hooks.setting::<BridgePort>()?.values, hooks.setting::<Plans>()?.values);
    let mode = hooks.port_mode(b, t, PortModeInfo { name: "bridge", node: "l2-bridge", whole: false })?;
    hooks.state(|_| Ok(Mode(mode)))?;
    let (domain, rx) = (Domains { shared, interfaces, ports, plans }, t.counters.rx.clone());
    let flood = (domain.clone(), rx.clone());
    b.frame(move |s| Ok(Bridge::new(domain.clone(), rx.lane(s.worker)?)));
    b.frame(move |s| Ok(Flood { domains: flood.0.clone(), rx: flood.1.lane(s.worker)? }));
    bvi::install(b, t, hooks)?;
    hooks.on_turn(|router, now| router.state_mut::<Bridges>().ok()?.turn(now));
    hooks.on_change(|router, index, change| {
        if change == Change::Down {
            // This fails only if the interface is gone.
            let _ = flush_port(router, index);
        }
    });
    Ok(())
}

/// Makes a bridge domain, or changes its policy.
///
/// # Errors
/// If there are too many domains.
pub fn set_domain(router: &mut Router, id: u32, policy: Policy) -> Result<(), RouterError> {
    let now = router.now();
    router.state_mut::<Bridges>()?.set(id, policy, now)
}

/// Removes a bridge domain, which has no ports.
///
/// # Errors
/// If the router has no bridge domains.
pub fn remove_domain(router: &mut Router, id: u32) -> Result<(), RouterError> {
    router.state_mut::<Bridges>()?.remove(id);
    Ok(())
}

/// Makes an interface a port of a bridge domain, or changes the port.
///
/// # Errors
/// If there is no such domain or interface, or if the interface is in another port mode. An interface that was no port is unchanged then.
pub fn join(router: &mut Router, interface: u32, id: u32, port: BridgePort) -> Result<(), RouterError> {
    let mode = router.state::<Mode>()?.0;
    let before = router.setting::<BridgePort>(interface);
    let bridges = router.state_mut::<Bridges>()?;
    let mut port = bridges.join(id, interface, port)?;
    if before.domain != port.domain {
        bridges.leave(before, interface);
        port.epoch = bridges.epoch(interface);
    }
    // The port first: as soon as the interface is in the mode, workers need it.
    let set = router.set(interface, port).and_then(|()| router.set_port_mode(interface, Some(mode)));
    if set.is_err() && before.domain == 0 {
        router.set(interface, before)?;
        router.state_mut::<Bridges>()?.leave(port, interface);
    }
    set
}

/// Makes an interface route packets again, which was a port of a bridge domain. Its learned addresses are forgotten.
///
/// # Errors
/// If the interface does not exist.
pub fn leave(router: &mut Router, interface: u32) -> Result<(), RouterError> {
    let before = router.setting::<BridgePort>(interface);
    router.set_port_mode(interface, None)?;
    router.set(interface, BridgePort::default())?;
    router.state_mut::<Bridges>()?.leave(before, interface);
    Ok(())
}

/// Returns the number of an interface's bridge domain, and its split-horizon group. The interface is a port, or the domain's BVI.
pub(crate) fn membership(router: &Router, interface: u32) -> Option<(u32, u8)> {
    let port = router.setting::<BridgePort>(interface);
    Some((router.state::<Bridges>().ok()?.id(port.domain)?, port.group))
}

/// Adds a station that stays on a port to the MAC table.
///
/// # Errors
/// If there is no such domain, or no room at this time.
pub fn set_station(router: &mut Router, id: u32, mac: Mac, port: u32) -> Result<(), RouterError> {
    router.state_mut::<Bridges>()?.set_entry(id, mac, Kind::Static, port)
}

/// Forgets the addresses that were learned on an interface.
///
/// # Errors
/// If the interface does not exist.
pub fn flush_port(router: &mut Router, interface: u32) -> Result<(), RouterError> {
    let port = router.setting::<BridgePort>(interface);
    if port.domain == 0 {
        return Ok(());
    }
    let epoch = router.state_mut::<Bridges>()?.next_epoch(interface);
    router.set(interface, BridgePort { epoch, ..port })
}
