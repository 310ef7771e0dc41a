//! Provenance of a campaign: the facts needed to judge a number or to repeat its measurement.
//!
//! Unknown facts are left out. Host names, user names and paths are never recorded.

mod machine;
mod processor;
mod system;

use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::version::version;
use machine::Machine;

/// Time, machine and programs of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Start time: RFC 3339, UTC.
    pub begun: String,
    /// Facts about machine and programs as names and values, in the order in which reports list them.
    pub facts: Vec<(String, String)>,
}

/// Name of the fact about the tester's own program.
const TESTER: &str = "tester";

/// Facts that vary from run to run on the same machine, and are not compared.
const PASSING: [&str; 2] = [processor::CLOCK, system::STOLEN];

impl Provenance {
    /// Collects the facts of this machine.
    pub fn now() -> Provenance {
        let begun = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        Provenance { begun, facts: facts(Path::new("/")) }
    }

    /// Returns the tester's version and build; `None` if the provenance lacks them.
    pub fn tester(&self) -> Option<&str> {
        self.facts.iter().find(|(name, _)| name == TESTER).map(|(_, value)| value.as_str())
    }

    /// Returns the facts about machine and kernel that differ from another provenance, as [`differences`](Self::differences).
    pub fn machine_differences(&self, other: &Provenance) -> Vec<String> {
        let of_program = format!("{TESTER}: ");
        let mut all = self.differences(other);
        all.retain(|what| !what.starts_with(&of_program));
        all
    }

    /// Returns the facts that differ from another provenance, such as "kernel: 6.1, and 6.12", without those that vary from run to run.
    /// Empty if there are none.
    pub fn differences(&self, other: &Provenance) -> Vec<String> {
        let value = |of: &Provenance, name: &str| {
            let found = of.facts.iter().find(|(n, _)| n == name);
            found.map_or("unknown".into(), |(_, value)| value.clone())
        };
        let more = other.facts.iter().filter(|(name, _)| !self.facts.iter().any(|(n, _)| n == name));
        let names = self.facts.iter().chain(more).map(|(name, _)| name);
        names
            .filter(|name| !PASSING.contains(&name.as_str()))
            .map(|name| (name, value(self, name), value(other, name)))
            .filter(|(_, own, others)| own != others)
            .map(|(name, own, others)| format!("{name}: {own}, and {others}"))
            .collect()
    }
}

/// Returns all facts of a machine whose files are below `root`.
fn facts(root: &Path) -> Vec<(String, String)> {
    let mut machine = Machine::new(root);
    machine.fact(TESTER, Some(format!("volley bench {}", version())));
    processor::facts(&mut machine);
    system::facts(&mut machine);
    machine.facts
}

#[cfg(test)]
mod tests;
