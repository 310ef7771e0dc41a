//! Changes of consecutive API requests, made in one transaction. So a client that sends very many requests without waiting for the answers
//! causes fewer transactions, and fewer entries in the journal.

use std::collections::BTreeMap;

use super::{Context, Failure};
use crate::intent::{Change, Key, Value};

/// The changes that are not made yet, and the requests whose changes were refused.
#[derive(Default)]
pub(crate) struct Batch {
    /// The number of the running request, if its change may be made together with others.
    request: Option<usize>,
    /// The changes, with the numbers of their requests.
    changes: BTreeMap<Key, (usize, Option<Value>)>,
    /// The requests whose changes were refused.
    refused: Vec<(usize, Failure)>,
}

impl Batch {
    /// True if the object will be changed.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.changes.contains_key(key)
    }
}

impl Context {
    /// Runs a request whose change may be made together with those of other requests. `number` identifies it in the batch.
    pub(crate) fn in_batch<R>(&mut self, number: usize, request: impl FnOnce(&mut Context) -> R) -> R {
        self.batch.request = Some(number);
        let answer = request(self);
        self.batch.request = None;
        answer
    }

    /// Changes one object: with the batch, if the running request is part of one, and otherwise at once. The object must not be in the
    /// batch yet.
    ///
    /// # Errors
    /// If the change is made at once, and refused.
    pub(crate) fn change_in_batch(&mut self, change: Change) -> Result<(), Failure> {
        match self.batch.request {
            Some(number) => {
                self.batch.changes.insert(change.key, (number, change.value));
                Ok(())
            }
            None => self.transact(vec![change]),
        }
    }

    /// Makes the changes of the batch. If they are refused together, makes them one by one, so that only those with a fault are refused.
    pub(crate) fn make_batch(&mut self) {
        let changes = std::mem::take(&mut self.batch.changes);
        if changes.is_empty() {
            return;
        }
        let change = |(key, (_, value)): (&Key, &(usize, Option<Value>))| Change {
            key: key.clone(),
            value: value.clone(),
        };
        match self.transact(changes.iter().map(change).collect()) {
            Ok(()) => return,
            // None of the changes has a fault, and each would be refused for the same reason.
            Err(busy @ Failure::Busy { .. }) => {
                let all = changes.into_values().map(|(number, _)| (number, busy.clone()));
                self.batch.refused.extend(all);
                return;
            }
            Err(_) => {}
        }
        let mut changes: Vec<(Key, (usize, Option<Value>))> = changes.into_iter().collect();
        changes.sort_by_key(|(_, (number, _))| *number);
        for (key, (number, value)) in changes {
            if let Err(failure) = self.transact(vec![Change { key, value }]) {
                self.batch.refused.push((number, failure));
            }
        }
    }

    /// Makes the changes of the batch, and ends it. Returns the refused requests with their numbers.
    pub(crate) fn end_batch(&mut self) -> Vec<(usize, Failure)> {
        self.make_batch();
        std::mem::take(&mut self.batch.refused)
    }
}
