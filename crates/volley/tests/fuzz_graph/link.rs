//! A device whose far end the test controls.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use buf::{Cache, Flags, Frame, Gone, Held, RxQueue, TxCaps, TxQueue, Unsent};
use drivers::{Device, DeviceControl};
use wire::Mac;

use crate::packet::Arriving;

/// A packet that the router sent.
pub struct Sent {
    pub bytes: Vec<u8>,
    pub gso: bool,
    pub csum: bool,
}

/// The state of a link.
#[derive(Default)]
pub struct Line {
    /// Frames to the router, by queue.
    pub arriving: [VecDeque<Arriving>; crate::world::WORKERS],
    pub sent: Vec<Sent>,
    /// Number of packets that the router received.
    pub taken: u64,
    /// Number of packets that the router sent.
    pub sent_count: u64,
    /// Number of packets that a transmit queue accepts in one call.
    pub room: usize,
    /// True if packets beyond `room` are refused (`Unsent::Refused`), instead of the queue being full.
    pub refuses: bool,
    /// True if the link has no carrier. Then no packet is sent.
    pub unplugged: bool,
    /// True if the device has vanished.
    pub gone: bool,
}

/// The far end of a link, shared by its clones.
#[derive(Clone, Default)]
pub struct Far(Arc<Mutex<Line>>);

impl Far {
    pub fn line(&self) -> MutexGuard<'_, Line> {
        // A check that fails while the lock is held ends the run, but its report still needs the state.
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the device at this end, with a receive queue for each worker. The link then has carrier, and room for all packets.
    pub fn device(&self, mac: Mac, mtu: u16, caps: TxCaps) -> Device {
        let mut line = self.line();
        (line.gone, line.unplugged, line.room) = (false, false, usize::MAX);
        drop(line);
        Device {
            kind: "fuzz",
            input_node: drivers::pktgen::INPUT_NODE,
            rx: (0..crate::world::WORKERS)
                .map(|q| Box::new(Rx(self.clone(), q)) as Box<dyn RxQueue>)
                .collect(),
            tx: vec![Box::new(Tx(self.clone(), caps))],
            mac: mac.0,
            mtu,
            control: Box::new(Control(self.clone())),
        }
    }
}

fn gone() -> Gone {
    Gone("the test says so".into())
}

struct Rx(Far, usize);
struct Tx(Far, TxCaps);
struct Control(Far);

impl RxQueue for Rx {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        let mut line = self.0.line();
        if line.gone {
            return Err(gone());
        }
        while frame.room() > 0
            && let Some(Arriving { bytes, offload, .. }) = line.arriving[self.1].pop_front()
        {
            // Like a device: packets without a free buffer are not received.
            let Some(mut held) = Held::alloc(cache) else { continue };
            let mut p = held.packet();
            if !p.fill_chained(&bytes, cache) {
                held.free(cache);
                continue;
            }
            if let Some((start, offset)) = offload.csum {
                p.set_flags(p.flags() | Flags::CSUM_PARTIAL);
                (p.cold_mut().csum_start, p.cold_mut().csum_offset) = (start, offset);
            }
            if let Some(gso) = offload.gso {
                p.set_flags(p.flags() | Flags::GSO);
                p.cold_mut().set_gso(gso);
            }
            match frame.push(held) {
                Ok(()) => line.taken += 1,
                Err(held) => held.free(cache),
            }
        }
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl TxQueue for Tx {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        let mut line = self.0.line();
        if line.gone {
            return Err(Unsent::Gone);
        }
        let n = if line.unplugged { 0 } else { frame.len().min(line.room) };
        for p in frame.packets().take(n) {
            line.sent.push(Sent {
                bytes: p.segments().flatten().copied().collect(),
                gso: p.flags().any(Flags::GSO),
                csum: p.flags().any(Flags::CSUM_PARTIAL),
            });
        }
        line.sent_count += n as u64;
        frame.free_front(n, cache);
        match frame.is_empty() {
            true => Ok(()),
            // Refuses one packet after the other, until none is left.
            false if line.refuses => Err(Unsent::Refused),
            false if line.unplugged => Err(Unsent::Down),
            false => Err(Unsent::Full),
        }
    }

    fn caps(&self) -> TxCaps {
        self.1
    }
}

impl DeviceControl for Control {
    fn set_admin(&mut self, _: bool) -> std::io::Result<()> {
        self.alive()
    }
    fn set_mtu(&mut self, mtu: u16) -> std::io::Result<()> {
        // Devices have limits.
        if mtu > 9216 { Err(std::io::ErrorKind::InvalidInput.into()) } else { self.alive() }
    }
    fn set_mac(&mut self, _: [u8; 6]) -> std::io::Result<()> {
        self.alive()
    }
    fn link(&mut self) -> drivers::Link {
        let line = self.0.line();
        drivers::Link { present: !line.gone, carrier: !line.gone && !line.unplugged, speed_mbps: None }
    }
    fn describe(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Control {
    fn alive(&self) -> std::io::Result<()> {
        if self.0.line().gone { Err(std::io::ErrorKind::NotFound.into()) } else { Ok(()) }
    }
}
