//! Procedures that evaluate only frame loss: searches for a load, and trials at given loads.

use super::super::results::{Found, median_throughput};
use super::{Bench, LEAST, completed, tell};
use crate::search::BadInput;
use crate::search::fixed::{Fixed, FixedResult};
use crate::trial::Failure;

fn bad(e: BadInput) -> Failure {
    Failure(e.to_string())
}

/// The result, and true if one of its bounds relies on invalid trials.
type Result = std::result::Result<(Found, bool), Failure>;

/// Runs `search` for each repetition and returns all results. Passes `search` the text for progress lines: `what`, followed by the number
/// of the repetition.
fn repeated<'a, T>(
    b: &mut Bench<'a>,
    what: &str,
    mut search: impl FnMut(&mut Bench<'a>, &str) -> std::result::Result<T, Failure>,
) -> std::result::Result<Vec<T>, Failure> {
    let last = b.round + b.profile.repetitions - 1;
    let of = last.max(b.campaign.profile().repetitions);
    let mut all = Vec::new();
    for repetition in b.round..=last {
        b.valid.inner_mut().repetition = repetition;
        all.push(search(b, &format!("{what} {repetition}/{of}"))?);
    }
    Ok(all)
}

pub(super) fn throughput(b: &mut Bench<'_>) -> Result {
    let search = b.profile.throughput(LEAST, b.max_fps());
    let searches = repeated(b, "throughput", |b, what| {
        let result = search.search(&mut b.valid, &mut |p| tell(what, p, b.say)).map_err(bad)?;
        completed(&result.ended.clone(), result)
    })?;
    b.throughput_fps = median_throughput(&searches);
    let unproved = searches.iter().any(|s| s.upper_unproved);
    Ok((Found::Throughput(searches), unproved))
}

pub(super) fn loss_rate(b: &mut Bench<'_>) -> Result {
    let search = b.profile.loss_rate(b.max_fps());
    let result = search.search(&mut b.valid, &mut |p| tell("loss rate", p, b.say)).map_err(bad)?;
    Ok((Found::LossRate(completed(&result.ended.clone(), result)?), false))
}

pub(super) fn back_to_back(b: &mut Bench<'_>) -> Result {
    // Bursts use the link's rate, or the tester's maximum rate if that is lower.
    let search = b.profile.back_to_back(b.max_fps(), b.throughput()?);
    let result = search.search(&mut b.valid, &mut |p| tell("back-to-back", p, b.say)).map_err(bad)?;
    Ok((Found::BackToBack(completed(&result.ended.clone(), result)?), false))
}

pub(super) fn ndr_pdr(b: &mut Bench<'_>) -> Result {
    let search = b.profile.mlr(LEAST, b.max_fps());
    let searches = repeated(b, "NDR and PDR", |b, what| {
        let result = search.search(&mut b.valid, &mut |p| tell(what, p, b.say)).map_err(bad)?;
        match result.goals.iter().find_map(|g| completed(&g.ended, ()).err()) {
            Some(failed) => Err(failed),
            None => Ok(result),
        }
    })?;
    let unproved = searches.iter().flat_map(|s| &s.goals).any(|g| g.upper_unproved);
    Ok((Found::NdrPdr(searches), unproved))
}

pub(super) fn maximum_receive_rate(b: &mut Bench<'_>) -> Result {
    let asked = Fixed::maximum_receive_rate(b.max_fps(), b.profile.duration, b.profile.repetitions);
    Ok((Found::MaximumReceiveRate(fixed(b, "maximum receive rate", &asked)?), false))
}

pub(super) fn soak(b: &mut Bench<'_>) -> Result {
    let soak = b.campaign.soak;
    let asked = Fixed::soak(b.throughput()? * soak.share, soak.total(), soak.each());
    Ok((Found::Soak(fixed(b, "soak", &asked)?), false))
}

fn fixed(b: &mut Bench<'_>, what: &str, asked: &Fixed) -> std::result::Result<FixedResult, Failure> {
    let result = asked.run(&mut b.valid, &mut |p| tell(what, p, b.say)).map_err(bad)?;
    completed(&result.ended.clone(), result)
}
