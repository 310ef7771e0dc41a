//! Events: the state of the configuration and of the interfaces, and then each change of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use net::router::InterfaceInfo;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::client::Client;
use crate::app::Context;

/// Interval at which the state is compared.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum number of interfaces that are compared at once.
const AT_ONCE: usize = 1000;
/// Time without events after which a watcher gets an empty list, so that it can show that the connection lives.
const QUIET: Duration = Duration::from_secs(15);

/// The state of an interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) admin_up: bool,
    pub(super) link_up: bool,
    pub(super) mtu: u16,
}

impl Port {
    fn of(i: &InterfaceInfo, link_up: bool) -> Port {
        Port { name: i.name.clone(), index: i.index, admin_up: i.admin_up, link_up, mtu: i.mtu }
    }

    /// True if `i`, an interface with the same name, still has this state.
    fn is(&self, i: &InterfaceInfo, link_up: bool) -> bool {
        (self.index, self.admin_up, self.link_up, self.mtu) == (i.index, i.admin_up, link_up, i.mtu)
    }
}

/// An event, as an object of one member.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Event {
    /// The configuration has this generation.
    Generation(u64),
    /// An interface is new, or has this state now.
    Interface(Port),
    /// The interface with this name was removed.
    Removed(String),
    /// The client has got the whole state of the beginning; the events after this one are changes. Always true.
    Complete(bool),
}

/// The state that a client knows.
#[derive(Default)]
struct Known {
    generation: Option<u64>,
    /// The interfaces, by name, with their serial numbers, which are never used again.
    ports: BTreeMap<String, (u64, Port)>,
    /// The serial numbers of the interfaces seen in this round.
    seen: BTreeSet<u64>,
    /// The index of the next interface to compare.
    next: u32,
    is_complete: bool,
}

impl Known {
    /// Compares a part of the state. Appends an event for each difference. Returns true if the round is over.
    fn look(&mut self, c: &Context, events: &mut Vec<Event>) -> bool {
        let generation = c.journal.generation();
        if self.generation.replace(generation) != Some(generation) {
            events.push(Event::Generation(generation));
        }
        let mut compared = 0;
        for i in c.system.router.interfaces_from(self.next).take(AT_ONCE) {
            compared += 1;
            self.next = i.index.saturating_add(1);
            self.seen.insert(i.serial);
            let link_up = c.system.router.link_up(i.index);
            let is_known = self
                .ports
                .get(&i.name)
                .is_some_and(|(serial, port)| *serial == i.serial && port.is(i, link_up));
            if !is_known {
                let port = Port::of(i, link_up);
                events.push(Event::Interface(port.clone()));
                // This replaces an earlier interface with the same name, if there was one. Its removal gets no event of its own.
                self.ports.insert(port.name.clone(), (i.serial, port));
            }
        }
        if compared == AT_ONCE {
            return false;
        }
        let seen = std::mem::take(&mut self.seen);
        self.ports.retain(|name, (serial, _)| {
            let is_there = seen.contains(serial);
            if !is_there {
                events.push(Event::Removed(name.clone()));
            }
            is_there
        });
        self.next = 0;
        if !std::mem::replace(&mut self.is_complete, true) {
            events.push(Event::Complete(true));
        }
        true
    }
}

/// A client's view of the state, which follows the changes.
pub(super) struct Watcher {
    known: Known,
    /// When the client got the last events.
    last: Instant,
}

impl Watcher {
    pub(super) fn new() -> Watcher {
        Watcher { known: Known::default(), last: Instant::now() }
    }

    /// Waits for the next events: first those that describe the state, and then each change. Returns an empty list after [`QUIET`].
    pub(super) async fn next(&mut self, client: &Client) -> Vec<Event> {
        loop {
            let mut events = Vec::new();
            let over = client.slice(|c| self.known.look(c, &mut events)).await;
            if over && events.is_empty() {
                // A client that only waits for events may have to make room for another one.
                client.rests();
            }
            if !events.is_empty() || self.last.elapsed() >= QUIET {
                self.last = Instant::now();
                return events;
            }
            if over {
                sleep(LOOK).await;
            }
        }
    }
}
