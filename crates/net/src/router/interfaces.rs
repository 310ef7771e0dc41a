//! Interfaces as the main thread knows them: what was asked for, and what follows from it.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use drivers::{Device, DeviceControl, Link};
use wire::Mac;

use super::{Neighborhood, Router, RouterError};
use crate::ethernet::{Tags, Vlans};
use crate::interface::{Interface, Kind, RxSlot, TxPort};
use crate::ip::{Affected, OwnAddresses, Path, Prefix4, Source};
use crate::neighbor::State;

/// The MTU of a loopback interface, bytes.
const LOOPBACK_MTU: u16 = 9000;
/// How long the closing of a device waits for workers to let go of it.
const GRACE: Duration = Duration::from_millis(200);

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The router's own address.
    pub address: Ipv4Addr,
    /// Length of the connected network's prefix in bits.
    pub len: u8,
}

impl Address {
    /// The connected network.
    pub fn network(self) -> Prefix4 {
        Prefix4::new(self.address, self.len)
    }

    /// Whether an interface can have this address.
    ///
    /// # Errors
    /// When it is no host's.
    pub fn check(self) -> Result<(), RouterError> {
        let bits = self.address.to_bits();
        if self.len == 0 || self.len > 32 {
            return Err(RouterError(format!("the prefix length of {self} must be 1 to 32")));
        }
        if bits == 0 || wire::ipv4::is_martian_source(bits) || bits >> 28 == 0xf {
            return Err(RouterError(format!("{} cannot be an interface's address", self.address)));
        }
        if self.is_end(self.address) {
            return Err(RouterError(format!(
                "{} is the first or last address of {}, not a host's",
                self.address,
                self.network()
            )));
        }
        Ok(())
    }

    /// Whether `other` is the first or last address of the connected network, and so no host's.
    pub fn is_end(self, other: Ipv4Addr) -> bool {
        self.len < 31 && (other == self.network().address() || other == self.network().last())
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// An interface: what the operator asked for, and the device behind it.
pub struct InterfaceInfo {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Whether the operator wants it up.
    pub admin_up: bool,
    /// Its Ethernet address.
    pub mac: Mac,
    /// The largest network packet, bytes.
    pub mtu: u16,
    /// Its VRF.
    pub fib: u16,
    /// Its addresses, the primary one first.
    pub addresses: Vec<Address>,
    /// Index of the interface that carries it (its own for devices and loopbacks).
    pub parent: u32,
    /// The VLAN tags of a sub-interface.
    pub tags: Option<Tags>,
    /// The device, for interfaces that have one.
    pub device: Option<DeviceState>,
    /// The Ethernet address that the operator asked for.
    pub own_mac: Option<Mac>,
    /// Address and MTU that it began with.
    pub initial: (Mac, u16),
}

/// A device in use.
pub struct DeviceState {
    /// The driver's name.
    pub driver: &'static str,
    control: Box<dyn DeviceControl>,
    /// What the driver last said of the link.
    pub link: Link,
}

impl DeviceState {
    /// What the driver has to say, for `show hardware-interfaces`.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        self.control.describe()
    }
}

impl Neighborhood {
    /// Whether packets can leave by this interface: it and its parent are up, and so is the device's link.
    pub(crate) fn usable(&self, index: u32) -> bool {
        let Some(i) = self.interfaces.get(&index) else { return false };
        i.admin_up && self.link_up(index) && (i.parent == index || self.usable(i.parent))
    }

    /// Whether the device that carries an interface is there and has a carrier; a loopback needs none.
    fn link_up(&self, index: u32) -> bool {
        let Some(i) = self.interfaces.get(&index) else { return false };
        match &i.device {
            Some(device) => device.link.is_up(),
            None => i.kind == Kind::Loopback || i.parent != index && self.link_up(i.parent),
        }
    }

