//! The main thread's table of interfaces, with what finds them: by name, by what carries them, by network.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use drivers::{DeviceControl, Link};
use wire::Mac;

use crate::ethernet::{PortMode, Tags};
use crate::interface::{InterfaceTotals, Kind};
use crate::ip::{Address, Ip, IpPrefix};
use crate::nd::{Advertisement, Standing};
use crate::setting::Totals;

/// An interface: what the operator asked for, and the device behind it.
pub struct InterfaceInfo {
    /// Its index, which another one may have when this one is gone.
    pub index: u32,
    /// The how-manieth interface it is that this router made: no other ever has this number.
    pub serial: u64,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Whether the operator wants it up.
    pub admin_up: bool,
    /// Its index was another's, to whom packets may still be on their way: until none can be, it is not used.
    pub(super) heir: bool,
    /// Its Ethernet address.
    pub mac: Mac,
    /// The largest network packet, bytes.
    pub mtu: u16,
    /// Its VRF.
    pub fib: u16,
    /// Its addresses, the primary one of each family before the others of that family.
    pub addresses: Vec<Address>,
    /// Whether the operator wants IPv6 on it, whatever addresses it has.
    pub ip6: bool,
    /// The interface whose addresses it uses in place of its own.
    pub unnumbered: Option<u32>,
    /// Whether it answers for hosts that are behind other interfaces.
    pub proxy: bool,
    /// How its IPv6 addresses stand while it is up.
    pub(super) standing: BTreeMap<Ipv6Addr, Standing>,
    /// What hosts on its link are told of the router, if they are.
    pub advertisement: Option<Advertisement>,
    /// What they were told before they were told no more.
    pub(super) last_advertisement: Option<Advertisement>,
    /// Index of the interface that carries it (its own for devices and loopbacks).
    pub parent: u32,
    /// The VLAN tags of a sub-interface.
    pub tags: Option<Tags>,
    /// The device, for interfaces that have one.
    pub device: Option<DeviceState>,
    /// What becomes of frames that come in, if they are not routed.
    pub mode: Option<PortMode>,
    /// The Ethernet address that the operator asked for.
    pub own_mac: Option<Mac>,
    /// What the operator wants of its receive queues.
    pub receive: super::Receive,
    /// Address and MTU that it began with.
    pub initial: (Mac, u16),
    /// What had been counted at its index before it was there.
    pub(super) before: InterfaceTotals,
    /// The same of what features count.
    pub(super) settings_before: Totals,
}

impl InterfaceInfo {
    /// Its addresses of one family, the primary one first.
    pub fn addresses_of<A: Ip>(&self) -> impl Iterator<Item = Address<A>> {
        self.addresses.iter().filter_map(|a| a.of())
    }

    /// Whether it is without its device, and waits for it.
    pub fn is_absent(&self) -> bool {
        self.kind == Kind::Device && self.device.is_none()
    }
}

/// A device in use.
pub struct DeviceState {
    /// The driver's name.
    pub driver: &'static str,
    pub(super) control: Box<dyn DeviceControl>,
    /// What the driver last said of the link.
    pub link: Link,
}

impl DeviceState {
    /// What the driver has to say, for `show hardware-interfaces`.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        self.control.describe()
    }

    /// What whoever takes the device has to know, in a sentence.
    pub fn warning(&self) -> Option<String> {
        self.control.warning()
    }
}

/// Interfaces by index. Finding one takes about as long whether there are ten or thousands.
#[derive(Default)]
pub(crate) struct InterfaceTable {
    interfaces: BTreeMap<u32, InterfaceInfo>,
    names: HashMap<String, u32>,
    /// Sub-interfaces by the interface that carries them and their tags.
    carried: BTreeMap<(u32, Tags), u32>,
    /// Connected networks by VRF. Those of different interfaces are apart; link-local ones are not among them.
    networks: BTreeMap<(u16, IpPrefix), u32>,
    /// How many interfaces there ever were.
    made: u64,
}

impl InterfaceTable {
    pub fn get(&self, index: u32) -> Option<&InterfaceInfo> {
        self.interfaces.get(&index)
    }

