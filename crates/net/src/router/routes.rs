//! Routes, and the resolution of their paths.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Bound;
use std::time::{Duration, Instant};

use infra::lpm::Address as _;
use wire::Mac;

use super::{InterfaceInfo, Neighborhood, Routed, Router, RouterError};
use crate::ip::{
    Affected, ForwardingKind, IpPrefix, Object, Path, PathList, Prefix, Resolver, RouteError, Source, Track,
};

/// Maximum number of routes that are updated before a change of an interface or a route returns: a few hundred microseconds of work.
const VISITS_AT_ONCE: usize = 1024;
/// Number of routes updated between two checks of the clock.
const VISITS: usize = 64;
/// Maximum time for updating routes in one iteration of the main thread's loop, so that packets and commands do not wait.
const SLICE: Duration = Duration::from_micros(500);
/// Number of neighbors outside of connected networks that are checked before the clock is read again.
const OFF_LINK_AT_ONCE: usize = 64;

impl Neighborhood {
    /// True if packets can be sent on an interface now.
    fn can_send(&self, interface: u32) -> bool {
        self.usable(interface) && self.interfaces.get(interface).is_some_and(InterfaceInfo::sends)
    }

    /// Returns the interface whose connected network in this VRF contains `address`, if the interface is usable.
    pub(crate) fn connected(&self, fib: u16, address: IpAddr) -> Option<u32> {
        self.interfaces.with_network_of(fib, address).map(|i| i.index).filter(|i| self.usable(*i))
    }
}

impl Resolver for Neighborhood {
    fn is_connected(&self, fib: u16, address: IpAddr) -> bool {
        self.interfaces.with_network_of(fib, address).is_some()
    }

    fn resolve(&mut self, fib: u16, path: Path) -> Option<Object> {
        match path {
            Path::Attached(interface) => self.can_send(interface).then_some(Object::Glean(interface)),
            Path::Via { next_hop, interface } => {
                let interface = match interface {
                    Some(i) => i,
                    None => self.connected(fib, next_hop)?,
                };
                if !self.can_send(interface) {
                    return None;
                }
                let record = self.records.get(interface)?;
                let info = self.interfaces.get(interface)?;
                let tags = info.tags;
                let mac = match next_hop {
                    // Point-to-point: the peer's Ethernet address is neither needed nor read.
                    _ if info.kind.is_point_to_point() => Some(Mac::default()),
                    IpAddr::V4(a) => self.mac_of(interface, a),
                    IpAddr::V6(a) => self.mac_of(interface, a),
                };
                let index = self.adjacencies.acquire(interface, next_hop, mac, record, tags);
                match index {
                    Ok(index) => Some(Object::Adjacency(index)),
                    Err(e) => {
                        tracing::error!("cannot create an adjacency for {next_hop}: {e}");
                        None
                    }
                }
            }
            _ => None,
        }
    }

    fn release(&mut self, object: Object) {
        if let Object::Adjacency(index) = object {
            self.adjacencies.release(index);
        }
    }
}

impl Router {
    /// Adds a static route, or replaces its paths.
    ///
    /// # Errors
    /// If the VRF does not exist, a next hop is not of the prefix's family, a path leads to a feature's entry that does not forward this
    /// family, the tables are full, or the [memory for routes](Self::route_memory) is used up.
    pub fn add_route(
        &mut self,
        fib: u16,
        prefix: impl Into<IpPrefix>,
        list: impl Into<PathList>,
    ) -> Result<(), RouterError> {
        self.add_route_from(Source::STATIC, fib, prefix, list)
    }

    /// Adds a route of `source`, or replaces its paths.
    ///
    /// # Errors
    /// As [`add_route`](Self::add_route).
    pub fn add_route_from(
        &mut self,
        source: Source,
        fib: u16,
        prefix: impl Into<IpPrefix>,
        list: impl Into<PathList>,
    ) -> Result<(), RouterError> {
        match prefix.into() {
            IpPrefix::V4(prefix) => self.add_route_of(source, fib, prefix, list.into()),
            IpPrefix::V6(prefix) => self.add_route_of(source, fib, prefix, list.into()),
        }
    }

