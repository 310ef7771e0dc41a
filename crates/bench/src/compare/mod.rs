//! Compares the results of two campaigns, figure by figure.
//!
//! A figure that both campaigns have (same router name, traffic, size, directions, procedure, and numbers of routes, connections and flows)
//! is compared by the medians of its repetitions. The figure is better or worse if the whole bootstrap interval of the effect lies beyond
//! the resolution of the measurement. With too few repetitions for an interval there is no verdict.
//!
//! If many figures are compared, some differ by chance, so the confidence level applies to all verdicts together (Bonferroni): each of n
//! figures is judged at 1 − (1 − level) / n. A higher level needs more repetitions: 6 for one figure at 95 %, 11 for 40 figures.

mod conditions;
mod figures;
mod join;
mod markdown;

use serde::{Deserialize, Serialize};

use crate::campaign::{Cell, Key, Measurement, Procedure, Results};
use crate::stats::{self, Bootstrap, Effect, Runs, Terms, Verdict, Wanted, fewest_runs};

use figures::{Figure, figures, is_split};
pub use join::join;

/// Comparison of two campaigns, figure by figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Names of the campaigns: base and new.
    pub campaigns: [String; 2],
    /// Differences in machine, profile, routers and conditions.
    pub conditions: Vec<String>,
    /// One row for each figure that both campaigns have.
    pub rows: Vec<Row>,
    /// Number of figures to judge: those with enough runs for an interval at the confidence level of the whole comparison.
    pub judged: usize,
    /// Bootstrap parameters for each figure.
    pub bootstrap: Bootstrap,
    /// Results and figures that only the base has.
    pub only_base: Vec<String>,
    /// Results and figures that only the new campaign has.
    pub only_new: Vec<String>,
}

/// A figure that both campaigns have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Key of the measured cell: router, traffic, frame size and options of the test.
    #[serde(flatten)]
    pub key: Key,
    /// Procedure of the figure.
    pub procedure: Procedure,
    /// Name of the figure.
    pub figure: String,
    /// Unit of the figure.
    pub unit: String,
    /// Repetitions of the base.
    pub base: Side,
    /// Repetitions of the new campaign.
    pub new: Side,
    /// Verdict on the figure.
    pub judgement: Judgement,
}

/// The repetitions of a figure in one campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Median of the runs; `None` if there are no runs.
    pub median: Option<f64>,
    /// Values of the valid repetitions, in the order of measurement.
    pub runs: Vec<f64>,
    /// Number of repetitions that were invalid or had no result.
    pub left_out: usize,
}

/// Verdict on two sets of runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// The runs were compared.
    Compared(stats::Comparison),
    /// One of the sets has too few repetitions.
    TooFew {
        /// Number of repetitions in the smaller set.
        have: usize,
        /// Number of repetitions needed.
        needed: usize,
    },
    /// The tester may have limited the worse of the two results, so the router of this result may be better than measured.
    LimitedByTester(stats::Comparison),
    /// The figures cannot be compared; the text is the reason.
    Unfit(String),
}

/// Compares two campaigns. The confidence level of `bootstrap` applies to all figures together: each figure gets a higher level, and more
/// resamples for it.
pub fn compare(base: &Results, new: &Results, bootstrap: &Bootstrap) -> Comparison {
    let pairs = pairs(base, new);
    let enough = fewest_runs(bootstrap.level);
    let judged = pairs.iter().filter(|pair| pair.fewest() >= enough).count();
    let bootstrap = for_each_of(bootstrap, judged);
    Comparison {
        campaigns: [base, new].map(|r| r.campaign.name.clone()),
        conditions: conditions::differences(base, new),
        rows: pairs.into_iter().map(|pair| pair.judge(&bootstrap)).collect(),
        judged,
        bootstrap,
        only_base: only(base, new),
        only_new: only(new, base),
    }
}

impl Comparison {
    /// True if a figure is worse beyond the noise.
    pub fn is_worse(&self) -> bool {
        self.has(Verdict::Worse)
    }

    /// True if a figure has this verdict.
    fn has(&self, verdict: Verdict) -> bool {
        self.rows.iter().any(|row| matches!(&row.judgement, Judgement::Compared(c) if c.verdict == verdict))
    }

    /// Returns the comparison as Markdown.
    pub fn markdown(&self) -> String {
        markdown::write(self)
    }
}

/// Returns the bootstrap parameters for each of `n` figures, so that the level of `all` holds for all of them together: a higher
/// level, and enough resamples that ten are outside the interval on each side.
fn for_each_of(all: &Bootstrap, n: usize) -> Bootstrap {
    let n = n.max(1) as f64;
    let beyond = (1.0 - all.level) / n;
    Bootstrap { level: 1.0 - beyond, resamples: all.resamples.max((20.0 / beyond).ceil() as u32), ..*all }
}

