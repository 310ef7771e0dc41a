//! The lookup tables of all VRFs, and lookups for a whole frame.

use buf::{FRAME_SIZE, Frame};
use infra::lpm::{Address as _, LpmLookup, NO_ROUTE};

use super::family::Ip;
use super::packet::Packets;

/// Lookup tables by FIB index.
#[derive(Clone)]
pub struct Fibs<A: Ip>(pub Vec<Option<A::Reader>>);

impl<A: Ip> Default for Fibs<A> {
    fn default() -> Self {
        Fibs(Vec::new())
    }
}

impl<A: Ip> Fibs<A> {
    /// Returns the lookup table of a VRF.
    #[inline(always)]
    pub fn get(&self, fib: u16) -> Option<&A::Reader> {
        self.0.get(usize::from(fib))?.as_ref()
    }

    /// Returns a closure that prefetches the first FIB line for an address. It uses the VRF of the frame's
    /// first packet, so for packets of other VRFs the prefetch is wasted.
    ///
    /// A full Internet table does not fit into the caches, so each packet waits for memory at least once. A core can wait for only a
    /// limited number of cache misses at once. If the prefetch starts while a node still checks headers, the memory access overlaps with
    /// these checks.
    #[inline(always)]
    pub fn ahead<'f>(&'f self, frame: &mut Frame) -> impl Fn(A::Bits) + use<'f, A> {
        let table = frame.get(0).and_then(|first| self.get(first.fib()));
        move |address| {
            if let Some(table) = table {
                table.fetch(address);
            }
        }
    }
}

/// For each packet of a frame: one of its addresses, and the result of this address's lookup. The result is a
/// leaf: the index of a forwarding object.
pub struct Leaves<A: Packets> {
    addresses: Box<[A::Bits; FRAME_SIZE]>,
    leaves: Box<[u32; FRAME_SIZE]>,
}

impl<A: Packets> Default for Leaves<A> {
    fn default() -> Leaves<A> {
        Leaves { addresses: Box::new([A::Bits::ZERO; FRAME_SIZE]), leaves: Box::new([0; FRAME_SIZE]) }
    }
}

impl<A: Packets> Leaves<A> {
    /// Returns the arrays. They are large enough for any frame.
    pub fn new() -> Leaves<A> {
        Leaves::default()
    }

    /// For each packet, looks up the address that `of` returns, in the packet's VRF. Prefetch with
    /// [`Fibs::ahead`] first.
    #[inline(always)]
    pub fn fill(&mut self, fibs: &Fibs<A>, frame: &mut Frame, of: impl Fn(&A::Header) -> A::Bits) {
        let n = frame.len();
        let Some(first) = frame.get(0) else { return };
        let fib = first.fib();
        let (table, mut same) = (fibs.get(fib), true);
        for (address, mut p) in self.addresses.iter_mut().zip(frame.packets()) {
            *address = of(p.peek::<A::Header>());
            same &= p.fib() == fib;
        }
        if let (true, Some(table)) = (same, table) {
            table.lookup_many(&self.addresses[..n], &mut self.leaves[..n]);
            return;
        }
        for ((address, leaf), p) in self.addresses.iter().zip(self.leaves.iter_mut()).zip(frame.packets()) {
            *leaf = fibs.get(p.fib()).map_or(NO_ROUTE, |t| t.lookup(*address));
        }
    }

    /// Returns the address that was looked up for packet `i` of the frame, and the leaf that the lookup
    /// returned.
    #[inline(always)]
    pub fn get(&self, i: usize) -> (A::Bits, u32) {
        let at = i & (FRAME_SIZE - 1);
        (self.addresses[at], self.leaves[at])
    }
}
