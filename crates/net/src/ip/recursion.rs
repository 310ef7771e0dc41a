//! Recursive paths: their next hops are on no connected network, and are resolved through the routes.
//!
//! A recursive path follows the longest-prefix route to its next hop, which may be the default route. That route may have a recursive next
//! hop too, so there is a [`Trail`] of up to [`MAX_HOPS`] next hops. A route on the trail may have several paths, so the trail can fork.
//! Each branch of the trail ends at a neighbor, at a link that contains the next hop, at an entry of a feature's table, or at a route that
//! drops packets or answers with an ICMP error; the recursive path is replaced by these ends. A next hop on a connected network of the VRF
//! is resolved on that network and never through other routes, even if the interface is down.
//!
//! Which routes a path follows depends on the interfaces only, not on the current resolution of other
//! recursive paths. So the result does not depend on the order of changes, and routes that form a loop do not
//! flap.
//!
//! Each list of paths is recorded under every next hop of its trail. When the routes of a prefix change, the lists with a next hop in this
//! prefix are resolved again, some at a time ([`Routes::settle`]). Until then, packets use the old result and its adjacencies.

use std::fmt;
use std::net::IpAddr;

use infra::lpm::Address;

use super::balance::{Layout, MAX_WAYS, Way};
use super::family::Ip;
use super::object::Object;
use super::path::{Hop, Network, Path, PathState};
use super::path_list::PathList;
use super::prefix::Prefix;
use super::table::{AT_ONCE, Resolver, Routes, word};

/// Maximum length of a chain of recursive next hops.
pub(super) const MAX_HOPS: usize = 8;
/// Maximum number of next hops visited for one list. A next hop that several branches visit counts each time.
const MAX_STEPS: usize = 16 * MAX_WAYS;
/// Cost of resolving a path list again, if the update of a route costs 1.
pub(super) const COST: usize = 4;

/// The next hops to which the paths of a list with recursive paths lead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// The next hops that were visited, each before the next hops that were found through it. A next hop on a connected network
    /// ends its branch.
    pub hops: Vec<IpAddr>,
    /// The non-recursive paths to which the branches of the trail lead. Each path occurs once.
    pub ends: Vec<Way>,
    /// The reasons why some branches are unresolved.
    pub lost: Vec<Lost>,
}

impl Trail {
    /// Returns the interfaces of the trail's non-recursive paths.
    pub(super) fn interfaces(&self) -> impl Iterator<Item = u32> {
        self.ends.iter().filter_map(|end| end.0.interface())
    }
}

/// The reason why a recursive path is not resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// There is no route to this next hop.
    NoRoute(IpAddr),
    /// The route to a next hop leads to no neighbor, but to the router itself or to another VRF. The values are the address and the
    /// length of the route's prefix.
    NoNeighbor(IpAddr, u8),
    /// The routes lead back to this next hop: a loop.
    Circle(IpAddr),
    /// The recursion is deeper than [`MAX_HOPS`] next hops.
    TooFar,
    /// There are more than [`MAX_WAYS`] paths, or more than [`MAX_STEPS`] next hops to visit.
    TooMany,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::NoRoute(hop) => write!(f, "no route leads to {hop}"),
            Lost::NoNeighbor(to, len) => write!(f, "the route {to}/{len} does not lead to a neighbor"),
            Lost::Circle(hop) => write!(f, "recursive routing loop through {hop}"),
            Lost::TooFar => write!(f, "the recursion is deeper than {MAX_HOPS} next hops"),
            Lost::TooMany => {
                write!(f, "the recursion leads to more than {MAX_WAYS} paths or {MAX_STEPS} next hops")
            }
        }
    }
}

/// A prefix whose routes changed, and how far the path lists that depend on it have been resolved again.
pub(super) struct Following<A: Ip> {
    pub fib: u16,
    pub prefix: Prefix<A>,
    /// The key of the path list that was resolved again last; `None` at the start.
    pub after: Option<Hop>,
}

/// True if the path is recursive: its next hop must be resolved through the routes.
fn is_recursive(fib: u16, path: Path, by: &impl Resolver) -> bool {
    matches!(path, Path::Via { next_hop, interface: None } if !by.is_connected(fib, next_hop))
}

pub(super) fn has_recursive(fib: u16, list: &PathList, by: &impl Resolver) -> bool {
    list.paths().any(|path| is_recursive(fib, path, by))
}

/// The search for a list's trail. It follows recursive paths from next hop to next hop, until it reaches paths that are not
/// recursive.
struct Walk<'r, A: Ip, R> {
    routes: &'r Routes<A>,
    fib: u16,
    by: &'r R,
    /// The recursive next hops that lead to the current path. A next hop that is already among them is a loop.
    behind: Vec<IpAddr>,
    /// Number of next hops that may still be visited.
    steps: usize,
    trail: Trail,
}

