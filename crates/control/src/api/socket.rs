//! The sockets of the API.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use vapi::Table;

use super::connection::{Api, Connection};
use super::{frame, memclnt};
use crate::app::Context;
use crate::cli::{Arrival, Listener, Registry, Role, Turns, serve_programs};

/// The time in which a client must introduce itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// The settings of a socket.
pub struct Service {
    /// The messages that clients may send.
    pub table: Rc<Table<Context>>,
    /// The commands, for `cli_inband`.
    pub commands: Rc<Registry<Context>>,
    /// The role of the clients.
    pub role: Role,
    /// Idle time after which a client may be disconnected to make room for another.
    pub idle: Duration,
    /// The limits that all non-root clients share, over all front ends: only one of these clients runs at a time, and they have one memory
    /// budget.
    pub turns: Turns,
}

/// Returns a message to find out whether a router listens on a socket: every router answers it.
pub fn hello() -> Vec<u8> {
    let mut hello = Vec::new();
    frame::append(&mut hello, |out| {
        out.extend(super::connection::CREATE.to_be_bytes());
        out.extend(vapi::table::encoded(&memclnt::sockclnt_create {
            name: "probe".into(),
            ..Default::default()
        }));
    });
    hello
}

/// Serves clients until the future is dropped. Runs on a `LocalSet` of a runtime with one thread.
///
/// # Errors
/// If the runtime cannot use the listener.
pub async fn serve(listener: Listener, cx: Rc<RefCell<Context>>, service: Service) -> io::Result<()> {
    let (role, idle) = (service.role, service.idle);
    let api = Rc::new(Api::new(service));
    let begin = |Arrival { stream, peer, pid, .. }| {
        let connection = Connection::new(api.clone(), cx.clone(), peer, pid);
        (connection.seat(), connection.serve(stream, PATIENCE))
    };
    serve_programs(listener, role, "binary API", idle, begin).await
}
