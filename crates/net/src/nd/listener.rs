//! The host part of MLDv2: the router reports the multicast groups that it has joined (RFC 3810 section 6).
//! This is necessary because snooping switches forward a group's packets only to ports that reported the
//! group, and neighbor solicitations are sent to groups.
//!
//! A change is reported at once and a second time after a delay (the robustness variable is 2). Queries are
//! answered after a delay. The state is per interface, not per group. All groups are joined for all sources.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use wire::mld::{Query, Record};

use crate::jitter::Jitter;

/// Maximum delay of the second report of a change, in nanoseconds (Unsolicited Report Interval, RFC 3810
/// section 9.11).
const AGAIN: u64 = 1_000_000_000;
/// A millisecond in nanoseconds.
const MS: u64 = 1_000_000;

/// Input events.
#[derive(Clone, Debug)]
pub enum Event {
    /// From now on, the interface has joined these groups and no others.
    Groups(u32, BTreeSet<Ipv6Addr>),
    /// A valid query was received on an interface.
    Query(u32, Query),
    /// The interface went down or was removed.
    Down(u32),
}

/// Output action: send a report with these records on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report(pub u32, pub Vec<(Record, Ipv6Addr)>);

/// The groups of all interfaces.
#[derive(Debug, Default)]
pub struct Listener {
    members: BTreeMap<u32, Member>,
    jitter: Jitter,
}

/// The groups of an interface.
#[derive(Debug, Default)]
struct Member {
    groups: BTreeSet<Ipv6Addr>,
    /// Changes to report a second time, and the time to do so.
    again: Option<(u64, BTreeMap<Ipv6Addr, Record>)>,
    /// Groups to report in answer to queries, and the time to do so.
    answer: Option<(u64, BTreeSet<Ipv6Addr>)>,
}

impl Listener {
    /// Returns the groups that an interface has joined.
    pub fn groups(&self, interface: u32) -> impl Iterator<Item = Ipv6Addr> {
        self.members.get(&interface).into_iter().flat_map(|m| m.groups.iter().copied())
    }

    /// Handles an event. Adds the reports to `out`.
    pub fn handle(&mut self, now: u64, event: Event, out: &mut Vec<Report>) {
        match event {
            Event::Groups(interface, groups) => {
                let member = self.members.entry(interface).or_default();
                let joined = groups.difference(&member.groups).map(|g| (*g, Record::Join));
                let left = member.groups.difference(&groups).map(|g| (*g, Record::Leave));
                let changes: BTreeMap<Ipv6Addr, Record> = joined.chain(left).collect();
                member.groups = groups;
                if !changes.is_empty() {
                    out.push(report(interface, &changes));
                    let due = now + self.jitter.up_to(AGAIN);
                    // Recent changes are reported again together with this change, unless they were reverted.
                    let (first, mut all) = member.again.take().unwrap_or((due, BTreeMap::new()));
                    all.extend(changes);
                    member.again = Some((first.min(due), all));
                }
            }
            Event::Query(interface, query) => {
                let due = now + self.jitter.up_to(u64::from(query.max_response) * MS);
                let Some(member) = self.members.get_mut(&interface) else { return };
                let asked = |g: &&Ipv6Addr| query.group.is_none_or(|group| **g == group);
                let groups: BTreeSet<Ipv6Addr> = member.groups.iter().filter(asked).copied().collect();
                if !groups.is_empty() {
                    let (first, mut all) = member.answer.take().unwrap_or((due, BTreeSet::new()));
                    all.extend(groups);
                    member.answer = Some((first.min(due), all));
                }
            }
            Event::Down(interface) => drop(self.members.remove(&interface)),
        }
    }

    /// Returns the time at which [`timeout`](Self::timeout) must be called next; `None` if there is no timer.
    pub fn poll_timeout(&self) -> Option<u64> {
        let due = |m: &Member| [m.again.as_ref().map(|a| a.0), m.answer.as_ref().map(|a| a.0)];
        self.members.values().flat_map(due).flatten().min()
    }

    /// Handles expired timers.
    pub fn timeout(&mut self, now: u64, out: &mut Vec<Report>) {
        for (interface, member) in &mut self.members {
            if let Some((_, changes)) = member.again.take_if(|a| a.0 <= now) {
                out.push(report(*interface, &changes));
            }
            if let Some((_, groups)) = member.answer.take_if(|a| a.0 <= now) {
                let still = groups.intersection(&member.groups);
                let records: Vec<_> = still.map(|g| (Record::IsJoined, *g)).collect();
                if !records.is_empty() {
                    out.push(Report(*interface, records));
                }
            }
        }
    }
}

fn report(interface: u32, changes: &BTreeMap<Ipv6Addr, Record>) -> Report {
    Report(interface, changes.iter().map(|(group, record)| (*record, *group)).collect())
}

#[cfg(test)]
#[path = "listener_tests.rs"]
mod tests;
