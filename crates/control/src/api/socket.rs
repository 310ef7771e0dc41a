//! The sockets of the API.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time;
use vapi::Table;

use super::connection::{Api, Connection};
use super::{frame, memclnt};
use crate::app::Context;
use crate::cli::{Door, Listener, RECOVERY, Registry, Room, Seat, Turns, make_room};

/// Maximum number of clients of a socket. Root's clients may exceed it by [`FOR_ROOT`].
const CLIENTS: usize = 64;
const FOR_ROOT: usize = 8;
/// The time in which a client must introduce itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// The settings of a socket.
pub struct Service {
    /// The messages.
    pub table: Rc<Table<Context>>,
    /// The commands, for `cli_inband`.
    pub commands: Rc<Registry<Context>>,
    /// True to refuse requests that may change something.
    pub read_only: bool,
    /// Idle time after which a client may be disconnected to make room for another.
    pub idle: Duration,
    /// The limits that all non-root clients of the API and of the CLI share: only one of them runs at a time, and they have one
    /// memory budget.
    pub turns: Turns,
}

/// Returns a message that every instance answers.
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
    let mut door = Door::new(&listener, Arc::from([]))?;
    let idle = service.idle;
    let api = Rc::new(Api::new(service));
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
                    Ok(Err(error)) => tracing::info!("an API client was disconnected: {error}"),
                    Err(error) => tracing::error!("internal error: an API session panicked: {error}"),
                }
                continue;
            }
        };
        let opened = come.and_then(|stranger| {
            let (is_root, client) = (stranger.is_root(), (stranger.peer.clone(), stranger.pid));
            Ok((is_root, client, door.open(stranger)?))
        });
        match opened {
            Ok((is_root, (peer, pid), stream)) => {
                seats.retain(|seat| Rc::strong_count(seat) > 1);
                let places = CLIENTS + if is_root { FOR_ROOT } else { 0 };
                if !matches!(make_room(&seats, places, is_root, idle, peer.uid()), Room::None) {
                    full.set(false);
                    let connection = Connection::new(api.clone(), cx.clone(), peer, pid);
                    seats.push(connection.seat());
                    clients.spawn_local(connection.serve(stream, PATIENCE));
                } else if !full.replace(true) {
                    // Dropping the stream closes the connection.
                    tracing::warn!(
                        "rejected an API client: {CLIENTS} are connected, the maximum, and none is idle for {} s",
                        idle.as_secs()
                    );
                }
            }
            Err(error) => {
                tracing::warn!("cannot accept an API client: {error}");
                time::sleep(RECOVERY).await;
                door.close_left();
            }
        }
    }
}
