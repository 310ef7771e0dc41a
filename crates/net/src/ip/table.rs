//! The control plane of forwarding: routes by prefix and source, path lists shared by routes, and the lookup
//! tables derived from both.
//!
//! A **path** is where packets go, and a route has a list of paths, usually one. The routes of a VRF with the same list share this list and
//! its forwarding object, unless their flows are laid out differently on the paths. A path with a next hop is *resolved* while the next
//! hop's interface is up, and a list is resolved while at least one of its paths is. For each prefix, the router installs the route with
//! the lowest distance among those with a resolved list. If there is none, it withdraws the prefix, so that packets take the route of a
//! shorter prefix.
//!
//! If a route has several paths, its flows are shared among them (`balance.rs`). A path whose next hop is on no connected network is
//! *recursive*: it is resolved through the route to its next hop, and resolved again when that route changes (`recursion.rs`).
//!
//! When an interface changes, only the lists that depend on it are resolved again (`asking.rs`). One write to a list's forwarding object
//! redirects or drops the packets of all its routes. Only if a list becomes resolved or unresolved, its routes are *visited*: installed or
//! withdrawn. Each call of [`Routes::settle`] resolves lists and visits routes, but only a limited number, so that neither packets nor
//! commands wait. Until a route is visited, its packets may be dropped as `unresolved`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::IpAddr;

use infra::class_a::{SlotWriter, WordWriter, Writer};
use infra::lpm::{LpmFull, PrefixMap};
use infra::mem::Room;
use infra::quiesce::{Domain, Mark};

use super::asking::Asking;
use super::balance::Buckets;
use super::family::Ip;
use super::fibs::Fibs;
use super::object::Object;
use super::path::{Network, Path, PathState};
use super::path_list::PathList;
use super::prefix::Prefix;
use super::recursion::{self, Following};
use super::rib::Rib;
use super::slab::NONE;
use super::source::Source;

/// Maximum number of objects that are freed or released in one iteration of the main thread's loop: about a tenth of a millisecond
/// of work.
pub(super) const AT_ONCE: usize = 2048;

/// The reason why a route or a table could not be added or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// There is no VRF with this index.
    NoTable(u16),
    /// The route does not exist.
    NoRoute(String),
    /// The tables are full.
    Full(String),
    /// The machine or its control group has no more memory. The value says how much is free.
    NoMemory(Room),
}

impl std::fmt::Display for RouteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RouteError::NoTable(t) => write!(f, "there is no VRF with FIB index {t}"),
            RouteError::NoRoute(p) => write!(f, "there is no such route for {p}"),
            RouteError::Full(why) => write!(f, "no room for another route: {why}"),
            RouteError::NoMemory(room) => write!(f, "no room for another route: out of memory: {room}"),
        }
    }
}
impl std::error::Error for RouteError {}

pub(super) fn no_memory() -> RouteError {
    RouteError::NoMemory(Room::now())
}

impl From<LpmFull> for RouteError {
    fn from(e: LpmFull) -> Self {
        match e {
            LpmFull::Memory => no_memory(),
            e => RouteError::Full(e.to_string()),
        }
    }
}

/// A resolver that resolves nothing, for paths that need neither interfaces nor routes.
struct NoNeighbors;
impl Resolver for NoNeighbors {
    fn is_connected(&self, _: u16, _: IpAddr) -> bool {
        false
    }
    fn resolve(&mut self, _: u16, _: Path) -> Option<Object> {
        None
    }
    fn release(&mut self, _: Object) {}
}

/// One VRF.
pub(super) struct Vrf<A: Ip> {
    pub(super) lookup: A::Lookup,
    /// The best source's route for each prefix, whether resolved or not.
    pub prefixes: PrefixMap<A::Bits>,
}

