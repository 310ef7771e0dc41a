//! Interfaces as the workers see them, their transmit queues, and what they count.

use std::net::Ipv6Addr;
use std::sync::{Mutex, MutexGuard};

use buf::{TxCaps, TxQueue};
use infra::counters::{CounterSet, Lane};
use wire::{Mac, ipv6};

use super::kind::InterfaceKind;
use crate::ethernet::{PortMode, Vlans};
use crate::ip::{Address, Ip};

/// What an interface is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A device with queues.
    Device,
    /// Packets with certain VLAN tags on a device.
    SubInterface,
    /// No device at all: what is sent out of it is dropped.
    Loopback,
    /// A feature's: what is sent out of it goes to a node of the feature's.
    Feature(InterfaceKind),
}

impl Kind {
    /// Whether there is one other station on its link at most, whose Ethernet address nobody needs to know.
    pub fn is_point_to_point(self) -> bool {
        matches!(self, Kind::Feature(kind) if kind.point_to_point)
    }

    /// Whether there may be neighbours on its link, whose Ethernet addresses are to be asked for.
    pub fn has_neighbors(self) -> bool {
        self != Kind::Loopback && !self.is_point_to_point()
    }

    /// Whether it is there without any device of its own or of its parent's.
    pub fn needs_no_device(self) -> bool {
        matches!(self, Kind::Loopback | Kind::Feature(_))
    }

    /// Its name for people, where the driver of its device does not say it.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Kind::Loopback => Some("loopback"),
            Kind::Feature(kind) => Some(kind.name),
            Kind::Device | Kind::SubInterface => None,
        }
    }
}

/// An interface as the workers see it: immutable, replaced as a whole.
#[derive(Clone, Debug)]
pub struct Interface {
    /// What it is.
    pub kind: Kind,
    /// Index of the device's interface that carries it; its own for a device.
    pub device: u32,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Whether packets may pass: it is up, and so is its device.
    pub up: bool,
    /// The VRF it is bound to.
    pub fib: u16,
    /// The largest network packet it sends, in bytes.
    pub mtu: u16,
    /// The sub-interfaces of a device.
    pub vlans: Vlans,
    /// Its addresses, or those that it uses in their place. Reports about packets that came in by it are sent from the first of
    /// the family, its primary one; about packets that stay on the link, from the link-local one.
    pub addresses: Vec<Address>,
    /// Whether the router answers on its link for hosts that are behind other interfaces.
    pub proxy: bool,
    /// What becomes of frames that come in by it, if they are not routed.
    pub mode: Option<PortMode>,
}

impl Interface {
    /// Its primary address of a family, which is no link-local one.
    pub fn primary<A: Ip>(&self) -> Option<A> {
        self.addresses.iter().filter(|a| !a.is_link_local()).find_map(|a| A::of(a.address))
    }

    /// Its link-local IPv6 address: one that it was given, or that which follows from its Ethernet address (RFC 4291 appendix A).
    pub fn link_local(&self) -> Ipv6Addr {
        let given = self.addresses.iter().filter(|a| a.is_link_local()).find_map(|a| Ipv6Addr::of(a.address));
        given.unwrap_or_else(|| Ipv6Addr::from_bits(ipv6::link_local(self.mac)))
    }

    /// Its address on the network that `neighbor` is on, if that is one of its own.
    pub fn address_beside<A: Ip>(&self, neighbor: A) -> Option<Address<A>> {
        self.addresses.iter().filter_map(|a| a.of::<A>()).find(|a| a.prefix().contains(neighbor))
    }
}

/// What interfaces count: packets and bytes each way, on every interface. Drops are counted by the graph.
#[derive(Clone)]
pub struct InterfaceCounters {
    /// Received.
    pub rx: CounterSet<2>,
    /// Sent, as far as this router knows.
    pub tx: CounterSet<2>,
    /// Came to the device but not to the router: what the device missed, and what could not be used.
    pub rx_lost: CounterSet<2>,
    /// Not taken by the device, for whatever reason.
    pub tx_error: CounterSet<1>,
}

