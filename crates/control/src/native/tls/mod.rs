//! TLS for the native API over TCP (RFC 8446): a client shows a certificate, and the authority that issued it decides the client's role.
//!
//! A thread of its own does the handshakes, because a signature takes up to a millisecond, and everybody who reaches the port may ask for
//! one. The thread passes a client with a valid certificate to the main thread as one end of a socket pair, and relays between the pair and
//! the encrypted connection.

mod credentials;
mod waiting;

use std::collections::{BTreeMap, VecDeque};
use std::future;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::cli::Role;
use model::origin::Peer;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use tokio::io::AsyncWriteExt as _;
use tokio::net;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::fair::Queue;
use crate::startup::Tls;
use credentials::{CHECK, Credentials, Files};
use waiting::Waiting;

/// Maximum number of clients with a valid certificate.
const CLIENTS: usize = 192;
/// Maximum number of handshakes at a time. A connection in its handshake does not count as one of the [`CLIENTS`], so clients without a
/// certificate cannot keep out those with one.
const HANDSHAKES: usize = 128;
/// Maximum number of connections that have not sent anything yet, and of those that wait for their handshakes.
const WAITING: usize = 256;
/// Maximum number of connections before their turn, also of those that are about to end. At this number, further ones wait in the kernel.
const MOST_BEFORE: usize = 2 * WAITING;
/// Maximum number of addresses to remember from which clients with a valid certificate came.
const KNOWN: usize = 1024;
/// Maximum number of connections from one IPv4 address, or one IPv6 network of 64 bits.
const OF_ADDRESS: usize = 16;
/// Time in seconds without received packets after which the kernel sends TCP keepalive probes to the client.
const QUIET: u32 = 60;
/// Time in which the client must acknowledge data, in milliseconds.
const ALIVE: u32 = 60_000;
/// Maximum time for sending the end of the TLS connection to the client, when the router ends a connection.
const FAREWELL: Duration = Duration::from_secs(1);
/// Maximum number of characters of a client's name.
const LONGEST_NAME: usize = 64;
/// Time in which a client must begin the handshake, and then complete it.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Interval between two handshakes when many clients come. It bounds the time that a flood of handshakes takes from a core.
const PACE: Duration = Duration::from_millis(5);
/// Minimum time between two log lines about rejected connections.
const TOLD: Duration = Duration::from_secs(1);
/// Pause in accepting clients after the system had no resources for one.
const RECOVERY: Duration = Duration::from_millis(100);
/// Size of the send buffers of the socket pair, in bytes.
const SEND_BUFFER: usize = 32 << 10;

/// An encrypted connection.
type Encrypted = TlsStream<net::TcpStream>;

/// A client that has shown a valid certificate.
pub(crate) struct Certified {
    pub(crate) stream: UnixStream,
    pub(crate) peer: Peer,
    pub(crate) role: Role,
}

/// The port, before it accepts clients.
pub struct Port {
    listener: TcpListener,
    files: Files,
    credentials: Credentials,
}

/// The reason why a port cannot be used: the parameter of startup.conf, and the error in it.
type Wrong = (String, String);

impl Port {
    /// Binds the port, and reads the files of certificates.
    ///
    /// # Errors
    /// If no certificate, private key or authority is set, or if a file or the address cannot be used.
    pub fn open(address: SocketAddr, settings: &Tls) -> Result<Port, Wrong> {
        let mut files = Files::new(settings, address)?;
        let credentials = files.read()?;
        let taken = |e: io::Error| ("listen".to_owned(), format!("cannot listen on {address}: {e}"));
        let listener = TcpListener::bind(address).map_err(taken)?;
        listener.set_nonblocking(true).map_err(taken)?;
        let listener = drivers::closed_first(listener.into()).into();
        Ok(Port { listener, files, credentials })
    }

