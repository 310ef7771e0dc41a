//! Sockets for programs, such as those of the APIs: accepting clients, and making room for new ones.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use model::origin::Peer;
use tokio::task::JoinSet;
use tokio::time;

use super::door::{Door, RECOVERY};
use super::listen::Listener;
use super::server::{Room, make_room};
use super::session::{Seat, Stream};

/// Maximum number of clients of a socket. Root's clients may exceed it by [`FOR_ROOT`].
const CLIENTS: usize = 64;
const FOR_ROOT: usize = 8;

/// A client that has just connected.
pub(crate) struct Arrival {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) peer: Peer,
    /// The client's process, if the kernel reports it.
    pub(crate) pid: Option<i32>,
}

/// Serves clients until the future is dropped. Runs on a `LocalSet` of a runtime with one thread. `begin` returns a client's connection,
/// and its seat. When the limit of clients is reached, a client that has been idle for `idle` is disconnected. `api` names the API in
/// messages.
///
/// # Errors
/// If the runtime cannot use the listener.
pub(crate) async fn serve_programs<F>(
    listener: Listener,
    api: &'static str,
    idle: Duration,
    mut begin: impl FnMut(Arrival) -> (Rc<Seat>, F),
) -> io::Result<()>
where
    F: Future<Output = io::Result<()>> + 'static,
{
    let mut door = Door::new(&listener, Arc::from([]))?;
    // A connection drops its reference to its seat when it ends.
    let mut seats: Vec<Rc<Seat>> = Vec::new();
    let mut clients: JoinSet<io::Result<()>> = JoinSet::new();
    let full = Cell::new(false);
    loop {
        let come = tokio::select! {
            come = door.next(clients.len()) => come,
            Some(ended) = clients.join_next() => {
                match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::info!("a client of the {api} was disconnected: {error}"),
                    Err(error) => tracing::error!("internal error: a session of the {api} panicked: {error}"),
                }
                continue;
            }
        };
        let opened = come.and_then(|stranger| {
            let (is_root, peer, pid) = (stranger.is_root(), stranger.peer.clone(), stranger.pid);
            Ok((is_root, Arrival { stream: door.open(stranger)?, peer, pid }))
        });
        match opened {
            Ok((is_root, arrival)) => {
                seats.retain(|seat| Rc::strong_count(seat) > 1);
                let places = CLIENTS + if is_root { FOR_ROOT } else { 0 };
                if !matches!(make_room(&seats, places, is_root, idle, arrival.peer.uid()), Room::None) {
                    full.set(false);
                    let (seat, connection) = begin(arrival);
                    seats.push(seat);
                    clients.spawn_local(connection);
                } else if !full.replace(true) {
                    // Dropping the stream closes the connection.
                    tracing::warn!(
                        "rejected a client of the {api}: {CLIENTS} are connected, the maximum, and none is idle for {} s",
                        idle.as_secs()
                    );
                }
            }
            Err(error) => {
                tracing::warn!("cannot accept a client of the {api}: {error}");
                time::sleep(RECOVERY).await;
                door.close_left();
            }
        }
    }
}
