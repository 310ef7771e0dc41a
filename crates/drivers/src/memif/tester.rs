//! What measures a router by memif: it sends packets that lie ready, and looks at those that come. It has no buffers of its
//! own, and no graph, so that it is faster than what it measures.

use std::io;
use std::sync::Arc;

use buf::Unsent;

use super::ring::Fault;
use super::shared::{Shared, lock};
use crate::device::{DeviceControl, Link};

/// One interface, whose queues are polled by the thread that has it.
pub struct Tester {
    shared: Arc<Shared>,
    control: Box<dyn DeviceControl>,
}

impl Tester {
    pub(super) fn new(shared: Arc<Shared>, control: Box<dyn DeviceControl>) -> Tester {
        Tester { shared, control }
    }

    /// Sets the interface up, or down.
    ///
    /// # Errors
    /// As [`DeviceControl::set_admin`].
    pub fn set_admin(&mut self, up: bool) -> io::Result<()> {
        self.control.set_admin(up)
    }

    /// Whether packets can pass.
    pub fn link(&mut self) -> Link {
        self.control.link()
    }

    /// Sends the next `most` packets by one of the queues, counted from 0 and beyond the last again, or as many as there is room for;
    /// gives how many. Those that were not sent are not taken.
    ///
    /// # Errors
    /// When the router is not there, or when the next packet is empty or does not fit one buffer.
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

    /// Shows all packets that have come by the first queue, the parts of one that has several buffers one by one; gives how many were
    /// whole.
    ///
    /// # Errors
    /// When the router's rings are broken.
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
