//! Consecutive requests whose changes are made in one transaction, before any of them is answered.

use model::origin::{FrontEnd, Origin};
use vapi::Caller;
use vapi::table::{Entry, Runs, Serve};

use super::{Answered, Connection, SLICE};
use crate::api::change;
use crate::api::frame::Input;
use crate::app::Context;

/// Maximum number of requests in a batch. A change of a route takes about 2 µs.
const MOST: usize = 256;

/// The requests that wait until the batch's changes are made.
#[derive(Default)]
pub(super) struct Held {
    /// The identifier and the name of the message; all held requests are of this message.
    message: Option<(u16, String)>,
    /// For each request: the index of the reply's definition, the client, and the answer to send unless the change is refused.
    answers: Vec<(usize, Caller, Answered)>,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
}

impl Connection {
    /// True if a message can join the batch: it has the same identifier as the others, and its change may be made together with those of
    /// other requests.
    pub(super) fn can_join(&self, id: u16, entry: &Entry<Context>) -> bool {
        let in_batch = matches!(entry.serve, Serve::Request { runs: Runs::InBatch, .. });
        in_batch && self.held.message.as_ref().is_none_or(|(of, _)| *of == id)
    }

    /// Runs a request as part of the batch. It is answered when the batch ends.
    pub(super) fn join(
        &mut self,
        id: u16,
        name: &str,
        (reply, caller): (usize, Caller),
        request: impl FnOnce(&mut Context) -> Answered,
    ) {
        let mut cx = self.cx.borrow_mut();
        if self.held.message.is_none() {
            self.held.message = Some((id, name.to_owned()));
            cx.origin = Origin::new(FrontEnd::Api, self.peer.clone(), name);
        }
        let answered = cx.in_batch(self.held.answers.len(), request);
        self.held.answers.push((reply, caller, answered));
    }

    /// True if the batch must end: it is large, or has taken a whole slice, or no other message of the client has arrived.
    pub(super) fn is_batch_over(&self, input: &Input) -> bool {
        self.held.answers.len() >= MOST || self.begun.elapsed() >= SLICE || !input.has_next()
    }

    /// Makes the changes of the batch, and answers its requests in their order.
    pub(super) fn end_batch(&mut self) {
        let Some((_, name)) = self.held.message.take() else { return };
        let refused = self.cx.borrow_mut().end_batch();
        self.log_warning(&name);
        let mut answers = std::mem::take(&mut self.held.answers);
        for (number, failure) in refused {
            if let Some((_, _, answered)) = answers.get_mut(number) {
                *answered = Ok(Err(change::refused(failure)));
            }
        }
        for (reply, caller, answered) in answers.drain(..) {
            self.answer(reply, caller, answered);
        }
        // The memory serves the next batch.
        self.held.answers = answers;
    }
}