    /// Writes what workers see of an interface, and of those on it.
    fn publish(&mut self, index: u32) -> Result<(), RouterError> {
        let Some(i) = self.interfaces.get(&index) else { return Ok(()) };
        let subs = self.interfaces.values().filter(|s| s.parent == index && s.index != index);
        let vlans = subs.filter_map(|s| Some((s.tags?, s.index))).collect::<Vec<_>>();
        let children: Vec<u32> = vlans.iter().map(|v| v.1).collect();
        let record = Interface {
            kind: i.kind,
            device: i.parent,
            mac: i.mac,
            up: self.usable(index),
            fib: i.fib,
            mtu: i.mtu,
            vlans: Vlans::new(vlans),
            addresses: i.addresses.clone(),
        };
        let tags = i.tags;
        self.adjacencies.refresh(index, &record, tags);
        self.records.set(index, record)?;
        for child in children {
            self.publish(child)?;
        }
        Ok(())
    }
}

impl Router {
    /// Every interface by index.
    pub fn interfaces(&self) -> impl Iterator<Item = &InterfaceInfo> {
        self.near.interfaces.values()
    }

    /// The interface at `index`.
    ///
    /// # Errors
    /// When there is none.
    pub fn interface(&self, index: u32) -> Result<&InterfaceInfo, RouterError> {
        self.near.interfaces.get(&index).ok_or_else(|| RouterError(format!("there is no interface {index}")))
    }

    /// The interface with this name.
    pub fn interface_named(&self, name: &str) -> Option<&InterfaceInfo> {
        self.near.interfaces.values().find(|i| i.name == name)
    }

    /// Starts the counters of an interface anew.
    pub fn clear_interface(&mut self, index: u32) {
        self.tables.counters.clear(index);
        self.blueprint.stats().clear_drops_of(index);
    }

    /// Whether the device that carries this interface is there and has a carrier; a loopback needs none.
    pub fn link_up(&self, index: u32) -> bool {
        self.near.link_up(index)
    }

    /// Whether packets can leave by this interface.
    pub fn usable(&self, index: u32) -> bool {
        self.near.usable(index)
    }

    fn info_mut(&mut self, index: u32) -> Result<&mut InterfaceInfo, RouterError> {
        let missing = || RouterError(format!("there is no interface {index}"));
        self.near.interfaces.get_mut(&index).ok_or_else(missing)
    }

    fn free_name(&self, name: &str) -> Result<(), RouterError> {
        match self.interface_named(name) {
            Some(_) => Err(RouterError(format!("there is an interface {name} already"))),
            None => Ok(()),
        }
    }

    fn new_info(&mut self, name: &str, kind: Kind) -> Result<u32, RouterError> {
        self.free_name(name)?;
        let index = self.near.records.reserve()?;
        self.tables.counters.clear(index);
        let info = InterfaceInfo {
            index,
            name: name.to_string(),
            kind,
            admin_up: false,
            mac: Mac::ZERO,
            mtu: LOOPBACK_MTU,
            fib: 0,
            addresses: Vec::new(),
            parent: index,
            tags: None,
            device: None,
            own_mac: None,
            initial: (Mac::ZERO, LOOPBACK_MTU),
        };
        self.near.interfaces.insert(index, info);
        Ok(index)
    }

    /// Adds an interface for a device, down and without addresses. Its queues are spread over the workers.
    ///
    /// # Errors
    /// When the name is taken, or there is no room.
    pub fn add_device(&mut self, name: &str, device: Device) -> Result<u32, RouterError> {
        let index = self.new_info(name, Kind::Device)?;
        let (mac, mtu) = (Mac(device.mac), device.mtu);
        if let Err(e) = self.attach(index, device) {
            self.near.interfaces.remove(&index);
            self.near.records.remove(index);
            return Err(e);
        }
        let info = self.info_mut(index)?;
        (info.mac, info.mtu, info.initial) = (mac, mtu, (mac, mtu));
        self.near.publish(index)?;
        Ok(index)
    }

