//! The main thread's side of all memif sockets and interfaces of a router. It owns the control channels, carries out
//! the actions of `server.rs` and `client.rs` (`serve.rs`, `connect.rs`), and gives the queues their rings.

mod connect;
mod control;
mod refusals;
mod serve;
mod shown;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use buf::{LentInOrder, Pool};
use infra::doorbell::Doorbell;
use infra::mem::{Account, Promise};

use super::channel::{self, Channel, File, Freed, Listener, Means};
use super::client::{self, Client, Wish};
use super::former::Former;
use super::preparing::Preparing;
use super::region::Region;
use super::rx::MemifRx;
use super::server::{self, Server};
use super::shared::Shared;
use super::signal::Signals;
use super::tester::Tester;
use super::tx::MemifTx;
use super::{Config, INPUT_NODE, MEMIF_MTU, Role, SECOND};
use crate::device::Device;
use crate::kernel::apart::{self, Crew};
use connect::Memory;
use control::{Control, own_mac};
use refusals::Refusals;
pub use shown::{InterfaceState, RingShown, SocketState};

/// Maximum number of messages taken from a connection, or of clients accepted on a socket, before the main thread does other work.
const AT_ONCE: usize = 32;
/// Maximum time in nanoseconds for which the link of a new connection stays down because the peer offers no room for packets.
const MOST_SETTLING: u64 = SECOND;
/// Nanoseconds between two checks whether the peer offers room for packets.
const SETTLING: u64 = SECOND / 500;
/// Nanoseconds before buffers lent to a disconnected peer are reused, so that the peer can notice the disconnect.
const REST: u64 = SECOND;
/// Nanoseconds for which threads of ended connections may hang before a message is logged.
const LINGER: u64 = 5 * SECOND;
/// Nanoseconds for which an interface is blocked after a fault of its peer: at most the time that a well-behaved
/// client waits before it reconnects. Doubles with each repetition, up to 2^[`MOST_STRIKES`] times this value.
const BARRED: u64 = SECOND;
/// Maximum number of repetitions that double the time [`BARRED`].
const MOST_STRIKES: u32 = 6;
/// If a fault follows more than this many nanoseconds after the end of the last block, the count of repetitions restarts at 0.
const FORGIVEN: u64 = 600 * SECOND;
/// Time for sending the last messages to all peers when the router stops.
const GOODBYE: Duration = Duration::from_millis(200);

/// The reason why a socket or interface cannot be opened.
#[derive(Debug)]
pub struct OpenError {
    why: String,
    /// True if another program, or a file, has the socket's name.
    pub taken: bool,
}

