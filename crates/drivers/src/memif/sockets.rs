//! All memif sockets and interfaces of a router: the main thread's side. It owns the control channels, carries out what
//! `server.rs` and `client.rs` decide, and gives the queues their rings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use buf::{Lent, Pool};
use infra::doorbell::Doorbell;

use super::channel::{self, Channel, Listener, Received};
use super::client::{self, Client, Wish};
use super::message::{Direction, Message};
use super::region::Region;
use super::ring::{Ring, RingState};
use super::rx::MemifRx;
use super::server::{self, Listed, Plan, Server};
use super::shared::Shared;
use super::signal::Signals;
use super::tester::Tester;
use super::tx::MemifTx;
use super::{Config, INPUT_NODE, Layout, MEMIF_MTU, Role, SECOND};
use crate::device::{Device, DeviceControl, Link};
use crate::kernel::sys;

/// Number of the bell among the watched files; those of sockets and connections follow.
const BELL: u64 = 0;
/// Messages that are taken from a connection, and clients that are accepted, before others have their turn.
const AT_ONCE: usize = 32;
/// Clients on a socket that have not said yet what they want.
const MOST_STRANGERS: usize = 16;
/// How soon messages are sent again that a peer had no room for.
const RESEND: u64 = SECOND / 500;
/// How long nobody is accepted after the process had no descriptor left.
const PAUSE: u64 = SECOND;
/// How long buffers rest that a former peer may still write to, until it has heard that the connection is no more.
const REST: u64 = SECOND;

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

/// A socket as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketState {
    /// Its number.
    pub id: u32,
    /// Its file.
    pub path: PathBuf,
    /// Whether this router listens on it.
    pub listens: bool,
    /// Interfaces on it.
    pub interfaces: usize,
}

/// An interface as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceState {
    /// What was asked for.
    pub config: Config,
    /// Whether it is set up.
    pub up: bool,
    /// Whether packets pass.
    pub connected: bool,
    /// The peer's program, in its own words; empty while there is none.
    pub peer: String,
    /// The peer's interface, in its own words.
    pub peer_interface: String,
    /// Bytes of each region of memory.
    pub regions: Vec<u64>,
    /// Why it is not connected, or was not the last time.
    pub reason: Option<String>,
    /// Its rings.
    pub rings: Vec<RingShown>,
}

/// A ring as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingShown {
    /// Whether packets come in by it.
    pub receives: bool,
    /// Its number among those.
    pub number: usize,
    /// Its indices.
    pub state: RingState,
    /// Flags, region, length and offset of each descriptor, where they were asked for.
    pub descriptors: Vec<(u16, u16, u32, u32)>,
}

struct Socket {
    path: PathBuf,
    /// Whether its file is a listener of this router: while there are servers.
    listener: Option<(u64, Listener)>,
    /// When clients are accepted again.
    pause: u64,
    /// When the last refusal was logged: strangers do not fill the log.
    logged: u64,
}

/// Whose a watched file is.
#[derive(Clone, Copy)]
enum Owner {
    Listener(u32),
    /// A connection to one of the servers.
    Server,
    Client((u32, u32)),
}

struct ServerConnection {
    socket: u32,
    channel: Channel,
    machine: Server<OwnedFd>,
    /// The interface, once the client has said which one.
    interface: Option<(u32, u32)>,
}

struct ClientSide {
    machine: Client,
    channel: Option<(u64, Channel)>,
    memory: Option<Memory>,
    /// Whose buffers are lent to the server, if any are.
    pool: Option<Pool>,
}

/// What a client brings along.
struct Memory {
    layout: Layout,
    /// Bytes and file of each region.
    regions: Vec<(u64, Arc<OwnedFd>)>,
    /// The event descriptor of each ring, in the order of the layout.
    bells: Vec<Arc<OwnedFd>>,
    /// The rings to receive by and those to transmit by, until the queues have them.
    rings: (Vec<Ring>, Vec<Ring>),
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
}

impl Entry {
    fn connected(&mut self, peer: String, interface: String, regions: Vec<u64>) {
        let name = self.shared.config.name();
        tracing::info!("{name}: connected to {peer}, interface {interface}");
        (self.peer, self.peer_interface, self.regions, self.reason) = (peer, interface, regions, None);
    }

