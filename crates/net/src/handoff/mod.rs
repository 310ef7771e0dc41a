//! Handoff: spreads the flows of a device over the workers, if it has fewer queues than there are workers.
//!
//! ```text
//! <driver>-input → worker-handoff ┬ (its own) ───────────────────────────────→ arc device-input
//!                                 └ (another's) ring → that one's handoff-input → arc device-input
//! ```
//!
//! Every flow belongs to one of 1,024 **shards**, by a hash that is the same for both directions and for all fragments
//! of a datagram ([`wire::flow::frame_hash`]). Every shard belongs to one worker ([`Shards`]). So the packets of a flow
//! stay in order. Shards change workers only while no packet is between two workers (`router/workers.rs`).

mod input;
mod output;
mod table;

use graph::Builder;

pub use table::{SHARDS, Shards, share_out};

use crate::Tables;

/// Name of the node that receives packets of other workers.
pub(crate) const INPUT: &str = "handoff-input";

/// Adds the nodes of this feature.
pub fn install(b: &mut Builder, t: &Tables) {
    let tables = t.clone();
    b.frame(move |s| Ok(output::WorkerHandoff::new(&tables, s.outbox())));
    b.input(INPUT, move |s| Ok(input::HandoffInput::new(s.inbox())));
}