impl<A: Ip, R: Resolver> Walk<'_, A, R> {
    /// Follows a path. `weight` is its share of the traffic; [`WHOLE`] is the share of a path with weight 1.
    fn follow(&mut self, path: Path, weight: u64) {
        let Path::Via { next_hop, interface: None } = path else { return self.end(path, weight) };
        if self.behind.contains(&next_hop) {
            return self.lose(Lost::Circle(next_hop));
        }
        let Some(steps) = self.steps.checked_sub(1) else { return self.lose(Lost::TooMany) };
        self.steps = steps;
        if !self.trail.hops.contains(&next_hop) {
            self.trail.hops.push(next_hop);
        }
        if self.by.is_connected(self.fib, next_hop) {
            return self.end(path, weight);
        }
        if self.behind.len() >= MAX_HOPS {
            return self.lose(Lost::TooFar);
        }
        // The state of a list is that of the list's last resolution. When it changes, the lists that depend on it are resolved again. A
        // neighbor of the other family must be on a connected network.
        let found =
            A::of(next_hop).and_then(|a| self.routes.longest(self.fib, a, A::Bits::BITS, PathState::counts));
        let Some((prefix, _, found)) = found else {
            return self.lose(Lost::NoRoute(next_hop));
        };
        let list = &found.list;
        let all: u64 = list.weighted().map(|w| u64::from(w.weight)).sum();
        self.behind.push(next_hop);
        for w in list.weighted() {
            let weight = (weight * u64::from(w.weight) / all).max(1);
            match w.path {
                Path::Local | Path::Table(_) => {
                    self.lose(Lost::NoNeighbor(prefix.address().into(), prefix.len()))
                }
                Path::Attached(i) => self.end(Path::Via { next_hop, interface: Some(i) }, weight),
                further => self.follow(further, weight),
            }
        }
        self.behind.pop();
    }

    fn end(&mut self, path: Path, weight: u64) {
        let ends = &mut self.trail.ends;
        match ends.iter().position(|end| end.0 == path) {
            Some(at) => ends[at].1 += weight,
            None if ends.len() < MAX_WAYS => ends.push((path, weight)),
            None => self.lose(Lost::TooMany),
        }
    }

    fn lose(&mut self, why: Lost) {
        if !self.trail.lost.contains(&why) {
            self.trail.lost.push(why);
        }
    }
}

/// The share of a path with weight 1. The value is large, because it is divided among the paths of each route that the recursion follows.
const WHOLE: u64 = 1 << 40;

/// Returns those of `ways` that can be resolved, and the forwarding object of each.
fn resolve(fib: u16, ways: &[Way], by: &mut impl Resolver) -> (Vec<Way>, Vec<Object>) {
    let mean = |way: &Way| Some((*way, way.0.constant().or_else(|| by.resolve(fib, way.0))?));
    ways.iter().filter_map(mean).unzip()
}

impl<A: Ip> Routes<A> {
    /// Returns the trail of a list, if it has a recursive path.
    pub(super) fn trail(&self, fib: u16, list: &PathList, by: &impl Resolver) -> Option<Trail> {
        if !has_recursive(fib, list, by) {
            return None;
        }
        let (behind, trail) = (Vec::new(), Trail::default());
        let mut walk = Walk { routes: self, fib, by, behind, steps: MAX_STEPS, trail };
        list.weighted().for_each(|w| walk.follow(w.path, WHOLE * u64::from(w.weight)));
        Some(walk.trail)
    }

    /// Returns the paths to which a list leads, with their weights: the ends of its trail or, if it has none, its own paths.
    /// Includes paths that cannot be resolved.
    fn ways(list: &PathList, trail: Option<&Trail>) -> Vec<Way> {
        let direct = || list.weighted().map(|w| (w.path, u64::from(w.weight))).collect();
        trail.map_or_else(direct, |trail| trail.ends.clone())
    }

    /// Returns a layout of `list`, for routes that change to it from a list with the layout `layout`. As few flows as possible move
    /// to other paths. Returns `None` if the list leads to fewer than two paths, or if none of them can be resolved.
    pub(super) fn layout_after(
        &self,
        layout: &Layout,
        fib: u16,
        list: &PathList,
        by: &mut impl Resolver,
    ) -> Option<Layout> {
        let ways = Self::ways(list, self.trail(fib, list, by).as_ref());
        if ways.len() < 2 {
            return None;
        }
        let (ways, objects) = resolve(fib, &ways, by);
        objects.into_iter().for_each(|object| by.release(object));
        (!ways.is_empty()).then(|| layout.changed(&ways))
    }

