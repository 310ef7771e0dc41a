//! The bridge domains of a router: their ports, and the table of MAC addresses that they share.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use infra::class_a::{SlotReader, SlotWriter, slots};
use infra::class_b::{self, Inserted, Map, Owner};
use infra::quiesce::Domain as Readers;
use net::router::RouterError;
use net::setting::{Setting, Switch};
use wire::Mac;

use super::mac::{self, DOMAINS, Kind, Place};

/// Number of addresses for which the table has room at first.
const FIRST: usize = 1024;
/// Maximum size of the table in bytes. This is enough for 10 million addresses.
const MOST_BYTES: usize = 512 << 20;
/// Number of flushes of one domain or port after which all void entries are removed at once: before an epoch returns, none of its entries may
/// be left.
const MOST_FLUSHES: u32 = 200;
/// Number of steps in which the whole table is looked through.
const STEPS: usize = 100;
/// Maximum number of lines of a step.
const MOST_LINES: usize = 4096;
/// Time between two of these steps, in nanoseconds. If the steps are shorter, there are more.
const STEP: u64 = 100_000_000;
/// Longest time to wait for workers before the table grows further, because a configured entry needs room.
const PATIENCE: Duration = Duration::from_millis(100);
/// Time between two steps of the table's growth, in nanoseconds.
const GROWTH: u64 = 1_000_000;
/// Number of lines whose entries move to the larger table in one step.
const LINES: usize = 4096;

/// A port of a bridge domain, as a setting of its interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgePort {
    /// The domain's index. 0 is no domain.
    pub(crate) domain: u32,
    /// The split-horizon group: no frame goes from a port of a group to another port of it. 0 is no group.
    pub group: u8,
    /// True if source addresses are learned.
    pub learn: bool,
    /// True if frames to a known station are sent to its port. If not, they are flooded.
    pub forward: bool,
    /// True if the port's frames are flooded.
    pub flood: bool,
    pub(crate) epoch: u8,
}

impl BridgePort {
    /// A port that learns, forwards and floods.
    pub const PLAIN: BridgePort =
        BridgePort { domain: 0, group: 0, learn: true, forward: true, flood: true, epoch: 0 };
}

impl Setting for BridgePort {
    type Counts = ();
    const COUNTED: &'static str = "/feature/l2-bridge";

    fn switches(&self) -> Vec<Switch> {
        Vec::new()
    }
}

/// What a bridge domain does with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// True if source addresses are learned.
    pub learn: bool,
    /// True if frames to a known station are sent to its port only.
    pub forward: bool,
    /// True if frames to groups are flooded.
    pub flood: bool,
    /// True if frames to unknown stations are flooded.
    pub unknown: bool,
    /// Time in seconds after which a learned address that is not heard any more is forgotten. 0 is never.
    pub age: u16,
    /// Maximum number of learned addresses.
    pub limit: u32,
}

/// A bridge domain, for the workers.
#[derive(Debug)]
pub(crate) struct Domain {
    pub learn: bool,
    pub forward: bool,
    pub flood: bool,
    pub unknown: bool,
    pub age: u16,
    pub epoch: u8,
    limit: usize,
    /// Number of learned addresses, and of those that are being learned.
    learned: Arc<AtomicUsize>,
    /// The ports: their interfaces and split-horizon groups.
    pub members: Box<[(u32, u8)]>,
}

/// What the workers share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub macs: Map,
    pub domains: SlotReader<Domain>,
}

impl Shared {
    /// Takes room for one more address of a domain. Returns false if there is none.
    pub(crate) fn may_learn(&self, domain: &Domain) -> bool {
        let more = |learned: usize| (learned < domain.limit).then_some(learned + 1);
        domain.learned.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Returns the room of an address that was not learned, or was forgotten.
    pub(crate) fn forget(&self, domain: &Domain) {
        domain.learned.fetch_sub(1, Relaxed);
    }
}

/// The epoch of a domain or of a port.
#[derive(Clone, Copy, Default)]
struct Epoch {
    now: u8,
    /// Number of flushes since all void entries were removed, and in the present pass.
    flushes: [u32; 2],
}

impl Epoch {
    /// Begins the next epoch. Returns true if void entries must be removed, because an epoch will return.
    fn next(&mut self) -> bool {
        self.now = self.now.wrapping_add(1);
        self.flushes.iter_mut().for_each(|n| *n += 1);
        self.flushes[0] >= MOST_FLUSHES
    }
}

/// A bridge domain, for the main thread.
struct Known {
    index: u32,
    policy: Policy,
    epoch: Epoch,
    learned: Arc<AtomicUsize>,
    /// The split-horizon groups of the ports, by interface.
    members: BTreeMap<u32, u8>,
}

/// All bridge domains: a state of the router.
pub(crate) struct Bridges {
    shared: Shared,
    owner: Owner,
    domains: SlotWriter<Domain>,
    by_id: BTreeMap<u32, Known>,
    ids: BTreeMap<u32, u32>,
    free: BTreeSet<u32>,
    /// Indexes of removed domains, and the pass through the table in which they were removed.
    leaving: Vec<(u32, u64)>,
    /// The epochs of all interfaces that were ports.
    epochs: BTreeMap<u32, Epoch>,
    /// Number of passes through the table that have ended.
    passes: u64,
    /// The next line to look at, and the table's generation when the pass began.
    line: usize,
    generation: u64,
    /// The time of the next step, in nanoseconds of the monotonic clock.
    next: u64,
}

/// An entry of the MAC table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub bd: u32,
    pub mac: Mac,
    pub place: Place,
}