    /// Connects the queues of a device to an interface.
    fn attach(&mut self, index: u32, device: Device) -> Result<(), RouterError> {
        let Device { kind: driver, input_node, rx, tx, mut control, .. } = device;
        let port = TxPort::new(tx).ok_or_else(|| RouterError("the device has no transmit queue".into()))?;
        let mut queues = Vec::new();
        for (q, queue) in rx.into_iter().enumerate() {
            queues.push(Arc::new(RxSlot::new(index, q % self.ports.len(), input_node, queue)?));
        }
        self.tx_ports.set(index, port)?;
        let link = control.link();
        self.info_mut(index)?.device = Some(DeviceState { driver, control, link });
        self.tables.placement.change(|slots| {
            slots.retain(|s| s.interface != index);
            slots.extend(queues);
        });
        self.wake_workers();
        Ok(())
    }

    /// Lets go of a device that vanished, so that it can be opened again when it is back. The interface stays, without
    /// a device and its routes.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn detach_device(&mut self, index: u32) -> Result<(), RouterError> {
        self.info_mut(index)?.device = None;
        self.disconnect(index);
        self.changed(index)
    }

    /// Takes the queues of a device from the workers, and closes them when none can be using them any more.
    fn disconnect(&mut self, index: u32) {
        self.tables.placement.change(|slots| slots.retain(|s| s.interface != index));
        self.wake_workers();
        self.tx_ports.remove(index);
        self.domain.synchronize(GRACE);
        self.domain.collect();
    }

    /// Gives an interface without a device one, and sets it as the interface is.
    ///
    /// # Errors
    /// When the device cannot be set so; the interface then stays without a device.
    pub fn attach_device(&mut self, index: u32, device: Device) -> Result<(), RouterError> {
        let own_mac = Mac(device.mac);
        self.attach(index, device)?;
        let info = self.info_mut(index)?;
        let (mtu, up, mac) = (info.mtu, info.admin_up, info.own_mac);
        // An address that the operator did not set is the device's own, which may be another one now.
        info.initial.0 = own_mac;
        info.admin_up = false;
        let set = |r: &mut Router| {
            r.set_mac(index, mac)?;
            r.set_mtu(index, mtu)?;
            r.set_admin(index, up)
        };
        if let Err(e) = set(self) {
            self.info_mut(index)?.admin_up = up;
            self.detach_device(index)?;
            return Err(e);
        }
        Ok(())
    }

    /// Adds a loopback interface.
    ///
    /// # Errors
    /// When the name is taken, or there is no room.
    pub fn add_loopback(&mut self, name: &str, mac: Mac) -> Result<u32, RouterError> {
        let index = self.new_info(name, Kind::Loopback)?;
        let info = self.info_mut(index)?;
        (info.mac, info.initial.0) = (mac, mac);
        self.near.publish(index)?;
        Ok(index)
    }

    /// Adds a sub-interface for packets with these tags.
    ///
    /// # Errors
    /// When the parent is no device, another sub-interface takes these tags, or the name is taken.
    pub fn add_subinterface(&mut self, name: &str, parent: u32, tags: Tags) -> Result<u32, RouterError> {
        let p = self.interface(parent)?;
        if p.kind != Kind::Device {
            return Err(RouterError(format!("{} cannot have sub-interfaces: it is no device", p.name)));
        }
        let (mac, mtu) = (p.mac, p.mtu);
        let taken = self.interfaces().find(|i| i.parent == parent && i.tags == Some(tags));
        if let Some(taken) = taken {
            return Err(RouterError(format!("{} takes packets with these tags already", taken.name)));
        }
        let index = self.new_info(name, Kind::SubInterface)?;
        let info = self.info_mut(index)?;
        (info.mac, info.mtu, info.initial) = (mac, mtu, (mac, mtu));
        (info.parent, info.tags) = (parent, Some(tags));
        self.near.publish(parent)?;
        Ok(index)
    }

