//! The main thread's interfaces: their configuration, and the updates of other tables when it changes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use model::reason::Reason;
use wire::Mac;

use super::events::Loss;
use super::{InterfaceInfo, Neighborhood, Routed, Router, RouterError};
use crate::ethernet::{Match, Vlans};
use crate::interface::{Interface, InterfaceTotals, Kind};
use crate::ip::{Affected, IpPrefix, Network};

/// The MTU of a loopback interface, in bytes.
const LOOPBACK_MTU: u16 = 9000;
/// Maximum number of adjacencies updated at once after interface changes: about a tenth of a millisecond of work.
const ADJACENCIES: usize = 256;
/// Maximum time that the main thread waits for workers to release the queues of a closed device, or the record of a removed interface.
pub(super) const GRACE: Duration = Duration::from_millis(200);

impl Neighborhood {
    /// True if packets can be sent on this interface: the interface and its parent are set to up, the device is present and has a carrier,
    /// and no packets for a removed interface with the same index can be left in the graph. Loopbacks and features' interfaces need no
    /// device.
    pub(crate) fn usable(&self, index: u32) -> bool {
        let Some(i) = self.interfaces.get(index) else { return false };
        i.admin_up && !i.heir && self.link_up(index) && (i.parent == index || self.usable(i.parent))
    }

    /// Returns an interface on whose link other stations may be.
    pub(super) fn linked(&self, index: u32) -> Option<&InterfaceInfo> {
        self.interfaces.get(index).filter(|info| info.kind != Kind::Loopback(None))
    }

    /// True if the interface's device is present and has a carrier. The device of a sub-interface is that of its parent. Also true
    /// for loopbacks and features' interfaces, which need no device.
    fn link_up(&self, index: u32) -> bool {
        let Some(i) = self.interfaces.get(index) else { return false };
        match &i.device {
            Some(device) => device.link.is_up(),
            None => i.kind.needs_no_device() || i.parent != index && self.link_up(i.parent),
        }
    }

    /// Publishes an interface to the workers.
    pub(crate) fn publish(&mut self, index: u32) -> Result<(), RouterError> {
        let Some(i) = self.interfaces.get(index) else { return Ok(()) };
        let record = Interface {
            kind: i.kind,
            device: i.parent,
            mac: i.mac,
            up: self.usable(index),
            fib: i.fib,
            mtu: i.mtu,
            vlans: Vlans::new(self.interfaces.carried_by(index)),
            addresses: self.sources(i),
            proxy: i.proxy,
            mode: i.mode,
        };
        let before = self.records.get(index);
        let stale = before.is_none_or(|before| (before.mac, before.mtu) != (record.mac, record.mtu));
        self.records.set(index, record)?;
        // There may be many adjacencies, and most changes do not concern them.
        if stale {
            let busy = self.adjacencies.is_stale();
            self.adjacencies.refresh(index);
            // Do the work at once only if no earlier change is still in progress; otherwise later turns do it.
            if !busy {
                self.follow_interfaces();
            }
        }
        Ok(())
    }

    /// Updates a limited number of adjacencies whose interfaces changed. Returns true if more are left.
    pub(super) fn follow_interfaces(&mut self) -> bool {
        let Neighborhood { records, interfaces, adjacencies, .. } = self;
        adjacencies.follow(ADJACENCIES, |index| Some((records.get(index)?, interfaces.get(index)?.tags)))
    }
}

impl Router {
    /// Returns all interfaces, in order of their indexes.
    pub fn interfaces(&self) -> impl Iterator<Item = &InterfaceInfo> {
        self.near.interfaces.values()
    }

    /// Returns the interfaces with an index of at least `first`, in order.
    pub fn interfaces_from(&self, first: u32) -> impl Iterator<Item = &InterfaceInfo> {
        self.near.interfaces.from(first)
    }

