//! HTTP, on a thread of its own: what clients do costs the main thread nothing but the samples.
//!
//! A connection is for one request, and for [`LONGEST`] at most. There are [`PLACES`] of them. When all are taken, somebody of the network
//! that has the most gives way to the next one: whoever has got no further for the longest time, or has been reading for the longest
//! time. So whoever comes from elsewhere stays, however many come and however fast.
//!
//! The metrics are many megabytes where there is much to count. Clients that ask while samples are collected share those of the next
//! round, and there is memory for the samples of [`GENERATIONS`] moments: when as many are being read, or there is no memory for more, who
//! asks is given the youngest. When these have been read for [`SLOW`], those who read the oldest give way to new ones.

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

/// How many clients are served at once.
pub(super) const PLACES: usize = 128;
/// The samples of how many moments are read at once.
const GENERATIONS: usize = 4;
/// How long the same samples are given out at most, and an answer is read before its client may give way to another.
const SLOW: Duration = Duration::from_secs(1);
/// How long a client may get no further before it gives way to another of its network.
const STALLED: Duration = Duration::from_millis(20);
/// How long who comes waits for room.
const WAIT: Duration = Duration::from_millis(400);
/// Bytes of an answer that the kernel holds for a client: it would hold megabytes, for each.
const UNREAD: usize = 256 << 10;
/// Metrics of more bytes are given only if there is memory for them.
const LARGE: u64 = 1 << 20;
/// How long a client may take to say what it wants.
const SILENCE: Duration = Duration::from_secs(5);
/// How long a connection lasts at most.
const LONGEST: Duration = Duration::from_secs(10);
/// How many bytes a request may have.
const REQUEST: usize = 16 << 10;
/// How long no client is let in after the system had no room for one.
const RECOVERY: Duration = Duration::from_millis(100);
/// How long a thread of a router that is well may not be heard of. Sleeping workers wake ten times a second.
const UNHEARD: Duration = Duration::from_secs(2);
/// How often it is looked at what is waited for: workers that were not heard of, other clients.
const LOOK: Duration = Duration::from_millis(10);

/// What the main thread is asked.
pub enum Ask {
    /// For all samples.
    Samples(oneshot::Sender<Samples>),
    /// Whether it is there, and what is not as it should be.
    Alive(oneshot::Sender<Vec<String>>),
}

/// Tells whether the router is well.
#[derive(Clone)]
pub struct Health {
    /// The graph's statistics, where workers leave their traces.
    pub stats: Stats,
    /// Knows which workers there are.
    pub workers: Exchange,
}

/// Takes the address.
///
/// # Errors
/// It is in use, or is not this host's.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // What it accepts inherits this.
    setsockopt(&listener, sockopt::SndBuf, &UNREAD)?;
    Ok(drivers::closed_first(listener.into()).into())
}

/// Serves clients on a thread of its own, until nobody is left to answer what is asked.
///
/// # Errors
/// The thread cannot be started.
pub fn serve(listener: TcpListener, health: Health, main: mpsc::Sender<Ask>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let run = move || {
        let served = LocalSet::new().block_on(&runtime, accept(listener, health, main));
        served.unwrap_or_else(|e| tracing::error!("metrics cannot be served: {e}"));
    };
    std::thread::Builder::new().name("volley_metrics".into()).spawn(run).map(drop)
}

/// A connection.
struct Client {
    task: JoinHandle<()>,
    state: Rc<State>,
}

/// What a client is at.
struct State {
    /// Its network.
    from: IpAddr,
    /// When it came, or was given its answer, or last took something of that.
    moved: Cell<Instant>,
    /// Whether it waits for its answer.
    waits: Cell<bool>,
    /// When it was given its answer.
    answered: Cell<Option<Instant>>,
    /// The samples that it reads.
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

    /// How long it has got no further; whoever waits for the router does not stand still by itself.
    fn stands_still(&self) -> Duration {
        if self.waits.get() { Duration::ZERO } else { self.moved.get().elapsed() }
    }

    /// How long it has been reading.
    fn reads_for(&self) -> Duration {
        self.answered.get().map_or(Duration::ZERO, |answered| answered.elapsed())
    }
}

/// The network that a client is taken to have all addresses of: in IPv6 it may choose them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// Samples that are being read, and since when.
struct Generation {
    since: Instant,
    samples: Weak<Collected>,
}

/// The connections, in the order in which they came.
#[derive(Default)]
struct Clients {
    all: RefCell<VecDeque<Client>>,
    /// Samples that are being read, the oldest first.
    generations: RefCell<VecDeque<Generation>>,
    /// Bytes of the metrics when they were last asked for.
    size: Cell<u64>,
}

