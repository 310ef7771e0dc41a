//! A client's connection: requests come in, and answers go out. A client can have one request at a time over HTTP/1.1, and several at a
//! time over HTTP/2.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::task::JoinSet;
use tokio::time::interval;

use super::body::Body;
use super::client::Connected;
use super::stream::Watched;
use super::{http, rpc};
use crate::cli::Stream;

/// Maximum size of the head of a request, in bytes (HTTP/1.1).
const HEAD: usize = 64 << 10;
/// Maximum size of the decoded headers of a request, in bytes (HTTP/2).
const HEADERS: u32 = 16 << 10;
/// Maximum number of requests at a time (HTTP/2).
const STREAMS: u32 = 16;
/// Bytes of one request that a client may send before the router reads them (HTTP/2).
const WINDOW: u32 = 256 << 10;
/// Bytes of all requests together that a client may send before the router reads them (HTTP/2).
const WINDOWS: u32 = 512 << 10;
/// Maximum number of bytes of one answer that wait until the client opens the answer's flow-control window (HTTP/2).
const UNSENT: usize = 64 << 10;
/// Maximum number of requests that a client has reset before the router accepts them. A client with more is disconnected (HTTP/2).
const RESETS: usize = 20;
/// Maximum number of requests that the router has reset because they break the protocol. A client with more is disconnected (HTTP/2).
const BROKEN: usize = 100;
/// Time without any frame after which the router sends the client a ping (HTTP/2).
const QUIET: Duration = Duration::from_secs(30);
/// Time in which the client must answer the ping (HTTP/2).
const ALIVE: Duration = Duration::from_secs(10);
/// Time in which a client must take a part of an answer.
const STALLED: Duration = Duration::from_secs(10);
/// Interval at which the connection is checked.
const CHECK: Duration = Duration::from_secs(1);

/// The tasks of a connection. They end when this value is dropped.
#[derive(Clone, Default)]
struct Tasks(Rc<RefCell<JoinSet<()>>>);

impl<F: Future<Output = ()> + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.0.borrow_mut().spawn_local(task);
    }
}

impl Tasks {
    /// Removes the tasks that have ended, and logs those that panicked.
    fn tidy(&self) {
        let mut tasks = self.0.borrow_mut();
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended {
                tracing::error!("internal error: a request of the native API panicked: {error}");
            }
        }
    }
}

/// Serves a client until it leaves, until it is disconnected in favor of another client, or until it has taken nothing of an answer for
/// [`STALLED`].
pub(super) async fn serve(client: Connected, stream: Box<dyn Stream>) -> io::Result<()> {
    let client = Rc::new(client);
    let (seat, tasks) = (client.seat.clone(), Tasks::default());
    let service = service_fn(|request| respond(client.clone(), request));
    let stream = TokioIo::new(Watched::new(stream, client.clone()));
    let mut protocols = auto::Builder::new(tasks.clone());
    protocols.http1().max_buf_size(HEAD);
    protocols
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOWS)
        .max_header_list_size(HEADERS)
        .max_send_buf_size(UNSENT)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(BROKEN)
        .keep_alive_interval(QUIET)
        .keep_alive_timeout(ALIVE);
    let served = protocols.serve_connection(stream, service);
    let stalls = async {
        let mut ticks = interval(CHECK);
        loop {
            ticks.tick().await;
            tasks.tidy();
            if seat.told_since().is_some_and(|since| since.elapsed() >= STALLED)
                || client.is_multiplexed.get() && client.answers.wait_for(STALLED)
            {
                return;
            }
        }
    };
    tokio::select! {
        // Checked first: the next request of a disconnected client must not start.
        biased;
        () = seat.left() => {
            Err(io::Error::other("it was idle, and the router needed its slot or its memory for another client"))
        }
        () = stalls => Err(io::Error::other("it does not read its answers")),
        ended = served => ended.map_err(io::Error::other),
    }
}

async fn respond(connected: Rc<Connected>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let client = connected.request();
    connected.is_multiplexed.set(request.version() == Version::HTTP_2);
    // Each request waits for the client's turn, however fast it is answered.
    client.slice(|_| ()).await;
    Ok(match rpc::is_call(&request) {
        true => rpc::answer(&client, request).await,
        false => http::answer(&client, request).await,
    })
}
