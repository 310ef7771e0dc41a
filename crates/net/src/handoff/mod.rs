//! Handoff spreads the flows of a device over the workers, if the device has fewer queues than there are workers.
//!
//! Every flow belongs to one of 1,024 **shards**, by a hash that is the same for both directions and for all fragments of a datagram
//! ([`wire::flow::frame_hash`]). Every shard belongs to one worker ([`Shards`]). So the packets of a flow stay in order. A shard is
//! assigned to another worker only while no packet is in transit between workers (`router/workers.rs`).

mod table;

pub use table::{SHARDS, Shards, share_out};

/// Name of the node that receives packets from other workers.
pub(crate) const INPUT: &str = "handoff-input";
