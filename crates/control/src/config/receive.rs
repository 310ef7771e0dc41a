//! `receive` of an interface: how its queues are polled, and by whom.
//!
//! ```yaml
//! receive: { mode: polling, handoff: on, queues: { 0: { worker: 1, mode: interrupt } } }
//! ```

use graph::RxMode;
use net::interface::Handoff;
use net::router::{MAX_WORKERS, Receive, ReceiveQueue};

use crate::intent::{HANDOFFS, MODES, MOST_QUEUES, handoff_word, mode_word};
use model::yaml::Text;
use model::yaml::{Fields, Reader};

fn word<T: Copy>(
    r: &mut Reader,
    fields: &mut Fields<'_>,
    name: &'static str,
    all: &[(T, &'static str)],
) -> Option<T> {
    let words: Vec<&str> = all.iter().map(|(_, word)| *word).collect();
    let said = fields.take(name).and_then(|n| r.word(n, &words))?;
    all.iter().find(|(_, word)| *word == said).map(|(value, _)| *value)
}

/// Reads it.
pub(super) fn read(r: &mut Reader, fields: &mut Fields<'_>) -> Receive {
    let Some(node) = fields.take("receive") else { return Receive::default() };
    let mut fields = r.fields(node);
    let mode = word(r, &mut fields, "mode", &MODES).unwrap_or_default();
    let handoff = word(r, &mut fields, "handoff", &HANDOFFS).unwrap_or_default();
    let mut receive = Receive { mode, handoff, ..Receive::default() };
    if let Some(node) = fields.take("queues") {
        for (number, at, node) in r.entries(node) {
            let Some(number) = number.parse().ok().filter(|n: &u32| *n < MOST_QUEUES) else {
                r.fault(at, format!("\"{number}\" is no queue's number: those are 0 to {}", MOST_QUEUES - 1));
                continue;
            };
            let mut fields = r.fields(node);
            let worker = fields.take("worker").and_then(|n| r.number(n, 0..=MAX_WORKERS as u32 - 1));
            let mode = word(r, &mut fields, "mode", &MODES);
            fields.end(r);
            let queue = ReceiveQueue { mode, worker: worker.map(|w| w as usize) };
            if queue != ReceiveQueue::default() {
                receive.queues.insert(number as usize, queue);
            }
        }
    }
    fields.end(r);
    receive
}

/// Writes what [`read`] reads.
pub(super) fn write(t: &mut Text<'_>, receive: &Receive) {
    t.map("receive", |t| {
        t.field("mode", (receive.mode != RxMode::default()).then(|| mode_word(receive.mode)));
        t.field("handoff", (receive.handoff != Handoff::default()).then(|| handoff_word(receive.handoff)));
        t.map("queues", |t| {
            for (number, queue) in &receive.queues {
                t.map(number, |t| {
                    t.field("mode", queue.mode.map(mode_word));
                    t.field("worker", queue.worker);
                });
            }
        });
    });
}
