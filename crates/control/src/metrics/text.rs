//! The text of an answer, in both of the formats that Prometheus reads. They differ in what describes a metric; samples
//! are the same.

use std::fmt::{Display, Write};

use hyper::body::Bytes;

use super::declared::{Id, Kind, metrics};

/// The lines of samples by metric, while they are collected.
#[derive(Debug)]
pub struct Lines(Vec<String>);

/// All samples of a moment; cheap to clone.
pub type Samples = Vec<Bytes>;

impl Default for Lines {
    /// None yet.
    fn default() -> Lines {
        Lines(vec![String::new(); metrics().len()])
    }
}

impl Lines {
    /// Adds a sample, with a value for each label of the metric.
    pub(super) fn add(&mut self, id: Id, labels: &[&str], value: impl Display) {
        self.add_nth(id as usize, labels, value);
    }

    /// Adds a sample of one of all [`metrics`].
    pub(crate) fn add_nth(&mut self, metric: usize, labels: &[&str], value: impl Display) {
        self.line(metric, "", labels, None, value);
    }

    /// Adds a histogram: for each bound, the last of which is the greatest value that there is, how many values there were
    /// up to it and above the bound before; and the sum of all.
    pub(super) fn add_histogram(&mut self, id: Id, labels: &[&str], buckets: &[(u64, u64)], sum: u64) {
        let (id, mut count) = (id as usize, 0);
        for (bound, values) in buckets {
            count += values;
            self.line(id, "_bucket", labels, Some(&bound.to_string()), count);
        }
        self.line(id, "_bucket", labels, Some("+Inf"), count);
        self.line(id, "_sum", labels, None, sum);
        self.line(id, "_count", labels, None, count);
    }

    fn line(&mut self, id: usize, suffix: &str, labels: &[&str], bound: Option<&str>, value: impl Display) {
        let metric = metrics()[id];
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let line = &mut self.0[id];
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

    /// Adds a sample of nanoseconds, in seconds.
    pub(super) fn add_seconds(&mut self, id: Id, labels: &[&str], ns: u64) {
        self.add(id, labels, format_args!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000));
    }

    /// What was collected.
    pub(super) fn samples(self) -> Samples {
        self.0.into_iter().map(Bytes::from).collect()
    }
}

/// Appends the value of a label.
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

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// What a client with this `Accept` header likes best.
    pub fn wanted(accept: &str) -> Format {
        let quality = |media: &str| {
            let like = accept.split(',').filter(|range| {
                let name = range.split(';').next().unwrap_or_default().trim();
                name.eq_ignore_ascii_case(media)
            });
            let quality = |range: &str| {
                let q = range.split(';').find_map(|parameter| parameter.trim().strip_prefix("q="));
                q.map_or(1.0, |q| q.trim().parse().unwrap_or(0.0))
            };
            like.map(quality).fold(0.0, f32::max)
        };
        let open = quality("application/openmetrics-text");
        if open > 0.0 && open >= quality("text/plain") { Format::OpenMetrics } else { Format::Prometheus }
    }

    /// The value of the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Writes an answer, in pieces. A metric without samples is left out.
    pub fn write(self, samples: Samples) -> impl Iterator<Item = Bytes> {
        let described = metrics().iter().zip(samples).filter(|(_, lines)| !lines.is_empty());
        let all = described.flat_map(move |(metric, lines)| {
            let (name, kind) = match (self, metric.kind) {
                // This format knows no such kind.
                (Format::Prometheus, Kind::Info) => (metric.name, Kind::Gauge.name()),
                (Format::Prometheus, kind) => (metric.name, kind.name()),
                (Format::OpenMetrics, kind) => {
                    (metric.name.strip_suffix(kind.suffix()).unwrap_or(metric.name), kind.name())
                }
            };
            let head = format!("# HELP {name} {}\n# TYPE {name} {kind}\n", metric.help);
            [Bytes::from(head), lines]
        });
        all.chain((self == Format::OpenMetrics).then_some(Bytes::from_static(b"# EOF\n")))
    }
}
