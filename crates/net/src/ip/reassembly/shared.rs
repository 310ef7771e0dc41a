//! The tables as workers and main thread share them.

use std::hash::{BuildHasher, Hash};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};

use buf::Held;
use infra::hash::{Seeded, bucket};

use super::family::Fragmented;
use super::ports::{Ports, PortsOf};
use super::table::Datagrams;
use super::waiting::{Fill, Limits, View};
use super::{Key, SHALLOW as SHALLOW4};

/// Locks of a table, each with its share of the limits.
const SHARDS: u32 = 4;
const SECOND: u64 = 1_000_000_000;
/// Reassembly: the times of RFC 791 and RFC 1122 section 3.3.2 are 15 s and 60 s; this is between the two. The largest
/// datagram comes in 119 fragments over links of 576 bytes.
const FULL4: Limits = Limits { datagrams: 1024, fragments: 128, buffers: 2048, timeout: 30 * SECOND };
/// The time of RFC 8200 section 4.5.
const FULL6: Limits = Limits { timeout: 60 * SECOND, ..FULL4 };
/// Shallow virtual reassembly: fragments come close to each other, or in vain, and there are many more datagrams.
const SHALLOW: Limits = Limits { datagrams: 8192, fragments: 128, buffers: 2048, timeout: 3 * SECOND };

/// One of the kinds of reassembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// IPv4 datagrams for this router become whole.
    Full4,
    /// IPv6 datagrams for this router become whole.
    Full6,
    /// Fragments of IPv4 that are forwarded learn the ports of the first.
    Shallow4,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Full4, Kind::Full6, Kind::Shallow4];

    /// The name of the node that does it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Full4 => Ipv4Addr::FULL,
            Kind::Full6 => Ipv6Addr::FULL,
            Kind::Shallow4 => SHALLOW4,
        }
    }

    /// The limits without regard to how many buffers there are.
    pub fn defaults(self) -> Limits {
        match self {
            Kind::Full4 => FULL4,
            Kind::Full6 => FULL6,
            Kind::Shallow4 => SHALLOW,
        }
    }
}

/// How much of one kind there is and was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// What there is now.
    pub fill: Fill,
    /// Datagrams that became whole, or whose ports became known, since the start.
    pub completed: u64,
}

/// A datagram of which not all fragments have come, or whose fragments are let pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramView {
    /// VRF.
    pub fib: u16,
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// IP protocol, where every fragment says it: in IPv4.
    pub protocol: Option<u8>,
    /// Identification.
    pub id: u32,
    /// When its first fragment came: nanoseconds of the monotonic clock.
    pub since: u64,
    /// Fragments that wait.
    pub fragments: u32,
    /// Buffers in these.
    pub buffers: u32,
    /// Source and destination port, where they are known.
    pub ports: Option<(u16, u16)>,
}

impl DatagramView {
    fn new<A: Fragmented, C>(view: &View<Key<A>, C>, ports: Option<Ports>) -> DatagramView {
        let key = &view.key;
        let address = |scoped| -> IpAddr { A::from_bits(A::unscoped(scoped).0).into() };
        let src = address(key.src);
        DatagramView {
            fib: key.fib(),
            src,
            dst: address(key.dst),
            protocol: src.is_ipv4().then_some(key.protocol()),
            id: key.id(),
            since: view.since,
            fragments: view.fill.fragments,
            buffers: view.fill.buffers,
            ports: ports.map(|p| (p.src, p.dst)),
        }
    }
}

/// What the main thread asks of a shard, whatever is in it.
trait Shard {
    fn set_limits(&mut self, limits: Limits);
    fn totals(&self) -> Totals;
    fn views(&self) -> Vec<DatagramView>;
    fn clear(&mut self);
}

impl<A: Fragmented> Shard for Datagrams<Key<A>, Held> {
    fn set_limits(&mut self, limits: Limits) {
        Datagrams::set_limits(self, limits);
    }

    fn totals(&self) -> Totals {
        Totals { fill: self.fill(), completed: self.completed() }
    }

    fn views(&self) -> Vec<DatagramView> {
        Datagrams::views(self).map(|v| DatagramView::new(&v, None)).collect()
    }

    fn clear(&mut self) {
        Datagrams::clear(self, Held::discard);
    }
}

impl<A: Fragmented> Shard for PortsOf<Key<A>, Held> {
    fn set_limits(&mut self, limits: Limits) {
        PortsOf::set_limits(self, limits);
    }

    fn totals(&self) -> Totals {
        Totals { fill: self.fill(), completed: self.learned() }
    }

    fn views(&self) -> Vec<DatagramView> {
        PortsOf::views(self).map(|v| DatagramView::new(&v, v.state)).collect()
    }

    fn clear(&mut self) {
        PortsOf::clear(self, Held::discard);
    }
}

