//! A client, and how its requests run.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use model::cli::Call;
use model::origin::{FrontEnd, Origin, Peer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::Service;
use crate::app::{Attended, Context, Failure, Go, LOOK, Report, Transition};
use crate::cli::{Arrival, Client as Listed, Entrance, Guest, Hold, Registry, Seat, Share};

/// Maximum time for which a request waits until other long changes have ended.
const BUSY: Duration = Duration::from_secs(10);

/// A connected client.
pub(super) struct Client {
    cx: Rc<RefCell<Context>>,
    pub(super) commands: Rc<Registry<Context>>,
    pub(super) read_only: bool,
    peer: Peer,
    pub(super) seat: Rc<Seat>,
    share: Share,
    /// The right to have a long document in memory.
    long: Arc<Semaphore>,
    /// The description of the API, made when a client first asks for it.
    pub(super) description: Rc<OnceCell<Bytes>>,
    /// Its entry in the list of clients.
    _guest: Guest,
}

impl Client {
    pub(super) fn new(service: &Service, cx: Rc<RefCell<Context>>, arrival: &Arrival) -> Client {
        let Arrival { peer, pid, .. } = arrival;
        let entry = Listed {
            entrance: Entrance::Native,
            read_only: service.read_only,
            peer: peer.clone(),
            pid: *pid,
        };
        let guest = cx.borrow().sessions.enter(entry);
        Client {
            cx,
            commands: service.commands.clone(),
            read_only: service.read_only,
            peer: peer.clone(),
            seat: Seat::new(peer.uid()),
            share: Share::of(&service.turns, peer.uid() == Some(0)),
            long: service.long.clone(),
            description: service.description.clone(),
            _guest: guest,
        }
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

    /// Runs a request that may change the configuration, on behalf of the client. `line` names the request in the journal. First waits, for
    /// a limited time, until no long change of another client is running.
    pub(super) async fn change<R>(&self, line: &str, request: impl FnOnce(&mut Context) -> R) -> R {
        let begun = Instant::now();
        while self.look(|c| c.changes.must_be_free()).is_err() && begun.elapsed() < BUSY {
            sleep(LOOK).await;
        }
        let origin = Origin::new(FrontEnd::Native, self.peer.clone(), line);
        self.slice(|c| {
            c.origin = origin;
            request(c)
        })
        .await
    }

    /// Runs a change to its end. Gives its reports to `tell`. A change that still waits after [`BUSY`], because of another client's, is
    /// refused. If the future is dropped, because the client has disconnected, the change is rolled back.
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

    /// Waits for the right to have a long document in memory, of which there is one at a time.
    ///
    /// # Errors
    /// If other clients have it for too long.
    pub(super) async fn long(&self) -> Result<OwnedSemaphorePermit, Failure> {
        let busy = Failure::Busy { what: "a change by another client's long document", percent: 0 };
        match timeout(BUSY, self.long.clone().acquire_owned()).await {
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
        Call {
            json: true,
            read_only: self.read_only,
            front_end: FrontEnd::Native,
            peer: self.peer.clone(),
            ..Call::default()
        }
    }
}
