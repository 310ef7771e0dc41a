//! The text of an answer, in both of the formats that Prometheus reads. They differ in what describes a metric; samples
//! are the same.

use std::iter;
use std::sync::Arc;

use hyper::body::Bytes;
use model::metrics::{Kind, Lines, Metric};

/// All samples of a moment, by metric, in pieces.
pub type Collected = Vec<(&'static Metric, Vec<Bytes>)>;

/// Samples as they are given out: all who are given the same ones share their memory.
pub type Samples = Arc<Collected>;

/// What was collected.
pub fn samples(lines: Lines) -> Samples {
    let bytes = |(metric, pieces): (_, Vec<String>)| (metric, pieces.into_iter().map(Bytes::from).collect());
    Arc::new(lines.samples().map(bytes).collect())
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
    pub fn write(self, samples: &Samples) -> impl Iterator<Item = Bytes> {
        let all = samples.iter().flat_map(move |(metric, lines)| {
            let (name, kind) = match (self, metric.kind) {
                // This format knows no such kind.
                (Format::Prometheus, Kind::Info) => (metric.name, Kind::Gauge.name()),
                (Format::Prometheus, kind) => (metric.name, kind.name()),
                (Format::OpenMetrics, kind) => {
                    (metric.name.strip_suffix(kind.suffix()).unwrap_or(metric.name), kind.name())
                }
            };
            let head = format!("# HELP {name} {}\n# TYPE {name} {kind}\n", metric.help);
            iter::once(Bytes::from(head)).chain(lines.iter().cloned())
        });
        all.chain((self == Format::OpenMetrics).then_some(Bytes::from_static(b"# EOF\n")))
    }
}
