//! The workers' records of interfaces; also the interfaces' transmit queues and counters.

use std::net::Ipv6Addr;
use std::sync::{Mutex, MutexGuard};

use buf::{TxCaps, TxQueue};
use graph::stats::thread_of_lane;
use infra::counters::{CounterSet, Lane};
use wire::Mac;

use super::kind::InterfaceKind;
use crate::ethernet::{PortMode, Vlans};
use crate::ip::{Address, Ip};

/// The kind of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A device with queues.
    Device,
    /// A device with queues, whose link has at most one other station, and no Ethernet headers.
    PointToPoint,
    /// A sub-interface of a device, which receives the frames with certain VLAN tags.
    SubInterface,
    /// An interface without a device. Packets sent out of it are dropped, unless a feature [serves its link](crate::router::Router::set_link).
    Loopback(Option<InterfaceKind>),
    /// A feature's interface. Frames sent out of it are passed to the feature's node.
    Feature(InterfaceKind),
}

impl Kind {
    /// True if the interface's link has at most one other station, whose Ethernet address is not needed.
    pub fn is_point_to_point(self) -> bool {
        match self {
            Kind::Feature(kind) | Kind::Loopback(Some(kind)) => kind.point_to_point,
            kind => kind == Kind::PointToPoint,
        }
    }

    /// True if the interface's link may have neighbors whose Ethernet addresses must be resolved.
    pub fn has_neighbors(self) -> bool {
        self != Kind::Loopback(None) && !self.is_point_to_point()
    }

    /// True if the interface needs no device, neither its own nor its parent's.
    pub fn needs_no_device(self) -> bool {
        matches!(self, Kind::Loopback(_) | Kind::Feature(_))
    }

    /// Returns the kind's name for operators; `None` for devices and sub-interfaces: the device's driver provides the name.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Kind::Loopback(_) => Some("loopback"),
            Kind::Feature(kind) => Some(kind.name),
            Kind::Device | Kind::PointToPoint | Kind::SubInterface => None,
        }
    }
}

/// The workers' record of an interface. It is never changed in place: a change replaces the whole record.
#[derive(Clone, Debug)]
pub struct Interface {
    /// The kind.
    pub kind: Kind,
    /// For a sub-interface, the index of its device's interface; for any other interface, its own index.
    pub device: u32,
    /// The Ethernet address.
    pub mac: Mac,
    /// True if packets may pass: the interface and its device are up.
    pub up: bool,
    /// The VRF.
    pub fib: u16,
    /// The MTU: the largest network packet to send, in bytes.
    pub mtu: u16,
    /// The sub-interfaces of a device.
    pub vlans: Vlans,
    /// The addresses from which the router sends on this interface, none of which is tentative or a duplicate (RFC 4862 section 5.4). An
    /// unnumbered interface has the addresses of the interface from which it borrows them, and its own link-local address. The first address
    /// of a family that is not link-local is the primary one. The primary address is the source of ICMP errors about packets that this
    /// interface received, with two exceptions. If such a packet was sent to an address of the router, the source is that address. If the
    /// error is sent to a link-local address, the source is the interface's link-local address.
    pub addresses: Vec<Address>,
    /// True if the router answers on the interface's link for hosts behind other interfaces (proxy ARP and
    /// Neighbor Discovery).
    pub proxy: bool,
    /// The port mode, if a feature takes the received frames before routing; `None` if received frames are routed.
    pub mode: Option<PortMode>,
}

impl Interface {
    /// Returns the interface's primary address of a family, never a link-local one.
    pub fn primary<A: Ip>(&self) -> Option<A> {
        self.addresses.iter().filter(|a| !a.is_link_local()).find_map(|a| A::of(a.address))
    }

    /// Returns the interface's link-local IPv6 address: the configured one, or the one derived from the interface's Ethernet address (RFC
    /// 4291 appendix A). `None` if the interface may not use it, or not yet.
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        self.addresses.iter().filter(|a| a.is_link_local()).find_map(|a| Ipv6Addr::of(a.address))
    }

    /// Returns the interface's address in the connected network that contains `neighbor`, if there is one.
    pub fn address_beside<A: Ip>(&self, neighbor: A) -> Option<Address<A>> {
        self.addresses.iter().filter_map(|a| a.of::<A>()).find(|a| a.prefix().contains(neighbor))
    }
}

/// Counters of interfaces, mostly of packets and bytes. The graph counts drops.
#[derive(Clone)]
pub struct InterfaceCounters {
    /// Packets and bytes received.
    pub rx: CounterSet<2>,
    /// Packets and bytes sent, counted before the device accepts them. So packets that the device refuses are included.
    pub tx: CounterSet<2>,
    /// Packets that the device missed, and unusable packets that it delivered. Neither reached the router.
    pub rx_lost: CounterSet<2>,
    /// Packets that the device did not take, for any reason.
    pub tx_error: CounterSet<1>,
}

impl InterfaceCounters {
    /// Creates counters for indexes below `capacity`.
    pub fn new(capacity: u32) -> InterfaceCounters {
        InterfaceCounters {
            rx: CounterSet::new("/if/rx", capacity),
            tx: CounterSet::new("/if/tx", capacity),
            rx_lost: CounterSet::new("/if/rx-lost", capacity),
            tx_error: CounterSet::new("/if/tx-error", capacity),
        }
    }

