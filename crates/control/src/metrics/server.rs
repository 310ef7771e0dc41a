//! The HTTP server, on a thread of its own: clients cost the main thread only the collection of samples.
//!
//! A connection serves one request, for at most [`LONGEST`]. At most [`PLACES`] connections exist at once. When all are taken, a client of
//! the network with the most connections is disconnected to make room. It is the client without progress for the longest time or, if none
//! stalls, the one that has been reading for the longest time. So clients of other networks stay connected, whatever the number and rate of
//! new clients.
//!
//! The metrics of a large router have many megabytes. Clients that ask while samples are collected share the samples of the next
//! collection. Samples of at most [`GENERATIONS`] collections are in memory. While clients read the samples of so many collections, no
//! further collection begins, and new clients get the newest of these samples. If even the newest samples are older than [`SLOW`], the
//! clients that read the oldest samples are disconnected, and a new collection begins. If memory is short, new clients get the newest
//! samples, too.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use graph::handoff::Exchange;
use graph::stats::Stats;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use infra::mem::Room;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, LocalSet, yield_now};
use tokio::time::{Instant, sleep, timeout};

use super::text::{Collected, Format, Samples};

/// Maximum number of clients served at once.
pub(super) const PLACES: usize = 128;
/// Maximum number of collections whose samples clients read at the same time.
const GENERATIONS: usize = 4;
/// Maximum age of the samples that new clients get instead of newly collected ones, while clients read the samples of [`GENERATIONS`]
/// collections. Also the time that a client has to read its answer before it may be disconnected to make room.
const SLOW: Duration = Duration::from_secs(1);
/// Time without progress after which a client may be disconnected, to make room for another client of its network.
const STALLED: Duration = Duration::from_millis(20);
/// Maximum time that a new client waits for another one to leave.
const WAIT: Duration = Duration::from_millis(400);
/// Size in bytes of the kernel's send buffer for each client, which holds a part of the answer. The kernel's default is megabytes.
const UNREAD: usize = 256 << 10;
/// Size in bytes. If the last metrics were larger, new samples are collected only if enough memory is free.
const LARGE: u64 = 1 << 20;
/// Time limit for a client to send its request.
const SILENCE: Duration = Duration::from_secs(5);
/// Time limit of a connection.
const LONGEST: Duration = Duration::from_secs(10);
/// Maximum size of a request in bytes.
const REQUEST: usize = 16 << 10;
/// Pause before the next client is accepted, after the system had no resources to accept one.
const RECOVERY: Duration = Duration::from_millis(100);
/// Time after which a thread or a worker counts as stuck: a thread that does not answer, or a worker that does not complete an iteration of
/// its loop. Sleeping workers wake ten times per second.
const UNHEARD: Duration = Duration::from_secs(2);
/// Polling interval while waiting for workers, or for clients to leave.
const LOOK: Duration = Duration::from_millis(10);

/// A request to the main thread.
pub enum Ask {
    /// Asks for all samples.
    Samples(oneshot::Sender<Samples>),
    /// Asks whether the main thread runs. The answer lists the problems that do not stop the router from forwarding.
    Alive(oneshot::Sender<Vec<String>>),
}

/// Checks the router's health.
#[derive(Clone)]
pub struct Health {
    /// The graph's statistics, with the numbers of the workers' loop iterations.
    pub stats: Stats,
    /// The rings between the workers. They show which workers exist.
    pub workers: Exchange,
}

/// Listens on an address.
///
/// # Errors
/// If the address is in use, or does not belong to this host.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // Accepted sockets inherit this.
    setsockopt(&listener, sockopt::SndBuf, &UNREAD)?;
    Ok(drivers::closed_first(listener.into()).into())
}

/// Serves clients on a thread of its own, until the main thread closes `main`.
///
/// # Errors
/// If the thread cannot be started.
pub fn serve(listener: TcpListener, health: Health, main: mpsc::Sender<Ask>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        let served = LocalSet::new().block_on(&runtime, accept(listener, health, main));
        served.unwrap_or_else(|e| tracing::error!("cannot serve metrics: {e}"));
    };
    std::thread::Builder::new().name("volley_metrics".into()).spawn(run).map(drop)
}

