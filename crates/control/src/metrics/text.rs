//! The text of an answer, in both formats of Prometheus. They differ in the descriptions of metrics, and only OpenMetrics has a line at the
//! end.

use std::iter;
use std::sync::Arc;

use hyper::body::Bytes;
use model::metrics::{Kind, Lines, Metric};

/// All samples of one moment, by metric, in pieces.
pub type Collected = Vec<(&'static Metric, Vec<Bytes>)>;

/// Samples as shared by all clients that get them.
pub type Samples = Arc<Collected>;

/// Returns the collected samples.
pub fn samples(lines: Lines) -> Samples {
    let bytes = |(metric, pieces): (_, Vec<String>)| (metric, pieces.into_iter().map(Bytes::from).collect());
    Arc::new(lines.samples().map(bytes).collect())
}

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Returns the preferred format of a client with this `Accept` header.
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

    /// Returns the value of the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Writes an answer, in pieces. Leaves out metrics without samples.
    pub fn write(self, samples: &Samples) -> impl Iterator<Item = Bytes> {
        let all = samples.iter().flat_map(move |(metric, lines)| {
            let (name, kind) = match (self, metric.kind) {
                // The text format of Prometheus has no kind `info`.
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
