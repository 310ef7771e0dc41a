//! The entries of the table of neighbours, with what is needed to find the next one due and the oldest.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::Bound;

use wire::Mac;

/// A neighbour: the interface, and the address on its link.
pub type Key = (u32, Ipv4Addr);

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Asked for this many times, without an answer yet.
    Incomplete(u8),
    /// Asked for in vain.
    Failed,
    /// It has this address.
    Reachable(Mac),
    /// It had this address when it was last heard of, and has been asked this many times since.
    Probing(Mac, u8),
    /// The operator says that it has this address.
    Static(Mac),
}

impl State {
    /// The Ethernet address, if there is one.
    pub fn mac(self) -> Option<Mac> {
        match self {
            State::Reachable(mac) | State::Probing(mac, _) | State::Static(mac) => Some(mac),
            State::Incomplete(_) | State::Failed => None,
        }
    }

    /// The names of all states.
    const NAMES: [&str; 5] = ["incomplete", "failed", "reachable", "probing", "static"];

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
            State::Probing(..) => 3,
            State::Static(_) => 4,
        }
    }

    /// Which entries give way first; `None` for those that never do.
    fn rank(self) -> Option<u8> {
        match self {
            State::Failed => Some(0),
            State::Incomplete(_) => Some(1),
            State::Reachable(_) | State::Probing(..) => Some(2),
            State::Static(_) => None,
        }
    }
}

/// An entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What is known.
    pub state: State,
    /// When that was last confirmed, or the asking began: nanoseconds.
    pub since: u64,
    /// When something is to be done about it.
    pub due: Option<u64>,
}

/// All entries.
#[derive(Debug, Default)]
pub struct Entries {
    map: BTreeMap<Key, Entry>,
    due: BTreeSet<(u64, Key)>,
    order: BTreeSet<(u8, u64, Key)>,
    /// How many there are in each state, in the order of [`State::NAMES`].
    counts: [usize; State::NAMES.len()],
}

impl Entries {
    /// The entry of a neighbour.
    pub fn get(&self, key: Key) -> Option<Entry> {
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

    /// How many are in each state.
    pub fn by_state(&self) -> impl Iterator<Item = (&'static str, usize)> {
        State::NAMES.into_iter().zip(self.counts)
    }

    /// How many of them never give way to others.
    pub fn fixed(&self) -> usize {
        self.map.len() - self.order.len()
    }

    /// Puts an entry in place of what there was.
    pub fn put(&mut self, key: Key, entry: Entry) {
        self.remove(key);
        self.due.extend(entry.due.map(|d| (d, key)));
        self.order.extend(entry.state.rank().map(|r| (r, entry.since, key)));
        self.counts[entry.state.number()] += 1;
        self.map.insert(key, entry);
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: Key) -> Option<Entry> {
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
    pub fn first_due(&self) -> Option<(u64, Key)> {
        self.due.first().copied()
    }

    /// The entry that is to give way: one without an answer if there is one, and of these the oldest.
    pub fn first_to_go(&self) -> Option<Key> {
        self.order.first().map(|o| o.2)
    }

    /// Every entry in order of interface and address.
    pub fn iter(&self) -> impl Iterator<Item = (Key, Entry)> {
        self.map.iter().map(|(k, e)| (*k, *e))
    }

    /// The entries behind one, which need not be there; `None`: all.
    pub fn behind(&self, key: Option<Key>) -> impl Iterator<Item = (Key, Entry)> {
        let first = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.map.range((first, Bound::Unbounded)).map(|(k, e)| (*k, *e))
    }

    /// The entries of one interface.
    pub fn of(&self, interface: u32) -> impl Iterator<Item = (Key, Entry)> {
        let all = (interface, Ipv4Addr::UNSPECIFIED)..=(interface, Ipv4Addr::BROADCAST);
        self.map.range(all).map(|(k, e)| (*k, *e))
    }
}

#[cfg(test)]
impl Entries {
    /// Whether the indexes agree with the entries.
    pub fn consistent(&self) -> bool {
        let due: BTreeSet<_> = self.iter().filter_map(|(k, e)| Some((e.due?, k))).collect();
        let order: BTreeSet<_> =
            self.iter().filter_map(|(k, e)| Some((e.state.rank()?, e.since, k))).collect();
        let of = |name| self.iter().filter(|(_, e)| e.state.name() == name).count();
        due == self.due && order == self.order && self.by_state().all(|(name, count)| of(name) == count)
    }
}
