//! Drivers: where packets come from and go to. Each gives a [`Device`]: its queues, and a handle to control it.
//!
//! * [`af_packet`]: an interface of the kernel, such as one end of a veth pair.
//! * [`af_xdp`]: the same, faster, where the kernel puts packets into the router's own buffers.
//! * [`memif`]: shared memory with another program.
//! * [`tap`]: a cable to this machine's own stack.
//! * [`pcap`]: a file that packets come from, and one that they go to.
//! * [`pktgen`]: a generator and a sink inside the process.
//!
//! A driver knows frames and bytes, no protocol: partial checksums and segments that are still to be cut are passed on
//! as the virtio header names them.

pub mod af_packet;
pub mod af_xdp;
pub mod device;
pub mod guardian;
mod kernel;
pub mod memif;
mod pace;
pub mod pcap;
pub mod pktgen;
pub mod tap;

pub use device::{Device, DeviceControl, Link};
pub use guardian::Guardian;
pub use kernel::apart::{
    above as closed_first, open as open_apart, prepare as prepare_for_strangers, spawn as spawn_apart,
    spawn_with as spawn_apart_with,
};
pub use kernel::events::link_events;
pub use kernel::hidden::Hidden;
pub use kernel::sys::refuse_files;

/// Names of the nodes that poll the devices of this crate, one a kind of device.
pub const INPUT_NODES: [&str; 6] = [
    af_packet::INPUT_NODE,
    af_xdp::INPUT_NODE,
    memif::INPUT_NODE,
    tap::INPUT_NODE,
    pktgen::INPUT_NODE,
    pcap::INPUT_NODE,
];
