//! Interfaces change: the lists of paths that depend on them are asked again what they mean, some at a time.
//!
//! A list that waits to be asked means what it meant: it keeps its adjacencies, and its packets go to them. Those of an interface that
//! went down are dropped where they would leave by it.

use super::family::Ip;
use super::path::{Affected, Place};
use super::recursion::{self, has_recursive};
use super::table::{Resolver, Routes};

/// A change of interfaces, and how many of the lists that depend on it have been asked.
pub(super) struct Asking {
    what: Affected,
    /// The how-manieth change it is.
    number: u64,
    place: Place,
    /// Those that are not recursive have been asked. The others look at what they mean now.
    recursive: bool,
}

impl<A: Ip> Routes<A> {
    /// Interfaces or networks came, went, or changed: the paths that depend on them are asked again what they mean, and routes of those
    /// that became resolved, or ceased to be, come and go ([`settle`](Self::settle)).
    pub fn resolve_again(&mut self, what: Affected) {
        self.changes += 1;
        let number = self.changes;
        self.asking.push_back(Asking { what, number, place: Place::default(), recursive: false });
    }

    /// Whether lists are to be asked again. Until they were, they may hold adjacencies to interfaces that are gone.
    pub fn asks(&self) -> bool {
        !self.asking.is_empty()
    }

    /// Asks the next list; what that costs in visits of a route, or `None` when all are asked.
    pub(crate) fn ask_next(&mut self, by: &mut impl Resolver) -> Option<usize> {
        if self.asking.is_empty() {
            return None;
        }
        // What a path still holds may be behind an interface that has gone. Nothing else is held until all are asked.
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
        // What is not recursive means what interfaces say, and they are as the last change left them.
        let asked = if recursive { asking.number } else { self.changes };
        self.rib.paths.states[id].asked = asked;
        self.ask(id, true, by);
        Some(recursion::COST)
    }
}