impl InterfaceCounters {
    /// Counters for indexes below `capacity`.
    pub fn new(capacity: u32) -> InterfaceCounters {
        InterfaceCounters {
            rx: CounterSet::new("/if/rx", capacity),
            tx: CounterSet::new("/if/tx", capacity),
            rx_lost: CounterSet::new("/if/rx-lost", capacity),
            tx_error: CounterSet::new("/if/tx-error", capacity),
        }
    }

    /// What was ever counted at an index, with the drops that the graph counted there.
    pub fn totals(&self, index: u32, drops: u64) -> InterfaceTotals {
        let ([rx_packets, rx_bytes], [tx_packets, tx_bytes]) = (self.rx.total(index), self.tx.total(index));
        let ([rx_missed, rx_errors], [tx_errors]) = (self.rx_lost.total(index), self.tx_error.total(index));
        InterfaceTotals { rx_packets, rx_bytes, tx_packets, tx_bytes, drops, rx_missed, rx_errors, tx_errors }
    }

    /// Starts the counters of one interface anew.
    pub fn clear(&self, interface: u32) {
        self.rx.clear(interface);
        self.tx.clear(interface);
        self.rx_lost.clear(interface);
        self.tx_error.clear(interface);
    }
}

/// What an interface has counted, whatever was cleared.
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
    /// Packets dropped that came in by it.
    pub drops: u64,
    /// Packets that its device missed.
    pub rx_missed: u64,
    /// What its device gave that was no packet.
    pub rx_errors: u64,
    /// Packets that its device did not take.
    pub tx_errors: u64,
}

impl InterfaceTotals {
    /// What was counted since `before`.
    pub fn since(&self, before: &InterfaceTotals) -> InterfaceTotals {
        InterfaceTotals {
            rx_packets: self.rx_packets.wrapping_sub(before.rx_packets),
            rx_bytes: self.rx_bytes.wrapping_sub(before.rx_bytes),
            tx_packets: self.tx_packets.wrapping_sub(before.tx_packets),
            tx_bytes: self.tx_bytes.wrapping_sub(before.tx_bytes),
            drops: self.drops.wrapping_sub(before.drops),
            rx_missed: self.rx_missed.wrapping_sub(before.rx_missed),
            rx_errors: self.rx_errors.wrapping_sub(before.rx_errors),
            tx_errors: self.tx_errors.wrapping_sub(before.tx_errors),
        }
    }
}

/// Counts packets and bytes in runs of packets with the same index, on a worker's lane. It is made for one frame, so that
/// the run lives in registers: kept in memory from packet to packet, it would be a chain of stores and loads.
pub struct Runs<'l> {
    lane: &'l mut Lane<2>,
    index: u32,
    packets: u64,
    bytes: u64,
}

impl<'l> Runs<'l> {
    /// Nothing counted yet.
    #[inline(always)]
    pub fn new(lane: &'l mut Lane<2>) -> Runs<'l> {
        Runs { lane, index: u32::MAX, packets: 0, bytes: 0 }
    }

    /// Counts a packet.
    #[inline(always)]
    pub fn packet(&mut self, index: u32, bytes: usize) {
        if index != self.index {
            self.flush();
            self.index = index;
        }
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

/// A device's transmit queues. Worker `w` uses queue `w` modulo their number, and locks it once a frame.
pub struct TxPort {
    queues: Vec<Mutex<Box<dyn TxQueue>>>,
    /// What all the queues can do.
    pub caps: TxCaps,
}

impl TxPort {
    /// The port of a device; `None` when it has no queue.
    pub fn new(queues: Vec<Box<dyn TxQueue>>) -> Option<TxPort> {
        let caps = queues.first()?.caps();
        let queues = queues.into_iter().map(Mutex::new).collect();
        Some(TxPort { queues, caps })
    }

    /// The queue of a worker.
    pub fn queue(&self, worker: usize) -> MutexGuard<'_, Box<dyn TxQueue>> {
        // A panic in a driver leaves its queue as it was between two packets at worst.
        self.queues[worker % self.queues.len()].lock().unwrap_or_else(|e| e.into_inner())
    }
}
