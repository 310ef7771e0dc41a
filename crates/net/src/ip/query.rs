//! Queries on the routes, for show commands, tracks and tests.

use infra::lpm::{Address, Lpm};

use super::family::Ip;
use super::path::PathState;
use super::prefix::Prefix;
use super::rib::{OfPrefix, Rib};
use super::slab::NONE;
use super::source::Source;
use super::table::{Routes, Vrf};

/// The routes of all sources for one prefix, the best first.
#[derive(Clone)]
pub struct Sources<'r, A: Ip> {
    rib: &'r Rib<A>,
    routes: OfPrefix<'r, A>,
}

impl<'r, A: Ip> Iterator for Sources<'r, A> {
    type Item = (Source, &'r PathState);

    fn next(&mut self) -> Option<(Source, &'r PathState)> {
        let route = &self.rib.routes[self.routes.next()?];
        Some((route.source, &self.rib.paths.states[route.path]))
    }
}

impl<A: Ip> Routes<A> {
    /// Returns the prefixes of a VRF in order, each with the routes of all its sources, the best first.
    pub fn iter(&self, fib: u16) -> impl Iterator<Item = (Prefix<A>, Sources<'_, A>)> {
        let all = self.vrfs.get(&fib).into_iter().flat_map(|v| v.prefixes.iter());
        let mut all: Vec<(Prefix<A>, u32)> =
            all.map(|(bits, len, first)| (Prefix::new(A::from_bits(bits), len), first)).collect();
        all.sort_unstable();
        all.into_iter().map(|(prefix, first)| (prefix, self.sources(first)))
    }

    /// Returns part `n` (below [`PARTS`](Self::PARTS)) of a VRF's prefixes, in no order. A prefix is always
    /// in the same part. So if prefixes are added and removed while a caller iterates over one part after the
    /// other, each prefix that exists throughout is found exactly once.
    pub fn part(&self, fib: u16, n: usize) -> impl Iterator<Item = Prefix<A>> {
        let part = self.vrfs.get(&fib).into_iter().flat_map(move |v| v.prefixes.part(n));
        part.map(|(bits, len, _)| Prefix::new(A::from_bits(bits), len))
    }

    /// Number of prefixes of each length in a VRF.
    pub fn lengths(&self, fib: u16) -> &[usize] {
        self.vrfs.get(&fib).map_or(&[], |v| v.prefixes.lengths())
    }

    /// Number of prefixes with routes in a VRF.
    pub fn count(&self, fib: u16) -> usize {
        self.vrfs.get(&fib).map_or(0, |v| v.prefixes.len())
    }

    /// Returns the routes of all sources for exactly this prefix.
    pub fn exact(&self, fib: u16, prefix: Prefix<A>) -> Sources<'_, A> {
        let first = self.vrfs.get(&fib).and_then(|v| v.prefixes.get(prefix.bits(), prefix.len()));
        self.sources(first.unwrap_or(NONE))
    }

    fn sources(&self, first: u32) -> Sources<'_, A> {
        Sources { rib: &self.rib, routes: self.rib.of_prefix(first) }
    }

    /// Returns the route for packets to `address`: the one with the longest prefix among those with a
    /// resolved path.
    pub fn lookup(&self, fib: u16, address: A) -> Option<(Prefix<A>, Source, &PathState)> {
        self.longest(fib, address, A::Bits::BITS, |path| path.resolved.is_some())
    }

    /// Returns the route with the longest prefix that contains `address` and has a resolved path, host routes
    /// excluded.
    pub fn covering(&self, fib: u16, address: A) -> Option<(Prefix<A>, &PathState)> {
        let found = self.longest(fib, address, A::Bits::BITS - 1, |path| path.resolved.is_some());
        found.map(|(prefix, _, state)| (prefix, state))
    }

    /// Returns the route with the longest prefix, of those routes to `address` whose prefix has at most `most` bits and whose path list
    /// satisfies `like`.
    pub(super) fn longest(
        &self,
        fib: u16,
        address: A,
        most: u8,
        like: impl Fn(&PathState) -> bool,
    ) -> Option<(Prefix<A>, Source, &PathState)> {
        let vrf = self.vrfs.get(&fib)?;
        (0..=most).rev().find_map(|len| {
            let prefix = Prefix::new(address, len);
            let best = self.rib.best_with(vrf.prefixes.get(prefix.bits(), len)?, &like)?;
            let route = &self.rib.routes[best];
            Some((prefix, route.source, &self.rib.paths.states[route.path]))
        })
    }

    /// Memory of all routes and tables in bytes.
    pub fn memory_total(&self) -> usize {
        let of_vrf = |v: &Vrf<A>| v.lookup.memory_bytes() + v.prefixes.memory_bytes();
        self.vrfs.values().map(of_vrf).sum::<usize>()
            + self.rib.routes.memory_bytes()
            + self.rib.paths.memory_bytes()
    }

    /// Number of paths of all routes; a path counts once for each of its routes.
    pub fn ways_total(&self) -> usize {
        self.rib.ways
    }

    /// Number of prefixes with routes in all VRFs.
    pub fn count_total(&self) -> usize {
        self.vrfs.values().map(|v| v.prefixes.len()).sum()
    }

    /// Memory of a VRF's lookup table in bytes.
    pub fn memory_bytes(&self, fib: u16) -> usize {
        self.vrfs.get(&fib).map_or(0, |v| v.lookup.memory_bytes())
    }
}