/// A table in shards.
pub struct Shards<S> {
    /// Secret, so that nobody can choose datagrams that share one lock and its limits.
    seed: Seeded,
    shards: Vec<Mutex<S>>,
}

impl<S> Shards<S> {
    fn new(make: impl Fn() -> S) -> Shards<S> {
        Shards { seed: Seeded::default(), shards: (0..SHARDS).map(|_| Mutex::new(make())).collect() }
    }

    /// The shard that has what is known of a datagram.
    pub(super) fn lock(&self, key: &impl Hash) -> MutexGuard<'_, S> {
        let hash = self.seed.hash_one(key);
        lock(&self.shards[bucket((hash >> 32) as u32, SHARDS) as usize])
    }

    /// All shards, one after the other.
    pub(super) fn each(&self) -> impl Iterator<Item = MutexGuard<'_, S>> {
        self.shards.iter().map(lock)
    }
}

fn lock<S>(shard: &Mutex<S>) -> MutexGuard<'_, S> {
    shard.lock().unwrap_or_else(|e| e.into_inner())
}

/// The share of one shard.
fn share(limits: Limits) -> Limits {
    Limits {
        datagrams: limits.datagrams.div_ceil(SHARDS),
        buffers: limits.buffers.div_ceil(SHARDS),
        ..limits
    }
}

/// All tables. Clones are the same tables.
#[derive(Clone)]
pub struct Reassembly(Arc<Inner>);

struct Inner {
    full4: Shards<Datagrams<Key<Ipv4Addr>, Held>>,
    full6: Shards<Datagrams<Key<Ipv6Addr>, Held>>,
    shallow4: Shards<PortsOf<Key<Ipv4Addr>, Held>>,
    limits: Mutex<[Limits; Kind::ALL.len()]>,
}

impl Default for Reassembly {
    fn default() -> Reassembly {
        Reassembly(Arc::new(Inner {
            full4: Shards::new(|| Datagrams::new(share(FULL4))),
            full6: Shards::new(|| Datagrams::new(share(FULL6))),
            shallow4: Shards::new(|| PortsOf::new(share(SHALLOW))),
            limits: Mutex::new(Kind::ALL.map(Kind::defaults)),
        }))
    }
}

impl Inner {
    fn each(&self, kind: Kind, mut what: impl FnMut(&mut dyn Shard)) {
        match kind {
            Kind::Full4 => self.full4.each().for_each(|mut s| what(&mut *s)),
            Kind::Full6 => self.full6.each().for_each(|mut s| what(&mut *s)),
            Kind::Shallow4 => self.shallow4.each().for_each(|mut s| what(&mut *s)),
        }
    }
}

impl Reassembly {
    pub(super) fn full4(&self) -> &Shards<Datagrams<Key<Ipv4Addr>, Held>> {
        &self.0.full4
    }

    pub(super) fn full6(&self) -> &Shards<Datagrams<Key<Ipv6Addr>, Held>> {
        &self.0.full6
    }

    pub(super) fn shallow4(&self) -> &Shards<PortsOf<Key<Ipv4Addr>, Held>> {
        &self.0.shallow4
    }

    /// The limits of one kind.
    pub fn limits(&self, kind: Kind) -> Limits {
        lock(&self.0.limits)[kind as usize]
    }

    /// Sets the limits of one kind. A shard, of which there are four, has its share of them; what is too much already goes
    /// with the next fragment that comes to it.
    pub fn set_limits(&self, kind: Kind, limits: Limits) {
        lock(&self.0.limits)[kind as usize] = limits;
        self.0.each(kind, |shard| shard.set_limits(share(limits)));
    }

    /// Whether some datagram of a family has waited too long at `now`.
    pub(crate) fn is_due<A: Fragmented>(&self, now: u64) -> bool {
        let full = A::full(self).each().filter_map(|s| s.due());
        let shallow = A::shallow(self).into_iter().flat_map(Shards::each).filter_map(|s| s.due());
        full.chain(shallow).any(|due| due <= now)
    }

    /// How much of one kind there is and was.
    pub fn totals(&self, kind: Kind) -> Totals {
        let mut all = Totals::default();
        self.0.each(kind, |shard| {
            let Totals { fill, completed } = shard.totals();
            all.fill.datagrams += fill.datagrams;
            all.fill.fragments += fill.fragments;
            all.fill.buffers += fill.buffers;
            all.completed += completed;
        });
        all
    }

    /// The datagrams of one kind, the oldest first.
    pub fn views(&self, kind: Kind) -> Vec<DatagramView> {
        let mut all = Vec::new();
        self.0.each(kind, |shard| all.extend(shard.views()));
        all.sort_by_key(|v| v.since);
        all
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        Kind::ALL.into_iter().for_each(|kind| self.each(kind, |shard| shard.clear()));
    }
}
