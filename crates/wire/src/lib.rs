//! Packet formats: header views, builders, checksums and flow hash functions.
//!
//! A header is a newtype over its bytes, so that any slice that is long enough can be viewed as one without copying
//! and without an error case: `Ipv4Header::split(bytes)` gives the header and what follows it. The getters load
//! from constant places and never fail; whether the values make sense is for the caller to ask (`check`,
//! `checksum_ok`, …). Multi-byte fields come in host order.
//!
//! Nothing here panics on any input, and nothing allocates but what makes whole packets (`builder`, `nd`, `mld`) and
//! `describe`.

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
