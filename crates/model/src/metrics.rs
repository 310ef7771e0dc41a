//! Metrics: their declarations, and their samples as lines of text. These lines are the same in both text formats for Prometheus.

use std::collections::HashMap;
use std::fmt::{Display, Write};

/// The kind of a metric's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The value only grows, from the start of the process.
    Counter,
    /// The value rises and falls.
    Gauge,
    /// The value is always 1, and the labels carry the information.
    Info,
    /// For each of several bounds, the number of values that do not exceed it. Also the number of all values, and their sum. All
    /// these numbers only grow.
    Histogram,
}

impl Kind {
    /// Returns the kind's name in OpenMetrics.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Info => "info",
            Kind::Histogram => "histogram",
        }
    }

    /// Returns the suffix of sample names. In OpenMetrics, the name of the metric family does not contain it.
    pub fn suffix(self) -> &'static str {
        match self {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
            Kind::Info => "_info",
        }
    }
}

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// The name of its samples.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The labels of its samples.
    pub labels: &'static [&'static str],
    /// Its description.
    pub help: &'static str,
}

/// Maximum length of a text in [`Lines`], in bytes. The lines of a metric are stored in several texts, because a long text is copied when
/// it grows.
const PIECE: usize = 64 << 10;

/// A sample that is not text yet.
#[derive(Clone, Debug)]
pub struct Row {
    /// The metric.
    pub metric: &'static Metric,
    /// The suffix of the name, for a histogram.
    pub suffix: &'static str,
    /// The value of each label of the metric.
    pub labels: Vec<String>,
    /// The upper bound, for a bucket of a histogram.
    pub bound: Option<String>,
    /// The value.
    pub value: String,
}

/// The lines of samples collected so far, by metric.
#[derive(Debug, Default)]
pub struct Lines {
    /// The rows collected so far; `None` if lines of text are collected.
    rows: Option<Vec<Row>>,
    /// Each metric that has samples, and the lines of these samples as texts of limited length.
    of: Vec<(&'static Metric, Vec<String>)>,
    /// The position of each metric in the list `of`, by name of the metric.
    places: HashMap<&'static str, usize>,
}

impl Lines {
    /// Returns an empty list that collects rows instead of lines of text.
    pub fn as_rows() -> Lines {
        Lines { rows: Some(Vec::new()), ..Lines::default() }
    }

    /// Returns the rows collected since the last call.
    pub fn take_rows(&mut self) -> Vec<Row> {
        self.rows.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Adds a sample, with a value for each label of the metric.
    pub fn add(&mut self, metric: impl Into<&'static Metric>, labels: &[&str], value: impl Display) {
        self.line(metric.into(), "", labels, None, value);
    }

    /// Adds a sample whose value is `ns` nanoseconds, written in seconds.
    pub fn add_seconds(&mut self, metric: impl Into<&'static Metric>, labels: &[&str], ns: u64) {
        self.add(metric, labels, format_args!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000));
    }

    /// Adds a histogram. `buckets` has, for each bound, the number of values above the previous bound and up
    /// to this one; the last bound is the greatest possible value. `sum` is the sum of all values.
    pub fn add_histogram(
        &mut self,
        metric: impl Into<&'static Metric>,
        labels: &[&str],
        buckets: &[(u64, u64)],
        sum: u64,
    ) {
        let (metric, mut count) = (metric.into(), 0);
        for (bound, values) in buckets {
            count += values;
            self.line(metric, "_bucket", labels, Some(&bound.to_string()), count);
        }
        self.line(metric, "_bucket", labels, Some("+Inf"), count);
        self.line(metric, "_sum", labels, None, sum);
        self.line(metric, "_count", labels, None, count);
    }

    fn line(
        &mut self,
        metric: &'static Metric,
        suffix: &'static str,
        labels: &[&str],
        bound: Option<&str>,
        value: impl Display,
    ) {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        if let Some(rows) = &mut self.rows {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            let (bound, value) = (bound.map(str::to_owned), value.to_string());
            return rows.push(Row { metric, suffix, labels, bound, value });
        }
        let place = *self.places.entry(metric.name).or_insert_with(|| {
            self.of.push((metric, Vec::new()));
            self.of.len() - 1
        });
        let pieces = &mut self.of[place].1;
        if pieces.last().is_none_or(|piece| piece.len() >= PIECE) {
            pieces.push(String::new());
        }
        let Some(line) = pieces.last_mut() else { return };
        line.push_str(metric.name);
        line.push_str(suffix);
        let mut before = '{';
        let bound = bound.map(|bound| (&"le", bound));
        for (label, value) in metric.labels.iter().zip(labels.iter().copied()).chain(bound) {
            line.push(before);
            line.push_str(label);
            line.push_str("=\"");
            escape(line, value);
            line.push('"');
            before = ',';
        }
        line.push_str(if before == ',' { "} " } else { " " });
        // Writing to a string cannot fail.
        let _ = writeln!(line, "{value}");
    }

    /// Returns the samples by metric, in pieces of whole lines.
    pub fn samples(self) -> impl Iterator<Item = (&'static Metric, Vec<String>)> {
        self.of.into_iter()
    }
}

/// Appends `value`, escaped for the value of a label.
fn escape(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}
