//! Ethernet: the tags that select a sub-interface ([`Vlans`]), and the modes of ports ([`PortMode`]). The node is in
//! [`nodes::ethernet`](crate::nodes::ethernet).

mod mode;
mod vlan;

pub(crate) use mode::MOST as MOST_MODES;
pub use mode::{PortMode, PortModeInfo};
pub use vlan::{Match, Tags, Vlans};

/// Length of an Ethernet header without tags, in bytes.
pub const HEADER: usize = 14;
/// Length of a VLAN tag, in bytes.
pub const TAG: usize = 4;
