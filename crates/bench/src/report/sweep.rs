//! Throughput over the number of routes, sessions or flows.

use super::compare::{bounded, is_limited, measured};
use super::document::{Section, heads, result};
use super::figures;
use super::number::kilo;
use super::routes;
use super::table::Table;
use super::throughput::some;
use crate::campaign::{Cell, Key, Results};
use crate::stats::Runs;

/// A number that a campaign can vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Routes of the router; the traffic uses all of them.
    Routes,
    /// Connections through the router.
    Sessions,
    /// Flows, each with its own four-tuple.
    Flows,
}

impl Count {
    /// Returns the name, in the plural.
    pub fn name(self) -> &'static str {
        match self {
            Count::Routes => "routes",
            Count::Sessions => "sessions",
            Count::Flows => "flows",
        }
    }

    /// Returns this number (routes, sessions or flows) from a key.
    pub fn of(self, key: &Key) -> u32 {
        match self {
            Count::Routes => key.routes,
            Count::Sessions => key.sessions,
            Count::Flows => key.flows,
        }
    }

    /// Returns the key with this number (routes, sessions or flows) set to 0. Keys that differ only in this number become equal.
    pub fn any(self, key: &Key) -> Key {
        let key = key.clone();
        match self {
            Count::Routes => Key { routes: 0, ..key },
            Count::Sessions => Key { sessions: 0, ..key },
            Count::Flows => Key { flows: 0, ..key },
        }
    }

    /// Returns the cells (router, traffic and frame size) whose throughput was measured with several values of this number (routes,
    /// sessions or flows). Each cell comes with the throughputs of its repetitions.
    pub fn swept(self, results: &Results) -> Vec<(&Cell, Runs)> {
        // Without a set number, the number of flows is unknown: most traffic has random ports (RFC 4814).
        let counts = |cell: &Cell| self != Count::Flows || cell.key.flows > 0;
        let all: Vec<_> = measured(results).into_iter().filter(|(cell, _)| counts(cell)).collect();
        let several = |key: &Key| {
            let other =
                |cell: &Cell| self.any(&cell.key) == self.any(key) && self.of(&cell.key) != self.of(key);
            all.iter().any(|(cell, _)| other(cell))
        };
        all.iter().filter(|(cell, _)| several(&cell.key)).map(|(cell, runs)| (*cell, runs.clone())).collect()
    }

    /// Returns the report's explanation of this number.
    fn text(self) -> &'static str {
        match self {
            Count::Routes => {
                "0 routes means that the router has only the routes of the traffic's own few networks; that point is not in the plot."
            }
            Count::Sessions => {
                "0 sessions means that no session is established before the traffic; that point is not in the plot."
            }
            Count::Flows => {
                "Flows are per direction. Each flow has its own ports, and all flows have the same rate."
            }
        }
    }
}

/// Returns a section for each number that the campaign varied (routes, sessions or flows), with a table and plots.
pub fn sections(results: &Results) -> Vec<Section> {
    [Count::Routes, Count::Sessions, Count::Flows]
        .into_iter()
        .filter_map(|count| section(results, count))
        .collect()
}

fn section(results: &Results, count: Count) -> Option<Section> {
    let name = count.name();
    let (head, fits) = (format!("{name}#"), (count == Count::Routes).then_some("fits"));
    let own: Vec<&str> = [&head, "median, kfps#", "ratio to the fewest#"].into_iter().chain(fits).collect();
    let mut table = Table::new(format!("Throughput over {name}, in each direction"), heads(&own));
    let all = count.swept(results);
    for (cell, runs) in &all {
        let same = |other: &&(&Cell, Runs)| count.any(&other.0.key) == count.any(&cell.key);
        let fewest = all.iter().filter(same).min_by_key(|(other, _)| count.of(&other.key));
        let ratio =
            fewest.filter(|(_, runs)| runs.median() > 0.0).map(|(_, few)| runs.median() / few.median());
        let limited = is_limited(cell);
        // A cell's ratio to itself is 1, whether the tester limited it or not.
        let other = fewest.map(|(other, _)| *other).filter(|other| other.key != cell.key);
        let bounds = other.map_or([false; 2], |other| [limited, is_limited(other)]);
        let own = [count.of(&cell.key).to_string(), kilo(runs.median()), bounded(ratio, 3, bounds)];
        let fits = fits.map(|_| routes::fits(results, &cell.key).to_owned());
        result(&mut table, &count.any(&cell.key), limited, own.into_iter().chain(fits));
    }
    let more = if count == Count::Routes { routes::text(results) } else { String::new() };
    some(format!("Throughput over {name}"), &format!("{}{more}", count.text()), table)
        .map(|s| s.with(figures::swept(results, count)))
}
