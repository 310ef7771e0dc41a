//! A packet generator and a sink inside the process, for benchmarks, tests, and the operator's `packet-generator`.
//!
//! [`open`] makes a device. What it receives are the packets of the [`Stream`]s that the [`Generator`] was given; what
//! is sent to it ends in its [`Sink`], which counts, and keeps the last packets if it was told to.
//!
//! A stream is a weighted mix of [`Template`]s: packets in which some [`Field`]s vary. The random numbers come from
//! the stream's seed, so that a run can be repeated.

mod compile;
mod generator;
mod sink;
mod stream;

use std::io;

use buf::{RxQueue, TxCaps};

use crate::device::{Device, DeviceControl, Link};

pub use compile::Maker;
pub use generator::{Generator, PgRx, StreamState};
pub use sink::{Captured, PgTx, Sink};
pub use stream::{Field, Mode, Sizes, Stream, StreamError, Template};

/// Name of the node that polls these devices.
pub const INPUT_NODE: &str = "pg-input";

/// What a generator's device looks like.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// The largest network packet, in bytes.
    pub mtu: u16,
    /// What the sink takes.
    pub caps: TxCaps,
}

impl Default for Config {
    /// A locally administered address, 9,000 bytes, and a sink that takes everything.
    fn default() -> Config {
        Config { mac: [2, 0xfe, 0, 0, 0, 1], mtu: 9000, caps: TxCaps { gso: true, csum: true } }
    }
}

/// Makes a device without streams. It needs nothing, so it cannot fail.
pub fn open(config: &Config) -> (Device, Generator, Sink) {
    let generator = Generator::default();
    let sink = Sink::default();
    let rx: Box<dyn RxQueue> = Box::new(generator.rx());
    let control = Control { generator: generator.clone(), sink: sink.clone() };
    let device = Device {
        kind: "packet-generator",
        input_node: INPUT_NODE,
        rx: vec![rx],
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

    fn describe(&self) -> Vec<(&'static str, String)> {
        let mut lines: Vec<_> =
            self.generator.streams().into_iter().map(|s| ("stream", s.to_string())).collect();
        lines.push(("sink", format!("{} packets", self.sink.packets())));
        lines
    }
}
