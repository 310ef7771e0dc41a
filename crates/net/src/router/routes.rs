//! Routes, and what resolves them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use infra::lpm::Address as _;
use wire::Mac;

use super::{InterfaceInfo, Neighborhood, Routed, Router, RouterError};
use crate::ip::{
    Affected, ForwardingKind, IpPrefix, Object, Path, PathList, Prefix, Resolver, RouteError, Source, Track,
};

/// Routes that follow an interface's change before the change is complete: a few hundred microseconds' worth.
const VISITS_AT_ONCE: usize = 1024;
/// Routes between two looks at the clock.
const VISITS: usize = 64;
/// How long routes may be followed up in one turn, so that packets and commands need not wait.
const SLICE: Duration = Duration::from_micros(500);

impl Neighborhood {
    /// The interface that can be used now and whose connected network `address` is on, in this VRF.
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
            Path::Attached(interface) => self.usable(interface).then_some(Object::Glean(interface)),
            Path::Via { next_hop, interface } => {
                let interface = match interface {
                    Some(i) => i,
                    None => self.connected(fib, next_hop)?,
                };
                if !self.usable(interface) {
                    return None;
                }
                let record = self.records.get(interface)?;
                let info = self.interfaces.get(interface)?;
                let tags = info.tags;
                let mac = match next_hop {
                    // Whoever is behind it: nobody asks, and nobody reads it.
                    _ if info.kind.is_point_to_point() => Some(Mac::default()),
                    IpAddr::V4(a) => self.mac_of(interface, a),
                    IpAddr::V6(a) => self.mac_of(interface, a),
                };
                let index = self.adjacencies.acquire(interface, next_hop, mac, record, tags);
                match index {
                    Ok(index) => Some(Object::Adjacency(index)),
                    Err(e) => {
                        tracing::error!("no adjacency for {next_hop}: {e}");
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
    /// Adds a VRF, for both families; one that exists stays as it is.
    ///
    /// # Errors
    /// When memory for its lookup tables is not to be had.
    pub fn add_table(&mut self, fib: u16) -> Result<(), RouterError> {
        let there = self.ip4.routes.tables().any(|t| t == fib);
        let added = self.ip4.routes.add_table(fib).and_then(|()| self.ip6.routes.add_table(fib));
        if let Err(e) = added {
            if e.kind() == io::ErrorKind::OutOfMemory {
                self.budget.count_no_memory();
            }
            if !there && self.ip4.routes.tables().any(|t| t == fib) {
                self.ip4.routes.remove_table(fib)?;
            }
            return Err(e.into());
        }
        Ok(())
    }

    /// Removes a VRF that nothing uses; its memory is given back once no worker can look into it.
    ///
    /// # Errors
    /// When there is no such VRF, an interface or a route uses it, or it is VRF 0, which is always there.
    pub fn remove_table(&mut self, fib: u16) -> Result<(), RouterError> {
        if let Some(i) = self.interfaces().find(|i| i.fib == fib && fib != 0) {
            return Err(RouterError(format!("table {fib} cannot be removed: {} is bound to it", i.name)));
        }
        self.ip6.routes.may_go(fib)?;
        self.ip4.routes.remove_table(fib)?;
        Ok(self.ip6.routes.remove_table(fib)?)
    }

    /// Adds the operator's route, or changes its paths.
    ///
    /// # Errors
    /// When there is no such VRF, a next hop is of the other family, or there is no more room or [memory](Self::route_memory).
    pub fn add_route(
        &mut self,
        fib: u16,
        prefix: impl Into<IpPrefix>,
        list: impl Into<PathList>,
    ) -> Result<(), RouterError> {
        self.add_route_from(Source::STATIC, fib, prefix, list)
    }

    /// Adds a route of a source, or changes its paths.
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

    /// What `show ip fib` calls a source of routes.
    pub fn source_name(&self, source: Source) -> &'static str {
        self.hooks.sources.name(source)
    }

    /// What `show ip fib` says of an entry of a feature's kind of forwarding.
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
                && !kind.takes::<A>(&self.tables)
            {
                let what = self.forwarding_text(kind, index);
                return Err(RouterError(format!("{prefix} cannot lead to {what}: it takes no {}", A::NAME)));
            }
            if let Path::Via { next_hop, .. } = path
                && A::of(next_hop).is_none()
            {
                return Err(RouterError(format!(
                    "{next_hop} cannot be the next hop of {prefix}: it is not {}",
                    A::NAME
                )));
            }
        }
        let list = list.map(|path| match path {
            // Of a host that is on the link the next hop is known: itself.
            Path::Attached(on) if prefix.len() == A::Bits::BITS => {
                Path::Via { next_hop: prefix.address().into(), interface: Some(on) }
            }
            Path::Attached(on) => self.near.interfaces.get(on).map_or(path, InterfaceInfo::attached::<A>),
            other => other,
        });
        let mut sources = A::side(self).routes.exact(fib, prefix);
        if !sources.any(|(other, _)| other == source) {
            self.admit_route(list.ways())?;
        }
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

    /// Removes the operator's route; returns the paths that it had.
    ///
    /// # Errors
    /// When there is none.
    pub fn remove_route(&mut self, fib: u16, prefix: impl Into<IpPrefix>) -> Result<PathList, RouterError> {
        self.remove_route_from(Source::STATIC, fib, prefix)
    }

    /// Removes a source's route; returns the paths that it had.
    ///
    /// # Errors
    /// When there is none.
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

    /// Follows the route to a destination from now on, as a tunnel does that its packets go to.
    ///
    /// # Errors
    /// When there is no such VRF, or no more room.
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

    /// Follows a destination no longer. Workers may use its object until they have passed.
    pub fn untrack(&mut self, track: Track) {
        match track.is_of::<Ipv4Addr>() {
            true => self.ip4.routes.untrack(track, &mut self.near),
            false => self.ip6.routes.untrack(track, &mut self.near),
        }
    }

    /// Whether packets to a destination that is followed can leave.
    pub fn leads(&self, track: &Track) -> bool {
        match track.is_of::<Ipv4Addr>() {
            true => self.ip4.routes.leads(track),
            false => self.ip6.routes.leads(track),
        }
    }

    /// Interfaces or networks came, went, or changed: what depends on them is asked again what it means, and routes follow. Many do so
    /// in later turns.
    pub(crate) fn resolve_again(&mut self, what: Affected) {
        self.resolve_again_of::<Ipv4Addr>(what.clone());
        self.resolve_again_of::<Ipv6Addr>(what);
    }

    fn resolve_again_of<A: Routed>(&mut self, what: Affected) {
        let (side, near) = A::side_mut(self);
        // Of several changes in a row only the first ones take their time at once.
        let busy = side.routes.is_busy();
        side.routes.resolve_again(what);
        if busy || side.routes.settle(VISITS_AT_ONCE, near) || near.adjacencies.is_stale() {
            self.wake.ring();
        }
        self.sync_off_link(Prefix::<A>::DEFAULT);
    }

    /// Gives back the indices of interfaces that are gone, if no path can lead to them any more. Who has one already is used once no
    /// worker can be on such a path.
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

    /// Lets interfaces be used whose index was another's, to whom no packet is on its way any more. Returns whether some still wait.
    fn admit_heirs(&mut self) -> bool {
        while let Some((_, index)) = self.heirs.pop_front_if(|(mark, _)| self.domain.passed(*mark)) {
            // It may have gone in turn, and left the index to somebody else.
            if self.leaving.contains(&index) || self.heirs.iter().any(|(_, other)| *other == index) {
                continue;
            }
            let Some(info) = self.near.interfaces.get_mut(index) else { continue };
            info.heir = false;
            if let Err(e) = self.changed(index) {
                tracing::error!("interface {index}, whose index was another's: {e}");
            }
        }
        !self.heirs.is_empty()
    }

    /// Lets recursive paths follow a route that has just changed; for most routers all of them.
    pub(super) fn follow_first<A: Routed>(&mut self) {
        let (side, near) = A::side_mut(self);
        if side.routes.follows() && side.routes.settle(VISITS_AT_ONCE, near) {
            self.wake.ring();
        }
    }

    /// Whether paths hold adjacencies until workers have passed that may be about to use them.
    pub fn waits_for_workers(&self) -> bool {
        self.ip4.routes.waits_for_workers() || self.ip6.routes.waits_for_workers()
    }

    /// Lets routes follow what their paths mean now, and adjacencies what their interfaces are, for a slice of time. Returns
    /// whether there is more to do. Part of every [`poll`](Self::poll).
    pub fn settle_routes(&mut self) -> bool {
        let start = Instant::now();
        let Router { ip4, ip6, near, .. } = self;
        // By turns, so that neither family waits for the other.
        let mut more = true;
        while more && start.elapsed() < SLICE {
            more =
                ip4.routes.settle(VISITS, near) | ip6.routes.settle(VISITS, near) | near.follow_interfaces();
        }
        self.free_indices();
        more | self.admit_heirs()
    }
}
