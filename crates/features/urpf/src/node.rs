//! Unicast reverse path forwarding (RFC 3704): features of the unicast arc that look up the source address of a packet in the FIB.
//!
//! `ip4-rx-urpf-strict` and `ip6-rx-urpf-strict` pass a packet if a packet to its source address would leave by the receive interface
//! (section 2.2); with several paths, one of them is enough. The `loose` features pass a packet if a packet to its source address would
//! leave by any interface (section 2.4). Both look in the VRF of the receive interface, and follow routes into other VRFs. The default
//! route counts like any other route. A route does not count if it drops packets, reports them to their source, or leads to the router
//! itself, because no other station sends from such an address.
//!
//! Packets to the router itself are checked, too. But a host that has no address yet may ask for one (RFC 2131): a packet from 0.0.0.0 to
//! the limited broadcast address passes, and is never forwarded. An IPv6 packet from the unspecified address or from a link-local address
//! passes, too.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use buf::{Frame, Packet};
use graph::{Builder, Cx, FrameNode, GraphError, Out, Verdict, edges, reasons};
use infra::class_a::SlotReader;
use infra::counters::{CounterSet, Lane};
use infra::quiesce::Guard;

use net::Tables;
use net::adjacency::Adjacency;
use net::ip::{Buckets, Fibs, Forwarding, Leaves, Object, Packets, PerFamily};
use net::nodes::ip::through_tables;
use net::router::Hooks;
use net::setting::{Setting, Switch};

/// An address family whose sources can be checked.
pub trait Checked: Packets {
    /// The feature for strict mode, which requires a route to the source through the receive interface.
    const STRICT: &'static str;
    /// The feature for loose mode, which requires a route to the source through any interface.
    const LOOSE: &'static str;
}

impl Checked for Ipv4Addr {
    const STRICT: &'static str = "ip4-rx-urpf-strict";
    const LOOSE: &'static str = "ip4-rx-urpf-loose";
}

impl Checked for Ipv6Addr {
    const STRICT: &'static str = "ip6-rx-urpf-strict";
    const LOOSE: &'static str = "ip6-rx-urpf-loose";
}

/// How the source addresses of packets received on an interface are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// No check.
    #[default]
    Off,
    /// Strict mode: requires a route to the source through the receive interface.
    Strict,
    /// Loose mode: requires a route to the source through any interface.
    Loose,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 3] = [Mode::Off, Mode::Strict, Mode::Loose];

    /// Returns the mode's word in commands.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Strict => "strict",
            Mode::Loose => "loose",
        }
    }

    /// True if `feature` is one of the features that check sources.
    pub fn has(feature: &str) -> bool {
        let is =
            |mode: Mode| [mode.feature::<Ipv4Addr>(), mode.feature::<Ipv6Addr>()].contains(&Some(feature));
        Mode::ALL.into_iter().any(is)
    }

    /// Returns the feature of the unicast arc that checks sources in this mode; `None` if sources are not checked.
    pub(crate) fn feature<A: Checked>(self) -> Option<&'static str> {
        match self {
            Mode::Off => None,
            Mode::Strict => Some(A::STRICT),
            Mode::Loose => Some(A::LOOSE),
        }
    }
}

/// The modes of an interface's source checks, by address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Urpf(pub PerFamily<Mode>);

impl Setting for Urpf {
    /// Number of packets that failed the check of their source, by receive interface.
    type Counts = CounterSet<1>;
    const COUNTED: &'static str = "/feature/urpf";

    fn switches(&self) -> Vec<Switch> {
        fn of<A: Checked>(mode: Mode) -> [Switch; 2] {
            let switch = |feature, on| Switch { arc: A::NODES.unicast, feature, on };
            [switch(A::STRICT, mode == Mode::Strict), switch(A::LOOSE, mode == Mode::Loose)]
        }
        [of::<Ipv4Addr>(self.0.ip4), of::<Ipv6Addr>(self.0.ip6)].concat()
    }
}

/// Adds the strict and the loose node of an address family.
///
/// # Errors
/// Fails if address space for the table of settings cannot be reserved.
pub fn install<A: Checked>(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    let failed = hooks.setting::<Urpf>()?.counts;
    let (tables, counts) = (t.clone(), failed.clone());
    b.frame(move |s| UrpfStrict::<A>::new(&tables, &counts, s.worker));
    let (tables, counts) = (t.clone(), failed);
    b.frame(move |s| UrpfLoose::<A>::new(&tables, &counts, s.worker));
    for feature in [A::STRICT, A::LOOSE] {
        b.feature(A::NODES.unicast, feature, &[], &[]);
    }
    Ok(())
}

edges! { pub enum Next { Continue = "next-feature" } }
reasons! {
    pub enum Strict {
        NoRoute = "no-route-to-source", Warn, "the source address is unreachable: it has no route";
        Elsewhere = "source-elsewhere", Warn, "packets to the source address would leave by another interface";
    }
}
reasons! {
    pub enum Loose {
        NoRoute = "no-route-to-source", Warn, "the source address is unreachable: it has no route";
    }
}