impl OpenError {
    fn new(why: impl Into<String>) -> OpenError {
        OpenError { why: why.into(), taken: false }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for OpenError {}

fn refuse<T>(why: impl Into<String>) -> Result<T, OpenError> {
    Err(OpenError::new(why))
}

struct Socket {
    path: PathBuf,
    /// The listening socket, while there are server interfaces.
    listener: Option<Listener>,
    /// The channel of the next client, whose thread waits for a connection; `None` while the socket accepts no clients.
    next: Option<Channel>,
    /// Time from which clients are accepted again, in nanoseconds.
    pause: u64,
    /// Size of the memory that disconnected clients have left for the kernel to free.
    freed: Freed,
    refusals: Refusals,
    /// The threads of this socket's connections.
    crew: Crew,
    account: Account,
    /// Set while threads of ended connections hang: the time in nanoseconds when they began to hang, and true if this was logged.
    lingers: Option<(u64, bool)>,
}

struct ServerConnection {
    socket: u32,
    channel: Channel,
    machine: Server<File>,
    /// Socket and ID of the interface that was assigned to the client; `None` before that.
    interface: Option<(u32, u32)>,
    /// The client's memory, while a thread maps it.
    prepared: Option<Prepared>,
    /// Time when the client was accepted, in nanoseconds.
    since: u64,
}

/// A client that has sent CONNECT, and the actions to carry out when its memory is mapped.
struct Prepared {
    regions: Preparing<Vec<Region>>,
    /// The number of the connection in [`Former`]; `None` for a trusted client.
    watched: Option<u64>,
    plan: server::Plan<File>,
    after: Vec<server::Action<File>>,
}

/// The allocation of a client's memory on another thread. The result is the reservation to keep until the memory is released.
type Filling = Preparing<Option<Arc<Promise>>>;

struct ClientSide {
    machine: Client,
    channel: Option<Channel>,
    memory: Option<Memory>,
    /// The allocation of the memory, while it is in progress.
    filling: Option<Filling>,
    /// The sealing of the memory, while it is in progress; and the names of the server's program and interface.
    sealing: Option<(Preparing<()>, String, String)>,
    /// The pool whose buffers are lent to the server, if any.
    pool: Option<Pool>,
}

enum Side {
    /// Number of the connection with a client; `None` while no client has the interface.
    Server(Option<u64>),
    Client(Box<ClientSide>),
}

struct Entry {
    shared: Arc<Shared>,
    side: Side,
    was_up: bool,
    peer: String,
    peer_interface: String,
    regions: Vec<u64>,
    reason: Option<String>,
    /// Time in nanoseconds at which the link is set up even if the peer offers no room for packets; `None` if the link need not wait.
    settles_by: Option<u64>,
    /// Time in nanoseconds until which clients are refused after a fault of the last one.
    barred_until: u64,
    /// Number of recent repetitions of a fault, see [`BARRED`].
    strikes: u32,
}

impl Entry {
    fn connected(&mut self, now: u64, peer: String, interface: String, regions: Vec<u64>) {
        self.settles_by = Some(now + MOST_SETTLING);
        let name = self.shared.config.name();
        tracing::info!("{name}: connected to {peer}, interface {interface}");
        (self.peer, self.peer_interface, self.regions, self.reason) = (peer, interface, regions, None);
    }

    /// Handles the end of a connection, or a failed attempt to connect. Returns the buffers that are lent to the peer.
    #[must_use]
    fn disconnected(&mut self, why: String) -> Vec<LentInOrder> {
        self.settles_by = None;
        let lent = self.shared.detach();
        (self.peer, self.peer_interface, self.regions) = Default::default();
        // A repeated reason is logged once.
        if self.reason.as_ref() == Some(&why) {
            return lent;
        }
        match self.shared.is_up() {
            true => tracing::warn!("{}: not connected: {why}", self.shared.config.name()),
            false => tracing::info!("{}: not connected: {why}", self.shared.config.name()),
        }
        self.reason = Some(why);
        lent
    }
}

/// All memif sockets and interfaces of a router. The owner calls [`turn`](Sockets::turn) when the [file](Sockets::as_fd) of the
/// sockets becomes readable, and at their [next timeout](Sockets::next_timeout).
pub struct Sockets {
    /// Wakes the main thread when a connection or a queue needs attention.
    bell: Arc<Doorbell>,
    /// Signals to peers; created with the first interface.
    signals: Option<Arc<Signals>>,
    /// The number of the next connection.
    next_number: u64,
    sockets: BTreeMap<u32, Socket>,
    interfaces: BTreeMap<(u32, u32), Entry>,
    connections: BTreeMap<u64, ServerConnection>,
    /// The memory of open connections, and of ended ones until their peers have released it.
    former: Former,
    /// Buffers that were lent to disconnected peers, and the time when they can be reused. `None` until the next call of
    /// [`turn`](Sockets::turn) sets the time, because a connection may end between two calls.
    resting: Vec<(Option<u64>, Vec<LentInOrder>)>,
    /// True if the next call of [`turn`](Sockets::turn) is due at once.
    more: bool,
    now: u64,
}

impl AsFd for Sockets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Sockets {
    /// Returns an empty set of sockets.
    ///
    /// # Errors
    /// If the process has no free descriptor or thread.
    pub fn new() -> io::Result<Sockets> {
        apart::prepare()?;
        Ok(Sockets {
            bell: Arc::new(Doorbell::new()?),
            signals: None,
            next_number: 0,
            sockets: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            connections: BTreeMap::new(),
            former: Former::new(),
            resting: Vec::new(),
            more: false,
            now: 0,
        })
    }

    /// Adds a socket with a path, or with `@NAME` for an abstract one. The socket is used only when it has interfaces.
    ///
    /// # Errors
    /// If its ID or path is taken, or the name is invalid.
    pub fn add_socket(&mut self, id: u32, path: &Path) -> Result<(), OpenError> {
        if let Err(e) = channel::check_path(path) {
            return refuse(format!("{} cannot be used as a socket: {e}", path.display()));
        }
        if self.sockets.contains_key(&id) {
            return refuse(format!("memif socket {id} already exists"));
        }
        if let Some((other, _)) = self.sockets.iter().find(|(_, s)| s.path == path) {
            return refuse(format!("{} is already memif socket {other}", path.display()));
        }
        let socket = Socket {
            path: path.to_owned(),
            listener: None,
            next: None,
            pause: 0,
            freed: Freed::default(),
            refusals: Refusals::default(),
            crew: Crew::default(),
            account: Account::default(),
            lingers: None,
        };
        self.sockets.insert(id, socket);
        Ok(())
    }

    /// Removes a socket.
    ///
    /// # Errors
    /// If the socket does not exist, or has interfaces.
    pub fn remove_socket(&mut self, id: u32) -> Result<(), OpenError> {
        self.reap();
        if self.interfaces.keys().any(|(socket, _)| *socket == id) {
            return refuse(format!("memif socket {id} has interfaces: delete them first"));
        }
        match self.sockets.remove(&id) {
            Some(_) => Ok(()),
            None => refuse(format!("no such memif socket: {id}")),
        }
    }

    /// Opens an interface, which is down at first. It connects when it is [set up](crate::device::DeviceControl::set_admin). An interface
    /// that [lends](Config::lends) uses the buffers of `pool`.
    ///
    /// # Errors
    /// If the configuration is invalid, the socket does not exist or its name is taken, the interface exists already, or the kernel
    /// refuses.
    pub fn open(&mut self, config: &Config, pool: &Pool) -> Result<Device, OpenError> {
        let (shared, mac) = self.add(config, Some(pool))?;
        Ok(Device {
            kind: "memif",
            input_node: INPUT_NODE,
            rx: (0..config.rx_queues).map(|q| Box::new(MemifRx::new(shared.clone(), q)) as _).collect(),
            tx: (0..config.tx_queues).map(|q| Box::new(MemifTx::new(shared.clone(), q)) as _).collect(),
            mac,
            mtu: MEMIF_MTU,
            control: Box::new(Control(shared)),
        })
    }

    /// Opens an interface for measurements. The caller sends and receives through the [`Tester`], not through nodes of a graph.
    ///
    /// # Errors
    /// As for [`open`](Sockets::open).
    pub fn open_tester(&mut self, config: &Config) -> Result<Tester, OpenError> {
        let (shared, _) = self.add(config, None)?;
        Ok(Tester::new(shared.clone(), Box::new(Control(shared))))
    }

    fn add(&mut self, config: &Config, pool: Option<&Pool>) -> Result<(Arc<Shared>, [u8; 6]), OpenError> {
        self.reap();
        let (name, key) = (config.name(), (config.socket, config.id));
        config.check().map_err(|e| OpenError::new(format!("{name}: {e}")))?;
        let Some(socket) = self.sockets.get(&config.socket) else {
            return refuse(format!("no such memif socket: {}", config.socket));
        };
        let mac = own_mac(&socket.path, config);
        if self.interfaces.contains_key(&key) {
            return refuse(format!("{name} already exists"));
        }
        let failed = |e: io::Error| OpenError::new(format!("{name}: {e}"));
        if self.signals.is_none() {
            let made = Signals::new().map_err(|e| {
                OpenError::new(format!("{name}: the kernel refuses asynchronous I/O for waking peers: {e}"))
            })?;
            self.signals = Some(Arc::new(made));
        }
        let shared = Arc::new(Shared::new(config.clone(), self.bell.clone()).map_err(failed)?);
        let side = match config.role {
            Role::Server => {
                self.listen(config.socket)?;
                Side::Server(None)
            }
            Role::Client => {
                let pool = pool.filter(|_| config.lends());
                if pool.is_some_and(|p| u32::try_from(p.window().len()).is_err()) {
                    return refuse(format!(
                        "{name}: the router's buffers take more than 4 GiB, which memif cannot share: leave out \"trusted\""
                    ));
                }
                let secret = config.secret.as_ref().map(super::Secret::bytes);
                let wish = Wish { id: config.id, secret, name, layout: config.layout() };
                let (machine, pool) = (Client::new(wish), pool.cloned());
                Side::Client(Box::new(ClientSide {
                    machine,
                    channel: None,
                    memory: None,
                    filling: None,
                    sealing: None,
                    pool,
                }))
            }
        };
        let entry = Entry {
            shared: shared.clone(),
            side,
            was_up: false,
            peer: String::new(),
            peer_interface: String::new(),
            regions: Vec::new(),
            reason: None,
            settles_by: None,
            barred_until: 0,
            strikes: 0,
        };
        self.interfaces.insert(key, entry);
        self.forget_refusals(config.socket);
        Ok((shared, mac))
    }

    /// Starts listening on a socket.
    fn listen(&mut self, id: u32) -> Result<(), OpenError> {
        let Some(socket) = self.sockets.get_mut(&id).filter(|s| s.listener.is_none()) else { return Ok(()) };
        let at = socket.path.display();
        let listener = Listener::new(&socket.path, &socket.crew).map_err(|e| match e.kind() {
            io::ErrorKind::AddrInUse => OpenError {
                why: format!(
                    "{at} is taken: another program listens on it, or it is an ordinary file. Use another socket, or connect to that program as a client (\"slave\")"
                ),
                taken: true,
            },
            io::ErrorKind::NotFound => OpenError::new(format!("the directory of {at} does not exist")),
            _ => OpenError::new(format!("cannot listen on {at}: {e}")),
        })?;
        socket.listener = Some(listener);
        self.accept(id);
        Ok(())
    }

    /// Removes interfaces whose device was closed.
    fn reap(&mut self) {
        let gone: Vec<(u32, u32)> =
            self.interfaces.iter().filter(|(_, e)| e.shared.is_closed()).map(|(k, _)| *k).collect();
        for key in gone {
            self.end(key, "the interface was deleted");
            let Some(_) = self.interfaces.remove(&key) else { continue };
            self.forget_refusals(key.0);
        }
    }

    /// Closes listening sockets that no server interface uses. Runs once per turn, not when an interface is removed, so that a new
    /// interface can take over the socket. Once closing has begun, the name stays taken until a thread has closed the socket.
    fn close_listeners(&mut self) {
        let serves = |(key, e): (&(u32, u32), &Entry)| matches!(e.side, Side::Server(_)).then_some(key.0);
        let serving: BTreeSet<u32> = self.interfaces.iter().filter_map(serves).collect();
        for (id, socket) in self.sockets.iter_mut().filter(|(id, _)| !serving.contains(id)) {
            if socket.listener.take().is_some() {
                socket.next = None;
                self.connections.retain(|_, c| c.socket != *id);
            }
        }
    }

    /// Ends an interface's connection, or its attempts to connect.
    fn end(&mut self, key: (u32, u32), why: &str) {
        match self.interfaces.get_mut(&key).map(|e| &mut e.side) {
            Some(Side::Server(Some(number))) => {
                let number = *number;
                self.serve(number, server::Event::End(why.into()));
            }
            Some(Side::Client(_)) => self.drive(key, client::Event::Admin(false)),
            _ => {}
        }
    }

    /// Does all work that is due; `now` is in nanoseconds of the monotonic clock. Returns true if a link has changed.
    pub fn turn(&mut self, now: u64) -> bool {
        self.now = now;
        self.more = false;
        let before = self.links();
        self.bell.clear();
        self.reap();
        self.close_listeners();
        self.look_at_interfaces();
        let ids: Vec<u32> = self.sockets.keys().copied().collect();
        ids.into_iter().for_each(|id| self.accept(id));
        let numbers: Vec<u64> = self.connections.keys().copied().collect();
        for number in numbers {
            self.look_at_prepared(number);
            self.read_client(number);
        }
        let keys: Vec<(u32, u32)> = self.interfaces.keys().copied().collect();
        for key in keys {
            self.look_at_filled(key);
            self.look_at_sealed(key);
            self.read_server(key);
        }
        self.look_at_times();
        self.look_at_porters();
        self.look_at_former();
        before != self.links()
    }

    /// Returns the time, in nanoseconds of the monotonic clock, at which [`turn`](Sockets::turn) must be called even if the file is not
    /// readable; `None` if there is no such time.
    pub fn next_timeout(&self) -> Option<u64> {
        if self.more {
            return Some(self.now);
        }
        let sides = self.interfaces.values().filter_map(|e| match &e.side {
            Side::Client(c) => {
                let preparing = c.sealing.as_ref().map(|s| s.0.until).into_iter();
                let preparing = preparing.chain(c.filling.as_ref().map(|filling| filling.until));
                c.machine.poll_timeout().into_iter().chain(preparing).min()
            }
            Side::Server(_) => None,
        });
        let prepared = |c: &ServerConnection| c.prepared.as_ref().map(|p| p.regions.until);
        let clients = self.connections.values();
        let clients = clients.filter_map(|c| c.machine.poll_timeout().into_iter().chain(prepared(c)).min());
        let lingering = self.sockets.values().filter_map(|s| match s.lingers {
            Some((since, false)) => Some(since + LINGER),
            _ => None,
        });
        let pauses = self.sockets.values().map(|s| s.pause).filter(|p| *p > self.now);
        let settling = self.interfaces.values().filter_map(|e| e.settles_by.map(|_| self.now + SETTLING));
        let resting = self.resting.iter().map(|(until, _)| until.unwrap_or(self.now));
        let resting = resting.chain(self.former.next_timeout(self.now));
        sides.chain(clients).chain(lingering).chain(pauses).chain(settling).chain(resting).min()
    }

    fn links(&self) -> Vec<bool> {
        self.interfaces.values().map(|e| e.shared.is_connected()).collect()
    }

    /// Handles changes by the operator, and faults found by queues.
    fn look_at_interfaces(&mut self) {
        let keys: Vec<(u32, u32)> = self.interfaces.keys().copied().collect();
        for key in keys {
            let Some(entry) = self.interfaces.get_mut(&key) else { continue };
            let (up, fault) = (entry.shared.is_up(), entry.shared.take_fault());
            let turned = std::mem::replace(&mut entry.was_up, up) != up;
            let client = matches!(entry.side, Side::Client(_));
            if turned {
                (entry.barred_until, entry.strikes) = (0, 0);
            }
            if let Some(fault) = fault {
                let rest = self.now.saturating_sub(entry.barred_until);
                let is_first = entry.barred_until == 0 || rest > FORGIVEN;
                entry.strikes = if is_first { 0 } else { (entry.strikes + 1).min(MOST_STRIKES) };
                entry.barred_until = self.now + (BARRED << entry.strikes);
                let why = fault.to_string();
                match &entry.side {
                    Side::Server(Some(number)) => {
                        let number = *number;
                        self.serve(number, server::Event::End(why));
                    }
                    Side::Server(None) => {}
                    Side::Client(_) => self.drive(key, client::Event::End(why)),
                }
            }
            if turned {
                self.forget_refusals(key.0);
                self.former.forgive(key);
            }
            match (turned, client, up) {
                (true, true, _) => self.drive(key, client::Event::Admin(up)),
                (true, false, false) => self.end(key, "the interface is set down"),
                _ => {}
            }
        }
    }

    fn look_at_times(&mut self) {
        let now = self.now;
        let numbers: Vec<u64> = self.connections.keys().copied().collect();
        for number in numbers {
            let Some(c) = self.connections.get_mut(&number) else { continue };
            let actions = c.machine.timeout(now);
            self.act_for_client(number, actions);
        }
        let keys: Vec<(u32, u32)> = self.interfaces.keys().copied().collect();
        for key in keys {
            let Some(Side::Client(c)) = self.interfaces.get_mut(&key).map(|e| &mut e.side) else { continue };
            let actions = c.machine.timeout(now);
            self.act(key, actions);
        }
        for entry in self.interfaces.values_mut() {
            if entry.settles_by.is_some_and(|by| entry.shared.settle(now >= by)) {
                entry.settles_by = None;
            }
        }
        self.resting.retain_mut(|(until, _)| *until.get_or_insert(now + REST) > now);
    }

    fn look_at_former(&mut self) {
        for key in self.former.look(self.now) {
            let Some(entry) = self.interfaces.get(&key) else { continue };
            tracing::warn!(
                "{}: a former peer may still use the memory shared with it, and the router cannot detect when the peer stops",
                entry.shared.config.name()
            );
        }
    }

    /// Returns the number of threads of a socket for which the kernel is still closing files.
    fn lingering(&self, id: u32) -> usize {
        self.sockets.get(&id).map_or(0, |socket| socket.crew.hanging())
    }

    /// Logs once that a socket's threads hang.
    fn look_at_porters(&mut self) {
        let ids: Vec<u32> = self.sockets.keys().copied().collect();
        for id in ids {
            let (n, now) = (self.lingering(id), self.now);
            let Some(socket) = self.sockets.get_mut(&id) else { continue };
            match &mut socket.lingers {
                Some(_) if n == 0 => socket.lingers = None,
                Some((since, logged)) if !*logged && now >= *since + LINGER => {
                    *logged = true;
                    tracing::warn!(
                        "memif socket {}: {n} thread(s) hang while the kernel closes file descriptors of former peers; forwarding is not affected",
                        socket.path.display()
                    );
                }
                None if n > 0 => socket.lingers = Some((now, false)),
                _ => {}
            }
        }
    }

    /// Returns the resources for a channel; `None` before the first interface was opened.
    fn means(&self) -> Option<Means> {
        Some(Means { bell: self.bell.clone(), signals: self.signals.clone()? })
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        // Disconnect the peers and take the rings away while queues may still exist.
        let keys: BTreeSet<(u32, u32)> = self.interfaces.keys().copied().collect();
        for key in keys {
            self.end(key, "the router stops");
        }
        self.connections.clear();
        self.former.end();
        let end = Instant::now() + GOODBYE;
        self.sockets.values_mut().for_each(|socket| socket.next = None);
        while self.sockets.values().any(|s| s.crew.working() > 0) && Instant::now() < end {
            std::thread::sleep(GOODBYE / 200);
        }
    }
}
