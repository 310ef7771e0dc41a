//! Events for clients of an API: a client registers for a kind of event, and gets a message for each event of this kind until the
//! registration or the client's connection ends.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::rc::Rc;

use net::router::News;
use tokio::sync::Notify;

/// Maximum number of bytes of events that wait for a client.
const MOST_WAITING: usize = 1 << 20;

/// The events that wait for a client.
#[derive(Default)]
pub struct Queue {
    waiting: RefCell<VecDeque<Vec<u8>>>,
    bytes: std::cell::Cell<usize>,
    too_slow: std::cell::Cell<bool>,
    bell: Notify,
}

/// The client did not read its events in time, or events for it were lost.
pub(crate) struct TooSlow;

impl Queue {
    /// Adds a message, complete with its identifier. If too many bytes wait, drops the message, and marks the client as too slow.
    fn push(&self, message: Vec<u8>) {
        let bytes = self.bytes.get() + message.len();
        if bytes > MOST_WAITING {
            self.too_slow.set(true);
        } else {
            self.bytes.set(bytes);
            self.waiting.borrow_mut().push_back(message);
        }
        self.bell.notify_one();
    }

    /// Returns the number of events that wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Waits for events, and returns all that wait.
    ///
    /// # Errors
    /// If the client was too slow, or events for it were lost.
    pub(crate) async fn next(&self) -> Result<VecDeque<Vec<u8>>, TooSlow> {
        loop {
            if self.too_slow.get() {
                return Err(TooSlow);
            }
            let all = std::mem::take(&mut *self.waiting.borrow_mut());
            self.bytes.set(0);
            if !all.is_empty() {
                return Ok(all);
            }
            self.bell.notified().await;
        }
    }
}

/// A client's registration for events of neighbors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NeighborWatch {
    /// Number of the client.
    pub(crate) client: u64,
    /// True to also send events about removed neighbors; false to send only events about new and changed neighbors.
    pub(crate) both: bool,
    /// Only the neighbor with this address; `None` for all addresses.
    pub(crate) ip: Option<IpAddr>,
    /// Only neighbors on the interface with this index; `None` for all interfaces.
    pub(crate) interface: Option<u32>,
}

/// The registrations of all clients.
#[derive(Default)]
pub struct Events {
    /// The queue of each client, by the number of its connection.
    clients: BTreeMap<u64, Rc<Queue>>,
    /// For each kind of event and client, the client's process ID as the client gave it.
    registered: BTreeMap<(&'static str, u64), u32>,
    /// The registrations for neighbors, with the client's process ID.
    neighbors: BTreeMap<NeighborWatch, u32>,
    last: u64,
    /// The interfaces as the clients know them: by serial number, the index and flags. `None` if no client wants their events.
    pub(crate) interfaces: Option<BTreeMap<u64, (u32, u32)>>,
}

impl Events {
    /// Adds a client. Returns its number and its queue.
    pub(crate) fn enter(&mut self) -> (u64, Rc<Queue>) {
        self.last += 1;
        let queue = Rc::new(Queue::default());
        self.clients.insert(self.last, queue.clone());
        (self.last, queue)
    }

    /// Removes a client with its registrations.
    pub(crate) fn leave(&mut self, client: u64) {
        self.clients.remove(&client);
        self.registered.retain(|(_, of), _| *of != client);
        self.neighbors.retain(|watch, _| watch.client != client);
    }

    /// Adds a registration for neighbors; `pid` is the client's process ID. With `None`, removes the registration.
    pub(crate) fn watch_neighbors(&mut self, watch: NeighborWatch, pid: Option<u32>) {
        match pid {
            Some(pid) => drop(self.neighbors.insert(watch, pid)),
            None => drop(self.neighbors.remove(&watch)),
        }
    }

    /// True if a client is registered for neighbors.
    pub(crate) fn are_neighbors_wanted(&self) -> bool {
        !self.neighbors.is_empty()
    }