/// All VRFs, routes and paths of an address family.
pub struct Routes<A: Ip> {
    pub(super) domain: Domain,
    pub(super) vrfs: BTreeMap<u16, Vrf<A>>,
    pub(super) rib: Rib<A>,
    /// Lists whose routes have to be visited.
    pub(super) waiting: VecDeque<u32>,
    /// Changes of interfaces or networks after which paths are still to be resolved again.
    pub(super) asking: VecDeque<Asking>,
    /// Number of changes of interfaces or networks so far.
    pub(super) changes: u64,
    /// Changed prefixes whose dependent recursive paths are still to be resolved again.
    pub(super) following: VecDeque<Following<A>>,
    /// Unresolved lists whose installed object still uses the old paths.
    pub(super) holding: BTreeSet<u32>,
    /// The lists in `holding` whose routes are withdrawn. A list stays here until no worker can still reach its object from an old
    /// lookup result (a leaf).
    pub(super) given_way: VecDeque<(Mark, u32)>,
    pub(super) objects: WordWriter,
    pub(super) balances: SlotWriter<Buckets>,
    /// Objects of removed path lists, with their buckets. An object stays here until no worker can still reach it from an old
    /// lookup result (a leaf).
    unused: VecDeque<(Mark, u32, Option<u32>)>,
    published: Writer<Fibs<A>>,
}

/// Returns the word of a list's object.
pub(super) fn word(resolved: Option<Object>) -> u64 {
    resolved.unwrap_or(Object::Unresolved).to_word()
}

/// Returns the cost of updating a route: 1, and 1 more for every 64 entries that the update writes to the lookup table.
fn cost<A: Ip>(prefix: Prefix<A>) -> usize {
    1 + A::cost(prefix.len()) / 64
}

/// Resolves paths with a next hop or a link; implemented by the owner of interfaces and adjacencies.
pub trait Resolver {
    /// True if an interface of this VRF, up or down, has a connected network that contains the address.
    fn is_connected(&self, fib: u16, address: IpAddr) -> bool;
    /// Resolves the path; `None` if that is impossible now. If the result is an adjacency, takes a reference to it.
    fn resolve(&mut self, fib: u16, path: Path) -> Option<Object>;
    /// Drops the reference taken by `resolve`.
    fn release(&mut self, object: Object);
}

impl<A: Ip> Routes<A> {
    /// Number of parts into which a VRF's prefixes are divided.
    pub const PARTS: usize = PrefixMap::<A::Bits>::PARTS;

    /// Returns the routes of a new router: only VRF 0, with its special-purpose routes.
    ///
    /// # Errors
    /// If memory for the tables cannot be allocated.
    pub fn new(
        domain: &Domain,
        mut objects: WordWriter,
        balances: SlotWriter<Buckets>,
        published: Writer<Fibs<A>>,
    ) -> io::Result<Routes<A>> {
        // Leaf 0 means "no route", so the object at index 0 stays empty.
        objects.set(0, 0).map_err(io::Error::other)?;
        let mut routes = Routes {
            domain: domain.clone(),
            vrfs: BTreeMap::new(),
            rib: Rib::new(),
            waiting: VecDeque::new(),
            asking: VecDeque::new(),
            changes: 0,
            following: VecDeque::new(),
            holding: BTreeSet::new(),
            given_way: VecDeque::new(),
            objects,
            balances,
            unused: VecDeque::new(),
            published,
        };
        routes.add_table(0)?;
        Ok(routes)
    }

    /// Adds a VRF. An existing VRF stays as it is.
    ///
    /// # Errors
    /// If memory for the VRF's lookup table cannot be allocated; then the VRF is not added.
    pub fn add_table(&mut self, fib: u16) -> io::Result<()> {
        if self.vrfs.contains_key(&fib) {
            return Ok(());
        }
        // VRF 0 carries most of the traffic. There may be many other VRFs with few routes each.
        let (lookup, reader) = A::table(&self.domain, fib == 0)?;
        self.vrfs.insert(fib, Vrf { lookup, prefixes: PrefixMap::new() });
        let prefixes: Vec<(Prefix<A>, Path)> =
            A::SPECIAL.iter().map(|(address, len, path)| (Prefix::new(*address, *len), *path)).collect();
        for (n, (prefix, path)) in prefixes.iter().copied().enumerate() {
            if let Err(e) = self.add(fib, prefix, Source::SPECIAL, path.into(), &mut NoNeighbors) {
                for (prefix, _) in &prefixes[..n] {
                    let _ = self.remove(fib, *prefix, Source::SPECIAL, &mut NoNeighbors);
                }
                self.vrfs.remove(&fib);
                return Err(match e {
                    RouteError::NoMemory(_) => io::Error::new(io::ErrorKind::OutOfMemory, e),
                    e => io::Error::other(e),
                });
            }
        }
        self.publish(fib, Some(reader));
        Ok(())
    }