    /// The connection ended, or there was none. Gives the buffers that the peer has.
    #[must_use]
    fn disconnected(&mut self, why: String) -> Vec<Lent> {
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
    watched: OwnedFd,
    bell: Arc<Doorbell>,
    /// Made with the first interface.
    signals: Option<Arc<Signals>>,
    owners: BTreeMap<u64, Owner>,
    next_number: u64,
    sockets: BTreeMap<u32, Socket>,
    interfaces: BTreeMap<(u32, u32), Entry>,
    connections: BTreeMap<u64, ServerConnection>,
    /// Buffers that former peers had, and when they are used again.
    resting: Vec<(u64, Vec<Lent>)>,
    /// There is more to be done at once.
    more: bool,
    now: u64,
}

impl AsFd for Sockets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watched.as_fd()
    }
}

impl Sockets {
    /// No sockets.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new() -> io::Result<Sockets> {
        let (watched, bell) = (sys::epoll()?, Arc::new(Doorbell::new()?));
        sys::epoll_add(watched.as_fd(), bell.as_fd(), BELL, libc::EPOLLIN)?;
        Ok(Sockets {
            watched,
            bell,
            signals: None,
            owners: BTreeMap::new(),
            next_number: BELL + 1,
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
        self.sockets.insert(id, Socket { path: path.to_owned(), listener: None, pause: 0, logged: 0 });
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

    /// Makes an interface, down. It connects when it is [set up](DeviceControl::set_admin). The buffers of one that
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

    /// The same, for measuring: its one queue each way needs no graph. It is the first queue, if there are more.
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
                Side::Client(Box::new(ClientSide { machine, channel: None, memory: None, pool }))
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
        };
        self.interfaces.insert(key, entry);
        Ok((shared, mac))
    }

    /// Has the router listen on a socket.
    fn listen(&mut self, id: u32) -> Result<(), OpenError> {
        let number = self.next_number;
        let Some(socket) = self.sockets.get_mut(&id).filter(|s| s.listener.is_none()) else { return Ok(()) };
        let at = socket.path.display();
        let listener = Listener::new(&socket.path).map_err(|e| match e.kind() {
            io::ErrorKind::AddrInUse => OpenError(format!(
                "another program listens on {at}: two servers cannot, and a client of it is a \"slave\""
            )),
            io::ErrorKind::NotFound => OpenError(format!("the directory of {at} does not exist")),
            _ => OpenError(format!("listening on {at}: {e}")),
        })?;
        sys::epoll_add(self.watched.as_fd(), listener.as_fd(), number, libc::EPOLLIN)
            .map_err(|e| OpenError(format!("listening on {at}: {e}")))?;
        socket.listener = Some((number, listener));
        self.owners.insert(number, Owner::Listener(id));
        self.next_number += 1;
        Ok(())
    }

