//! The straight way of plain packets: from their IP header to their link header in one loop, which takes each packet through the
//! nodes `ip4-input`, `ip4-lookup` and `ip4-rewrite` (or those of IPv6) at once.
//!
//! With few routes, everything that a packet needs is in the caches, and then this is faster: the packet's header and metadata stay in
//! registers, and three nodes less are called for a frame. With many routes, the separate nodes are faster: in each of their loops, the
//! cache misses of many packets overlap, but a long loop over single packets waits for nearly each miss.
//!
//! Each step is the node's own routine for plain packets. A step that refuses a packet leaves it as the step before has left it, and the
//! packet goes to the step's node, which makes all checks. All later packets of the frame then go to the input node: they must not overtake
//! the refused one, whose flow may be theirs.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use buf::Packet;
use infra::class_a::{Reader, SlotReader, SlotView};
use infra::counters::Lane;
use infra::lpm::LpmLookup;
use infra::quiesce::Guard;

use super::lookup::Ways;
use super::{input, input6, rewrite};
use crate::Tables;
use crate::adjacency::Adjacency;
use crate::interface::Runs;
use crate::ip::{Forwarding, OwnAddresses, Packets};

/// Maximum number of routes of a table for the straight way of long vectors. With 1,000 routes and next hops, the separate nodes are faster.
const FEW_ROUTES: usize = 256;
/// Maximum number of packets of a vector that goes the straight way whatever the table is: too few for their cache misses to overlap.
const FEW_PACKETS: usize = 4;

/// A family whose plain packets can go the straight way.
pub trait Plain: Packets {
    /// True if the family's input node passes the packet on to the lookup without further checks. `len` is its length without padding.
    fn is_plain(own: &OwnAddresses<Self>, p: &mut Packet<'_>, len: usize) -> bool;
}

impl Plain for Ipv4Addr {
    #[inline(always)]
    fn is_plain(own: &OwnAddresses<Ipv4Addr>, p: &mut Packet<'_>, len: usize) -> bool {
        input::is_plain(own, p, len)
    }
}

impl Plain for Ipv6Addr {
    #[inline(always)]
    fn is_plain(own: &OwnAddresses<Ipv6Addr>, p: &mut Packet<'_>, len: usize) -> bool {
        input6::is_plain(own, p, len)
    }
}

/// The tables of one family for the straight way.
pub struct Straight<A: Packets> {
    own: Reader<OwnAddresses<A>>,
    tables: Forwarding<A>,
    adjacencies: SlotReader<Adjacency>,
    counters: Lane<2>,
}

impl<A: Plain> Straight<A> {
    /// Returns the tables.
    ///
    /// # Errors
    /// If memory for the worker's counters cannot be allocated.
    pub fn new(t: &Tables, worker: usize) -> io::Result<Straight<A>> {
        let tables = t.of::<A>().clone();
        let (own, adjacencies) = (tables.own.clone(), t.adjacencies.clone());
        Ok(Straight { own, tables, adjacencies, counters: t.adjacency_counters.lane(worker)? })
    }

    /// Returns the way for a frame of `packets` packets whose VRF is `fib`; `None` if the VRF does not exist, or has too many routes for the
    /// way.
    #[inline(always)]
    pub fn way<'f>(&'f mut self, guard: &'f Guard, fib: u16, packets: usize) -> Option<Way<'f, A>> {
        let Straight { own, tables, adjacencies, counters } = self;
        let table = tables.fibs.get(guard).get(fib)?;
        if packets > FEW_PACKETS && table.routes() > FEW_ROUTES {
            return None;
        }
        Some(Way {
            own: own.get(guard),
            table,
            ways: Ways { tables, guard, to_features: false },
            adjacencies: adjacencies.view(guard),
            adjacency: None,
            counted: Runs::new(counters),
            is_closed: false,
        })
    }
}

/// The node to which a packet goes that its step has refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The family's input node.
    Input,
    /// The lookup node.
    Lookup,
    /// The rewrite node.
    Rewrite,
}

/// The straight way for the packets of one frame. No packet of the frame may be in several buffers.
pub struct Way<'f, A: Packets> {
    own: &'f OwnAddresses<A>,
    table: &'f A::Reader,
    ways: Ways<'f, A>,
    adjacencies: SlotView<'f, Adjacency>,
    /// The last packet's adjacency.
    adjacency: Option<&'f Adjacency>,
    /// Packets and bytes by adjacency.
    counted: Runs<'f>,
    /// True after a step has refused a packet.
    is_closed: bool,
}

impl<A: Plain> Way<'_, A> {
    /// Sends all later packets of the frame to the input node.
    #[cold]
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Takes a packet, which begins with its IP header, to the output.
    ///
    /// # Errors
    /// The node that must process the packet.
    #[inline(always)]
    pub fn go(&mut self, p: &mut Packet<'_>) -> Result<(), Refused> {
        let went = if self.is_closed { Err(Refused::Input) } else { self.steps(p) };
        self.is_closed = went.is_err();
        went
    }

    #[inline(always)]
    fn steps(&mut self, p: &mut Packet<'_>) -> Result<(), Refused> {
        // Short Ethernet frames are padded.
        let len = A::said(p.peek()).min(p.len());
        if !A::is_plain(self.own, p, len) {
            return Err(Refused::Input);
        }
        p.set_len(len);
        let leaf = self.table.lookup(A::dst(p.peek()));
        let Ok(index) = self.ways.adjacency(p, leaf) else { return Err(Refused::Lookup) };
        p.set_fwd(index);
        if self.counted.begin(index) {
            self.adjacency = self.adjacencies.get(index);
        }
        let sent = self.adjacency.and_then(|adjacency| rewrite::plain::<A>(p, adjacency));
        self.counted.add(sent.ok_or(Refused::Rewrite)?);
        Ok(())
    }
}
