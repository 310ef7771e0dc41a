//! What Prometheus sees: `GET /metrics`, and `GET /health` for whoever asks whether the router is well.
//!
//! HTTP is spoken on a thread of its own ([`server`]), which asks the main thread for samples. That one collects them in
//! slices ([`collect`]), between which packets and commands get their turn. All metrics are declared in [`declared`], from
//! which `docs/reference/metrics.md` is made. Counters are totals since the start: what `clear` commands do is not seen here.

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

use crate::commands::Context;

pub use server::listen;
#[cfg(any(test, feature = "testing"))]
pub(crate) use {collect::Collection, text::Format};

/// Shows the metrics to whoever connects to `listener`, as long as the `LocalSet` that this is called on runs.
///
/// # Errors
/// The thread cannot be started.
pub fn start(listener: TcpListener, context: &Rc<RefCell<Context>>) -> io::Result<()> {
    let health = {
        let router = &context.borrow().system.router;
        server::Health { stats: router.graph().stats().clone(), workers: router.graph().exchange().clone() }
    };
    let (ask, asked) = mpsc::channel(server::PLACES);
    tokio::task::spawn_local(collect::answer(context.clone(), asked));
    server::serve(listener, health, ask)
}
