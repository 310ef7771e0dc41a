//! Recursive paths: next hops on no connected network, looked for among the routes.
//!
//! A recursive path leads where the longest route to its next hop leads, whatever its length, the default route included.
//! That route may have a next hop of the same kind, so there is a [`Trail`] of next hops, up to [`MAX_HOPS`] of them. At its
//! end is a neighbour, a link that the next hop is on, or a route that drops or reports: then the path does so, too. A next
//! hop on a network of one of the VRF's interfaces, up or down, is looked for there and nowhere else.
//!
//! Which routes there are to be followed depends on interfaces only, not on what other recursive paths mean now. So what a
//! path means does not depend on what happened before, and circles settle.
//!
//! Each path is noted under every next hop of its trail. When what is said of a prefix changes, the paths with a next hop
//! in it look again, some at a time ([`Routes::settle`]). Until then they lead where they led, and keep what that needs.

use std::fmt;
use std::net::Ipv4Addr;

use super::object::Object;
use super::path::{Affected, Hop, Path, PathState};
use super::prefix::Prefix4;
use super::table::{Resolver, Routes, word};

/// Next hops that are looked for one behind the other, at most.
pub(super) const MAX_HOPS: usize = 8;
/// What it costs to look for a next hop anew, in visits of a route.
pub(super) const COST: usize = 4;

/// How the next hop of a recursive path was looked for among the routes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trail {
    /// Next hops in order, the path's own first. The last one may be on a connected network, and was not looked for then.
    pub hops: Vec<Ipv4Addr>,
    /// Where they lead: a path that is not recursive, or why there is none.
    pub end: Result<Path, Lost>,
}

impl Trail {
    /// The interface that its end names.
    pub(super) fn interface(&self) -> Option<u32> {
        self.end.ok()?.interface()
    }
}

/// Why a recursive path leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// No route leads to this next hop.
    NoRoute(Ipv4Addr),
    /// This route to a next hop leads to the router itself, or into another VRF.
    NoNeighbor(Prefix4),
    /// This next hop would be looked for again.
    Circle(Ipv4Addr),
    /// There are more than [`MAX_HOPS`] next hops one behind the other.
    TooFar,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::NoRoute(hop) => write!(f, "no route leads to {hop}"),
            Lost::NoNeighbor(prefix) => write!(f, "the route {prefix} leads to no neighbour"),
            Lost::Circle(hop) => write!(f, "the routes lead in a circle, back to {hop}"),
            Lost::TooFar => write!(f, "more than {MAX_HOPS} next hops, one behind the other"),
        }
    }
}

/// A prefix whose routes changed, and how many of the paths that lead through it have looked again.
pub(super) struct Following {
    pub fib: u16,
    pub prefix: Prefix4,
    /// The last one that has.
    pub after: Option<Hop>,
}

/// Whether the next hop of a path is to be looked for among the routes.
fn is_recursive(fib: u16, path: Path, by: &impl Resolver) -> bool {
    matches!(path, Path::Via { next_hop, interface: None } if !by.is_connected(fib, next_hop))
}

/// What a path means now, if this is its trail.
pub(super) fn meaning(fib: u16, path: Path, trail: Option<&Trail>, by: &mut impl Resolver) -> Option<Object> {
    let end = trail.map_or(Ok(path), |t| t.end).ok()?;
    end.constant().or_else(|| by.resolve(fib, end))
}

