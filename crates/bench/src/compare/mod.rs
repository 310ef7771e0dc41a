//! Better or worse: the results of two campaigns, figure by figure.
//!
//! What both measured (the same router by name, traffic, size, directions and procedure) is compared by the medians of its repetitions.
//! A figure is better or worse when the whole bootstrap interval of the effect lies beyond what the measurement can tell apart. With
//! fewer repetitions than an interval takes nothing is said.
//!
//! Of many figures some differ by chance. The level is that of all judgements together (Bonferroni): of n figures each is judged at
//! 1 − (1 − level) / n. That takes more repetitions: 6 for one figure at 95 %, 11 for 40.

mod conditions;
mod figures;
mod markdown;

use serde::{Deserialize, Serialize};

use crate::campaign::{Cell, Key, Measurement, Procedure, Results};
use crate::stats::{self, Bootstrap, Effect, Runs, Terms, Verdict, Wanted, fewest_runs};

use figures::{Figure, figures};

/// Two campaigns, figure by figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The names of the campaigns: the base, and the new one.
    pub campaigns: [String; 2],
    /// In what they were made under other conditions.
    pub conditions: Vec<String>,
    /// One for each figure that both have.
    pub rows: Vec<Row>,
    /// Figures that are judged: each at the level of all together.
    pub judged: usize,
    /// How a figure is judged.
    pub bootstrap: Bootstrap,
    /// What only the base has.
    pub only_base: Vec<String>,
    /// What only the new one has.
    pub only_new: Vec<String>,
}

/// A figure of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured.
    #[serde(flatten)]
    pub key: Key,
    /// By which procedure.
    pub procedure: Procedure,
    /// What the figure is.
    pub figure: String,
    /// Its unit.
    pub unit: String,
    /// The base.
    pub base: Side,
    /// The new one.
    pub new: Side,
    /// What is said of them.
    pub judgement: Judgement,
}

/// A figure's repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// Their median; `None` without any.
    pub median: Option<f64>,
    /// Those that say something, in their order.
    pub runs: Vec<f64>,
    /// Those that were invalid, or had no result.
    pub left_out: usize,
}

/// What is said of two sets of runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// They were compared.
    Compared(stats::Comparison),
    /// One of the sets is too small.
    TooFew {
        /// Repetitions of the smaller set.
        have: usize,
        /// What it takes.
        needed: usize,
    },
    /// What is behind was limited by the tester: the router may be better than that.
    LimitedByTester(stats::Comparison),
    /// The figures are none that can be compared: why.
    Unfit(String),
}

/// Compares two campaigns, `bootstrap` being for all figures together: its level is raised for each, its resamples grow with that.
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
    /// Whether something is worse beyond the noise.
    pub fn is_worse(&self) -> bool {
        self.has(Verdict::Worse)
    }

    /// Whether a figure was judged so.
    fn has(&self, verdict: Verdict) -> bool {
        self.rows.iter().any(|row| matches!(&row.judgement, Judgement::Compared(c) if c.verdict == verdict))
    }

    /// The comparison as Markdown.
    pub fn markdown(&self) -> String {
        markdown::write(self)
    }
}

/// The level for each of `n` figures, and enough resamples that ten lie beyond either end of its interval.
fn for_each_of(all: &Bootstrap, n: usize) -> Bootstrap {
    let n = n.max(1) as f64;
    let beyond = (1.0 - all.level) / n;
    Bootstrap { level: 1.0 - beyond, resamples: all.resamples.max((20.0 / beyond).ceil() as u32), ..*all }
}

/// A figure of both, not judged yet.
struct Pair<'a> {
    key: &'a Key,
    procedure: Procedure,
    base: Figure,
    new: Figure,
}

/// What both have, in the order of the base.
fn pairs<'a>(base: &'a Results, new: &Results) -> Vec<Pair<'a>> {
    let mut pairs = Vec::new();
    for (cell, old) in measurements(base) {
        let procedure = old.found.procedure();
        let Some(other) = found(new, &cell.key, procedure) else { continue };
        let mut others = figures(other, &new.profile);
        for figure in figures(old, &base.profile) {
            let Some(at) = others.iter().position(|o| o.name == figure.name) else { continue };
            pairs.push(Pair { key: &cell.key, procedure, base: figure, new: others.swap_remove(at) });
        }
    }
    pairs
}

fn measurements(of: &Results) -> impl Iterator<Item = (&Cell, &Measurement)> {
    of.cells.iter().flat_map(|cell| cell.measurements.iter().map(move |m| (cell, m)))
}

fn found<'a>(of: &'a Results, key: &Key, procedure: Procedure) -> Option<&'a Measurement> {
    of.cells.iter().find(|cell| cell.key == *key)?.found(procedure)
}

/// What `one` has and `other` has not, in words.
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
    /// Repetitions of the smaller set.
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

    /// By what the coarser of both can tell apart. A ratio has nothing to say where a run is 0: there it is the difference, in shares of
    /// the greater median.
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
