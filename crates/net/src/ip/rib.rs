//! The routes that were added. Each route is in two lists: of the routes for its prefix, and of the routes
//! with the same paths.

use std::net::{Ipv4Addr, Ipv6Addr};

use infra::lpm::Lpm;

use super::family::Ip;
use super::path::{PathState, Paths};
use super::prefix::Prefix;
use super::slab::{NONE, Slab};
use super::source::Source;
use super::table::{RouteError, no_memory};

/// The route of one source for a prefix.
pub(super) struct Route<A: Ip> {
    pub prefix: Prefix<A>,
    pub fib: u16,
    pub source: Source,
    pub path: u32,
    /// The next source's route for the same prefix. The list is circular.
    pub next: u32,
    /// The route added before this one, among the routes with the same paths; [`NONE`] if there is none.
    pub older: u32,
    /// The route added after this one, among the routes with the same paths; [`NONE`] if there is none.
    newer: u32,
}

// There may be millions of routes. A free slot is marked in the route's source, and takes no memory of its own.
const _: () = assert!(Slab::<Route<Ipv4Addr>>::OF_VALUE == 28);
const _: () = assert!(Slab::<Route<Ipv6Addr>>::OF_VALUE == 64);

/// The routes of an address family, and their path lists.
pub(super) struct Rib<A: Ip> {
    pub routes: Slab<Route<A>>,
    pub paths: Paths,
    /// Number of paths of all routes; a path counts once for each of its routes.
    pub ways: usize,
}

/// Iterates over the routes for one prefix, each route once.
#[derive(Clone)]
pub(super) struct OfPrefix<'r, A: Ip> {
    routes: &'r Slab<Route<A>>,
    first: u32,
    at: u32,
}

impl<A: Ip> Iterator for OfPrefix<'_, A> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.at == NONE {
            return None;
        }
        let at = self.at;
        let next = self.routes[at].next;
        self.at = if next == self.first { NONE } else { next };
        Some(at)
    }
}

impl<A: Ip> Rib<A> {
    pub fn new() -> Rib<A> {
        Rib { routes: Slab::new(), paths: Paths::new(), ways: 0 }
    }

    /// Returns the routes for a prefix, starting with the route `first`; no routes if it is [`NONE`].
    pub fn of_prefix(&self, first: u32) -> OfPrefix<'_, A> {
        OfPrefix { routes: &self.routes, first, at: first }
    }

    /// Returns the best resolved route for a prefix. `any` is any route for the prefix, or [`NONE`].
    pub fn best(&self, any: u32) -> Option<u32> {
        self.best_with(any, |path| path.resolved.is_some())
    }

    /// Returns the best route for a prefix, of those routes whose path list satisfies `like`. `any` is any
    /// route for the prefix, or [`NONE`].
    pub fn best_with(&self, any: u32, like: impl Fn(&PathState) -> bool) -> Option<u32> {
        let with = |at: &u32| like(&self.paths.states[self.routes[*at].path]);
        self.of_prefix(any).filter(with).min_by_key(|at| self.routes[*at].source)
    }

    /// Adds a route. `first` is the best of the routes for the same prefix, or [`NONE`].
    pub fn insert(
        &mut self,
        fib: u16,
        prefix: Prefix<A>,
        source: Source,
        path: u32,
        first: u32,
    ) -> Result<u32, RouteError> {
        let route = Route { prefix, fib, source, path, next: NONE, older: NONE, newer: NONE };
        let at = self.routes.insert(route).ok_or_else(no_memory)?;
        // Insert after the last better one. Without a better one, insert after the last: then the new route
        // is the first.
        let better = self.of_prefix(first).filter(|other| self.routes[*other].source < source).last();
        let before = better.or(self.of_prefix(first).last()).unwrap_or(at);
        self.routes[at].next = if before == at { at } else { self.routes[before].next };
        self.routes[before].next = at;
        self.link(at);
        Ok(at)
    }

    /// Removes a route.
    pub fn remove(&mut self, at: u32) {
        self.unlink(at);
        let before = self.of_prefix(at).last().unwrap_or(at);
        self.routes[before].next = self.routes[at].next;
        self.routes.remove(at);
    }

    /// Moves a route to the path list with the index `path`. Returns the index of the route's previous list.
    pub fn repath(&mut self, at: u32, path: u32) -> u32 {
        self.unlink(at);
        let old = std::mem::replace(&mut self.routes[at].path, path);
        self.link(at);
        old
    }

    fn link(&mut self, at: u32) {
        let path = &mut self.paths.states[self.routes[at].path];
        self.ways += path.list.ways();
        let older = std::mem::replace(&mut path.first, at);
        if older != NONE {
            self.routes[older].newer = at;
        }
        let route = &mut self.routes[at];
        (route.older, route.newer) = (older, NONE);
    }

    fn unlink(&mut self, at: u32) {
        let Route { path, older, newer, .. } = self.routes[at];
        let path = &mut self.paths.states[path];
        self.ways -= path.list.ways();
        if path.next == at {
            path.next = older;
        }
        match newer {
            NONE => path.first = older,
            _ => self.routes[newer].older = older,
        }
        if older != NONE {
            self.routes[older].newer = newer;
        }
    }

    /// Installs a prefix's best route in the lookup table, or removes the prefix from the table if no route
    /// is resolved. `any` is any route for the prefix, or [`NONE`].
    pub fn install(&self, lookup: &mut A::Lookup, prefix: Prefix<A>, any: u32) -> Result<(), RouteError> {
        match self.best(any) {
            Some(best) => {
                let leaf = self.paths.states[self.routes[best].path].object;
                lookup.insert(prefix.bits(), prefix.len(), leaf)?;
            }
            None => {
                lookup.remove(prefix.bits(), prefix.len());
            }
        }
        Ok(())
    }

    /// Like `install`, but logs an error instead of returning it: if the lookup table is full, the prefix is
    /// missing there.
    pub fn install_or_log(&self, lookup: &mut A::Lookup, fib: u16, prefix: Prefix<A>, any: u32) {
        if let Err(e) = self.install(lookup, prefix, any) {
            tracing::error!("cannot install {prefix} in the VRF with FIB index {fib}: {e}");
        }
    }
}
