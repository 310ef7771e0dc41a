//! What every driver gives: a device.

use std::io;

use buf::{RxQueue, TxQueue};

use crate::guardian::Guardian;

/// An opened device. Its parts may go to different threads; when the last of them is dropped, the device is closed,
/// and an interface of the kernel is the kernel's again.
pub struct Device {
    /// Name of the driver, such as `af-packet`.
    pub kind: &'static str,
    /// The node that polls its queues, one of [`INPUT_NODES`](crate::INPUT_NODES).
    pub input_node: &'static str,
    /// The queues that packets come in by.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// The queues that packets go out by.
    pub tx: Vec<Box<dyn TxQueue>>,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The largest network packet, in bytes: the Ethernet header does not count.
    pub mtu: u16,
    /// The device itself.
    pub control: Box<dyn DeviceControl>,
}

/// A device's link to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Whether the device still exists.
    pub present: bool,
    /// Whether packets can pass: there is somebody at the other end.
    pub carrier: bool,
    /// Speed in Mbit/s, where the device knows it.
    pub speed_mbps: Option<u32>,
}

impl Link {
    /// Whether the device is there and has a carrier.
    pub fn is_up(self) -> bool {
        self.present && self.carrier
    }
}

/// What the main thread does with a device.
pub trait DeviceControl: Send {
    /// Sets the device up or down.
    ///
    /// # Errors
    /// When the device refuses, or is gone.
    fn set_admin(&mut self, up: bool) -> io::Result<()>;

    /// Sets the largest network packet, in bytes.
    ///
    /// # Errors
    /// When the device refuses, or is gone.
    fn set_mtu(&mut self, mtu: u16) -> io::Result<()>;

    /// Sets the Ethernet address.
    ///
    /// # Errors
    /// When the device refuses, or is gone.
    fn set_mac(&mut self, mac: [u8; 6]) -> io::Result<()>;

    /// The link now.
    fn link(&mut self) -> Link;

    /// Has `guardian` give the kernel's interface back as it was, should this process end without doing so.
    fn guard(&mut self, _guardian: &Guardian) {}

    /// The NUMA node that the device is at, where it has one.
    fn numa_node(&self) -> Option<u32> {
        None
    }

    /// What whoever takes this device has to know, in a sentence.
    fn warning(&self) -> Option<String> {
        None
    }

    /// What there is to know of the device, as names and values, for `show hardware-interfaces`.
    fn describe(&self) -> Vec<(&'static str, String)>;
}
