//! All memif sockets and interfaces of a router: the main thread's side. It owns the control channels, carries out what
//! `server.rs` and `client.rs` decide (`serve.rs`, `connect.rs`), and gives the queues their rings.

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

use super::channel::{self, Channel, File, Freed, Listener, Means};
use super::client::{self, Client, Wish};
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

/// Messages that are taken from a connection, and clients that are accepted, before others have their turn.
const AT_ONCE: usize = 32;
/// How long a peer may take to give room for packets before the link is up anyway, and how often it is looked at meanwhile.
const MOST_SETTLING: u64 = SECOND;
const SETTLING: u64 = SECOND / 500;
/// How long buffers rest that a former peer may still write to, until it has heard that the connection is no more.
const REST: u64 = SECOND;
/// How long a connection's thread may take to end before that is worth a word.
const LINGER: u64 = 5 * SECOND;
/// How long nobody is admitted to an interface whose last peer broke its rings: less than a good client waits anyway. Twice as
/// long after each further one...
const BARRED: u64 = SECOND;
/// ... up to 2^6 times.
const MOST_STRIKES: u32 = 6;
/// A peer that has broken nothing for so long begins anew.
const FORGIVEN: u64 = 600 * SECOND;
/// How long the last messages to all peers may take when the router stops.
const GOODBYE: Duration = Duration::from_millis(200);

/// Why there is no such socket or interface.
#[derive(Debug)]
pub struct OpenError(String);

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

fn refuse<T>(why: impl Into<String>) -> Result<T, OpenError> {
    Err(OpenError(why.into()))
}

struct Socket {
    path: PathBuf,
    /// Whether its file is a listener of this router: while there are servers.
    listener: Option<Listener>,
    /// What will be the connection of the next client.
    next: Option<Channel>,
    /// When clients are accepted again.
    pause: u64,
    /// What former clients have left to be freed.
    freed: Freed,
    refusals: Refusals,
    /// The threads of its connections.
    crew: Crew,
    /// Since when threads have been there whose connection is no more, and whether that was logged.
    lingers: Option<(u64, bool)>,
}

struct ServerConnection {
    socket: u32,
    channel: Channel,
    machine: Server<File>,
    /// The interface, once the client has it.
    interface: Option<(u32, u32)>,
    /// What waits for the client's memory to be mapped.
    prepared: Option<Prepared>,
    /// When it was accepted.
    since: u64,
}

/// A client that said all, and what is done when its memory is there.
struct Prepared {
    regions: Preparing<Vec<Region>>,
    plan: server::Plan<File>,
    after: Vec<server::Action<File>>,
}

struct ClientSide {
    machine: Client,
    channel: Option<Channel>,
    memory: Option<Memory>,
    /// The server's program and interface, while the memory is being sealed.
    sealing: Option<(Preparing<()>, String, String)>,
    /// Whose buffers are lent to the server, if any are.
    pool: Option<Pool>,
}

enum Side {
    /// The connection, if there is one.
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
    /// Until when the peer may take to give room for packets, if it has not.
    settles_by: Option<u64>,
    /// Until when no client is admitted: the last one broke the rings.
    barred_until: u64,
    /// How many have broken them lately.
    strikes: u32,
}

impl Entry {
    fn connected(&mut self, now: u64, peer: String, interface: String, regions: Vec<u64>) {
        self.settles_by = Some(now + MOST_SETTLING);
        let name = self.shared.config.name();
        tracing::info!("{name}: connected to {peer}, interface {interface}");
        (self.peer, self.peer_interface, self.regions, self.reason) = (peer, interface, regions, None);
    }

