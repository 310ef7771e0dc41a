//! Recursive paths: next hops on no connected network, looked for among the routes.
//!
//! A recursive path leads where the longest route to its next hop leads, whatever its length, the default route included.
//! That route may have a next hop of the same kind, so there is a [`Trail`] of next hops, up to [`MAX_HOPS`] of them one behind
//! the other; and it may have several paths, so that the trail forks. At each end is a neighbour, a link that the next hop is
//! on, or a route that drops or reports: then the path does so, too. A next hop on a network of one of the VRF's interfaces,
//! up or down, is looked for there and nowhere else.
//!
//! Which routes there are to be followed depends on interfaces only, not on what other recursive paths mean now. So what a
//! path means does not depend on what happened before, and circles settle.
//!
//! Each path is noted under every next hop of its trail. When what is said of a prefix changes, the paths with a next hop
//! in it look again, some at a time ([`Routes::settle`]). Until then they lead where they led, and keep what that needs.

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

/// Next hops that are looked for one behind the other, at most.
pub(super) const MAX_HOPS: usize = 8;
/// Next hops that are looked for in all, where the routes to them fork: the same ones may be met with again and again.
const MAX_STEPS: usize = 16 * MAX_WAYS;
/// What it costs to look for a next hop anew, in visits of a route.
pub(super) const COST: usize = 4;

/// How the next hops of a list with recursive paths were looked for among the routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// Next hops as they were met with, the list's own first. The last one may be on a connected network, and was not looked
    /// for then.
    pub hops: Vec<IpAddr>,
    /// Where they lead: paths that are not recursive, each once.
    pub ends: Vec<Way>,
    /// Why some lead nowhere.
    pub lost: Vec<Lost>,
}

impl Trail {
    /// The interfaces that its ends name.
    pub(super) fn interfaces(&self) -> impl Iterator<Item = u32> {
        self.ends.iter().filter_map(|end| end.0.interface())
    }
}

/// Why a recursive path leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// No route leads to this next hop.
    NoRoute(IpAddr),
    /// This route to a next hop leads to the router itself, or into another VRF.
    NoNeighbor(IpAddr, u8),
    /// This next hop would be looked for again.
    Circle(IpAddr),
    /// There are more than [`MAX_HOPS`] next hops one behind the other.
    TooFar,
    /// There are more than [`MAX_WAYS`] ways, or the routes to them fork too often.
    TooMany,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::NoRoute(hop) => write!(f, "no route leads to {hop}"),
            Lost::NoNeighbor(to, len) => write!(f, "the route {to}/{len} leads to no neighbour"),
            Lost::Circle(hop) => write!(f, "the routes lead in a circle, back to {hop}"),
            Lost::TooFar => write!(f, "more than {MAX_HOPS} next hops, one behind the other"),
            Lost::TooMany => write!(f, "more than {MAX_WAYS} ways, or routes that fork too often"),
        }
    }
}

/// A prefix whose routes changed, and how many of the paths that lead through it have looked again.
pub(super) struct Following<A: Ip> {
    pub fib: u16,
    pub prefix: Prefix<A>,
    /// The last one that has.
    pub after: Option<Hop>,
}

/// Whether the next hop of a path is to be looked for among the routes.
fn is_recursive(fib: u16, path: Path, by: &impl Resolver) -> bool {
    matches!(path, Path::Via { next_hop, interface: None } if !by.is_connected(fib, next_hop))
}

pub(super) fn has_recursive(fib: u16, list: &PathList, by: &impl Resolver) -> bool {
    list.paths().any(|path| is_recursive(fib, path, by))
}

/// The way from a recursive path to its ends.
struct Walk<'r, A: Ip, R> {
    routes: &'r Routes<A>,
    fib: u16,
    by: &'r R,
    /// The next hops that led here.
    behind: Vec<IpAddr>,
    /// How many more may be looked for.
    steps: usize,
    trail: Trail,
}

impl<A: Ip, R: Resolver> Walk<'_, A, R> {
    /// Goes on by a path that is to have so much of the whole.
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
        // As of when it was last asked: whoever looked at it then is told when that changes. A neighbour of the other family has to
        // be on a connected network.
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

/// The weight of one of several paths, in parts that it may fork into.
const WHOLE: u64 = 1 << 40;

/// What each of some ways means now, of those that are resolved.
fn resolve(fib: u16, ways: &[Way], by: &mut impl Resolver) -> (Vec<Way>, Vec<Object>) {
    let mean = |way: &Way| Some((*way, way.0.constant().or_else(|| by.resolve(fib, way.0))?));
    ways.iter().filter_map(mean).unzip()
}

impl<A: Ip> Routes<A> {
    /// Looks for the next hops of a list, if some path is recursive.
    pub(super) fn trail(&self, fib: u16, list: &PathList, by: &impl Resolver) -> Option<Trail> {
        if !has_recursive(fib, list, by) {
            return None;
        }
        let (behind, trail) = (Vec::new(), Trail::default());
        let mut walk = Walk { routes: self, fib, by, behind, steps: MAX_STEPS, trail };
        list.weighted().for_each(|w| walk.follow(w.path, WHOLE * u64::from(w.weight)));
        Some(walk.trail)
    }

    /// The ways of a list: where it leads, whether that is resolved or not.
    fn ways(list: &PathList, trail: Option<&Trail>) -> Vec<Way> {
        let direct = || list.weighted().map(|w| (w.path, u64::from(w.weight))).collect();
        trail.map_or_else(direct, |trail| trail.ends.clone())
    }

    /// How the flows of a list would be shared out if its routes had their paths from a list of this layout.
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

    /// Finds out what a list means now, and notes it; flows are shared out as in `like` if they have not been yet. Gives what it
    /// meant before, and what that consisted of.
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
                // Whoever has an index that is in use always finds something there.
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
                        tracing::error!("no room for sharing out flows, which all go one way: {e}");
                        several.first().copied()
                    }
                }
            }
            (several, None) => several.first().copied(),
        };
        let before = std::mem::replace(&mut state.resolved, meaning);
        (before, std::mem::replace(&mut state.ways, objects))
    }

    /// The same for a list that is new: its object says what it means.
    pub(super) fn mean_first(&mut self, id: u32, like: Option<&Layout>, by: &mut impl Resolver) {
        self.mean(id, like, by);
        let state = &self.rib.paths.states[id];
        // The index is in use, so it lies within the capacity.
        let _ = self.objects.set(state.object, word(state.resolved));
    }

    /// What is said of a prefix changed: recursive paths that lead through it are to look again.
    pub(super) fn follow(&mut self, fib: u16, prefix: Prefix<A>) {
        if self.rib.paths.next_through(Network::new(fib, prefix), None).is_some() {
            self.following.push_back(Following { fib, prefix, after: None });
        }
    }

    /// Asks again what a list means. When it ceases to be resolved its packets are dropped `at_once`, or else go where they
    /// went until each of its routes has given way to another, and no worker can have seen otherwise.
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
            // The index is in use, so it lies within the capacity.
            let _ = self.objects.set(state.object, word(now));
        }
        // Only now: what the object said until now had to be there as long as it said so.
        let held = std::mem::take(&mut state.held);
        self.holding.remove(&id);
        ways.into_iter().chain(held).for_each(|object| by.release(object));
    }

    /// Whether paths hold something until workers have passed.
    pub fn waits_for_workers(&self) -> bool {
        !self.given_way.is_empty()
    }

    /// Lets go of what paths held whose routes have given way, when no worker can be between a leaf and its object. Returns whether
    /// there may be more.
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

    /// The object of a path that is not resolved says so from now on.
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