    /// Accepts clients on a thread of its own, until the receiver is dropped.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn start(self) -> io::Result<mpsc::Receiver<Certified>> {
        let (pass, passed) = mpsc::channel(1);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            let served = runtime.block_on(self.accept(pass));
            served.unwrap_or_else(|e| tracing::error!("cannot serve the native API over TLS: {e}"));
        };
        std::thread::Builder::new().name("volley_tls".into()).spawn(run)?;
        Ok(passed)
    }

    async fn accept(self, pass: mpsc::Sender<Certified>) -> io::Result<()> {
        let Port { listener, mut files, credentials } = self;
        let listener = net::TcpListener::from_std(listener)?;
        let (certify, mut certified) = mpsc::channel(CLIENTS);
        let mut door = Door {
            credentials,
            pass,
            certify,
            before: Arc::default(),
            silent: Waiting::new(WAITING),
            queue: Queue::default(),
            of_known: Queue::default(),
            was_known: false,
            handshakes: Waiting::new(HANDSHAKES),
            known: VecDeque::new(),
            places: Arc::new(Semaphore::new(CLIENTS)),
            clients: JoinSet::new(),
            addresses: BTreeMap::new(),
            told: None,
        };
        let mut pace = interval(PACE);
        let mut check = interval(CHECK);
        for ticks in [&mut pace, &mut check] {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            tokio::select! {
                come = listener.accept(), if Arc::strong_count(&door.before) <= MOST_BEFORE => match come {
                    Ok((stream, address)) => door.add(stream, address),
                    Err(e) => {
                        tracing::warn!("cannot accept a client of the native API over TLS: {e}");
                        sleep(RECOVERY).await;
                    }
                },
                Some(ended) = door.clients.join_next() => {
                    // A task that panics is a fault of the program; its address keeps its place.
                    match ended {
                        Ok(Step::Speaks { client, .. }) => door.wait(client),
                        Ok(Step::Displaced(ip, address)) => {
                            door.leave(ip);
                            door.reject(address);
                        }
                        Ok(Step::Ended(ip)) => door.leave(ip),
                        Err(_) => {}
                    }
                }
                Some(ip) = certified.recv() => door.remember(ip),
                _ = pace.tick(), if !(door.queue.is_empty() && door.of_known.is_empty()) => door.next(),
                _ = check.tick() => door.renew(&mut files),
                () = door.pass.closed() => return Ok(()),
            }
        }
    }
}

/// A connection before its handshake: the address by which it is counted, the stream, and the client's address.
type Client = (IpAddr, net::TcpStream, SocketAddr);

/// What has happened to a connection.
enum Step {
    /// The client has begun its handshake. The place of [`Door::before`] is free when this was handled.
    Speaks { client: Client, _place: Arc<()> },
    /// The client has sent nothing, and others have taken its place.
    Displaced(IpAddr, SocketAddr),
    /// A connection of this address has ended.
    Ended(IpAddr),
}

/// Connections to the port, from their arrival to their end. Whoever sends nothing takes no turn of the others, and a flood of unknown
/// addresses does not keep out those from which clients with a valid certificate came before, nor the other way round.
struct Door {
    credentials: Credentials,
    pass: mpsc::Sender<Certified>,
    /// For the addresses of clients with a valid certificate.
    certify: mpsc::Sender<IpAddr>,
    /// Each connection before its turn has a clone.
    before: Arc<()>,
    /// Connections that have not sent anything yet.
    silent: Waiting,
    /// Connections that wait for their handshakes, by address: those of unknown addresses, and of known ones, which have every second turn.
    queue: Queue<IpAddr, (net::TcpStream, SocketAddr)>,
    of_known: Queue<IpAddr, (net::TcpStream, SocketAddr)>,
    /// True if the next turn is that of an unknown address, if one waits.
    was_known: bool,
    handshakes: Waiting,
    /// The addresses from which clients with a valid certificate came, the last one first.
    known: VecDeque<IpAddr>,
    /// A permit for each client with a valid certificate, [`CLIENTS`] in all.
    places: Arc<Semaphore>,
    /// The connections that are in no queue.
    clients: JoinSet<Step>,
    /// Number of connections, by address.
    addresses: BTreeMap<IpAddr, usize>,
    /// Time of the last log line about a rejected connection.
    told: Option<Instant>,
}

