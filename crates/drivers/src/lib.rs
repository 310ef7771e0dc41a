//! Device drivers: packet sources and packet sinks. Each driver opens a [`Device`]: its queues and a control handle.
//!
//! * [`af_packet`]: a kernel network interface, such as one end of a veth pair, over packet sockets.
//! * [`af_xdp`]: a kernel network interface over AF_XDP sockets. Faster: the kernel writes packets into the router's
//!   buffers.
//! * [`memif`]: shared memory with another program.
//! * [`tap`]: a virtual link to this machine's kernel stack.
//! * [`pcap`]: a capture file to replay packets from, and one to record packets to.
//! * [`pktgen`]: a packet generator and a sink inside the process.
//!
//! A driver handles frames and bytes, not protocols. Partial checksums and GSO packets pass through with the metadata
//! of their virtio header.

pub mod af_packet;
pub mod af_xdp;
pub mod device;
pub mod guardian;
mod kernel;
pub mod memif;
mod pace;
pub mod pcap;
pub mod pktgen;
mod port;
pub mod tap;

pub use device::{Device, DeviceControl, Link};
pub use guardian::Guardian;
pub use kernel::apart::{
    above as closed_first, prepare as prepare_for_strangers, spawn as spawn_apart,
    spawn_with as spawn_apart_with,
};
pub use kernel::behind::{Behind, BehindState};
pub use kernel::events::link_events;
pub use kernel::files::{Found, find_ordinary};
pub use kernel::hidden::Hidden;
pub use kernel::slow::{Patience, Progress, Waiter, open as open_apart, read as read_apart};
pub use kernel::stream::{Stream, stream as stream_apart};
pub use kernel::sys::{is_unread, refuse_files};
pub use kernel::target;
pub use port::has_only_learned_default_route;
