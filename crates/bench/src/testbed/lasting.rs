//! Ports that stay open between trials, so that the router at the other end stays connected.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use buf::{Cache, Frame, Gone, Lost, Pool, RxQueue, TxCaps, TxQueue, Unsent};
use drivers::device::{Device, DeviceControl};

use super::link::Link;
use super::near::{Near, port};
use crate::engine::run::Port;
use crate::trial::Failure;

/// The tester's ends of the links; closed on drop.
pub(super) struct Lasting {
    ports: Vec<(Both<dyn TxQueue>, Both<dyn RxQueue>)>,
    controls: Vec<Box<dyn DeviceControl>>,
}

impl Lasting {
    /// Sets up one device for each link.
    ///
    /// # Errors
    /// If a device cannot be set up.
    pub fn new(devices: Vec<Device>, links: &[Link; 2]) -> Result<Lasting, Failure> {
        let (mut ports, mut controls) = (Vec::new(), Vec::new());
        for (device, link) in devices.into_iter().zip(links) {
            let named = format!("{} ({})", link.tester, device.kind);
            let (Port { tx, rx, .. }, mut control) = port(device, link)?;
            control.set_admin(true).map_err(|e| Failure(format!("{named}: {e}")))?;
            ports.push((Both::of(tx), Both::of(rx)));
            controls.push(control);
        }
        Ok(Lasting { ports, controls })
    }
}

impl Near for Lasting {
    fn open(&mut self, links: &[Link; 2], _: &Pool) -> Result<Vec<Port>, Failure> {
        let ports = self.ports.iter().zip(links).map(|((tx, rx), link)| Port {
            tx: Box::new(tx.clone()),
            more: Vec::new(),
            rx: Box::new(rx.clone()),
            hosts: Some(link.answering()),
        });
        Ok(ports.collect())
    }

    fn is_connected(&mut self) -> bool {
        self.controls.iter_mut().all(|c| c.link().is_up())
    }
}

/// A queue that outlives a trial. One thread at a time uses the queue, and locks it once per burst.
pub(super) struct Both<Q: ?Sized>(Arc<Mutex<Box<Q>>>);

impl<Q: ?Sized> Clone for Both<Q> {
    fn clone(&self) -> Both<Q> {
        Both(self.0.clone())
    }
}

impl<Q: ?Sized> Both<Q> {
    pub fn of(queue: Box<Q>) -> Both<Q> {
        Both(Arc::new(Mutex::new(queue)))
    }

    fn lock(&self) -> MutexGuard<'_, Box<Q>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TxQueue for Both<dyn TxQueue> {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        self.lock().send(frame, cache)
    }

    fn caps(&self) -> TxCaps {
        self.lock().caps()
    }
}

impl RxQueue for Both<dyn RxQueue> {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        self.lock().poll(frame, cache)
    }

    /// `None`: the tester polls and never sleeps.
    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }

    fn take_lost(&mut self) -> Lost {
        self.lock().take_lost()
    }
}