    /// Returns the totals of the interface `index`. Clearing the counters does not affect them. `drops` is the number of drops that the
    /// graph counted.
    pub fn totals(&self, index: u32, drops: u64) -> InterfaceTotals {
        let ([rx_packets, rx_bytes], [tx_packets, tx_bytes]) = (self.rx.total(index), self.tx.total(index));
        let ([rx_missed, rx_errors], [tx_errors]) = (self.rx_lost.total(index), self.tx_error.total(index));
        InterfaceTotals { rx_packets, rx_bytes, tx_packets, tx_bytes, drops, rx_missed, rx_errors, tx_errors }
    }

    /// Calls `each` with the number of a [thread](graph::stats::thread_of_lane) and totals of the interface `index` that this thread
    /// counted. There are several calls for each thread: each call has a part of the totals, and all others are 0. Drops are not included,
    /// because the graph counts them.
    pub fn each_total(&self, index: u32, mut each: impl FnMut(usize, InterfaceTotals)) {
        let none = InterfaceTotals::default();
        self.rx.each_total(index, |lane, [rx_packets, rx_bytes]| {
            each(thread_of_lane(lane), InterfaceTotals { rx_packets, rx_bytes, ..none });
        });
        self.tx.each_total(index, |lane, [tx_packets, tx_bytes]| {
            each(thread_of_lane(lane), InterfaceTotals { tx_packets, tx_bytes, ..none });
        });
        self.rx_lost.each_total(index, |lane, [rx_missed, rx_errors]| {
            each(thread_of_lane(lane), InterfaceTotals { rx_missed, rx_errors, ..none });
        });
        self.tx_error.each_total(index, |lane, [tx_errors]| {
            each(thread_of_lane(lane), InterfaceTotals { tx_errors, ..none });
        });
    }

    /// Clears the counters of one interface.
    pub fn clear(&self, interface: u32) {
        self.rx.clear(interface);
        self.tx.clear(interface);
        self.rx_lost.clear(interface);
        self.tx_error.clear(interface);
    }
}

/// An interface's totals. Clearing the counters does not affect them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceTotals {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Received packets that were dropped.
    pub drops: u64,
    /// Packets that the device missed.
    pub rx_missed: u64,
    /// Unusable packets from the device.
    pub rx_errors: u64,
    /// Packets that the device did not take.
    pub tx_errors: u64,
}

impl InterfaceTotals {
    /// Returns the difference from `before`.
    pub fn since(&self, before: &InterfaceTotals) -> InterfaceTotals {
        self.combined(before, u64::wrapping_sub)
    }

    /// Returns the sum of these totals and others.
    pub fn plus(&self, others: &InterfaceTotals) -> InterfaceTotals {
        self.combined(others, u64::wrapping_add)
    }

    fn combined(&self, other: &InterfaceTotals, with: fn(u64, u64) -> u64) -> InterfaceTotals {
        InterfaceTotals {
            rx_packets: with(self.rx_packets, other.rx_packets),
            rx_bytes: with(self.rx_bytes, other.rx_bytes),
            tx_packets: with(self.tx_packets, other.tx_packets),
            tx_bytes: with(self.tx_bytes, other.tx_bytes),
            drops: with(self.drops, other.drops),
            rx_missed: with(self.rx_missed, other.rx_missed),
            rx_errors: with(self.rx_errors, other.rx_errors),
            tx_errors: with(self.tx_errors, other.tx_errors),
        }
    }
}

/// Counts packets and bytes for one worker. Consecutive packets with the same index are a run. The sums of a run are added to the worker's
/// counters (its lane) when the run ends. Create a `Runs` for each frame: the sums then stay in registers, instead of being loaded from
/// memory and stored again for each packet.
pub struct Runs<'l> {
    lane: &'l mut Lane<2>,
    index: u32,
    packets: u64,
    bytes: u64,
}

impl<'l> Runs<'l> {
    /// Creates an empty run.
    #[inline(always)]
    pub fn new(lane: &'l mut Lane<2>) -> Runs<'l> {
        Runs { lane, index: u32::MAX, packets: 0, bytes: 0 }
    }

    /// Counts a packet.
    #[inline(always)]
    pub fn packet(&mut self, index: u32, bytes: usize) {
        self.begin(index);
        self.add(bytes);
    }

    /// Starts a new run for packets with this index, unless the current run has the same index. Returns true if a new run started. A new
    /// `Runs` has an empty run with the index `u32::MAX`.
    #[inline(always)]
    pub fn begin(&mut self, index: u32) -> bool {
        let begins = index != self.index;
        if begins {
            self.flush();
            self.index = index;
        }
        begins
    }

    /// Counts a packet in the current run.
    #[inline(always)]
    pub fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    #[inline(always)]
    fn flush(&mut self) {
        if self.packets > 0 {
            self.lane.add(self.index, [self.packets, self.bytes]);
        }
        (self.packets, self.bytes) = (0, 0);
    }
}

impl Drop for Runs<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.flush();
    }
}

/// A device's transmit queues. Worker `w` uses the queue with the index `w` modulo the number of queues, and locks it once per frame.
pub struct TxPort {
    queues: Vec<Mutex<Box<dyn TxQueue>>>,
    /// The capabilities, which are the same for all queues.
    pub caps: TxCaps,
}

impl TxPort {
    /// Creates the port of a device; `None` if the device has no queue.
    pub fn new(queues: Vec<Box<dyn TxQueue>>) -> Option<TxPort> {
        let caps = queues.first()?.caps();
        let queues = queues.into_iter().map(Mutex::new).collect();
        Some(TxPort { queues, caps })
    }

    /// Returns the queue that a worker uses, locked.
    pub fn queue(&self, worker: usize) -> MutexGuard<'_, Box<dyn TxQueue>> {
        // A panic in a driver leaves its queue between two packets at worst.
        self.queues[worker % self.queues.len()].lock().unwrap_or_else(|e| e.into_inner())
    }
}