    /// Returns the name of a route source in `show ip fib`.
    pub fn source_name(&self, source: Source) -> &'static str {
        self.hooks.sources.name(source)
    }

    /// Returns the text of a feature's forwarding entry in `show ip fib`.
    pub fn forwarding_text(&self, kind: ForwardingKind, index: u32) -> String {
        self.hooks.kind(kind).map_or_else(String::new, |info| (info.show)(self, index))
    }

    fn add_route_of<A: Routed>(
        &mut self,
        source: Source,
        fib: u16,
        prefix: Prefix<A>,
        list: PathList,
    ) -> Result<(), RouterError> {
        for path in list.paths() {
            if let Path::Feature(kind, index) = path
                && !self.tables.of::<A>().takes(kind)
            {
                let what = self.forwarding_text(kind, index);
                return Err(RouterError::new(format!(
                    "{prefix} cannot lead to {what}, which does not forward {}",
                    A::NAME
                )));
            }
            if let Path::Via { next_hop, .. } = path
                && A::of(next_hop).is_none()
            {
                return Err(RouterError::new(format!(
                    "{next_hop} cannot be the next hop of {prefix}: it is not an {} address",
                    A::NAME
                )));
            }
        }
        let list = list.map(|path| match path {
            // A host on the link is its own next hop.
            Path::Attached(on) if prefix.len() == A::Bits::BITS => {
                Path::Via { next_hop: prefix.address().into(), interface: Some(on) }
            }
            Path::Attached(on) => self.near.interfaces.get(on).map_or(path, InterfaceInfo::attached::<A>),
            other => other,
        });
        self.admit_route(list.ways(), |router| {
            A::side(router).routes.exact(fib, prefix).any(|(other, _)| other == source)
        })?;
        let (side, near) = A::side_mut(self);
        if let Err(e) = side.routes.add(fib, prefix, source, list, near) {
            if matches!(e, RouteError::NoMemory(_)) {
                self.budget.count_no_memory();
            }
            return Err(e.into());
        }
        self.sync_off_link(prefix);
        self.follow_first::<A>();
        Ok(())
    }

    /// Removes a static route. Returns its paths.
    ///
    /// # Errors
    /// If there is no such static route.
    pub fn remove_route(&mut self, fib: u16, prefix: impl Into<IpPrefix>) -> Result<PathList, RouterError> {
        self.remove_route_from(Source::STATIC, fib, prefix)
    }

    /// Removes a route of `source`. Returns its paths.
    ///
    /// # Errors
    /// If `source` has no such route.
    pub fn remove_route_from(
        &mut self,
        source: Source,
        fib: u16,
        prefix: impl Into<IpPrefix>,
    ) -> Result<PathList, RouterError> {
        match prefix.into() {
            IpPrefix::V4(prefix) => self.remove_route_of(source, fib, prefix),
            IpPrefix::V6(prefix) => self.remove_route_of(source, fib, prefix),
        }
    }

    fn remove_route_of<A: Routed>(
        &mut self,
        source: Source,
        fib: u16,
        prefix: Prefix<A>,
    ) -> Result<PathList, RouterError> {
        let (side, near) = A::side_mut(self);
        let list = side.routes.remove(fib, prefix, source, near)?;
        self.sync_off_link(prefix);
        self.follow_first::<A>();
        Ok(list)
    }

    /// Starts tracking the route to a destination, as a tunnel does for its remote end.
    ///
    /// # Errors
    /// If the VRF does not exist, or the tables are full.
    pub fn track(&mut self, fib: u16, to: IpAddr) -> Result<Track, RouterError> {
        match to {
            IpAddr::V4(to) => self.track_of(fib, to),
            IpAddr::V6(to) => self.track_of(fib, to),
        }
    }

    fn track_of<A: Routed>(&mut self, fib: u16, to: A) -> Result<Track, RouterError> {
        let (side, near) = A::side_mut(self);
        Ok(side.routes.track(fib, to, near)?)
    }

    /// Stops tracking a destination. Workers may use the track's forwarding object until a grace period has passed.
    pub fn untrack(&mut self, track: Track) {
        match track.is_of::<Ipv4Addr>() {
            true => self.ip4.routes.untrack(track, &mut self.near),
            false => self.ip6.routes.untrack(track, &mut self.near),
        }
    }

    /// True if the path to a tracked destination is resolved, and at least one of its resolved paths leads to something other than an entry
    /// of a feature's table. Routes that drop packets or report them as unreachable count as resolved.
    pub fn leads(&self, track: &Track) -> bool {
        match track.is_of::<Ipv4Addr>() {
            true => self.ip4.routes.leads(track),
            false => self.ip6.routes.leads(track),
        }
    }

    /// After a change of these interfaces or networks, resolves again the paths that depend on them. The routes of these paths are
    /// updated, too, many of them in later iterations of the main thread's loop.
    pub(crate) fn resolve_again(&mut self, what: Affected) {
        self.resolve_again_of::<Ipv4Addr>(what.clone());
        self.resolve_again_of::<Ipv6Addr>(what);
    }

    fn resolve_again_of<A: Routed>(&mut self, what: Affected) {
        let (side, near) = A::side_mut(self);
        // Do the work at once only if no earlier change is still in progress; otherwise later turns do it.
        let busy = side.routes.is_busy();
        side.routes.resolve_again(what);
        let more = busy || side.routes.settle(VISITS_AT_ONCE, near) || near.adjacencies.is_stale();
        let has_off_link = !side.off_link.is_empty();
        if has_off_link {
            // The check is done later, because the paths of covering routes may not be resolved yet. One check serves many changes.
            side.off_link_check.ask();
        }
        if more || has_off_link {
            self.wake.ring();
        }
    }

    /// Frees the indexes of removed interfaces, once no path leads to these interfaces. If a new interface has already taken such an index,
    /// the new interface waits in a queue. It becomes usable once no worker can still use a path to the removed interface.
    pub(super) fn free_indices(&mut self) {
        if self.ip4.routes.asks() || self.ip6.routes.asks() {
            return;
        }
        for index in std::mem::take(&mut self.leaving) {
            match self.near.interfaces.get(index) {
                Some(_) => self.heirs.push_back((self.domain.mark(), index)),
                None => _ = self.near.records.remove(index),
            }
        }
    }

    /// Makes interfaces with a reused index usable, once the graph can contain no packet for the removed interface of the same
    /// index. Returns true if some interfaces still wait.
    fn admit_heirs(&mut self) -> bool {
        while let Some((_, index)) = self.heirs.pop_front_if(|(mark, _)| self.domain.passed(*mark)) {
            // The interface may have been removed in the meantime, and its index reused again.
            if self.leaving.contains(&index) || self.heirs.iter().any(|(_, other)| *other == index) {
                continue;
            }
            let Some(info) = self.near.interfaces.get_mut(index) else { continue };
            info.heir = false;
            if let Err(e) = self.changed(index) {
                tracing::error!(
                    "interface {index}, which has the index of a removed interface, cannot be activated: {e}"
                );
            }
        }
        !self.heirs.is_empty()
    }

    /// Updates recursive paths after a route change. Usually this completes at once; otherwise, later iterations of the main thread's loop
    /// continue the update.
    pub(super) fn follow_first<A: Routed>(&mut self) {
        let (side, near) = A::side_mut(self);
        if side.routes.follows() && side.routes.settle(VISITS_AT_ONCE, near) {
            self.wake.ring();
        }
    }

    /// True while paths hold adjacencies that a worker may still use.
    pub fn waits_for_workers(&self) -> bool {
        self.ip4.routes.waits_for_workers() || self.ip6.routes.waits_for_workers()
    }

    /// Updates routes after path changes, and adjacencies after interface changes, for a limited time. Returns true if work is left. Every
    /// [`poll`](Self::poll) calls it.
    pub fn settle_routes(&mut self) -> bool {
        let start = Instant::now();
        let Router { ip4, ip6, near, .. } = self;
        // The families take turns, so that neither waits for the other.
        let mut more = true;
        while more && start.elapsed() < SLICE {
            more =
                ip4.routes.settle(VISITS, near) | ip6.routes.settle(VISITS, near) | near.follow_interfaces();
        }
        more |= self.check_off_link::<Ipv4Addr>(start) | self.check_off_link::<Ipv6Addr>(start);
        self.free_indices();
        more | self.admit_heirs()
    }

    /// After changes of paths, updates the host routes of neighbors outside of connected networks. Stops when about [`SLICE`] has
    /// passed since `start`. Returns true if work is left.
    fn check_off_link<A: Routed>(&mut self, start: Instant) -> bool {
        let (side, _) = A::side_mut(self);
        if side.off_link_check.next.is_some() && (side.routes.is_busy() || side.routes.follows()) {
            // Some paths are not resolved yet: another check follows.
            side.off_link_check.ask();
        }
        // Check at least some neighbors in each call, because there may always be unresolved paths.
        while let Some(after) = A::side(self).off_link_check.next {
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            let range = A::side(self).off_link.range((from, Bound::Unbounded));
            let some: Vec<(A, u32)> = range.take(OFF_LINK_AT_ONCE).copied().collect();
            some.iter().for_each(|(ip, interface)| self.sync_host_route((*interface, *ip)));
            A::side_mut(self).0.off_link_check.checked(&some);
            if start.elapsed() >= SLICE {
                break;
            }
        }
        A::side(self).off_link_check.next.is_some()
    }
}