impl Clients {
    /// Whether there is room for one more from this network, which there may be because another one has to go.
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
        // Of the crowd, the one for which it is the longest, if it is long enough.
        let longest = |time: fn(&State) -> Duration, least| {
            let of_crowd = all.iter().enumerate().filter(|(_, client)| client.state.from == crowd);
            let times = of_crowd.map(|(n, client)| (time(&client.state), n));
            times.max_by_key(|(time, n)| (*time, Reverse(*n))).filter(|(time, _)| *time >= least)
        };
        // Who comes from where there are fewer need not wait for the others.
        let least = if own + 1 < clients { Duration::ZERO } else { STALLED };
        let goes = longest(State::stands_still, least).or_else(|| longest(State::reads_for, SLOW));
        goes.and_then(|(_, n)| all.remove(n)).inspect(|client| client.task.abort()).is_some()
    }

    /// Waits a moment for room for one more: whoever has just been answered ends soon, or stalls.
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

    /// The samples to be given to whoever asks now, if there are to be no new ones yet: those of so many moments are being read that
    /// there is no memory for more. When the youngest are old, the readers of the oldest go, and there are new ones.
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

    /// Samples that were collected for whoever asks now, or with others.
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
                    // However fast others come, it is its turn.
                    yield_now().await;
                }
                // The connection ends; Prometheus will try again.
                Ok(_) => tracing::debug!("a client of the metrics was turned away: {PLACES} are being answered"),
                Err(error) => {
                    tracing::warn!("cannot accept a client of the metrics: {error}");
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
        Ok(Err(error)) => tracing::debug!("a client of the metrics is gone: {error}"),
        Err(_) => tracing::debug!("a client of the metrics was too slow"),
    }
}

/// The body of an answer: pieces that are sent one by one.
struct Pieces {
    pieces: VecDeque<Bytes>,
    /// What they are of, so that it is known what is still read.
    _samples: Option<Samples>,
    /// Who takes them.
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
    /// An answer of one piece.
    fn answer(&self, status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Pieces> {
        let pieces = VecDeque::from([text.into()]);
        answer(status, kind, Pieces { pieces, _samples: None, client: self.state.clone() })
    }

    fn say(&self, status: StatusCode, text: impl Into<Bytes>) -> Response<Pieces> {
        self.answer(status, "text/plain; charset=utf-8", text)
    }

    async fn respond(&self, request: Request<Incoming>) -> Result<Response<Pieces>, Infallible> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = self.say(StatusCode::METHOD_NOT_ALLOWED, "there is nothing but GET here\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Ok(refused);
        }
        Ok(match request.uri().path() {
            "/metrics" => {
                let accept = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
                self.metrics(Format::wanted(&accept.collect::<Vec<_>>().join(","))).await
            }
            "/health" => self.health().await,
            _ => self.say(StatusCode::NOT_FOUND, "there are /metrics and /health\n"),
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
            // It forwards: another one would not do it better.
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

/// Asks the main thread something; `None` if it does not answer.
async fn ask<T>(main: &mpsc::Sender<Ask>, what: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    let asked = async {
        main.send(what(reply)).await.ok()?;
        answer.await.ok()
    };
    timeout(UNHEARD, asked).await.ok()?
}

impl Health {
    /// What is wrong with the router so that it does not forward; and what else is wrong.
    async fn faults(&self, main: &mpsc::Sender<Ask>) -> (Vec<String>, Vec<String>) {
        let (main, workers) = tokio::join!(ask(main, Ask::Alive), self.stuck());
        let silent = main.is_none().then(|| SILENT_MAIN.to_owned());
        let workers = workers.into_iter().map(|worker| {
            let node = self.stats.running(worker).map_or(String::new(), |node| format!(" (it is in {node})"));
            format!("worker {worker} has not finished a turn for {} seconds{node}", UNHEARD.as_secs())
        });
        (silent.into_iter().chain(workers).collect(), main.unwrap_or_default())
    }

    /// The workers that do not turn.
    async fn stuck(&self) -> Vec<usize> {
        let turns = |worker| self.stats.worker_totals(worker).turns;
        let mut unheard: Vec<(usize, u64)> =
            self.workers.workers().into_iter().map(|worker| (worker, turns(worker))).collect();
        let start = Instant::now();
        while !unheard.is_empty() && start.elapsed() < UNHEARD {
            sleep(LOOK).await;
            // One that has gone need not turn.
            let there = self.workers.workers();
            unheard.retain(|(worker, before)| there.contains(worker) && turns(*worker) == *before);
        }
        unheard.into_iter().map(|(worker, _)| worker).collect()
    }
}