    /// Forgets interfaces whose device is gone.
    fn reap(&mut self) {
        let gone: Vec<(u32, u32)> =
            self.interfaces.iter().filter(|(_, e)| e.shared.is_closed()).map(|(k, _)| *k).collect();
        for key in gone {
            self.end(key, "the interface was deleted");
            let Some(_) = self.interfaces.remove(&key) else { continue };
            let serves = |(k, e): (&(u32, u32), &Entry)| k.0 == key.0 && matches!(e.side, Side::Server(_));
            if !self.interfaces.iter().any(serves)
                && let Some((number, _)) = self.sockets.get_mut(&key.0).and_then(|s| s.listener.take())
            {
                self.owners.remove(&number);
                self.connections.retain(|_, c| c.socket != key.0);
                let connections = &self.connections;
                self.owners.retain(|n, o| !matches!(o, Owner::Server) || connections.contains_key(n));
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
        self.look_at_interfaces();
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let n = sys::epoll_take(self.watched.as_fd(), &mut events).unwrap_or(0);
        self.more |= n == events.len();
        for event in &events[..n] {
            match self.owners.get(&{ event.u64 }) {
                Some(Owner::Listener(id)) => self.accept(*id),
                Some(Owner::Server) => self.read_client(event.u64),
                Some(Owner::Client(key)) => self.read_server(*key),
                None => {}
            }
        }
        self.look_at_times();
        before != self.links()
    }

    /// When [`turn`](Sockets::turn) is due without word from a peer.
    pub fn next_timeout(&self) -> Option<u64> {
        if self.more {
            return Some(self.now);
        }
        let sides = self.interfaces.values().filter_map(|e| match &e.side {
            Side::Client(c) => {
                let waits = c.channel.as_ref().is_some_and(|(_, channel)| channel.waits());
                c.machine.poll_timeout().into_iter().chain(waits.then_some(self.now + RESEND)).min()
            }
            Side::Server(_) => None,
        });
        let clients = self.connections.values().filter_map(|c| {
            let waits = c.channel.waits().then_some(self.now + RESEND);
            c.machine.poll_timeout().into_iter().chain(waits).min()
        });
        let pauses = self.sockets.values().map(|s| s.pause).filter(|p| *p > self.now);
        let resting = self.resting.iter().map(|(until, _)| *until);
        sides.chain(clients).chain(pauses).chain(resting).min()
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
            if let Some(fault) = fault {
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
            match c.channel.flush() {
                Ok(()) => {
                    let actions = c.machine.timeout(now);
                    self.act_for_client(number, actions);
                }
                Err(_) => self.serve(number, server::Event::Closed),
            }
        }
        let keys: Vec<(u32, u32)> = self.interfaces.keys().copied().collect();
        for key in keys {
            let Some(Side::Client(c)) = self.interfaces.get_mut(&key).map(|e| &mut e.side) else { continue };
            if let Some((_, channel)) = &mut c.channel
                && let Err(e) = channel.flush()
            {
                self.drive(key, client::Event::Closed(format!("the connection broke: {e}")));
                continue;
            }
            let actions = c.machine.timeout(now);
            self.act(key, actions);
        }
        self.resting.retain(|(until, _)| *until > now);
        let paused: Vec<u32> =
            self.sockets.iter().filter(|(_, s)| s.pause > 0 && s.pause <= now).map(|(id, _)| *id).collect();
        for id in paused {
            self.resume(id);
        }
    }

    // The server's side.

    fn accept(&mut self, id: u32) {
        for _ in 0..AT_ONCE {
            let Some(socket) = self.sockets.get_mut(&id) else { return };
            let Some((_, listener)) = &socket.listener else { return };
            let channel = match listener.accept() {
                Ok(channel) => channel,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) => return self.pause(id, &e),
            };
            let strangers = self.connections.values().filter(|c| c.socket == id && c.interface.is_none());
            if strangers.count() >= MOST_STRANGERS {
                // Closed at once. Those who are here have a few seconds to say what they want.
                self.refused(id, "too many clients that have not said what they want");
                continue;
            }
            let number = self.next_number;
            if sys::epoll_add(self.watched.as_fd(), channel.as_fd(), number, libc::EPOLLIN).is_err() {
                continue;
            }
            self.next_number += 1;
            let (machine, actions) = Server::new(self.now);
            self.owners.insert(number, Owner::Server);
            self.connections
                .insert(number, ServerConnection { socket: id, channel, machine, interface: None });
            self.act_for_client(number, actions);
        }
        self.more = true;
    }

    /// Clients cannot be accepted now, most likely for want of descriptors: the listener would not be silent.
    fn pause(&mut self, id: u32, why: &io::Error) {
        let until = self.now + PAUSE;
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        tracing::warn!("memif socket {}: no client can be accepted: {why}", socket.path.display());
        socket.pause = until;
        if let Some((_, listener)) = &socket.listener {
            sys::epoll_remove(self.watched.as_fd(), listener.as_fd());
        }
    }

    fn resume(&mut self, id: u32) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        socket.pause = 0;
        if let Some((number, listener)) = &socket.listener
            && let Err(e) = sys::epoll_add(self.watched.as_fd(), listener.as_fd(), *number, libc::EPOLLIN)
        {
            self.pause(id, &e);
        }
    }

    /// Logs that a stranger was refused, at most once a second.
    fn refused(&mut self, id: u32, why: &str) {
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        if socket.logged == 0 || now >= socket.logged + SECOND {
            socket.logged = now.max(1);
            tracing::warn!("memif socket {}: a client was refused: {why}", socket.path.display());
        }
    }

    fn read_client(&mut self, number: u64) {
        for _ in 0..AT_ONCE {
            let Some(c) = self.connections.get(&number) else { return };
            let event = match c.channel.receive() {
                Received::Message(m, file) => server::Event::Message(m, file),
                Received::Garbage(what) => server::Event::End(what),
                Received::Closed => server::Event::Closed,
                Received::Nothing => return,
            };
            self.serve(number, event);
        }
        self.more = true;
    }

