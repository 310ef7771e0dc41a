//! A connected client, its requests, and how they run.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::body::Bytes;
use model::cli::{Call, Role};
use model::origin::{FrontEnd, Origin, Peer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::Service;
use super::problem::Problem;
use super::watch::Board;
use crate::app::{Attended, Context, Failure, Go, LOOK, Report, Transition};
use crate::cli::{Arrival, Client as Listed, Entrance, Guest, Hold, Registry, Running, Seat, Share, State};

/// Maximum time that a request waits for long changes of other clients to end, or for the right to parse a long document.
pub(super) const BUSY: Duration = Duration::from_secs(10);
/// Maximum time that the router waits for the next piece of a client's request.
const SILENCE: Duration = Duration::from_secs(10);

/// Maximum time that a client waits for the right to send a long document. It is longer than [`SILENCE`]: if another client has the right
/// but sends nothing, that client loses the right after [`SILENCE`].
const UPLOAD: Duration = Duration::from_secs(20);

/// The rights to send and to parse a long document. They limit the memory for such documents. Parsing takes many times the length of a
/// document, so only one is parsed at a time. A client may send slowly, so it gets the right to parse only when the whole document has
/// arrived.
#[derive(Clone)]
pub(super) struct Long {
    parsed: Arc<Semaphore>,
    from_root: Arc<Semaphore>,
    from_others: Arc<Semaphore>,
}

impl Default for Long {
    fn default() -> Long {
        let one = || Arc::new(Semaphore::new(1));
        Long { parsed: one(), from_root: one(), from_others: one() }
    }
}

/// The client's user or address, and its role.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) peer: Peer,
    pub(super) role: Role,
}

/// A connected client. Its requests may run at the same time (HTTP/2).
pub(super) struct Connected {
    cx: Rc<RefCell<Context>>,
    pub(super) commands: Rc<Registry<Context>>,
    pub(super) identity: Identity,
    pub(super) seat: Rc<Seat>,
    /// Number of requests that the router is processing. Requests that wait for the client do not count.
    at_work: Cell<usize>,
    share: Share,
    /// The rights to send and to parse a long document.
    long: Long,
    /// The description of the API, made when a client first asks for it.
    pub(super) description: Rc<OnceCell<Bytes>>,
    /// True if requests of this client may run at the same time.
    pub(super) is_multiplexed: Cell<bool>,
    /// The nodes whose packets clients trace.
    pub(super) traced: Rc<RefCell<BTreeSet<String>>>,
    /// The states of the interfaces, which all watchers share.
    pub(super) board: Rc<RefCell<Board>>,
    /// The answers that the client is reading.
    pub(super) answers: Answers,
    /// The client's entry in the list of clients. Dropping it removes the entry.
    guest: Guest,
}

impl Connected {
    pub(super) fn new(service: &Service, cx: Rc<RefCell<Context>>, arrival: &Arrival) -> Connected {
        let Arrival { peer, pid, role, .. } = arrival;
        let identity = Identity { peer: peer.clone(), role: *role };
        let entry = Listed { entrance: Entrance::Native, role: identity.role, peer: peer.clone(), pid: *pid };
        let guest = cx.borrow().sessions.enter(entry);
        Connected {
            cx,
            commands: service.commands.clone(),
            identity,
            seat: Seat::new(peer.uid()),
            at_work: Cell::new(0),
            share: Share::of_requests(&service.turns, peer, *role),
            long: service.long.clone(),
            description: service.description.clone(),
            traced: service.traced.clone(),
            board: service.board.clone(),
            is_multiplexed: Cell::new(false),
            answers: Answers::default(),
            guest,
        }
    }

    /// Waits for the client's turn: one request of root and one of another client run in each round of the main thread. Returns after all
    /// other runnable tasks have run.
    pub(super) async fn turn(&self) {
        self.share.turn(|| ()).await;
    }

    /// Begins a request.
    pub(super) fn request(self: &Rc<Connected>) -> Rc<Client> {
        if self.seat.state() != State::Told {
            self.seat.begin();
        }
        let client = Client { connected: self.clone(), works: Cell::new(false), shown: OnceCell::new() };
        client.works();
        Rc::new(client)
    }

    /// Returns the state of the connection, if the client has read all that was sent: served while a request is processed, otherwise idle.
    pub(super) fn state(&self) -> State {
        if self.at_work.get() > 0 { State::Served } else { State::Asked }
    }

    /// Counts a request as being processed (`works`), or as waiting for the client. Then updates the connection's state. While the client
    /// does not read what was sent, the state stays unchanged, so that further requests do not make the client look active.
    fn note(&self, works: bool) {
        self.at_work.set(if works { self.at_work.get() + 1 } else { self.at_work.get().saturating_sub(1) });
        if self.seat.state() != State::Told {
            self.seat.enter(self.state());
        }
    }
}

/// A client during one of its requests.
pub(super) struct Client {
    connected: Rc<Connected>,
    /// True while the router processes the request; false while the request waits for the client.
    works: Cell<bool>,
    /// The request's entry in the list of running commands.
    shown: OnceCell<Running>,
}

impl std::ops::Deref for Client {
    type Target = Connected;

    fn deref(&self) -> &Connected {
        &self.connected
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The answer is given; what is left of it is in the socket's buffers.
        self.rests();
    }
}

impl Client {
    /// Shows this text as the client's request, in `show cli-sessions`, until the request ends.
    pub(super) fn shows(&self, line: &str) {
        self.shown.get_or_init(|| self.guest.runs(line));
    }

