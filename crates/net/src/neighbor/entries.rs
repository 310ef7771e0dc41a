//! The entries of the neighbor table, also ordered by the next timer and by the order of replacement.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::Bound;

use wire::Mac;

use super::family::Family;

/// Identifies a neighbor: its interface, and its IP address.
pub type Key<A = Ipv4Addr> = (u32, A);

/// The state of a neighbor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The router has sent this many requests, and none has been answered yet.
    Incomplete(u8),
    /// The neighbor has answered none of the requests.
    Failed,
    /// The neighbor is reachable at this Ethernet address.
    Reachable(Mac),
    /// The neighbor had this Ethernet address when the router last heard from it. No packets have been sent
    /// to it since the entry became stale (IPv6 only).
    Stale(Mac),
    /// Packets are being sent to the neighbor at this Ethernet address. It is probed after 5 seconds unless it confirms this address first
    /// (IPv6 only).
    Delay(Mac),
    /// The neighbor had this Ethernet address when the router last heard from it, and has been sent this many
    /// probes since.
    Probing(Mac, u8),
    /// A static entry of the operator with this Ethernet address.
    Static(Mac),
}

impl State {
    /// Returns the Ethernet address, if it is known.
    pub fn mac(self) -> Option<Mac> {
        match self {
            State::Reachable(mac)
            | State::Stale(mac)
            | State::Delay(mac)
            | State::Probing(mac, _)
            | State::Static(mac) => Some(mac),
            State::Incomplete(_) | State::Failed => None,
        }
    }

    /// The names of all states.
    const NAMES: [&str; 7] = ["incomplete", "failed", "reachable", "stale", "delay", "probing", "static"];

    /// Returns the state's name.
    pub fn name(self) -> &'static str {
        State::NAMES[self.number()]
    }

    /// Returns the index of the state in [`State::NAMES`].
    fn number(self) -> usize {
        match self {
            State::Incomplete(_) => 0,
            State::Failed => 1,
            State::Reachable(_) => 2,
            State::Stale(_) => 3,
            State::Delay(_) => 4,
            State::Probing(..) => 5,
            State::Static(_) => 6,
        }
    }

    /// Returns the rank in the order of replacement: entries with the lowest rank are replaced first. `None`:
    /// never replaced.
    fn rank(self) -> Option<u8> {
        match self {
            State::Failed => Some(0),
            State::Incomplete(_) => Some(1),
            State::Stale(_) => Some(2),
            State::Reachable(_) | State::Delay(_) | State::Probing(..) => Some(3),
            State::Static(_) => None,
        }
    }
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The state.
    pub state: State,
    /// True if the neighbor's own messages say that it is a router (IPv6 only).
    pub router: bool,
    /// Time in nanoseconds: when the Ethernet address was last learned or confirmed, when the first request was sent (incomplete), when the
    /// last request failed (failed), or when the operator set the entry (static).
    pub since: u64,
    /// Time at which the entry's timer expires, in nanoseconds; `None` for a static entry.
    pub due: Option<u64>,
}

/// All entries.
#[derive(Debug)]
pub struct Entries<A = Ipv4Addr> {
    map: BTreeMap<Key<A>, Entry>,
    due: BTreeSet<(u64, Key<A>)>,
    order: BTreeSet<(u8, u64, Key<A>)>,
    /// Number of entries in each state, in the order of [`State::NAMES`].
    counts: [usize; State::NAMES.len()],
    /// Entries that became stale since the last call of `take_staled`.
    staled: Vec<Key<A>>,
}

impl<A> Default for Entries<A> {
    fn default() -> Self {
        Entries {
            map: BTreeMap::new(),
            due: BTreeSet::new(),
            order: BTreeSet::new(),
            counts: [0; State::NAMES.len()],
            staled: Vec::new(),
        }
    }
}

impl<A: Family> Entries<A> {
    /// Returns the entry of a neighbor.
    pub fn get(&self, key: Key<A>) -> Option<Entry> {
        self.map.get(&key).copied()
    }