impl Bridges {
    pub(crate) fn new(readers: &Readers) -> io::Result<Bridges> {
        let (owner, macs) = class_b::map(readers, FIRST)?;
        let (domains, reader) = slots(readers, DOMAINS)?;
        Ok(Bridges {
            shared: Shared { macs, domains: reader },
            owner,
            domains,
            by_id: BTreeMap::new(),
            ids: BTreeMap::new(),
            free: (1..DOMAINS).collect(),
            leaving: Vec::new(),
            epochs: BTreeMap::new(),
            passes: 0,
            line: 0,
            generation: 0,
            next: 0,
        })
    }

    pub(crate) fn shared(&self) -> Shared {
        self.shared.clone()
    }

    /// Makes a domain, or changes its policy. `now` is in nanoseconds of the monotonic clock.
    ///
    /// # Errors
    /// If there are too many domains.
    pub(crate) fn set(&mut self, id: u32, policy: Policy, now: u64) -> Result<(), RouterError> {
        let lasts_longer = |age: u16| age != 0 && (policy.age == 0 || policy.age > age);
        if self.by_id.get(&id).is_some_and(|known| lasts_longer(known.policy.age)) {
            // Entries that are too old now must not come back.
            self.sweep(0..self.owner.lines(), Some(mac::second(now)));
        }
        if let Some(known) = self.by_id.get_mut(&id) {
            known.policy = policy;
            return self.publish(id);
        }
        let Some(index) = self.free.pop_first() else {
            let most = DOMAINS - 1;
            return Err(RouterError::new(format!(
                "there are {most} bridge domains, the maximum, with those that were removed in the last minute"
            )));
        };
        let known = Known {
            index,
            policy,
            epoch: Epoch::default(),
            learned: Arc::default(),
            members: BTreeMap::new(),
        };
        self.by_id.insert(id, known);
        self.ids.insert(index, id);
        self.publish(id)
    }

    /// Removes a domain, which has no ports.
    pub(crate) fn remove(&mut self, id: u32) {
        let Some(known) = self.by_id.remove(&id) else { return };
        self.domains.remove(known.index);
        self.ids.remove(&known.index);
        // Its entries are removed in the next passes through the table.
        self.leaving.push((known.index, self.passes));
    }

    /// Adds an interface to a domain, or changes the port. Returns the port with the domain's index and its epoch.
    ///
    /// # Errors
    /// If there is no such domain.
    pub(crate) fn join(
        &mut self,
        id: u32,
        interface: u32,
        port: BridgePort,
    ) -> Result<BridgePort, RouterError> {
        let Some(known) = self.by_id.get_mut(&id) else {
            return Err(RouterError::new(format!("there is no bridge domain {id}")));
        };
        known.members.insert(interface, port.group);
        let domain = known.index;
        let epoch = self.epoch(interface);
        self.publish(id)?;
        Ok(BridgePort { domain, epoch, ..port })
    }

    /// Removes an interface from its domain.
    pub(crate) fn leave(&mut self, port: BridgePort, interface: u32) {
        let Some(&id) = self.ids.get(&port.domain) else { return };
        if let Some(known) = self.by_id.get_mut(&id) {
            known.members.remove(&interface);
        }
        // Publishing fails only for want of memory for a new index.
        let _ = self.publish(id);
        self.next_epoch(interface);
    }

