//! Events about neighbors. A callback of the router puts changes of neighbors into a queue. This module makes events of them, in
//! slices.

use std::net::IpAddr;

use vapi::types::interface_index;
use vapi::{Caller, Code, DONE, Done, Table};

use super::messages::*;
use super::neighbor;
use crate::api::{message, numbers};
use crate::app::{Context, NeighborWatch};
use crate::neighbors::Changes;

/// Maximum number of changes that become events at once: few enough for a client to read these events before the next ones are
/// sent.
const SLICE: usize = 4096;

/// Registers a client for events of neighbors, or ends a registration. An unspecified address stands for all neighbors, and the interface
/// `NONE` for all interfaces. Repeated calls change nothing.
pub(super) fn want(
    c: &mut Context,
    caller: &Caller,
    both: bool,
    (on, pid): (bool, u32),
    (ip, number): (IpAddr, interface_index),
) -> Result<Done, Code> {
    let interface = match number {
        interface_index::NONE => None,
        number if on => Some(numbers::interface(c, number)?.index),
        // The interface may be gone by now.
        number => numbers::index(number),
    };
    let ip = Some(ip).filter(|ip| !ip.is_unspecified());
    let watch = NeighborWatch { client: caller.client, both, ip, interface };
    c.events.watch_neighbors(watch, on.then_some(pid));
    follow(c);
    DONE
}

/// Makes the router collect changes of neighbors if a client wants them, and stop if none does.
fn follow(c: &mut Context) {
    let wanted = c.events.are_neighbors_wanted();
    if let Ok(changes) = c.system.router.state_mut::<Changes>() {
        changes.want(wanted);
    }
}

/// Sends at most [`SLICE`] of the waiting events. If changes were lost, disconnects the clients that are registered for events of
/// neighbors.
pub(in crate::api) fn look(c: &mut Context, table: &Table<Context>) {
    let Ok(changes) = c.system.router.state_mut::<Changes>() else { return };
    let Some((news, lost)) = changes.take(SLICE) else { return };
    let id = |name| table.id(name).unwrap_or_default();
    let (one, both) = (id("ip_neighbor_event"), id("ip_neighbor_event_v2"));
    for news in &news {
        let neighbor = neighbor(news.interface, news.address, news.mac, news.fixed);
        let flags = match news.gone {
            false => ip_neighbor_event_flags::IP_NEIGHBOR_API_EVENT_FLAG_ADDED,
            true => ip_neighbor_event_flags::IP_NEIGHBOR_API_EVENT_FLAG_REMOVED,
        };
        c.events.tell_of_neighbor(news, |of_both, pid| match of_both {
            false => message(one, &ip_neighbor_event { pid, neighbor: neighbor.clone() }),
            true => message(both, &ip_neighbor_event_v2 { pid, flags, neighbor: neighbor.clone() }),
        });
    }
    if lost {
        tracing::warn!(
            "neighbors change faster than their events are sent: the API clients that registered for them are disconnected"
        );
        c.events.cut_neighbor_watchers();
    }
    follow(c);
}