    /// Number of entries.
    pub fn count(&self) -> usize {
        self.map.len()
    }

    /// Returns the number of entries of neighbors that have not answered.
    pub fn unresolved(&self) -> usize {
        self.counts[State::Incomplete(0).number()] + self.counts[State::Failed.number()]
    }

    /// Returns the number of entries in each state that the family has.
    pub fn by_state(&self) -> impl Iterator<Item = (&'static str, usize)> + use<A> {
        let of_nud = [State::Stale(Mac::ZERO), State::Delay(Mac::ZERO)].map(State::name);
        let all = State::NAMES.into_iter().zip(self.counts);
        all.filter(move |(name, _)| A::NUD || !of_nud.contains(name))
    }

    /// Returns the number of entries that are never replaced.
    pub fn fixed(&self) -> usize {
        self.map.len() - self.order.len()
    }

    /// Adds or replaces an entry.
    pub fn put(&mut self, key: Key<A>, entry: Entry) {
        let before = self.remove(key);
        let is_stale = |e: &Entry| matches!(e.state, State::Stale(_));
        if is_stale(&entry) && !before.as_ref().is_some_and(is_stale) {
            self.staled.push(key);
        }
        self.due.extend(entry.due.map(|d| (d, key)));
        self.order.extend(entry.state.rank().map(|r| (r, entry.since, key)));
        self.counts[entry.state.number()] += 1;
        self.map.insert(key, entry);
    }

    /// Returns the entries that became stale since the last call. From then on, the caller must check whether
    /// packets are sent to them.
    pub fn take_staled(&mut self) -> Vec<Key<A>> {
        std::mem::take(&mut self.staled)
    }

    /// Removes and returns an entry.
    pub fn remove(&mut self, key: Key<A>) -> Option<Entry> {
        let entry = self.map.remove(&key)?;
        if let Some(due) = entry.due {
            self.due.remove(&(due, key));
        }
        if let Some(rank) = entry.state.rank() {
            self.order.remove(&(rank, entry.since, key));
        }
        self.counts[entry.state.number()] -= 1;
        Some(entry)
    }

    /// Returns the entry whose timer expires first, and the time.
    pub fn first_due(&self) -> Option<(u64, Key<A>)> {
        self.due.first().copied()
    }

    /// Returns the entry to replace first. Failed entries are replaced first, then incomplete, stale and
    /// other learned ones; among equals, the oldest is replaced first.
    pub fn first_to_go(&self) -> Option<Key<A>> {
        self.order.first().map(|o| o.2)
    }

    /// Returns all entries in order of interface and address.
    pub fn iter(&self) -> impl Iterator<Item = (Key<A>, Entry)> {
        self.map.iter().map(|(k, e)| (*k, *e))
    }

    /// Returns the entries after `key` in order of interface and address; `key` need not exist. `None`: all
    /// entries.
    pub fn behind(&self, key: Option<Key<A>>) -> impl Iterator<Item = (Key<A>, Entry)> {
        let first = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.map.range((first, Bound::Unbounded)).map(|(k, e)| (*k, *e))
    }

    /// Returns the entries of one interface.
    pub fn of(&self, interface: u32) -> impl Iterator<Item = (Key<A>, Entry)> {
        let all = (interface, A::FIRST)..=(interface, A::LAST);
        self.map.range(all).map(|(k, e)| (*k, *e))
    }
}

#[cfg(test)]
impl<A: Family> Entries<A> {
    /// True if `due`, `order` and `counts` match the entries.
    pub fn consistent(&self) -> bool {
        let due: BTreeSet<_> = self.iter().filter_map(|(k, e)| Some((e.due?, k))).collect();
        let order: BTreeSet<_> =
            self.iter().filter_map(|(k, e)| Some((e.state.rank()?, e.since, k))).collect();
        let of = |name| self.iter().filter(|(_, e)| e.state.name() == name).count();
        due == self.due && order == self.order && self.by_state().all(|(name, count)| of(name) == count)
    }
}
