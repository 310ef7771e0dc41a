//! The tester's ends of the links.

use buf::Pool;
use drivers::device::{Device, DeviceControl};
use drivers::{af_packet, af_xdp};

use super::link::Link;
use super::spec::Driver;
use crate::engine::run::Port;
use crate::trial::Failure;

/// Size of the tester's receive rings, in packets.
pub(super) const RING: usize = 4096;

/// The tester's ends of the links, for any kind of testbed.
pub(super) trait Near {
    /// Opens the ends, after closing those of the previous trial.
    ///
    /// # Errors
    /// If an end cannot be opened.
    fn open(&mut self, links: &[Link; 2], pool: &Pool) -> Result<Vec<Port>, Failure>;

    /// True if the other ends are connected.
    fn is_connected(&mut self) -> bool {
        true
    }
}

/// Interfaces of the kernel.
#[derive(Default)]
pub(super) struct Interfaces {
    pub driver: Driver,
    /// Controls that keep the devices open.
    controls: Vec<Box<dyn DeviceControl>>,
}

impl Interfaces {
    pub fn new(driver: Driver) -> Interfaces {
        Interfaces { driver, controls: Vec::new() }
    }
}

impl Near for Interfaces {
    fn open(&mut self, links: &[Link; 2], pool: &Pool) -> Result<Vec<Port>, Failure> {
        self.controls.clear();
        let mut ports = Vec::new();
        for link in links {
            let (port, control) = port(open(self.driver, link, pool)?, link)?;
            ports.push(port);
            self.controls.push(control);
        }
        Ok(ports)
    }
}

fn open(driver: Driver, link: &Link, pool: &Pool) -> Result<Device, Failure> {
    let name = &link.tester;
    let device = match driver {
        Driver::AfPacket => {
            af_packet::open(&af_packet::Config { rx_ring: RING, ..af_packet::Config::new(name) })
        }
        Driver::AfXdp => {
            let ring = RING as u32;
            let config = af_xdp::Config { rx_ring: ring, tx_ring: ring, ..af_xdp::Config::new(name) };
            af_xdp::open(&config, pool)
        }
    };
    let mut device = device.map_err(|e| Failure(format!("{name}: {e}")))?;
    if device.rx.len() != 1 {
        return Err(Failure(format!(
            "{name} has {} queues, but the tester polls only one: run ethtool --set-channels {name} combined 1",
            device.rx.len()
        )));
    }
    device.control.set_admin(true).map_err(|e| Failure(format!("{name}: {e}")))?;
    Ok(device)
}

/// Makes a port of the tester from a device with one queue in each direction.
pub(super) fn port(mut device: Device, link: &Link) -> Result<(Port, Box<dyn DeviceControl>), Failure> {
    let none = || Failure(format!("{} has no queues", link.tester));
    let (rx, tx) = (device.rx.pop().ok_or_else(none)?, device.tx.pop().ok_or_else(none)?);
    Ok((Port { tx, rx, hosts: Some(link.answering()) }, device.control))
}