/// A connected client.
struct Client {
    task: JoinHandle<()>,
    state: Rc<State>,
}

/// The progress of a client.
struct State {
    /// The network of the client.
    from: IpAddr,
    /// Time of the client's last progress: its arrival, the start of its answer, or its last read of the answer.
    moved: Cell<Instant>,
    /// True while the client waits for its answer.
    waits: Cell<bool>,
    /// When the answer was ready to be sent; `None` before.
    answered: Cell<Option<Instant>>,
    /// The samples that the client reads.
    reads: RefCell<Weak<Collected>>,
}

impl State {
    fn new(from: IpAddr) -> State {
        State {
            from,
            moved: Cell::new(Instant::now()),
            waits: Cell::default(),
            answered: Cell::default(),
            reads: RefCell::default(),
        }
    }

    /// Returns the time since the client's last progress; zero while the client waits for the router.
    fn stands_still(&self) -> Duration {
        if self.waits.get() { Duration::ZERO } else { self.moved.get().elapsed() }
    }

    /// Returns the time for which the client has been reading its answer; zero before the answer is ready.
    fn reads_for(&self) -> Duration {
        self.answered.get().map_or(Duration::ZERO, |answered| answered.elapsed())
    }
}

/// Returns the network of a client: its IPv4 address, or its IPv6 /64, of which it may use any address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// Samples that are being read, and their time.
struct Generation {
    since: Instant,
    samples: Weak<Collected>,
}

/// The connections, in order of arrival.
#[derive(Default)]
struct Clients {
    all: RefCell<VecDeque<Client>>,
    /// Samples that are being read, oldest first.
    generations: RefCell<VecDeque<Generation>>,
    /// Size of the last metrics in bytes.
    size: Cell<u64>,
}

impl Clients {
    /// True if there is room for one more client of the network of `from`. To make room, may disconnect another client.
    fn make_room(&self, from: IpAddr) -> bool {
        let mut all = self.all.borrow_mut();
        all.retain(|client| !client.task.is_finished());
        if all.len() < PLACES {
            return true;
        }
        let mut networks: BTreeMap<IpAddr, usize> = BTreeMap::new();
        all.iter().for_each(|client| *networks.entry(client.state.from).or_default() += 1);
        let own = networks.get(&from).copied().unwrap_or(0);
        let most = networks.into_iter().max_by_key(|(network, clients)| (*clients, *network == from));
        let Some((crowd, clients)) = most else { return false };
        // Among the clients of the network with the most connections, returns the client with the longest time, if this time is at least
        // `least`.
        let longest = |time: fn(&State) -> Duration, least| {
            let of_crowd = all.iter().enumerate().filter(|(_, client)| client.state.from == crowd);
            let times = of_crowd.map(|(n, client)| (time(&client.state), n));
            times.max_by_key(|(time, n)| (*time, Reverse(*n))).filter(|(time, _)| *time >= least)
        };
        // If its network has fewer connections, the new client gets its place at once. Otherwise a client must have stalled first.
        let least = if own + 1 < clients { Duration::ZERO } else { STALLED };
        let goes = longest(State::stands_still, least).or_else(|| longest(State::reads_for, SLOW));
        goes.and_then(|(_, n)| all.remove(n)).inspect(|client| client.task.abort()).is_some()
    }

    /// Waits until a new client can be accepted: other clients leave soon after their answer, or stall and are
    /// disconnected. Returns false if no client has left within [`WAIT`].
    async fn has_room(&self, from: IpAddr) -> bool {
        let start = Instant::now();
        while !self.make_room(from) {
            if start.elapsed() >= WAIT {
                return false;
            }
            sleep(LOOK).await;
        }
        true
    }

