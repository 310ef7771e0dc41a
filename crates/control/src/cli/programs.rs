//! Sockets for programs, such as those of the APIs: accepting clients, and making room for new ones.

use std::future;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use model::cli::Role;
use model::origin::Peer;
use tokio::task::JoinSet;
use tokio::time;

use super::door::{Door, RECOVERY};
use super::listen::Listener;
use super::server::{Room, make_room};
use super::session::{Seat, Stream};

/// Maximum number of clients of a socket, or of a role at the TCP port of the native API.
const CLIENTS: usize = 64;
/// Number of additional clients that root can connect when all [`CLIENTS`] places are taken.
const FOR_ROOT: usize = 8;

/// A client that has just connected.
pub(crate) struct Arrival {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) peer: Peer,
    /// The client's process, if the kernel reports it.
    pub(crate) pid: Option<i32>,
    pub(crate) role: Role,
}

/// The clients of a socket, or of a port.
pub(crate) struct Programs {
    /// The name of the API, for messages.
    api: &'static str,
    /// Idle time after which a client may be disconnected to make room for another.
    idle: Duration,
    /// The state ([`Seat`]) of each client's connection. A connection drops its reference to its state when it ends.
    seats: Vec<Rc<Seat>>,
    sessions: JoinSet<io::Result<()>>,
    /// True if the last new client was rejected because there was no room.
    full: bool,
}

impl Programs {
    /// Returns a list without clients.
    pub(crate) fn new(api: &'static str, idle: Duration) -> Programs {
        Programs { api, idle, seats: Vec::new(), sessions: JoinSet::new(), full: false }
    }

    /// Waits until a client's connection has ended; forever if there is no client. If the connection ended with an error, logs it.
    pub(crate) async fn leaves(&mut self) {
        let Some(ended) = self.sessions.join_next().await else { return future::pending().await };
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::info!("a client of the {} was disconnected: {error}", self.api),
            Err(error) => tracing::error!("internal error: a session of the {} panicked: {error}", self.api),
        }
    }

    /// Serves a new client if there is room. Then calls `begin`, which returns the state ([`Seat`]) of the client's connection, and the
    /// future that serves it.
    pub(crate) fn enter<F>(
        &mut self,
        arrival: Arrival,
        is_root: bool,
        begin: impl FnOnce(Arrival) -> (Rc<Seat>, F),
    ) where
        F: Future<Output = io::Result<()>> + 'static,
    {
        self.seats.retain(|seat| Rc::strong_count(seat) > 1);
        let places = CLIENTS + if is_root { FOR_ROOT } else { 0 };
        if !matches!(make_room(&self.seats, places, is_root, self.idle, arrival.peer.uid()), Room::None) {
            self.full = false;
            let (seat, connection) = begin(arrival);
            self.seats.push(seat);
            self.sessions.spawn_local(connection);
        } else if !std::mem::replace(&mut self.full, true) {
            // Dropping the stream closes the connection.
            tracing::warn!(
                "rejected a client of the {}: {CLIENTS} are connected, the maximum, and none is idle for {} s",
                self.api,
                self.idle.as_secs()
            );
        }
    }
}

/// Serves clients until the future is dropped. Runs on a `LocalSet` of a runtime with one thread. For each client, `begin` returns the
/// state ([`Seat`]) of the connection, and the future that serves it. When the limit of clients is reached, [`make_room`] selects a client
/// to disconnect, for example one that has been idle for `idle`. `api` names the API in messages.
///
/// # Errors
/// If the runtime cannot use the listener.
pub(crate) async fn serve_programs<F>(
    listener: Listener,
    role: Role,
    api: &'static str,
    idle: Duration,
    mut begin: impl FnMut(Arrival) -> (Rc<Seat>, F),
) -> io::Result<()>
where
    F: Future<Output = io::Result<()>> + 'static,
{
    let mut door = Door::new(&listener, Arc::from([]))?;
    let mut programs = Programs::new(api, idle);
    loop {
        let come = tokio::select! {
            come = door.next(programs.sessions.len()) => come,
            () = programs.leaves() => continue,
        };
        let opened = come.and_then(|stranger| {
            let (is_root, peer, pid) = (stranger.is_root(), stranger.peer.clone(), stranger.pid);
            Ok((is_root, Arrival { stream: door.open(stranger)?, peer, pid, role }))
        });
        match opened {
            Ok((is_root, arrival)) => programs.enter(arrival, is_root, &mut begin),
            Err(error) => {
                tracing::warn!("cannot accept a client of the {api}: {error}");
                time::sleep(RECOVERY).await;
                door.close_left();
            }
        }
    }
}
