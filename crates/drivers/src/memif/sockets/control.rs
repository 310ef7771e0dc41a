//! The device control of a memif interface.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::device::{DeviceControl, Link};
use crate::memif::shared::Shared;
use crate::memif::{Config, Role};

/// Returns the default Ethernet address of an interface: stable across restarts, and most likely unique on this
/// machine and others.
pub(super) fn own_mac(socket: &Path, config: &Config) -> [u8; 6] {
    let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
    let id = config.id.to_ne_bytes();
    let parts = [&machine, socket.as_os_str().as_encoded_bytes(), &id, &[config.role as u8]];
    // FNV-1a.
    let hash = parts.into_iter().flatten().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [a, b, c, d, ..] = (hash ^ hash >> 32).to_ne_bytes();
    [0x02, 0xfe, a, b, c, d]
}

pub(super) struct Control(pub(super) Arc<Shared>);

impl DeviceControl for Control {
    fn set_admin(&mut self, up: bool) -> io::Result<()> {
        self.0.set_up(up);
        Ok(())
    }

    fn set_mtu(&mut self, _: u16) -> io::Result<()> {
        // Packets of any size pass, in as many buffers as they need.
        Ok(())
    }

    fn set_mac(&mut self, _: [u8; 6]) -> io::Result<()> {
        Ok(())
    }

    fn link(&mut self) -> Link {
        Link { present: true, carrier: self.0.is_connected(), speed_mbps: None }
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let Config { socket, id, role, rx_queues, tx_queues, trusted, .. } = &self.0.config;
        let role = match role {
            Role::Server => "master (server)",
            Role::Client => "slave (client)",
        };
        vec![
            ("memif", format!("socket {socket}, id {id}, {role}")),
            ("queues", format!("{rx_queues} to receive, {tx_queues} to transmit")),
            ("packets", if self.0.config.lends() { "not copied".into() } else { "copied".into() }),
            ("peer", if *trusted { "trusted".into() } else { "not trusted".into() }),
            ("connected", if self.0.is_connected() { "yes".into() } else { "no".into() }),
        ]
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.0.close();
    }
}
