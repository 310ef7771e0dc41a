//! `ip4-lookup`: the longest prefix that covers the destination, and what it says.
//!
//! Two stages over the vector: leaves first, then the objects behind them, so that the misses of a large table overlap.

use std::net::Ipv4Addr;

use buf::{FRAME_SIZE, Frame, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::{Reader, SlotReader, WordReader};
use infra::lpm::{LpmLookup, NO_ROUTE};
use infra::quiesce::Guard;
use wire::flow::{FiveTuple, five_tuple};
use wire::ipv4::Ipv4Header;

use super::family::Ip;
use super::{Buckets, Object};
use crate::Tables;

/// Lookups through other VRFs that one packet may take.
const MAX_HOPS: usize = 8;

/// The lookup table of each VRF, by number.
#[derive(Clone)]
pub struct Fibs<A: Ip>(pub Vec<Option<A::Reader>>);

impl<A: Ip> Default for Fibs<A> {
    fn default() -> Self {
        Fibs(Vec::new())
    }
}

impl<A: Ip> Fibs<A> {
    /// The lookup table of a VRF.
    #[inline(always)]
    pub fn get(&self, fib: u16) -> Option<&A::Reader> {
        self.0.get(usize::from(fib))?.as_ref()
    }
}

edges! {
    pub enum Next {
        Rewrite = "ip4-rewrite",
        Arp = "ip4-arp",
        Local = "ip4-local",
        Report = "ip4-icmp-error",
    }
}
reasons! {
    pub enum Reason {
        Blackhole = "blackhole", Info, "the route says to drop packets to this destination";
        Unresolved = "unresolved", Info, "the next hop's interface has just gone, and a shorter route has yet to take over";
        NoTable = "no-table", Error, "a route says to look in a VRF that is not there";
        TableLoop = "table-loop", Error, "routes send the packet from VRF to VRF in a circle";
    }
}

/// An address of each packet of a frame, and the leaf that it was looked up to.
pub(super) struct Leaves {
    addresses: Box<[u32; FRAME_SIZE]>,
    leaves: Box<[u32; FRAME_SIZE]>,
}

impl Leaves {
    pub fn new() -> Leaves {
        Leaves { addresses: Box::new([0; FRAME_SIZE]), leaves: Box::new([0; FRAME_SIZE]) }
    }

    /// Looks up what `of` says of each packet, in the packet's VRF.
    #[inline(always)]
    pub fn fill(&mut self, fibs: &Fibs<Ipv4Addr>, frame: &mut Frame, of: impl Fn(&Ipv4Header) -> u32) {
        let n = frame.len();
        let Some(first) = frame.get(0) else { return };
        let fib = first.fib();
        let mut same = true;
        for (address, mut p) in self.addresses.iter_mut().zip(frame.packets()) {
            *address = of(p.peek::<Ipv4Header>());
            same &= p.fib() == fib;
        }
        if let (true, Some(table)) = (same, fibs.get(fib)) {
            table.lookup_many(&self.addresses[..n], &mut self.leaves[..n]);
            return;
        }
        for ((address, leaf), p) in self.addresses.iter().zip(self.leaves.iter_mut()).zip(frame.packets()) {
            *leaf = fibs.get(p.fib()).map_or(NO_ROUTE, |t| t.lookup(*address));
        }
    }

    /// The address of packet `i` of the frame, and its leaf.
    #[inline(always)]
    pub fn get(&self, i: usize) -> (u32, u32) {
        let at = i & (FRAME_SIZE - 1);
        (self.addresses[at], self.leaves[at])
    }
}

pub struct Ip4Lookup {
    fibs: Reader<Fibs<Ipv4Addr>>,
    objects: WordReader,
    balances: SlotReader<Buckets>,
    leaves: Leaves,
}

impl Ip4Lookup {
    pub fn new(t: &Tables) -> Ip4Lookup {
        let (fibs, objects, balances) = (t.fibs.clone(), t.objects.clone(), t.balances.clone());
        Ip4Lookup { fibs, objects, balances, leaves: Leaves::new() }
    }

    /// What becomes of a packet that does not go over an adjacency.
    #[cold]
    fn other(&self, guard: &Guard, p: &mut Packet<'_>, address: u32, word: u64) -> Verdict<Next, Reason> {
        let mut object = Object::from_word(word);
        if let Object::Table(fib) = object {
            object = match through_tables(self.fibs.get(guard), &self.objects, address, fib) {
                Ok(object) => object,
                Err(reason) => return Verdict::Drop(reason),
            };
        }
        if let Object::Balance(buckets) = object {
            object = Object::from_word(share(&self.balances, guard, p, buckets));
        }
        match object {
            Object::Adjacency(adjacency) => {
                p.set_fwd(adjacency);
                Verdict::Next(Next::Rewrite)
            }
            Object::Glean(interface) => {
                p.set_tx_if(interface);
                p.set_fwd(address);
                Verdict::Next(Next::Arp)
            }
            Object::Local => Verdict::Next(Next::Local),
            Object::Drop => Verdict::Drop(Reason::Blackhole),
            Object::Unresolved => Verdict::Drop(Reason::Unresolved),
            Object::Report(cause) => {
                p.set_fwd(cause.to_raw());
                Verdict::Next(Next::Report)
            }
            // `through_tables` follows these to their end, and a way is neither.
            Object::Table(_) | Object::Balance(_) => Verdict::Drop(Reason::TableLoop),
        }
    }
}

/// The word for a packet whose route has several ways: that of the one which its flow goes. The two directions of a connection
/// go their own ways, and all fragments of a datagram go the same.
#[inline(never)]
pub(super) fn share(balances: &SlotReader<Buckets>, guard: &Guard, p: &Packet<'_>, buckets: u32) -> u64 {
    let hash = five_tuple(p.bytes()).map_or(0, FiveTuple::hash);
    balances.get(guard, buckets).map_or(Object::Unresolved.to_word(), |b| b.word(hash))
}

/// Looks `address` up in VRF `fib`, and follows objects that name another VRF.
#[cold]
pub(super) fn through_tables(
    fibs: &Fibs<Ipv4Addr>,
    objects: &WordReader,
    address: u32,
    mut fib: u16,
) -> Result<Object, Reason> {
    for _ in 0..MAX_HOPS {
        let table = fibs.get(fib).ok_or(Reason::NoTable)?;
        match Object::from_word(objects.get(table.lookup(address))) {
            Object::Table(next) => fib = next,
            other => return Ok(other),
        }
    }
    Err(Reason::TableLoop)
}

impl FrameNode for Ip4Lookup {
    const NAME: &'static str = "ip4-lookup";
    type Next = Next;
    type Drop = Reason;
    const TRACE: graph::trace::TraceFn = crate::trace::lookup;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let fibs = self.fibs.get(cx.guard);
        self.leaves.fill(fibs, frame, Ipv4Header::dst_u32);
        out.mostly(Verdict::Next(Next::Rewrite), frame, |i, p| {
            let (address, leaf) = self.leaves.get(i);
            let word = self.objects.get(leaf);
            let one = Object::adjacency(word);
            let of_several = || Object::adjacency(share(&self.balances, cx.guard, p, Object::balance(word)?));
            if let Some(adjacency) = one.or_else(of_several) {
                p.set_fwd(adjacency);
                return None;
            }
            Some(self.other(cx.guard, p, address, word))
        });
    }
}
