//! The tables as workers and main thread share them.

use std::hash::BuildHasher;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};

use buf::Held;
use infra::hash::{Seeded, bucket};

use super::Key;
use super::ports::{Ports, PortsOf};
use super::table::Datagrams;
use super::waiting::{Fill, Limits, View};

/// Locks of a table, each with its share of the limits.
const SHARDS: u32 = 4;
const SECOND: u64 = 1_000_000_000;
/// Reassembly: time out of RFC 791 and RFC 1122 section 3.3.2 are 15 s and 60 s; this is between the two. The largest
/// datagram comes in 119 fragments over links of 576 bytes.
const FULL: Limits = Limits { datagrams: 1024, fragments: 128, buffers: 2048, timeout: 30 * SECOND };
/// Shallow virtual reassembly: fragments come close to each other, or in vain, and there are many more datagrams.
const SHALLOW: Limits = Limits { datagrams: 8192, fragments: 128, buffers: 2048, timeout: 3 * SECOND };

/// One of the two kinds of reassembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Datagrams for this router become whole.
    Full,
    /// Fragments that are forwarded learn the ports of the first.
    Shallow,
}

impl Kind {
    /// The limits without regard to how many buffers there are.
    pub fn defaults(self) -> Limits {
        match self {
            Kind::Full => FULL,
            Kind::Shallow => SHALLOW,
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
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// IP protocol.
    pub protocol: u8,
    /// Identification.
    pub id: u16,
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
    fn new<C>(view: &View<C>, ports: Option<Ports>) -> DatagramView {
        let Key { addresses, rest } = view.key;
        DatagramView {
            fib: (rest >> 32) as u16,
            src: Ipv4Addr::from_bits((addresses >> 32) as u32),
            dst: Ipv4Addr::from_bits(addresses as u32),
            protocol: (rest >> 16) as u8,
            id: rest as u16,
            since: view.since,
            fragments: view.fill.fragments,
            buffers: view.fill.buffers,
            ports: ports.map(|p| (p.src, p.dst)),
        }
    }
}

/// A table in shards.
pub(super) struct Shards<S> {
    /// Secret, so that nobody can choose datagrams that share one lock and its limits.
    seed: Seeded,
    shards: Vec<Mutex<S>>,
}

impl<S> Shards<S> {
    fn new(make: impl Fn() -> S) -> Shards<S> {
        Shards { seed: Seeded::default(), shards: (0..SHARDS).map(|_| Mutex::new(make())).collect() }
    }

    /// The shard that has what is known of a datagram.
    pub(super) fn lock(&self, key: &Key) -> MutexGuard<'_, S> {
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

/// Both tables. Clones are the same tables.
#[derive(Clone)]
pub struct Reassembly(Arc<Inner>);

struct Inner {
    full: Shards<Datagrams<Held>>,
    shallow: Shards<PortsOf<Held>>,
    limits: Mutex<[Limits; 2]>,
}

impl Default for Reassembly {
    fn default() -> Reassembly {
        Reassembly(Arc::new(Inner {
            full: Shards::new(|| Datagrams::new(share(FULL))),
            shallow: Shards::new(|| PortsOf::new(share(SHALLOW))),
            limits: Mutex::new([FULL, SHALLOW]),
        }))
    }
}

impl Reassembly {
    pub(super) fn full(&self) -> &Shards<Datagrams<Held>> {
        &self.0.full
    }

    pub(super) fn shallow(&self) -> &Shards<PortsOf<Held>> {
        &self.0.shallow
    }

    /// The limits of one kind.
    pub fn limits(&self, kind: Kind) -> Limits {
        lock(&self.0.limits)[kind as usize]
    }

    /// Sets the limits of one kind. A shard, of which there are four, has its share of them; what is too much already goes
    /// with the next fragment that comes to it.
    pub fn set_limits(&self, kind: Kind, limits: Limits) {
        lock(&self.0.limits)[kind as usize] = limits;
        match kind {
            Kind::Full => self.0.full.each().for_each(|mut s| s.set_limits(share(limits))),
            Kind::Shallow => self.0.shallow.each().for_each(|mut s| s.set_limits(share(limits))),
        }
    }

    /// Whether some datagram has waited too long at `now`.
    pub fn is_due(&self, now: u64) -> bool {
        let full = self.0.full.each().filter_map(|s| s.due());
        full.chain(self.0.shallow.each().filter_map(|s| s.due())).any(|due| due <= now)
    }

    /// How much of one kind there is and was.
    pub fn totals(&self, kind: Kind) -> Totals {
        let shards: Vec<Totals> = match kind {
            Kind::Full => {
                let totals =
                    |s: MutexGuard<'_, Datagrams<Held>>| Totals { fill: s.fill(), completed: s.completed() };
                self.0.full.each().map(totals).collect()
            }
            Kind::Shallow => {
                let totals =
                    |s: MutexGuard<'_, PortsOf<Held>>| Totals { fill: s.fill(), completed: s.learned() };
                self.0.shallow.each().map(totals).collect()
            }
        };
        shards.iter().fold(Totals::default(), |a, b| Totals {
            fill: Fill {
                datagrams: a.fill.datagrams + b.fill.datagrams,
                fragments: a.fill.fragments + b.fill.fragments,
                buffers: a.fill.buffers + b.fill.buffers,
            },
            completed: a.completed + b.completed,
        })
    }

    /// The datagrams of one kind, the oldest first.
    pub fn views(&self, kind: Kind) -> Vec<DatagramView> {
        let mut all: Vec<DatagramView> = match kind {
            Kind::Full => {
                let of = |s: MutexGuard<'_, Datagrams<Held>>| -> Vec<DatagramView> {
                    s.views().map(|v| DatagramView::new(&v, None)).collect()
                };
                self.0.full.each().flat_map(of).collect()
            }
            Kind::Shallow => {
                let of = |s: MutexGuard<'_, PortsOf<Held>>| -> Vec<DatagramView> {
                    s.views().map(|v| DatagramView::new(&v, v.state)).collect()
                };
                self.0.shallow.each().flat_map(of).collect()
            }
        };
        all.sort_by_key(|v| v.since);
        all
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.full.each().for_each(|mut s| s.clear(Held::discard));
        self.shallow.each().for_each(|mut s| s.clear(Held::discard));
    }
}