    /// Removes an interface with its addresses, the interfaces on it, and the routes that name it; a device goes back to
    /// whoever had it.
    ///
    /// # Errors
    /// When there is none.
    pub fn remove_interface(&mut self, index: u32) -> Result<(), RouterError> {
        self.interface(index)?;
        let children: Vec<u32> =
            self.interfaces().filter(|i| i.parent == index && i.index != index).map(|i| i.index).collect();
        for child in children {
            self.remove_interface(child)?;
        }
        // The device goes first: one that vanished could not be set down any more.
        self.info_mut(index)?.device = None;
        self.set_admin(index, false)?;
        for address in self.interface(index)?.addresses.clone() {
            self.remove_address(index, address)?;
        }
        self.arcs.forget(index);
        self.neighbors_gone(index);
        self.routes.forget_interface(index, &mut self.near);
        self.connected.remove(&index);
        let Some(info) = self.near.interfaces.remove(&index) else { return Ok(()) };
        self.near.records.remove(index);
        if info.parent != index {
            self.near.publish(info.parent)?;
        }
        self.resolve_again(&Affected { interfaces: vec![index], networks: Vec::new() });
        self.disconnect(index);
        Ok(())
    }

    /// Sets an interface up or down. Its routes come and go with it.
    ///
    /// # Errors
    /// When there is none, or the device refuses.
    pub fn set_admin(&mut self, index: u32, up: bool) -> Result<(), RouterError> {
        let info = self.info_mut(index)?;
        if info.admin_up == up {
            return Ok(());
        }
        if let Some(device) = &mut info.device {
            let failed =
                |e| RouterError(format!("{}: the device cannot be set {}: {e}", info.name, word(up)));
            device.control.set_admin(up).map_err(failed)?;
            device.link = device.control.link();
        }
        info.admin_up = up;
        self.changed(index)
    }

    /// Sets the largest network packet, in bytes.
    ///
    /// # Errors
    /// When it is out of range, larger than the parent's, or the device refuses it.
    pub fn set_mtu(&mut self, index: u32, mtu: u16) -> Result<(), RouterError> {
        check_mtu(mtu)?;
        let parent = self.interface(index)?.parent;
        let of_parent = self.interface(parent)?.mtu;
        if parent != index && mtu > of_parent {
            return Err(RouterError(format!(
                "an MTU of {mtu} is more than {of_parent}, the MTU of its device"
            )));
        }
        let info = self.info_mut(index)?;
        if let Some(device) = &mut info.device {
            let failed = |e| RouterError(format!("{}: the device refuses an MTU of {mtu}: {e}", info.name));
            device.control.set_mtu(mtu).map_err(failed)?;
        }
        info.mtu = mtu;
        for child in self.near.interfaces.values_mut().filter(|c| c.parent == index && c.mtu > mtu) {
            child.mtu = mtu;
        }
        self.changed(index)
    }

    /// Sets the Ethernet address; `None` is the device's own. Sub-interfaces that have none of their own follow.
    ///
    /// # Errors
    /// When it is a group's or zero, or the device refuses it.
    pub fn set_mac(&mut self, index: u32, wanted: Option<Mac>) -> Result<(), RouterError> {
        wanted.map_or(Ok(()), check_mac)?;
        let info = self.interface(index)?;
        let inherited = if info.parent == index { info.initial.0 } else { self.interface(info.parent)?.mac };
        let mac = wanted.unwrap_or(inherited);
        let info = self.info_mut(index)?;
        if let Some(device) = &mut info.device {
            let failed = |e| RouterError(format!("{}: the device refuses the address {mac}: {e}", info.name));
            device.control.set_mac(mac.0).map_err(failed)?;
        }
        (info.mac, info.own_mac) = (mac, wanted);
        let on_it = self.near.interfaces.values_mut().filter(|c| c.parent == index && c.index != index);
        on_it.filter(|c| c.own_mac.is_none()).for_each(|c| c.mac = mac);
        self.changed(index)
    }

