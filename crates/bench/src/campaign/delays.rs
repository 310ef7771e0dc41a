//! The delays of a trial, of all directions together and of each one.

use super::results::{Delays, DirectionDelays};
use crate::engine::run::{Direction, FlowReport, Report};
use crate::engine::sender::Mode;
use crate::stats::Error;
use crate::stats::ipdv::IpdvFigures;
use crate::stats::jitter::Jitter;
use crate::stats::latency::{DelayHistogram, Ranked as _};
use crate::trial::Failure;

/// Returns the delays of all time-stamped frames of a trial with these directions. A lost frame counts as if its delay were the trial's
/// time plus the wait for late frames. `None` if no time-stamped frame arrived.
///
/// # Errors
/// Returns an error if a delay cannot be counted.
pub(super) fn delays(directions: &[Direction], report: &Report) -> Result<Option<Delays>, Failure> {
    let stamped: Vec<Vec<&FlowReport>> = directions
        .iter()
        .zip(&report.directions)
        .map(|(direction, flows)| {
            let both = direction.flows.iter().zip(flows);
            both.filter(|(flow, _)| flow.mode == Mode::Stamped).map(|(_, came)| came).collect()
        })
        .collect();
    if !stamped.iter().flatten().any(|flow| flow.delays.frames() > 0) {
        return Ok(None);
    }
    let failed = |e: Error| Failure(format!("the delays: {e}"));
    let all: Vec<&FlowReport> = stamped.concat();
    let Some(received) = sum(&all).map_err(failed)? else { return Ok(None) };
    let bins = received.bins();
    let figures = with_lost(received, &all).and_then(|all| all.figures()).map_err(failed)?;
    let mut each = Vec::new();
    if stamped.len() > 1 {
        for flows in &stamped {
            let Some(received) = sum(flows).map_err(failed)? else { continue };
            let figures = with_lost(received, flows).and_then(|all| all.figures()).map_err(failed)?;
            each.push(DirectionDelays { figures, ipdv: ipdv(flows).map_err(failed)? });
        }
    }
    let jitter = Jitter::figures(all.iter().map(|flow| &flow.jitter));
    Ok(Some(Delays { figures, ipdv: ipdv(&all).map_err(failed)?, jitter, bins, directions: each }))
}

/// Returns the delays of the received frames of these flows; `None` if `flows` is empty.
fn sum(flows: &[&FlowReport]) -> Result<Option<DelayHistogram>, Error> {
    let Some((first, others)) = flows.split_first() else { return Ok(None) };
    let mut all = first.delays.clone();
    others.iter().try_for_each(|flow| all.add(&flow.delays))?;
    Ok(Some(all))
}

/// Returns the delays with the lost frames of these flows added. Each lost frame counts with the histogram's penalty delay.
fn with_lost(mut received: DelayHistogram, flows: &[&FlowReport]) -> Result<DelayHistogram, Error> {
    for flow in flows {
        received.record_lost(flow.intended.saturating_sub(flow.tally.received))?;
    }
    Ok(received)
}

/// Returns the delay differences of successive frames of these flows, if they were recorded.
fn ipdv(flows: &[&FlowReport]) -> Result<Option<IpdvFigures>, Error> {
    let mut each = flows.iter().filter_map(|flow| flow.ipdv.as_ref());
    let Some(mut all) = each.next().cloned() else { return Ok(None) };
    each.try_for_each(|other| all.add(other))?;
    Ok(all.figures().ok())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use buf::{Pool, RxQueue, TxQueue};
    use wire::Mac;

    use super::*;
    use crate::cable::cable;
    use crate::engine::limits::Limits;
    use crate::engine::run::{Engine, Port};
    use crate::sim::{Delay, Path, link};
    use crate::traffic::{Ends, builtin};
    use crate::trial::Request;

    type Error = Box<dyn std::error::Error>;
    type Ends2 = (Box<dyn TxQueue>, Box<dyn RxQueue>);

    /// Returns the delays of a trial in both directions. `forth` has the queues of the direction from the first port to the second, and
    /// `back` those of the opposite direction. `None` if no time-stamped frame arrived.
    fn measured(forth: Ends2, back: Ends2) -> Result<Option<Delays>, Error> {
        let pool = Pool::new(8192)?;
        let (left, right) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        let traffic = builtin("rfc2544", 64).ok_or("no traffic")?;
        let flows = |turned| traffic.flows(&Ends::rfc(left, right, turned));
        let directions = vec![
            Direction { from: 0, to: 1, flows: flows(false)? },
            Direction { from: 1, to: 0, flows: flows(true)? },
        ];
        let ports = vec![
            Port { tx: forth.0, more: Vec::new(), rx: back.1, hosts: None },
            Port { tx: back.0, more: Vec::new(), rx: forth.1, hosts: None },
        ];
        let wait = Duration::from_millis(20);
        let mut engine = Engine::new(ports, directions, &pool, Limits::NONE, wait, 1);
        engine.record_ipdv(true);
        let request = Request { load_fps: 10_000.0, duration: Duration::from_millis(50) };
        let (_, report) = engine.run(request)?;
        Ok(delays(engine.directions(), &report)?)
    }

    fn delayed(ns: u64) -> Ends2 {
        let (tx, rx, _) = link(Path::new(1).delay(Delay::Fixed(ns)));
        (tx, rx)
    }

    #[test]
    fn each_direction_has_its_own_delays() -> Result<(), Error> {
        let all = measured(delayed(1_000_000), delayed(5_000_000))?.ok_or("no delays")?;
        let [forth, back] = &all.directions[..] else { return Err("not two directions".into()) };
        assert!((1_000_000..5_000_000).contains(&forth.figures.minimum_ns), "{forth:?}");
        assert!(back.figures.minimum_ns >= 5_000_000, "{back:?}");
        assert_eq!(forth.figures.frames + back.figures.frames, all.figures.frames);
        assert_eq!(all.figures.minimum_ns, forth.figures.minimum_ns);
        // Both links delay by a constant time, so frames differ by the machine's own jitter only.
        let jitter = all.jitter.ok_or("no jitter")?;
        assert!(jitter.mean_ns < 2_000_000.0 && jitter.smoothed_ns >= 0.0, "{jitter:?}");
        let pairs = |ipdv: &Option<IpdvFigures>| ipdv.as_ref().map(|ipdv| ipdv.pairs);
        assert_eq!((pairs(&forth.ipdv), pairs(&all.ipdv)), (Some(499), Some(998)));
        Ok(())
    }

    /// A direction in which nothing arrives must not make the delays look better.
    #[test]
    fn a_silent_direction_counts_as_lost() -> Result<(), Error> {
        let (nowhere, silent) = (cable(4096).0, cable(1).1);
        let all = measured(delayed(1_000_000), (nowhere, silent))?.ok_or("no delays")?;
        let lost = |figures: &crate::stats::latency::LatencyFigures| (figures.frames, figures.lost.frames);
        assert_eq!(lost(&all.figures), (1_000, 500));
        let each: Vec<_> = all.directions.iter().map(|way| lost(&way.figures)).collect();
        assert_eq!(each, [(500, 0), (500, 500)]);
        let nothing = || (cable(4096).0, cable(1).1);
        assert_eq!(measured(nothing(), nothing())?, None);
        Ok(())
    }
}
