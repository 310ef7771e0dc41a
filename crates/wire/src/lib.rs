//! Packet formats: header views, builders, checksums and flow hash functions.
//!
//! A header is a newtype over its bytes, so any slice of sufficient length can be viewed as one, without
//! copying and without an error case: `Ipv4Header::split(bytes)` returns the header and the rest. The getters
//! load from constant offsets and never fail; the caller checks that the values are valid (`check`,
//! `checksum_ok`, …). Multi-byte fields are in host order.
//!
//! Nothing here panics on any input. Only the modules that build whole packets (`builder`, `nd`, `mld`) and
//! `describe` allocate memory.

#![forbid(unsafe_code)]

#[macro_use]
mod field;
#[macro_use]
mod icmp;

pub mod arp;
pub mod builder;
pub mod checksum;
pub mod describe;
pub mod ethernet;
pub mod extension;
pub mod flow;
pub mod gso;
pub mod icmpv4;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod mac;
pub mod mld;
pub mod nd;
pub mod options;
pub mod tcp;
pub mod udp;
pub mod virtio;

pub use arp::ArpPacket;
pub use checksum::{PseudoHeader, Sum};
pub use ethernet::{EthernetHeader, VlanTag, ethertype};
pub use icmpv4::IcmpHeader;
pub use icmpv6::Icmpv6Header;
pub use ipv4::{Ipv4Header, protocol};
pub use ipv6::Ipv6Header;
pub use mac::Mac;
pub use tcp::TcpHeader;
pub use udp::UdpHeader;
pub use virtio::VirtioNetHeader;