    /// Binds an interface to a VRF.
    ///
    /// # Errors
    /// When there is no such VRF, or the interface has addresses.
    pub fn set_table(&mut self, index: u32, fib: u16) -> Result<(), RouterError> {
        if !self.routes.tables().any(|t| t == fib) {
            return Err(RouterError(format!("there is no table {fib}")));
        }
        let info = self.info_mut(index)?;
        if !info.addresses.is_empty() && info.fib != fib {
            return Err(RouterError(format!("{} has addresses: remove them first", info.name)));
        }
        if info.fib != fib {
            self.forget_host_routes(index);
        }
        self.info_mut(index)?.fib = fib;
        self.changed(index)
    }

    /// Gives an interface an address, and the router the routes that follow from it.
    ///
    /// # Errors
    /// When the address is no host's, or its network overlaps another interface's in the same VRF.
    pub fn add_address(&mut self, index: u32, address: Address) -> Result<(), RouterError> {
        let (fib, name) = (self.interface(index)?.fib, self.interface(index)?.name.clone());
        address.check()?;
        let known = self.near.neighbors.entries().get((index, address.address)).map(|e| e.state);
        if matches!(known, Some(State::Static(_))) {
            return Err(RouterError(format!(
                "{} is the address of a static neighbour on {name}: forget that first",
                address.address
            )));
        }
        for other in self.interfaces().filter(|o| o.fib == fib) {
            for a in &other.addresses {
                if a.address == address.address {
                    return Err(RouterError(format!("{} has the address {} already", other.name, a.address)));
                }
                let (mine, theirs) = (address.network(), a.network());
                if other.index != index && (mine.covers(theirs) || theirs.covers(mine)) {
                    return Err(RouterError(format!(
                        "{address} on {name} overlaps {a} on {}: connected networks must be apart",
                        other.name
                    )));
                }
            }
        }
        self.info_mut(index)?.addresses.push(address);
        if let Err(e) = self.sync_connected(index) {
            self.info_mut(index)?.addresses.retain(|a| *a != address);
            self.sync_connected(index)?;
            return Err(e);
        }
        self.changed(index)
    }

    /// Takes an address from an interface.
    ///
    /// # Errors
    /// When the interface has no such address.
    pub fn remove_address(&mut self, index: u32, address: Address) -> Result<(), RouterError> {
        let info = self.info_mut(index)?;
        let Some(at) = info.addresses.iter().position(|a| *a == address) else {
            return Err(RouterError(format!("{} has no address {address}", info.name)));
        };
        info.addresses.remove(at);
        self.sync_connected(index)?;
        self.changed_with(index, Some(address.network()))
    }

    /// An interface changed: workers, routes and the list of own addresses follow.
    fn changed(&mut self, index: u32) -> Result<(), RouterError> {
        self.changed_with(index, None)
    }

    /// The same where the interface `left` a network.
    fn changed_with(&mut self, index: u32, left: Option<Prefix4>) -> Result<(), RouterError> {
        self.near.publish(index)?;
        self.sync_connected(index)?;
        let children: Vec<u32> =
            self.interfaces().filter(|i| i.parent == index && i.index != index).map(|i| i.index).collect();
        for &child in &children {
            self.sync_connected(child)?;
        }
        let addresses = || self.interfaces().flat_map(|i| i.addresses.iter().map(|a| (i.fib, *a)));
        let own = OwnAddresses::new(addresses().map(|(fib, a)| (fib, a.address.to_bits())));
        let networks = addresses().filter(|(_, a)| a.len < 31);
        let own = own.with_broadcasts(networks.map(|(fib, a)| (fib, a.network().last().to_bits())));
        self.own.set(own);
        self.resolve_again(&self.affected(index, left));
        self.neighbors_follow(index);
        children.into_iter().for_each(|child| self.neighbors_follow(child));
        Ok(())
    }

