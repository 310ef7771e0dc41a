//! The metrics, as a stream of samples.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::metrics::{Kind, Row};
use tokio::time::sleep;
use tonic::Status;

use super::v1::{self, metric, sample};
use super::{Replies, Requests};
use crate::metrics::Collection;
use crate::native::client::Client;

/// The shortest interval between two collections.
const SHORTEST: Duration = Duration::from_millis(100);
/// Maximum number of prefixes in a request. The name of each sample is compared with all prefixes.
const MOST_PREFIXES: usize = 32;
/// Maximum length of a prefix, in bytes.
const LONGEST_PREFIX: usize = 100;
/// Maximum number of samples in a message.
const PIECE: usize = 500;

/// Sends the metrics whose names begin with one of the prefixes, or all metrics if the request has no prefixes: once if the interval is 0,
/// otherwise repeatedly.
pub(super) async fn stats(
    client: Rc<Client>,
    mut requests: Requests<v1::StatsRequest>,
    replies: Replies<v1::StatsResponse>,
) -> Result<(), Status> {
    let v1::StatsRequest { interval_ms, prefixes } = requests.only().await?;
    if prefixes.len() > MOST_PREFIXES || prefixes.iter().any(|prefix| prefix.len() > LONGEST_PREFIX) {
        let why =
            format!("at most {MOST_PREFIXES} prefixes are allowed, each of at most {LONGEST_PREFIX} bytes");
        return Err(Status::invalid_argument(why));
    }
    let interval = Duration::from_millis(interval_ms.into());
    if interval_ms > 0 && interval < SHORTEST {
        let why = format!("interval_ms must be 0, or at least {}", SHORTEST.as_millis());
        return Err(Status::invalid_argument(why));
    }
    // Computed once: the two clocks drift apart, and the start time must not move.
    let elapsed = client.look(|c| c.started.elapsed());
    let started = SystemTime::now().checked_sub(elapsed).and_then(|t| t.duration_since(UNIX_EPOCH).ok());
    let started = started.unwrap_or_default();
    loop {
        let begun = Instant::now();
        collect(&client, &replies, started, &prefixes).await?;
        if interval_ms == 0 {
            return Ok(());
        }
        client.rests();
        // At least half of the time is left for other work.
        let took = begun.elapsed();
        sleep(took.max(interval.saturating_sub(took))).await;
        client.works();
    }
}

/// Collects all samples, and sends those of the wanted metrics piece by piece.
async fn collect(
    client: &Client,
    replies: &Replies<v1::StatsResponse>,
    started: Duration,
    prefixes: &[String],
) -> Result<(), Status> {
    let mut collection = Collection::of_rows(started);
    let mut more = true;
    while more {
        more = client.slice(|c| collection.slice(c)).await;
        let is_wanted = |row: &Row| {
            prefixes.is_empty() || prefixes.iter().any(|prefix| row.metric.name.starts_with(prefix.as_str()))
        };
        let rows: Vec<Row> = collection.rows().filter(is_wanted).collect();
        for piece in rows.chunks(PIECE) {
            replies.send(v1::StatsResponse { metrics: grouped(piece), complete: false }).await?;
        }
    }
    replies.send(v1::StatsResponse { metrics: Vec::new(), complete: true }).await
}

/// Returns the samples by metric.
fn grouped(rows: &[Row]) -> Vec<v1::Metric> {
    let mut all: BTreeMap<&str, v1::Metric> = BTreeMap::new();
    for row in rows {
        let metric = all.entry(row.metric.name).or_insert_with(|| v1::Metric {
            name: row.metric.name.into(),
            kind: match row.metric.kind {
                Kind::Counter => metric::Kind::Counter,
                Kind::Gauge => metric::Kind::Gauge,
                Kind::Info => metric::Kind::Info,
                Kind::Histogram => metric::Kind::Histogram,
            }
            .into(),
            labels: row.metric.labels.iter().map(|label| (*label).to_owned()).collect(),
            samples: Vec::new(),
        });
        let value = match (row.value.parse(), row.value.parse()) {
            (Ok(integer), _) => Some(sample::Value::Integer(integer)),
            (Err(_), Ok(number)) => Some(sample::Value::Number(number)),
            (Err(_), Err(_)) => None,
        };
        metric.samples.push(v1::Sample {
            labels: row.labels.clone(),
            value,
            suffix: row.suffix.into(),
            bound: row.bound.clone().unwrap_or_default(),
        });
    }
    all.into_values().collect()
}
