//! The procedures that a campaign runs for each router, traffic and frame size.

mod delays;
mod outage;
mod searches;
mod sessions;
mod silence;

use std::thread;
use std::time::{Duration, Instant};

use super::Campaign;
use super::procedure::Procedure;
use super::recorded::{Recorded, Strain};
use super::results::{Disorder, Found, Measurement};
use super::run::time_left;
use crate::engine::limits::Absence;
use crate::search::profile::{Profile, Waits};
use crate::search::{Ended, Progress, Valid};
use crate::sessions::Establish as _;
use crate::trial::{Failure, Measure as _, Request};

/// Lowest load of searches, in frames per second.
pub(super) const LEAST: f64 = 1_000.0;
/// Sending time of a warm-up trial.
const WARM_UP: Duration = Duration::from_millis(300);
/// Time for which the warm-up trial is repeated while a router loses frames.
const PATIENCE: Duration = Duration::from_secs(5);
/// Number of connections in the warm-up of a stateful router.
const FEW: u64 = 64;
/// Share of the tester's maximum rate. Above this share, the tester may have limited a result; below it, the router did.
const OURS: f64 = 0.9;

/// Context in which procedures run.
pub(super) struct Bench<'a> {
    /// Runner of the trials, which repeats invalid ones.
    pub valid: Valid<Recorded<'a>>,
    /// The campaign.
    pub campaign: &'a Campaign,
    /// Times and repetitions.
    pub profile: &'a Profile,
    /// Number of the first repetition to run, from 1 on.
    pub round: u32,
    /// Maximum rate of the tester, in frames per second per direction.
    pub tester_fps: f64,
    /// Maximum rate of the link, in frames per second per direction.
    pub link_fps: f64,
    /// The router's throughput in frames per second per direction, once it is known.
    pub throughput_fps: Option<f64>,
    /// The router's connection establishment rate in connections per second, once it is known.
    pub session_fps: Option<f64>,
    /// Receives progress lines.
    pub say: &'a dyn Fn(&str),
}

