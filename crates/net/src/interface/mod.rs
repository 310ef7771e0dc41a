//! Interfaces. Each device, sub-interface and loopback has one, and their indices are from a single range.
//!
//! Interfaces are data, not nodes, so creating one does not change the graph. The nodes are in
//! [`nodes::interface`](crate::nodes::interface).
//!
//! Features can have interfaces, too ([`InterfaceKind`]). `interface-tx` passes the frames sent out of them to the feature's node.

mod kind;
mod placement;
mod table;

pub(crate) use kind::MOST as MOST_KINDS;
pub use kind::{InterfaceKind, InterfaceKindInfo};
pub use placement::{Attention, Handoff, Placement, RxSlot};
pub use table::{Interface, InterfaceCounters, InterfaceTotals, Kind, Runs, TxPort};

/// Name of the node that passes packets to devices.
pub(crate) const TX: &str = "interface-tx";
