//! Differences in the conditions of two campaigns.

use serde_json::Value;

use crate::campaign::Results;
use crate::search::profile::Profile;

/// First words of a condition that only one campaign has.
pub(super) const ONLY: &str = "only in the";

/// Returns all differences between the two campaigns, as text: machine, profile, conditions and routers. If a text gives two values, the
/// first is the base's.
pub(super) fn differences(base: &Results, new: &Results) -> Vec<String> {
    let mut all = base.provenance.differences(&new.provenance);
    all.extend(profiles(&base.profile, &new.profile));
    for (of, one, other) in [("base", base, new), ("new", new, base)] {
        let of_other = |c: &&String| other.conditions.contains(c) || other.caveats.contains(c);
        let own = one.conditions.iter().chain(&one.caveats).filter(|c| !of_other(c));
        all.extend(own.map(|c| format!("{ONLY} {of}: {c}")));
    }
    for dut in &base.duts {
        let Some(other) = new.duts.iter().find(|d| d.name == dut.name) else { continue };
        if dut.version != other.version {
            all.push(format!("router {}: {}, and {}", dut.name, dut.version, other.version));
        }
        if dut.configuration != other.configuration {
            all.push(format!("router {}: different configuration", dut.name));
        }
    }
    all
}

/// Returns the parts of the profile that differ. Leaves out frame sizes, since the rows of the comparison
/// show them.
pub(super) fn profiles(base: &Profile, new: &Profile) -> Vec<String> {
    let parts = |profile| match serde_json::to_value(profile) {
        Ok(Value::Object(parts)) => parts,
        _ => serde_json::Map::new(),
    };
    let new = parts(new);
    let differ = |(name, _): &(String, Value)| name != "frame_bytes";
    let parts = parts(base).into_iter().filter(differ);
    parts
        .filter_map(|(name, value)| {
            let other = new.get(&name)?;
            (value != *other).then(|| format!("profile, {}: {value}, and {other}", name.replace('_', " ")))
        })
        .collect()
}
