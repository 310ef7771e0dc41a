//! Answers: their bodies, and errors (RFC 9457).

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, ETAG, HeaderValue};
use hyper::{Response, StatusCode};
use model::cli::CliError;
use model::reason::Reason;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_local};

use crate::app::Failure;
use crate::cli::{Hold, Seat, State};
use crate::startup::{Fault, Place};

pub(super) const JSON: &str = "application/json";
pub(super) const YAML: &str = "application/yaml";
/// JSON objects, one per line.
pub(super) const LINES: &str = "application/x-ndjson";
const PROBLEM: &str = "application/problem+json";

/// Maximum length of a piece of an answer, in bytes.
pub(super) const PIECE: usize = 64 << 10;

/// The body of an answer.
pub(super) struct Body {
    rest: Rest,
    /// The client that reads it.
    seat: Rc<Seat>,
    /// The memory of the answer.
    _hold: Option<Hold>,
}

enum Rest {
    Whole(Bytes),
    /// Pieces that a task makes while the client reads them.
    Pieces(mpsc::Receiver<Bytes>, JoinHandle<Result<(), Cut>>),
}

/// The answer cannot be completed: the connection is closed, so that the client notices.
#[derive(Debug)]
pub(super) struct Cut(pub(super) String);

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Cut {}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let (pieces, task) = match &mut self.rest {
            Rest::Whole(bytes) => {
                let piece = bytes.split_to(bytes.len().min(PIECE));
                return Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))));
            }
            Rest::Pieces(pieces, task) => (pieces, task),
        };
        if let Some(piece) = ready!(pieces.poll_recv(cx)) {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let ended = ready!(Pin::new(task).poll(cx));
        // A task that has ended must not be asked again.
        self.rest = Rest::Whole(Bytes::new());
        Poll::Ready(match ended {
            Ok(Ok(())) => None,
            Ok(Err(cut)) => Some(Err(cut)),
            Err(e) => Some(Err(Cut(format!("internal error: {e}")))),
        })
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.rest, Rest::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.rest {
            Rest::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Rest::Pieces(..) => SizeHint::default(),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Rest::Pieces(_, task) = &self.rest {
            task.abort();
        }
        // The answer is given; what is left of it is in the socket's buffers.
        self.seat.enter(State::Asked);
    }
}

/// Returns an answer of one piece.
pub(super) fn whole(
    seat: &Rc<Seat>,
    status: StatusCode,
    kind: &'static str,
    text: impl Into<Bytes>,
) -> Response<Body> {
    answer(seat, status, kind, Rest::Whole(text.into()), None)
}

/// Returns an answer that `make` makes piece by piece, while the client reads it.
pub(super) fn pieces<F>(
    seat: &Rc<Seat>,
    kind: &'static str,
    hold: Hold,
    make: impl FnOnce(mpsc::Sender<Bytes>) -> F,
) -> Response<Body>
where
    F: Future<Output = Result<(), Cut>> + 'static,
{
    let (to, from) = mpsc::channel(1);
    answer(seat, StatusCode::OK, kind, Rest::Pieces(from, spawn_local(make(to))), Some(hold))
}

/// Returns a value as JSON.
pub(super) fn json(seat: &Rc<Seat>, value: &impl Serialize) -> Response<Body> {
    // The values of this module have names that are strings, so they can be written.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    whole(seat, StatusCode::OK, JSON, text + "\n")
}

/// Returns an answer of JSON text, with the memory that it takes.
pub(super) fn held(seat: &Rc<Seat>, text: String, hold: Hold) -> Response<Body> {
    answer(seat, StatusCode::OK, JSON, Rest::Whole(text.into()), Some(hold))
}

fn answer(
    seat: &Rc<Seat>,
    status: StatusCode,
    kind: &'static str,
    rest: Rest,
    hold: Option<Hold>,
) -> Response<Body> {
    let mut response = Response::new(Body { rest, seat: seat.clone(), _hold: hold });
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Adds the generation of the configuration as the entity tag.
pub(super) fn tagged(mut response: Response<Body>, generation: u64) -> Response<Body> {
    // Digits in quotes are a valid header.
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{generation}\"")) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// Why a request is refused, or has failed.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
    faults: Vec<Fault>,
    /// The JSON Pointers of the faults (RFC 6901), as far as known.
    pointers: Vec<Option<String>>,
    /// The methods that the resource has, after another one was used.
    allow: Option<String>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into(), faults: Vec::new(), pointers: Vec::new(), allow: None }
    }

    /// Adds the methods that the resource has.
    pub(super) fn allowing(self, methods: String) -> Problem {
        Problem { allow: Some(methods), ..self }
    }

    /// Returns the faults of the document of the request.
    pub(super) fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Adds the JSON Pointers of the faults.
    pub(super) fn pointing(self, pointers: Vec<Option<String>>) -> Problem {
        Problem { pointers, ..self }
    }

    /// Leaves out lines and columns: the faults are in a text that the client does not have.
    pub(super) fn without_lines(mut self) -> Problem {
        self.faults.iter_mut().for_each(|fault| fault.place = Place::Argument(0));
        self
    }

    pub(super) fn answer(&self, seat: &Rc<Seat>) -> Response<Body> {
        let mut all = serde_json::json!({
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if !self.faults.is_empty() {
            let pointers = self.pointers.iter().map(Option::as_deref).chain(std::iter::repeat(None));
            all["faults"] = self.faults.iter().zip(pointers).map(fault).collect();
        }
        let mut response = whole(seat, self.status, PROBLEM, format!("{all:#}\n"));
        let allow = self.allow.as_ref().and_then(|methods| HeaderValue::from_str(methods).ok());
        if let Some(methods) = allow {
            response.headers_mut().insert(hyper::header::ALLOW, methods);
        }
        response
    }
}

fn fault((fault, pointer): (&Fault, Option<&str>)) -> Value {
    let mut all = serde_json::json!({ "detail": fault.message });
    if let Place::File { line, column, .. } = &fault.place {
        all["line"] = (*line).into();
        all["column"] = (*column).into();
    }
    if let Some(pointer) = pointer {
        all["pointer"] = pointer.into();
    }
    all
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Problem {
        let status = match &failure {
            Failure::Changed { .. } => StatusCode::PRECONDITION_FAILED,
            Failure::Faults(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Failure::Refused(_) => of_reason(failure.reason()),
            _ => StatusCode::CONFLICT,
        };
        match failure {
            Failure::Faults(faults) => {
                let detail = "the document has faults; nothing was changed";
                Problem { faults, ..Problem::new(status, detail) }
            }
            other => Problem::new(status, other.to_string()),
        }
    }
}

impl From<CliError> for Problem {
    fn from(error: CliError) -> Problem {
        Problem::new(of_reason(error.reason()), error.render())
    }
}

fn of_reason(reason: Reason) -> StatusCode {
    match reason {
        Reason::NoInterface | Reason::NoTable | Reason::NotThere => StatusCode::NOT_FOUND,
        Reason::There | Reason::InUse | Reason::Busy => StatusCode::CONFLICT,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}
