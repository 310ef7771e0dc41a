//! Devices of interfaces. A device can be attached and released while its interface stays.

use std::sync::Arc;
use std::time::Instant;

use drivers::{Device, Link};
use wire::Mac;

use super::interfaces::{GRACE, refuses_mac, refuses_mtu, refuses_state};
use super::{DeviceState, Router, RouterError};
use crate::interface::{Kind, RxSlot, TxPort};

impl Router {
    /// Adds an interface for a device. The interface is down and has no addresses. The device's queues are spread over the workers.
    ///
    /// # Errors
    /// If the name is taken, the device has no transmit queue, or there are too many interfaces or too little memory.
    pub fn add_device(&mut self, name: &str, device: Device) -> Result<u32, RouterError> {
        let initial = (Mac(device.mac), device.mtu);
        let kind = if device.control.is_point_to_point() { Kind::PointToPoint } else { Kind::Device };
        let index = self.new_interface(name, kind, initial, None)?;
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

    /// Adds an interface for a device that is absent. `mac` and `mtu` are the device's own. When the device appears, it is
    /// [attached](Router::attach_device).
    ///
    /// # Errors
    /// If the name is taken, or there are too many interfaces or too little memory.
    pub fn add_absent_device(&mut self, name: &str, mac: Mac, mtu: u16) -> Result<u32, RouterError> {
        let index = self.new_interface(name, Kind::Device, (mac, mtu), None)?;
        self.near.publish(index)?;
        Ok(index)
    }

    /// Sets the device's own Ethernet address and MTU for an interface whose device is absent. Used if they were unknown when the
    /// interface was added.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn set_initial(&mut self, index: u32, mac: Mac, mtu: u16) -> Result<(), RouterError> {
        self.info_mut(index)?.initial = (mac, mtu);
        Ok(())
    }

    /// Connects the queues of a device to an interface, and assigns them to workers.
    fn attach(&mut self, index: u32, device: Device) -> Result<(), RouterError> {
        let Device { kind: driver, input_node, rx, tx, mut control, .. } = device;
        let port = TxPort::new(tx).ok_or_else(|| RouterError::new("the device has no transmit queue"))?;
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

    /// Releases a device that vanished, so that it can be opened again when it appears. The interface stays without a device, and its
    /// routes are withdrawn.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn detach_device(&mut self, index: u32) -> Result<(), RouterError> {
        self.release_device(index)?;
        self.changed(index)
    }

    /// Releases a device that another device is about to replace. Until then, the interface keeps its routes and neighbors, and
    /// packets sent to it are dropped. If no device replaces this one, call [`detach_device`](Router::detach_device).
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn release_device(&mut self, index: u32) -> Result<(), RouterError> {
        self.info_mut(index)?.device = None;
        self.disconnect(index);
        Ok(())
    }

    /// Takes a device's queues away from the workers, and closes the queues once no worker can use them. The kernel may need tens of
    /// milliseconds to close a queue. Only the main thread waits for it, while the workers process the packets of other devices.
    pub(super) fn disconnect(&mut self, index: u32) {
        let until = Instant::now() + GRACE;
        let mut closing = Vec::new();
        self.tables.placement.change(|slots| closing.extend(slots.extract_if(.., |s| s.interface == index)));
        self.wake_workers();
        self.tx_ports.remove(index);
        self.domain.synchronize(GRACE);
        self.domain.collect();
        // A sleeping worker keeps its queues until its next turn. The main thread need not wait for it longer than
        // this.
        while self.running && closing.iter().any(|s| Arc::strong_count(s) > 1) && Instant::now() < until {
            std::thread::yield_now();
        }
    }

    /// Attaches a device to an interface without one, and applies the interface's configuration to it.
    ///
    /// # Errors
    /// If there is no such interface, or the device refuses a setting or has no transmit queue; then the interface stays without a device.
    pub fn attach_device(&mut self, index: u32, mut device: Device) -> Result<(), RouterError> {
        let info = self.interface(index)?;
        // An address not set by the operator is the device's own. The new device may have a different one.
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

    /// Reads the link state of every device. Returns each interface whose link changed, with the old and the new state. If a link went up
    /// or down, the interface's routes are updated.
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
            // The new peer may have rings of another depth.
            self.tables.placement.ask_again();
        }
        for (index, was, is) in &changed {
            if was.is_up() != is.is_up()
                && let Err(e) = self.changed(*index)
            {
                tracing::error!("interface {index}: update after a link change failed: {e}");
            }
        }
        changed
    }

    /// Wakes sleeping workers after a change to the queues that they poll.
    pub fn wake_workers(&self) {
        self.ports.iter().for_each(graph::WorkerPort::wake);
    }
}
