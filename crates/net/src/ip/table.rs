//! The control side of forwarding: routes by prefix and source, paths shared by routes, and the lookup tables that
//! follow from both.
//!
//! A **path** says where packets go, and a route has a list of them, most often of one. All routes with the same list share it,
//! and with it one forwarding object. A path over a next hop is *resolved* while the next hop's interface is up, and a list while
//! one of its paths is. Of a prefix's sources the best one whose list is resolved is installed; when none is, the prefix is
//! withdrawn, so that a shorter one takes over.
//!
//! Several paths share the flows of a route (`balance.rs`). A path whose next hop is on no connected network is *recursive*: it
//! means what the route to its next hop means, and follows that (`recursion.rs`).
//!
//! When an interface changes, only the lists that depend on it are asked again (`asking.rs`). That is one store a list: whatever the
//! number of routes, packets no longer go where they cannot, or go elsewhere with the next. Only when a list becomes
//! resolved or ceases to be, its routes come and go: they are *visited*. Both are done some at a time ([`Routes::settle`]), so that
//! neither packets nor commands wait. Until its route was visited, a packet may be dropped as `unresolved`.

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
use super::lookup::Fibs;
use super::object::Object;
use super::path::{Network, Path, PathState};
use super::path_list::PathList;
use super::prefix::Prefix;
use super::recursion::{self, Following};
use super::rib::Rib;
use super::slab::NONE;
use super::source::Source;

/// Objects that are given back, or let go of, in one turn: about a tenth of a millisecond's worth.
pub(super) const AT_ONCE: usize = 2048;

/// Why a route could not be added or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// There is no such VRF.
    NoTable(u16),
    /// There is no such route.
    NoRoute(String),
    /// The VRF cannot go, and why.
    InUse(u16, String),
    /// The tables have no more room.
    Full(String),
    /// The machine or a control group has no more memory, and how much is free.
    NoMemory(Room),
}

impl std::fmt::Display for RouteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RouteError::NoTable(t) => write!(f, "there is no table {t}"),
            RouteError::NoRoute(p) => write!(f, "there is no such route for {p}"),
            RouteError::InUse(t, why) => write!(f, "table {t} cannot be removed: {why}"),
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

/// Resolves nothing: for paths that depend on nothing.
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
    /// For each prefix the route of its best source.
    pub prefixes: PrefixMap<A::Bits>,
}

/// All VRFs and paths of a family.
pub struct Routes<A: Ip> {
    pub(super) domain: Domain,
    pub(super) vrfs: BTreeMap<u16, Vrf<A>>,
    pub(super) rib: Rib<A>,
    /// Lists whose routes are to be visited.
    pub(super) waiting: VecDeque<u32>,
    /// Changes of interfaces whose paths are to be asked again, and how many there were.
    pub(super) asking: VecDeque<Asking>,
    pub(super) changes: u64,
    /// Prefixes whose routes changed, and that recursive paths lead through.
    pub(super) following: VecDeque<Following<A>>,
    /// Lists that are no longer resolved and whose object does not say so yet.
    pub(super) holding: BTreeSet<u32>,
    /// Those of them whose routes have given way, until no worker can be between a leaf and its object.
    pub(super) given_way: VecDeque<(Mark, u32)>,
    pub(super) objects: WordWriter,
    pub(super) balances: SlotWriter<Buckets>,
    /// Objects and buckets that no route uses any more, until no worker can be between a leaf and its object.
    unused: VecDeque<(Mark, u32, Option<u32>)>,
    published: Writer<Fibs<A>>,
}

/// The word of a list's object.
pub(super) fn word(resolved: Option<Object>) -> u64 {
    resolved.unwrap_or(Object::Unresolved).to_word()
}

/// What a visit of a route costs: one, and one more for each 64 entries of the lookup table that it covers.
fn cost<A: Ip>(prefix: Prefix<A>) -> usize {
    1 + A::cost(prefix.len()) / 64
}

/// Whoever owns interfaces and adjacencies: knows what a path over a next hop or a link means.
pub trait Resolver {
    /// Whether an interface of this VRF, up or down, has a network that the address is on.
    fn is_connected(&self, fib: u16, address: IpAddr) -> bool;
    /// What the path means now; `None` while it is unresolved. An adjacency in the answer has one user more.
    fn resolve(&mut self, fib: u16, path: Path) -> Option<Object>;
    /// One user less for what `resolve` gave.
    fn release(&mut self, object: Object);
}

impl<A: Ip> Routes<A> {
    /// How many parts a VRF's prefixes are in.
    pub const PARTS: usize = PrefixMap::<A::Bits>::PARTS;

