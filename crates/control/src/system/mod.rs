//! The system that the configuration is applied to: the router, and the devices that this process opens for it.

mod abilities;
mod spec;
mod waiting;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drivers::{Device, Guardian};
use model::object::{Refused, refuse, refuse_as};
use model::reason::Reason;
use net::feature::{Opened, Prepared, Unopened, Unready};
use net::router::Router;
use wire::Mac;

pub use abilities::Abilities;
pub use spec::{Loopback, Spec};
pub(crate) use waiting::PATIENCE;
use waiting::Wait;

/// The declarations of all features.
pub type Catalog = net::feature::Catalog<System>;
/// The options of an interface, of any type.
pub type Backed = net::feature::Backed<System>;

/// What to do with a new interface whose device cannot be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Absence {
    /// The interface is refused: its name may be mistyped.
    #[default]
    Refused,
    /// The interface waits if this machine does not have the device now. This is for the start, which must bring up all other interfaces.
    Missing,
    /// The interface waits for its device, whatever the error. This is for rollbacks, which must not fail because of a device.
    Any,
}

/// The interruption of an interface that was recreated, or whose device was reopened.
struct Gap {
    name: String,
    /// `recreated` or `reopened`.
    how: &'static str,
    /// The beginning of the interruption.
    since: Instant,
    /// How long the interruption took: until the link was up again or, if the interface was set down, until the device was open. `None`
    /// while the interruption lasts.
    took: Option<Duration>,
}

/// The interruption of an interface, for operators.
pub struct Interruption {
    /// What happened to the interface, in one line.
    pub text: String,
    /// True if the interruption is over.
    pub over: bool,
}

/// The state of an interface before a transaction deleted it or reopened its device.
struct Deleted {
    spec: Spec,
    /// The device's own Ethernet address and MTU.
    own: (Mac, u16),
    /// The time when the interface was deleted; `None` if the interface was not usable until then, or if its device was only reopened.
    since: Option<Instant>,
}

/// Placeholder for the address and MTU of a device that was never present.
const NEVER_SEEN: (Mac, u16) = (Mac([0; 6]), 1500);

/// The router and its devices.
pub struct System {
    /// The control side of the data plane.
    pub router: Router,
    /// What the router supports, for callers that do not have the router.
    pub abilities: Arc<Abilities>,
    /// Results that other threads have prepared for new interfaces, by interface name. Each result has the options for which it was
    /// prepared, because a rollback may create an interface with the same name and other options.
    pub prepared: BTreeMap<String, (Backed, Result<Prepared, Unready>)>,
    /// Remaining time for preparing devices of commands at the start.
    pub(crate) patience: Duration,
    /// The handling of interfaces whose devices cannot be opened.
    pub absence: Absence,
    /// Number of times that an interface was created or deleted, since the start of the router.
    pub interfaces_changed: u64,
    /// The processes that return the interfaces to the kernel if this process cannot.
    guardian: Guardian,
    /// The spec with which each device is reopened, by interface name.
    specs: BTreeMap<String, Spec>,
    /// The interfaces that wait for their devices, by name.
    waiting: BTreeMap<String, Wait>,
    /// The interfaces that the current or the last transaction deleted or reopened, with their states before.
    deleted: BTreeMap<String, Deleted>,
    /// The interruptions caused by the current or the last transaction.
    gaps: Vec<Gap>,
    /// The configured MTU of each interface, in bytes. The effective MTU of a sub-interface is at most that of its device.
    mtus: BTreeMap<String, u16>,
}

impl System {
    /// Returns a router without interfaces, with the catalog of its features. Kernel interfaces that the
    /// router takes are registered with `guardian`.
    pub fn new(router: Router, catalog: Arc<Catalog>, guardian: Guardian) -> System {
        System {
            prepared: BTreeMap::new(),
            patience: PATIENCE,
            absence: Absence::default(),
            interfaces_changed: 0,
            abilities: Arc::new(Abilities::of(&router, catalog)),
            router,
            guardian,
            specs: BTreeMap::new(),
            waiting: BTreeMap::new(),
            deleted: BTreeMap::new(),
            gaps: Vec::new(),
            mtus: BTreeMap::new(),
        }
    }

