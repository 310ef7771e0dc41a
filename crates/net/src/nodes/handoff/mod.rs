//! The nodes that pass packets between workers ([`handoff`](crate::handoff)).
//!
//! ```text
//! <driver>-input → worker-handoff ┬ (this worker's packets) ──────────────────────────────────→ arc device-input
//!                                 └ (another worker's) ring → the other worker's handoff-input → arc device-input
//! ```

mod input;
mod output;

use graph::Builder;

use crate::handoff::INPUT;
use crate::tables::Tables;

/// Adds the nodes of this feature.
pub fn install(b: &mut Builder, t: &Tables) {
    let tables = t.clone();
    b.frame(move |s| Ok(output::WorkerHandoff::new(&tables, s.outbox())));
    b.input(INPUT, move |s| Ok(input::HandoffInput::new(s.inbox())));
}