    /// Returns the interface with this index.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn interface(&self, index: u32) -> Result<&InterfaceInfo, RouterError> {
        self.near.interfaces.get(index).ok_or_else(|| missing(index))
    }

    /// Returns the interface of a VRF that has this address. Link-local addresses are not found.
    pub fn owner(&self, fib: u16, address: IpAddr) -> Option<&InterfaceInfo> {
        let found = self.near.interfaces.with_network_of(fib, address)?;
        found.addresses.iter().any(|a| a.address == address).then_some(found)
    }

    /// Returns the interface with this name.
    pub fn interface_named(&self, name: &str) -> Option<&InterfaceInfo> {
        self.near.interfaces.named(name)
    }

    /// Clears the counters of an interface.
    pub fn clear_interface(&mut self, index: u32) {
        self.tables.counters.clear(index);
        self.hooks.settings.clear_counts(index);
        self.blueprint.stats().clear_drops_of(index);
    }

    /// Returns the counter totals of an interface since it was added. Clearing counters does not change them.
    pub fn interface_totals(&self, i: &InterfaceInfo) -> InterfaceTotals {
        let counted = self.tables.counters.totals(i.index, self.blueprint.stats().drops_total(i.index));
        i.before.iter().fold(counted, |totals, before| totals.since(before))
    }

    /// Returns the parts of [`interface_totals`](Self::interface_totals) by [thread](graph::stats::thread_of_lane). The list ends with the
    /// last thread that has counted anything.
    pub fn interface_totals_by_thread(&self, i: &InterfaceInfo) -> Vec<InterfaceTotals> {
        let mut threads = self.counted_by_thread(i.index);
        threads.iter_mut().zip(&i.before).for_each(|(totals, before)| *totals = totals.since(before));
        threads
    }

    fn counted_by_thread(&self, index: u32) -> Vec<InterfaceTotals> {
        let none = InterfaceTotals::default();
        let mut threads = Vec::new();
        let mut add = |thread: usize, part: InterfaceTotals| {
            if part == none {
                return;
            }
            if threads.len() <= thread {
                threads.resize(thread + 1, none);
            }
            threads[thread] = threads[thread].plus(&part);
        };
        self.tables.counters.each_total(index, &mut add);
        self.blueprint
            .stats()
            .each_drops_total(index, |thread, drops| add(thread, InterfaceTotals { drops, ..none }));
        threads
    }

    /// True if the device of the interface or its parent is present and has a carrier. True for loopbacks and features' interfaces, which
    /// need no device.
    pub fn link_up(&self, index: u32) -> bool {
        self.near.link_up(index)
    }

    /// True if packets can be sent on this interface: the interface and its parent are set to up, the device is present and has a carrier,
    /// and no packets for a removed interface with the same index can be left in the graph. Loopbacks and features' interfaces need no
    /// device.
    pub fn usable(&self, index: u32) -> bool {
        self.near.usable(index)
    }

    /// Checks that frames can be sent on an interface.
    ///
    /// # Errors
    /// If there is no such interface, or it is a sub-interface that matches frames with different VLAN tags, so the tags for frames to send
    /// are unknown.
    pub(super) fn must_send(&self, index: u32) -> Result<(), RouterError> {
        let info = self.interface(index)?;
        match info.takes.filter(|takes| !takes.sends()) {
            Some(takes) => Err(RouterError::new(format!(
                "{} only receives: it matches frames with different VLAN tags ({takes}), so the tags for frames to send are unknown",
                info.name
            ))),
            None => Ok(()),
        }
    }

    pub(crate) fn info_mut(&mut self, index: u32) -> Result<&mut InterfaceInfo, RouterError> {
        let missing = || missing(index);
        self.near.interfaces.get_mut(index).ok_or_else(missing)
    }

    /// Sets the preferred index for the next interface. It is used if it is free; `None` means any index.
    pub fn prefer_index(&mut self, index: Option<u32>) {
        self.next_index = index;
    }

    /// Allocates an index for an interface: the preferred index if possible, otherwise any free index. The preferred index can be that of
    /// an interface that was just removed, although paths may still lead to the removed interface. These paths are resolved again step by
    /// step. Until this is done, the new interface is not [usable](Neighborhood::usable).
    fn free_index(&mut self) -> Result<u32, RouterError> {
        if let Some(wanted) = self.next_index.take() {
            if self.near.records.claim(wanted)? {
                return Ok(wanted);
            }
            let free = self.near.interfaces.get(wanted).is_none();
            if free && self.leaving.contains(&wanted) {
                return Ok(wanted);
            }
            // Workers may still read the record of the removed interface.
            if free && self.domain.synchronize(GRACE) && self.near.records.claim(wanted)? {
                return Ok(wanted);
            }
        }
        Ok(self.near.records.reserve()?)
    }

    /// Adds an interface in the down state. `initial` is its Ethernet address and its MTU. For a sub-interface, `on` is the parent
    /// interface and the VLAN tags that match.
    pub(super) fn new_interface(
        &mut self,
        name: &str,
        kind: Kind,
        initial: (Mac, u16),
        on: Option<(u32, Match)>,
    ) -> Result<u32, RouterError> {
        if self.interface_named(name).is_some() {
            return Err(
                RouterError::new(format!("there is an interface {name} already")).because(Reason::There)
            );
        }
        let index = self.free_index()?;
        let heir = self.leaving.contains(&index);
        self.clear_interface(index);
        let info = InterfaceInfo {
            index,
            serial: 0,
            name: name.to_string(),
            kind,
            admin_up: false,
            heir,
            mac: initial.0,
            mtu: initial.1,
            fib: 0,
            addresses: Vec::new(),
            ip6: false,
            unnumbered: None,
            proxy: false,
            standing: std::collections::BTreeMap::new(),
            was_usable: false,
            parent: on.map_or(index, |(parent, _)| parent),
            takes: on.map(|(_, takes)| takes),
            tags: on.and_then(|(_, takes)| takes.tags()),
            device: None,
            mode: None,
            own_mac: None,
            receive: super::Receive::default(),
            initial,
            before: self.counted_by_thread(index),
            settings_before: self.hooks.settings.totals(index),
        };
        self.near.interfaces.insert(info);
        // Callbacks run before the first packet arrives.
        self.interface_made(index);
        Ok(index)
    }

    /// Adds a loopback interface.
    ///
    /// # Errors
    /// If the name is taken, or there are too many interfaces.
    pub fn add_loopback(&mut self, name: &str, mac: Mac) -> Result<u32, RouterError> {
        self.add_without_device(name, Kind::Loopback(None), mac, LOOPBACK_MTU)
    }

    /// Adds an interface that needs no device: a loopback, or an interface of a feature.
    pub(crate) fn add_without_device(
        &mut self,
        name: &str,
        kind: Kind,
        mac: Mac,
        mtu: u16,
    ) -> Result<u32, RouterError> {
        let index = self.new_interface(name, kind, (mac, mtu), None)?;
        self.near.publish(index)?;
        Ok(index)
    }

    /// Adds a sub-interface of `parent` for frames that match `takes`.
    ///
    /// # Errors
    /// If the parent does not exist or is not an Ethernet device, another sub-interface of it has the same match, the name is taken, or
    /// there are too many interfaces.
    pub fn add_subinterface(
        &mut self,
        name: &str,
        parent: u32,
        takes: impl Into<Match>,
    ) -> Result<u32, RouterError> {
        let takes = takes.into();
        let p = self.interface(parent)?;
        if p.kind != Kind::Device {
            return Err(RouterError::new(format!(
                "{} cannot have sub-interfaces: it is not an Ethernet device",
                p.name
            )));
        }
        let (mac, mtu) = (p.mac, p.mtu);
        if let Some(taken) = self.near.interfaces.taking(parent, takes) {
            return Err(RouterError::new(format!(
                "{} already receives packets with these tags ({takes})",
                taken.name
            )));
        }
        let index = self.new_interface(name, Kind::SubInterface, (mac, mtu), Some((parent, takes)))?;
        // Publish the sub-interface first: a worker that finds it by its tags needs its record.
        self.near.publish(index)?;
        self.near.publish(parent)?;
        // Free old versions of the parent's record: each has a full list of sub-interfaces.
        self.domain.collect();
        Ok(index)
    }

    /// Removes an interface with its addresses, its sub-interfaces, and all paths of routes over it. A device is given back to its previous
    /// owner, such as the kernel.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn remove_interface(&mut self, index: u32) -> Result<(), RouterError> {
        self.interface(index)?;
        self.leaving(&self.with_carried(index), Loss::Link);
        for child in self.carried_by(index) {
            self.remove_interface(child)?;
        }
        // The device goes first: a vanished device cannot be set down.
        self.info_mut(index)?.device = None;
        self.set_admin(index, false)?;
        let addresses = self.interface(index)?.addresses.clone();
        self.remove_addresses(index, &addresses)?;
        for borrower in self.borrowers(index) {
            self.set_unnumbered(borrower, None)?;
        }
        self.arcs.forget(index);
        self.hooks.settings.forget(index);
        self.ip6_gone(index);
        self.neighbors_gone::<Ipv4Addr>(index);
        self.neighbors_gone::<Ipv6Addr>(index);
        self.forget_routes::<Ipv4Addr>(index);
        self.forget_routes::<Ipv6Addr>(index);
        let Some(info) = self.near.interfaces.remove(index) else { return Ok(()) };
        if info.parent != index {
            self.near.publish(info.parent)?;
        }
        // Until paths to this interface are resolved again, they find its own record, which is down, and not
        // that of a new interface.
        self.leave(index);
        self.resolve_again(Affected { interfaces: vec![index], networks: Vec::new() });
        self.free_indices();
        self.disconnect(index);
        Ok(())
    }

    /// Records that the index of a removed interface becomes free once no path leads to the interface.
    pub(super) fn leave(&mut self, index: u32) {
        if !self.leaving.contains(&index) {
            self.leaving.push(index);
        }
    }

    /// Removes all paths of routes over an interface.
    fn forget_routes<A: Routed>(&mut self, index: u32) {
        let (side, near) = A::side_mut(self);
        side.routes.forget_interface(index, near);
        side.connected.remove(&index);
    }

    /// Sets an interface up or down, and updates its routes.
    ///
    /// # Errors
    /// If there is no such interface, or the device refuses.
    pub fn set_admin(&mut self, index: u32, up: bool) -> Result<(), RouterError> {
        if self.interface(index)?.admin_up == up {
            return Ok(());
        }
        let all = self.with_carried(index);
        if !up {
            // Notify features now, while packets can still be sent.
            self.leaving(&all, Loss::Link);
        }
        self.info_mut(index)?.admin_up = up;
        // Publish first: packets may arrive as soon as the device is up with a carrier.
        let shown = if up { self.publish_with_carried(index) } else { Ok(()) };
        if let Err(refused) = shown.and_then(|()| self.set_device(index, up)) {
            self.info_mut(index)?.admin_up = !up;
            if let Err(e) = self.publish_with_carried(index) {
                tracing::error!("interface {index}: rollback of a refused change failed: {e}");
            }
            self.staying(&all);
            return Err(refused);
        }
        if up {
            // A device without a file descriptor cannot wake its worker when packets arrive.
            self.wake_workers();
        }
        self.changed(index)
    }

    /// Sets the device of an interface up or down, if the interface has a device.
    fn set_device(&mut self, index: u32, up: bool) -> Result<(), RouterError> {
        let info = self.info_mut(index)?;
        let Some(device) = &mut info.device else { return Ok(()) };
        let done = device.control.set_admin(up);
        device.link = device.control.link();
        done.map_err(|e| refuses_state(info, up, &e))
    }

    fn publish_with_carried(&mut self, index: u32) -> Result<(), RouterError> {
        self.with_carried(index).into_iter().try_for_each(|i| self.near.publish(i))
    }

    /// Sets the MTU: the maximum length of a network packet, in bytes. Sub-interfaces with a larger MTU get the same MTU.
    ///
    /// # Errors
    /// If there is no such interface, or the MTU is too small, larger than the parent's, or refused by the device.
    pub fn set_mtu(&mut self, index: u32, mtu: u16) -> Result<(), RouterError> {
        check_mtu(mtu)?;
        let parent = self.interface(index)?.parent;
        let of_parent = self.interface(parent)?.mtu;
        if parent != index && mtu > of_parent {
            return Err(RouterError::new(format!(
                "MTU {mtu} is more than {of_parent}, the MTU of the device"
            )));
        }
        let info = self.info_mut(index)?;
        if let Some(device) = &mut info.device {
            let done = device.control.set_mtu(mtu);
            done.map_err(|e| refuses_mtu(info, mtu, &e))?;
        }
        info.mtu = mtu;
        for child in self.carried_by(index) {
            let child = self.info_mut(child)?;
            child.mtu = child.mtu.min(mtu);
        }
        self.changed(index)
    }

    /// Sets the Ethernet address. `None` restores the initial address or, for a sub-interface, the parent's address. Sub-interfaces without
    /// an address of their own get the new address, too.
    ///
    /// # Errors
    /// If there is no such interface, the address is a group address or zero, or the device refuses it.
    pub fn set_mac(&mut self, index: u32, wanted: Option<Mac>) -> Result<(), RouterError> {
        wanted.map_or(Ok(()), check_mac)?;
        let info = self.interface(index)?;
        let inherited = if info.parent == index { info.initial.0 } else { self.interface(info.parent)?.mac };
        let mac = wanted.unwrap_or(inherited);
        let info = self.info_mut(index)?;
        if let Some(device) = &mut info.device {
            let done = device.control.set_mac(mac.0);
            done.map_err(|e| refuses_mac(info, mac, &e))?;
        }
        info.own_mac = wanted;
        self.note_mac(index, mac)?;
        self.changed(index)
    }

    /// Stores an interface's new Ethernet address. Sub-interfaces without an address of their own get it too.
    pub(super) fn note_mac(&mut self, index: u32, mac: Mac) -> Result<(), RouterError> {
        self.info_mut(index)?.mac = mac;
        for child in self.carried_by(index) {
            let child = self.info_mut(child)?;
            child.mac = child.own_mac.unwrap_or(mac);
        }
        Ok(())
    }

    /// Moves an interface to a VRF.
    ///
    /// # Errors
    /// If the VRF or the interface does not exist, or the interface has addresses in another VRF.
    pub fn set_table(&mut self, index: u32, table: u32) -> Result<(), RouterError> {
        let fib = self.fib(table)?;
        let info = self.info_mut(index)?;
        if !info.addresses.is_empty() && info.fib != fib {
            return Err(RouterError::new(format!("{} has addresses: remove them first", info.name)));
        }
        if info.fib != fib {
            self.forget_host_routes::<Ipv4Addr>(index);
            self.forget_host_routes::<Ipv6Addr>(index);
        }
        self.info_mut(index)?.fib = fib;
        self.ip6.own_changed = true;
        self.changed(index)
    }

    /// Updates workers, routes and neighbors after a change of an interface or its sub-interfaces.
    pub(super) fn changed(&mut self, index: u32) -> Result<(), RouterError> {
        self.changed_with(index, &[])
    }

    /// Like [`changed`](Self::changed). `left` are networks in which the interface may have no address any more: paths with next
    /// hops in them are updated, too.
    pub(super) fn changed_with(&mut self, index: u32, left: &[IpPrefix]) -> Result<(), RouterError> {
        let all = self.with_carried(index);
        let done = self.follow(&all, left);
        // Notify features even if an update failed: they need the present state.
        all.into_iter().for_each(|i| self.notify(i));
        done
    }

    /// Updates workers, routes and neighbors after a change of the interface `all[0]`. The other interfaces in `all` are its
    /// sub-interfaces. For `left`, see [`changed_with`](Self::changed_with).
    fn follow(&mut self, all: &[u32], left: &[IpPrefix]) -> Result<(), RouterError> {
        for &i in all {
            self.near.publish(i)?;
            self.ip6_follows(i);
            self.sync_connected(i)?;
        }
        for &i in all {
            self.publish_borrowers(i)?;
        }
        let mut what = Affected::default();
        for i in all.iter().filter_map(|i| self.near.interfaces.get(*i)) {
            what.interfaces.push(i.index);
            // The first interface is the changed one. It carries the others.
            let left = if all.first() == Some(&i.index) { left } else { &[] };
            let networks = i.addresses.iter().map(|a| a.network()).chain(left.iter().copied());
            what.networks.extend(networks.map(|n| Network::new(i.fib, n)));
        }
        self.resolve_again(what);
        for &i in all {
            self.neighbors_follow::<Ipv4Addr>(i);
            self.neighbors_follow::<Ipv6Addr>(i);
        }
        // Records with many addresses or sub-interfaces are large: free old versions before the next turn.
        self.domain.collect();
        Ok(())
    }

    /// Returns an interface and its sub-interfaces.
    fn with_carried(&self, index: u32) -> Vec<u32> {
        [index].into_iter().chain(self.carried_by(index)).collect()
    }

    /// Returns the sub-interfaces of an interface.
    fn carried_by(&self, index: u32) -> Vec<u32> {
        self.near.interfaces.carried_by(index).map(|(_, child)| child).collect()
    }
}