impl Door {
    /// Reads the files of certificates again if they have changed. New clients get the new certificate. If the files cannot be used, the
    /// present one stays.
    fn renew(&mut self, files: &mut Files) {
        match files.read_again() {
            None => {}
            Some(Ok(credentials)) => {
                self.credentials = credentials;
                tracing::info!("native API: the files of certificates have changed, and are in use");
            }
            Some(Err((parameter, why))) => {
                tracing::warn!("native API: {parameter}: {why}; the previous certificates stay in use");
            }
        }
    }

    /// Waits until a new client begins its handshake. Rejects connections if there are too many of its address, or too many silent ones.
    fn add(&mut self, stream: net::TcpStream, address: SocketAddr) {
        let ip = network(address.ip());
        let count = self.addresses.entry(ip).or_default();
        if *count >= OF_ADDRESS {
            return self.reject(address);
        }
        *count += 1;
        let place = Arc::clone(&self.before);
        let displaced = self.silent.begin(ip, self.is_known(ip));
        self.clients.spawn(async move {
            let mut piece = [0];
            tokio::select! {
                begun = timeout(HANDSHAKE, stream.peek(&mut piece)) => match begun {
                    Ok(Ok(1..)) => return Step::Speaks { client: (ip, stream, address), _place: place },
                    Ok(Ok(0)) => {}
                    Ok(Err(e)) => disconnected(address, &e),
                    Err(_) => disconnected(address, &late()),
                },
                _ = displaced => return Step::Displaced(ip, address),
            }
            Step::Ended(ip)
        });
    }

    /// Adds a client to its queue. If there are too many, rejects the oldest of the address with the most.
    fn wait(&mut self, (ip, stream, address): Client) {
        let is_known = self.is_known(ip);
        let queue = if is_known { &mut self.of_known } else { &mut self.queue };
        queue.add(ip, (stream, address));
        if queue.len() > WAITING
            && let Some((ip, (_, address))) = queue.displace()
        {
            self.leave(ip);
            self.reject(address);
        }
    }

    fn is_known(&self, ip: IpAddr) -> bool {
        self.known.contains(&ip)
    }

    /// Notes the address of a client with a valid certificate.
    fn remember(&mut self, ip: IpAddr) {
        self.known.retain(|other| *other != ip);
        self.known.push_front(ip);
        self.known.truncate(KNOWN);
    }

    /// Logs that a connection is rejected, at most once in [`TOLD`].
    fn reject(&mut self, address: SocketAddr) {
        if self.told.is_none_or(|told| told.elapsed() >= TOLD) {
            self.told = Some(Instant::now());
            tracing::warn!("rejected a client of the native API at {address}: too many connections");
        }
    }

    /// Notes the end of a connection of this address.
    fn leave(&mut self, ip: IpAddr) {
        if let Some(count) = self.addresses.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&ip);
            }
        }
    }

    /// Begins the next handshake.
    fn next(&mut self) {
        let next = match self.was_known {
            true => self.queue.next().or_else(|| self.of_known.next()),
            false => self.of_known.next().or_else(|| self.queue.next()),
        };
        let Some((ip, (stream, address))) = next else { return };
        self.was_known = !self.was_known;
        let displaced = self.handshakes.begin(ip, self.is_known(ip));
        let Credentials { acceptor, verifiers } = self.credentials.clone();
        let (pass, places, certify) = (self.pass.clone(), self.places.clone(), self.certify.clone());
        self.clients.spawn(async move {
            let served = async {
                let (encrypted, role, name) = tokio::select! {
                    greeted = greet(stream, acceptor, &verifiers) => greeted?,
                    _ = displaced => return Err(io::Error::other("too many handshakes at a time")),
                };
                let full = |_| io::Error::other(format!("{CLIENTS} clients are connected, the maximum"));
                // If the channel is full, the next connection tells.
                let _ = certify.try_send(ip);
                let _place = places.try_acquire_owned().map_err(full)?;
                serve(encrypted, Peer::Certified(name.into(), address), role, pass).await
            };
            if let Err(e) = served.await {
                disconnected(address, &e);
            }
            Step::Ended(ip)
        });
    }
}

