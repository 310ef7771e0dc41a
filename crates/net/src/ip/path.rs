//! Paths: next hops, interfaces or actions of routes. For each path list, the router keeps the forwarding object to which the list
//! currently resolves, and the routes that use the list.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::{Bound, RangeInclusive};

use super::balance::Layout;
use super::cause::Cause;
use super::kind::ForwardingKind;
use super::object::Object;
use super::path_list::PathList;
use super::prefix::IpPrefix;
use super::recursion::Trail;
use super::slab::{NONE, Slab};

/// The path of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// To a next hop. Without an interface, the next hop is reached over the connected network that contains it, or else recursively, by
    /// the route to it.
    Via {
        /// A neighbor, or a router that is reached through another route.
        next_hop: IpAddr,
        /// If set, the next hop must be reached over this interface.
        interface: Option<u32>,
    },
    /// To the destination itself, which is on the link of this interface.
    Attached(u32),
    /// To this router.
    Local,
    /// Drop silently.
    Drop,
    /// Drop with the ICMP error "host unreachable".
    Unreachable,
    /// Drop with the ICMP error "administratively prohibited".
    Prohibit,
    /// To a link-local destination, which is looked up again as an address on the packet's link.
    LinkLocal,
    /// By a lookup in the VRF with this FIB index.
    Table(u16),
    /// To the entry at this index of a feature's table.
    Feature(ForwardingKind, u32),
}

impl Path {
    /// Returns the path's object if it does not depend on interfaces or routes.
    pub(super) fn constant(self) -> Option<Object> {
        match self {
            Path::Local => Some(Object::Local),
            Path::Drop => Some(Object::Drop),
            Path::Unreachable => Some(Object::Report(Cause::HostUnreachable)),
            Path::Prohibit => Some(Object::Report(Cause::Prohibited)),
            Path::LinkLocal => Some(Object::LinkLocal),
            Path::Table(t) => Some(Object::Table(t)),
            Path::Feature(kind, index) => Some(Object::Feature(kind, index)),
            Path::Via { .. } | Path::Attached(_) => None,
        }
    }

    /// Returns the path's next hop.
    pub(super) fn next_hop(self) -> Option<IpAddr> {
        match self {
            Path::Via { next_hop, .. } => Some(next_hop),
            _ => None,
        }
    }

    /// Returns the path's interface.
    pub(super) fn interface(self) -> Option<u32> {
        match self {
            Path::Attached(interface) => Some(interface),
            Path::Via { interface, .. } => interface,
            _ => None,
        }
    }
}

/// The path list of some routes, and the forwarding object to which it currently resolves.
#[derive(Debug)]
pub struct PathState {
    /// Index of the routes' forwarding object. The lookup tables have this index as their leaf.
    pub object: u32,
    /// The current forwarding object; `None` while no path is resolved.
    pub resolved: Option<Object>,
    /// The next hops that were visited to resolve recursive paths; `None` if no path is recursive.
    pub trail: Option<Box<Trail>>,
    /// If there are several paths: how flows are shared between the resolved ones.
    pub layout: Option<Box<Layout>>,
    /// Index of the buckets for workers; `None` if there were never several paths.
    pub(super) buckets: Option<u32>,
    /// The objects of the paths to which the list resolves. With a layout, one object for each path, in the layout's order;
    /// otherwise only the object `resolved`.
    pub(super) ways: Vec<Object>,
    /// Objects that packets still use although the list became unresolved. The routes' forwarding object leads to them until the routes are
    /// withdrawn. Empty in all other cases.
    pub(super) held: Vec<Object>,
    /// The VRF of the routes.
    pub(super) fib: u16,
    /// The paths.
    pub list: PathList,
    /// Number of [tracks](super::Track) that use this state. A state with tracks exists even without routes.
    pub(super) tracks: u32,
    /// The head of the list of routes with these paths: the route that was added last.
    pub(super) first: u32,
    /// The next route to visit, while the routes with these paths are reinstalled.
    pub(super) next: u32,
    /// True while the routes with these paths wait to be reinstalled.
    pub(super) waits: bool,
    /// Sequence number of the last change of interfaces or networks after which these paths were resolved again.
    pub(super) asked: u64,
}

impl PathState {
    pub(super) fn new(fib: u16, list: PathList, object: u32) -> PathState {
        PathState {
            object,
            resolved: None,
            trail: None,
            layout: None,
            buckets: None,
            ways: Vec::new(),
            held: Vec::new(),
            fib,
            list,
            tracks: 0,
            first: NONE,
            next: NONE,
            waits: false,
            asked: 0,
        }
    }

