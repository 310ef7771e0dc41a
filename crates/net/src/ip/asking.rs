//! Resolves path lists again, after a change of the interfaces or networks on which they depend. Each step
//! handles at most one list.
//!
//! Until a list is resolved again, it keeps its adjacencies, and packets use them. If the interface is down,
//! these packets are dropped on transmission.

use super::family::Ip;
use super::path::{Affected, Place};
use super::recursion::{self, has_recursive};
use super::table::{Resolver, Routes};

/// A change of interfaces or networks, and how far the affected path lists have been resolved again.
pub(super) struct Asking {
    what: Affected,
    /// Sequence number of the change.
    number: u64,
    place: Place,
    /// True once all affected lists without recursive paths have been resolved again, and only lists with
    /// recursive paths are left.
    recursive: bool,
}

impl<A: Ip> Routes<A> {
    /// Schedules a new resolution of all paths that depend on these interfaces or networks, after a change of
    /// them. [`settle`](Self::settle) does the work. It also installs the routes of paths that became
    /// resolved, and withdraws the routes of paths that became unresolved.
    pub fn resolve_again(&mut self, what: Affected) {
        self.changes += 1;
        let number = self.changes;
        self.asking.push_back(Asking { what, number, place: Place::default(), recursive: false });
    }

    /// True if path lists still wait to be resolved again after a change of interfaces or networks. Until
    /// then, they may hold adjacencies of removed interfaces.
    pub fn asks(&self) -> bool {
        !self.asking.is_empty()
    }

    /// Does one step of the scheduled work, which resolves at most one path list again. Returns the cost of
    /// the step in units of one route update, or `None` if no work is left.
    pub(crate) fn ask_next(&mut self, by: &mut impl Resolver) -> Option<usize> {
        if self.asking.is_empty() {
            return None;
        }
        // A held adjacency may belong to a removed interface, so release the held objects first. No others
        // become held until all lists are resolved again.
        if let Some(id) = self.holding.first().copied() {
            self.let_go(id, by);
            self.holding.remove(&id);
            return Some(1);
        }
        let asking = self.asking.front_mut()?;
        let Some(id) = self.rib.paths.next_affected(&asking.what, &mut asking.place) else {
            if std::mem::replace(&mut asking.recursive, true) {
                self.asking.pop_front();
            } else {
                asking.place = Place::default();
            }
            return Some(0);
        };
        let state = &self.rib.paths.states[id];
        if state.asked >= asking.number {
            return Some(1);
        }
        let recursive = has_recursive(state.fib, &state.list, by);
        if recursive && !asking.recursive {
            return Some(1);
        }
        // A list without recursive paths depends on interfaces alone, and the last change of the interfaces is already visible.
        let asked = if recursive { asking.number } else { self.changes };
        self.rib.paths.states[id].asked = asked;
        self.ask(id, true, by);
        Some(recursion::COST)
    }
}
