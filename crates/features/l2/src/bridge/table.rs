//! The bridge domains of a router: their ports, and the table of MAC addresses that they share.

mod sweep;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use infra::class_a::{SlotWriter, slots};
use infra::class_b::{self, Inserted, Owner};
use infra::quiesce::Domain as Readers;
use net::router::RouterError;
use wire::Mac;

use super::answer::Hosts;
use super::domain::{BridgePort, Bvi, Domain, Policy, Shared};
use super::mac::{self, DOMAINS, Kind, Place};
use sweep::{Epoch, Since};

/// Number of addresses for which the table has room at first.
const FIRST: usize = 1024;
/// Maximum size of the table in bytes. This is enough for 10 million addresses.
const MOST_BYTES: usize = 512 << 20;
/// Least time between two copies of the changed hosts for the workers, in nanoseconds.
const TELL: u64 = 100_000_000;
/// Longest time to wait for workers before the table grows further, because a configured entry needs room.
const PATIENCE: Duration = Duration::from_millis(100);

/// A bridge domain, for the main thread.
struct Known {
    index: u32,
    policy: Policy,
    epoch: Epoch,
    learned: Arc<AtomicUsize>,
    /// The split-horizon groups of the ports, by interface.
    members: BTreeMap<u32, u8>,
    uu_fwd: Option<u32>,
    bvi: Option<Bvi>,
    /// Entries of stations that were heard last before a time are void, because the age was shorter then.
    since: Option<Since>,
    hosts: BTreeMap<IpAddr, Mac>,
    /// The same, for the workers.
    answers: Arc<Hosts>,
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
    /// The domains whose hosts have changed since the workers were told, and the time at which they can be told again.
    untold: BTreeSet<u32>,
    tell: u64,
    /// The epochs of all interfaces that were ports.
    epochs: BTreeMap<u32, Epoch>,
    /// Number of passes through the table that have ended.
    passes: u64,
    /// The time of the last turn in seconds of the monotonic clock, modulo 2^16.
    second: Option<u16>,
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
    /// True for the address of a domain's BVI. Such an address is not in the table itself.
    pub is_bvi: bool,
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
            untold: BTreeSet::new(),
            tell: 0,
            epochs: BTreeMap::new(),
            passes: 0,
            second: None,
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
        let passes = self.passes;
        if let Some(known) = self.by_id.get_mut(&id) {
            let before = known.policy.age;
            if before != 0 && (policy.age == 0 || policy.age > before) {
                // Entries that are too old now must not come back.
                let now = mac::second(now);
                let oldest = known.since.map_or(before, |since| before.min(now.wrapping_sub(since.heard)));
                known.since = Some(Since { heard: now.wrapping_sub(oldest), passes });
            }
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
            uu_fwd: None,
            bvi: None,
            since: None,
            hosts: BTreeMap::new(),
            answers: Arc::default(),
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
        if known.uu_fwd.is_some_and(|other| port.uu_fwd && other != interface) {
            return Err(RouterError::new(format!(
                "bridge domain {id} has a port for unknown unicast already"
            )));
        }
        known.members.insert(interface, port.group);
        match port.uu_fwd {
            true => known.uu_fwd = Some(interface),
            false => known.uu_fwd = known.uu_fwd.filter(|other| *other != interface),
        }
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
            known.uu_fwd = known.uu_fwd.filter(|other| *other != interface);
        }
        // Publishing fails only for want of memory for a new index.
        let _ = self.publish(id);
        self.next_epoch(interface);
    }

    /// Makes an interface with this Ethernet address the router's own in a domain, or changes its address or group. Returns its port.
    ///
    /// # Errors
    /// If there is no such domain, or if it has another such interface.
    pub(crate) fn set_bvi(
        &mut self,
        id: u32,
        interface: u32,
        mac: Mac,
        group: u8,
    ) -> Result<BridgePort, RouterError> {
        let Some(known) = self.by_id.get_mut(&id) else {
            return Err(RouterError::new(format!("there is no bridge domain {id}")));
        };
        if known.bvi.is_some_and(|other| other.interface != interface) {
            return Err(RouterError::new(format!("bridge domain {id} has a BVI already")));
        }
        let domain = known.index;
        let epoch = self.epochs.get(&interface).copied().unwrap_or_default().now;
        known.bvi = Some(Bvi { interface, key: mac::key(domain, mac::number(mac)), group });
        self.publish(id)?;
        Ok(BridgePort { domain, group, learn: false, epoch, ..BridgePort::PLAIN })
    }

    /// Sets or removes the Ethernet address of a host of a domain. The workers see it after the next [turn](Self::turn).
    ///
    /// # Errors
    /// If there is no such domain.
    pub(crate) fn set_host(&mut self, id: u32, ip: IpAddr, mac: Option<Mac>) -> Result<(), RouterError> {
        let Some(known) = self.by_id.get_mut(&id) else {
            return Err(RouterError::new(format!("there is no bridge domain {id}")));
        };
        match mac {
            Some(mac) => known.hosts.insert(ip, mac),
            None => known.hosts.remove(&ip),
        };
        self.untold.insert(id);
        Ok(())
    }

    /// Returns the hosts of a domain from an address on.
    pub(crate) fn hosts(&self, id: u32, from: Bound<IpAddr>) -> impl Iterator<Item = (IpAddr, Mac)> + '_ {
        let known = self.by_id.get(&id);
        let hosts = known.into_iter().flat_map(move |known| known.hosts.range((from, Bound::Unbounded)));
        hosts.map(|(ip, mac)| (*ip, *mac))
    }

    /// Tells the workers the changed hosts, now and then: all hosts of a domain are copied. Returns the time of the next call.
    fn tell_hosts(&mut self, now: u64) -> Option<u64> {
        if now < self.tell || self.untold.is_empty() {
            return (!self.untold.is_empty()).then_some(self.tell);
        }
        self.tell = now + TELL;
        for id in std::mem::take(&mut self.untold) {
            let Some(known) = self.by_id.get_mut(&id) else { continue };
            known.answers = Arc::new(known.hosts.iter().map(|(ip, mac)| (*ip, *mac)).collect());
            // Publishing fails only for want of memory for a new index.
            let _ = self.publish(id);
        }
        None
    }

    /// Removes the router's own interface from a domain.
    pub(crate) fn remove_bvi(&mut self, id: u32) {
        if let Some(known) = self.by_id.get_mut(&id) {
            known.bvi = None;
        }
        // Publishing fails only for want of memory for a new index.
        let _ = self.publish(id);
    }

    /// Returns the router's own interface in a domain, and its Ethernet address.
    pub(crate) fn bvi(&self, id: u32) -> Option<(u32, Mac)> {
        let bvi = self.by_id.get(&id)?.bvi?;
        Some((bvi.interface, mac::split(bvi.key).1))
    }

    fn publish(&mut self, id: u32) -> Result<(), RouterError> {
        let Some(Known { index, policy, epoch, learned, members, uu_fwd, bvi, since, answers, .. }) =
            self.by_id.get(&id)
        else {
            return Ok(());
        };
        let Policy { learn, forward, flood, unknown, arp_term, arp_ufwd, age, limit } = *policy;
        let flooded = members.iter().filter(|(interface, _)| Some(**interface) != *uu_fwd);
        let domain = Domain {
            learn,
            forward,
            flood,
            unknown,
            answers: arp_term.then(|| Arc::clone(answers)),
            arp_ufwd,
            age,
            since: since.map(|since| since.heard),
            epoch: epoch.now,
            limit: limit as usize,
            learned: Arc::clone(learned),
            members: flooded.map(|(interface, group)| (*interface, *group)).collect(),
            uu_fwd: *uu_fwd,
            bvi: *bvi,
        };
        Ok(self.domains.set(*index, domain)?)
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

    /// Returns the entries in a range of lines that are not void. The addresses of BVIs come before the first line.
    pub(crate) fn entries(
        &self,
        lines: std::ops::Range<usize>,
        now: u64,
    ) -> impl Iterator<Item = Shown> + '_ {
        let now = mac::second(now);
        let is_first = lines.start == 0;
        let own = self.by_id.iter().filter(move |_| is_first).filter_map(|(bd, known)| {
            let Bvi { interface, key, .. } = known.bvi?;
            let place = Place { kind: Kind::Static, port: interface, epoch: 0, seen: 0 };
            Some(Shown { bd: *bd, mac: mac::split(key).1, place, is_bvi: true })
        });
        let entries = self.owner.entries(lines).filter_map(move |(key, value)| {
            let ((index, mac), place) = (mac::split(key), Place::of(value));
            let (bd, domain) = (*self.ids.get(&index)?, self.domains.get(index)?);
            let epoch = mac::epoch(domain.epoch, self.epoch(place.port));
            (!place.is_void(epoch, domain.age(now), now)).then_some(Shown { bd, mac, place, is_bvi: false })
        });
        own.chain(entries)
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
