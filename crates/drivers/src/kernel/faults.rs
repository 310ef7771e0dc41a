//! What went wrong at a device, counted by its queues and shown by its control.

use std::sync::atomic::{AtomicU64, Ordering};

/// Packets that a driver could not use.
#[derive(Default)]
pub(crate) struct Faults {
    /// Received, but cut off, contradictory, or too large for the buffers that were left.
    pub(crate) received: AtomicU64,
    /// Refused by the kernel, such as for being larger than the link takes.
    pub(crate) refused: AtomicU64,
}

impl Faults {
    /// Lines for `show hardware-interfaces`.
    pub(crate) fn describe(&self) -> [(&'static str, String); 2] {
        [
            ("rx unusable", self.received.load(Ordering::Relaxed).to_string()),
            ("tx refused by the kernel", self.refused.load(Ordering::Relaxed).to_string()),
        ]
    }
}

/// Counts one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
