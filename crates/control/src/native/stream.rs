//! A client's byte stream. Received bytes are processed only in the client's turns. The stream updates the state of the connection, which
//! shows whether the client reads.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::{JoinHandle, spawn_local};

use super::client::Connected;
use crate::cli::{State, Stream};

/// Maximum number of bytes that the protocol gets in one turn of the client. Frames of HTTP/2 that belong to no request take up to 3 µs for
/// 15 bytes.
const PER_TURN: usize = 16 << 10;

/// A byte stream whose received bytes are processed only in the client's turns. While a write is pending, the state of the connection is
/// [`State::Told`]: the client has not read what the router has sent.
pub(super) struct Watched {
    stream: Box<dyn Stream>,
    client: Rc<Connected>,
    /// The bytes that arrived last.
    arrived: Vec<u8>,
    /// Number of bytes in `arrived` that were passed to the protocol.
    taken: usize,
    /// True if the client has had its turn for the arrived bytes.
    has_turn: bool,
    /// The task that waits for the client's turn, if there is one.
    turn: Option<JoinHandle<()>>,
}

impl Watched {
    pub(super) fn new(stream: Box<dyn Stream>, client: Rc<Connected>) -> Watched {
        Watched { stream, client, arrived: Vec::new(), taken: 0, has_turn: false, turn: None }
    }

    /// Waits until bytes have arrived. At the end of the stream, returns without bytes.
    fn poll_arrival(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.taken == self.arrived.len() {
            let mut bytes = [0; PER_TURN];
            let mut into = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut into))?;
            self.arrived.clear();
            self.arrived.extend_from_slice(into.filled());
            (self.taken, self.has_turn) = (0, false);
        }
        Poll::Ready(Ok(()))
    }

    /// Waits for the client's turn. A separate task waits and ends the turn. If the connection held the turn, all other clients would wait
    /// while this connection cannot send, because it then does not read either.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.has_turn {
            let Watched { client, turn, .. } = self;
            let waiting = turn.get_or_insert_with(|| {
                let client = client.clone();
                spawn_local(async move { client.turn().await })
            });
            // The task does not panic, and only `drop` aborts it.
            let _ = ready!(Pin::new(waiting).poll(cx));
            (self.turn, self.has_turn) = (None, true);
        }
        Poll::Ready(())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(turn) = &self.turn {
            turn.abort();
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_arrival(cx))?;
        if self.taken < self.arrived.len() {
            ready!(self.poll_turn(cx));
        }
        let rest = self.arrived.get(self.taken..).unwrap_or_default();
        let piece = &rest[..rest.len().min(into.remaining())];
        into.put_slice(piece);
        self.taken += piece.len();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        let (seat, now) = (&self.client.seat, self.client.seat.state());
        match &wrote {
            // Each entry sets the time of the client's last activity, so a state is not entered twice.
            Poll::Pending if now != State::Told => seat.enter(State::Told),
            Poll::Ready(Ok(n)) if *n > 0 && now == State::Told => seat.enter(self.client.state()),
            _ => {}
        }
        wrote
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
