//! `receive` of an interface: the polling modes and workers of its queues.
//!
//! ```yaml
//! receive: { mode: polling, handoff: on, queues: { 0: { worker: 1, mode: interrupt } } }
//! ```

use std::sync::LazyLock;

use model::schema::{Parsed, Schema, keyed, number, optional, pairs, parsed};
use net::router::{MAX_WORKERS, Receive, ReceiveQueue};

use crate::intent::{HANDOFFS, MODES, MOST_QUEUES};

/// Returns the fields of `receive`.
pub(super) fn receive() -> &'static Schema<Receive> {
    static SCHEMA: LazyLock<Schema<Receive>> = LazyLock::new(|| {
        Schema::new(Receive::default())
            .field(
                "mode",
                pairs(&MODES),
                |r| r.mode,
                |r, mode| r.mode = mode,
                "The polling mode of the queues.",
            )
            .field(
                "handoff",
                pairs(&HANDOFFS),
                |r| r.handoff,
                |r, handoff| r.handoff = handoff,
                "Distributes flows over the workers. `auto` starts this when the interface's worker is overloaded.",
            )
            .field(
                "queues",
                keyed("NUMBER", queue_number(), queue, true),
                |r| r.queues.clone(),
                |r, mut queues| {
                    queues.retain(|_, queue| *queue != ReceiveQueue::default());
                    r.queues = queues;
                },
                "Settings of single queues.",
            )
    });
    &SCHEMA
}

fn queue_number() -> Parsed<usize> {
    parsed(
        "a queue number",
        &["0", "7"],
        |text| {
            let number = text.parse().ok().filter(|n| *n < MOST_QUEUES as usize);
            number
                .ok_or_else(|| format!("\"{text}\" is not a queue number: expected 0 to {}", MOST_QUEUES - 1))
        },
        usize::to_string,
    )
}

fn queue() -> &'static Schema<ReceiveQueue> {
    static SCHEMA: LazyLock<Schema<ReceiveQueue>> = LazyLock::new(|| {
        Schema::new(ReceiveQueue::default())
            .field(
                "mode",
                optional(pairs(&MODES)),
                |q| q.mode,
                |q, mode| q.mode = mode,
                "The polling mode of this queue; by default that of the interface.",
            )
            .field(
                "worker",
                optional(number(0..=MAX_WORKERS - 1)),
                |q| q.worker,
                |q, worker| q.worker = worker,
                "The worker that polls the queue. If there is no such worker, another one polls it.",
            )
    });
    &SCHEMA
}
