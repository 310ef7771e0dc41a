//! `ip4-lookup` and `ip6-lookup`: look up the destination's longest matching prefix, and take the action of
//! its forwarding object.
//!
//! The lookup goes over the vector twice, first for the leaves and then for their objects, so that cache
//! misses in a large table overlap.
//!
//! A link-local destination is looked up on the packet's receive interface, or on the transmit interface if
//! the packet is the router's own.

use buf::{Flags, Frame, Packet};
use graph::{Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::{SlotReader, WordReader};
use infra::lpm::{LpmLookup, NO_ROUTE};
use infra::quiesce::Guard;

use crate::Tables;
use crate::adjacency::GLEAN;
use crate::ip::{Buckets, Fibs, Forwarding, Ip, Leaves, MAX_TABLES, Object, Packets};

edges! {
    /// The edges, named after the IPv4 nodes. The IPv6 nodes are in [`FrameNode::EDGES`].
    pub enum Next {
        Rewrite = "ip4-rewrite",
        Resolve = "ip4-arp",
        Local = "ip4-local",
        Report = "ip4-icmp-error",
    }
}
reasons! {
    pub enum Reason {
        Blackhole = "blackhole", Info, "the route drops packets to this destination";
        Unresolved = "unresolved", Info, "the path has just become unusable, and the next best route is not installed yet";
        Nested = "nested-feature", Error, "the route to the feature's destination (such as a tunnel's far end) leads to another feature: nesting is not supported";
        NoTable = "no-table", Error, "a route leads to a VRF that does not exist";
        TableLoop = "table-loop", Error, "routes form a loop between VRFs";
        LinkLocal = "link-local-destination", Info, "the destination is a link-local address: packets to it are never forwarded";
    }
}

pub struct Lookup<A: Packets> {
    tables: Forwarding<A>,
    leaves: Leaves<A>,
}

impl<A: Packets> Lookup<A> {
    pub fn new(t: &Tables) -> Lookup<A> {
        Lookup { tables: t.of::<A>().clone(), leaves: Leaves::new() }
    }
}

/// Read access to forwarding objects during one call of a node.
pub(super) struct Ways<'t, A: Packets> {
    pub(super) tables: &'t Forwarding<A>,
    pub(super) guard: &'t Guard,
    /// True if a packet whose forwarding object belongs to a feature may go to the feature's node. Only the lookup node has edges
    /// to such nodes.
    pub(super) to_features: bool,
}

impl<A: Packets> Ways<'_, A> {
    /// Applies the forwarding object with index `object` to a packet to `address`, and returns the verdict. If the packet leaves
    /// over an adjacency, sets the packet's forwarding index to the adjacency's index, and returns `None`.
    #[inline(always)]
    fn go(
        &self,
        p: &mut Packet<'_>,
        object: u32,
        address: impl FnOnce(&mut Packet<'_>) -> A::Bits,
    ) -> Option<Verdict<Next, Reason>> {
        match self.adjacency(p, object) {
            Ok(adjacency) => {
                p.set_fwd(adjacency);
                None
            }
            Err(word) => {
                let address = address(p);
                Some(self.other(&mut p.again(), address, word))
            }
        }
    }

    /// Returns the index of the adjacency over which a packet with the forwarding object `object` leaves. If it does not leave over an
    /// adjacency, the error is the object's word.
    #[inline(always)]
    pub(super) fn adjacency(&self, p: &Packet<'_>, object: u32) -> Result<u32, u64> {
        let Forwarding { objects, balances, .. } = self.tables;
        let word = objects.get(object);
        let of_several = || Object::adjacency(share::<A>(balances, self.guard, p, Object::balance(word)?));
        Object::adjacency(word).or_else(of_several).ok_or(word)
    }

    /// Returns the verdict for a packet whose forwarding object `word` is not an adjacency.
    #[cold]
    fn other(&self, p: &mut Packet<'_>, address: A::Bits, word: u64) -> Verdict<Next, Reason> {
        let Forwarding { fibs, objects, balances, .. } = self.tables;
        let guard = self.guard;
        let fibs = fibs.get(guard);
        let mut object = Object::from_word(word);
        let mut fib = p.fib();
        if let Object::Table(next) = object {
            // The packet's own VRF was the first one.
            object = match follow(fibs, objects, address, &mut fib, next, MAX_TABLES - 1) {
                Ok(object) => object,
                Err(reason) => return Verdict::Drop(reason),
            };
        }
        if object == Object::LinkLocal {
            let ours = p.flags().any(Flags::LOCAL_ORIGIN);
            let on = if ours { p.tx_if() } else { p.rx_if() };
            let leaf = fibs.get(fib).map_or(NO_ROUTE, |t| t.lookup(A::scoped(address, on)));
            object = Object::from_word(objects.get(leaf));
            if !ours && object != Object::Local {
                return Verdict::Drop(Reason::LinkLocal);
            }
        }
        if let Object::Balance(buckets) = object {
            object = Object::from_word(share::<A>(balances, guard, p, buckets));
        }
        match object {
            Object::Adjacency(adjacency) => {
                p.set_fwd(adjacency);
                Verdict::Next(Next::Rewrite)
            }
            Object::Glean(interface) => {
                p.set_tx_if(interface);
                p.set_fwd(GLEAN);
                Verdict::Next(Next::Resolve)
            }
            Object::Local => Verdict::Next(Next::Local),
            Object::Drop => Verdict::Drop(Reason::Blackhole),
            Object::Unresolved => Verdict::Drop(Reason::Unresolved),
            Object::Feature(..) if !self.to_features => Verdict::Drop(Reason::Nested),
            Object::Feature(kind, index) => {
                p.set_fwd(index);
                match self.tables.kinds.get(kind.to_raw().into()) {
                    Some(edge) => Verdict::Edge(edge),
                    // Routes to a kind without a node for this family are refused, so this does not happen.
                    None => Verdict::Drop(Reason::Unresolved),
                }
            }
            Object::Report(cause) => {
                p.set_fwd(cause.to_raw());
                Verdict::Next(Next::Report)
            }
            // Tables, link-local routes and balances were resolved above, and a balance leads to none of
            // them.
            Object::Table(_) | Object::Balance(_) | Object::LinkLocal => Verdict::Drop(Reason::TableLoop),
        }
    }
}