impl Routes {
    /// Looks for the next hop of a path, if it is recursive.
    pub(super) fn trail(&self, fib: u16, path: Path, by: &impl Resolver) -> Option<Trail> {
        if !is_recursive(fib, path, by) {
            return None;
        }
        let counts = |p: &PathState| p.resolved.is_some() || is_recursive(fib, p.path, by);
        let (mut path, mut hops) = (path, Vec::new());
        let end = loop {
            let Path::Via { next_hop, interface: None } = path else { break Ok(path) };
            if hops.contains(&next_hop) {
                break Err(Lost::Circle(next_hop));
            }
            hops.push(next_hop);
            if by.is_connected(fib, next_hop) {
                break Ok(path);
            }
            if hops.len() > MAX_HOPS {
                break Err(Lost::TooFar);
            }
            path = match self.longest(fib, next_hop, 32, counts) {
                None => break Err(Lost::NoRoute(next_hop)),
                Some((prefix, _, Path::Local | Path::Table(_))) => break Err(Lost::NoNeighbor(prefix)),
                Some((_, _, Path::Attached(i))) => Path::Via { next_hop, interface: Some(i) },
                Some((_, _, further)) => further,
            };
        };
        Some(Trail { hops, end })
    }

    /// What is said of a prefix changed: recursive paths that lead through it are to look again.
    pub(super) fn follow(&mut self, fib: u16, prefix: Prefix4) {
        if self.rib.paths.next_through(fib, prefix, None).is_some() {
            self.following.push_back(Following { fib, prefix, after: None });
        }
    }

    /// Asks again what the paths mean that depend on what changed. Routes of those that became resolved, or ceased to
    /// be, come and go as they are visited ([`settle`](Self::settle)).
    pub fn resolve_again(&mut self, what: &Affected, by: &mut impl Resolver) {
        // What a path still held may be behind an interface that has gone.
        std::mem::take(&mut self.holding).into_iter().for_each(|id| self.let_go(id, by));
        let affected = self.rib.paths.affected(what).into_iter();
        // Recursive ones last: they look at what the others mean now.
        let states = &self.rib.paths.states;
        let (recursive, plain): (Vec<u32>, Vec<u32>) =
            affected.partition(|id| is_recursive(states[*id].fib, states[*id].path, by));
        plain.into_iter().chain(recursive).for_each(|id| self.ask(id, true, by));
    }

    /// Asks again what a path means. When it ceases to be resolved its packets are dropped `at_once`, or else go where they
    /// went until each of its routes has given way to another, and no worker can have seen otherwise.
    pub(super) fn ask(&mut self, id: u32, at_once: bool, by: &mut impl Resolver) {
        let PathState { fib, path, .. } = self.rib.paths.states[id];
        let trail = self.trail(fib, path, by);
        let now = meaning(fib, path, trail.as_ref(), by);
        let counted = self.rib.paths.states[id].counts();
        self.rib.paths.set_trail(id, trail);
        let state = &mut self.rib.paths.states[id];
        let before = std::mem::replace(&mut state.resolved, now);
        if now.is_some() != before.is_some() || state.counts() != counted {
            state.next = state.first;
            if !std::mem::replace(&mut state.waits, true) {
                self.waiting.push_back(id);
            }
        }
        if now.is_none() && !at_once {
            if before.is_some() {
                state.held = before;
                self.holding.insert(id);
            }
            return;
        }
        if now != before || state.held.is_some() {
            // The index is in use, so it lies within the capacity.
            let _ = self.objects.set(state.object, word(now));
        }
        // Only now: what the object said until now had to be there as long as it said so.
        let held = state.held.take();
        self.holding.remove(&id);
        before.into_iter().chain(held).for_each(|object| by.release(object));
    }

    /// Lets go of what paths held whose routes have given way, when no worker can be between a leaf and its object.
    pub(super) fn let_go_passed(&mut self, by: &mut impl Resolver) {
        while self.given_way.front().is_some_and(|(mark, _)| self.domain.passed(*mark)) {
            if let Some((_, id)) = self.given_way.pop_front()
                && self.holding.contains(&id)
                && !self.rib.paths.states[id].waits
            {
                self.let_go(id, by);
            }
        }
    }

    /// The object of a path that is not resolved says so from now on.
    pub(super) fn let_go(&mut self, id: u32, by: &mut impl Resolver) {
        let state = &mut self.rib.paths.states[id];
        if let Some(held) = state.held.take() {
            let _ = self.objects.set(state.object, word(state.resolved));
            self.holding.remove(&id);
            by.release(held);
        }
    }
}