/// Returns the address by which connections are counted: an IPv4 address, or the /64 network of an IPv6 address, because a client may use
/// all addresses of its /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

fn disconnected(address: SocketAddr, why: &io::Error) {
    tracing::info!("a client of the native API at {address} was disconnected: {why}");
}

fn late() -> io::Error {
    io::Error::other(format!("no handshake within {} s", HANDSHAKE.as_secs()))
}

/// Does the handshake with a client. Returns the encrypted connection, and the client's role and name.
async fn greet(
    stream: net::TcpStream,
    acceptor: TlsAcceptor,
    verifiers: &[(Role, Arc<dyn ClientCertVerifier>)],
) -> io::Result<(Encrypted, Role, String)> {
    stream.set_nodelay(true)?;
    // A client may vanish without a word.
    setsockopt(&stream, sockopt::KeepAlive, &true)?;
    setsockopt(&stream, sockopt::TcpKeepIdle, &QUIET)?;
    setsockopt(&stream, sockopt::TcpUserTimeout, &ALIVE)?;
    let encrypted = timeout(HANDSHAKE, acceptor.accept(stream)).await.map_err(|_| late())??;
    let known = identity(&encrypted, verifiers);
    let (role, name) = known.ok_or_else(|| {
        io::Error::other(
            "its certificate gives it no role: check client-ca, client-ca-operator and client-ca-read-only",
        )
    })?;
    Ok((encrypted, role, name))
}

/// Serves a client to the end: passes one end of a socket pair to the main thread, and relays between the other end and the client.
async fn serve(
    encrypted: Encrypted,
    peer: Peer,
    role: Role,
    pass: mpsc::Sender<Certified>,
) -> io::Result<()> {
    let (inner, outer) = UnixStream::pair()?;
    for end in [&inner, &outer] {
        end.set_nonblocking(true)?;
        setsockopt(end, sockopt::SndBuf, &SEND_BUFFER)?;
    }
    pass.send(Certified { stream: inner, peer, role }).await.map_err(io::Error::other)?;
    let (mut from_router, mut to_router) = net::UnixStream::from_std(outer)?.into_split();
    let (mut from_client, mut to_client) = tokio::io::split(encrypted);
    let inwards = async {
        tokio::io::copy(&mut from_client, &mut to_router).await?;
        // The client has ended its requests, and may still read answers.
        to_router.shutdown().await?;
        future::pending::<io::Result<()>>().await
    };
    let outwards = async {
        tokio::io::copy(&mut from_router, &mut to_client).await?;
        // The router has ended the connection, whatever the client does.
        timeout(FAREWELL, to_client.shutdown()).await.unwrap_or(Ok(()))
    };
    tokio::select! {
        ended = inwards => ended,
        ended = outwards => ended,
    }
}

/// Returns the role of a client, and the common name in its certificate. The handshake has checked the certificate, but not which of the
/// authorities has issued it. `None` if no authority gives the client a role.
fn identity(client: &Encrypted, verifiers: &[(Role, Arc<dyn ClientCertVerifier>)]) -> Option<(Role, String)> {
    let (own, between) = client.get_ref().1.peer_certificates()?.split_first()?;
    let valid = |v: &Arc<dyn ClientCertVerifier>| v.verify_client_cert(own, between, UnixTime::now()).is_ok();
    let (role, _) = verifiers.iter().find(|(_, verifier)| valid(verifier))?;
    let (_, parsed) = x509_parser::parse_x509_certificate(own).ok()?;
    let name = parsed.subject().iter_common_name().find_map(|name| name.as_str().ok());
    // The name is shown on terminals, so control characters are left out.
    let name = name.unwrap_or("a client without a common name").chars();
    Some((*role, name.filter(|c| !c.is_control()).take(LONGEST_NAME).collect()))
}
