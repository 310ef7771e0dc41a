//! Paths: where packets go, what that means now, and which routes say so.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::{Bound, RangeInclusive};

use super::balance::Layout;
use super::kind::ForwardingKind;
use super::object::Object;
use super::path_list::PathList;
use super::prefix::IpPrefix;
use super::recursion::Trail;
use super::slab::{NONE, Slab};
use crate::icmp::Cause;

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// To a neighbour; without an interface, to whichever connected network it is on, or else wherever the route to it
    /// leads.
    Via {
        /// The neighbour, or a router behind one.
        next_hop: IpAddr,
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
    /// To a host that means something on the packet's link only, as that link's routes say.
    LinkLocal,
    /// To wherever another VRF says.
    Table(u16),
    /// To the entry at this index of a feature's table.
    Feature(ForwardingKind, u32),
}

impl Path {
    /// What it means if that depends on nothing.
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

    /// The next hop that it names.
    pub(super) fn next_hop(self) -> Option<IpAddr> {
        match self {
            Path::Via { next_hop, .. } => Some(next_hop),
            _ => None,
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

/// The paths of some routes, and what depends on them.
#[derive(Debug)]
pub struct PathState {
    /// Index of their forwarding object, which is the leaf in the lookup tables.
    pub object: u32,
    /// What they mean now; `None` while none is resolved.
    pub resolved: Option<Object>,
    /// How next hops were looked for among the routes, if some path is recursive.
    pub trail: Option<Box<Trail>>,
    /// If there are several ways: how flows are shared out among those that are resolved.
    pub layout: Option<Box<Layout>>,
    /// Index of what workers read of that, once there have been several ways.
    pub(super) buckets: Option<u32>,
    /// What `resolved` consists of: itself, or what each of several ways means, in the layout's order.
    pub(super) ways: Vec<Object>,
    /// The same of what the object still says of paths that ceased to be resolved, until their routes have given way; else
    /// nothing.
    pub(super) held: Vec<Object>,
    /// The VRF of the routes.
    pub(super) fib: u16,
    /// The paths.
    pub list: PathList,
    /// How many follow it without a route.
    pub(super) tracks: u32,
    /// Its routes: the one that was added last, from which the list goes on.
    pub(super) first: u32,
    /// While routes are being installed anew: the next of them.
    pub(super) next: u32,
    /// Whether it is among those whose routes are being installed anew.
    pub(super) waits: bool,
    /// The last change of interfaces that it was asked after.
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

    /// Where flows go that several ways share, of 256 equal parts of them how many, and what that means now.
    pub fn shares(&self) -> impl Iterator<Item = (Path, usize, Object)> {
        let shares = self.layout.iter().flat_map(|layout| layout.shares());
        shares.zip(&self.ways).map(|((path, parts), means)| (path, parts, *means))
    }

    /// How flows are shared out here, for routes that go over to another list that has some of these paths; `None` where all flows
    /// go somewhere else.
    pub(super) fn layout_like(&self, other: &PathList) -> Option<Layout> {
        let one = || match self.list {
            PathList::One(path) => other.paths().any(|p| p == path).then(|| Layout::new(&[(path, 1)])),
            PathList::Several(_) => None,
        };
        self.layout.as_deref().cloned().or_else(one)
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
    /// Networks of either family.
    pub networks: Vec<Network>,
}

/// A network of a VRF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    fib: u16,
    first: IpAddr,
    last: IpAddr,
}

impl Network {
    /// The network of this prefix.
    pub fn new(fib: u16, prefix: impl Into<IpPrefix>) -> Network {
        let prefix = prefix.into();
        Network { fib, first: prefix.address(), last: prefix.last() }
    }

    /// The places of its next hops.
    fn hops(self) -> RangeInclusive<Hop> {
        (self.fib, self.first, 0)..=(self.fib, self.last, u32::MAX)
    }
}

/// All lists of paths, by VRF and by what they depend on.
pub(super) struct Paths {
    pub states: Slab<PathState>,
    by_list: BTreeMap<(u16, PathList), Vec<u32>>,
    /// By next hop, so that those on one network are next to each other.
    by_next_hop: BTreeSet<Hop>,
    by_interface: BTreeSet<(u32, u32)>,
    /// Recursive ones by VRF and each next hop on their trail, and by the interfaces that the trail ends at.
    by_hop: BTreeSet<Hop>,
    by_end: BTreeSet<(u32, u32)>,
    /// Paths of all lists.
    ways: usize,
}

/// What a list takes beside its state, in bytes, and what each of its paths takes: in the list, in the orders by what it depends on, and
/// among the ways that workers read. As the memory of the process grew by 50,000 lists of eight paths, and by 60,000 of one.
const LIST: usize = 256;
const WAY: usize = 460;

/// A place in an order of lists: VRF, a next hop, the list.
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

    /// The states with this list: several where their routes once had other paths, so that their flows are shared out differently.
    pub fn find(&self, fib: u16, list: &PathList) -> &[u32] {
        self.by_list.get(&(fib, list.clone())).map_or(&[], Vec::as_slice)
    }

    /// Memory of all lists, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.states.memory_bytes() + self.by_list.len() * LIST + self.ways * WAY
    }

    /// Adds a state; `None` when there is no memory for it.
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

    /// Notes how next hops were looked for; `None` where no path is recursive.
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

    /// The first recursive one behind `after` with a next hop in this network on its trail.
    pub fn next_through(&self, network: Network, after: Option<Hop>) -> Option<Hop> {
        next_in(&self.by_hop, network, after)
    }

    /// The first of these VRFs with a list of this path alone.
    pub fn vrf_with(&self, path: Path, mut vrfs: impl Iterator<Item = u16>) -> Option<u16> {
        vrfs.find(|fib| !self.find(*fib, &path.into()).is_empty())
    }

    /// A list in a VRF that somebody follows without a route: one that leads to a next hop.
    pub fn tracked_in(&self, fib: u16) -> Option<&PathState> {
        let least = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let of_vrf = self.by_next_hop.range((fib, least, 0)..).take_while(|(of, ..)| *of == fib);
        of_vrf.map(|(.., id)| &self.states[*id]).find(|state| state.tracks > 0)
    }

    /// Those with a path that names an interface.
    pub fn naming(&self, interface: u32) -> impl Iterator<Item = u32> {
        of_interface(&self.by_interface, interface)
    }

    /// The next one that depends on what changed; some of them are met with more than once.
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

/// A place among the lists that depend on what changed.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// Which of the interfaces, and behind them of the networks: twice its number, and one more for the recursive lists that end there.
    of: usize,
    /// The last list of it; of an interface only its number counts.
    after: Option<Hop>,
}

/// The first place behind `after` in a network.
fn next_in(of: &BTreeSet<Hop>, network: Network, after: Option<Hop>) -> Option<Hop> {
    let hops = network.hops();
    let from = after.map_or(Bound::Included(*hops.start()), Bound::Excluded);
    of.range((from, Bound::Included(*hops.end()))).next().copied()
}

fn of_interface(of: &BTreeSet<(u32, u32)>, interface: u32) -> impl Iterator<Item = u32> {
    of.range((interface, 0)..=(interface, u32::MAX)).map(|(_, id)| *id)
}
