//! The tester's ends of the links.

use std::os::fd::BorrowedFd;

use buf::{Cache, Frame, Gone, Lost, Pool, RxQueue};
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
    /// Returns ports at the tester's ends of the links, for one trial. The ports of the previous trial must be closed.
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
    /// Number of threads of each port that only send. Each thread has its own queue.
    pub senders: usize,
    /// Controls that keep the devices open.
    controls: Vec<Box<dyn DeviceControl>>,
}

impl Interfaces {
    pub fn new(driver: Driver, senders: usize) -> Interfaces {
        Interfaces { driver, senders, controls: Vec::new() }
    }
}

impl Near for Interfaces {
    fn open(&mut self, links: &[Link; 2], pool: &Pool) -> Result<Vec<Port>, Failure> {
        self.controls.clear();
        let mut ports = Vec::new();
        for link in links {
            let (port, control) = port(open(self, link, pool)?, link)?;
            ports.push(port);
            self.controls.push(control);
        }
        Ok(ports)
    }
}

fn open(of: &Interfaces, link: &Link, pool: &Pool) -> Result<Device, Failure> {
    let (name, queues) = (&link.tester, of.senders + 1);
    let device = match of.driver {
        Driver::AfPacket => {
            af_packet::open(&af_packet::Config { rx_ring: RING, queues, ..af_packet::Config::new(name) })
        }
        Driver::AfXdp => {
            let ring = RING as u32;
            let config = af_xdp::Config { rx_ring: ring, tx_ring: ring, ..af_xdp::Config::new(name) };
            af_xdp::open(&config, pool)
        }
    };
    let mut device = device.map_err(|e| Failure(format!("{name}: {e}")))?;
    if device.rx.len() != queues || device.tx.len() != queues {
        return Err(Failure(format!(
            "{name} has {} queues, but the tester needs one, and one more for each of the senders: run ethtool --set-channels {name} combined \
             {queues}",
            device.rx.len()
        )));
    }
    device.control.set_admin(true).map_err(|e| Failure(format!("{name}: {e}")))?;
    Ok(device)
}

/// Makes a port of the tester from a device. The thread that receives also sends, on the first send queue.
pub(super) fn port(mut device: Device, link: &Link) -> Result<(Port, Box<dyn DeviceControl>), Failure> {
    let none = || Failure(format!("{} has no queues", link.tester));
    let more = device.tx.split_off(1.min(device.tx.len()));
    let tx = device.tx.pop().ok_or_else(none)?;
    let rx: Box<dyn RxQueue> = match device.rx.len() {
        1 => device.rx.pop().ok_or_else(none)?,
        _ => Box::new(Several { queues: device.rx, first: 0 }),
    };
    Ok((Port { tx, more, rx, hosts: Some(link.answering()) }, device.control))
}

/// Several receive queues, polled in turn as one.
struct Several {
    queues: Vec<Box<dyn RxQueue>>,
    /// Index of the queue to poll first. Each poll begins with another queue than the last poll, because one busy queue alone can fill the
    /// frame.
    first: usize,
}

impl RxQueue for Several {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        let count = self.queues.len();
        for n in 0..count {
            if frame.room() == 0 {
                break;
            }
            self.queues[(self.first + n) % count].poll(frame, cache)?;
        }
        self.first = (self.first + 1) % count;
        Ok(())
    }

    /// `None`: the tester polls and never sleeps.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn take_lost(&mut self) -> Lost {
        let mut all = Lost::default();
        for lost in self.queues.iter_mut().map(|queue| queue.take_lost()) {
            all.missed += lost.missed;
            all.unusable += lost.unusable;
        }
        all
    }
}
