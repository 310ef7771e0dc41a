//! TLS for the native API over TCP (RFC 8446): a client shows a certificate, and the authority that issued it decides the client's role.
//!
//! A thread of its own does the handshakes, because a signature takes up to a millisecond, and everybody who reaches the port may ask for
//! one. The thread passes a client with a valid certificate to the main thread as one end of a socket pair, and relays between the pair and
//! the encrypted connection.

mod handshakes;

use std::collections::BTreeMap;
use std::future;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::cli::Role;
use model::origin::Peer;
use nix::sys::socket::{setsockopt, sockopt};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::AsyncWriteExt as _;
use tokio::net;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::fair::Queue;
use crate::startup::{Tls, for_role};
use handshakes::Handshakes;

/// Maximum number of clients with a valid certificate.
const CLIENTS: usize = 192;
/// Maximum number of handshakes at a time. A connection in its handshake does not count as one of the [`CLIENTS`], so clients without a
/// certificate cannot keep out those with one.
const HANDSHAKES: usize = 64;
/// Maximum number of connections that wait for their handshakes.
const WAITING: usize = 256;
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
/// Time in which a client must complete the handshake.
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
    acceptor: TlsAcceptor,
    /// The verifiers of client certificates, from the highest role to the lowest. The first one that accepts a client decides its role.
    verifiers: Arc<[(Role, Arc<dyn ClientCertVerifier>)]>,
}

/// The reason why a port cannot be used: the parameter of startup.conf, and the error in it.
type Wrong = (String, String);

impl Port {
    /// Binds the port, and reads the files of certificates.
    ///
    /// # Errors
    /// If no certificate, private key or authority is set, or if a file or the address cannot be used.
    pub fn open(address: SocketAddr, settings: &Tls) -> Result<Port, Wrong> {
        let set = |path: &Option<PathBuf>, name| {
            let missing =
                || format!("the port {address} needs a certificate: set native-api {{ {name} FILE }}");
            path.clone().ok_or_else(|| ("listen".to_owned(), missing()))
        };
        let (certificate, key) =
            (set(&settings.certificate, "certificate")?, set(&settings.key, "private-key")?);
        if settings.authorities.is_empty() {
            let why = format!(
                "the port {address} needs an authority for clients: set native-api {{ client-ca FILE }}, client-ca-operator or client-ca-read-only"
            );
            return Err(("listen".to_owned(), why));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = |roots: RootCertStore| {
            WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone()).build()
        };
        let (mut all, mut verifiers) = (RootCertStore::empty(), Vec::new());
        for (role, path) in settings.authorities.iter().rev() {
            let at = |why| (for_role("client-ca", *role), why);
            let mut roots = RootCertStore::empty();
            for one in certificates(path).map_err(at)? {
                let wrong = |e| at(format!("{}: a certificate cannot be used as a CA: {e}", path.display()));
                roots.add(one.clone()).map_err(wrong)?;
                all.add(one).map_err(wrong)?;
            }
            let wrong = |e| at(format!("{} cannot be used: {e}", path.display()));
            let verifier: Arc<dyn ClientCertVerifier> = verifier(roots).map_err(wrong)?;
            verifiers.push((*role, verifier));
        }
        let own = certificates(&certificate).map_err(|why| ("certificate".to_owned(), why))?;
        let key = PrivateKeyDer::from_pem_file(&key).map_err(|e| {
            ("private-key".to_owned(), format!("cannot read a private key from {}: {e}", key.display()))
        })?;
        let wrong =
            |e| ("certificate".to_owned(), format!("the certificate and the key cannot be used: {e}"));
        let verifier = verifier(all).map_err(|e| ("client-ca".to_owned(), e.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(own, key)
            .map_err(wrong)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let taken = |e: io::Error| ("listen".to_owned(), format!("cannot listen on {address}: {e}"));
        let listener = TcpListener::bind(address).map_err(taken)?;
        listener.set_nonblocking(true).map_err(taken)?;
        let listener = drivers::closed_first(listener.into()).into();
        Ok(Port { listener, acceptor: TlsAcceptor::from(Arc::new(config)), verifiers: verifiers.into() })
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
        let Port { listener, acceptor, verifiers } = self;
        let listener = net::TcpListener::from_std(listener)?;
        let mut door = Door {
            acceptor,
            verifiers,
            pass,
            queue: Queue::default(),
            handshakes: Handshakes::new(HANDSHAKES),
            places: Arc::new(Semaphore::new(CLIENTS)),
            clients: JoinSet::new(),
            addresses: BTreeMap::new(),
            told: None,
        };
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                come = listener.accept() => match come {
                    Ok((stream, address)) => door.add(stream, address),
                    Err(e) => {
                        tracing::warn!("cannot accept a client of the native API over TLS: {e}");
                        sleep(RECOVERY).await;
                    }
                },
                Some(ended) = door.clients.join_next() => {
                    // A task that panics is a fault of the program; its address keeps its place.
                    if let Ok(address) = ended {
                        door.leave(address);
                    }
                }
                _ = pace.tick(), if !door.queue.is_empty() => door.next(),
                () = door.pass.closed() => return Ok(()),
            }
        }
    }
}

