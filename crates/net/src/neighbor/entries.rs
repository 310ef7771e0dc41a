//! The entries of the table of neighbours, with what is needed to find the next one due and the oldest.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::Bound;

use wire::Mac;

use super::family::Family;

/// A neighbour: the interface, and the address on its link.
pub type Key<A = Ipv4Addr> = (u32, A);

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Asked for this many times, without an answer yet.
    Incomplete(u8),
    /// Asked for in vain.
    Failed,
    /// It has this address.
    Reachable(Mac),
    /// It had this address when it was last heard of, and was not used since (IPv6 only).
    Stale(Mac),
    /// It is used at this address, and will be asked unless it is heard of (IPv6 only).
    Delay(Mac),
    /// It had this address when it was last heard of, and has been asked this many times since.
    Probing(Mac, u8),
    /// The operator says that it has this address.
    Static(Mac),
}

impl State {
    /// The Ethernet address, if there is one.
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

    /// The state's name.
    pub fn name(self) -> &'static str {
        State::NAMES[self.number()]
    }

    /// The number of the state's name.
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

    /// Which entries give way first; `None` for those that never do.
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
    /// What is known.
    pub state: State,
    /// It says that it is a router (IPv6 only).
    pub router: bool,
    /// When that was last confirmed, or the asking began: nanoseconds.
    pub since: u64,
    /// When something is to be done about it.
    pub due: Option<u64>,
}

/// All entries.
#[derive(Debug)]
pub struct Entries<A = Ipv4Addr> {
    map: BTreeMap<Key<A>, Entry>,
    due: BTreeSet<(u64, Key<A>)>,
    order: BTreeSet<(u8, u64, Key<A>)>,
    /// How many there are in each state, in the order of [`State::NAMES`].
    counts: [usize; State::NAMES.len()],
    /// Those that became stale since somebody last asked.
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
    /// The entry of a neighbour.
    pub fn get(&self, key: Key<A>) -> Option<Entry> {
        self.map.get(&key).copied()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.map.len()
    }

    /// How many of them are without an answer.
    pub fn unresolved(&self) -> usize {
        self.counts[State::Incomplete(0).number()] + self.counts[State::Failed.number()]
    }

    /// How many are in each state that the family has.
    pub fn by_state(&self) -> impl Iterator<Item = (&'static str, usize)> + use<A> {
        let of_nud = [State::Stale(Mac::ZERO), State::Delay(Mac::ZERO)].map(State::name);
        let all = State::NAMES.into_iter().zip(self.counts);
        all.filter(move |(name, _)| A::NUD || !of_nud.contains(name))
    }

    /// How many of them never give way to others.
    pub fn fixed(&self) -> usize {
        self.map.len() - self.order.len()
    }

    /// Puts an entry in place of what there was.
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

    /// Those that became stale since this was last asked: from then on it counts whether they are used.
    pub fn take_staled(&mut self) -> Vec<Key<A>> {
        std::mem::take(&mut self.staled)
    }

    /// Takes an entry out.
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

    /// The first entry that is due, and when.
    pub fn first_due(&self) -> Option<(u64, Key<A>)> {
        self.due.first().copied()
    }

    /// The entry that is to give way: one without an answer if there is one, and of these the oldest.
    pub fn first_to_go(&self) -> Option<Key<A>> {
        self.order.first().map(|o| o.2)
    }

    /// Every entry in order of interface and address.
    pub fn iter(&self) -> impl Iterator<Item = (Key<A>, Entry)> {
        self.map.iter().map(|(k, e)| (*k, *e))
    }

    /// The entries behind one, which need not be there; `None`: all.
    pub fn behind(&self, key: Option<Key<A>>) -> impl Iterator<Item = (Key<A>, Entry)> {
        let first = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.map.range((first, Bound::Unbounded)).map(|(k, e)| (*k, *e))
    }

    /// The entries of one interface.
    pub fn of(&self, interface: u32) -> impl Iterator<Item = (Key<A>, Entry)> {
        let all = (interface, A::FIRST)..=(interface, A::LAST);
        self.map.range(all).map(|(k, e)| (*k, *e))
    }
}

#[cfg(test)]
impl<A: Family> Entries<A> {
    /// Whether the indexes agree with the entries.
    pub fn consistent(&self) -> bool {
        let due: BTreeSet<_> = self.iter().filter_map(|(k, e)| Some((e.due?, k))).collect();
        let order: BTreeSet<_> =
            self.iter().filter_map(|(k, e)| Some((e.state.rank()?, e.since, k))).collect();
        let of = |name| self.iter().filter(|(_, e)| e.state.name() == name).count();
        due == self.due && order == self.order && self.by_state().all(|(name, count)| of(name) == count)
    }
}
