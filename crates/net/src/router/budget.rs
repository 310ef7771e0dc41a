//! How much memory routes may take: at the limit a new one is refused, and the router goes on with those that it has.
//!
//! What they take is counted anew after so many additions as should not exceed the rest of the budget, so that an addition costs no
//! more than a comparison most of the time. Tables grow by pieces, the last of which may go beyond it.
//!
//! Tables keep the memory of routes that went, for those that come. A budget that is used up therefore still lets in as many routes as
//! have gone since the memory last grew by much; where it does so again, they are not like the ones that went, and no more come in.

use infra::mem;

use super::{Router, RouterError};

/// Of the memory that the process may use, one part in so many is for routes unless the operator says otherwise.
const SHARE: u64 = 2;
/// The most that one route may take, in bytes: the first host route of a /24 has 256 entries of its own in the lookup table, and
/// the maps of prefixes double their size when they are full.
const ROUTE: u64 = 4096;
/// Additions between two counts, at most.
const INTERVAL: u64 = 4096;
/// The same, of those that should find the memory of others: were they larger than these, so many would take a MiB.
const REUSED: u64 = 256;
/// Bytes by which memory may grow by routes that nearly find that of others.
const MUCH: u64 = REUSED * ROUTE;

/// The budget.
pub(super) struct Budget {
    limit: u64,
    /// What routes took when it was last counted.
    used: u64,
    /// For how many there is memory: the most that there were since it last grew by much.
    held: u64,
    /// What it was then.
    grown: u64,
    /// Additions until it is counted again.
    left: u64,
    /// Routes that were refused.
    refused: u64,
}

impl Default for Budget {
    fn default() -> Self {
        let limit = mem::available().map_or(u64::MAX, |bytes| bytes / SHARE);
        Budget { limit, used: 0, held: 0, grown: 0, left: 0, refused: 0 }
    }
}

impl Budget {
    /// Lets one more route in, if what all take is within the limit; `count` says what that is, in bytes, and how many routes there are.
    fn admit(&mut self, count: impl FnOnce() -> (u64, u64)) -> bool {
        if self.left == 0 {
            let (used, routes) = count();
            if used > self.grown + MUCH {
                (self.grown, self.held) = (used, routes);
            }
            (self.used, self.held) = (used, self.held.max(routes));
            let more = self.limit.saturating_sub(used) / ROUTE;
            let again = self.held.saturating_sub(routes).min(REUSED);
            self.left = more.max(again).min(INTERVAL);
        }
        let admitted = self.left > 0;
        self.left = self.left.saturating_sub(1);
        self.refused += u64::from(!admitted);
        admitted
    }
}

impl Router {
    /// Lets one more route in.
    ///
    /// # Errors
    /// When the budget is used up.
    pub(super) fn admit_route(&mut self) -> Result<(), RouterError> {
        let Router { ip4, ip6, budget, .. } = self;
        let count = || {
            let bytes = ip4.routes.memory_total() + ip6.routes.memory_total();
            (bytes as u64, (ip4.routes.count_total() + ip6.routes.count_total()) as u64)
        };
        if budget.admit(count) {
            return Ok(());
        }
        let mib = |bytes: u64| bytes >> 20;
        Err(RouterError(format!(
            "no room for another route: the routes take {} MiB, and may take {}: remove some, or raise the limit",
            mib(budget.used),
            mib(budget.limit)
        )))
    }

    /// Sets how much memory routes may take, in bytes. What is there already stays.
    pub fn set_route_memory(&mut self, limit: u64) {
        self.budget.limit = limit;
        self.budget.left = 0;
    }

    /// How much memory routes may take and take now, in bytes, and how many were refused.
    pub fn route_memory(&self) -> RouteMemory {
        let used = self.ip4.routes.memory_total() + self.ip6.routes.memory_total();
        RouteMemory { limit: self.budget.limit, used: used as u64, refused: self.budget.refused }
    }
}

/// The memory of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteMemory {
    /// The most that they may take, in bytes.
    pub limit: u64,
    /// What they take, in bytes: lookup tables and routes; what the configuration has of them is not among it.
    pub used: u64,
    /// Routes that were refused since the start.
    pub refused: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_kept_and_is_looked_at_only_now_and_then() {
        let (mut budget, mut used, mut counted) = (Budget { limit: 100 << 20, ..Budget::default() }, 0, 0);
        let mut routes = 0;
        while budget.admit(|| {
            counted += 1;
            (used, routes)
        }) {
            (used, routes) = (used + ROUTE / 8, routes + 1);
        }
        assert!((99 << 20..=100 << 20).contains(&used), "{used}");
        assert!(counted < 200, "{counted}");
        assert_eq!(budget.refused, 1);
        used -= 1 << 20;
        assert!(budget.admit(|| (used, routes)), "what was freed is there for others");
    }

    #[test]
    fn the_memory_of_routes_that_went_is_there_for_others() {
        let mut budget = Budget { limit: 8 << 20, ..Budget::default() };
        // Tables that never give memory back, and have it for so many routes.
        let (mut room, mut routes) = (0u64, 0u64);
        let mut add = |routes: &mut u64, bytes: u64| {
            let admitted = budget.admit(|| (room * 512, *routes));
            if admitted {
                *routes += 1;
                room = room.max(*routes * bytes / 512);
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
        // Others that take eight times as much come in until their growth is seen.
        routes = 0;
        while add(&mut routes, 4096) {}
        assert!(routes < full && routes * 4096 <= (8 << 20) + MUCH + (REUSED + 1) * ROUTE, "{routes}");
    }
}
