//! Unicast reverse path forwarding (RFC 3704): features of the unicast arc that ask whether a packet can have come from where
//! it says.
//!
//! `ip4-rx-urpf-strict` lets a packet pass if packets to its source would leave by the interface that it came in by (section
//! 2.2; one of several ways will do), `ip4-rx-urpf-loose` if they would leave at all (section 2.4). Both look in the VRF of the interface, and follow routes
//! into other VRFs. The default route counts, as any other. A route that drops or reports does not, nor does one that leads to
//! the router itself: nobody else sends from there.
//!
//! Packets to the router itself are checked, too. A host that has no address yet may ask for one (RFC 2131): a packet from
//! 0.0.0.0 to the limited broadcast passes, and is never forwarded.

use std::io;
use std::net::Ipv4Addr;

use buf::{Frame, Packet};
use graph::{Builder, Cx, FrameNode, Out, Verdict, edges, reasons};
use infra::class_a::{Reader, SlotReader, WordReader};
use infra::counters::Lane;
use infra::quiesce::Guard;
use wire::ipv4::{self, Ipv4Header};

use super::lookup::{Fibs, Leaves, through_tables};
use super::reassembly::SHALLOW;
use super::{Buckets, Object};
use crate::Tables;
use crate::adjacency::Adjacency;

const STRICT: &str = "ip4-rx-urpf-strict";
const LOOSE: &str = "ip4-rx-urpf-loose";

/// Whether the sources of packets that come in by an interface are checked, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Urpf {
    /// They are not.
    #[default]
    Off,
    /// Packets to the source would leave by this interface.
    Strict,
    /// Packets to the source would leave by some interface.
    Loose,
}

impl Urpf {
    /// All of them.
    pub const ALL: [Urpf; 3] = [Urpf::Off, Urpf::Strict, Urpf::Loose];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Urpf::Off => "off",
            Urpf::Strict => "strict",
            Urpf::Loose => "loose",
        }
    }

    /// The mode of this word.
    pub fn parse(word: &str) -> Option<Urpf> {
        Urpf::ALL.into_iter().find(|mode| mode.word() == word)
    }

    /// Whether a feature of an arc is one of these: they are set by mode.
    pub fn has(feature: &str) -> bool {
        Urpf::ALL.into_iter().any(|mode| mode.feature() == Some(feature))
    }

    /// The arc of the features.
    pub(crate) const ARC: &str = "ip4-unicast";

    /// The feature that does it.
    pub(crate) fn feature(self) -> Option<&'static str> {
        match self {
            Urpf::Off => None,
            Urpf::Strict => Some(STRICT),
            Urpf::Loose => Some(LOOSE),
        }
    }
}

/// Adds both nodes. Who is not let in takes no room among the fragments that wait, and is not counted.
pub(super) fn install(b: &mut Builder, t: &Tables) {
    let tables = t.clone();
    b.frame(move |s| Ip4UrpfStrict::new(&tables, s.worker));
    let tables = t.clone();
    b.frame(move |s| Ip4UrpfLoose::new(&tables, s.worker));
    for feature in [STRICT, LOOSE] {
        b.feature(Urpf::ARC, feature, &[], &[SHALLOW, "ip4-count"]);
    }
}

edges! { pub enum Next { Continue = "next-feature" } }
reasons! {
    pub enum Strict {
        NoRoute = "no-route-to-source", Warn, "no packet could be sent to the source address: no route leads there";
        Elsewhere = "source-elsewhere", Warn, "packets to the source address would leave by another interface";
    }
}
reasons! {
    pub enum Loose {
        NoRoute = "no-route-to-source", Warn, "no packet could be sent to the source address: no route leads there";
    }
}

/// Where packets to the sources of a frame would go.
struct Reverse {
    fibs: Reader<Fibs<Ipv4Addr>>,
    objects: WordReader,
    balances: SlotReader<Buckets>,
    leaves: Leaves,
    /// Packets that failed, by receive interface.
    failed: Lane<1>,
}

impl Reverse {
    fn new(t: &Tables, worker: usize) -> io::Result<Reverse> {
        let (fibs, objects, balances) = (t.fibs.clone(), t.objects.clone(), t.balances.clone());
        Ok(Reverse { fibs, objects, balances, leaves: Leaves::new(), failed: t.urpf.lane(worker)? })
    }