    /// What depends on an interface: it, those on it, and their networks.
    fn affected(&self, index: u32, left: Option<Prefix4>) -> Affected {
        let mut what = Affected::default();
        for i in self.interfaces().filter(|i| i.parent == index || i.index == index) {
            what.interfaces.push(i.index);
            what.networks.extend(i.addresses.iter().map(|a| a.network()).chain(left).map(|n| (i.fib, n)));
        }
        what
    }

    /// Makes the routes that follow from interface addresses what they should be.
    fn sync_connected(&mut self, index: u32) -> Result<(), RouterError> {
        let mut wanted = Vec::new();
        if let Some(i) = self.near.interfaces.get(&index)
            && self.near.usable(index)
        {
            // Two addresses may say the same of a prefix, or one that the other's network ends there: what comes first
            // here counts.
            let mut want = |prefix, path| {
                if !wanted.iter().any(|w: &(u16, Prefix4, Path)| w.1 == prefix) {
                    wanted.push((i.fib, prefix, path));
                }
            };
            i.addresses.iter().for_each(|a| want(Prefix4::host(a.address), Path::Local));
            for a in i.addresses.iter().filter(|a| a.len < 32 && i.kind != Kind::Loopback) {
                want(a.network(), Path::Attached(index));
            }
            for a in i.addresses.iter().filter(|a| a.len < 31) {
                want(Prefix4::host(a.network().last()), Path::Drop);
                want(Prefix4::host(a.network().address()), Path::Drop);
            }
        }
        let had = std::mem::take(self.connected.entry(index).or_default());
        for (fib, prefix, _) in had.iter().filter(|h| !wanted.iter().any(|w| w.0 == h.0 && w.1 == h.1)) {
            self.routes.remove(*fib, *prefix, Source::Interface, &mut self.near)?;
        }
        let mut done = Vec::new();
        let mut result = Ok(());
        for (fib, prefix, path) in wanted {
            if result.is_ok() {
                result = self.routes.add(fib, prefix, Source::Interface, path, &mut self.near);
            }
            if result.is_ok() || had.contains(&(fib, prefix, path)) {
                done.push((fib, prefix, path));
            }
        }
        self.connected.insert(index, done);
        Ok(result?)
    }

    /// Asks every device about its link. Gives the interfaces whose link changed, each with what it was and is;
    /// those whose link came or went change their routes.
    pub fn poll_links(&mut self) -> Vec<(u32, Link, Link)> {
        let mut changed = Vec::new();
        for i in self.near.interfaces.values_mut() {
            if let Some(device) = &mut i.device {
                let (was, is) = (device.link, device.control.link());
                device.link = is;
                if was != is {
                    changed.push((i.index, was, is));
                }
            }
        }
        for (index, was, is) in &changed {
            if was.is_up() != is.is_up()
                && let Err(e) = self.changed(*index)
            {
                tracing::error!("interface {index} after a change of its link: {e}");
            }
        }
        changed
    }

    /// Wakes workers that sleep: something that they poll has changed.
    pub fn wake_workers(&self) {
        self.ports.iter().for_each(graph::WorkerPort::wake);
    }
}

fn word(up: bool) -> &'static str {
    if up { "up" } else { "down" }
}

/// Whether an interface can have this MTU, in bytes.
///
/// # Errors
/// When it is less than IPv4 needs.
pub fn check_mtu(mtu: u16) -> Result<(), RouterError> {
    let least = wire::ipv4::MIN_MTU;
    match mtu < least {
        true => Err(RouterError(format!("an MTU of {mtu} is less than {least}, the least of IPv4"))),
        false => Ok(()),
    }
}

/// Whether an interface can have this Ethernet address.
///
/// # Errors
/// When it is a group's or zero.
pub fn check_mac(mac: Mac) -> Result<(), RouterError> {
    match mac.is_unicast() {
        true => Ok(()),
        false => {
            Err(RouterError(format!("{mac} cannot be an interface's address: it is a group's, or zero")))
        }
    }
}
