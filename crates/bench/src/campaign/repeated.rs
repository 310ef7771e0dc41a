//! Runs a router's procedures with one kind of traffic and one frame size. Stores each repetition of `throughput` and of MLRsearch as soon
//! as it ends.

use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use super::case::Setup;
use super::procedures::Bench;
use super::run::Left;
use super::{Cell, Measurement, Procedure, Results};
use crate::search::profile::Profile;
use crate::trial::Failure;

/// State while the procedures run for one router with one traffic and one frame size.
pub(super) struct Repeated<'a> {
    setup: &'a Setup<'a>,
    /// Router, traffic and size in words.
    place: String,
    /// The campaign's profile with a single repetition.
    one: &'a Profile,
    bench: Bench<'a>,
    /// The results so far.
    cell: Cell,
    /// True if the router forwarded frames in a warm-up; `None` before the warm-up.
    forwards: Option<bool>,
}

impl<'a> Repeated<'a> {
    pub fn new(
        setup: &'a Setup<'a>,
        place: String,
        one: &'a Profile,
        bench: Bench<'a>,
        cell: Cell,
    ) -> Repeated<'a> {
        Repeated { setup, place, one, bench, cell, forwards: None }
    }

    /// Returns the results.
    pub fn into_cell(self) -> Cell {
        self.cell
    }

    /// Runs those repetitions of a procedure that have no result yet. Runs none if the router failed its warm-up. A failure is recorded,
    /// and ends the procedure. Returns false if the campaign must end.
    ///
    /// # Errors
    /// Returns an error if results cannot be stored.
    pub fn procedure(
        &mut self,
        procedure: Procedure,
        rounds: RangeInclusive<u32>,
        left: &mut Left,
        results: &mut Results,
    ) -> Result<bool, Failure> {
        let (setup, last) = (self.setup, *rounds.end());
        for round in rounds {
            let before = || setup.keeper.known(&self.cell.key, procedure);
            let known = self.cell.found(procedure).cloned().or_else(before);
            let is_known = known.as_ref().is_some_and(|known| known.repetitions() >= round);
            if !is_known && (setup.is_over() || !self.warm_up(results)?) {
                return Ok(false);
            }
            let place = format!("{}, {}", self.place, procedure.name());
            (setup.say)(&format!("{} {place}", left.next()));
            let found = match known {
                Some(known) if is_known => Ok(known),
                _ if self.forwards == Some(false) => continue,
                known => self.run(procedure, round, known),
            };
            match found {
                Ok(measurement) => {
                    self.cell.measurements.retain(|m| m.found.procedure() != procedure);
                    self.cell.measurements.push(measurement);
                }
                Err(_) if setup.stop.load(Ordering::Relaxed) => return Ok(false),
                Err(e) => {
                    left.leave_out((last - round) as usize);
                    results.fail(format!("{place}: {e}"), setup.keeper)?;
                    break;
                }
            }
            self.bench.throughput_fps = self.cell.throughput_fps();
            self.bench.session_fps = self.cell.session_fps();
        }
        Ok(true)
    }

    /// Warms the router up once, before the first procedure that must run. If the router forwards nothing, its procedures are
    /// skipped. Returns false if the campaign must end.
    fn warm_up(&mut self, results: &mut Results) -> Result<bool, Failure> {
        if self.forwards.is_some() {
            return Ok(true);
        }
        let warm = self.bench.warm_up();
        self.forwards = Some(warm.is_ok());
        match warm {
            Ok(()) => Ok(true),
            Err(_) if self.setup.stop.load(Ordering::Relaxed) => Ok(false),
            Err(e) => results.fail(format!("{}: {e}", self.place), self.setup.keeper).map(|()| true),
        }
    }

    /// Runs a procedure; of `throughput` and MLRsearch, only repetition `round`. Stores the result together with those of earlier
    /// repetitions.
    fn run(
        &mut self,
        procedure: Procedure,
        round: u32,
        known: Option<Measurement>,
    ) -> Result<Measurement, Failure> {
        self.bench.profile = if procedure.is_search() { self.one } else { self.setup.profile };
        self.bench.round = round;
        let new = self.bench.run(procedure)?;
        let found = match known {
            Some(known) => known.and(new),
            None => new,
        };
        self.setup.keeper.measurement(&self.cell.key, &found)?;
        Ok(found)
    }
}