impl Bench<'_> {
    /// Runs a procedure.
    ///
    /// # Errors
    /// Returns the cause if there is no result.
    pub fn run(&mut self, procedure: Procedure) -> Result<Measurement, Failure> {
        self.valid.inner_mut().procedure = procedure;
        self.valid.inner_mut().repetition = 1;
        self.valid.inner_mut().strain = Strain::default();
        self.valid.inner_mut().disorder = Disorder::default();
        self.valid.inner_mut().absence = Absence::default();
        let (before, repeated) = (self.valid.inner().counters(), self.valid.repeated());
        let (found, unproved) = match procedure {
            Procedure::Throughput => searches::throughput(self)?,
            Procedure::LossRate => searches::loss_rate(self)?,
            Procedure::BackToBack => searches::back_to_back(self)?,
            Procedure::NdrPdr => searches::ndr_pdr(self)?,
            Procedure::MaximumReceiveRate => searches::maximum_receive_rate(self)?,
            Procedure::Soak => searches::soak(self)?,
            Procedure::Latency => delays::latency(self)?,
            Procedure::Variation => delays::variation(self)?,
            Procedure::Loads => delays::loads(self)?,
            Procedure::Recovery => outage::recovery(self)?,
            Procedure::Reset => outage::reset(self)?,
            Procedure::SessionRate => sessions::rate(self)?,
            Procedure::SessionCapacity => sessions::capacity(self)?,
            Procedure::SessionTeardown => sessions::teardown(self)?,
            Procedure::SelfTest | Procedure::WarmUp => {
                return Err(Failure(format!("internal error: a campaign cannot run {}", procedure.name())));
            }
        };
        let limited_by_tester = unproved || self.is_limited(&found);
        let counters = counted(&before, self.valid.inner().counters());
        let repeated = self.valid.repeated() - repeated + sessions::repeated(&found);
        let (disorder, absence) = (self.valid.inner().disorder, Some(self.valid.inner().absence));
        Ok(Measurement { found, limited_by_tester, repeated, disorder, absence, counters })
    }

    /// Resolves neighbors and fills tables and caches before the first trial that counts.
    ///
    /// # Errors
    /// Returns an error if a trial fails, or if the router forwards nothing. In the second case, the error lists what the tester observed.
    pub fn warm_up(&mut self) -> Result<(), Failure> {
        let trials = self.valid.inner_mut();
        trials.procedure = Procedure::WarmUp;
        let request = Request { load_fps: LEAST, duration: WARM_UP };
        // A router that has just started may still run duplicate address detection (RFC 4862 section 5.4).
        let until = Instant::now() + PATIENCE;
        let mut outcome = trials.measure(request)?;
        while outcome.lost() > 0 && Instant::now() < until {
            outcome = trials.measure(request)?;
        }
        if outcome.received == 0 {
            let said = trials.dut.map(|dut| dut.said()).unwrap_or_default();
            let told = trials.last.as_ref().map(|trial| silence::told(trial, &trials.counters(), &said));
            return Err(Failure(told.unwrap_or_default()));
        }
        // Warm up the responder's side, too.
        while let Some(few) = trials.sessions.as_ref().map(|s| s.connections.min(FEW)) {
            if trials.establish(few, LEAST)?.holds() || Instant::now() > until {
                break;
            }
        }
        thread::sleep(self.profile.waits.after_routes + self.profile.waits.after_learning);
        Ok(())
    }

    /// True if the tester, not the router, may have limited the result.
    ///
    /// The tester may have limited a rate that is near the tester's own maximum rate. If the result is not a rate, the largest load is
    /// compared with this maximum instead. The tester may also have limited a result if its ports refused frames, since these count as
    /// lost. In searches for a rate, refused frames matter only at the lowest load that had loss.
    fn is_limited(&self, found: &Found) -> bool {
        let strain = &self.valid.inner().strain;
        let near = |fps: f64| fps > OURS * self.tester_fps;
        match found {
            Found::Throughput(_) | Found::NdrPdr(_) | Found::SessionRate(_) => {
                strain.is_bound() || self.reached(found).is_some_and(near)
            }
            Found::MaximumReceiveRate(_) => strain.refused || self.reached(found).is_some_and(near),
            Found::Latency(all) | Found::Variation(all) | Found::Loads(all) => {
                all.iter().any(|at| at.limited_by_tester == Some(true))
            }
            _ => self.is_strained(),
        }
    }

    /// True if, since the last reset of `strain`, a trial came near the tester's maximum rate or the tester's ports refused frames.
    fn is_strained(&self) -> bool {
        let strain = &self.valid.inner().strain;
        strain.refused || strain.most_fps > OURS * self.tester_fps
    }

    /// Returns the rate in a result, in frames or connections per second: the median of the repetitions. If the result has a rate for each
    /// goal or load, returns the highest one. `None` if the result has no rate.
    fn reached(&self, found: &Found) -> Option<f64> {
        match found {
            Found::Throughput(_) => self.throughput_fps,
            Found::SessionRate(_) => self.session_fps,
            Found::NdrPdr(searches) => {
                let goals = searches.iter().flat_map(|search| &search.goals);
                goals.filter_map(|goal| goal.lower_fps).reduce(f64::max)
            }
            Found::MaximumReceiveRate(result) => {
                result.points.iter().filter_map(|p| p.mean_fps).reduce(f64::max)
            }
            _ => None,
        }
    }

    /// Returns the highest load to try, in frames per second.
    fn max_fps(&self) -> f64 {
        self.tester_fps.min(self.link_fps).max(2.0 * LEAST)
    }

    /// Reports the start of repetition `run` out of `of`, and the time left. That time covers the remaining repetitions at this
    /// load, and all repetitions at `after` further loads.
    fn tell_run(&self, what: &str, (run, of): (u32, u32), duration: Duration, after: usize) {
        let Waits { residual, restabilise, .. } = self.profile.waits;
        let rest = (of + 1).saturating_sub(run) + of.saturating_mul(after as u32);
        let left = time_left((duration + residual + restabilise).saturating_mul(rest));
        (self.say)(&format!("  {what}: {run}/{of}; {left}"));
    }

    /// Returns the throughput, for procedures that need it.
    fn throughput(&self) -> Result<f64, Failure> {
        let none = || {
            Failure("this procedure needs a throughput, but none was found: the router loses frames at every load".into())
        };
        self.throughput_fps.filter(|fps| *fps > 0.0).ok_or_else(none)
    }
}

/// Returns the increase of each counter between two readings. If a value is not a number, or the counter was reset in between, returns the
/// value of the second reading.
fn counted(before: &[(String, String)], after: Vec<(String, String)>) -> Vec<(String, String)> {
    let less = |(name, now): (String, String)| {
        let then = before.iter().find(|(known, _)| *known == name);
        let more = then.and_then(|(_, then)| now.parse::<u64>().ok()?.checked_sub(then.parse().ok()?));
        let value = more.map_or(now, |more| more.to_string());
        (name, value)
    };
    after.into_iter().map(less).collect()
}

/// Reports the progress of a search.
fn tell(what: &str, p: &Progress<'_>, say: &dyn Fn(&str)) {
    let goal = if p.goal.is_empty() { String::new() } else { format!(" {}", p.goal) };
    let (load, loss) = (p.outcome.request.load_fps, p.outcome.loss_ratio() * 100.0);
    let trial = format!("trial {}, {load:.0} fps: {loss:.4} % lost", p.tally.trials);
    say(&format!("  {what}{goal}: {trial}; {} s or less left", p.time_left.as_secs()));
}

/// Returns `result`, or an error if the search ended with a failed trial.
fn completed<T>(ended: &Ended, result: T) -> Result<T, Failure> {
    match ended {
        Ended::Failed(why) => Err(Failure(why.clone())),
        _ => Ok(result),
    }
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn counters_cover_only_their_procedure() {
        let of = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
        };
        let before = of(&[("forwarded", "100"), ("restarted", "50"), ("rate", "1.5 k"), ("gone", "1")]);
        let after = of(&[("forwarded", "130"), ("restarted", "20"), ("rate", "2 k"), ("new", "7")]);
        let expected = of(&[("forwarded", "30"), ("restarted", "20"), ("rate", "2 k"), ("new", "7")]);
        assert_eq!(counted(&before, after), expected);
    }
}
