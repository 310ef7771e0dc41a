//! The native API: the configuration as one document, commands, events, metrics, and loads of routes, as JSON over HTTP and in gRPC.
//!
//! Clients connect to a UNIX socket, to similar sockets for lower roles, or to a TCP port with TLS. All of them speak both protocols.
//! Requests change the same state as commands and VPP's binary API do. Each change is one transaction, and the journal records it with the
//! client's user. The fields of the document follow from the schemas of the objects, so a feature needs no code here. [`http`] lists all
//! operations, from which the OpenAPI description follows. [`rpc`] has the calls of the gRPC service. Both only translate between their
//! protocol and the requests in [`document`], [`commands`], [`packets`] and [`watch`]. Only gRPC has loads of routes and metrics.

mod body;
mod client;
mod commands;
mod connection;
mod document;
mod http;
mod packets;
mod patch;
mod problem;
mod rpc;
mod stream;
pub(crate) mod tls;
mod upload;
mod watch;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::Bytes;
use tokio::net::UnixStream;
use tokio::sync::mpsc;

use crate::app::Context;
use crate::cli::{Arrival, Listener, Programs, Registry, Role, Seat, Turns, serve_programs};
use client::{Connected, Long};
use tls::Certified;
use watch::Board;

/// A request that every router answers. With it, a starting router finds out whether another one already serves a socket.
pub const HELLO: &[u8] = b"GET /v1 HTTP/1.1\r\nHost: volley\r\n\r\n";

/// What all sockets and the TCP port of the native API share: settings, limits, and values that are made once.
pub struct Service {
    /// The commands.
    pub commands: Rc<Registry<Context>>,
    /// Idle time after which a client may be disconnected to make room for another.
    pub idle: Duration,
    /// The limits that all non-root clients share, over all front ends.
    pub turns: Turns,
    /// The rights to send and to parse a long document. All clients share these rights.
    long: Long,
    /// The description of the API, made when a client first asks for it.
    description: Rc<OnceCell<Bytes>>,
    /// The nodes whose packets clients trace.
    traced: Rc<RefCell<BTreeSet<String>>>,
    /// The states of the interfaces, for all watchers.
    board: Rc<RefCell<Board>>,
}

impl Service {
    /// Returns the settings of sockets and ports that run `commands`.
    pub fn new(commands: Rc<Registry<Context>>, idle: Duration, turns: Turns) -> Service {
        let (long, description) = (Long::default(), Rc::default());
        let (traced, board) = (Rc::default(), Rc::default());
        Service { commands, idle, turns, long, description, traced, board }
    }
}

/// Returns the operations and calls as lists in Markdown, for the documentation.
pub fn markdown() -> String {
    format!("{}\n## All calls\n\n{}", http::markdown(), rpc::markdown())
}

/// The name of the API in messages.
const NAME: &str = "native API";

/// Serves the clients of a socket, who have this role, until the future is dropped. Runs on a `LocalSet` of a runtime with one thread.
///
/// # Errors
/// If the runtime cannot use the listener.
pub async fn serve(
    listener: Listener,
    role: Role,
    cx: Rc<RefCell<Context>>,
    service: Rc<Service>,
) -> io::Result<()> {
    serve_programs(listener, role, NAME, service.idle, |arrival| begin(&service, &cx, arrival)).await
}

/// Serves clients with certificates until the sender or the future is dropped. Runs on a `LocalSet` of a runtime with one thread.
pub(crate) async fn serve_certified(
    mut clients: mpsc::Receiver<Certified>,
    cx: Rc<RefCell<Context>>,
    service: Rc<Service>,
) {
    // Each role has places of its own, as each socket has.
    let mut all = Role::ALL.map(|_| Programs::new(NAME, service.idle));
    loop {
        let [viewers, operators, admins] = &mut all;
        let Certified { stream, peer, role } = tokio::select! {
            client = clients.recv() => match client {
                Some(client) => client,
                None => return,
            },
            () = viewers.leaves() => continue,
            () = operators.leaves() => continue,
            () = admins.leaves() => continue,
        };
        let programs = match role {
            Role::Viewer => viewers,
            Role::Operator => operators,
            Role::Admin => admins,
        };
        match UnixStream::from_std(stream) {
            Ok(stream) => {
                let arrival = Arrival { stream: Box::new(stream), peer, pid: None, role };
                programs.enter(arrival, false, |arrival| begin(&service, &cx, arrival));
            }
            Err(error) => tracing::warn!("cannot accept a client of the {NAME} over TLS: {error}"),
        }
    }
}

/// Returns the state of a new client's connection, and the future that serves the client.
fn begin(
    service: &Service,
    cx: &Rc<RefCell<Context>>,
    arrival: Arrival,
) -> (Rc<Seat>, impl Future<Output = io::Result<()>> + use<>) {
    let client = Connected::new(service, cx.clone(), &arrival);
    (client.seat.clone(), connection::serve(client, arrival.stream))
}
