//! The main thread's table of interfaces, indexed by name, by parent and match, and by connected network.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use drivers::{DeviceControl, Link};
use wire::Mac;

use crate::ethernet::{Match, PortMode, Tags};
use crate::interface::{InterfaceTotals, Kind};
use crate::ip::{Address, Ip, IpPrefix};
use crate::nd::{Advertisement, Standing};
use crate::setting::Totals;

/// An interface: its configuration and its device.
pub struct InterfaceInfo {
    /// The index. A later interface may reuse it.
    pub index: u32,
    /// The serial number: counts the interfaces this router ever made, and is never reused.
    pub serial: u64,
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: Kind,
    /// True if the operator wants it up.
    pub admin_up: bool,
    /// True while packets to a removed interface with the same index may still be on their way. Meanwhile this
    /// interface is not used.
    pub(super) heir: bool,
    /// The Ethernet address.
    pub mac: Mac,
    /// The MTU: the largest network packet, in bytes.
    pub mtu: u16,
    /// The index of its VRF.
    pub fib: u16,
    /// The addresses. The primary one of each family comes before the others of that family.
    pub addresses: Vec<Address>,
    /// True if the operator wants IPv6 on it, whatever addresses it has.
    pub ip6: bool,
    /// The interface whose addresses it uses instead of its own.
    pub unnumbered: Option<u32>,
    /// True if it answers for hosts behind other interfaces (proxy ARP and ND).
    pub proxy: bool,
    /// The duplicate address detection state of its IPv6 addresses while it is up.
    pub(super) standing: BTreeMap<Ipv6Addr, Standing>,
    /// The router advertisement configuration, if the router advertises itself here.
    pub advertisement: Option<Advertisement>,
    /// The last advertisement before advertising was turned off.
    pub(super) last_advertisement: Option<Advertisement>,
    /// Index of the parent interface (its own for devices and loopbacks).
    pub parent: u32,
    /// The frames that a sub-interface takes from its device.
    pub takes: Option<Match>,
    /// The VLAN tags of sent frames.
    pub tags: Option<Tags>,
    /// The device, if present.
    pub device: Option<DeviceState>,
    /// The treatment of received frames, if they are not routed.
    pub mode: Option<PortMode>,
    /// The Ethernet address set by the operator.
    pub own_mac: Option<Mac>,
    /// The operator's configuration of its receive queues.
    pub receive: super::Receive,
    /// Initial Ethernet address and MTU.
    pub initial: (Mac, u16),
    /// Counter totals of former interfaces with its index.
    pub(super) before: InterfaceTotals,
    /// Counter totals of features, for former interfaces with its index.
    pub(super) settings_before: Totals,
}

impl InterfaceInfo {
    /// Returns its addresses of one family, the primary one first.
    pub fn addresses_of<A: Ip>(&self) -> impl Iterator<Item = Address<A>> {
        self.addresses.iter().filter_map(|a| a.of())
    }

    /// True if frames can be sent on it, because their tags are known.
    pub fn sends(&self) -> bool {
        self.takes.is_none_or(Match::sends)
    }

    /// True if it waits for its device.
    pub fn is_absent(&self) -> bool {
        self.kind == Kind::Device && self.device.is_none()
    }
}

/// A device in use.
pub struct DeviceState {
    /// The driver's name.
    pub driver: &'static str,
    pub(super) control: Box<dyn DeviceControl>,
    /// The last link state from the driver.
    pub link: Link,
}

impl DeviceState {
    /// Returns the driver's details, for `show hardware-interfaces`.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        self.control.describe()
    }

    /// Returns the driver's warning for operators of this device, in one sentence.
    pub fn warning(&self) -> Option<String> {
        self.control.warning()
    }
}

/// Interfaces by index. Lookups take about as long for ten interfaces as for thousands.
#[derive(Default)]
pub(crate) struct InterfaceTable {
    interfaces: BTreeMap<u32, InterfaceInfo>,
    names: HashMap<String, u32>,
    /// Sub-interfaces by parent and match.
    carried: BTreeMap<(u32, Match), u32>,
    /// Connected networks by VRF. Networks of different interfaces do not overlap. Link-local ones are not included.
    networks: BTreeMap<(u16, IpPrefix), u32>,
    /// Number of interfaces ever made.
    made: u64,
}