    fn publish(&mut self, id: u32) -> Result<(), RouterError> {
        let Some(Known { index, policy, epoch, learned, members }) = self.by_id.get(&id) else {
            return Ok(());
        };
        let Policy { learn, forward, flood, unknown, age, limit } = *policy;
        let domain = Domain {
            learn,
            forward,
            flood,
            unknown,
            age,
            epoch: epoch.now,
            limit: limit as usize,
            learned: Arc::clone(learned),
            members: members.iter().map(|(interface, group)| (*interface, *group)).collect(),
        };
        Ok(self.domains.set(*index, domain)?)
    }

    /// The epoch of an interface.
    pub(crate) fn epoch(&self, interface: u32) -> u8 {
        self.epochs.get(&interface).copied().unwrap_or_default().now
    }

    /// Forgets the learned addresses of an interface. Returns its new epoch, for its [port](BridgePort).
    pub(crate) fn next_epoch(&mut self, interface: u32) -> u8 {
        if self.epochs.entry(interface).or_default().next() {
            self.remove_void();
        }
        self.epoch(interface)
    }

    /// Forgets the learned addresses of a domain.
    pub(crate) fn flush(&mut self, id: u32) {
        if self.by_id.get_mut(&id).is_some_and(|known| known.epoch.next()) {
            self.remove_void();
        }
        let _ = self.publish(id);
    }

    /// Forgets the learned addresses of all domains.
    pub(crate) fn flush_all(&mut self) {
        let ids: Vec<u32> = self.by_id.keys().copied().collect();
        ids.into_iter().for_each(|id| self.flush(id));
    }

    /// Removes all entries of earlier epochs.
    fn remove_void(&mut self) {
        self.sweep(0..self.owner.lines(), None);
        self.all_epochs(|epoch| epoch.flushes = [0; 2]);
    }

    fn all_epochs(&mut self, change: impl FnMut(&mut Epoch)) {
        self.by_id
            .values_mut()
            .map(|known| &mut known.epoch)
            .chain(self.epochs.values_mut())
            .for_each(change);
    }

    fn tend(&mut self) -> bool {
        let Bridges { owner, domains, .. } = self;
        let lost = |key: u64, value: u64| forgotten(domains, key, value);
        // Without memory, the table keeps its size.
        owner.tend(LINES, MOST_BYTES, lost).unwrap_or(false)
    }

    /// Removes the void entries of these lines. `now` is the time, if ages count.
    fn sweep(&mut self, lines: std::ops::Range<usize>, now: Option<u16>) {
        let Bridges { owner, domains, epochs, by_id, ids, .. } = self;
        let is_void = |key: u64, value: u64| {
            let (Some(domain), place) = (domains.get(mac::split(key).0), Place::of(value)) else {
                return true;
            };
            let port = epochs.get(&place.port).copied().unwrap_or_default();
            // An epoch that begins now is not published yet.
            let known = ids.get(&mac::split(key).0).and_then(|id| by_id.get(id));
            let epoch = mac::epoch(known.map_or(domain.epoch, |known| known.epoch.now), port.now);
            let age = if now.is_some() { domain.age } else { 0 };
            place.is_void(epoch, age, now.unwrap_or_default())
        };
        let void: Vec<_> = owner.entries(lines).filter(|(key, value)| is_void(*key, *value)).collect();
        for (key, value) in void {
            if owner.remove(key, value) {
                forgotten(domains, key, value);
            }
        }
    }

    /// Does the work of now and then: removes void entries, and makes the table larger. Returns the time of the next call.
    pub(crate) fn turn(&mut self, now: u64) -> Option<u64> {
        if self.tend() {
            return Some(now + GROWTH);
        }
        if self.by_id.is_empty() && self.owner.is_empty() && self.leaving.is_empty() {
            return None;
        }
        if now < self.next {
            return Some(self.next);
        }
        let all = self.owner.lines();
        if self.line == 0 {
            self.generation = self.owner.generation();
        }
        let wanted = all.div_ceil(STEPS);
        let lines = wanted.min(MOST_LINES);
        self.next = now + STEP * lines as u64 / wanted as u64;
        let end = (self.line + lines).min(all);
        self.sweep(self.line..end, Some(mac::second(now)));
        self.line = end;
        if end == all {
            self.line = 0;
            // If the table grew meanwhile, entries may have moved to lines that were looked at before.
            if self.generation == self.owner.generation() {
                self.end_pass();
            }
        }
        Some(self.next)
    }

