//! What can be asked of the routes: for shows, for whoever follows them, for the tests.

use infra::lpm::{Address, Lpm};

use super::family::Ip;
use super::path::PathState;
use super::prefix::Prefix;
use super::rib::{OfPrefix, Rib};
use super::slab::NONE;
use super::source::Source;
use super::table::{Routes, Vrf};

/// What the sources say of one prefix, the best first.
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
    /// Every route of a VRF in order of prefix: sources with their paths, the best first.
    pub fn iter(&self, fib: u16) -> impl Iterator<Item = (Prefix<A>, Sources<'_, A>)> {
        let all = self.vrfs.get(&fib).into_iter().flat_map(|v| v.prefixes.iter());
        let mut all: Vec<(Prefix<A>, u32)> =
            all.map(|(bits, len, first)| (Prefix::new(A::from_bits(bits), len), first)).collect();
        all.sort_unstable();
        all.into_iter().map(|(prefix, first)| (prefix, self.sources(first)))
    }

    /// The prefixes of a VRF of which `n`, below [`PARTS`](Self::PARTS), is the part: in no order. A prefix is always in
    /// the same part, so whoever looks at one after the other finds each that stays once, whatever comes and goes.
    pub fn part(&self, fib: u16, n: usize) -> impl Iterator<Item = Prefix<A>> {
        let part = self.vrfs.get(&fib).into_iter().flat_map(move |v| v.prefixes.part(n));
        part.map(|(bits, len, _)| Prefix::new(A::from_bits(bits), len))
    }

    /// How many prefixes of a VRF have each length.
    pub fn lengths(&self, fib: u16) -> &[usize] {
        self.vrfs.get(&fib).map_or(&[], |v| v.prefixes.lengths())
    }

    /// How many prefixes of a VRF have routes.
    pub fn count(&self, fib: u16) -> usize {
        self.vrfs.get(&fib).map_or(0, |v| v.prefixes.len())
    }

    /// What the sources say of this very prefix.
    pub fn exact(&self, fib: u16, prefix: Prefix<A>) -> Sources<'_, A> {
        let first = self.vrfs.get(&fib).and_then(|v| v.prefixes.get(prefix.bits(), prefix.len()));
        self.sources(first.unwrap_or(NONE))
    }

    fn sources(&self, first: u32) -> Sources<'_, A> {
        Sources { rib: &self.rib, routes: self.rib.of_prefix(first) }
    }

    /// The route that packets to `address` take: the longest prefix with a resolved path.
    pub fn lookup(&self, fib: u16, address: A) -> Option<(Prefix<A>, Source, &PathState)> {
        self.longest(fib, address, A::Bits::BITS, |path| path.resolved.is_some())
    }

    /// The route with the longest prefix shorter than a host's that packets to `address` would take.
    pub fn covering(&self, fib: u16, address: A) -> Option<(Prefix<A>, &PathState)> {
        let found = self.longest(fib, address, A::Bits::BITS - 1, |path| path.resolved.is_some());
        found.map(|(prefix, _, state)| (prefix, state))
    }

    /// The longest prefix of at most `most` bits with a path like this.
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

    /// Memory of all routes and tables, in bytes.
    pub fn memory_total(&self) -> usize {
        let of_vrf = |v: &Vrf<A>| v.lookup.memory_bytes() + v.prefixes.memory_bytes();
        self.vrfs.values().map(of_vrf).sum::<usize>()
            + self.rib.routes.memory_bytes()
            + self.rib.paths.memory_bytes()
    }

    /// Paths of all routes, each counted for each route that has it.
    pub fn ways_total(&self) -> usize {
        self.rib.ways
    }

    /// How many prefixes of all VRFs have routes.
    pub fn count_total(&self) -> usize {
        self.vrfs.values().map(|v| v.prefixes.len()).sum()
    }

    /// Memory of a VRF's lookup table in bytes.
    pub fn memory_bytes(&self, fib: u16) -> usize {
        self.vrfs.get(&fib).map_or(0, |v| v.lookup.memory_bytes())
    }
}