impl InterfaceTable {
    pub fn get(&self, index: u32) -> Option<&InterfaceInfo> {
        self.interfaces.get(&index)
    }

    /// Returns an interface, mutable. Callers must not change its index keys: name, parent, match, addresses, and the
    /// VRF while it has addresses.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut InterfaceInfo> {
        self.interfaces.get_mut(&index)
    }

    pub fn values(&self) -> impl Iterator<Item = &InterfaceInfo> {
        self.interfaces.values()
    }

    /// Returns the interfaces with an index of at least `first`, in order.
    pub fn from(&self, first: u32) -> impl Iterator<Item = &InterfaceInfo> {
        self.interfaces.range(first..).map(|(_, info)| info)
    }

    /// Returns all interfaces, mutable; the limits of [`get_mut`](Self::get_mut) apply.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut InterfaceInfo> {
        self.interfaces.values_mut()
    }

    pub fn named(&self, name: &str) -> Option<&InterfaceInfo> {
        self.get(*self.names.get(name)?)
    }

    /// Adds an interface without addresses, with a unique name and match. Sets its serial number.
    pub fn insert(&mut self, mut info: InterfaceInfo) {
        self.made += 1;
        info.serial = self.made;
        self.names.insert(info.name.clone(), info.index);
        if let Some(takes) = info.takes {
            self.carried.insert((info.parent, takes), info.index);
        }
        self.interfaces.insert(info.index, info);
    }

    /// Removes an interface without addresses.
    pub fn remove(&mut self, index: u32) -> Option<InterfaceInfo> {
        let info = self.interfaces.remove(&index)?;
        self.names.remove(&info.name);
        if let Some(takes) = info.takes {
            self.carried.remove(&(info.parent, takes));
        }
        Some(info)
    }

    /// Returns the sub-interfaces of an interface, in order of their matches.
    pub fn carried_by(&self, parent: u32) -> impl Iterator<Item = (Match, u32)> {
        let all = (parent, Match::FIRST)..(parent + 1, Match::FIRST);
        self.carried.range(all).map(|((_, takes), index)| (*takes, *index))
    }

    /// Returns the sub-interface of `parent` with this match.
    pub fn taking(&self, parent: u32, takes: Match) -> Option<&InterfaceInfo> {
        self.get(*self.carried.get(&(parent, takes))?)
    }

    /// Adds an address to an interface. Its network must not overlap another interface's.
    pub fn add_address(&mut self, index: u32, address: Address) {
        if let Some(info) = self.interfaces.get_mut(&index) {
            info.addresses.push(address);
            if !address.is_link_local() {
                self.networks.insert((info.fib, address.network()), index);
            }
        }
    }

    /// Removes an address from an interface.
    pub fn remove_address(&mut self, index: u32, address: Address) {
        let Some(info) = self.interfaces.get_mut(&index) else { return };
        info.addresses.retain(|a| *a != address);
        if !info.addresses.iter().any(|a| a.network() == address.network()) {
            self.networks.remove(&(info.fib, address.network()));
        }
    }

    /// Returns the interface of a VRF, up or down, with a connected network that contains `address`.
    pub fn with_network_of(&self, fib: u16, address: IpAddr) -> Option<&InterfaceInfo> {
        // The last network that begins at or before the address either contains it, or is inside the network that does.
        let host = IpPrefix::host(address);
        let ((_, network), index) = self.networks.range((fib, host.whole())..=(fib, host)).last()?;
        let info = self.get(*index)?;
        let networks = || info.addresses.iter().filter(|a| !a.is_link_local()).map(|a| a.network());
        (network.contains(address) || networks().any(|n| n.contains(address))).then_some(info)
    }

    /// Returns the interfaces of a VRF, up or down, with a network that overlaps this one.
    pub fn overlapping(&self, fib: u16, network: IpPrefix) -> impl Iterator<Item = &InterfaceInfo> {
        let inside = self.networks.range((fib, network)..=(fib, IpPrefix::host(network.last())));
        let around = self.with_network_of(fib, network.address());
        around.into_iter().chain(inside.filter_map(|(_, index)| self.get(*index)))
    }
}
