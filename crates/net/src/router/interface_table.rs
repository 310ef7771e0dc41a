//! The main thread's table of interfaces. It is indexed by name, by parent and match, and by connected network.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use drivers::{DeviceControl, Link};
use wire::Mac;

use crate::ethernet::{Match, PortMode, Tags};
use crate::interface::{InterfaceTotals, Kind};
use crate::ip::{Address, Ip, IpPrefix};
use crate::nd::Standing;
use crate::setting::Totals;

/// An interface: its configuration and its device.
pub struct InterfaceInfo {
    /// The index. It may be reused after the interface is removed.
    pub index: u32,
    /// The serial number: the number of interfaces that this router had added so far, this one included. It is never reused.
    pub serial: u64,
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: Kind,
    /// True if the operator set the interface up.
    pub admin_up: bool,
    /// True while packets for a removed interface with the same index may still be in the graph. Until they are gone, this interface is not
    /// usable.
    pub(super) heir: bool,
    /// The Ethernet address.
    pub mac: Mac,
    /// The MTU: the maximum length of a network packet, in bytes.
    pub mtu: u16,
    /// The index of the interface's VRF.
    pub fib: u16,
    /// The addresses. In each family, the first address that is not link-local is the primary one.
    pub addresses: Vec<Address>,
    /// True if the operator enabled IPv6 on the interface, whatever addresses it has.
    pub ip6: bool,
    /// The interface whose addresses this one uses instead of its own (unnumbered).
    pub unnumbered: Option<u32>,
    /// True if the router answers on this interface for hosts behind other interfaces (proxy ARP and ND).
    pub proxy: bool,
    /// The duplicate address detection state of each IPv6 address; empty while the interface is not usable, and if it has no neighbors.
    pub(super) standing: BTreeMap<Ipv6Addr, Standing>,
    /// True if the interface was [usable](super::Router::usable) when features were last notified of a change.
    pub(super) was_usable: bool,
    /// Index of the parent interface. For an interface that is no sub-interface, its own index.
    pub parent: u32,
    /// For a sub-interface: which of the device's frames belong to it, by their VLAN tags.
    pub takes: Option<Match>,
    /// The VLAN tags of frames sent on this interface.
    pub tags: Option<Tags>,
    /// The device, if it is present.
    pub device: Option<DeviceState>,
    /// The mode of the port, if received frames are not routed.
    pub mode: Option<PortMode>,
    /// The Ethernet address that the operator set.
    pub own_mac: Option<Mac>,
    /// The operator's configuration of the interface's receive queues.
    pub receive: super::Receive,
    /// The Ethernet address and the MTU that the interface has without configuration.
    pub initial: (Mac, u16),
    /// The counter totals of this interface's index when the interface was added, by [thread](graph::stats::thread_of_lane). Removed
    /// interfaces with the same index caused these totals, so they are subtracted from the current ones. Empty if there were no such
    /// interfaces.
    pub(super) before: Vec<InterfaceTotals>,
    /// Baseline of the features' counters, like `before`.
    pub(super) settings_before: Totals,
}

impl InterfaceInfo {
    /// Returns the interface's addresses of one family, in the configured order.
    pub fn addresses_of<A: Ip>(&self) -> impl Iterator<Item = Address<A>> {
        self.addresses.iter().filter_map(|a| a.of())
    }

    /// True if frames can be sent on the interface. False if the VLAN tags for frames to send are unknown.
    pub fn sends(&self) -> bool {
        self.takes.is_none_or(Match::sends)
    }

    /// True if the interface is for a device that is absent.
    pub fn is_absent(&self) -> bool {
        matches!(self.kind, Kind::Device | Kind::PointToPoint) && self.device.is_none()
    }
}

/// The device of an interface.
pub struct DeviceState {
    /// The driver's name.
    pub driver: &'static str,
    pub(super) control: Box<dyn DeviceControl>,
    /// The link state that the driver reported last.
    pub link: Link,
}

impl DeviceState {
    /// Returns details from the driver, for `show hardware-interfaces`.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        self.control.describe()
    }

    /// Returns the Ethernet address of the other end of the link. `None` if the device did not make the link itself, or if the other end
    /// has no address.
    pub fn peer_mac(&self) -> Option<[u8; 6]> {
        self.control.peer_mac()
    }

    /// Returns a sentence by which the driver warns operators about this device, if any.
    pub fn warning(&self) -> Option<String> {
        self.control.warning()
    }
}

/// All interfaces by index. A lookup takes about as long with thousands of interfaces as with ten.
#[derive(Default)]
pub(crate) struct InterfaceTable {
    interfaces: BTreeMap<u32, InterfaceInfo>,
    names: HashMap<String, u32>,
    /// Indexes of sub-interfaces, by parent and match.
    carried: BTreeMap<(u32, Match), u32>,
    /// Interfaces by VRF and connected network. Networks of different interfaces do not overlap. Link-local networks are not included.
    networks: BTreeMap<(u16, IpPrefix), u32>,
    /// Each interface that lends its addresses, with each interface that is unnumbered to it.
    lent: BTreeSet<(u32, u32)>,
    /// Number of interfaces added so far.
    made: u64,
}

