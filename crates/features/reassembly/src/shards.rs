//! A table of fragments, shared by the workers and the main thread.

use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard};

use infra::hash::{Seeded, bucket};

use net::ip::Packets;

use crate::fragment::Key;
use crate::waiting::{Fill, Limits, View};

/// Number of shards of a table. Each has a lock, and its share of the limits.
const SHARDS: u32 = 4;

/// What a table contains now, and how many datagrams it has completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Current contents.
    pub fill: Fill,
    /// Number of datagrams completed since the start; each [table](crate::kind::KindInfo::completed) defines
    /// which datagrams count.
    pub completed: u64,
}

/// A datagram in a table: either it waits for fragments, or its ports are known and its fragments pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramView {
    /// VRF.
    pub fib: u16,
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// IP protocol; `None` for IPv6, where not every fragment states it.
    pub protocol: Option<u8>,
    /// Identification.
    pub id: u32,
    /// Time at which the first of the datagram's fragments arrived, in nanoseconds of the monotonic clock.
    pub since: u64,
    /// Number of waiting fragments.
    pub fragments: u32,
    /// Number of buffers of the waiting fragments.
    pub buffers: u32,
    /// Source and destination port; `None` if they are not known yet, or if the table does not store ports.
    pub ports: Option<(u16, u16)>,
}

impl DatagramView {
    /// Converts a table's `view` of a datagram. `ports` are the source and destination port, if the table
    /// knows them.
    pub fn new<A: Packets, C>(view: &View<Key<A>, C>, ports: Option<(u16, u16)>) -> DatagramView {
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
            ports,
        }
    }
}

/// The main thread's operations on a shard. They are the same for all kinds of tables.
pub trait Shard: Send + 'static {
    /// Sets the limits of this shard.
    fn set_limits(&mut self, limits: Limits);
    /// Returns the shard's current contents, and how many datagrams it has completed.
    fn totals(&self) -> Totals;
    /// Returns the datagrams, the oldest first.
    fn views(&self) -> Vec<DatagramView>;
    /// Returns when the oldest datagram expires, in nanoseconds of the monotonic clock; `None` if there is no
    /// datagram.
    fn due(&self) -> Option<u64>;
    /// Removes all datagrams; frees all fragments.
    fn clear(&mut self);
}

/// A table of fragments that is split into shards.
pub struct Shards<S: Shard> {
    /// The secret seed of the hash. Without it, a sender could choose datagrams that all belong to one shard.
    seed: Seeded,
    shards: Vec<Mutex<S>>,
}

impl<S: Shard> Shards<S> {
    /// Creates the shards with `make`, each with its share of `limits`.
    pub fn new(limits: Limits, make: impl Fn(Limits) -> S) -> Shards<S> {
        let shards = (0..SHARDS).map(|_| Mutex::new(make(share(limits))));
        Shards { seed: Seeded::default(), shards: shards.collect() }
    }

    /// Locks the shard that has the datagram `key`.
    pub fn lock(&self, key: &impl Hash) -> MutexGuard<'_, S> {
        let hash = self.seed.hash_one(key);
        lock(&self.shards[bucket((hash >> 32) as u32, SHARDS) as usize])
    }

    /// Locks one shard after the other.
    pub fn each(&self) -> impl Iterator<Item = MutexGuard<'_, S>> {
        self.shards.iter().map(lock)
    }
}

fn lock<S>(shard: &Mutex<S>) -> MutexGuard<'_, S> {
    shard.lock().unwrap_or_else(|e| e.into_inner())
}

/// Returns the limits of one shard if the whole table has `limits`.
fn share(limits: Limits) -> Limits {
    Limits {
        datagrams: limits.datagrams.div_ceil(SHARDS),
        buffers: limits.buffers.div_ceil(SHARDS),
        ..limits
    }
}

impl<S: Shard> Drop for Shards<S> {
    fn drop(&mut self) {
        self.each().for_each(|mut shard| shard.clear());
    }
}

/// The main thread's operations on a whole table, for [`Shards`] of any type.
pub trait Fragments: Send + Sync {
    fn set_limits(&self, limits: Limits);
    fn totals(&self) -> Totals;
    fn views(&self) -> Vec<DatagramView>;
    fn due(&self) -> Option<u64>;
}

impl<S: Shard> Fragments for Shards<S> {
    fn set_limits(&self, limits: Limits) {
        self.each().for_each(|mut shard| shard.set_limits(share(limits)));
    }

    fn totals(&self) -> Totals {
        let mut all = Totals::default();
        for shard in self.each() {
            let Totals { fill, completed } = shard.totals();
            all.fill.datagrams += fill.datagrams;
            all.fill.fragments += fill.fragments;
            all.fill.buffers += fill.buffers;
            all.completed += completed;
        }
        all
    }

    fn views(&self) -> Vec<DatagramView> {
        let mut all: Vec<DatagramView> = self.each().flat_map(|shard| shard.views()).collect();
        all.sort_by_key(|v| v.since);
        all
    }

    fn due(&self) -> Option<u64> {
        self.each().filter_map(|shard| shard.due()).min()
    }
}
