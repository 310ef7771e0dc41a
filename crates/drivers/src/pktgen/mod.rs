//! A packet generator and a sink inside the process, for benchmarks, tests, and the operator's `packet-generator`.
//!
//! [`open`] returns a device. The device receives the packets of the [`Stream`]s added to its [`Generator`]. Packets that the router sends
//! to the device go to its [`Sink`], which counts them. On request, it keeps the last ones, or records them in a file.
//!
//! A stream is a weighted mix of [`Template`]s: packets in which some [`Field`]s vary. Random numbers come from the
//! stream's seed, so a run can be repeated.

mod compile;
mod generator;
mod sink;
mod stream;

use std::io;

use buf::{RxQueue, TxCaps};

use crate::device::{Device, DeviceControl, Link};

pub use compile::{Maker, check_sizes};
pub use generator::{Generator, PgRx, StreamState};
pub use sink::{Captured, PgTx, Sink};
pub use stream::{Field, Mode, Sizes, Stream, StreamError, Template};

/// Name of the input node that polls these devices.
pub const INPUT_NODE: &str = "pg-input";

/// Configuration of a device.
#[derive(Clone, Debug)]
pub struct Config {
    /// The Ethernet address.
    pub mac: [u8; 6],
    /// MTU in bytes.
    pub mtu: u16,
    /// Offloads that the sink accepts.
    pub caps: TxCaps,
    /// Number of receive queues, at least 1.
    pub queues: usize,
    /// True if the packets on the link have no Ethernet header.
    pub bare: bool,
}

impl Default for Config {
    /// Returns a configuration with a locally administered Ethernet address, an MTU of 9,000 bytes, a sink that accepts all offloads, and
    /// one receive queue.
    fn default() -> Config {
        Config {
            mac: [2, 0xfe, 0, 0, 0, 1],
            mtu: 9000,
            caps: TxCaps { gso: true, csum: true },
            queues: 1,
            bare: false,
        }
    }
}

/// Opens a device without streams. Never fails.
pub fn open(config: &Config) -> (Device, Generator, Sink) {
    let generator = Generator::default();
    let sink = Sink::new(config.bare);
    let rx = (0..config.queues.max(1)).map(|number| Box::new(generator.rx(number)) as Box<dyn RxQueue>);
    let control = Control { generator: generator.clone(), sink: sink.clone(), bare: config.bare };
    let device = Device {
        kind: "packet-generator",
        input_node: INPUT_NODE,
        rx: rx.collect(),
        tx: vec![Box::new(sink.tx(config.caps))],
        mac: config.mac,
        mtu: config.mtu,
        control: Box::new(control),
    };
    (device, generator, sink)
}

struct Control {
    generator: Generator,
    sink: Sink,
    bare: bool,
}

impl DeviceControl for Control {
    fn set_admin(&mut self, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn set_mtu(&mut self, _: u16) -> io::Result<()> {
        Ok(())
    }

    fn set_mac(&mut self, _: [u8; 6]) -> io::Result<()> {
        Ok(())
    }

    fn link(&mut self) -> Link {
        Link { present: true, carrier: true, speed_mbps: None }
    }

    fn is_point_to_point(&self) -> bool {
        self.bare
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let mut lines: Vec<_> =
            self.generator.streams().into_iter().map(|s| ("stream", s.to_string())).collect();
        lines.push(("sink", format!("{} packets", self.sink.packets())));
        lines.extend(self.sink.recording().map(|recording| ("recorded file", recording)));
        lines
    }
}