    /// The connection ended, or there was none. Gives the buffers that the peer has.
    #[must_use]
    fn disconnected(&mut self, why: String) -> Vec<LentInOrder> {
        self.settles_by = None;
        let lent = self.shared.detach();
        (self.peer, self.peer_interface, self.regions) = Default::default();
        // Whoever tries once a second says so once.
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

/// All memif sockets and interfaces of a router. It is driven by [`turn`](Sockets::turn), by whoever sees that its
/// [file](Sockets::as_fd) can be read, or that its [time](Sockets::next_timeout) has come.
pub struct Sockets {
    /// Rings when a connection has something to say, or a queue.
    bell: Arc<Doorbell>,
    /// Made with the first interface.
    signals: Option<Arc<Signals>>,
    /// The number of the next connection.
    next_number: u64,
    sockets: BTreeMap<u32, Socket>,
    interfaces: BTreeMap<(u32, u32), Entry>,
    connections: BTreeMap<u64, ServerConnection>,
    /// Buffers that former peers had, and when they are used again. The next turn says when: a connection may end between turns,
    /// which knows no time.
    resting: Vec<(Option<u64>, Vec<LentInOrder>)>,
    /// There is more to be done at once.
    more: bool,
    now: u64,
}

impl AsFd for Sockets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Sockets {
    /// No sockets.
    ///
    /// # Errors
    /// When the process has no descriptors or threads left.
    pub fn new() -> io::Result<Sockets> {
        apart::prepare()?;
        Ok(Sockets {
            bell: Arc::new(Doorbell::new()?),
            signals: None,
            next_number: 0,
            sockets: BTreeMap::new(),
            interfaces: BTreeMap::new(),
            connections: BTreeMap::new(),
            resting: Vec::new(),
            more: false,
            now: 0,
        })
    }

    /// Names a socket: a path, or `@NAME` for one without a file. Nothing listens or connects before it has interfaces.
    ///
    /// # Errors
    /// When there is one with this number or path, or the name cannot be.
    pub fn add_socket(&mut self, id: u32, path: &Path) -> Result<(), OpenError> {
        if let Err(e) = channel::check_path(path) {
            return refuse(format!("{} cannot be a socket: {e}", path.display()));
        }
        if self.sockets.contains_key(&id) {
            return refuse(format!("there is a memif socket {id} already"));
        }
        if let Some((other, _)) = self.sockets.iter().find(|(_, s)| s.path == path) {
            return refuse(format!("{} is memif socket {other} already", path.display()));
        }
        let socket = Socket {
            path: path.to_owned(),
            listener: None,
            next: None,
            pause: 0,
            freed: Freed::default(),
            refusals: Refusals::default(),
            crew: Crew::default(),
            lingers: None,
        };
        self.sockets.insert(id, socket);
        Ok(())
    }

    /// Forgets a socket.
    ///
    /// # Errors
    /// When there is none, or it has interfaces.
    pub fn remove_socket(&mut self, id: u32) -> Result<(), OpenError> {
        self.reap();
        if self.interfaces.keys().any(|(socket, _)| *socket == id) {
            return refuse(format!("memif socket {id} has interfaces"));
        }
        match self.sockets.remove(&id) {
            Some(_) => Ok(()),
            None => refuse(format!("there is no memif socket {id}")),
        }
    }

    /// Makes an interface, down. It connects when it is [set up](crate::device::DeviceControl::set_admin). The buffers of one that
    /// [lends](Config::lends) are those of `pool`.
    ///
    /// # Errors
    /// When there is no such socket, there is this interface already, or the kernel refuses.
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

    /// The same, for measuring: its queues need no graph.
    ///
    /// # Errors
    /// As [`open`](Sockets::open).
    pub fn open_tester(&mut self, config: &Config) -> Result<Tester, OpenError> {
        let (shared, _) = self.add(config, None)?;
        Ok(Tester::new(shared.clone(), Box::new(Control(shared))))
    }

    fn add(&mut self, config: &Config, pool: Option<&Pool>) -> Result<(Arc<Shared>, [u8; 6]), OpenError> {
        self.reap();
        let (name, key) = (config.name(), (config.socket, config.id));
        config.check().map_err(|e| OpenError(format!("{name}: {e}")))?;
        let Some(socket) = self.sockets.get(&config.socket) else {
            return refuse(format!("there is no memif socket {}", config.socket));
        };
        let mac = own_mac(&socket.path, config);
        if self.interfaces.contains_key(&key) {
            return refuse(format!("there is {name} already"));
        }
        let failed = |e: io::Error| OpenError(format!("{name}: {e}"));
        if self.signals.is_none() {
            let made = Signals::new().map_err(|e| {
                OpenError(format!(
                    "{name}: peers are woken by asynchronous I/O, which the kernel refuses: {e}"
                ))
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
                        "{name}: the router's buffers take more than 4 GiB, which is more than memif can share: leave out \
                         \"trusted\""
                    ));
                }
                let secret = config.secret.as_ref().map(super::Secret::bytes);
                let wish = Wish { id: config.id, secret, name, layout: config.layout() };
                let (machine, pool) = (Client::new(wish), pool.cloned());
                Side::Client(Box::new(ClientSide {
                    machine,
                    channel: None,
                    memory: None,
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

    /// Has the router listen on a socket.
    fn listen(&mut self, id: u32) -> Result<(), OpenError> {
        let Some(socket) = self.sockets.get_mut(&id).filter(|s| s.listener.is_none()) else { return Ok(()) };
        let at = socket.path.display();
        let listener = Listener::new(&socket.path, &socket.crew).map_err(|e| match e.kind() {
            io::ErrorKind::AddrInUse => OpenError(format!(
                "another program listens on {at}: two servers cannot, and a client of it is a \"slave\""
            )),
            io::ErrorKind::NotFound => OpenError(format!("the directory of {at} does not exist")),
            _ => OpenError(format!("listening on {at}: {e}")),
        })?;
        socket.listener = Some(listener);
        self.accept(id);
        Ok(())
    }

    /// Forgets interfaces whose device is gone.
    fn reap(&mut self) {
        let gone: Vec<(u32, u32)> =
            self.interfaces.iter().filter(|(_, e)| e.shared.is_closed()).map(|(k, _)| *k).collect();
        for key in gone {
            self.end(key, "the interface was deleted");
            let Some(_) = self.interfaces.remove(&key) else { continue };
            self.forget_refusals(key.0);
        }
    }

    /// Closes the sockets on which no interface serves any more. Not as soon as the last one goes: the next one may come at
    /// once, and the socket's name is free only when a thread has closed it.
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

    /// Ends an interface's connection, or keeps it from having one.
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

    /// Does what is due, at `now` in nanoseconds of the monotonic clock. Whether a link has changed.
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
            self.look_at_sealed(key);
            self.read_server(key);
        }
        self.look_at_times();
        self.look_at_porters();
        before != self.links()
    }

    /// When [`turn`](Sockets::turn) is due without word from a peer.
    pub fn next_timeout(&self) -> Option<u64> {
        if self.more {
            return Some(self.now);
        }
        let sides = self.interfaces.values().filter_map(|e| match &e.side {
            Side::Client(c) => {
                c.machine.poll_timeout().into_iter().chain(c.sealing.as_ref().map(|s| s.0.until)).min()
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
        sides.chain(clients).chain(lingering).chain(pauses).chain(settling).chain(resting).min()
    }

    fn links(&self) -> Vec<bool> {
        self.interfaces.values().map(|e| e.shared.is_connected()).collect()
    }

    /// What the operator, or a queue, has to say of interfaces.
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
                entry.strikes = if rest > FORGIVEN { 0 } else { (entry.strikes + 1).min(MOST_STRIKES) };
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

    /// Threads of a socket for which the kernel closes files of strangers; those that stay so hang.
    fn lingering(&self, id: u32) -> usize {
        self.sockets.get(&id).map_or(0, |socket| socket.crew.hanging())
    }

    /// Logs once that threads of a socket hang.
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
                        "memif socket {}: closing the files of {n} former peer(s) hangs; forwarding is not affected",
                        socket.path.display()
                    );
                }
                None if n > 0 => socket.lingers = Some((now, false)),
                _ => {}
            }
        }
    }

    /// What a channel needs.
    fn means(&self) -> Option<Means> {
        Some(Means { bell: self.bell.clone(), signals: self.signals.clone()? })
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        // Peers are told, and the rings taken away, while queues may still be there.
        let keys: BTreeSet<(u32, u32)> = self.interfaces.keys().copied().collect();
        for key in keys {
            self.end(key, "the router stops");
        }
        self.connections.clear();
        let end = Instant::now() + GOODBYE;
        self.sockets.values_mut().for_each(|socket| socket.next = None);
        while self.sockets.values().any(|s| s.crew.working() > 0) && Instant::now() < end {
            std::thread::sleep(GOODBYE / 200);
        }
    }
}
