//! HTTP, on a thread of its own: what clients do costs the main thread nothing but the samples.
//!
//! A connection is for one request, and for [`LONGEST`] at most. There are [`PLACES`] of them; when all are taken, one that has asked
//! for nothing yet gives way to the next one, or else the one that has taken nothing of its answer for the longest time, or the one that
//! has been reading for the longest time.
//!
//! The metrics are many megabytes where there is much to count. Clients that ask while samples are collected share those of the next
//! round, and there is memory for the samples of [`GENERATIONS`] moments: when as many are being read, who asks is given the youngest.
//! When these have been read for [`SLOW`], those who read the oldest give way to new ones.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
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
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{Instant, sleep, timeout};

use super::text::{Collected, Format, Samples};

/// How many clients are served at once.
pub(super) const PLACES: usize = 128;
/// The samples of how many moments are read at once.
const GENERATIONS: usize = 4;
/// How long the same samples are given out at most, and an answer is read before its client may give way to another.
const SLOW: Duration = Duration::from_secs(1);
/// How long a client may take nothing of its answer before it gives way to another.
const STALLED: Duration = Duration::from_millis(200);
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
    /// When it came.
    came: Instant,
    /// Whether it has said what it wants.
    asked: Cell<bool>,
    /// When it was given its answer.
    answered: Cell<Option<Instant>>,
    /// When it last took something of it.
    moved: Cell<Option<Instant>>,
    /// The samples that it reads.
    reads: RefCell<Weak<Collected>>,
}

impl State {
    fn new() -> State {
        State {
            came: Instant::now(),
            asked: Cell::default(),
            answered: Cell::default(),
            moved: Cell::default(),
            reads: RefCell::default(),
        }
    }

    /// Since when it has said nothing.
    fn silent(&self) -> Option<Instant> {
        (!self.asked.get()).then_some(self.came)
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
    /// Whether there is room for one more, which there may be because another one has to go.
    fn make_room(&self) -> bool {
        let mut all = self.all.borrow_mut();
        all.retain(|client| !client.task.is_finished());
        if all.len() < PLACES {
            return true;
        }
        // The one for which it is the longest time since something, if it is long enough.
        let since = |moment: fn(&State) -> Option<Instant>, least| {
            let moments = all.iter().enumerate().filter_map(|(n, client)| Some((moment(&client.state)?, n)));
            moments.min().filter(|(moment, _)| moment.elapsed() >= least).map(|(_, n)| n)
        };
        // One that has just come may have asked already: what it says was not read yet.
        let goes = since(State::silent, STALLED)
            .or_else(|| since(|state| state.moved.get(), STALLED))
            .or_else(|| since(State::silent, Duration::ZERO))
            .or_else(|| since(|state| state.answered.get(), SLOW));
        goes.and_then(|n| all.remove(n)).inspect(|client| client.task.abort()).is_some()
    }

    /// Waits a moment for room for one more: whoever has just been answered ends soon, or stalls.
    async fn has_room(&self) -> bool {
        let start = Instant::now();
        while !self.make_room() {
            if start.elapsed() >= 2 * STALLED {
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
        if self.size.get() > LARGE {
            Room::now().must_have(2 * self.size.get()).map_err(|e| e.to_string())?;
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
                Ok((stream, _)) if clients.has_room().await => {
                    let state = Rc::new(State::new());
                    let answerer = Answerer { state: state.clone(), clients: clients.clone(), health: health.clone(), main: main.clone() };
                    let task = tokio::task::spawn_local(connection(stream, answerer));
                    clients.all.borrow_mut().push_back(Client { task, state });
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
        answerer.state.asked.set(true);
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
        self.client.moved.set(Some(Instant::now()));
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
    body.client.answered.set(Some(Instant::now()));
    body.client.moved.set(body.client.answered.get());
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
