//! The interface of every driver: an opened device, and its control.

use std::io;

use buf::{RxQueue, TxQueue};

use crate::guardian::Guardian;

/// An opened device: queues and a control handle, which may move to different threads. The device is closed when the last of them is
/// dropped. If the device uses a kernel interface, the interface is then returned to the kernel.
pub struct Device {
    /// Name of the driver, such as `af-packet`.
    pub kind: &'static str,
    /// The input node that polls the receive queues: the `INPUT_NODE` of the driver.
    pub input_node: &'static str,
    /// The receive queues.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// The transmit queues.
    pub tx: Vec<Box<dyn TxQueue>>,
    /// The Ethernet address.
    pub mac: [u8; 6],
    /// The MTU in bytes, without the Ethernet header.
    pub mtu: u16,
    /// The control handle.
    pub control: Box<dyn DeviceControl>,
}

/// Link state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// True if the device still exists.
    pub present: bool,
    /// True if the link has a carrier: the other end is connected.
    pub carrier: bool,
    /// Speed in Mbit/s, if the device reports it.
    pub speed_mbps: Option<u32>,
}

impl Link {
    /// True if the device exists and has a carrier.
    pub fn is_up(self) -> bool {
        self.present && self.carrier
    }
}

/// Control of a device by the main thread.
pub trait DeviceControl: Send {
    /// Sets the device administratively up or down.
    ///
    /// # Errors
    /// If the device refuses, or no longer exists.
    fn set_admin(&mut self, up: bool) -> io::Result<()>;

    /// Sets the MTU in bytes, without the Ethernet header.
    ///
    /// # Errors
    /// If the device refuses, or no longer exists.
    fn set_mtu(&mut self, mtu: u16) -> io::Result<()>;

    /// Sets the Ethernet address.
    ///
    /// # Errors
    /// If the device refuses, or no longer exists.
    fn set_mac(&mut self, mac: [u8; 6]) -> io::Result<()>;

    /// Returns the current link state.
    fn link(&mut self) -> Link;

    /// Registers the device with `guardian`. If this process ends without restoring the kernel interface, the guardian restores it.
    fn guard(&mut self, _guardian: &Guardian) {}

    /// Returns the NUMA node of the device, if it has one.
    fn numa_node(&self) -> Option<u32> {
        None
    }

    /// Returns the Ethernet address of the other end of the link, if the device itself made the link and that end has an address.
    fn peer_mac(&self) -> Option<[u8; 6]> {
        None
    }

    /// True if the link has one other station and its packets have no Ethernet header. The router's frames have one nevertheless: the
    /// driver adds it to received packets, with the device's own address as the destination, and removes it from sent ones.
    fn is_point_to_point(&self) -> bool {
        false
    }

    /// Returns a one-sentence warning for the operator about using this device, if there is one.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Returns the device's properties as names and values, for `show hardware-interfaces`.
    fn describe(&self) -> Vec<(&'static str, String)>;
}
