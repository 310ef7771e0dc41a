//! The list of connected clients, for `show cli-sessions`.
//!
//! The sessions write the list, and a command reads it, all on the main thread. The list has one entry per session, so the servers' limits
//! on clients also limit its size.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use model::cli::Role;
use model::origin::{FrontEnd, Origin, Peer};
use serde::Serialize;

/// The socket at which a client connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Entrance {
    /// The UNIX socket.
    Socket,
    /// The UNIX socket for root alone.
    Root,
    /// The TCP port.
    Tcp,
    /// A socket of the binary API.
    Api,
    /// A socket or the TCP port of the native API.
    Native,
}

impl Entrance {
    /// Returns the name of the entrance in JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Entrance::Socket => "socket",
            Entrance::Root => "root",
            Entrance::Tcp => "tcp",
            Entrance::Api => "api",
            Entrance::Native => "native",
        }
    }
}

/// A client of the command line, or of an API.
#[derive(Clone, Debug)]
pub struct Client {
    /// The socket at which the client connected.
    pub entrance: Entrance,
    /// The client's permissions.
    pub role: Role,
    /// The client's user or address.
    pub peer: Peer,
    /// The process that connected. Another process may use the connection now.
    pub pid: Option<i32>,
}

/// A connected client, and its running command.
#[derive(Clone, Debug)]
pub struct Connected {
    /// The client.
    pub client: Client,
    /// When the client connected, by the system clock.
    pub since: SystemTime,
    /// When the client connected, on the monotonic clock.
    pub begun: Instant,
    /// The command or request that runs or waits to run, the last one if there are several: its text, truncated to the length that the
    /// journal stores, and its arrival time.
    pub running: Option<(Arc<str>, Instant)>,
}

/// The connected clients of all listeners. All clones refer to the same list.
#[derive(Clone, Debug, Default)]
pub struct Sessions(Arc<Mutex<List>>);

#[derive(Debug, Default)]
struct List {
    /// The number of the client that connected last.
    last: u64,
    clients: BTreeMap<u64, Connected>,
    /// The running commands by client and number, with their arrival times.
    running: BTreeMap<(u64, u64), (Arc<str>, Instant)>,
    /// The number of the command that arrived last.
    last_command: u64,
}

impl Sessions {
    /// Adds a client to the list. Dropping the returned entry removes the client.
    pub(crate) fn enter(&self, client: Client) -> Guest {
        let mut list = self.list();
        list.last += 1;
        let number = list.last;
        let (since, begun) = (SystemTime::now(), Instant::now());
        list.clients.insert(number, Connected { client, since, begun, running: None });
        Guest { sessions: self.clone(), number }
    }

    /// Returns the clients by number, in the order in which they connected.
    pub fn connected(&self) -> Vec<(u64, Connected)> {
        let list = self.list();
        let running = |number: u64| {
            list.running
                .range((number, 0)..=(number, u64::MAX))
                .next_back()
                .map(|(_, running)| running.clone())
        };
        let with = |(number, one): (&u64, &Connected)| {
            (*number, Connected { running: running(*number), ..one.clone() })
        };
        list.clients.iter().map(with).collect()
    }

    fn list(&self) -> MutexGuard<'_, List> {
        // No change of the list can be left halfway.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's entry in the list.
pub(crate) struct Guest {
    sessions: Sessions,
    number: u64,
}

impl Guest {
    /// Shows `line` as a running command or request of the client, until the returned value is dropped.
    pub(crate) fn runs(&self, line: &str) -> Running {
        let line = Origin::new(FrontEnd::Cli, Peer::Own, line).line;
        let mut list = self.sessions.list();
        list.last_command += 1;
        let number = (self.number, list.last_command);
        list.running.insert(number, (line, Instant::now()));
        Running { sessions: self.sessions.clone(), number }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.sessions.list().clients.remove(&self.number);
    }
}

/// A running command in the list.
pub(crate) struct Running {
    sessions: Sessions,
    number: (u64, u64),
}

impl Drop for Running {
    fn drop(&mut self) {
        self.sessions.list().running.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(uid: u32) -> Client {
        Client { entrance: Entrance::Socket, role: Role::Admin, peer: Peer::user(uid, None), pid: Some(7) }
    }

    #[test]
    fn list_has_the_clients_and_their_running_commands() {
        let sessions = Sessions::default();
        let (first, second) = (sessions.enter(client(1)), sessions.enter(client(2)));
        let running = second.runs(&format!(" ping {} ", "1".repeat(300)));
        let shown = || -> Vec<_> {
            let all = sessions.connected().into_iter();
            all.map(|(n, one)| (n, one.client.peer.uid(), one.running.map(|(line, _)| line.len()))).collect()
        };
        assert_eq!(shown(), [(1, Some(1), None), (2, Some(2), Some(256 + "…".len()))]);
        // The request that began last is shown until it ends.
        let later = second.runs("later");
        assert_eq!(shown()[1].2, Some(5));
        drop(later);
        assert_eq!(shown()[1].2, Some(256 + "…".len()));
        drop(running);
        drop(first);
        assert_eq!(shown(), [(2, Some(2), None)]);
        let third = sessions.enter(client(3));
        assert_eq!(shown(), [(2, Some(2), None), (3, Some(3), None)]);
        drop((second, third));
        assert_eq!(shown(), []);
    }
}