    /// Notes that the whole table was looked through.
    fn end_pass(&mut self) {
        self.passes += 1;
        self.all_epochs(|epoch| epoch.flushes = [epoch.flushes[1], 0]);
        let (passes, free) = (self.passes, &mut self.free);
        // A domain may have been removed in the middle of a pass.
        self.leaving.retain(|(index, since)| {
            let is_gone = passes >= since + 2;
            if is_gone {
                free.insert(*index);
            }
            !is_gone
        });
    }

    /// Adds or replaces a configured entry.
    ///
    /// # Errors
    /// If there is no such domain, or no room.
    pub(crate) fn set_entry(&mut self, id: u32, mac: Mac, kind: Kind, port: u32) -> Result<(), RouterError> {
        let Some(known) = self.by_id.get(&id) else {
            return Err(RouterError::new(format!("there is no bridge domain {id}")));
        };
        let key = mac::key(known.index, mac::number(mac));
        let value = Place { kind, port, epoch: 0, seen: 0 }.word();
        loop {
            if let Some(old) = self.owner.get(key) {
                if self.owner.replace(key, old, value) {
                    forgotten(&self.domains, key, old);
                    return Ok(());
                }
                continue;
            }
            match self.owner.insert(key, value) {
                Inserted::Yes => return Ok(()),
                Inserted::Present | Inserted::Busy => {}
                Inserted::Full => self.make_room()?,
            }
        }
    }

    /// Makes room in the MAC table.
    fn make_room(&mut self) -> Result<(), RouterError> {
        let Bridges { owner, domains, .. } = self;
        let lost = |key: u64, value: u64| forgotten(domains, key, value);
        match owner.make_room(MOST_BYTES, PATIENCE, lost) {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(RouterError::new(format!("the MAC table has no room beside its {} entries", owner.len())))
            }
            Err(e) => Err(RouterError::new(format!("the MAC table cannot be made larger: {e}"))),
        }
    }

    /// Removes an entry, learned or configured. Returns true if there was one.
    pub(crate) fn remove_entry(&mut self, id: u32, mac: Mac) -> bool {
        let Some(known) = self.by_id.get(&id) else { return false };
        let key = mac::key(known.index, mac::number(mac));
        while let Some(value) = self.owner.get(key) {
            if self.owner.remove(key, value) {
                forgotten(&self.domains, key, value);
                return true;
            }
        }
        false
    }

    /// Number of addresses that a domain has learned.
    pub(crate) fn learned(&self, id: u32) -> usize {
        self.by_id.get(&id).map_or(0, |known| known.learned.load(Relaxed))
    }

    /// Returns the domains from a number on: the number, the policy and the ports of each.
    pub(crate) fn domains(&self, from: u32) -> impl Iterator<Item = (u32, &Policy, &BTreeMap<u32, u8>)> {
        self.by_id.range(from..).map(|(id, known)| (*id, &known.policy, &known.members))
    }

    /// Returns the number of the domain with this index.
    pub(crate) fn id(&self, index: u32) -> Option<u32> {
        self.ids.get(&index).copied()
    }

    /// True if no domain has this index, and no entry of an earlier one is left.
    #[cfg(test)]
    pub(crate) fn is_free(&self, index: u32) -> bool {
        self.free.contains(&index)
    }

    /// Number of lines of the MAC table.
    pub(crate) fn lines(&self) -> usize {
        self.owner.lines()
    }

    /// Number of entries, with void ones, and the size of the table in bytes.
    pub(crate) fn usage(&self) -> (usize, usize) {
        (self.owner.len(), self.owner.bytes())
    }

    /// Returns the entries in a range of lines that are not void.
    pub(crate) fn entries(
        &self,
        lines: std::ops::Range<usize>,
        now: u64,
    ) -> impl Iterator<Item = Shown> + '_ {
        let now = mac::second(now);
        self.owner.entries(lines).filter_map(move |(key, value)| {
            let ((index, mac), place) = (mac::split(key), Place::of(value));
            let (bd, domain) = (*self.ids.get(&index)?, self.domains.get(index)?);
            let epoch = mac::epoch(domain.epoch, self.epoch(place.port));
            (!place.is_void(epoch, domain.age, now)).then_some(Shown { bd, mac, place })
        })
    }
}

/// Notes that an entry is not in the table any more.
fn forgotten(domains: &SlotWriter<Domain>, key: u64, value: u64) {
    let domain = domains.get(mac::split(key).0);
    // The count of a removed domain is not needed.
    if let Some(domain) = domain.filter(|_| Place::of(value).kind == Kind::Learned) {
        let less = domain.learned.fetch_update(Relaxed, Relaxed, |learned| learned.checked_sub(1));
        debug_assert!(less.is_ok(), "more addresses were forgotten than learned");
    }
}
