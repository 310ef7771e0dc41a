//! Settings of the receive queues of an interface.

use graph::RxMode;
use net::interface::Handoff;
use net::router::{MAX_WORKERS, Receive};

use super::interface::Interface;
use super::{Refused, refuse};
use crate::cli::quote;
use crate::system::Spec;

/// The words for the polling modes of a queue.
pub const MODES: [(RxMode, &str); 3] =
    [(RxMode::Polling, "polling"), (RxMode::Interrupt, "interrupt"), (RxMode::Adaptive, "adaptive")];
/// The words for the distribution of flows over the workers.
pub const HANDOFFS: [(Handoff, &str); 3] =
    [(Handoff::Auto, "auto"), (Handoff::On, "on"), (Handoff::Off, "off")];

/// Maximum number of receive queues of a device.
pub const MOST_QUEUES: u32 = 1024;

/// Returns the word for a polling mode.
pub fn mode_word(mode: RxMode) -> &'static str {
    MODES.iter().find(|(m, _)| *m == mode).map_or("", |(_, word)| word)
}

/// Returns the word for a handoff setting.
pub fn handoff_word(handoff: Handoff) -> &'static str {
    HANDOFFS.iter().find(|(h, _)| *h == handoff).map_or("", |(_, word)| word)
}

/// Checks the queue settings of an interface.
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
            return refuse("this interface has no receive queues: it is not a device");
        }
        Spec::Backed(_) => {}
    }
    let last = MOST_QUEUES as usize - 1;
    if let Some(number) = receive.queues.keys().find(|number| **number > last) {
        return refuse(format!("invalid receive queue {number}: expected 0 to {last}"));
    }
    match receive.queues.values().filter_map(|q| q.worker).find(|w| *w >= MAX_WORKERS) {
        Some(worker) => refuse(format!("invalid worker {worker}: expected 0 to {}", MAX_WORKERS - 1)),
        None => Ok(()),
    }
}

/// Adds the commands for these settings.
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