    /// Removes a VRF that [can be removed](Self::may_go). Its lookup table is freed when no worker can read it any
    /// more.
    ///
    /// # Errors
    /// If the VRF does not exist.
    pub fn remove_table(&mut self, fib: u16) -> Result<(), RouteError> {
        let vrf = self.vrfs.remove(&fib).ok_or(RouteError::NoTable(fib))?;
        self.publish(fib, None);
        for (_, _, first) in vrf.prefixes.iter() {
            for at in self.rib.of_prefix(first).collect::<Vec<_>>() {
                let path = self.rib.routes[at].path;
                self.rib.remove(at);
                self.leave_list(path, &mut NoNeighbors);
            }
        }
        Ok(())
    }

    /// Checks that a VRF can be removed. `name` converts the index of a VRF to the table number that the operator knows.
    ///
    /// # Errors
    /// If the VRF has tracks or routes (other than those for special-purpose addresses), is the target of another VRF's route, or is VRF 0.
    /// Returns the reason.
    pub fn may_go(&self, fib: u16, name: impl Fn(u16) -> u32) -> Result<(), String> {
        if fib == 0 {
            return Err("it is the default table".into());
        }
        let asked = self.iter(fib).find(|(_, sources)| sources.clone().any(|s| s.0 != Source::SPECIAL));
        if let Some((prefix, _)) = asked {
            return Err(format!("it contains the route {prefix}"));
        }
        if let Some(to) = self.tracked_in(fib) {
            return Err(format!("a feature uses its route to {}", to.address()));
        }
        match self.rib.paths.vrf_with(Path::Table(fib), self.tables()) {
            Some(other) => Err(format!("a route of table {} uses it", name(other))),
            None => Ok(()),
        }
    }

    fn publish(&mut self, fib: u16, reader: Option<A::Reader>) {
        let mut fibs = self.published.get().clone();
        let at = usize::from(fib);
        if fibs.0.len() <= at {
            fibs.0.resize(at + 1, None);
        }
        fibs.0[at] = reader;
        while fibs.0.last().is_some_and(Option::is_none) {
            fibs.0.pop();
        }
        self.published.set(fibs);
    }

    /// Returns the indexes of the VRFs.
    pub fn tables(&self) -> impl Iterator<Item = u16> {
        self.vrfs.keys().copied()
    }

    /// Adds a route, or changes the paths of this source's route for the prefix. Flows on paths that the route keeps are not moved.
    /// [`settle`](Self::settle) resolves recursive paths with a next hop in the prefix again.
    ///
    /// # Errors
    /// If the VRF does not exist, a table is full, or memory is exhausted. Nothing has changed then.
    pub fn add(
        &mut self,
        fib: u16,
        prefix: Prefix<A>,
        source: Source,
        list: PathList,
        by: &mut impl Resolver,
    ) -> Result<(), RouteError> {
        let Some(vrf) = self.vrfs.get(&fib) else { return Err(RouteError::NoTable(fib)) };
        let first = vrf.prefixes.get(prefix.bits(), prefix.len()).unwrap_or(NONE);
        let Some(at) = self.rib.of_prefix(first).find(|at| self.rib.routes[*at].source == source) else {
            let id = self.use_list(fib, &list, None, by)?;
            return self.add_route(fib, prefix, source, id, first).inspect_err(|_| self.leave_list(id, by));
        };
        let old = self.rib.routes[at].path;
        let id = self.use_list(fib, &list, Some(old), by)?;
        self.rib.repath(at, id);
        let Some(vrf) = self.vrfs.get_mut(&fib) else { return Err(RouteError::NoTable(fib)) };
        let result = self.rib.install(&mut vrf.lookup, prefix, first);
        // If the lookup table refuses, it has not changed.
        let left = if result.is_err() { self.rib.repath(at, old) } else { old };
        self.leave_list(left, by);
        self.follow(fib, prefix);
        result
    }

