//! Automatic balancing: moves receive queues and flows when one worker is overloaded while another has capacity.
//!
//! A router without this feature assigns new queues to the workers with the fewest queues, and moves none later.

#![forbid(unsafe_code)]

mod plan;
#[cfg(test)]
mod tests;

use graph::{Builder, GraphError};
use net::Tables;
use net::feature::{self, App};
use net::router::{Hooks, Router};

use plan::{Change, Checks, Queue, Situation};

/// The feature.
pub struct Feature;

impl<C: App> feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "balancer"
    }

    fn about(&self) -> &'static str {
        "Moves queues and flows from overloaded workers to others."
    }

    fn install(&self, _: &mut Builder, _: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        install(hooks)
    }
}

/// Registers the check of the workers' loads, which runs in each iteration of the main thread's loop.
pub fn install(hooks: &mut Hooks) -> Result<(), GraphError> {
    hooks.state(|_| Ok(Balance::default()))?;
    hooks.on_turn(turn);
    Ok(())
}

/// State of the balancing.
#[derive(Default)]
struct Balance {
    /// Time of the last load measurement that the balancer has handled, in nanoseconds of the monotonic clock.
    handled: u64,
    checks: Checks,
}

/// Handles the latest measurement of the workers' loads, unless this measurement has been handled before. Always returns `None`, which
/// requests no call at a certain time.
fn turn(router: &mut Router, _: u64) -> Option<u64> {
    let (measured, loads) = router.loads();
    if router.state::<Balance>().is_ok_and(|balance| balance.handled < measured) {
        let loads = loads.to_vec();
        router.state_mut::<Balance>().ok()?.handled = measured;
        react(router, &loads);
    }
    None
}

/// Reacts to the workers' loads (0 to 1) of one measurement.
fn react(router: &mut Router, loads: &[f64]) {
    let slots = router.tables().placement.slots();
    let queues: Vec<Queue> = slots.iter().map(|s| Queue { at: s.attention(), of: s.of }).collect();
    let shards = router.shards().clone();
    let situation = Situation {
        queues: &queues,
        workers: router.workers(),
        shards: &shards,
        fixed: router.shards_chosen(),
    };
    let Ok(balance) = router.state_mut::<Balance>() else { return };
    let Some(Change { queues, shards, what }) = balance.checks.plan(loads, &situation) else { return };
    match router.arrange(&slots, queues, shards) {
        Ok(()) => {
            let time = router.stood_still().as_micros();
            tracing::info!(event = "workers", "{what}; queues were paused for {time} µs");
        }
        Err(e) => tracing::warn!(event = "workers", "balancing failed: {e}"),
    }
}
