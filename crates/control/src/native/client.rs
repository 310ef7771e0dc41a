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
use crate::cli::{Arrival, Client as Listed, Entrance, Guest, Hold, Registry, Seat, Share, State};

/// Maximum time for which a request waits until other long changes have ended, or for the right to parse a long document.
pub(super) const BUSY: Duration = Duration::from_secs(10);
/// Time in which a client must send something of its request.
const SILENCE: Duration = Duration::from_secs(10);

/// Maximum time for which a client waits for the right to send a long document. It is longer than [`SILENCE`], after which a client that
/// has the right but sends nothing loses it.
const UPLOAD: Duration = Duration::from_secs(20);

/// The rights to have a long document in memory. Parsing takes many times the length of a document, so only one is parsed at a time.
/// Clients may send their documents slowly, so the right to parse is not taken before the end.
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
    /// Number of requests that are at work, not waiting for the client.
    at_work: Cell<usize>,
    share: Share,
    /// The rights to have a long document in memory.
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
    /// Its entry in the list of clients.
    _guest: Guest,
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
            share: Share::of(&service.turns, peer, *role),
            long: service.long.clone(),
            description: service.description.clone(),
            traced: service.traced.clone(),
            board: service.board.clone(),
            is_multiplexed: Cell::new(false),
            answers: Answers::default(),
            _guest: guest,
        }
    }

    /// Waits until it is the client's turn, and until all other tasks have run.
    pub(super) async fn turn(&self) {
        self.share.turn(|| ()).await;
    }

    /// Begins a request.
    pub(super) fn request(self: &Rc<Connected>) -> Rc<Client> {
        if self.seat.state() != State::Told {
            self.seat.begin();
        }
        let client = Client { connected: self.clone(), works: Cell::new(false) };
        client.works();
        Rc::new(client)
    }

    /// Returns the state for the seat of a client that reads its answers.
    pub(super) fn state(&self) -> State {
        if self.at_work.get() > 0 { State::Served } else { State::Asked }
    }

    /// Notes that a request works or rests. A client that does not read its answers does not become active by other requests.
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
    /// True while the request does not wait for the client.
    works: Cell<bool>,
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
    /// Notes that the request waits for the client. If all requests of the client do so, it may be disconnected in favor of another client.
    pub(super) fn rests(&self) {
        if self.works.replace(false) {
            self.note(false);
        }
    }

    /// Notes that the request goes on.
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

    /// Reads the state. For questions that take no time.
    pub(super) fn look<R>(&self, question: impl FnOnce(&Context) -> R) -> R {
        question(&self.cx.borrow())
    }

    /// Runs a slice of work, of about a millisecond, when it is the client's turn. Other tasks run before the next slice.
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

    /// Runs a change to its end. Gives its reports to `tell`. A change that still waits for the change of another client after [`BUSY`] is
    /// refused. If the future is dropped, because the client has disconnected, the change is rolled back, unless it is complete.
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

    /// Returns a reservation of memory for a request or an answer.
    pub(super) fn hold(&self) -> Hold {
        self.share.hold(&self.seat)
    }

    /// Returns how the client calls commands.
    pub(super) fn call(&self) -> Call {
        let Identity { peer, role } = self.identity.clone();
        Call { json: true, role, front_end: FrontEnd::Native, peer, ..Call::default() }
    }
}

/// For each answer in progress, the time since which the router waits for the client to take more of it; `None` while the client waits for
/// the router. A client of HTTP/2 can read from its connection and yet stall an answer, if it keeps the answer's flow-control window
/// closed.
#[derive(Default)]
pub(super) struct Answers(RefCell<Vec<Weak<Cell<Option<Instant>>>>>);

impl Answers {
    pub(super) fn add(&self, since: &Rc<Cell<Option<Instant>>>) {
        let mut all = self.0.borrow_mut();
        all.retain(|one| one.strong_count() > 0);
        all.push(Rc::downgrade(since));
    }

    /// True if the client has taken nothing of an answer for this time.
    pub(super) fn wait_for(&self, time: Duration) -> bool {
        let since = self.0.borrow().iter().filter_map(|one| one.upgrade()?.get()).min();
        since.is_some_and(|since| since.elapsed() >= time)
    }
}