    /// If clients still read the samples of [`GENERATIONS`] collections, no new collection may begin. Then returns the newest of
    /// these samples. But if even these are older than [`SLOW`], disconnects the clients that read the oldest samples, and returns
    /// `None`: a new collection may begin.
    fn old_samples(&self) -> Option<Samples> {
        let mut generations = self.generations.borrow_mut();
        generations.retain(|generation| generation.samples.strong_count() > 0);
        if generations.len() < GENERATIONS {
            return None;
        }
        let youngest = generations.back()?;
        if youngest.since.elapsed() < SLOW {
            return youngest.samples.upgrade();
        }
        let oldest = generations.pop_front()?;
        let reads = |client: &&Client| client.state.reads.borrow().ptr_eq(&oldest.samples);
        self.all.borrow().iter().filter(reads).for_each(|client| client.task.abort());
        None
    }

    /// Returns samples for a new request. Other requests may get the same samples.
    async fn samples(&self, main: &mpsc::Sender<Ask>) -> Result<Samples, String> {
        if let Some(samples) = self.old_samples() {
            return Ok(samples);
        }
        if self.size.get() > LARGE
            && let Err(e) = Room::now().must_have(2 * self.size.get())
        {
            let youngest = self.generations.borrow().back().and_then(|youngest| youngest.samples.upgrade());
            return youngest.ok_or(e.to_string());
        }
        let samples = ask(main, Ask::Samples).await.ok_or(SILENT_MAIN)?;
        let weak = Arc::downgrade(&samples);
        let mut generations = self.generations.borrow_mut();
        if !generations.iter().any(|generation| generation.samples.ptr_eq(&weak)) {
            generations.push_back(Generation { since: Instant::now(), samples: weak });
        }
        Ok(samples)
    }
}

async fn accept(listener: TcpListener, health: Health, main: mpsc::Sender<Ask>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let clients = Rc::new(Clients::default());
    loop {
        tokio::select! {
            () = main.closed() => return Ok(()),
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) if clients.has_room(network(from.ip())).await => {
                    let state = Rc::new(State::new(network(from.ip())));
                    let answerer = Answerer { state: state.clone(), clients: clients.clone(), health: health.clone(), main: main.clone() };
                    let task = tokio::task::spawn_local(connection(stream, answerer));
                    clients.all.borrow_mut().push_back(Client { task, state });
                    // Let the client's task run before the next client is accepted.
                    yield_now().await;
                }
                // The connection is closed; Prometheus tries again.
                Ok(_) => tracing::debug!("metrics client refused: {PLACES} clients are connected, the maximum"),
                Err(error) => {
                    tracing::warn!("cannot accept a metrics client: {error}");
                    sleep(RECOVERY).await;
                }
            }
        }
    }
}

/// Answers a client.
struct Answerer {
    state: Rc<State>,
    clients: Rc<Clients>,
    health: Health,
    main: mpsc::Sender<Ask>,
}