    fn serve(&mut self, number: u64, event: server::Event<OwnedFd>) {
        let Some(c) = self.connections.get_mut(&number) else { return };
        let (socket, own) = (c.socket, c.interface);
        let interfaces = &self.interfaces;
        let listed = |id| {
            let entry = interfaces.get(&(socket, id))?;
            let Side::Server(connection) = &entry.side else { return None };
            let config = &entry.shared.config;
            Some(Listed {
                up: entry.shared.is_up(),
                taken: connection.is_some() && own != Some((socket, id)),
                secret: config.secret.as_ref().map(super::Secret::bytes),
                trusted: config.trusted,
                name: config.name(),
            })
        };
        let actions = c.machine.handle(event, listed);
        self.act_for_client(number, actions);
    }

    fn act_for_client(&mut self, number: u64, actions: Vec<server::Action<OwnedFd>>) {
        for action in actions {
            let Some(c) = self.connections.get_mut(&number) else { return };
            let done = match action {
                server::Action::Send(message) => match c.channel.send(&message, None) {
                    Ok(()) => Ok(()),
                    Err(_) => return self.serve(number, server::Event::Closed),
                },
                server::Action::Claim(id) => {
                    let key = (c.socket, id);
                    c.interface = Some(key);
                    if let Some(entry) = self.interfaces.get_mut(&key) {
                        entry.side = Side::Server(Some(number));
                    }
                    Ok(())
                }
                server::Action::Attach(plan) => self.attach_client(number, plan),
                server::Action::Close(why) => {
                    self.close_client(number, why);
                    return;
                }
            };
            if let Err(why) = done {
                return self.serve(number, server::Event::End(why));
            }
        }
    }

    fn attach_client(&mut self, number: u64, plan: Plan<OwnedFd>) -> Result<(), String> {
        let entry = self.connections.get(&number).and_then(|c| c.interface);
        let entry = entry.and_then(|key| self.interfaces.get_mut(&key)).ok_or("the interface was deleted")?;
        let signals = self.signals.as_ref().ok_or("the interface was deleted")?;
        let trusted = entry.shared.config.trusted;
        let mut regions = Vec::with_capacity(plan.regions.len());
        let mut sizes = Vec::with_capacity(plan.regions.len());
        let mut total = 0u64;
        for (i, (size, file)) in plan.regions.into_iter().enumerate() {
            total = total.saturating_add(size);
            if !trusted && total > super::region::MOST {
                return Err(format!("the regions have more than {} bytes together", super::region::MOST));
            }
            let region = Region::of_peer(file.as_fd(), size, trusted);
            regions.push(region.map_err(|e| format!("region {i} cannot be used: {e}"))?);
            sizes.push(size);
        }
        let regions: Arc<[Region]> = regions.into();
        let rings = |planned: Vec<server::PlannedRing<OwnedFd>>, direction| {
            let ring = |r: server::PlannedRing<OwnedFd>| {
                let place = (r.region, r.offset, r.log2_size);
                Ring::of_peer(regions.clone(), place, direction, Arc::new(r.bell))
            };
            planned.into_iter().map(ring).collect::<Result<Vec<_>, _>>()
        };
        let rx = rings(plan.to_server, Direction::ToServer)?;
        let tx = rings(plan.to_client, Direction::ToClient)?;
        entry.shared.attach(rx, tx, signals, None)?;
        entry.connected(plan.peer, plan.peer_interface, sizes);
        Ok(())
    }

    fn close_client(&mut self, number: u64, why: String) {
        self.owners.remove(&number);
        let Some(c) = self.connections.remove(&number) else { return };
        match c.interface.and_then(|key| self.interfaces.get_mut(&key)) {
            Some(entry) => {
                entry.side = Side::Server(None);
                // A server lends nothing.
                drop(entry.disconnected(why));
            }
            None => self.refused(c.socket, &why),
        }
    }

    // The client's side.

    fn read_server(&mut self, key: (u32, u32)) {
        for _ in 0..AT_ONCE {
            let Some(Side::Client(c)) = self.interfaces.get(&key).map(|e| &e.side) else { return };
            let Some((_, channel)) = &c.channel else { return };
            let event = match channel.receive() {
                Received::Message(m, file) => client::Event::Message(m, file.is_some()),
                Received::Garbage(what) => client::Event::End(what),
                Received::Closed => client::Event::Closed("the server closed the connection".into()),
                Received::Nothing => return,
            };
            self.drive(key, event);
        }
        self.more = true;
    }