/// A figure that both campaigns have, without a verdict yet.
struct Pair<'a> {
    key: &'a Key,
    procedure: Procedure,
    base: Figure,
    new: Figure,
}

/// Returns the figures that both campaigns have, in the base's order. If both campaigns also have a figure for each direction separately,
/// the figure for both directions together is left out.
fn pairs<'a>(base: &'a Results, new: &Results) -> Vec<Pair<'a>> {
    let mut pairs = Vec::new();
    for (cell, old) in measurements(base) {
        let procedure = old.found.procedure();
        let Some(other) = found(new, &cell.key, procedure) else { continue };
        let mut others = figures(other, &new.profile);
        let mut own = Vec::new();
        for figure in figures(old, &base.profile) {
            let Some(at) = others.iter().position(|o| o.name == figure.name) else { continue };
            own.push(Pair { key: &cell.key, procedure, base: figure, new: others.swap_remove(at) });
        }
        // Fewer figures have narrower intervals. So a figure that both campaigns have for each direction is not also compared for both
        // directions together.
        let names: Vec<String> = own.iter().map(|pair| pair.base.name.clone()).collect();
        own.retain(|pair| !is_split(&pair.base.name, names.iter().map(String::as_str)));
        pairs.extend(own);
    }
    pairs
}

fn measurements(of: &Results) -> impl Iterator<Item = (&Cell, &Measurement)> {
    of.cells.iter().flat_map(|cell| cell.measurements.iter().map(move |m| (cell, m)))
}

fn found<'a>(of: &'a Results, key: &Key, procedure: Procedure) -> Option<&'a Measurement> {
    of.cells.iter().find(|cell| cell.key == *key)?.found(procedure)
}

/// Returns descriptions of the results and figures that `one` has and `other` lacks.
fn only(one: &Results, other: &Results) -> Vec<String> {
    let mut all = Vec::new();
    for (Cell { key, .. }, m) in measurements(one) {
        let Key { dut, size, bidirectional, .. } = key;
        let traffic = key.label();
        let both = if *bidirectional { " in both directions" } else { "" };
        let place = format!("{dut}, {traffic}{both}, {size} bytes, {}", m.found.procedure().name());
        match found(other, key, m.found.procedure()) {
            None => all.push(place),
            Some(theirs) => {
                let theirs = figures(theirs, &other.profile);
                let own = figures(m, &one.profile).into_iter();
                let missing = own.filter(|f| !theirs.iter().any(|t| t.name == f.name));
                all.extend(missing.map(|f| format!("{place}: {}", f.name)));
            }
        }
    }
    all
}

impl Pair<'_> {
    /// Returns the number of repetitions of the smaller set.
    fn fewest(&self) -> usize {
        self.base.runs.len().min(self.new.runs.len())
    }

    fn judge(self, bootstrap: &Bootstrap) -> Row {
        let judgement = self.judgement(bootstrap);
        let Pair { key, procedure, base, new, .. } = self;
        let (figure, unit) = (base.name.clone(), base.unit.into());
        Row { key: key.clone(), procedure, figure, unit, base: side(base), new: side(new), judgement }
    }

    fn judgement(&self, bootstrap: &Bootstrap) -> Judgement {
        let (have, needed) = (self.fewest(), fewest_runs(bootstrap.level));
        if have < needed {
            return Judgement::TooFew { have, needed };
        }
        let compared = Runs::new(&self.base.runs).and_then(|base| {
            let new = Runs::new(&self.new.runs)?;
            stats::compare(&new, &base, self.terms(&base, &new), bootstrap)
        });
        match compared {
            Err(e) => Judgement::Unfit(e.to_string()),
            Ok(c) => match c.verdict {
                Verdict::Better if self.base.limited => Judgement::LimitedByTester(c),
                Verdict::Worse if self.new.limited => Judgement::LimitedByTester(c),
                _ => Judgement::Compared(c),
            },
        }
    }

    /// Returns the terms of the comparison, with the coarser of the two resolutions. If a run is 0, a ratio would be meaningless, so the
    /// difference is compared. The resolution of this difference is the relative resolution times the greater median.
    fn terms(&self, base: &Runs, new: &Runs) -> Terms {
        let Terms { wanted, effect, resolution } = self.base.terms;
        let resolution = resolution.max(self.new.terms.resolution);
        if effect == Effect::Ratio && base.minimum().min(new.minimum()) <= 0.0 {
            let resolution = resolution * base.median().max(new.median());
            return Terms { wanted, effect: Effect::Difference, resolution };
        }
        Terms { wanted, effect, resolution }
    }
}

fn side(figure: Figure) -> Side {
    let median = Runs::new(&figure.runs).ok().map(|runs| runs.median());
    Side { median, runs: figure.runs, left_out: figure.left_out }
}

#[cfg(test)]
mod tests;