    /// Looks all sources up at once.
    #[inline(always)]
    fn look_up<'g>(&mut self, guard: &'g Guard, frame: &mut Frame) -> &'g Fibs<Ipv4Addr> {
        let fibs = self.fibs.get(guard);
        self.leaves.fill(fibs, frame, Ipv4Header::src_u32);
        fibs
    }

    /// What would become of packets to the source of packet `i`: a word, which may name another VRF.
    #[inline(always)]
    fn word(&self, i: usize) -> u64 {
        self.objects.get(self.leaves.get(i).1)
    }

    /// The same, to its ends: several where packets may go several ways; none where there is no end.
    #[cold]
    fn ends<'g>(
        &self,
        guard: &'g Guard,
        fibs: &Fibs<Ipv4Addr>,
        i: usize,
    ) -> impl Iterator<Item = Object> + use<'g> {
        let object = match Object::from_word(self.word(i)) {
            Object::Table(fib) => through_tables(fibs, &self.objects, self.leaves.get(i).0, fib).ok(),
            object => Some(object),
        };
        let (one, ways) = match object {
            Some(Object::Balance(buckets)) => (None, self.balances.get(guard, buckets).map(Buckets::ways)),
            one => (one, None),
        };
        one.into_iter().chain(ways.unwrap_or_default().iter().map(|word| Object::from_word(*word)))
    }

    /// Drops a packet, unless its host has no address yet.
    #[cold]
    fn fail<D>(&mut self, p: &mut Packet<'_>, reason: D) -> Option<Verdict<Next, D>> {
        let h = p.peek::<Ipv4Header>();
        if ipv4::is_unspecified(h.src_u32()) && ipv4::is_broadcast(h.dst_u32()) {
            return None;
        }
        self.failed.add(p.rx_if(), [1]);
        Some(Verdict::Drop(reason))
    }
}

pub struct Ip4UrpfStrict {
    reverse: Reverse,
    adjacencies: SlotReader<Adjacency>,
}

impl Ip4UrpfStrict {
    pub fn new(t: &Tables, worker: usize) -> io::Result<Ip4UrpfStrict> {
        Ok(Ip4UrpfStrict { reverse: Reverse::new(t, worker)?, adjacencies: t.adjacencies.clone() })
    }
}

impl FrameNode for Ip4UrpfStrict {
    const NAME: &'static str = STRICT;
    type Next = Next;
    type Drop = Strict;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Strict>) {
        let fibs = self.reverse.look_up(cx.guard, frame);
        let by = |adjacency| self.adjacencies.get(cx.guard, adjacency).map(|a| a.interface);
        let reverse = &mut self.reverse;
        out.mostly(Verdict::Next(Next::Continue), frame, |i, p| {
            let from = Some(p.rx_if());
            if Object::adjacency(reverse.word(i)).is_some_and(|a| by(a) == from) {
                return None;
            }
            let mut leaves_by = reverse.ends(cx.guard, fibs, i).filter_map(|end| match end {
                Object::Adjacency(adjacency) => by(adjacency),
                Object::Glean(interface) => Some(interface),
                _ => None,
            });
            match leaves_by.next() {
                None => reverse.fail(p, Strict::NoRoute),
                to if to == from || leaves_by.any(|to| Some(to) == from) => None,
                Some(_) => reverse.fail(p, Strict::Elsewhere),
            }
        });
    }
}

pub struct Ip4UrpfLoose {
    reverse: Reverse,
}

impl Ip4UrpfLoose {
    pub fn new(t: &Tables, worker: usize) -> io::Result<Ip4UrpfLoose> {
        Ok(Ip4UrpfLoose { reverse: Reverse::new(t, worker)? })
    }
}

impl FrameNode for Ip4UrpfLoose {
    const NAME: &'static str = LOOSE;
    type Next = Next;
    type Drop = Loose;
    const TRACE: graph::trace::TraceFn = crate::trace::ip4;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Loose>) {
        let fibs = self.reverse.look_up(cx.guard, frame);
        let reverse = &mut self.reverse;
        out.mostly(Verdict::Next(Next::Continue), frame, |i, p| {
            if Object::adjacency(reverse.word(i)).is_some() {
                return None;
            }
            let leads = |end| matches!(end, Object::Adjacency(_) | Object::Glean(_));
            if reverse.ends(cx.guard, fibs, i).any(leads) { None } else { reverse.fail(p, Loose::NoRoute) }
        });
    }
}
