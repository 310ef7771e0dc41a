//! The memory budget of routes. When it is used up, new routes are refused; existing routes stay.
//!
//! Counting the memory in use is expensive. So each count determines how many additions should still fit, and admits them without another
//! count; most additions cost one comparison. Tables grow in pieces, and the last piece may exceed the budget. Each count also checks the
//! free memory of the machine and its control groups: the kernel overcommits memory, and kills the router when none is left.
//!
//! Tables keep the memory of removed routes for new ones. So when the budget is used up, it still admits as many routes as were removed
//! since memory last grew by [`MUCH`]. If memory then grows by that much again, the new routes need more memory than the removed ones did,
//! and no more are admitted.

use infra::lpm::Address as _;
use infra::mem::{Room, Watch};

use super::side::Side;
use super::{Routed, Router, RouterError};

/// The default limit is the memory that is free when the router is created, divided by this number.
const SHARE: u64 = 2;
/// Maximum memory of one route, in bytes. It is large because the first host route in a /24 needs 256 entries of its own in the
/// lookup table, and because the maps of prefixes double in size when they are full.
const ROUTE: u64 = 4096;
/// Bytes that the configuration needs per route, besides one byte per address bit: for the object, its key, and its share of the tree's
/// nodes. Measured as the growth of the process with 300,000 routes of each family.
const CONFIGURED: u64 = 112;
/// Bytes that the configuration needs per path of a route.
const CONFIGURED_WAY: u64 = 88;
/// Number of paths, beyond the first one of a route, that fit into [`ROUTE`] bytes.
const WAYS: u64 = 8;
/// Maximum number of additions between two counts of the memory.
const INTERVAL: u64 = 4096;
/// Maximum number of additions between two counts of the memory, while new routes are expected to fit into the memory that removed
/// routes left. If they do not fit, memory grows by at most 1 MiB until the next count.
const REUSED: u64 = 256;
/// Growth in bytes that is tolerated for routes that should fit into memory already allocated.
const MUCH: u64 = REUSED * ROUTE;

/// The memory budget of routes.
pub(super) struct Budget {
    limit: u64,
    /// Bytes in use at the last count.
    used: u64,
    /// Number of routes that fit into the memory already allocated: the highest number of routes since memory last grew by [`MUCH`].
    held: u64,
    /// Bytes in use when memory last grew by [`MUCH`].
    grown: u64,
    /// Number of additions left until the next count.
    left: u64,
    /// Number of routes refused because of the limit.
    refused: u64,
    /// Number of routes and tables refused for lack of free memory.
    no_memory: u64,
    /// Watches the free memory.
    watch: Watch,
}

impl Default for Budget {
    fn default() -> Self {
        let limit = Room::now().spare().map_or(u64::MAX, |bytes| bytes / SHARE);
        Budget {
            limit,
            used: 0,
            held: 0,
            grown: 0,
            left: 0,
            refused: 0,
            no_memory: 0,
            watch: Watch::default(),
        }
    }
}

impl Budget {
    /// Admits one more route with `ways` paths; false if the limit or the free memory does not allow it. `count` returns the memory
    /// of all routes in bytes, and their number. `room` returns the free memory.
    fn admit(
        &mut self,
        ways: usize,
        count: impl FnOnce() -> (u64, u64),
        room: impl FnOnce() -> Room,
    ) -> bool {
        if self.left == 0 {
            let (used, routes) = count();
            if used > self.grown + MUCH {
                (self.grown, self.held) = (used, routes);
            }
            (self.used, self.held) = (used, self.held.max(routes));
            let more = match self.limit.saturating_sub(used) / ROUTE {
                0 => {
                    // The limit is now the reason to refuse.
                    self.watch.forget();
                    0
                }
                within => within.min(self.watch.free(ROUTE, room) / ROUTE),
            };
            let again = self.held.saturating_sub(routes).min(REUSED);
            self.left = more.max(again).min(INTERVAL);
        }
        let admitted = self.left > 0;
        self.left = self.left.saturating_sub(1 + (ways as u64).saturating_sub(1).div_ceil(WAYS));
        admitted
    }

    /// Counts a route that was not admitted.
    fn count_refused(&mut self) {
        match self.watch.tight() {
            Some(_) => self.no_memory += 1,
            None => self.refused += 1,
        }
    }

    /// Counts a route or table that failed for lack of memory after it was admitted.
    pub fn count_no_memory(&mut self) {
        self.no_memory += 1;
    }
}

/// Returns the memory of a family's routes in bytes, including their configuration, and the number of routes. The routes of several sources
/// for one prefix count as one.
fn usage_of<A: Routed>(side: &Side<A>) -> (u64, u64) {
    let routes = &side.routes;
    let (count, ways) = (routes.count_total() as u64, routes.ways_total() as u64);
    (
        routes.memory_total() as u64
            + count * (CONFIGURED + u64::from(A::Bits::BITS))
            + ways * CONFIGURED_WAY,
        count,
    )
}

/// Returns the sums of both families' bytes and numbers of routes.
fn usage(of: [(u64, u64); 2]) -> (u64, u64) {
    (of[0].0 + of[1].0, of[0].1 + of[1].1)
}