/// Connections to the port, from their arrival to their end.
struct Door {
    acceptor: TlsAcceptor,
    verifiers: Arc<[(Role, Arc<dyn ClientCertVerifier>)]>,
    pass: mpsc::Sender<Certified>,
    /// Connections that wait for their handshakes, by address.
    queue: Queue<IpAddr, (net::TcpStream, SocketAddr)>,
    handshakes: Handshakes,
    /// A permit for each client with a valid certificate, [`CLIENTS`] in all.
    places: Arc<Semaphore>,
    /// The connections that have left the queue. Each task returns the address by which its connection is counted.
    clients: JoinSet<IpAddr>,
    /// Number of connections, by address.
    addresses: BTreeMap<IpAddr, usize>,
    /// Time of the last log line about a rejected connection.
    told: Option<Instant>,
}

impl Door {
    /// Adds a new connection to the queue. Rejects connections if there are too many of its address, or too many in the queue.
    fn add(&mut self, stream: net::TcpStream, address: SocketAddr) {
        let ip = network(address.ip());
        let count = self.addresses.entry(ip).or_default();
        if *count >= OF_ADDRESS {
            return self.reject(address);
        }
        *count += 1;
        self.queue.add(ip, (stream, address));
        if self.queue.len() > WAITING
            && let Some((ip, (_, address))) = self.queue.displace()
        {
            self.leave(ip);
            self.reject(address);
        }
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
        let Some((ip, (stream, address))) = self.queue.next() else { return };
        let displaced = self.handshakes.begin(ip);
        let (acceptor, verifiers) = (self.acceptor.clone(), self.verifiers.clone());
        let (pass, places) = (self.pass.clone(), self.places.clone());
        self.clients.spawn(async move {
            let served = async {
                let (encrypted, role, name) = tokio::select! {
                    greeted = greet(stream, acceptor, &verifiers) => greeted?,
                    _ = displaced => return Err(io::Error::other("too many handshakes at a time")),
                };
                let full = |_| io::Error::other(format!("{CLIENTS} clients are connected, the maximum"));
                let _place = places.try_acquire_owned().map_err(full)?;
                serve(encrypted, Peer::Certified(name.into(), address), role, pass).await
            };
            if let Err(e) = served.await {
                tracing::info!("a client of the native API at {address} was disconnected: {e}");
            }
            ip
        });
    }
}

/// Reads the certificates of a file.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = read.map_err(|e| format!("cannot read certificates from {}: {e}", path.display()))?;
    match all.is_empty() {
        true => Err(format!("{} has no certificate in PEM form", path.display())),
        false => Ok(all),
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
    let late = |_| io::Error::other(format!("no handshake within {} s", HANDSHAKE.as_secs()));
    let encrypted = timeout(HANDSHAKE, acceptor.accept(stream)).await.map_err(late)??;
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
