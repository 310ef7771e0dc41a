//! The API in gRPC. Its definition, `proto/volley/v1/volley.proto`, is the reference for clients; messages and
//! [the list of calls](Call::ALL) are generated from it.

mod calls;
mod load;
mod stats;

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as Waker, Poll, ready};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Response, StatusCode, Version};
use model::cli::Role;
use prost::Message;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;
use tokio_stream::Stream;
use tonic::server::{Grpc, StreamingService};
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use super::body::Body;
use super::client::Client;
use super::problem::{Problem, limited};
use v1::Call;

/// The generated messages and calls.
#[allow(missing_docs, clippy::all)]
mod v1 {
    include!(concat!(env!("OUT_DIR"), "/volley.v1.rs"));
}

/// The definition of the service.
pub(super) const DEFINITION: &str = include_str!("../../../proto/volley/v1/volley.proto");
/// Maximum length of a client's message in the calls `Apply` and `Load`, in bytes. They send a document or a load in many messages. Each
/// message stays in memory until its end has arrived.
const LONGEST: usize = 1 << 20;
/// Maximum length of a client's message in all other calls, in bytes.
const LONGEST_SHORT: usize = 64 << 10;
/// Maximum length of the message of an error, in bytes: it is sent in a header.
const LONGEST_ERROR: usize = 4 << 10;

/// True if the request is a gRPC call: HTTP/2, and a content type of gRPC.
pub(super) fn is_call(request: &Request<Incoming>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    request.version() == Version::HTTP_2 && kind.is_some_and(|kind| kind.starts_with("application/grpc"))
}

/// Answers a call.
pub(super) async fn answer(client: &Rc<Client>, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path();
    let refusal = match Call::ALL.iter().find(|about| about.path == path) {
        Some(about) if client.identity.role < needed(about.call) => limited(client.identity.role).into(),
        Some(about) => return calls::run(client, about.call, request).await,
        None => Status::unimplemented(format!("there is no call {path}: see volley.proto")),
    };
    refusal.into_http::<tonic::body::Body>().map(|body| Body::messages(client, body))
}

/// Returns the role that a call needs.
fn needed(call: Call) -> Role {
    match call {
        Call::About | Call::Get | Call::Watch | Call::Show | Call::Exec | Call::Capture | Call::Stats => {
            Role::Viewer
        }
        Call::Trace => Role::Operator,
        Call::Apply | Call::Confirm | Call::Rollback | Call::Load => Role::Admin,
    }
}

/// The messages of a request.
struct Requests<Q> {
    client: Rc<Client>,
    stream: Streaming<Q>,
}

impl<Q> Requests<Q> {
    /// Waits for the next message, for a limited time. `None` at the end.
    async fn next(&mut self) -> Result<Option<Q>, Status> {
        self.client.arrival(self.stream.message()).await?
    }

    /// Waits for the message of a request that has only one.
    async fn only(&mut self) -> Result<Q, Status> {
        self.next().await?.ok_or_else(|| Status::invalid_argument("the request has no message"))
    }
}

/// Sends the messages of an answer to the client.
struct Replies<A>(mpsc::Sender<A>);

impl<A> Replies<A> {
    /// Queues a message. Before, waits until the connection has taken the previous one.
    ///
    /// # Errors
    /// If the client is gone.
    async fn send(&self, message: A) -> Result<(), Status> {
        self.0.send(message).await.map_err(|_| Status::cancelled("the client is gone"))
    }
}

/// Runs a call in a task of its own. Every call has a stream of messages in each direction. In some calls, a stream has a single message. A
/// message from the client may have at most `longest` bytes. The task is dropped if the client cancels the call, disconnects, or has set a
/// time limit that expires.
async fn serve<Q, A, F>(
    client: &Rc<Client>,
    request: Request<Incoming>,
    longest: usize,
    run: impl FnOnce(Rc<Client>, Requests<Q>, Replies<A>) -> F + 'static,
) -> Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
    F: Future<Output = Result<(), Status>> + 'static,
{
    let (give, given) = oneshot::channel();
    let (to, from) = mpsc::channel(1);
    let of_task = client.clone();
    let within = match time_limit(&request) {
        Ok(within) => within,
        Err(why) => {
            return why.into_http::<tonic::body::Body>().map(|body| Body::messages(client, body));
        }
    };
    let task = spawn_local(async move {
        // Without a stream, the request was refused.
        let Ok(stream) = given.await else { return Ok(()) };
        let running = run(of_task.clone(), Requests { client: of_task, stream }, Replies(to));
        match within {
            None => running.await,
            Some(within) => match timeout(within, running).await {
                Ok(ended) => ended,
                Err(_) => {
                    Err(Status::deadline_exceeded("the call did not end within the client's time limit"))
                }
            },
        }
    });
    let bridge = Bridge { give: Some(give), answers: Some(Answers { from, task, is_over: false }) };
    let codec = ProstCodec::<A, Q>::default();
    let mut protocol = Grpc::new(codec).max_decoding_message_size(longest);
    protocol.streaming(bridge, request).await.map(|body| Body::messages(client, body))
}