    /// Adds a route. `first` is the best of the other routes for the prefix, or [`NONE`].
    fn add_route(
        &mut self,
        fib: u16,
        prefix: Prefix<A>,
        source: Source,
        path: u32,
        first: u32,
    ) -> Result<(), RouteError> {
        let Some(vrf) = self.vrfs.get_mut(&fib) else { return Err(RouteError::NoTable(fib)) };
        let rib = &mut self.rib;
        vrf.prefixes.make_room(prefix.bits(), prefix.len())?;
        let at = rib.insert(fib, prefix, source, path, first)?;
        let best = if first == NONE || source < rib.routes[first].source { at } else { first };
        if let Err(e) = rib.install(&mut vrf.lookup, prefix, best) {
            rib.remove(at);
            return Err(e);
        }
        vrf.prefixes.insert(prefix.bits(), prefix.len(), best);
        self.follow(fib, prefix);
        Ok(())
    }

    /// Removes the route of `source` for a prefix, and returns its paths.
    ///
    /// # Errors
    /// If there is no such route.
    pub fn remove(
        &mut self,
        fib: u16,
        prefix: Prefix<A>,
        source: Source,
        by: &mut impl Resolver,
    ) -> Result<PathList, RouteError> {
        let vrf = self.vrfs.get_mut(&fib).ok_or(RouteError::NoTable(fib))?;
        let rib = &mut self.rib;
        let first = vrf.prefixes.get(prefix.bits(), prefix.len()).unwrap_or(NONE);
        let found = rib.of_prefix(first).find(|at| rib.routes[*at].source == source);
        let at = found.ok_or(RouteError::NoRoute(prefix.to_string()))?;
        let (path, next) = (rib.routes[at].path, rib.routes[at].next);
        rib.remove(at);
        let first = match next {
            next if next == at => NONE,
            next if first == at => next,
            _ => first,
        };
        match first {
            NONE => vrf.prefixes.remove(prefix.bits(), prefix.len()),
            first => vrf.prefixes.insert(prefix.bits(), prefix.len(), first),
        };
        rib.install_or_log(&mut vrf.lookup, fib, prefix, first);
        let taken = rib.paths.states[path].list.clone();
        self.leave_list(path, by);
        self.follow(fib, prefix);
        Ok(taken)
    }

    /// Removes all paths over an interface from the routes of every source, because the interface's index may soon be reused. A
    /// route that has no other paths is removed.
    pub fn forget_interface(&mut self, interface: u32, by: &mut impl Resolver) {
        loop {
            let Some(id) = self.rib.paths.naming(interface).next() else { return };
            let state = &self.rib.paths.states[id];
            let route = &self.rib.routes[state.first];
            let (fib, prefix, source) = (route.fib, route.prefix, route.source);
            let done = match state.list.without(interface) {
                Some(left) => self.add(fib, prefix, source, left, by),
                None => self.remove(fib, prefix, source, by).map(|_| ()),
            };
            if let Err(e) = done {
                tracing::error!(
                    "cannot update {prefix} in the VRF with FIB index {fib} after its interface was removed: {e}"
                );
                return;
            }
        }
    }

    /// Returns the index of a list with these paths; adds the list if it does not exist. For a route that had the list `before`,
    /// flows stay on those paths that are in both lists.
    pub(super) fn use_list(
        &mut self,
        fib: u16,
        list: &PathList,
        before: Option<u32>,
        by: &mut impl Resolver,
    ) -> Result<u32, RouteError> {
        if let Some(id) = before.filter(|id| self.rib.paths.states[*id].list == *list) {
            return Ok(id);
        }
        let like = before.and_then(|id| self.rib.paths.states[id].layout_like(list));
        let wanted = like.as_ref().and_then(|like| self.layout_after(like, fib, list, by));
        let layout = |id: &u32| self.rib.paths.states[*id].layout.as_deref();
        let fits = |id: &&u32| wanted.as_ref().is_none_or(|wanted| layout(id) == Some(wanted));
        if let Some(id) = self.rib.paths.find(fib, list).iter().find(fits) {
            return Ok(*id);
        }
        let object = self.objects.insert(word(None)).map_err(|e| RouteError::Full(e.to_string()))?;
        match self.rib.paths.insert(PathState::new(fib, list.clone(), object)) {
            Some(id) => {
                self.mean_first(id, like.as_ref(), by);
                Ok(id)
            }
            None => {
                self.objects.remove(object);
                Err(no_memory())
            }
        }
    }