    /// For a list that leads to several paths, returns each resolved path with its number of buckets, out of 256, and its current
    /// forwarding object. Otherwise returns nothing.
    pub fn shares(&self) -> impl Iterator<Item = (Path, usize, Object)> {
        let shares = self.layout.iter().flat_map(|layout| layout.shares());
        shares.zip(&self.ways).map(|((path, parts), means)| (path, parts, *means))
    }

    /// Returns a layout for a route that changes from this list to the list `other`. The route's new layout should differ from it in as few
    /// flows as possible. It is the present layout of this list. For a single path that `other` contains, too, it is a layout with only
    /// this path. `None` in all other cases.
    pub(super) fn layout_like(&self, other: &PathList) -> Option<Layout> {
        let one = || match self.list {
            PathList::One(path) => other.paths().any(|p| p == path).then(|| Layout::new(&[(path, 1)])),
            PathList::Several(_) => None,
        };
        self.layout.as_deref().cloned().or_else(one)
    }

    /// True if recursive paths may resolve through the routes with these paths: if the list is resolved, or if it has recursive paths
    /// itself. If unresolved lists with recursive paths did not count, routes that form a loop would flap forever.
    pub(super) fn counts(&self) -> bool {
        self.trail.is_some() || self.resolved.is_some()
    }
}

/// A change that may alter the objects to which paths resolve. It affects paths over these interfaces, and paths with a next hop in these
/// networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Affected {
    /// Interfaces by index.
    pub interfaces: Vec<u32>,
    /// Networks of either family.
    pub networks: Vec<Network>,
}

/// A network in a VRF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    fib: u16,
    first: IpAddr,
    last: IpAddr,
}

impl Network {
    /// Returns the network of this prefix in the VRF `fib`.
    pub fn new(fib: u16, prefix: impl Into<IpPrefix>) -> Network {
        let prefix = prefix.into();
        Network { fib, first: prefix.address(), last: prefix.last() }
    }

    /// Returns the range of keys, in a set of [`Hop`]s, whose next hops are in this network.
    fn hops(self) -> RangeInclusive<Hop> {
        (self.fib, self.first, 0)..=(self.fib, self.last, u32::MAX)
    }
}

/// All path lists, indexed by VRF and by the next hops and interfaces that they depend on.
pub(super) struct Paths {
    pub states: Slab<PathState>,
    by_list: BTreeMap<(u16, PathList), Vec<u32>>,
    /// The keys of path lists, sorted by next hop. So the next hops in one network are adjacent.
    by_next_hop: BTreeSet<Hop>,
    by_interface: BTreeSet<(u32, u32)>,
    /// Keys of lists with recursive paths: one for each next hop that is visited to resolve a list (its trail).
    by_hop: BTreeSet<Hop>,
    /// Interfaces and indices of lists with recursive paths: a pair for each interface to which a list's trail leads.
    by_end: BTreeSet<(u32, u32)>,
    /// Number of paths in all lists.
    ways: usize,
}

/// Memory of a path list in bytes, without its paths ([`WAY`]) and its state. Both constants include the list's entries in the sets
/// (`by_next_hop` and others) and its buckets for workers. They were measured as the growth of the process with 50,000 lists of eight paths
/// and 60,000 lists of one path.
const LIST: usize = 256;
/// Memory of each path of a path list in bytes; see [`LIST`].
const WAY: usize = 460;

/// A key by which a set sorts path lists by next hop: VRF, next hop, and index of the list's state.
pub(super) type Hop = (u16, IpAddr, u32);

impl Paths {
    pub fn new() -> Paths {
        Paths {
            states: Slab::new(),
            by_list: BTreeMap::new(),
            by_next_hop: BTreeSet::new(),
            by_interface: BTreeSet::new(),
            by_hop: BTreeSet::new(),
            by_end: BTreeSet::new(),
            ways: 0,
        }
    }

    /// Returns the indices of the states with this list. There may be several, with different layouts: if a route changes to this
    /// list, its flows stay on those paths that its previous list contained, too.
    pub fn find(&self, fib: u16, list: &PathList) -> &[u32] {
        self.by_list.get(&(fib, list.clone())).map_or(&[], Vec::as_slice)
    }