/// Returns the time in which a call must end (`grpc-timeout`); `None` if the client sets no limit.
fn time_limit(request: &Request<Incoming>) -> Result<Option<Duration>, Status> {
    let Some(value) = request.headers().get("grpc-timeout") else { return Ok(None) };
    let parsed = value.to_str().ok().and_then(parse_limit);
    parsed
        .map(Some)
        .ok_or_else(|| Status::invalid_argument("grpc-timeout: expected up to 8 digits and a unit"))
}

/// Parses a time limit: 1 to 8 digits, and a unit (gRPC over HTTP/2, section "Requests").
fn parse_limit(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(3600 * number),
        "M" => Duration::from_secs(60 * number),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Connects the protocol, whose types can move between threads, with a task, whose types cannot.
struct Bridge<Q, A> {
    give: Option<oneshot::Sender<Streaming<Q>>>,
    answers: Option<Answers<A>>,
}

impl<Q, A> StreamingService<Q> for Bridge<Q, A> {
    type Response = A;
    type ResponseStream = Answers<A>;
    type Future = std::future::Ready<Result<tonic::Response<Answers<A>>, Status>>;

    fn call(&mut self, request: tonic::Request<Streaming<Q>>) -> Self::Future {
        if let Some(give) = self.give.take() {
            // The task is waiting for this stream.
            let _ = give.send(request.into_inner());
        }
        let answers = self.answers.take().map(tonic::Response::new);
        std::future::ready(answers.ok_or_else(|| Status::internal("internal error: the call ran twice")))
    }
}

/// The messages of an answer, from the task that makes them.
struct Answers<A> {
    from: mpsc::Receiver<A>,
    task: JoinHandle<Result<(), Status>>,
    is_over: bool,
}

impl<A> Stream for Answers<A> {
    type Item = Result<A, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Waker<'_>) -> Poll<Option<Result<A, Status>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(message) = ready!(self.from.poll_recv(cx)) {
            return Poll::Ready(Some(Ok(message)));
        }
        let ended = ready!(Pin::new(&mut self.task).poll(cx));
        // The task has ended, and must not be polled again.
        self.is_over = true;
        let ended = ended.unwrap_or_else(|e| Err(Status::internal(format!("internal error: {e}"))));
        Poll::Ready(ended.err().map(Err))
    }
}

impl<A> Drop for Answers<A> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl From<Problem> for Status {
    fn from(problem: Problem) -> Status {
        let code = match problem.status {
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY => Code::InvalidArgument,
            StatusCode::NOT_FOUND => Code::NotFound,
            StatusCode::FORBIDDEN => Code::PermissionDenied,
            StatusCode::CONFLICT => Code::FailedPrecondition,
            StatusCode::PRECONDITION_FAILED => Code::Aborted,
            StatusCode::REQUEST_TIMEOUT => Code::DeadlineExceeded,
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::SERVICE_UNAVAILABLE => Code::ResourceExhausted,
            _ => Code::Internal,
        };
        let mut detail = problem.detail;
        detail.truncate(detail.floor_char_boundary(LONGEST_ERROR));
        Status::new(code, detail)
    }
}

/// Returns the calls as a list in Markdown, for the documentation.
pub fn markdown() -> String {
    let word = |is_stream: bool| if is_stream { "stream" } else { "one message" };
    let row = |about: &v1::About| {
        let v1::About { name, sends_stream, returns_stream, help, .. } = about;
        format!("| `{name}` | {} | {} | {help} |\n", word(*sends_stream), word(*returns_stream))
    };
    Call::ALL
        .iter()
        .fold("| call | request | answer | meaning |\n|---|---|---|---|\n".into(), |text, about| {
            text + &row(about)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_have_digits_and_a_unit() {
        for (text, wanted) in [
            ("3H", Some(10_800_000)),
            ("2M", Some(120_000)),
            ("99999999S", Some(99_999_999_000)),
            ("250m", Some(250)),
            ("5000u", Some(5)),
            ("7000000n", Some(7)),
            ("100000000S", None),
            ("S", None),
            ("", None),
            ("5", None),
            ("+5S", None),
            ("5é", None),
        ] {
            assert_eq!(parse_limit(text).map(|limit| limit.as_millis()), wanted, "{text}");
        }
    }
}