    /// No routes, and the VRF 0.
    ///
    /// # Errors
    /// When memory for the tables is not to be had.
    pub fn new(
        domain: &Domain,
        mut objects: WordWriter,
        balances: SlotWriter<Buckets>,
        published: Writer<Fibs<A>>,
    ) -> io::Result<Routes<A>> {
        // Leaf 0 means "no route", so index 0 stays what its word says: nothing.
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

    /// Adds a VRF; one that exists stays as it is.
    ///
    /// # Errors
    /// When memory for its lookup table is not to be had; there is no such VRF then.
    pub fn add_table(&mut self, fib: u16) -> io::Result<()> {
        if self.vrfs.contains_key(&fib) {
            return Ok(());
        }
        // Most packets go by VRF 0. Of others there may be many, with few routes each.
        let refused = |e: io::Error| {
            io::Error::new(e.kind(), format!("no memory for the lookup table of table {fib}: {e}"))
        };
        let (lookup, reader) = A::table(&self.domain, fib == 0).map_err(refused)?;
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

    /// Removes a VRF that nothing uses. Its lookup table takes memory until no worker can look into it any more.
    ///
    /// # Errors
    /// When there is no such VRF, somebody's route is in it, a route of another one leads to it, or it is VRF 0, which
    /// is always there.
    pub fn remove_table(&mut self, fib: u16) -> Result<(), RouteError> {
        self.may_go(fib)?;
        self.publish(fib, None);
        let Some(vrf) = self.vrfs.remove(&fib) else { return Ok(()) };
        for (_, _, first) in vrf.prefixes.iter() {
            for at in self.rib.of_prefix(first).collect::<Vec<_>>() {
                let path = self.rib.routes[at].path;
                self.rib.remove(at);
                self.leave_list(path, &mut NoNeighbors);
            }
        }
        Ok(())
    }

    /// Whether a VRF can be removed.
    ///
    /// # Errors
    /// As [`remove_table`](Self::remove_table).
    pub fn may_go(&self, fib: u16) -> Result<(), RouteError> {
        if !self.vrfs.contains_key(&fib) {
            return Err(RouteError::NoTable(fib));
        }
        let in_use = |why: String| Err(RouteError::InUse(fib, why));
        if fib == 0 {
            return in_use("it is always there".into());
        }
        let asked = self.iter(fib).find(|(_, sources)| sources.clone().any(|s| s.0 != Source::SPECIAL));
        if let Some(prefix) = asked.map(|(prefix, _)| prefix) {
            return in_use(format!("the route {prefix} is in it"));
        }
        if let Some(to) = self.tracked_in(fib) {
            return in_use(format!("a feature follows its route to {}", to.address()));
        }
        if let Some(other) = self.rib.paths.vrf_with(Path::Table(fib), self.tables()) {
            return in_use(format!("a route of table {other} leads to it"));
        }
        Ok(())
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

    /// The VRFs.
    pub fn tables(&self) -> impl Iterator<Item = u16> {
        self.vrfs.keys().copied()
    }

    /// Adds a route, or changes the paths that this source has for the prefix: flows whose path stays stay on it.
    ///
    /// # Errors
    /// When there is no such VRF, or no more room; nothing has changed then.
    ///
    /// Recursive paths that lead through the prefix follow in [`settle`](Self::settle).
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
        // A lookup table that refuses has not changed.
        let left = if result.is_err() { self.rib.repath(at, old) } else { old };
        self.leave_list(left, by);
        self.follow(fib, prefix);
        result
    }

    /// Adds a route beside those for the same prefix, of which `first` is the best.
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

    /// Removes what `source` says of a prefix.
    ///
    /// # Errors
    /// When it says nothing.
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

    /// Removes every path that names this interface, whoever it is from: its index may soon be another one's. A route without
    /// paths goes, too.
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
                tracing::error!("{prefix} in table {fib}: {e}");
                return;
            }
        }
    }

    /// The list's index; it is made if it is not there. Flows of a route that had the list `before` stay on the paths that stay.
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

    /// Takes a list away that no route has any more, and nobody follows.
    pub(super) fn leave_list(&mut self, id: u32, by: &mut impl Resolver) {
        let state = &self.rib.paths.states[id];
        if state.first != NONE || state.tracks > 0 {
            return;
        }
        // If it waits, its turn passes it over.
        let Some(state) = self.rib.paths.remove(id) else { return };
        self.unused.push_back((self.domain.mark(), state.object, state.buckets));
        self.holding.remove(&id);
        state.ways.into_iter().chain(state.held).for_each(|object| by.release(object));
    }

    /// Gives objects back that no worker can look at any more, and what they said: some of them, if there are very many. Returns
    /// whether there may be more. Called once a turn.
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

    /// Asks paths that depend on interfaces which changed, lets recursive paths follow the routes that they lead through, and visits
    /// routes whose path became resolved or ceased to be, in this order: so many visits, or fewer of those that take longer. Returns
    /// whether more wait.
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
            // It may have gone, and its index may be that of a list that waits elsewhere or not at all.
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

    /// Whether paths are to be asked again, routes wait to be visited, or recursive paths to follow.
    pub fn unsettled(&self) -> bool {
        self.is_busy() || !self.following.is_empty()
    }

    /// Whether paths or routes wait for the changes of interfaces before.
    pub fn is_busy(&self) -> bool {
        self.asks() || !self.waiting.is_empty()
    }

    /// Whether recursive paths wait to follow.
    pub fn follows(&self) -> bool {
        !self.following.is_empty()
    }

    /// A state of a list.
    #[cfg(test)]
    pub(crate) fn path(&self, fib: u16, list: impl Into<PathList>) -> Option<&PathState> {
        Some(&self.rib.paths.states[*self.rib.paths.find(fib, &list.into()).first()?])
    }

    /// How many forwarding objects there are, those included that wait for workers to pass.
    #[cfg(test)]
    pub(crate) fn objects_in_use(&self) -> usize {
        self.objects.len()
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
