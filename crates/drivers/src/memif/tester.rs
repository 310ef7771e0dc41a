//! A load generator that measures a router over memif. It sends prepared packets and shows received packets to the
//! caller. It has no buffers of its own and no graph, so it is faster than the router.

use std::io;
use std::sync::Arc;

use buf::Unsent;

use super::ring::Fault;
use super::shared::{Shared, lock};
use crate::device::{DeviceControl, Link};

/// A memif interface. The thread that owns the tester polls the interface's queues.
pub struct Tester {
    shared: Arc<Shared>,
    control: Box<dyn DeviceControl>,
}

impl Tester {
    pub(super) fn new(shared: Arc<Shared>, control: Box<dyn DeviceControl>) -> Tester {
        Tester { shared, control }
    }

    /// Sets the interface up or down.
    ///
    /// # Errors
    /// As for [`DeviceControl::set_admin`].
    pub fn set_admin(&mut self, up: bool) -> io::Result<()> {
        self.control.set_admin(up)
    }

    /// Returns the current link state.
    pub fn link(&mut self) -> Link {
        self.control.link()
    }

    /// Sends up to `most` packets, as many as there is room for, on ring `queue` modulo the number of rings. Returns the number sent.
    /// Packets that were not sent stay in the iterator, except for one that does not fit into a buffer.
    ///
    /// # Errors
    /// If the router is not connected, its rings are invalid, or there is room but the first packet is missing, empty, or too large for
    /// one buffer.
    pub fn send<'a>(
        &mut self,
        queue: usize,
        most: usize,
        packets: impl Iterator<Item = &'a [u8]>,
    ) -> Result<usize, Unsent> {
        let Some(port) = self.shared.tx_port(queue) else { return Err(Unsent::Down) };
        let mut port = lock(port);
        let Some(ring) = port.as_mut() else { return Err(Unsent::Down) };
        ring.send_ready(most, packets).map_err(|stop| self.why(stop))
    }

    /// Calls `seen` for each packet in the first ring of the first queue, or for each part of a packet in several buffers; at most 256
    /// times. Returns the number of complete packets.
    ///
    /// # Errors
    /// If the router's rings are invalid.
    pub fn receive(&mut self, seen: impl FnMut(&[u8])) -> Result<usize, Unsent> {
        let Some(port) = self.shared.rx.first() else { return Ok(0) };
        let mut rings = lock(&port.rings);
        let Some(ring) = rings.first_mut() else { return Ok(0) };
        ring.wake_up(&port.watch);
        ring.look(seen).map_err(|fault| self.why(fault.into()))
    }

    fn why(&self, stop: super::tx::Stop) -> Unsent {
        match stop {
            super::tx::Stop::For(unsent) => unsent,
            super::tx::Stop::Fault(fault) => self.broken(fault),
        }
    }

    #[cold]
    fn broken(&self, fault: Fault) -> Unsent {
        self.shared.fail(fault);
        Unsent::Down
    }
}