/// For a route with several paths, returns the encoded forwarding object of the path that the packet's flow uses. The two
/// directions of a connection may use different paths. All fragments of a datagram use the same path.
#[inline(always)]
pub(super) fn share<A: Packets>(
    balances: &SlotReader<Buckets>,
    guard: &Guard,
    p: &Packet<'_>,
    buckets: u32,
) -> u64 {
    let hash = A::flow_hash(p.bytes()).unwrap_or(0);
    balances.get(guard, buckets).map_or(Object::Unresolved.to_word(), |b| b.word(hash))
}

/// Looks `address` up in the VRF `next`, and follows routes that lead to other VRFs. Sets `fib` to the last
/// VRF.
///
/// # Errors
/// If a VRF does not exist, or routes lead through more than [`MAX_TABLES`] VRFs, for example in a loop.
pub fn through_tables<A: Ip>(
    fibs: &Fibs<A>,
    objects: &WordReader,
    address: A::Bits,
    fib: &mut u16,
    next: u16,
) -> Result<Object, Reason> {
    follow(fibs, objects, address, fib, next, MAX_TABLES)
}

/// As [`through_tables`], for at most this number of VRFs.
#[cold]
fn follow<A: Ip>(
    fibs: &Fibs<A>,
    objects: &WordReader,
    address: A::Bits,
    fib: &mut u16,
    mut next: u16,
    most: usize,
) -> Result<Object, Reason> {
    for _ in 0..most {
        *fib = next;
        let table = fibs.get(next).ok_or(Reason::NoTable)?;
        match Object::from_word(objects.get(table.lookup(address))) {
            Object::Table(other) => next = other,
            other => return Ok(other),
        }
    }
    Err(Reason::TableLoop)
}

impl<A: Packets> FrameNode for Lookup<A> {
    const NAME: &'static str = A::NODES.lookup;
    type Next = Next;
    type Drop = Reason;
    const EDGES: &'static [&'static str] =
        &[A::NODES.rewrite, A::NODES.resolve, A::NODES.local, A::NODES.report];
    const TRACE: graph::trace::TraceFn = super::trace::lookup::<A>;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        self.leaves.fill(self.tables.fibs.get(cx.guard), frame, A::dst);
        let ways = Ways { tables: &self.tables, guard: cx.guard, to_features: true };
        out.mostly(Verdict::Next(Next::Rewrite), frame, |i, p| {
            let (address, leaf) = self.leaves.get(i);
            ways.go(p, leaf, |_| address)
        });
    }
}

/// The node for packets to a tracked destination. Their forwarding index is the object of a [track](crate::ip::Track). The node
/// treats a packet as if its destination had been looked up, with one exception: a packet for a feature's node is dropped, because
/// it may come from that node, and would loop.
pub struct Follow<A: Packets>(Forwarding<A>);

impl<A: Packets> Follow<A> {
    pub fn new(t: &Tables) -> Follow<A> {
        Follow(t.of::<A>().clone())
    }
}

impl<A: Packets> FrameNode for Follow<A> {
    const NAME: &'static str = A::NODES.follow;
    type Next = Next;
    type Drop = Reason;
    const EDGES: &'static [&'static str] = Lookup::<A>::EDGES;
    const TRACE: graph::trace::TraceFn = super::trace::lookup::<A>;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Reason>) {
        let ways = Ways { tables: &self.0, guard: cx.guard, to_features: false };
        out.mostly(Verdict::Next(Next::Rewrite), frame, |_, p| {
            let object = p.fwd();
            ways.go(p, object, |p| A::dst(p.peek()))
        });
    }
}
