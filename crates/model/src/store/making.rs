//! Steps from one tree to another. They are made or rolled back one at a time.

use super::Refusal;
use crate::key::Key;
use crate::object::{Refused, Value, World};

/// A step: the change of one object from its old to its new value.
#[derive(Debug)]
pub struct Step<W> {
    /// The object's key.
    pub key: Key,
    /// Its value before; `None` if the step makes the object.
    pub from: Option<Value<W>>,
    /// Its value after; `None` if the step removes the object.
    pub to: Option<Value<W>>,
}

impl<W: World> Step<W> {
    /// Makes the step.
    ///
    /// # Errors
    /// Returns the reason if the step fails.
    pub fn run(&self, world: &mut W) -> Result<(), Refused> {
        apply(&self.key, self.from.as_ref(), self.to.as_ref(), world)
    }

    fn back(&self, world: &mut W) -> Result<(), Refused> {
        apply(&self.key, self.to.as_ref(), self.from.as_ref(), world)
    }
}

/// Makes the change in `world`, completely or not at all.
fn apply<W: World>(
    key: &Key,
    old: Option<&Value<W>>,
    new: Option<&Value<W>>,
    world: &mut W,
) -> Result<(), Refused> {
    match (old, new) {
        (_, Some(new)) => new.apply(key, old, world),
        (Some(old), None) => old.withdraw(key, world),
        (None, None) => Ok(()),
    }
}

/// Steps that are made one at a time. When one fails, the earlier ones are rolled back, the last one first.
#[derive(Debug)]
pub struct Making<W> {
    steps: Vec<Step<W>>,
    done: usize,
    /// Why the steps are being rolled back; `None` while no step has failed.
    failed: Option<Refusal>,
    /// Failures of the rollback.
    stuck: Vec<String>,
}

impl<W: World> Making<W> {
    /// Begins to make these steps. None is made yet.
    pub fn begin(steps: Vec<Step<W>>, world: &mut W) -> Making<W> {
        world.begin();
        Making { steps, done: 0, failed: None, stuck: Vec::new() }
    }

    /// Makes one step, or rolls one back. Returns true if there is more to do.
    pub fn go_on(&mut self, world: &mut W) -> bool {
        let more = self.go_on_by(world, &mut |step, world| step.run(world));
        if !more {
            world.end();
        }
        more
    }

    pub(super) fn go_on_by(
        &mut self,
        world: &mut W,
        run: &mut impl FnMut(&Step<W>, &mut W) -> Result<(), Refused>,
    ) -> bool {
        if self.failed.is_some() {
            let Some(last) = self.done.checked_sub(1) else { return false };
            self.done = last;
            if let Some(step) = self.steps.get(last)
                && let Err(e) = step.back(world)
            {
                self.stuck.push(format!("{}: {e}", step.key));
            }
            return last > 0;
        }
        let Some(step) = self.steps.get(self.done) else { return false };
        match run(step, world) {
            Ok(()) => self.done += 1,
            Err(why) => self.failed = Some(Refusal { key: Some(step.key.clone()), why }),
        }
        if self.failed.is_some() { self.done > 0 } else { self.done < self.steps.len() }
    }

    /// Starts the rollback, for the reason `why`. If a rollback is already running, does nothing.
    pub fn turn_back(&mut self, why: Refused) {
        self.failed.get_or_insert(Refusal { key: None, why });
    }

    /// True during a rollback.
    pub fn goes_back(&self) -> bool {
        self.failed.is_some()
    }

    /// Returns the number of steps made, and the number of all steps.
    pub fn progress(&self) -> (usize, usize) {
        (self.done, self.steps.len())
    }

    /// Returns the result. Call it when there is nothing more to do. Dropping `self` then takes time in
    /// proportion to the number of steps.
    ///
    /// # Errors
    /// Returns why all steps were rolled back, and the failures of the rollback.
    pub fn end(&mut self) -> Result<(), Refusal> {
        let Some(Refusal { key, why }) = self.failed.take() else { return Ok(()) };
        if self.stuck.is_empty() {
            return Err(Refusal { key, why });
        }
        let stuck = self.stuck.join("; ");
        let why = Refused::new(format!("{why}; and earlier steps could not be rolled back: {stuck}"));
        Err(Refusal { key, why })
    }
}
