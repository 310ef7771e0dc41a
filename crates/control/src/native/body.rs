//! The bodies of answers, whose progress shows whether the client reads them.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_local};

use super::client::Client;
use crate::cli::Hold;

/// Length of a piece of an answer, in bytes. A body that is made as a whole is sent in pieces of at most this length. Other pieces may be
/// somewhat longer.
pub(super) const PIECE: usize = 64 << 10;

/// The body of an answer.
pub(super) struct Body {
    rest: Rest,
    /// The time since which the router waits for the client to take the last piece; `None` while the client waits for the next piece.
    since: Rc<Cell<Option<Instant>>>,
    /// Keeps the request of this answer alive until the client has taken the answer.
    _client: Rc<Client>,
    /// The memory reserved for the answer.
    _hold: Option<Hold>,
}

enum Rest {
    Whole(Bytes),
    /// Pieces that a task makes while the client reads them.
    Pieces(mpsc::Receiver<Bytes>, JoinHandle<Result<(), Cut>>),
    /// The messages of a remote procedure call.
    Messages(tonic::body::Body),
}

/// The reason why an answer cannot be completed. The connection is then closed, so that the client notices.
#[derive(Debug)]
pub(super) struct Cut(pub(super) String);

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Cut {}

impl Body {
    fn new(client: &Rc<Client>, rest: Rest, hold: Option<Hold>) -> Body {
        let since = Rc::new(Cell::new(Some(Instant::now())));
        client.answers.add(&since);
        Body { rest, since, _client: client.clone(), _hold: hold }
    }

    /// Returns a body of one text. `hold` is the memory reserved for the text.
    pub(super) fn whole(client: &Rc<Client>, text: impl Into<Bytes>, hold: Option<Hold>) -> Body {
        Body::new(client, Rest::Whole(text.into()), hold)
    }

    /// Returns a body whose pieces `make` sends to a channel, while the client reads them.
    pub(super) fn pieces<F>(client: &Rc<Client>, make: impl FnOnce(mpsc::Sender<Bytes>) -> F) -> Body
    where
        F: Future<Output = Result<(), Cut>> + 'static,
    {
        let (to, from) = mpsc::channel(1);
        Body::new(client, Rest::Pieces(from, spawn_local(make(to))), None)
    }

    /// Returns a body of the messages of a remote procedure call.
    pub(super) fn messages(client: &Rc<Client>, messages: tonic::body::Body) -> Body {
        Body::new(client, Rest::Messages(messages), None)
    }

    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let (pieces, task) = match &mut self.rest {
            Rest::Whole(bytes) => {
                let piece = bytes.split_to(bytes.len().min(PIECE));
                return Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))));
            }
            Rest::Messages(messages) => {
                let frame = ready!(Pin::new(messages).poll_frame(cx));
                return Poll::Ready(frame.map(|frame| frame.map_err(|status| Cut(status.to_string()))));
            }
            Rest::Pieces(pieces, task) => (pieces, task),
        };
        if let Some(piece) = ready!(pieces.poll_recv(cx)) {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        let ended = ready!(Pin::new(task).poll(cx));
        // The task has ended, and must not be polled again.
        self.rest = Rest::Whole(Bytes::new());
        Poll::Ready(match ended {
            Ok(Ok(())) => None,
            Ok(Err(cut)) => Some(Err(cut)),
            Err(e) => Some(Err(Cut(format!("internal error: {e}")))),
        })
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let frame = self.poll_rest(cx);
        self.since.set(frame.is_ready().then(Instant::now));
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.rest {
            Rest::Whole(bytes) => bytes.is_empty(),
            Rest::Pieces(..) => false,
            Rest::Messages(messages) => messages.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.rest {
            Rest::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Rest::Pieces(..) | Rest::Messages(_) => SizeHint::default(),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Rest::Pieces(_, task) = &self.rest {
            task.abort();
        }
    }
}