/// Looks up the source addresses of a frame's packets.
struct Reverse<A: Packets> {
    tables: Forwarding<A>,
    leaves: Leaves<A>,
    /// Number of packets that failed the check, by receive interface.
    failed: Lane<1>,
}

impl<A: Packets> Reverse<A> {
    fn new(t: &Tables, failed: &CounterSet<1>, worker: usize) -> io::Result<Reverse<A>> {
        Ok(Reverse { tables: t.of::<A>().clone(), leaves: Leaves::new(), failed: failed.lane(worker)? })
    }

    /// Looks up the source addresses of all packets at once.
    #[inline(always)]
    fn look_up<'g>(&mut self, guard: &'g Guard, frame: &mut Frame) -> &'g Fibs<A> {
        let fibs = self.tables.fibs.get(guard);
        let fetch = fibs.ahead(frame);
        self.leaves.fill(fibs, frame, |h| {
            let source = A::src(h);
            fetch(source);
            source
        });
        fibs
    }

    /// Returns the encoded forwarding object that the lookup found for the source of packet `i`. It may lead to another VRF.
    #[inline(always)]
    fn word(&self, i: usize) -> u64 {
        self.tables.objects.get(self.leaves.get(i).1)
    }

    /// Returns the forwarding objects to which the lookup of packet `i`'s source leads, if necessary through several VRFs: one
    /// object for each path, none if a lookup fails.
    #[cold]
    fn ends<'g>(
        &self,
        guard: &'g Guard,
        fibs: &Fibs<A>,
        i: usize,
    ) -> impl Iterator<Item = Object> + use<'g, A> {
        let object = match Object::from_word(self.word(i)) {
            Object::Table(fib) => {
                through_tables(fibs, &self.tables.objects, self.leaves.get(i).0, &mut 0, fib).ok()
            }
            object => Some(object),
        };
        let (one, ways) = match object {
            Some(Object::Balance(buckets)) => {
                (None, self.tables.balances.get(guard, buckets).map(Buckets::ways))
            }
            one => (one, None),
        };
        one.into_iter().chain(ways.unwrap_or_default().iter().map(|word| Object::from_word(*word)))
    }

    /// Returns the verdict that drops a packet which fails the check, and counts the packet. `None` if the packet must pass, because its
    /// sender may have no address yet, or because its source is an IPv6 link-local address.
    #[cold]
    fn fail<D>(&mut self, p: &mut Packet<'_>, reason: D) -> Option<Verdict<Next, D>> {
        if A::stays_on_link(p.peek()) {
            return None;
        }
        self.failed.add(p.rx_if(), [1]);
        Some(Verdict::Drop(reason))
    }
}

pub(crate) struct UrpfStrict<A: Packets> {
    reverse: Reverse<A>,
    adjacencies: SlotReader<Adjacency>,
}

impl<A: Checked> UrpfStrict<A> {
    pub fn new(t: &Tables, failed: &CounterSet<1>, worker: usize) -> io::Result<UrpfStrict<A>> {
        Ok(UrpfStrict { reverse: Reverse::new(t, failed, worker)?, adjacencies: t.adjacencies.clone() })
    }
}

impl<A: Checked> FrameNode for UrpfStrict<A> {
    const NAME: &'static str = A::STRICT;
    type Next = Next;
    type Drop = Strict;
    const TRACE: graph::trace::TraceFn = A::TRACE;

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

pub(crate) struct UrpfLoose<A: Packets> {
    reverse: Reverse<A>,
}

impl<A: Checked> UrpfLoose<A> {
    pub fn new(t: &Tables, failed: &CounterSet<1>, worker: usize) -> io::Result<UrpfLoose<A>> {
        Ok(UrpfLoose { reverse: Reverse::new(t, failed, worker)? })
    }
}

impl<A: Checked> FrameNode for UrpfLoose<A> {
    const NAME: &'static str = A::LOOSE;
    type Next = Next;
    type Drop = Loose;
    const TRACE: graph::trace::TraceFn = A::TRACE;

    fn run(&mut self, cx: &mut Cx<'_>, frame: &mut Frame, out: &mut Out<'_, Next, Loose>) {
        let fibs = self.reverse.look_up(cx.guard, frame);
        let reverse = &mut self.reverse;
        out.mostly(Verdict::Next(Next::Continue), frame, |i, p| {
            if Object::adjacency(reverse.word(i)).is_some() {
                return None;
            }
            let leads = |end| matches!(end, Object::Adjacency(_) | Object::Glean(_) | Object::Feature(..));
            if reverse.ends(cx.guard, fibs, i).any(leads) { None } else { reverse.fail(p, Loose::NoRoute) }
        });
    }
}
