//! `receive` of an interface: how its queues are polled, and by whom.
//!
//! ```yaml
//! receive: { mode: polling, handoff: on, queues: { 0: { worker: 1, mode: interrupt } } }
//! ```

use std::sync::LazyLock;

use model::schema::{Parsed, Schema, keyed, number, optional, pairs, parsed};
use net::router::{MAX_WORKERS, Receive, ReceiveQueue};

use crate::intent::{HANDOFFS, MODES, MOST_QUEUES};

/// Its fields.
pub(super) fn receive() -> &'static Schema<Receive> {
    static SCHEMA: LazyLock<Schema<Receive>> = LazyLock::new(|| {
        Schema::new(Receive::default())
            .field(
                "mode",
                pairs(&MODES),
                |r| r.mode,
                |r, mode| r.mode = mode,
                "How eagerly queues are polled.",
            )
            .field(
                "handoff",
                pairs(&HANDOFFS),
                |r| r.handoff,
                |r, handoff| r.handoff = handoff,
                "Whether flows are shared out between the workers. `auto`: when one has too much to do.",
            )
            .field(
                "queues",
                keyed("NUMBER", queue_number(), queue, true),
                |r| r.queues.clone(),
                |r, mut queues| {
                    queues.retain(|_, queue| *queue != ReceiveQueue::default());
                    r.queues = queues;
                },
                "What holds for single queues.",
            )
    });
    &SCHEMA
}

fn queue_number() -> Parsed<usize> {
    parsed(
        "a queue's number",
        &["0", "7"],
        |text| {
            let number = text.parse().ok().filter(|n| *n < MOST_QUEUES as usize);
            number
                .ok_or_else(|| format!("\"{text}\" is no queue's number: those are 0 to {}", MOST_QUEUES - 1))
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
                "How eagerly the queue is polled; as the others, if nothing is said.",
            )
            .field(
                "worker",
                optional(number(0..=MAX_WORKERS - 1)),
                |q| q.worker,
                |q, worker| q.worker = worker,
                "Who polls it; any, if there is no such worker.",
            )
    });
    &SCHEMA
}