    fn drive(&mut self, key: (u32, u32), event: client::Event) {
        let now = self.now;
        let Some(Side::Client(c)) = self.interfaces.get_mut(&key).map(|e| &mut e.side) else { return };
        let actions = c.machine.handle(now, event);
        self.act(key, actions);
    }

    fn act(&mut self, key: (u32, u32), actions: Vec<client::Action>) {
        let now = self.now;
        for action in actions {
            let Some(entry) = self.interfaces.get_mut(&key) else { return };
            let Side::Client(c) = &mut entry.side else { return };
            let failed = match action {
                client::Action::Connect => {
                    let Some(socket) = self.sockets.get(&key.0) else { return };
                    let number = self.next_number;
                    let watch = |channel: Channel| {
                        let added =
                            sys::epoll_add(self.watched.as_fd(), channel.as_fd(), number, libc::EPOLLIN);
                        added.map(|()| channel)
                    };
                    match Channel::connect(&socket.path).and_then(watch) {
                        Ok(channel) => {
                            self.next_number += 1;
                            self.owners.insert(number, Owner::Client(key));
                            c.channel = Some((number, channel));
                            None
                        }
                        Err(e) => {
                            let at = socket.path.display();
                            Some(client::Event::Closed(match e.kind() {
                                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                                    format!("no server listens on {at}")
                                }
                                _ => format!("connecting to {at}: {e}"),
                            }))
                        }
                    }
                }
                client::Action::Make(layout) => match make(layout, c.pool.as_ref()) {
                    Ok(memory) => {
                        let sizes = memory.regions.iter().map(|(len, _)| *len).collect();
                        c.memory = Some(memory);
                        Some(client::Event::Made(sizes))
                    }
                    Err(e) => Some(client::Event::End(format!("the memory cannot be made: {e}"))),
                },
                client::Action::Send(message) => {
                    let file = c.memory.as_ref().and_then(|m| m.file(&message));
                    match &mut c.channel {
                        Some((_, channel)) => channel
                            .send(&message, file)
                            .err()
                            .map(|e| client::Event::Closed(format!("the connection broke: {e}"))),
                        None => None,
                    }
                }
                client::Action::Attach(peer, interface) => {
                    let (Some(memory), Some(signals)) = (&mut c.memory, &self.signals) else { return };
                    let sizes = memory.regions.iter().map(|(len, _)| *len).collect();
                    let (rx, tx) = std::mem::take(&mut memory.rings);
                    match entry.shared.attach(rx, tx, signals, c.pool.as_ref()) {
                        Ok(()) => {
                            entry.connected(peer, interface, sizes);
                            None
                        }
                        Err(why) => Some(client::Event::End(why)),
                    }
                }
                client::Action::Close(why) => {
                    if let Some((number, _)) = c.channel.take() {
                        self.owners.remove(&number);
                    }
                    c.memory = None;
                    let lent = entry.disconnected(why);
                    self.resting.push((now + REST, lent));
                    None
                }
            };
            if let Some(event) = failed {
                return self.drive(key, event);
            }
        }
    }

    /// All sockets.
    pub fn sockets(&self) -> Vec<SocketState> {
        let state = |(id, s): (&u32, &Socket)| SocketState {
            id: *id,
            path: s.path.clone(),
            listens: s.listener.is_some(),
            interfaces: self.interfaces.keys().filter(|(socket, _)| socket == id).count(),
        };
        self.sockets.iter().map(state).collect()
    }

    /// All interfaces, or the one of this name; with their descriptors if these are asked for.
    pub fn interfaces(&self, name: Option<&str>, descriptors: bool) -> Vec<InterfaceState> {
        let wanted = |e: &&Entry| name.is_none_or(|n| n == e.shared.config.name());
        let state = |e: &Entry| {
            let shown = |(receives, number, ring): (bool, usize, super::ring::Memory)| {
                let list = if descriptors { ring.descriptors() } else { Vec::new() };
                RingShown { receives, number, state: ring.state(), descriptors: list }
            };
            let mut rings: Vec<RingShown> = e.shared.rings().into_iter().map(shown).collect();
            rings.sort_by_key(|r| (!r.receives, r.number));
            InterfaceState {
                config: e.shared.config.clone(),
                up: e.shared.is_up(),
                connected: e.shared.is_connected(),
                peer: e.peer.clone(),
                peer_interface: e.peer_interface.clone(),
                regions: e.regions.clone(),
                reason: e.reason.clone().filter(|_| !e.shared.is_connected()),
                rings,
            }
        };
        self.interfaces.values().filter(wanted).map(state).collect()
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        // Peers are told, and the rings taken away, while queues may still be there.
        let keys: BTreeSet<(u32, u32)> = self.interfaces.keys().copied().collect();
        for key in keys {
            self.end(key, "the router stops");
        }
    }
}

