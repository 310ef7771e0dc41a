//! Serves the command line to many clients on one thread (the protocol is described in `protocol.rs`).
//!
//! A command, or a slice of a long one, runs while the state is borrowed; nothing waits while it is. So everything
//! else on the thread gets its turn between slices, and a client that does not read stops nobody but itself: its
//! command waits, and after [`PATIENCE`] it is disconnected.

use super::complete::Completion;
use super::error::CliError;
use super::listen::{Listener, Socket};
use super::output::{Answer, Job, Step};
use super::protocol::{LONGEST_REQUEST, Reply, Request};
use super::registry::{Call, Registry, Values};
use std::cell::RefCell;
use std::future;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use tokio::time;

/// How many clients are served at once.
const CLIENTS: usize = 64;
/// How long a client may leave a reply unread.
const PATIENCE: Duration = Duration::from_secs(30);
/// How much text goes into one reply, in bytes.
const CHUNK: usize = 32 << 10;
/// How long no client is let in after the system had no room for one.
const RECOVERY: Duration = Duration::from_millis(100);

/// A connection of either kind.
trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

enum Acceptor {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Acceptor {
    fn new(socket: &Socket) -> io::Result<Acceptor> {
        Ok(match socket {
            Socket::Unix(listener) => Acceptor::Unix(UnixListener::from_std(listener.try_clone()?)?),
            Socket::Tcp(listener) => Acceptor::Tcp(TcpListener::from_std(listener.try_clone()?)?),
        })
    }

    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Acceptor::Unix(listener) => Box::new(listener.accept().await?.0),
            Acceptor::Tcp(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

/// Serves clients until it is dropped, which ends their commands. Runs on a `LocalSet` of a runtime with one thread.
///
/// Each slice borrows `cx` for itself, so nobody may hold a borrow of it while waiting.
///
/// # Errors
/// The runtime cannot take the listener.
pub async fn serve<C: Values + 'static>(
    listener: Listener,
    registry: Rc<Registry<C>>,
    cx: Rc<RefCell<C>>,
) -> io::Result<()> {
    let acceptor = Acceptor::new(&listener.socket)?;
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            accepted = acceptor.accept() => match accepted {
                Ok(stream) if clients.len() < CLIENTS => {
                    clients.spawn_local(Client::new(stream, Rc::clone(&registry), Rc::clone(&cx)).serve());
                }
                Ok(_) => tracing::warn!("a CLI client was turned away: {CLIENTS} are connected"),
                Err(error) => {
                    tracing::warn!("cannot accept a CLI client: {error}");
                    time::sleep(RECOVERY).await;
                }
            },
            Some(ended) = clients.join_next() => match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!("a CLI client is gone: {error}"),
                Err(error) => tracing::error!("a CLI command failed badly: {error}"),
            },
        }
    }
}

struct Client<C> {
    requests: Requests,
    replies: WriteHalf<Box<dyn Stream>>,
    registry: Rc<Registry<C>>,
    cx: Rc<RefCell<C>>,
}

impl<C: Values + 'static> Client<C> {
    fn new(stream: Box<dyn Stream>, registry: Rc<Registry<C>>, cx: Rc<RefCell<C>>) -> Client<C> {
        let (input, replies) = tokio::io::split(stream);
        Client { requests: Requests { input, buffer: Vec::new() }, replies, registry, cx }
    }

    /// Answers requests until the client is gone.
    async fn serve(mut self) -> io::Result<()> {
        loop {
            let Some(line) = self.requests.next().await? else { return Ok(()) };
            let Client { requests, replies, registry, cx } = &mut self;
            tokio::select! {
                () = requests.gone() => return Ok(()),
                answered = answer(&line, replies, registry, cx) => answered?,
            }
        }
    }
}

type Replies = WriteHalf<Box<dyn Stream>>;

async fn answer<C: Values + 'static>(
    request: &[u8],
    replies: &mut Replies,
    registry: &Rc<Registry<C>>,
    cx: &RefCell<C>,
) -> io::Result<()> {
    match serde_json::from_slice(request) {
        Ok(Request::Run { line, json, directory }) => {
            let call = Call { json, directory: directory.into(), ..Call::default() };
            let ran = registry.run(&mut cx.borrow_mut(), &line, call);
            let end = match ran {
                Ok(Answer { text, job }) => {
                    print(replies, &text).await?;
                    match job {
                        Some(job) => finish(job, replies, cx).await?,
                        None => Ok(()),
                    }
                }
                Err(error) => Err(error),
            };
            let reply = end.map_or_else(|error| Reply::Failed(error.render()), |()| Reply::Done);
            send(replies, &reply).await
        }
        Ok(Request::Complete { line }) => {
            let completion: Completion = registry.complete(&cx.borrow(), &line);
            send(replies, &Reply::Completion(completion)).await
        }
        Err(error) => send(replies, &Reply::Failed(format!("this is no request: {error}"))).await,
    }
}

/// Runs a job to its end, slice by slice.
async fn finish<C>(
    mut job: Box<dyn Job<C>>,
    replies: &mut Replies,
    cx: &RefCell<C>,
) -> io::Result<Result<(), CliError>> {
    loop {
        let mut text = String::new();
        let step = job.step(&mut cx.borrow_mut(), &mut text);
        print(replies, &text).await?;
        match step {
            Step::Again => tokio::task::yield_now().await,
            Step::After(time) => time::sleep(time).await,
            Step::Done => return Ok(Ok(())),
            Step::Failed(error) => return Ok(Err(error)),
        }
    }
}

/// Sends text in parts that each make progress, however long it is.
async fn print(replies: &mut Replies, mut text: &str) -> io::Result<()> {
    while !text.is_empty() {
        let (part, rest) = text.split_at(text.floor_char_boundary(CHUNK));
        send(replies, &Reply::Out(part.to_owned())).await?;
        text = rest;
    }
    Ok(())
}

async fn send(replies: &mut Replies, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    match time::timeout(PATIENCE, replies.write_all(&line)).await {
        Ok(written) => written,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it does not read")),
    }
}

/// The requests that arrive, of which no more is kept than the longest one may be.
struct Requests {
    input: ReadHalf<Box<dyn Stream>>,
    buffer: Vec<u8>,
}

impl Requests {
    /// The next line; `None` at the end.
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                return Ok(Some(self.buffer.drain(..=end).collect()));
            }
            if self.buffer.len() >= LONGEST_REQUEST {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "its request is too long"));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// Waits until the client closes its side; keeps what it sends meanwhile.
    async fn gone(&mut self) {
        while self.buffer.len() < LONGEST_REQUEST {
            if !self.more().await.unwrap_or(false) {
                return;
            }
        }
        // The rest stays with the system until there is room; that the client is gone shows when it is written to.
        future::pending().await
    }

    /// Whether something was read; nothing is lost if this is not awaited to the end.
    async fn more(&mut self) -> io::Result<bool> {
        let room = LONGEST_REQUEST - self.buffer.len();
        Ok((&mut self.input).take(room as u64).read_buf(&mut self.buffer).await? > 0)
    }
}
