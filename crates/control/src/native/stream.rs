//! A client's stream: it is read in the client's turns, and shows in the client's seat whether the client reads.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::{JoinHandle, spawn_local};

use super::client::Connected;
use crate::cli::{State, Stream};

/// Bytes that are read in one turn of the client. Frames of HTTP/2 that belong to no request take up to 3 µs for 15 bytes.
const PER_TURN: usize = 16 << 10;

/// A stream whose pending writes are noted as [`State::Told`]: the client has not read what the router has sent.
pub(super) struct Watched {
    stream: Box<dyn Stream>,
    client: Rc<Connected>,
    /// Bytes that may be read before the next turn.
    left: usize,
    /// Ends when the client has had another turn.
    turn: Option<JoinHandle<()>>,
}

impl Watched {
    pub(super) fn new(stream: Box<dyn Stream>, client: Rc<Connected>) -> Watched {
        Watched { stream, client, left: 0, turn: None }
    }

    /// Waits until bytes may be read. The wait is a task of its own: a connection that cannot send does not go on reading, and must not keep
    /// the turn of all others meanwhile.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.left == 0 {
            let Watched { client, turn, .. } = self;
            let waiting = turn.get_or_insert_with(|| {
                let client = client.clone();
                spawn_local(async move { client.turn().await })
            });
            // The task does not panic, and nobody aborts it.
            let _ = ready!(Pin::new(waiting).poll(cx));
            (self.turn, self.left) = (None, PER_TURN);
        }
        Poll::Ready(())
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_turn(cx));
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        self.left = self.left.saturating_sub(into.filled().len() - before);
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
