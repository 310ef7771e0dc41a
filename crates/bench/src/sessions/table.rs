//! The tester's state table of connections (RFC 9693 section 3).

use std::collections::HashSet;

use drivers::pktgen::Template;

use super::tuple::{Tuple, tuples, with};
use crate::engine::run::{Direction, Flow};
use crate::engine::sender::Mode;
use crate::trial::Failure;

/// The four-tuples of the initiator's frames, and those that the responder learned from the frames that came through the router.
pub struct Table {
    /// The initiator's four-tuples, in the order of sending.
    initiator: Vec<Tuple>,
    /// The translated four-tuple of each connection, if its frame arrived.
    responder: Vec<Option<Tuple>>,
    /// The templates of the initiator's and of the responder's frames.
    templates: [Template; 2],
}

impl Table {
    /// Makes a table of `connections` connections, with the initiator's frames from `forth` and the responder's from `back`. Each of the
    /// two must be one flow of one kind of frame: UDP, stamped.
    ///
    /// # Errors
    /// If `forth` or `back` has other flows or frames.
    pub fn new(forth: &[Flow], back: &[Flow], connections: u32, seed: u64) -> Result<Table, Failure> {
        let templates = [template(forth)?, template(back)?];
        let of = Tuple::of(&templates[0].bytes).ok_or_else(kind)?;
        let table = Table { initiator: tuples(of, connections, seed), responder: Vec::new(), templates };
        // Detects unusable frames now rather than during a trial.
        table.forth(1)?;
        Ok(table)
    }

    /// Returns the maximum number of connections.
    pub fn connections(&self) -> u64 {
        self.initiator.len() as u64
    }

    /// Returns the [`Direction`] of the frames that the initiator sends in the first phase, for connections 0 to `connections` - 1.
    /// Discards all learned four-tuples.
    ///
    /// # Errors
    /// If the frame cannot carry the four-tuples.
    pub fn first_phase(&mut self, connections: u64) -> Result<Direction, Failure> {
        self.responder.clear();
        self.responder.resize(self.some(connections).len(), None);
        self.forth(connections)
    }

    /// Returns the [`Direction`] from the initiator, with the first `connections` connections.
    ///
    /// # Errors
    /// If the frame cannot carry the four-tuples.
    pub fn forth(&self, connections: u64) -> Result<Direction, Failure> {
        direction(0, &self.templates[0], self.some(connections))
    }

    /// Stores the translated four-tuple of `frame`, which the responder received. `number` is the sequence number of the frame.
    pub fn learn(&mut self, number: u64, frame: &[u8]) {
        if let Some(entry) = self.responder.get_mut(number as usize) {
            *entry = Tuple::of(frame);
        }
    }

    /// Returns the number of distinct four-tuples that the responder has learned.
    pub fn learned(&self) -> u64 {
        self.responder.iter().flatten().collect::<HashSet<_>>().len() as u64
    }

    /// Returns the [`Direction`] from the responder, with all learned connections in the initiator's order.
    ///
    /// # Errors
    /// If some connections have not been learned, or the frame cannot carry the four-tuples.
    pub fn back(&self) -> Result<Direction, Failure> {
        let answers: Option<Vec<Tuple>> = self.responder.iter().map(|t| t.map(Tuple::answer)).collect();
        let missing =
            || Failure("the first frame of some connections did not arrive through the router".into());
        direction(1, &self.templates[1], &answers.filter(|all| !all.is_empty()).ok_or_else(missing)?)
    }

    /// True if `frame` belongs to connection `number`. The initiator received this frame, and its sequence number is `number`.
    pub fn came_back(&self, number: u64, frame: &[u8]) -> bool {
        let of = self.initiator.get(number as usize).map(|t| t.answer());
        of.is_some() && of == Tuple::of(frame)
    }

    fn some(&self, connections: u64) -> &[Tuple] {
        let count = usize::try_from(connections).unwrap_or(usize::MAX).min(self.initiator.len());
        &self.initiator[..count]
    }
}

fn kind() -> Failure {
    Failure(
        "sessions need traffic with one flow of one kind of frame: UDP, stamped (RFC 9693 section 8)".into(),
    )
}

fn template(flows: &[Flow]) -> Result<Template, Failure> {
    match flows {
        [Flow { templates, mode: Mode::Stamped, .. }] if templates.len() == 1 => Ok(templates[0].clone()),
        _ => Err(kind()),
    }
}

fn direction(from: usize, template: &Template, tuples: &[Tuple]) -> Result<Direction, Failure> {
    let flow = Flow {
        templates: vec![with(template, tuples).ok_or_else(kind)?],
        rate: crate::engine::run::Rate::Share(1.0),
        mode: Mode::Stamped,
    };
    Ok(Direction { from, to: 1 - from, flows: vec![flow] })
}