fn missing(index: u32) -> RouterError {
    RouterError::new(format!("there is no interface {index}")).because(Reason::NoInterface)
}

pub(super) fn refuses_state(info: &InterfaceInfo, up: bool, why: &io::Error) -> RouterError {
    RouterError::new(format!(
        "{}: the device cannot be set {}: {why}",
        info.name,
        if up { "up" } else { "down" }
    ))
}

pub(super) fn refuses_mtu(info: &InterfaceInfo, mtu: u16, why: &io::Error) -> RouterError {
    RouterError::new(format!("{}: the device refuses an MTU of {mtu}: {why}", info.name))
}

pub(super) fn refuses_mac(info: &InterfaceInfo, mac: Mac, why: &io::Error) -> RouterError {
    RouterError::new(format!("{}: the device refuses the address {mac}: {why}", info.name))
}

/// Checks that an interface can have this MTU, in bytes.
///
/// # Errors
/// If it is less than the minimum MTU of IPv4.
pub fn check_mtu(mtu: u16) -> Result<(), RouterError> {
    let least = wire::ipv4::MIN_MTU;
    match mtu < least {
        true => {
            let why = format!("MTU {mtu} is less than {least}, the minimum for IPv4");
            Err(RouterError::new(why).because(Reason::Value))
        }
        false => Ok(()),
    }
}

/// Checks that an interface can have this Ethernet address.
///
/// # Errors
/// If the address is a group address or zero.
pub fn check_mac(mac: Mac) -> Result<(), RouterError> {
    match mac.is_unicast() {
        true => Ok(()),
        false => {
            let why = format!("{mac} cannot be an interface's address: it is a group address or zero");
            Err(RouterError::new(why).because(Reason::Value))
        }
    }
}
