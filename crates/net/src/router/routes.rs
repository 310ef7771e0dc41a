//! Routes, and what resolves them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use super::{Neighborhood, Router, RouterError};
use crate::ip::{Affected, Ip, Object, Path, PathList, Prefix4, Resolver, Source};

/// Routes that follow an interface's change before the change is complete: a few hundred microseconds' worth.
const VISITS_AT_ONCE: usize = 1024;
/// Routes between two looks at the clock.
const VISITS: usize = 64;
/// How long routes may be followed up in one turn, so that packets and commands need not wait.
const SLICE: Duration = Duration::from_micros(500);

impl Neighborhood {
    /// The interface that can be used now and whose connected network `address` is on, in this VRF.
    pub(crate) fn connected(&self, fib: u16, address: Ipv4Addr) -> Option<u32> {
        self.interfaces.with_network_of(fib, address).map(|i| i.index).filter(|i| self.usable(*i))
    }
}

impl Resolver for Neighborhood {
    fn is_connected(&self, fib: u16, address: IpAddr) -> bool {
        Ipv4Addr::of(address).is_some_and(|a| self.interfaces.with_network_of(fib, a).is_some())
    }

    fn resolve(&mut self, fib: u16, path: Path) -> Option<Object> {
        match path {
            Path::Attached(interface) => self.usable(interface).then_some(Object::Glean(interface)),
            Path::Via { next_hop, interface } => {
                let next_hop = Ipv4Addr::of(next_hop)?;
                let interface = match interface {
                    Some(i) => i,
                    None => self.connected(fib, next_hop)?,
                };
                if !self.usable(interface) {
                    return None;
                }
                let record = self.records.get(interface)?;
                let tags = self.interfaces.get(interface)?.tags;
                let mac = self.mac_of(interface, next_hop);
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
    /// Adds a VRF; one that exists stays as it is.
    ///
    /// # Errors
    /// When memory for its lookup table is not to be had.
    pub fn add_table(&mut self, fib: u16) -> Result<(), RouterError> {
        Ok(self.routes.add_table(fib)?)
    }

    /// Removes a VRF that nothing uses; its memory is given back once no worker can look into it.
    ///
    /// # Errors
    /// When there is no such VRF, an interface or a route uses it, or it is VRF 0, which is always there.
    pub fn remove_table(&mut self, fib: u16) -> Result<(), RouterError> {
        if let Some(i) = self.interfaces().find(|i| i.fib == fib && fib != 0) {
            return Err(RouterError(format!("table {fib} cannot be removed: {} is bound to it", i.name)));
        }
        Ok(self.routes.remove_table(fib)?)
    }

    /// Adds the operator's route, or changes its paths.
    ///
    /// # Errors
    /// When there is no such VRF, or no more room.
    pub fn add_route(
        &mut self,
        fib: u16,
        prefix: Prefix4,
        list: impl Into<PathList>,
    ) -> Result<(), RouterError> {
        self.routes.add(fib, prefix, Source::Static, list.into(), &mut self.near)?;
        self.sync_off_link(prefix);
        self.follow_first();
        Ok(())
    }

    /// Removes the operator's route; returns the paths that it had.
    ///
    /// # Errors
    /// When there is none.
    pub fn remove_route(&mut self, fib: u16, prefix: Prefix4) -> Result<PathList, RouterError> {
        let list = self.routes.remove(fib, prefix, Source::Static, &mut self.near)?;
        self.sync_off_link(prefix);
        self.follow_first();
        Ok(list)
    }

    /// Interfaces or networks came, went, or changed: what depends on them is asked again what it means. Many routes
    /// follow in later turns.
    pub(crate) fn resolve_again(&mut self, what: &Affected) {
        self.routes.resolve_again(what, &mut self.near);
        if self.routes.settle(VISITS_AT_ONCE, &mut self.near) {
            self.wake.ring();
        }
        self.sync_off_link(Prefix4::DEFAULT);
    }

    /// Lets recursive paths follow a route that has just changed; for most routers all of them.
    pub(super) fn follow_first(&mut self) {
        if self.routes.follows() && self.routes.settle(VISITS_AT_ONCE, &mut self.near) {
            self.wake.ring();
        }
    }

    /// Lets routes follow what their paths mean now, for a slice of time. Returns whether there is more to do. Part of
    /// every [`poll`](Self::poll).
    pub fn settle_routes(&mut self) -> bool {
        let start = Instant::now();
        while self.routes.settle(VISITS, &mut self.near) {
            if start.elapsed() >= SLICE {
                return true;
            }
        }
        false
    }
}