impl Router {
    /// Admits a route with `ways` paths. A route that exists already is always admitted, because only its paths are replaced; `exists`
    /// returns true for such a route. `exists` takes as long as adding a route, so it is called only if the last count of memory admits no
    /// further additions.
    ///
    /// # Errors
    /// If the route is new, and the budget is used up or free memory is low.
    pub(super) fn admit_route(
        &mut self,
        ways: usize,
        exists: impl FnOnce(&Router) -> bool,
    ) -> Result<(), RouterError> {
        if self.budget.left == 0 && exists(self) {
            return Ok(());
        }
        let Router { ip4, ip6, budget, .. } = self;
        let count = || usage([usage_of(ip4), usage_of(ip6)]);
        if budget.admit(ways, count, Room::now) {
            return Ok(());
        }
        budget.count_refused();
        if let Some(room) = budget.watch.tight() {
            return Err(RouterError::new(format!("no room for another route: out of memory: {room}")));
        }
        let mib = |bytes: u64| bytes >> 20;
        Err(RouterError::new(format!(
            "no room for another route: the routes take {} MiB of {} MiB allowed: remove routes, or raise the limit (routes {{ memory SIZE }} in startup.conf)",
            mib(budget.used),
            mib(budget.limit)
        )))
    }

    /// Sets the limit of memory for routes, in bytes. Existing routes stay.
    pub fn set_route_memory(&mut self, limit: u64) {
        self.budget.limit = limit;
        self.budget.left = 0;
    }

    /// Returns the memory use of routes and its limit.
    pub fn route_memory(&self) -> RouteMemory {
        let (used, _) = usage([usage_of(&self.ip4), usage_of(&self.ip6)]);
        RouteMemory {
            limit: self.budget.limit,
            used,
            refused: self.budget.refused,
            no_memory: self.budget.no_memory,
        }
    }
}

/// The memory use of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteMemory {
    /// The limit, in bytes.
    pub limit: u64,
    /// Bytes in use: lookup tables, routes, and an estimate of their configuration.
    pub used: u64,
    /// Number of routes refused since the start because of the limit.
    pub refused: u64,
    /// Number of routes and tables refused since the start because the machine or its control group had no free memory.
    pub no_memory: u64,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn room(bytes: u64) -> Room {
        Room { bytes, promised: 0, bound: "memory.max of /".into(), huge: None }
    }

    fn plenty() -> Room {
        room(u64::MAX)
    }

    #[test]
    fn the_limit_is_kept_with_few_checks() {
        let (mut budget, mut used, mut counted) = (Budget { limit: 100 << 20, ..Budget::default() }, 0, 0);
        let mut routes = 0;
        while budget.admit(
            1,
            || {
                counted += 1;
                (used, routes)
            },
            plenty,
        ) {
            (used, routes) = (used + ROUTE / 8, routes + 1);
        }
        assert!((99 << 20..=100 << 20).contains(&used), "{used}");
        assert!(counted < 200, "{counted}");
        used -= 1 << 20;
        assert!(budget.admit(1, || (used, routes), plenty), "freed memory admits other routes");
    }

    #[test]
    fn memory_of_removed_routes_is_available_to_others() {
        let mut budget = Budget { limit: 8 << 20, ..Budget::default() };
        // The tables in this test never free memory, but reuse it for the same number of routes.
        let (mut held, mut routes) = (0u64, 0u64);
        let mut add = |routes: &mut u64, bytes: u64| {
            let admitted = budget.admit(1, || (held * 512, *routes), plenty);
            if admitted {
                *routes += 1;
                held = held.max(*routes * bytes / 512);
            }
            admitted
        };
        while add(&mut routes, 512) {}
        let full = routes;
        assert!((8u64 << 20).abs_diff(full * 512) <= ROUTE, "{full}");
        for left in [0, full / 2, full - 1] {
            routes = left;
            while add(&mut routes, 512) {}
            assert_eq!(routes, full, "with {left} left");
        }
        // Routes eight times as large are admitted until their growth is counted.
        routes = 0;
        while add(&mut routes, 4096) {}
        assert!(routes < full && routes * 4096 <= (8 << 20) + MUCH + (REUSED + 1) * ROUTE, "{routes}");
    }

    /// Routes are refused if free memory is short, even if the limit is not reached. Otherwise the kernel would kill the router.
    #[test]
    fn routes_are_refused_while_memory_is_short() {
        const SPARE: u64 = 32 << 20;
        let mut budget = Budget { limit: u64::MAX, ..Budget::default() };
        let (mut used, mut looked, mut routes) = (0, 0, 0);
        let mut add = |all: u64, used: &mut u64| {
            let now = || {
                looked += 1;
                room(all - *used)
            };
            let admitted = budget.admit(1, || (*used, routes), now);
            (*used, routes) = (*used + u64::from(admitted) * ROUTE, routes + u64::from(admitted));
            admitted
        };
        let all = 256 << 20;
        while add(all, &mut used) {}
        assert!((all - SPARE - ROUTE..=all - SPARE).contains(&used), "{used}");
        // Of many attempts at once, only the first checks the memory.
        for _ in 0..1000 {
            assert!(!add(all, &mut used));
        }
        std::thread::sleep(Duration::from_millis(10));
        assert!(add(2 * all, &mut used), "there is memory again");
        assert!(looked < 100, "{looked}");
    }

    /// There are two counters, so that the operator knows whether to raise the limit or to add memory.
    #[test]
    fn refusals_for_the_limit_and_for_memory_count_apart() {
        let mut budget = Budget { limit: u64::MAX, ..Budget::default() };
        assert!(!budget.admit(1, || (0, 0), || room(0)));
        budget.count_refused();
        assert_eq!((budget.refused, budget.no_memory), (0, 1));
        budget.limit = 0;
        assert!(!budget.admit(1, || (0, 0), plenty));
        assert!(budget.watch.tight().is_none());
        budget.count_refused();
        assert_eq!((budget.refused, budget.no_memory), (1, 1));
    }
}
