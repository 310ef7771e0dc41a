//! The native API: the configuration as one document, commands, events, metrics, and loads of routes, as JSON over HTTP and in gRPC.
//!
//! Clients connect to a UNIX socket, or to its twins for other roles, which all speak both protocols. Each request of a client is a typed request of
//! the same state that commands and VPP's binary API change: one transaction, journaled with the client's user. The fields of the document
//! follow from the schemas of the objects, so a feature needs no code here. [`http`] lists all operations, from which the OpenAPI
//! description follows, and [`rpc`] has the calls of the gRPC service. Both are thin: the requests themselves are in [`document`],
//! [`commands`] and [`watch`].

mod body;
mod client;
mod commands;
mod connection;
mod document;
mod http;
mod patch;
mod problem;
mod rpc;
mod stream;
mod upload;
mod watch;

use std::cell::{OnceCell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::Semaphore;

use crate::app::Context;
use crate::cli::{Arrival, Listener, Registry, Role, Turns, serve_programs};
use client::Connected;

/// A message that every instance answers.
pub const HELLO: &[u8] = b"GET /v1 HTTP/1.1\r\nHost: volley\r\n\r\n";

/// The settings of a socket.
pub struct Service {
    /// The commands.
    pub commands: Rc<Registry<Context>>,
    /// What the clients may do.
    pub role: Role,
    /// Idle time after which a client may be disconnected to make room for another.
    pub idle: Duration,
    /// The turn that all non-root clients share, also with the other front ends.
    pub turns: Turns,
    /// The right to have a long document in memory, for one client of all sockets.
    long: Arc<Semaphore>,
    /// The description of the API, made when a client first asks for it.
    description: Rc<OnceCell<Bytes>>,
}

impl Service {
    /// Returns the settings of a socket that runs `commands`.
    pub fn new(commands: Rc<Registry<Context>>, idle: Duration, turns: Turns) -> Service {
        let (long, description) = (Arc::new(Semaphore::new(1)), Rc::default());
        Service { commands, role: Role::Admin, idle, turns, long, description }
    }

    /// Returns the settings of another socket, for the same state.
    pub fn twin(&self, role: Role) -> Service {
        let (commands, turns, idle) = (self.commands.clone(), self.turns.clone(), self.idle);
        let (long, description) = (self.long.clone(), self.description.clone());
        Service { commands, role, idle, turns, long, description }
    }
}

/// Returns the operations and calls as lists in Markdown, for the documentation.
pub fn markdown() -> String {
    format!("{}\n## All calls\n\n{}", http::markdown(), rpc::markdown())
}

/// Serves clients until the future is dropped. Runs on a `LocalSet` of a runtime with one thread.
///
/// # Errors
/// If the runtime cannot use the listener.
pub async fn serve(listener: Listener, cx: Rc<RefCell<Context>>, service: Service) -> io::Result<()> {
    let idle = service.idle;
    let service = Rc::new(service);
    let begin = |arrival: Arrival| {
        let client = Connected::new(&service, cx.clone(), &arrival);
        (client.seat.clone(), connection::serve(client, arrival.stream))
    };
    serve_programs(listener, "native API", idle, begin).await
}