impl InterfaceTable {
    pub fn get(&self, index: u32) -> Option<&InterfaceInfo> {
        self.interfaces.get(&index)
    }

    /// Returns an interface, mutable. The caller must not change the values that are keys of the table: name, parent, match,
    /// addresses, lender, and, while the interface has addresses, the VRF.
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

    /// Returns all interfaces, mutable. The restrictions of [`get_mut`](Self::get_mut) apply.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut InterfaceInfo> {
        self.interfaces.values_mut()
    }

    pub fn named(&self, name: &str) -> Option<&InterfaceInfo> {
        self.get(*self.names.get(name)?)
    }

    /// Adds an interface without addresses, and sets its serial number. Its name must be unique. Its match must be unique among the
    /// parent's sub-interfaces.
    pub fn insert(&mut self, mut info: InterfaceInfo) {
        self.made += 1;
        info.serial = self.made;
        self.names.insert(info.name.clone(), info.index);
        if let Some(takes) = info.takes {
            self.carried.insert((info.parent, takes), info.index);
        }
        self.interfaces.insert(info.index, info);
    }

    /// Removes an interface. It must not have addresses.
    pub fn remove(&mut self, index: u32) -> Option<InterfaceInfo> {
        let info = self.interfaces.remove(&index)?;
        self.names.remove(&info.name);
        if let Some(takes) = info.takes {
            self.carried.remove(&(info.parent, takes));
        }
        if let Some(lender) = info.unnumbered {
            self.lent.remove(&(lender, index));
        }
        Some(info)
    }

    /// Sets the interface whose addresses an interface uses instead of its own; `None` if it uses its own.
    pub fn set_lender(&mut self, index: u32, lender: Option<u32>) {
        let Some(info) = self.interfaces.get_mut(&index) else { return };
        if let Some(old) = std::mem::replace(&mut info.unnumbered, lender) {
            self.lent.remove(&(old, index));
        }
        self.lent.extend(lender.map(|lender| (lender, index)));
    }

    /// Returns the interfaces that are unnumbered to this one, in order.
    pub fn borrowers(&self, lender: u32) -> impl Iterator<Item = u32> {
        self.lent.range((lender, 0)..=(lender, u32::MAX)).map(|(_, borrower)| *borrower)
    }

    /// Returns the sub-interfaces of `parent`, in order of their matches.
    pub fn carried_by(&self, parent: u32) -> impl Iterator<Item = (Match, u32)> {
        let all = (parent, Match::FIRST)..(parent + 1, Match::FIRST);
        self.carried.range(all).map(|((_, takes), index)| (*takes, *index))
    }

    /// Returns the sub-interface of `parent` with this match.
    pub fn taking(&self, parent: u32, takes: Match) -> Option<&InterfaceInfo> {
        self.get(*self.carried.get(&(parent, takes))?)
    }

    /// Sets the addresses of an interface. Their networks must not overlap those of another interface in the VRF.
    pub fn set_addresses(&mut self, index: u32, addresses: Vec<Address>) {
        let Some(info) = self.interfaces.get_mut(&index) else { return };
        let networks = |all: &[Address]| -> BTreeSet<IpPrefix> {
            all.iter().filter(|a| !a.is_link_local()).map(|a| a.network()).collect()
        };
        let (old, new) = (networks(&info.addresses), networks(&addresses));
        info.addresses = addresses;
        for network in old.difference(&new) {
            self.networks.remove(&(info.fib, *network));
        }
        self.networks.extend(new.difference(&old).map(|network| ((info.fib, *network), index)));
    }

    /// Returns the interface whose connected network in this VRF contains `address`. The interface may be up or down. Link-local networks
    /// do not count.
    pub fn with_network_of(&self, fib: u16, address: IpAddr) -> Option<&InterfaceInfo> {
        // The last network that begins at or before the address either contains it, or is inside the network that does.
        let host = IpPrefix::host(address);
        let ((_, network), index) = self.networks.range((fib, host.whole())..=(fib, host)).last()?;
        let info = self.get(*index)?;
        let networks = || info.addresses.iter().filter(|a| !a.is_link_local()).map(|a| a.network());
        (network.contains(address) || networks().any(|n| n.contains(address))).then_some(info)
    }

    /// Returns the interfaces of a VRF that have a connected network that overlaps `network`, whether they are up or down. An interface may
    /// occur more than once.
    pub fn overlapping(&self, fib: u16, network: IpPrefix) -> impl Iterator<Item = &InterfaceInfo> {
        let inside = self.networks.range((fib, network)..=(fib, IpPrefix::host(network.last())));
        let around = self.with_network_of(fib, network.address());
        around.into_iter().chain(inside.filter_map(|(_, index)| self.get(*index)))
    }
}
