//! Paths: where packets go, what that means now, and which routes say so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::Bound;

use super::object::Object;
use super::prefix::Prefix4;
use super::recursion::Trail;
use super::slab::{NONE, Slab};
use crate::icmp::Cause;

/// Where a route's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// To a neighbour; without an interface, to whichever connected network it is on, or else wherever the route to it
    /// leads.
    Via {
        /// The neighbour, or a router behind one.
        next_hop: Ipv4Addr,
        /// By this interface only.
        interface: Option<u32>,
    },
    /// To the destination itself, on the link of this interface.
    Attached(u32),
    /// To this router.
    Local,
    /// Nowhere, without a word.
    Drop,
    /// Nowhere, with an ICMP error.
    Unreachable,
    /// Nowhere, with an ICMP error that says so.
    Prohibit,
    /// To wherever another VRF says.
    Table(u16),
}

impl Path {
    /// What it means if that depends on nothing.
    pub(super) fn constant(self) -> Option<Object> {
        match self {
            Path::Local => Some(Object::Local),
            Path::Drop => Some(Object::Drop),
            Path::Unreachable => Some(Object::Report(Cause::HostUnreachable)),
            Path::Prohibit => Some(Object::Report(Cause::Prohibited)),
            Path::Table(t) => Some(Object::Table(t)),
            Path::Via { .. } | Path::Attached(_) => None,
        }
    }

    /// The interface that it names.
    pub(super) fn interface(self) -> Option<u32> {
        match self {
            Path::Attached(interface) => Some(interface),
            Path::Via { interface, .. } => interface,
            _ => None,
        }
    }
}

/// A path and what depends on it.
#[derive(Debug)]
pub struct PathState {
    /// Index of its forwarding object, which is the leaf in the lookup tables.
    pub object: u32,
    /// What it means now; `None` while it is unresolved.
    pub resolved: Option<Object>,
    /// How its next hop was looked for among the routes, if the path is recursive.
    pub trail: Option<Box<Trail>>,
    /// What the object still says of a path that ceased to be resolved, until its routes have given way.
    pub(super) held: Option<Object>,
    /// The VRF of its routes.
    pub(super) fib: u16,
    pub(super) path: Path,
    /// Its routes: the one that was added last, from which the list goes on.
    pub(super) first: u32,
    /// While routes are being installed anew: the next of them.
    pub(super) next: u32,
    /// Whether it is among those whose routes are being installed anew.
    pub(super) waits: bool,
}

impl PathState {
    pub(super) fn new(fib: u16, path: Path, object: u32, resolved: Option<Object>) -> PathState {
        let (trail, held) = (None, None);
        PathState { object, resolved, trail, held, fib, path, first: NONE, next: NONE, waits: false }
    }

    /// Whether recursive paths may follow its routes. Another recursive path counts whether it is resolved or not: else
    /// circles would come and go for ever.
    pub(super) fn counts(&self) -> bool {
        self.trail.is_some() || self.resolved.is_some()
    }
}

/// What changed, so that paths may mean something else: those that name one of these interfaces, or have a next hop on
/// one of these networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affected {
    /// Interfaces by index.
    pub interfaces: Vec<u32>,
    /// Networks, each with its VRF.
    pub networks: Vec<(u16, Prefix4)>,
}

/// All paths, by VRF and by what they depend on.
pub(super) struct Paths {
    pub states: Slab<PathState>,
    /// In order of next hop, so that those on one network are next to each other.
    by_path: BTreeMap<(u16, Path), u32>,
    by_interface: BTreeSet<(u32, u32)>,
    /// Recursive paths by VRF and each next hop on their trail, and by the interface that the trail ends at.
    by_hop: BTreeSet<Hop>,
    by_end: BTreeSet<(u32, u32)>,
}

/// A place in the order of recursive paths: VRF, a next hop on the trail, the path.
pub(super) type Hop = (u16, Ipv4Addr, u32);

impl Paths {
    pub fn new() -> Paths {
        Paths {
            states: Slab::new(),
            by_path: BTreeMap::new(),
            by_interface: BTreeSet::new(),
            by_hop: BTreeSet::new(),
            by_end: BTreeSet::new(),
        }
    }

    pub fn find(&self, fib: u16, path: Path) -> Option<u32> {
        self.by_path.get(&(fib, path)).copied()
    }

    /// Adds a path that is not there; `None` when there is no memory for it.
    pub fn insert(&mut self, state: PathState) -> Option<u32> {
        let (fib, path) = (state.fib, state.path);
        let id = self.states.insert(state)?;
        self.by_path.insert((fib, path), id);
        self.by_interface.extend(path.interface().map(|i| (i, id)));
        Some(id)
    }

    pub fn remove(&mut self, id: u32) -> Option<PathState> {
        self.set_trail(id, None);
        let state = self.states.remove(id)?;
        self.by_path.remove(&(state.fib, state.path));
        if let Some(interface) = state.path.interface() {
            self.by_interface.remove(&(interface, id));
        }
        Some(state)
    }

    /// Notes how the next hop of a path was looked for; `None` for one that is not recursive.
    pub fn set_trail(&mut self, id: u32, trail: Option<Trail>) {
        let state = &mut self.states[id];
        if state.trail.as_deref() == trail.as_ref() {
            return;
        }
        let fib = state.fib;
        if let Some(old) = &state.trail {
            for hop in &old.hops {
                self.by_hop.remove(&(fib, *hop, id));
            }
            old.interface().map(|i| self.by_end.remove(&(i, id)));
        }
        if let Some(new) = &trail {
            self.by_hop.extend(new.hops.iter().map(|hop| (fib, *hop, id)));
            self.by_end.extend(new.interface().map(|i| (i, id)));
        }
        state.trail = trail.map(Box::new);
    }

    /// The first recursive path behind `after` with a next hop in this prefix on its trail.
    pub fn next_through(&self, fib: u16, prefix: Prefix4, after: Option<Hop>) -> Option<Hop> {
        let from = after.map_or(Bound::Included((fib, prefix.address(), 0)), Bound::Excluded);
        self.by_hop.range((from, Bound::Included((fib, prefix.last(), u32::MAX)))).next().copied()
    }

    /// The VRF of a path, if some VRF has it.
    pub fn vrf_with(&self, path: Path) -> Option<u16> {
        self.by_path.keys().find(|(_, p)| *p == path).map(|(fib, _)| *fib)
    }

    /// The paths that name an interface.
    pub fn naming(&self, interface: u32) -> impl Iterator<Item = u32> {
        self.by_interface.range((interface, 0)..=(interface, u32::MAX)).map(|(_, id)| *id)
    }

    /// The paths that depend on what changed, each once.
    pub fn affected(&self, what: &Affected) -> BTreeSet<u32> {
        let via = |next_hop, interface| Path::Via { next_hop, interface };
        let named = what.interfaces.iter().flat_map(|i| self.naming(*i));
        let on = what.networks.iter().flat_map(|(fib, network)| {
            let first = (*fib, via(network.address(), None));
            self.by_path.range(first..=(*fib, via(network.last(), Some(u32::MAX))))
        });
        let ends = what.interfaces.iter().flat_map(|i| self.by_end.range((*i, 0)..=(*i, u32::MAX)));
        let through = what.networks.iter().flat_map(|(fib, network)| {
            self.by_hop.range((*fib, network.address(), 0)..=(*fib, network.last(), u32::MAX))
        });
        let direct = named.chain(on.map(|(_, id)| *id));
        direct.chain(ends.map(|(_, id)| *id)).chain(through.map(|(_, _, id)| *id)).collect()
    }
}
