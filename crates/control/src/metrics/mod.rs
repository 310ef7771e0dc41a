//! Metrics for Prometheus: `GET /metrics`, and `GET /health` for monitoring.
//!
//! A thread of its own ([`server`]) speaks HTTP, and asks the main thread for samples. The main thread collects them
//! in slices ([`collect`]), and handles packets and commands in between. All metrics are declared in [`declared`],
//! from which `docs/reference/metrics.md` is generated. Counters are totals since the start: `clear` commands do not
//! affect them.

mod collect;
pub mod declared;
mod process;
mod server;
#[cfg(test)]
mod tests;
mod text;

use std::cell::RefCell;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;

use tokio::sync::mpsc;

use crate::app::Context;

pub(crate) use collect::Collection;
pub use server::listen;
#[cfg(any(test, feature = "testing"))]
pub(crate) use text::Format;

/// Serves the metrics on `listener`, as long as the calling `LocalSet` runs.
///
/// # Errors
/// If the thread cannot be started.
pub fn start(listener: TcpListener, context: &Rc<RefCell<Context>>) -> io::Result<()> {
    let health = {
        let router = &context.borrow().system.router;
        server::Health { stats: router.graph().stats().clone(), workers: router.graph().exchange().clone() }
    };
    let (ask, asked) = mpsc::channel(server::PLACES);
    tokio::task::spawn_local(collect::answer(context.clone(), asked));
    server::serve(listener, health, ask)
}
