//! A client, and how its requests run.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use model::cli::Call;
use model::origin::{FrontEnd, Origin, Peer};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::Service;
use crate::app::{Attended, Context, Failure, Go, LOOK, Report, Work};
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

    /// Runs long work to its end. Gives its reports to `tell`. If the future is dropped, because the client has disconnected, the work is
    /// rolled back.
    ///
    /// # Errors
    /// If the work fails.
    pub(super) async fn finish(
        &self,
        work: impl Work + 'static,
        mut tell: impl FnMut(Report),
    ) -> Result<(), Failure> {
        let mut work = Attended::new(work, &self.cx.borrow());
        loop {
            let mut reports = Vec::new();
            let went = self.slice(|c| work.step(c, &mut reports)).await;
            reports.into_iter().for_each(&mut tell);
            match went? {
                Go::Done => return Ok(()),
                Go::Again => {}
                Go::After(time) => sleep(time).await,
            }
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
