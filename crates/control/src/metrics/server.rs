//! HTTP, on a thread of its own: what clients do costs the main thread nothing but the samples.
//!
//! A connection is for one request, and for [`LONGEST`] at most. There are [`PLACES`] of them; when all are taken, the
//! client that has been silent for the longest time gives way to the next one. [`SCRAPES`] of them are given the metrics at once, which are
//! many megabytes where there is much to count: others wait, and who reads them slowly gives way.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::rc::Rc;
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
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{Instant, sleep, timeout};

use super::text::{Format, Samples};

/// How many clients are served at once.
pub(super) const PLACES: usize = 16;
/// How many clients are given the metrics at once.
pub(super) const SCRAPES: usize = 4;
/// How long one of them may read before it gives way to another.
const SLOW: Duration = Duration::from_secs(1);
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
#[derive(Default)]
struct State {
    /// Whether it has said what it wants, and does not wait for others to have it.
    asked: Cell<bool>,
    /// Since when it is given the metrics.
    scrapes: Cell<Option<Instant>>,
}

/// The connections, in the order in which they came.
#[derive(Default)]
struct Clients {
    all: RefCell<VecDeque<Client>>,
    /// Bytes of the metrics when they were last asked for.
    size: Cell<u64>,
}

impl Clients {
    /// Whether there is room for one more, which there may be because a silent one has to go.
    fn make_room(&self) -> bool {
        let mut all = self.all.borrow_mut();
        all.retain(|client| !client.task.is_finished());
        if all.len() < PLACES {
            return true;
        }
        let silent = all.iter().position(|client| !client.state.asked.get());
        let Some(client) = silent.and_then(|n| all.remove(n)) else { return false };
        client.task.abort();
        true
    }

    /// Waits until one more may be given the metrics. Meanwhile it gives way to who is to be let in, as a silent one does.
    ///
    /// # Errors
    /// There is no memory for them.
    async fn begin_scrape(&self, state: &State) -> Result<(), String> {
        if self.size.get() > LARGE {
            Room::now().must_have(2 * self.size.get()).map_err(|e| e.to_string())?;
        }
        state.asked.set(false);
        while !self.has_scrape() {
            sleep(LOOK).await;
        }
        state.asked.set(true);
        state.scrapes.set(Some(Instant::now()));
        Ok(())
    }

    /// Whether one more may be given the metrics, for which a slow one may have to go.
    fn has_scrape(&self) -> bool {
        let all = self.all.borrow();
        let at_it = || all.iter().filter(|client| !client.task.is_finished());
        let at_it = || at_it().filter_map(|client| Some((client.state.scrapes.get()?, client)));
        if at_it().count() < SCRAPES {
            return true;
        }
        let slow = at_it().filter(|(since, _)| since.elapsed() >= SLOW).min_by_key(|(since, _)| *since);
        let Some((_, client)) = slow else { return false };
        client.task.abort();
        client.state.scrapes.set(None);
        true
    }
}

async fn accept(listener: TcpListener, health: Health, main: mpsc::Sender<Ask>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let clients = Rc::new(Clients::default());
    loop {
        tokio::select! {
            () = main.closed() => return Ok(()),
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if clients.make_room() => {
                    let state = Rc::new(State::default());
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
struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

fn answer(
    status: StatusCode,
    kind: &'static str,
    pieces: impl IntoIterator<Item = Bytes>,
) -> Response<Pieces> {
    let mut response = Response::new(Pieces(pieces.into_iter().collect()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn say(status: StatusCode, text: impl Into<String>) -> Response<Pieces> {
    answer(status, "text/plain; charset=utf-8", [Bytes::from(text.into())])
}

impl Answerer {
    async fn respond(&self, request: Request<Incoming>) -> Result<Response<Pieces>, Infallible> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = say(StatusCode::METHOD_NOT_ALLOWED, "there is nothing but GET here\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Ok(refused);
        }
        Ok(match request.uri().path() {
            "/metrics" => {
                let accept = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
                self.metrics(Format::wanted(&accept.collect::<Vec<_>>().join(","))).await
            }
            "/health" => self.health().await,
            _ => say(StatusCode::NOT_FOUND, "there are /metrics and /health\n"),
        })
    }

    async fn metrics(&self, format: Format) -> Response<Pieces> {
        if let Err(why) = self.clients.begin_scrape(&self.state).await {
            return say(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"));
        }
        let Some(samples) = ask(&self.main, Ask::Samples).await else {
            return say(StatusCode::SERVICE_UNAVAILABLE, format!("{SILENT_MAIN}\n"));
        };
        let response = answer(StatusCode::OK, format.content_type(), format.write(samples));
        self.clients.size.set(response.body().size_hint().lower());
        response
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
        answer(code, "application/json", [Bytes::from(format!("{body}\n"))])
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