    /// Removes a list if no route and no track uses it.
    pub(super) fn leave_list(&mut self, id: u32, by: &mut impl Resolver) {
        let state = &self.rib.paths.states[id];
        if state.first != NONE || state.tracks > 0 {
            return;
        }
        // If the list is still queued for visits, `settle` skips it.
        let Some(state) = self.rib.paths.remove(id) else { return };
        self.unused.push_back((self.domain.mark(), state.object, state.buckets));
        self.holding.remove(&id);
        state.ways.into_iter().chain(state.held).for_each(|object| by.release(object));
    }

    /// Frees objects, with their buckets, that no worker can read any more. One call frees a limited number. Returns true if there
    /// may be more. The main thread's loop calls it in each iteration.
    pub fn collect(&mut self, by: &mut impl Resolver) -> bool {
        let more = self.let_go_passed(by);
        for _ in 0..AT_ONCE {
            let Some((_, object, buckets)) = self.unused.pop_front_if(|(mark, ..)| self.domain.passed(*mark))
            else {
                return more;
            };
            self.objects.remove(object);
            buckets.map(|at| self.balances.remove(at));
        }
        true
    }

    /// Does the work that earlier changes left behind. It resolves paths again: first those that depend on changed interfaces or
    /// networks, then recursive paths that depend on changed routes. Then it updates the routes of lists that became resolved or
    /// unresolved. `visits` limits the work, in units of one route update. Returns true if work is left.
    pub fn settle(&mut self, mut visits: usize, by: &mut impl Resolver) -> bool {
        loop {
            if !self.asking.is_empty() {
                if visits == 0 {
                    return true;
                }
                visits = visits.saturating_sub(self.ask_next(by).unwrap_or(0));
                continue;
            }
            if let Some(following) = self.following.front() {
                let Some(hop) = self
                    .rib
                    .paths
                    .next_through(Network::new(following.fib, following.prefix), following.after)
                else {
                    self.following.pop_front();
                    continue;
                };
                if visits == 0 {
                    return true;
                }
                self.following[0].after = Some(hop);
                self.ask(hop.2, false, by);
                visits = visits.saturating_sub(recursion::COST);
                continue;
            }
            let Some(&id) = self.waiting.front() else {
                return self.let_go_passed(by);
            };
            // The list may have been removed, and its index reused by another list, which waits at another position of the queue or does
            // not wait.
            let Some(path) = self.rib.paths.states.get_mut(id).filter(|path| path.waits) else {
                self.waiting.pop_front();
                continue;
            };
            if path.next == NONE {
                path.waits = false;
                self.waiting.pop_front();
                if !path.held.is_empty() {
                    self.given_way.push_back((self.domain.mark(), id));
                }
                continue;
            }
            if visits == 0 {
                return true;
            }
            let at = path.next;
            let route = &self.rib.routes[at];
            path.next = route.older;
            let (fib, prefix) = (route.fib, route.prefix);
            visits = visits.saturating_sub(cost(prefix));
            if let Some(vrf) = self.vrfs.get_mut(&fib) {
                self.rib.install_or_log(&mut vrf.lookup, fib, prefix, at);
            }
            self.follow(fib, prefix);
        }
    }

    /// True if there is work for [`settle`](Self::settle): paths to resolve again, or routes to update.
    pub fn unsettled(&self) -> bool {
        self.is_busy() || !self.following.is_empty()
    }

    /// True if paths are still to be resolved again after changes of interfaces or networks, or if routes are still to be updated.
    pub fn is_busy(&self) -> bool {
        self.asks() || !self.waiting.is_empty()
    }

    /// True if recursive paths are still to be resolved again after route changes.
    pub fn follows(&self) -> bool {
        !self.following.is_empty()
    }

    /// Returns the state of the list with these paths. If it has several states, returns one of them.
    #[cfg(test)]
    pub(crate) fn path(&self, fib: u16, list: impl Into<PathList>) -> Option<&PathState> {
        Some(&self.rib.paths.states[*self.rib.paths.find(fib, &list.into()).first()?])
    }

    /// Number of forwarding objects, including unused ones that workers may still read.
    #[cfg(test)]
    pub(crate) fn objects_in_use(&self) -> usize {
        self.objects.len()
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