impl Memory {
    /// The file that goes with a message.
    fn file(&self, message: &Message) -> Option<Arc<OwnedFd>> {
        match message {
            Message::AddRegion { index, .. } => {
                self.regions.get(usize::from(*index)).map(|(_, file)| file.clone())
            }
            Message::AddRing(r) => self.bells.get(self.layout.place(r.direction, r.index)).cloned(),
            _ => None,
        }
    }
}

/// Makes a client's memory, with its rings, which are whole before the server hears of them. The memory of `pool` is a region
/// of it, if there is one.
fn make(layout: Layout, pool: Option<&Pool>) -> io::Result<Memory> {
    let len = if pool.is_some() { layout.rings_len() } else { layout.len() };
    let (region, file) = Region::create(channel::MEMORY_NAME, len)?;
    let mut regions = vec![(len as u64, Arc::new(file))];
    let mapped: Arc<[Region]> = [region].into();
    if let Some(pool) = pool {
        regions.push((pool.window().len() as u64, Arc::new(pool.file()?)));
    }
    let bells: Vec<_> = layout.rings().map(|_| sys::eventfd().map(Arc::new)).collect::<io::Result<_>>()?;
    let mut rings = (Vec::new(), Vec::new());
    let ring = if pool.is_some() { Ring::lending } else { Ring::own };
    for ((direction, number, _), bell) in layout.rings().zip(&bells) {
        let ring = ring(mapped.clone(), &layout, direction, number, bell.clone());
        let ring = ring.ok_or_else(|| io::Error::other("the rings do not fit"))?;
        match direction {
            Direction::ToClient => rings.0.push(ring),
            Direction::ToServer => rings.1.push(ring),
        }
    }
    Ok(Memory { layout, regions, bells, rings })
}

/// The Ethernet address of an interface whose operator gives none: the same after a restart, and most likely no other's,
/// neither on this machine nor on another one.
fn own_mac(socket: &Path, config: &Config) -> [u8; 6] {
    let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
    let id = config.id.to_ne_bytes();
    let parts = [&machine, socket.as_os_str().as_encoded_bytes(), &id, &[config.role as u8]];
    // FNV-1a.
    let hash = parts.into_iter().flatten().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [a, b, c, d, ..] = (hash ^ hash >> 32).to_ne_bytes();
    [0x02, 0xfe, a, b, c, d]
}

struct Control(Arc<Shared>);

impl DeviceControl for Control {
    fn set_admin(&mut self, up: bool) -> io::Result<()> {
        self.0.set_up(up);
        Ok(())
    }

    fn set_mtu(&mut self, _: u16) -> io::Result<()> {
        // Packets of any size pass, in as many buffers as they take.
        Ok(())
    }

    fn set_mac(&mut self, _: [u8; 6]) -> io::Result<()> {
        Ok(())
    }

    fn link(&mut self) -> Link {
        Link { present: true, carrier: self.0.is_connected(), speed_mbps: None }
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let Config { socket, id, role, rx_queues, tx_queues, trusted, .. } = &self.0.config;
        let role = match role {
            Role::Server => "master (server)",
            Role::Client => "slave (client)",
        };
        vec![
            ("memif", format!("socket {socket}, id {id}, {role}")),
            ("queues", format!("{rx_queues} to receive, {tx_queues} to transmit")),
            ("packets", if self.0.config.lends() { "not copied".into() } else { "copied".into() }),
            ("peer", if *trusted { "trusted".into() } else { "not trusted".into() }),
            ("connected", if self.0.is_connected() { "yes".into() } else { "no".into() }),
        ]
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.0.close();
    }
}