    /// An interface, to be changed: not by what it is found by (name, parent, tags, addresses, the VRF of one that has
    /// addresses).
    pub fn get_mut(&mut self, index: u32) -> Option<&mut InterfaceInfo> {
        self.interfaces.get_mut(&index)
    }

    pub fn values(&self) -> impl Iterator<Item = &InterfaceInfo> {
        self.interfaces.values()
    }

    /// Those whose index is not below `first`, in order.
    pub fn from(&self, first: u32) -> impl Iterator<Item = &InterfaceInfo> {
        self.interfaces.range(first..).map(|(_, info)| info)
    }

    /// All of them, to be changed as by [`get_mut`](Self::get_mut).
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut InterfaceInfo> {
        self.interfaces.values_mut()
    }

    pub fn named(&self, name: &str) -> Option<&InterfaceInfo> {
        self.get(*self.names.get(name)?)
    }

    /// Adds an interface without addresses, whose name and tags no other has. It gets its serial number here.
    pub fn insert(&mut self, mut info: InterfaceInfo) {
        self.made += 1;
        info.serial = self.made;
        self.names.insert(info.name.clone(), info.index);
        if let Some(tags) = info.tags {
            self.carried.insert((info.parent, tags), info.index);
        }
        self.interfaces.insert(info.index, info);
    }

    /// Removes an interface without addresses.
    pub fn remove(&mut self, index: u32) -> Option<InterfaceInfo> {
        let info = self.interfaces.remove(&index)?;
        self.names.remove(&info.name);
        if let Some(tags) = info.tags {
            self.carried.remove(&(info.parent, tags));
        }
        Some(info)
    }

    /// The sub-interfaces on an interface, in order of their tags.
    pub fn carried_by(&self, parent: u32) -> impl Iterator<Item = (Tags, u32)> {
        let first = Tags { outer_service: false, outer: 0, inner: None };
        self.carried.range((parent, first)..(parent + 1, first)).map(|((_, tags), index)| (*tags, *index))
    }

    /// The sub-interface on `parent` with these tags.
    pub fn tagged(&self, parent: u32, tags: Tags) -> Option<&InterfaceInfo> {
        self.get(*self.carried.get(&(parent, tags))?)
    }

    /// Gives an interface an address, whose network overlaps no other interface's.
    pub fn add_address(&mut self, index: u32, address: Address) {
        if let Some(info) = self.interfaces.get_mut(&index) {
            info.addresses.push(address);
            if !address.is_link_local() {
                self.networks.insert((info.fib, address.network()), index);
            }
        }
    }

    /// Takes an address from an interface.
    pub fn remove_address(&mut self, index: u32, address: Address) {
        let Some(info) = self.interfaces.get_mut(&index) else { return };
        info.addresses.retain(|a| *a != address);
        if !info.addresses.iter().any(|a| a.network() == address.network()) {
            self.networks.remove(&(info.fib, address.network()));
        }
    }

    /// The interface of a VRF, up or down, with a network that `address` is on.
    pub fn with_network_of(&self, fib: u16, address: IpAddr) -> Option<&InterfaceInfo> {
        // The last network that begins before the address is the one that contains it, or in that one.
        let host = IpPrefix::host(address);
        let ((_, network), index) = self.networks.range((fib, host.whole())..=(fib, host)).last()?;
        let info = self.get(*index)?;
        let networks = || info.addresses.iter().filter(|a| !a.is_link_local()).map(|a| a.network());
        (network.contains(address) || networks().any(|n| n.contains(address))).then_some(info)
    }

    /// The interfaces of a VRF, up or down, with a network that overlaps this one.
    pub fn overlapping(&self, fib: u16, network: IpPrefix) -> impl Iterator<Item = &InterfaceInfo> {
        let inside = self.networks.range((fib, network)..=(fib, IpPrefix::host(network.last())));
        let around = self.with_network_of(fib, network.address());
        around.into_iter().chain(inside.filter_map(|(_, index)| self.get(*index)))
    }
}
