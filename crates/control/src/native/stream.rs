//! A client's stream, which shows in the client's seat whether the client reads.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::client::Connected;
use crate::cli::{State, Stream};

/// A stream whose pending writes are noted as [`State::Told`]: the client has not read what the router has sent.
pub(super) struct Watched {
    stream: Box<dyn Stream>,
    client: Rc<Connected>,
}

impl Watched {
    pub(super) fn new(stream: Box<dyn Stream>, client: Rc<Connected>) -> Watched {
        Watched { stream, client }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
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
