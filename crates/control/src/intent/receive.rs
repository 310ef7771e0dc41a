//! What is set on the receive queues of an interface.

use graph::RxMode;
use net::interface::Handoff;
use net::router::{MAX_WORKERS, Receive};

use super::interface::{Interface, Spec};
use super::{Refused, refuse};
use crate::cli::quote;

/// The words for how eagerly a queue is polled.
pub const MODES: [(RxMode, &str); 3] =
    [(RxMode::Polling, "polling"), (RxMode::Interrupt, "interrupt"), (RxMode::Adaptive, "adaptive")];
/// The words for whether flows are shared out between the workers.
pub const HANDOFFS: [(Handoff, &str); 3] =
    [(Handoff::Auto, "auto"), (Handoff::On, "on"), (Handoff::Off, "off")];

/// Receive queues of a device, at most.
pub const MOST_QUEUES: u32 = 1024;

/// The word for a mode.
pub fn mode_word(mode: RxMode) -> &'static str {
    MODES.iter().find(|(m, _)| *m == mode).map_or("", |(_, word)| word)
}

/// The word for what is said of handoff.
pub fn handoff_word(handoff: Handoff) -> &'static str {
    HANDOFFS.iter().find(|(h, _)| *h == handoff).map_or("", |(_, word)| word)
}

/// Whether these can be the queues of this interface.
pub(super) fn validate(interface: &Interface) -> Result<(), Refused> {
    let receive = &interface.receive;
    if *receive == Receive::default() {
        return Ok(());
    }
    match &interface.spec {
        Spec::Sub { parent, .. } => {
            return refuse(format!("a sub-interface has no receive queues: set this on {parent}"));
        }
        Spec::Loopback(_) => return refuse("a loopback interface has no receive queues"),
        Spec::Backed(backed) if !backed.is_device() => {
            return refuse("it has no receive queues: it is no device");
        }
        Spec::Backed(_) => {}
    }
    let last = MOST_QUEUES as usize - 1;
    if let Some(number) = receive.queues.keys().find(|number| **number > last) {
        return refuse(format!("receive queues have the numbers 0 to {last}, not {number}"));
    }
    match receive.queues.values().filter_map(|q| q.worker).find(|w| *w >= MAX_WORKERS) {
        Some(worker) => refuse(format!("workers have the numbers 0 to {}, not {worker}", MAX_WORKERS - 1)),
        None => Ok(()),
    }
}

/// The commands that set them.
pub(super) fn dump(name: &str, receive: &Receive, lines: &mut Vec<String>) {
    let name = quote(name);
    if receive.mode != RxMode::Adaptive {
        lines.push(format!("set interface rx-mode {name} {}", mode_word(receive.mode)));
    }
    for (number, queue) in &receive.queues {
        if let Some(mode) = queue.mode {
            lines.push(format!("set interface rx-mode {name} queue {number} {}", mode_word(mode)));
        }
        if let Some(worker) = queue.worker {
            lines.push(format!("set interface rx-placement {name} queue {number} worker {worker}"));
        }
    }
    if receive.handoff != Handoff::Auto {
        lines.push(format!("set interface handoff {name} {}", handoff_word(receive.handoff)));
    }
}
