//! What the two sides of the tester know of their connections (the state table of RFC 9693 section 3).

use std::collections::HashSet;

use drivers::pktgen::Template;

use super::tuple::{Tuple, tuples, with};
use crate::engine::run::{Direction, Flow};
use crate::engine::sender::Mode;
use crate::trial::Failure;

/// The initiator's four-tuples, and those that the responder has learned of frames that came through the router.
pub struct Table {
    /// What the initiator sends, in this order.
    initiator: Vec<Tuple>,
    /// As what those frames came out, where they did.
    responder: Vec<Option<Tuple>>,
    /// A frame from the initiator, and one from the responder.
    templates: [Template; 2],
}

impl Table {
    /// For so many connections with frames as these two directions have them: one flow of one kind, UDP, stamped.
    ///
    /// # Errors
    /// When they have something else.
    pub fn new(forth: &[Flow], back: &[Flow], connections: u32, seed: u64) -> Result<Table, Failure> {
        let templates = [template(forth)?, template(back)?];
        let of = Tuple::of(&templates[0].bytes).ok_or_else(kind)?;
        let table = Table { initiator: tuples(of, connections, seed), responder: Vec::new(), templates };
        // So that a frame which cannot be is found now, and not in the middle of a trial.
        table.forth(1)?;
        Ok(table)
    }

    /// How many connections there may be.
    pub fn connections(&self) -> u64 {
        self.initiator.len() as u64
    }

    /// From the initiator, with the first so many connections, one after the other. Nothing is learned of them yet.
    ///
    /// # Errors
    /// When the frame cannot have them.
    pub fn first_phase(&mut self, connections: u64) -> Result<Direction, Failure> {
        self.responder.clear();
        self.responder.resize(self.some(connections).len(), None);
        self.forth(connections)
    }

    /// From the initiator, with the first so many connections.
    ///
    /// # Errors
    /// When the frame cannot have them.
    pub fn forth(&self, connections: u64) -> Result<Direction, Failure> {
        direction(0, &self.templates[0], self.some(connections))
    }

    /// Notes as what the frame of a number came out.
    pub fn learn(&mut self, number: u64, frame: &[u8]) {
        if let Some(entry) = self.responder.get_mut(number as usize) {
            *entry = Tuple::of(frame);
        }
    }

    /// How many different connections the responder has learned.
    pub fn learned(&self) -> u64 {
        self.responder.iter().flatten().collect::<HashSet<_>>().len() as u64
    }

    /// From the responder, with all connections that it has learned, in the order of the initiator's.
    ///
    /// # Errors
    /// When it has not learned all, or the frame cannot have them.
    pub fn back(&self) -> Result<Direction, Failure> {
        let answers: Option<Vec<Tuple>> = self.responder.iter().map(|t| t.map(Tuple::answer)).collect();
        let missing = || Failure("not all connections came through the router".into());
        direction(1, &self.templates[1], &answers.filter(|all| !all.is_empty()).ok_or_else(missing)?)
    }

    /// Whether the frame of a number came back to the connection that it is of.
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
        "sessions need traffic of one flow of one kind of frame, of UDP and stamped (RFC 9693 section 8)"
            .into(),
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