    /// Sends a change of a neighbor to all clients with a matching registration. `message` returns the bytes of the event. Its arguments
    /// are the registration's `both` and the client's process ID.
    pub(crate) fn tell_of_neighbor(&self, news: &News, message: impl Fn(bool, u32) -> Vec<u8>) {
        for (watch, pid) in &self.neighbors {
            let matches = (watch.both || !news.gone)
                && watch.ip.is_none_or(|ip| ip == news.address)
                && watch.interface.is_none_or(|index| index == news.interface);
            if let Some(queue) = self.clients.get(&watch.client).filter(|_| matches) {
                queue.push(message(watch.both, *pid));
            }
        }
    }

    /// Ends the connections of all clients that are registered for neighbors: events were lost.
    pub(crate) fn cut_neighbor_watchers(&self) {
        let queues = self.neighbors.keys().filter_map(|watch| self.clients.get(&watch.client));
        queues.for_each(|queue| {
            queue.too_slow.set(true);
            queue.bell.notify_one();
        });
    }

    /// Registers a client for a kind of event, or ends its registration. `pid` is repeated in the events. Returns false if nothing changed:
    /// the client was already registered, or had no registration to end.
    pub fn want(&mut self, kind: &'static str, client: u64, on: bool, pid: u32) -> bool {
        match (on, self.registered.contains_key(&(kind, client))) {
            (true, false) => drop(self.registered.insert((kind, client), pid)),
            (false, true) => drop(self.registered.remove(&(kind, client))),
            _ => return false,
        }
        true
    }

    /// True if a client is registered for a kind of event.
    pub fn is_wanted(&self, kind: &'static str) -> bool {
        self.registered.range((kind, 0)..=(kind, u64::MAX)).next().is_some()
    }

    /// Returns the clients that are registered for a kind of event, each with its process ID.
    pub fn registered(&self, kind: &'static str) -> Vec<(u64, u32)> {
        let range = self.registered.range((kind, 0)..=(kind, u64::MAX));
        range.map(|((_, client), pid)| (*client, *pid)).collect()
    }

    /// Sends an event to one client, if it is still connected.
    pub(crate) fn send_to(&self, client: u64, message: Vec<u8>) {
        if let Some(queue) = self.clients.get(&client) {
            queue.push(message);
        }
    }

    /// Sends an event to all clients that are registered for `kind`. `message` encodes the event, with its message ID, for a client with
    /// the given process ID.
    pub(crate) fn send(&self, kind: &'static str, message: impl Fn(u32) -> Vec<u8>) {
        for ((_, client), pid) in self.registered.range((kind, 0)..=(kind, u64::MAX)) {
            if let Some(queue) = self.clients.get(client) {
                queue.push(message(*pid));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_register_once_and_leave_nothing_behind() {
        let mut events = Events::default();
        let ((a, of_a), (b, of_b)) = (events.enter(), events.enter());
        assert!(!events.is_wanted("x"));
        assert!(events.want("x", a, true, 7));
        assert!(!events.want("x", a, true, 7), "a second time");
        assert!(!events.want("y", a, false, 7));
        assert!(events.want("y", b, true, 8));
        events.send("x", |pid| vec![pid as u8]);
        assert_eq!(*of_a.waiting.borrow(), [vec![7]]);
        assert!(of_b.waiting.borrow().is_empty());
        events.leave(a);
        assert!(!events.is_wanted("x") && events.is_wanted("y"));
        assert!(events.want("y", b, false, 8));
        assert!(!events.is_wanted("y"));
    }

    #[test]
    fn a_client_that_does_not_read_is_too_slow() {
        let mut events = Events::default();
        let (client, queue) = events.enter();
        assert!(events.want("x", client, true, 1));
        (0..3).for_each(|_| events.send("x", |_| vec![0; MOST_WAITING / 2]));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(queue.next()).is_err());
        assert_eq!(queue.waiting.borrow().len(), 2, "memory is bounded");
    }
}
