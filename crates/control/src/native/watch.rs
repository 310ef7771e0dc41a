//! Events: the state of the configuration and of the interfaces, and then each change of them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use hyper::Response;
use net::router::InterfaceInfo;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::answer::{Body, LINES, pieces};
use super::client::Client;
use crate::app::Context;
use crate::cli::State;

/// Interval at which the state is compared.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum number of interfaces that are compared at once.
const AT_ONCE: usize = 1000;
/// Time without events after which an empty line shows that the connection lives.
const QUIET: Duration = Duration::from_secs(15);

/// The state of an interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Port {
    name: String,
    index: u32,
    admin_up: bool,
    link_up: bool,
    mtu: u16,
}

impl Port {
    fn of(i: &InterfaceInfo, link_up: bool) -> Port {
        Port { name: i.name.clone(), index: i.index, admin_up: i.admin_up, link_up, mtu: i.mtu }
    }

    /// True if the interface, which has this name, still has this state.
    fn is(&self, i: &InterfaceInfo, link_up: bool) -> bool {
        (self.index, self.admin_up, self.link_up, self.mtu) == (i.index, i.admin_up, link_up, i.mtu)
    }
}

/// An event, as an object of one member.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Event {
    /// The configuration has this generation.
    Generation(u64),
    /// An interface is new, or has this state now.
    Interface(Port),
    /// The interface with this name was removed.
    Removed(String),
    /// The state at the beginning was given in full.
    Complete(bool),
}

/// What a client knows.
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
                // An interface with the same name that was removed since gives way without an event.
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

/// Answers with events, one per line, until the client leaves.
pub(super) fn watch(client: &Rc<Client>) -> Response<Body> {
    let watcher = client.clone();
    pieces(&client.seat, LINES, client.hold(), async move |to| {
        let (mut known, mut last) = (Known::default(), Instant::now());
        loop {
            let mut events = Vec::new();
            let over = watcher.slice(|c| known.look(c, &mut events)).await;
            let mut text = String::new();
            for event in &events {
                // The names in these objects are strings, so they can be written.
                text += &serde_json::to_string(event).unwrap_or_default();
                text.push('\n');
            }
            if events.is_empty() && last.elapsed() >= QUIET {
                text.push('\n');
            }
            if !text.is_empty() {
                last = Instant::now();
                // Without a receiver, the client is gone, and this task is about to be aborted.
                if to.send(text.into()).await.is_err() {
                    return Ok(());
                }
            }
            if over {
                // A client that only waits for events may have to make room for another one.
                if watcher.seat.state() == State::Served {
                    watcher.seat.enter(State::Asked);
                }
                sleep(LOOK).await;
            }
        }
    })
}