    /// Returns the index of the interface with this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn index(&self, name: &str) -> Result<u32, Refused> {
        match self.router.interface_named(name) {
            Some(i) => Ok(i.index),
            None => refuse_as(Reason::NoInterface, format!("there is no interface {name}")),
        }
    }

    /// Begins a transaction: clears the records of deleted interfaces and of interruptions, which the last transaction has left.
    pub(crate) fn begin_changes(&mut self) {
        self.deleted.clear();
        self.gaps.clear();
    }

    /// Ends a transaction, successful or not. Records an interruption for each interface that the transaction deleted and created again, if
    /// the interface was usable before.
    pub(crate) fn end_changes(&mut self) {
        let again = |name: &str| {
            self.router.interface_named(name).is_some() && !self.gaps.iter().any(|gap| gap.name == name)
        };
        let away = self.deleted.iter().filter(|(name, _)| again(name));
        let away: Vec<Gap> = away
            .filter_map(|(name, deleted)| {
                Some(Gap { name: name.clone(), how: "recreated", since: deleted.since?, took: None })
            })
            .collect();
        self.gaps.extend(away);
        self.look_at_gaps();
    }

    /// Creates an interface, down and without settings. It gets this index if the index is free. If its device cannot be opened, the
    /// interface waits for the device, as far as [`absence`](System::absence) allows. An interface that this transaction
    /// [deleted](System::delete) can always be created again as it was.
    pub(crate) fn create(&mut self, name: &str, spec: &Spec, index: Option<u32>) -> Result<(), Refused> {
        self.router.prefer_index(index);
        match spec {
            Spec::Loopback(loopback) => {
                self.router.add_loopback(name, loopback.mac())?;
            }
            Spec::Sub { parent, takes, .. } => {
                let parent = self.index(parent)?;
                self.router.add_subinterface(name, parent, *takes)?;
            }
            Spec::Backed(backed) => self.make(name, backed)?,
        }
        self.specs.insert(name.to_string(), spec.clone());
        self.interfaces_changed += 1;
        tracing::debug!(event = "interface", "{name}: created");
        Ok(())
    }

    /// Creates an interface with these options.
    fn make(&mut self, name: &str, backed: &Backed) -> Result<(), Refused> {
        if self.router.interface_named(name).is_some() {
            return refuse_as(Reason::There, format!("there is an interface {name} already"));
        }
        let prepared = self.prepared_of(name, backed);
        let added = match prepared.and_then(|prepared| self.open(name, backed, prepared)) {
            Ok(Opened::Device(device)) => self.router.add_device(name, device),
            Ok(Opened::Feature { kind, mac, mtu }) => self.router.add_feature_interface(name, kind, mac, mtu),
            Err(Unopened { why, .. }) if !backed.is_device() => return Err(why),
            Err(unopened) => {
                self.may_wait(name, backed, unopened)?;
                let (mac, mtu) = self.deleted.get(name).map_or(NEVER_SEEN, |was| was.own);
                self.router.add_absent_device(name, mac, mtu)
            }
        };
        // The interface does not exist: this only removes leftovers of `open`.
        let index = added.inspect_err(|_| backed.leaves(name, self))?;
        if let Err(why) = backed.made(index, self) {
            backed.leaves(name, self);
            self.router.remove_interface(index)?;
            return Err(why);
        }
        Ok(())
    }

    /// True if the operator has accepted the interface `name` before: it exists, or existed before this transaction, or the configuration
    /// being applied is the start configuration or a rollback.
    pub fn has_accepted(&self, name: &str) -> bool {
        self.absence != Absence::Refused || self.specs.contains_key(name) || self.deleted.contains_key(name)
    }

    /// Lets an interface wait until its device can be opened, if that is allowed.
    ///
    /// # Errors
    /// If the interface may not wait. The error is the reason why the device cannot be opened.
    fn may_wait(
        &mut self,
        name: &str,
        backed: &Backed,
        Unopened { missing, why }: Unopened,
    ) -> Result<(), Refused> {
        let is_it = |was: &Deleted| matches!(&was.spec, Spec::Backed(was) if was == backed);
        let was_there = self.deleted.get(name).is_some_and(is_it);
        let waits = was_there
            || match self.absence {
                Absence::Refused => false,
                Absence::Missing => missing,
                Absence::Any => true,
            };
        if !waits {
            return Err(why);
        }
        tracing::warn!(event = "device", "{name} waits for its device, which cannot be opened now: {why}");
        self.waits(name, backed, why.to_string());
        Ok(())
    }

    /// Opens the device of an interface with another spec. The interface keeps its settings. The old device is released before the new one
    /// is opened, because most devices cannot be opened twice. If the new device cannot be opened, the interface may wait for it, as in
    /// [`create`](System::create).
    ///
    /// # Errors
    /// If the new device cannot be opened. The interface then has the old device again if that can be opened; otherwise it waits for the
    /// old device.
    pub(crate) fn reopen(&mut self, name: &str, spec: &Spec) -> Result<(), Refused> {
        let index = self.index(name)?;
        let own = self.router.interface(index)?.initial;
        let old = self.specs.get(name).cloned();
        let (Some(Spec::Backed(old)), Spec::Backed(new)) = (old, spec) else {
            return refuse(format!("{name} is not a device"));
        };
        // An interface without traffic is not interrupted.
        let since = self.router.usable(index).then(Instant::now);
        self.router.release_device(index)?;
        let prepared = self.prepared_of(name, new);
        let done = match prepared.and_then(|prepared| self.open_device(name, new, prepared)) {
            Ok(device) => self.attach(index, name, device, own == NEVER_SEEN),
            Err(unopened) => {
                self.may_wait(name, new, unopened).and_then(|()| Ok(self.router.detach_device(index)?))
            }
        };
        if let Err(why) = done {
            let back = self.open_device(name, &old, None).map_err(|unopened| unopened.why);
            if let Err(e) = back.and_then(|device| self.attach(index, name, device, own == NEVER_SEEN)) {
                tracing::warn!(
                    event = "device",
                    "{name} waits for its device, which cannot be opened now: {e}"
                );
                self.waits(name, &old, e.to_string());
                self.router.detach_device(index)?;
            }
            self.note_gap(name, since);
            return Err(why);
        }
        self.specs.insert(name.to_string(), spec.clone());
        self.deleted.entry(name.to_string()).or_insert(Deleted { spec: Spec::Backed(old), own, since: None });
        self.note_gap(name, since);
        Ok(())
    }

    /// Records that traffic was interrupted, because the device of an interface was reopened. `since` is the beginning of the interruption;
    /// `None` if the interface had no traffic.
    fn note_gap(&mut self, name: &str, since: Option<Instant>) {
        let Some(since) = since else { return };
        self.gaps.retain(|gap| gap.name != name);
        self.gaps.push(Gap { name: name.to_string(), how: "reopened", since, took: None });
        self.look_at_gaps();
    }

    /// Ends the interruptions of interfaces that have their link again, or that are set down.
    fn look_at_gaps(&mut self) {
        for gap in self.gaps.iter_mut().filter(|gap| gap.took.is_none()) {
            let Some(i) = self.router.interface_named(&gap.name).filter(|i| !i.is_absent()) else { continue };
            if self.router.link_up(i.index) || !i.admin_up {
                let took = gap.since.elapsed();
                gap.took = Some(took);
                let ms = took.as_secs_f64() * 1e3;
                tracing::info!(
                    event = "device",
                    "{}: {}, traffic was interrupted for {ms:.1} ms",
                    gap.name,
                    gap.how
                );
            }
        }
    }

    /// True if an interrupted interface does not forward yet.
    pub fn is_interrupted(&self) -> bool {
        self.gaps.iter().any(|gap| gap.took.is_none())
    }

    /// Returns the interruptions caused by the last transaction.
    pub fn interruptions(&self) -> impl Iterator<Item = Interruption> {
        self.gaps.iter().map(|gap| {
            let (name, how) = (&gap.name, &gap.how);
            let text = match gap.took {
                Some(took) => format!(
                    "{name} was {how}: traffic was interrupted for {:.1} ms",
                    took.as_secs_f64() * 1e3
                ),
                None => format!(
                    "{name} was {how} and its link is not up yet: the log will show how long traffic was interrupted"
                ),
            };
            Interruption { text, over: gap.took.is_some() }
        })
    }

    /// Sets the MTU of an interface in bytes; `None` restores the initial one. A sub-interface gets its configured MTU, but at most that of
    /// its device. So a change of a device's MTU may change the MTUs of its sub-interfaces.
    pub(crate) fn set_mtu(&mut self, name: &str, mtu: Option<u16>) -> Result<(), Refused> {
        let index = self.index(name)?;
        let info = self.router.interface(index)?;
        let (parent, own) = (info.parent, info.initial.1);
        if parent == index {
            self.router.set_mtu(index, mtu.unwrap_or(own))?;
        }
        let most = self.router.interface(parent)?.mtu;
        let mut subs = Vec::new();
        for i in self.router.interfaces().filter(|i| i.parent == parent && i.index != parent) {
            if i.index == index {
                subs.push((i.index, mtu));
            } else if parent == index {
                subs.push((i.index, self.mtus.get(&i.name).copied()));
            }
        }
        for (sub, wanted) in subs {
            self.router.set_mtu(sub, wanted.map_or(most, |m| m.min(most)))?;
        }
        match mtu {
            Some(mtu) => self.mtus.insert(name.to_string(), mtu),
            None => self.mtus.remove(name),
        };
        Ok(())
    }

    /// Removes an interface.
    pub(crate) fn delete(&mut self, name: &str) -> Result<(), Refused> {
        let index = self.index(name)?;
        let own = self.router.interface(index)?.initial;
        let since = self.router.usable(index).then(Instant::now);
        if let Some(Spec::Backed(backed)) = self.specs.get(name).cloned() {
            backed.leaves(name, self);
        }
        self.router.remove_interface(index)?;
        self.interfaces_changed += 1;
        tracing::debug!(event = "interface", "{name}: deleted");
        if let Some(spec) = self.specs.remove(name) {
            self.deleted.entry(name.to_string()).or_insert(Deleted { spec, own, since });
        }
        self.mtus.remove(name);
        self.waiting.remove(name);
        Ok(())
    }

    /// Polls the link of every device. To be called when the kernel reports a change, and once a second for changes
    /// that it does not report.
    pub fn look_at_links(&mut self) {
        for (index, was, is) in self.router.poll_links() {
            let Ok(i) = self.router.interface(index) else { continue };
            if is.present {
                match is.carrier {
                    carrier if carrier == was.carrier => {}
                    true => tracing::info!(event = "link", "{}: link up", i.name),
                    false => {
                        tracing::warn!(
                            event = "link",
                            "{}: link down; its routes are withdrawn until it is up",
                            i.name
                        )
                    }
                }
                continue;
            }
            tracing::warn!(
                event = "device",
                "{}: the device vanished; its routes are withdrawn until it returns",
                i.name
            );
            // The vanished device still occupies the name, which the returning device needs.
            if let Err(e) = self.router.detach_device(index) {
                tracing::error!("{e}");
            }
        }
        self.look_at_gaps();
    }

    /// Opens the devices of waiting interfaces, if the devices can be opened now. To be called once a second.
    pub fn reopen_devices(&mut self) {
        let absent = self.router.interfaces().filter(|i| i.is_absent());
        let absent: Vec<(u32, String, bool)> =
            absent.map(|i| (i.index, i.name.clone(), i.initial == NEVER_SEEN)).collect();
        for (index, name, never_seen) in absent {
            let Some(Spec::Backed(backed)) = self.specs.get(&name).cloned() else { continue };
            let Some(prepared) = self.attempt(&name, &backed) else { continue };
            let device = match self.open_device(&name, &backed, prepared) {
                Ok(device) => device,
                // Usually the device is still absent. Attempts are frequent, so failures are not logged.
                Err(unopened) => {
                    self.waits(&name, &backed, unopened.why.to_string());
                    continue;
                }
            };
            let where_it_is = if never_seen { "present" } else { "back" };
            match self.attach(index, &name, device, never_seen) {
                Ok(()) => tracing::info!(event = "device", "{name}: the device is {where_it_is}"),
                Err(e) => {
                    tracing::error!(
                        event = "device",
                        "{name}: the device is {where_it_is}, but cannot be used: {e}"
                    )
                }
            }
        }
    }

    /// Attaches an open device to an interface. The interface then no longer waits. If the interface never had a device (`never_seen`), the
    /// device's Ethernet address and MTU become the interface's defaults.
    fn attach(&mut self, index: u32, name: &str, device: Device, never_seen: bool) -> Result<(), Refused> {
        if never_seen {
            self.router.set_initial(index, Mac(device.mac), device.mtu)?;
            self.set_mtu(name, self.mtus.get(name).copied())?;
        }
        self.router.attach_device(index, device)?;
        self.waiting.remove(name);
        Ok(())
    }

    /// Takes the data for opening the device of `name` that another thread has prepared. Returns `None` if there is no such data, or if it
    /// was prepared for other options.
    ///
    /// # Errors
    /// If that thread has failed.
    fn prepared_of(&mut self, name: &str, backed: &Backed) -> Result<Prepared, Unopened> {
        match self.prepared.entry(name.to_string()) {
            Entry::Occupied(of) if of.get().0 == *backed => {
                of.remove().1.map_err(|unready| Unopened { missing: true, why: unready.why })
            }
            Entry::Occupied(_) | Entry::Vacant(_) => Ok(None),
        }
    }

    fn open(&mut self, name: &str, backed: &Backed, prepared: Prepared) -> Result<Opened, Unopened> {
        let mut opened = backed.open(name, prepared, self)?;
        if let Opened::Device(device) = &mut opened {
            device.control.guard(&self.guardian);
            if let Some(warning) = device.control.warning() {
                tracing::warn!(event = "device", "{warning}");
            }
        }
        Ok(opened)
    }

    fn open_device(&mut self, name: &str, backed: &Backed, prepared: Prepared) -> Result<Device, Unopened> {
        match self.open(name, backed, prepared)? {
            Opened::Device(device) => Ok(device),
            Opened::Feature { .. } => Err(Unopened::new("this interface has no device")),
        }
    }
}