    /// Returns the memory of all lists in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.states.memory_bytes() + self.by_list.len() * LIST + self.ways * WAY
    }

    /// Adds the state of a path list and returns its index; `None` if there is no memory for the state.
    pub fn insert(&mut self, state: PathState) -> Option<u32> {
        let (fib, list) = (state.fib, state.list.clone());
        let id = self.states.insert(state)?;
        self.ways += list.ways();
        for path in list.paths() {
            self.by_interface.extend(path.interface().map(|i| (i, id)));
            self.by_next_hop.extend(path.next_hop().map(|hop| (fib, hop, id)));
        }
        self.by_list.entry((fib, list)).or_default().push(id);
        Some(id)
    }

    pub fn remove(&mut self, id: u32) -> Option<PathState> {
        self.set_trail(id, None);
        let state = self.states.remove(id)?;
        self.ways -= state.list.ways();
        for path in state.list.paths() {
            path.interface().map(|i| self.by_interface.remove(&(i, id)));
            path.next_hop().map(|hop| self.by_next_hop.remove(&(state.fib, hop, id)));
        }
        if let Entry::Occupied(mut ids) = self.by_list.entry((state.fib, state.list.clone())) {
            ids.get_mut().retain(|other| *other != id);
            if ids.get().is_empty() {
                ids.remove();
            }
        }
        Some(state)
    }

    /// Records the next hops and paths through which a list was resolved (its trail); `None` if no path of the list is recursive.
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
            for interface in old.interfaces() {
                self.by_end.remove(&(interface, id));
            }
        }
        if let Some(new) = &trail {
            self.by_hop.extend(new.hops.iter().map(|hop| (fib, *hop, id)));
            self.by_end.extend(new.interfaces().map(|i| (i, id)));
        }
        state.trail = trail.map(Box::new);
    }

    /// Returns the first key in `by_hop` whose next hop is in this network; with `after`, the first such key that is greater than `after`.
    pub fn next_through(&self, network: Network, after: Option<Hop>) -> Option<Hop> {
        next_in(&self.by_hop, network, after)
    }

    /// Returns the first VRF of `vrfs` that has a path list with only this path.
    pub fn vrf_with(&self, path: Path, mut vrfs: impl Iterator<Item = u16>) -> Option<u16> {
        vrfs.find(|fib| !self.find(*fib, &path.into()).is_empty())
    }

    /// Returns the state of a path list that some [`Track`](super::Track) of this VRF uses; `None` if the VRF has no track. Searching
    /// `by_next_hop` suffices, because every list of a track has a next hop.
    pub fn tracked_in(&self, fib: u16) -> Option<&PathState> {
        let least = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let of_vrf = self.by_next_hop.range((fib, least, 0)..).take_while(|(of, ..)| *of == fib);
        of_vrf.map(|(.., id)| &self.states[*id]).find(|state| state.tracks > 0)
    }

    /// Returns the lists with a path over this interface.
    pub fn naming(&self, interface: u32) -> impl Iterator<Item = u32> {
        of_interface(&self.by_interface, interface)
    }

    /// Returns the next list after the position `place` that the change affects, and advances `place`. Some lists are returned more than
    /// once.
    pub fn next_affected(&self, what: &Affected, place: &mut Place) -> Option<u32> {
        loop {
            let (n, indirect) = (place.of / 2, place.of % 2 == 1);
            let found = if let Some(&interface) = what.interfaces.get(n) {
                let of = if indirect { &self.by_end } else { &self.by_interface };
                let after = place
                    .after
                    .map_or(Bound::Included((interface, 0)), |(.., id)| Bound::Excluded((interface, id)));
                let next = of.range((after, Bound::Included((interface, u32::MAX)))).next();
                next.map(|(_, id)| (0, IpAddr::V4(Ipv4Addr::UNSPECIFIED), *id))
            } else {
                let network = what.networks.get(n - what.interfaces.len())?;
                next_in(if indirect { &self.by_hop } else { &self.by_next_hop }, *network, place.after)
            };
            match found {
                Some(hop) => {
                    place.after = Some(hop);
                    return Some(hop.2);
                }
                None => *place = Place { of: place.of + 1, after: None },
            }
        }
    }
}

/// Where a visit of the lists that a change affects has arrived.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The interface or network whose lists are being visited, and the kind of list. Let `n` be the index among the affected interfaces,
    /// followed by the affected networks. This is `2 * n` for lists with a path over the interface or a next hop in the network, and then
    /// `2 * n + 1` for lists that lead to it through recursive paths.
    of: usize,
    /// The key of the list that was returned last. For an interface, only the third part of the key counts: the index of the list's
    /// state.
    after: Option<Hop>,
}

/// Returns the first key of a network after `after`.
fn next_in(of: &BTreeSet<Hop>, network: Network, after: Option<Hop>) -> Option<Hop> {
    let hops = network.hops();
    let from = after.map_or(Bound::Included(*hops.start()), Bound::Excluded);
    of.range((from, Bound::Included(*hops.end()))).next().copied()
}

fn of_interface(of: &BTreeSet<(u32, u32)>, interface: u32) -> impl Iterator<Item = u32> {
    of.range((interface, 0)..=(interface, u32::MAX)).map(|(_, id)| *id)
}
