//! The switch for ICMP messages "destination unreachable".

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the workers send "destination unreachable" messages of one address family. Clones share the switch. It is on at first (RFC 1812
/// section 4.3.3.1, RFC 4443 section 3.1).
#[derive(Clone, Default)]
pub struct Unreachables {
    are_off: Arc<AtomicBool>,
}

impl Unreachables {
    /// True if the messages are sent.
    pub fn are_sent(&self) -> bool {
        !self.are_off.load(Ordering::Relaxed)
    }

    /// Switches the messages on or off. Workers see the change at their next frame.
    pub fn send(&self, on: bool) {
        self.are_off.store(!on, Ordering::Relaxed);
    }
}
