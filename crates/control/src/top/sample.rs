//! The router's answers at one moment.

use std::collections::HashMap;
use std::time::Instant;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cli::client::{Connection, Failure};

/// The state of the router at one moment.
pub struct Sample {
    /// The time of this state.
    pub at: Instant,
    pub interfaces: Vec<Interface>,
    pub threads: Vec<Thread>,
    pub drops: Vec<Drops>,
}

/// An interface in `show interface --json`.
#[derive(Deserialize)]
pub struct Interface {
    pub name: String,
    pub admin_up: bool,
    pub link_up: bool,
    pub absent: bool,
    #[serde(default)]
    counters: Vec<Counter>,
    pub rates: Option<Rates>,
}

#[derive(Deserialize)]
struct Counter {
    name: String,
    count: u64,
}

/// The rates of an interface, as measured by the router.
#[derive(Clone, Copy, Default, Deserialize)]
pub struct Rates {
    pub rx_packets_per_second: f64,
    pub rx_bits_per_second: f64,
    pub tx_packets_per_second: f64,
    pub tx_bits_per_second: f64,
    pub drops_per_second: f64,
}

/// A worker and its nodes in `show runtime --json`.
#[derive(Deserialize)]
pub struct Thread {
    pub thread: String,
    pub since_start: Spent,
    pub nodes: Vec<Node>,
}

/// The use of a worker's time.
#[derive(Clone, Copy, Default, Deserialize)]
pub struct Spent {
    pub turns: u64,
    pub busy_seconds: f64,
    pub idle_seconds: f64,
    pub sleeps: u64,
}

/// A node on a worker.
#[derive(Deserialize)]
pub struct Node {
    pub name: String,
    pub state: String,
    pub since_start: Totals,
}

/// The work of a node.
#[derive(Clone, Copy, Default, Deserialize)]
pub struct Totals {
    pub calls: u64,
    pub packets: u64,
    pub timed_packets: u64,
    pub clocks: u64,
}

/// An entry of `show errors --json`: the number of packets that a node counted for one reason.
#[derive(Deserialize)]
pub struct Drops {
    pub count: u64,
    pub node: String,
    pub name: String,
    pub reason: String,
    pub severity: String,
    pub dropped: bool,
}

impl Interface {
    /// Returns the state of the interface as a word.
    pub fn state(&self) -> &'static str {
        match self {
            Interface { absent: true, .. } => "absent",
            Interface { admin_up: false, .. } => "down",
            Interface { link_up: false, .. } => "no link",
            _ => "up",
        }
    }

    /// Returns a counter by its name; 0 if it is not listed.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.iter().find(|counter| counter.name == name).map_or(0, |counter| counter.count)
    }
}

impl Sample {
    /// Queries the router for a sample.
    ///
    /// # Errors
    /// If the router refuses, is gone, or gives an unknown answer because it is another version.
    pub fn ask(connection: &mut Connection, interrupted: &dyn Fn() -> bool) -> Result<Sample, Failure> {
        Ok(Sample {
            interfaces: answer(connection, "show interface", interrupted)?,
            threads: answer(connection, "show runtime", interrupted)?,
            drops: answer(connection, "show errors", interrupted)?,
            at: Instant::now(),
        })
    }

    /// Returns the totals of each node on each worker.
    pub fn nodes(&self) -> HashMap<(&str, &str), Totals> {
        let mut all = HashMap::new();
        for thread in &self.threads {
            all.extend(thread.nodes.iter().map(|n| ((&*thread.thread, &*n.name), n.since_start)));
        }
        all
    }
}

/// Maximum size of an answer in bytes: the parsed rows of an answer need many times its size in memory. An answer with 10,000 interfaces is
/// smaller than this maximum.
const LARGEST_ANSWER: usize = 16 << 20;

fn answer<T: DeserializeOwned>(
    connection: &mut Connection,
    command: &str,
    interrupted: &dyn Fn() -> bool,
) -> Result<T, Failure> {
    let text = connection.output(command, true, interrupted)?;
    if text.len() > LARGEST_ANSWER {
        let mib = LARGEST_ANSWER >> 20;
        return Err(Failure::Refused(format!("the answer to \"{command}\" has more than {mib} MiB")));
    }
    let unknown = |error| {
        Failure::Refused(format!("unknown answer to \"{command}\" ({error}): is the router another version?"))
    };
    serde_json::from_slice(&text).map_err(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Cli;

    #[test]
    fn answers_of_a_router_are_parsed() {
        let mut cli = Cli::new();
        cli.ok("create loopback interface");
        let interfaces: Vec<Interface> = serde_json::from_value(cli.json("show interface")).unwrap();
        let states: Vec<(&str, &str)> = interfaces.iter().map(|i| (&*i.name, i.state())).collect();
        assert_eq!(states, [("pg0", "up"), ("pg1", "up"), ("loop0", "down")]);
        assert_eq!(interfaces[0].counter("rx packets"), 0);
        let threads: Vec<Thread> = serde_json::from_value(cli.json("show runtime verbose")).unwrap();
        assert!(threads[0].nodes.iter().any(|node| node.name == "pg-input" && node.state == "polling"));
        let drops: Vec<Drops> = serde_json::from_value(cli.json("show errors all")).unwrap();
        assert!(drops.iter().any(|drops| drops.node == "ip4-input" && drops.name == "bad-checksum"));
    }
}
