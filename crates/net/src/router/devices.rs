//! Devices: queues that come and go, with interfaces that stay.

use std::sync::Arc;
use std::time::Instant;

use drivers::{Device, Link};
use wire::Mac;

use super::interfaces::{GRACE, refuses_mac, refuses_mtu, refuses_state};
use super::{DeviceState, Router, RouterError};
use crate::interface::{Kind, RxSlot, TxPort};

impl Router {
    /// Adds an interface for a device, down and without addresses. Its queues are spread over the workers.
    ///
    /// # Errors
    /// When the name is taken, or there is no room.
    pub fn add_device(&mut self, name: &str, device: Device) -> Result<u32, RouterError> {
        let initial = (Mac(device.mac), device.mtu);
        let index = self.new_interface(name, Kind::Device, initial, None)?;
        if let Err(e) = self.attach(index, device) {
            self.arcs.forget(index);
            self.hooks.settings.forget(index);
            self.near.interfaces.remove(index);
            self.leave(index);
            return Err(e);
        }
        self.near.publish(index)?;
        Ok(index)
    }

    /// Adds an interface for a device that is absent, with the device's own address and MTU. The device can be
    /// [attached](Router::attach_device) when it is there.
    ///
    /// # Errors
    /// When the name is taken, or there is no room.
    pub fn add_absent_device(&mut self, name: &str, mac: Mac, mtu: u16) -> Result<u32, RouterError> {
        let index = self.new_interface(name, Kind::Device, (mac, mtu), None)?;
        self.near.publish(index)?;
        Ok(index)
    }

    /// Says what the own address and MTU are of the device that an interface waits for, where nobody knew when it was added.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn set_initial(&mut self, index: u32, mac: Mac, mtu: u16) -> Result<(), RouterError> {
        self.info_mut(index)?.initial = (mac, mtu);
        Ok(())
    }

    /// Connects the queues of a device to an interface.
    fn attach(&mut self, index: u32, device: Device) -> Result<(), RouterError> {
        let Device { kind: driver, input_node, rx, tx, mut control, .. } = device;
        let port = TxPort::new(tx).ok_or_else(|| RouterError("the device has no transmit queue".into()))?;
        let (mut queues, mut workers, of) = (Vec::new(), Vec::new(), rx.len());
        let node = control.numa_node();
        for (q, queue) in rx.into_iter().enumerate() {
            let slot = RxSlot::new(index, (q, of), self.least_loaded(&workers, node), input_node, queue)?;
            let how = self.interface(index)?.receive.of(&slot, slot.attention(), self.workers());
            slot.attend(how);
            workers.push(how.worker);
            queues.push(Arc::new(slot));
        }
        self.tx_ports.set(index, port)?;
        let link = control.link();
        self.info_mut(index)?.device = Some(DeviceState { driver, control, link });
        self.tables.placement.change(|slots| {
            slots.retain(|s| s.interface != index);
            slots.extend(queues);
        });
        self.wake_workers();
        self.warn_of_far_workers(index);
        Ok(())
    }

    /// Lets go of a device that vanished, so that it can be opened again when it is back. The interface stays, without
    /// a device and its routes.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn detach_device(&mut self, index: u32) -> Result<(), RouterError> {
        self.release_device(index)?;
        self.changed(index)
    }

    /// Lets go of a device whose place another one takes at once. The interface keeps its routes and neighbours meanwhile, and packets
    /// that would leave by it are dropped; if there is no other device after all, it has to be [detached](Router::detach_device).
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn release_device(&mut self, index: u32) -> Result<(), RouterError> {
        self.info_mut(index)?.device = None;
        self.disconnect(index);
        Ok(())
    }

    /// Takes the queues of a device from the workers, and closes them when none can be using them any more. To close one can take
    /// the kernel tens of milliseconds, which are this thread's: workers go on with the queues of other devices.
    pub(super) fn disconnect(&mut self, index: u32) {
        let until = Instant::now() + GRACE;
        let mut closing = Vec::new();
        self.tables.placement.change(|slots| closing.extend(slots.extract_if(.., |s| s.interface == index)));
        self.wake_workers();
        self.tx_ports.remove(index);
        self.domain.synchronize(GRACE);
        self.domain.collect();
        // A worker that sleeps keeps its queues until its next turn, and nobody else waits for that one.
        while self.running && closing.iter().any(|s| Arc::strong_count(s) > 1) && Instant::now() < until {
            std::thread::yield_now();
        }
    }

    /// Gives an interface without a device one, and sets it as the interface is.
    ///
    /// # Errors
    /// When the device cannot be set so; the interface then stays without a device.
    pub fn attach_device(&mut self, index: u32, mut device: Device) -> Result<(), RouterError> {
        let info = self.interface(index)?;
        // An address that the operator did not set is the device's own, which may be another one now.
        let own_mac = Mac(device.mac);
        let mac = info.own_mac.unwrap_or(own_mac);
        device.control.set_mac(mac.0).map_err(|e| refuses_mac(info, mac, &e))?;
        device.control.set_mtu(info.mtu).map_err(|e| refuses_mtu(info, info.mtu, &e))?;
        if info.admin_up {
            device.control.set_admin(true).map_err(|e| refuses_state(info, true, &e))?;
        }
        self.attach(index, device)?;
        self.info_mut(index)?.initial.0 = own_mac;
        self.note_mac(index, mac)?;
        self.changed(index)
    }

    /// Asks every device about its link. Gives the interfaces whose link changed, each with what it was and is;
    /// those whose link came or went change their routes.
    pub fn poll_links(&mut self) -> Vec<(u32, Link, Link)> {
        let mut changed = Vec::new();
        for i in self.near.interfaces.values_mut() {
            if let Some(device) = &mut i.device {
                let (was, is) = (device.link, device.control.link());
                device.link = is;
                if was != is {
                    changed.push((i.index, was, is));
                }
            }
        }
        if !changed.is_empty() {
            // Whoever is at the other end now may have rings of another depth.
            self.tables.placement.ask_again();
        }
        for (index, was, is) in &changed {
            if was.is_up() != is.is_up()
                && let Err(e) = self.changed(*index)
            {
                tracing::error!("interface {index} after a change of its link: {e}");
            }
        }
        changed
    }

    /// Wakes workers that sleep: something that they poll has changed.
    pub fn wake_workers(&self) {
        self.ports.iter().for_each(graph::WorkerPort::wake);
    }
}