async fn connection(stream: TcpStream, answerer: Answerer) {
    let service = service_fn(|request| {
        answerer.state.waits.set(true);
        answerer.respond(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .keep_alive(false)
        .max_buf_size(REQUEST)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(LONGEST, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("metrics client disconnected: {error}"),
        Err(_) => tracing::debug!("metrics client disconnected: it was too slow"),
    }
}

/// The body of an answer: pieces that are sent one by one.
struct Pieces {
    pieces: VecDeque<Bytes>,
    /// The samples in the pieces. They count as being read until the last piece is sent.
    _samples: Option<Samples>,
    /// The state of the client that receives the pieces.
    client: Rc<State>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.client.moved.set(Instant::now());
        Poll::Ready(self.pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.pieces.iter().map(|piece| piece.len() as u64).sum())
    }
}

fn answer(status: StatusCode, kind: &'static str, body: Pieces) -> Response<Pieces> {
    let now = Instant::now();
    body.client.waits.set(false);
    body.client.answered.set(Some(now));
    body.client.moved.set(now);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

impl Answerer {
    /// Returns an answer of one piece.
    fn answer(&self, status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Pieces> {
        let pieces = VecDeque::from([text.into()]);
        answer(status, kind, Pieces { pieces, _samples: None, client: self.state.clone() })
    }

    fn say(&self, status: StatusCode, text: impl Into<Bytes>) -> Response<Pieces> {
        self.answer(status, "text/plain; charset=utf-8", text)
    }

    async fn respond(&self, request: Request<Incoming>) -> Result<Response<Pieces>, Infallible> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = self.say(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are supported\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Ok(refused);
        }
        Ok(match request.uri().path() {
            "/metrics" => {
                let accept = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
                self.metrics(Format::wanted(&accept.collect::<Vec<_>>().join(","))).await
            }
            "/health" => self.health().await,
            _ => self.say(StatusCode::NOT_FOUND, "not found: use /metrics or /health\n"),
        })
    }

    async fn metrics(&self, format: Format) -> Response<Pieces> {
        let samples = match self.clients.samples(&self.main).await {
            Ok(samples) => samples,
            Err(why) => return self.say(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        };
        *self.state.reads.borrow_mut() = Arc::downgrade(&samples);
        let pieces = format.write(&samples).collect();
        let body = Pieces { pieces, _samples: Some(samples), client: self.state.clone() };
        self.clients.size.set(body.size_hint().lower());
        answer(StatusCode::OK, format.content_type(), body)
    }

    async fn health(&self) -> Response<Pieces> {
        let (failing, degraded) = self.health.faults(&self.main).await;
        let (code, status) = match (failing.is_empty(), degraded.is_empty()) {
            (true, true) => (StatusCode::OK, "ok"),
            // The router still forwards, so a load balancer should keep using it.
            (true, false) => (StatusCode::OK, "degraded"),
            (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "failing"),
        };
        let faults: Vec<String> = failing.into_iter().chain(degraded).collect();
        let workers = self.health.workers.workers().len();
        let body = serde_json::json!({ "status": status, "workers": workers, "faults": faults });
        self.answer(code, "application/json", format!("{body}\n"))
    }
}

const SILENT_MAIN: &str = "the main thread does not answer";

/// Sends a request to the main thread. Returns `None` if it does not answer in time.
async fn ask<T>(main: &mpsc::Sender<Ask>, what: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    let asked = async {
        main.send(what(reply)).await.ok()?;
        answer.await.ok()
    };
    timeout(UNHEARD, asked).await.ok()?
}

impl Health {
    /// Returns the faults that stop the router from forwarding, and the other faults.
    async fn faults(&self, main: &mpsc::Sender<Ask>) -> (Vec<String>, Vec<String>) {
        let (main, workers) = tokio::join!(ask(main, Ask::Alive), self.stuck());
        let silent = main.is_none().then(|| SILENT_MAIN.to_owned());
        let workers = workers.into_iter().map(|worker| {
            let node = self.stats.running(worker).map_or(String::new(), |node| format!(" (it is in {node})"));
            format!("worker {worker} has not finished a turn for {} seconds{node}", UNHEARD.as_secs())
        });
        (silent.into_iter().chain(workers).collect(), main.unwrap_or_default())
    }

    /// Returns the workers that complete no iteration of their loop within [`UNHEARD`].
    async fn stuck(&self) -> Vec<usize> {
        let turns = |worker| self.stats.worker_totals(worker).turns;
        let mut unheard: Vec<(usize, u64)> =
            self.workers.workers().into_iter().map(|worker| (worker, turns(worker))).collect();
        let start = Instant::now();
        while !unheard.is_empty() && start.elapsed() < UNHEARD {
            sleep(LOOK).await;
            // A removed worker makes no turns.
            let there = self.workers.workers();
            unheard.retain(|(worker, before)| there.contains(worker) && turns(*worker) == *before);
        }
        unheard.into_iter().map(|(worker, _)| worker).collect()
    }
}