    /// Notes that the request waits for the client. While all requests of a client do so, the client may be disconnected in favor of
    /// another one.
    pub(super) fn rests(&self) {
        if self.works.replace(false) {
            self.note(false);
        }
    }

    /// Notes that the router processes the request again, after it waited for the client.
    pub(super) fn works(&self) {
        if !self.works.replace(true) {
            self.note(true);
        }
    }

    /// Waits for a piece of the request, at most for [`SILENCE`].
    ///
    /// # Errors
    /// If it does not arrive in time.
    pub(super) async fn arrival<T>(&self, piece: impl Future<Output = T>) -> Result<T, Problem> {
        // A client that sends slowly must not keep its place.
        self.rests();
        let late =
            |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the rest of the request did not arrive in time");
        let piece = timeout(SILENCE, piece).await.map_err(late)?;
        self.slice(|_| ()).await;
        self.works();
        Ok(piece)
    }

    /// Returns the result of `question` about the router's state, without waiting for the client's turn. Only for questions that take no
    /// time.
    pub(super) fn look<R>(&self, question: impl FnOnce(&Context) -> R) -> R {
        question(&self.cx.borrow())
    }

    /// Runs a slice of work of about a millisecond, when it is the client's turn. Other tasks run before this function returns.
    pub(super) async fn slice<R>(&self, work: impl FnOnce(&mut Context) -> R) -> R {
        let done = self.share.turn(|| work(&mut self.cx.borrow_mut())).await;
        yield_now().await;
        done
    }

    /// Returns the origin of a change by the request `line`.
    pub(super) fn origin(&self, line: &str) -> Origin {
        Origin::new(FrontEnd::Native, self.identity.peer.clone(), line)
    }

    /// Runs a request that may change the configuration, on behalf of the client. `line` names the request in the journal. First waits, for
    /// a limited time, until no long change of another client is running.
    pub(super) async fn change<R>(&self, line: &str, request: impl FnOnce(&mut Context) -> R) -> R {
        let begun = Instant::now();
        while self.look(|c| c.changes.must_be_free()).is_err() && begun.elapsed() < BUSY {
            sleep(LOOK).await;
        }
        let origin = self.origin(line);
        self.slice(|c| {
            c.origin = origin;
            request(c)
        })
        .await
    }

    /// Runs a change to its end. Passes its reports to `tell`. Refuses the change if it still waits for another client's change after
    /// [`BUSY`]. If the future is dropped because the client has disconnected, an incomplete change is rolled back.
    ///
    /// # Errors
    /// If the change is refused, or fails.
    pub(super) async fn finish(
        &self,
        change: Transition,
        mut tell: impl FnMut(Report),
    ) -> Result<(), Failure> {
        let (mut work, begun) = (Attended::new(change, &self.cx.borrow()), Instant::now());
        loop {
            let mut reports = Vec::new();
            let went = self.slice(|c| work.step(c, &mut reports)).await;
            reports.into_iter().for_each(&mut tell);
            match went? {
                Go::Done => return Ok(()),
                Go::Again => {}
                Go::After(time) => sleep(time).await,
            }
            if begun.elapsed() >= BUSY && work.work().is_some_and(Transition::is_waiting) {
                self.look(|c| c.changes.must_be_free())?;
                return Err(Failure::Busy { what: "a load of routes", percent: 0 });
            }
        }
    }

    /// Waits for the right to parse a long document. There is only one such right.
    ///
    /// # Errors
    /// If other clients have it for too long.
    pub(super) async fn long(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let busy = Failure::Busy { what: "a change by another client's long document", percent: 0 };
        match timeout(BUSY, self.long.parsed.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(busy),
        }
    }

    /// Waits for the right to send a long document. Root has one such right; all other clients together have another one.
    ///
    /// # Errors
    /// If other clients have it for too long.
    pub(super) async fn long_arrival(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let busy = Failure::Busy { what: "an upload of another client's long document", percent: 0 };
        let of =
            if self.identity.peer.uid() == Some(0) { &self.long.from_root } else { &self.long.from_others };
        match timeout(UPLOAD, of.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(busy),
        }
    }

    /// Returns an empty reservation of memory, for a request or an answer.
    pub(super) fn hold(&self) -> Hold {
        self.share.hold(&self.seat)
    }

    /// Returns the context in which the client's commands run: JSON output, the client's role and identity, and the native API as front
    /// end.
    pub(super) fn call(&self) -> Call {
        let Identity { peer, role } = self.identity.clone();
        Call { json: true, role, front_end: FrontEnd::Native, peer, ..Call::default() }
    }
}

/// For each answer in progress, the time since which the router waits for the client to take the next piece; `None` while the client waits
/// for the router. Over HTTP/2, a client can read from its connection and yet stall one answer, if it keeps the answer's flow-control
/// window closed.
#[derive(Default)]
pub(super) struct Answers(RefCell<Vec<Weak<Cell<Option<Instant>>>>>);

impl Answers {
    pub(super) fn add(&self, since: &Rc<Cell<Option<Instant>>>) {
        let mut all = self.0.borrow_mut();
        all.retain(|one| one.strong_count() > 0);
        all.push(Rc::downgrade(since));
    }

    /// True if the client has taken nothing of one of its answers for this time.
    pub(super) fn wait_for(&self, time: Duration) -> bool {
        let since = self.0.borrow().iter().filter_map(|one| one.upgrade()?.get()).min();
        since.is_some_and(|since| since.elapsed() >= time)
    }
}
