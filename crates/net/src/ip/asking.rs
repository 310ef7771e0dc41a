//! After a change of interfaces or networks, resolves again the path lists that depend on them, some at a
//! time.
//!
//! Until a list is resolved again, it keeps its adjacencies, and packets use them. If the interface is down,
//! these packets are dropped on transmission.

use super::family::Ip;
use super::path::{Affected, Place};
use super::recursion::{self, has_recursive};
use super::table::{Resolver, Routes};

/// A change of interfaces or networks, with the progress of resolving the path lists that depend on it.
pub(super) struct Asking {
    what: Affected,
    /// Sequence number of the change.
    number: u64,
    place: Place,
    /// True once all lists without recursive paths have been resolved again. The recursive lists follow.
    recursive: bool,
}

impl<A: Ip> Routes<A> {
    /// Schedules a new resolution of the paths that depend on changed interfaces or networks.
    /// [`settle`](Self::settle) does the work: it also installs and withdraws the routes of paths that became
    /// resolved or unresolved.
    pub fn resolve_again(&mut self, what: Affected) {
        self.changes += 1;
        let number = self.changes;
        self.asking.push_back(Asking { what, number, place: Place::default(), recursive: false });
    }

    /// True if some lists have yet to be resolved again. Until then, lists may hold adjacencies of removed
    /// interfaces.
    pub fn asks(&self) -> bool {
        !self.asking.is_empty()
    }

    /// Does the next step of resolving lists again. Returns the cost of the step in route visits, or `None`
    /// if no list is left.
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
        // A list without recursive paths depends on interfaces alone, and their last change is already
        // visible.
        let asked = if recursive { asking.number } else { self.changes };
        self.rib.paths.states[id].asked = asked;
        self.ask(id, true, by);
        Some(recursion::COST)
    }
}