    /// Resolves a list and records the result. If the list has no layout yet, it gets a layout that differs from `like` in as few
    /// flows as possible. Returns the list's previous object, and the previous object of each path.
    fn mean(
        &mut self,
        id: u32,
        like: Option<&Layout>,
        by: &mut impl Resolver,
    ) -> (Option<Object>, Vec<Object>) {
        let PathState { fib, list, .. } = &self.rib.paths.states[id];
        let (fib, list) = (*fib, list.clone());
        let trail = self.trail(fib, &list, by);
        let ways = Self::ways(&list, trail.as_ref());
        let (now, objects) = resolve(fib, &ways, by);
        self.rib.paths.set_trail(id, trail);
        let state = &mut self.rib.paths.states[id];
        if ways.len() < 2 {
            state.layout = None;
        } else if !now.is_empty() {
            let before = state.layout.as_deref().or(like);
            state.layout = Some(Box::new(before.map_or_else(|| Layout::new(&now), |l| l.changed(&now))));
        }
        let meaning = match (&objects[..], &state.layout) {
            ([], _) => None,
            ([one], _) => Some(*one),
            (several, Some(layout)) => {
                let buckets = layout.buckets(several);
                // An index in use always has a value for workers.
                let put = match state.buckets {
                    Some(at) => self.balances.set(at, buckets).map(|()| at),
                    None => self.balances.insert(buckets),
                };
                match put {
                    Ok(at) => {
                        state.buckets = Some(at);
                        Some(Object::Balance(at))
                    }
                    Err(e) => {
                        tracing::error!(
                            "not enough memory for multipath ({e}): all flows of the affected routes use a single path"
                        );
                        several.first().copied()
                    }
                }
            }
            (several, None) => several.first().copied(),
        };
        let before = std::mem::replace(&mut state.resolved, meaning);
        (before, std::mem::replace(&mut state.ways, objects))
    }

    /// Resolves a new list and writes its object. For `like`, see [`mean`](Self::mean).
    pub(super) fn mean_first(&mut self, id: u32, like: Option<&Layout>, by: &mut impl Resolver) {
        self.mean(id, like, by);
        let state = &self.rib.paths.states[id];
        // The index is in use, so it is within the capacity.
        let _ = self.objects.set(state.object, word(state.resolved));
    }

    /// Schedules the recursive paths with a next hop in a changed prefix to be resolved again.
    pub(super) fn follow(&mut self, fib: u16, prefix: Prefix<A>) {
        if self.rib.paths.next_through(Network::new(fib, prefix), None).is_some() {
            self.following.push_back(Following { fib, prefix, after: None });
        }
    }

    /// Resolves a list again. If the list becomes unresolved and `at_once` is true, its packets are dropped immediately. If
    /// `at_once` is false, its packets keep the old paths until all routes of the list have been withdrawn and no worker can still
    /// use an old lookup result.
    pub(super) fn ask(&mut self, id: u32, at_once: bool, by: &mut impl Resolver) {
        let counted = self.rib.paths.states[id].counts();
        let (before, ways) = self.mean(id, None, by);
        let state = &mut self.rib.paths.states[id];
        let now = state.resolved;
        if now.is_some() != before.is_some() || state.counts() != counted {
            state.next = state.first;
            if !std::mem::replace(&mut state.waits, true) {
                self.waiting.push_back(id);
            }
        }
        if now.is_none() && !at_once {
            if before.is_some() {
                state.held = ways;
                self.holding.insert(id);
            }
            return;
        }
        if now != before || !state.held.is_empty() {
            // The index is in use, so it is within the capacity.
            let _ = self.objects.set(state.object, word(now));
        }
        // Release only now: the old parts had to exist while the object referred to them.
        let held = std::mem::take(&mut state.held);
        self.holding.remove(&id);
        ways.into_iter().chain(held).for_each(|object| by.release(object));
    }

    /// True if lists whose routes have been withdrawn still hold objects, because workers may use them.
    pub fn waits_for_workers(&self) -> bool {
        !self.given_way.is_empty()
    }

    /// Releases the objects of lists whose routes have been withdrawn, once no worker can still reach the objects from an old
    /// lookup result (a leaf). Returns true if there may be more.
    pub(super) fn let_go_passed(&mut self, by: &mut impl Resolver) -> bool {
        for _ in 0..AT_ONCE {
            let Some((_, id)) = self.given_way.pop_front_if(|(mark, _)| self.domain.passed(*mark)) else {
                return false;
            };
            if self.holding.contains(&id) && !self.rib.paths.states[id].waits {
                self.let_go(id, by);
            }
        }
        true
    }

    /// Ends the use of the objects that an unresolved list still holds: writes the list's present state to its forwarding object,
    /// and releases the held objects.
    pub(super) fn let_go(&mut self, id: u32, by: &mut impl Resolver) {
        let state = &mut self.rib.paths.states[id];
        let held = std::mem::take(&mut state.held);
        if !held.is_empty() {
            let _ = self.objects.set(state.object, word(state.resolved));
            self.holding.remove(&id);
            held.into_iter().for_each(|object| by.release(object));
        }
    }
}
