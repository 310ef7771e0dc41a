//! Detection of hanging workers and of resource shortages. The main thread checks once a second. The log and the event log get one message
//! when a problem begins, and one when it ends.

use std::net::{Ipv4Addr, Ipv6Addr};

use buf::pool;
use net::nd::Standing;
use net::router::Router;

use super::{Confirmation, Context};
use crate::journal::Keeper;

/// Number of successive failed checks after which a worker counts as hanging. A check fails if a worker has not run its loop since the
/// previous check. Even a sleeping worker runs its loop ten times per second.
const HANGS: u32 = 2;
/// If this number of successive checks finds no new failure, the shortage is over.
const OVER: u32 = 10;

/// A resource that can run short.
struct Scarce {
    /// The text for the log: the problem, and the remedy.
    what: &'static str,
    /// Returns how many times the resource was short since the router's start.
    count: fn(&Router) -> u64,
}

const SCARCE: [Scarce; 6] = [
    Scarce {
        what: "no buffer is free for packets: add some (set buffers; buffers { buffers-per-numa } in startup.conf), or find out \
               what holds them (show buffers)",
        count: |r| r.pool().stats().refused,
    },
    Scarce {
        what: "a neighbor table is full, or too many neighbors do not answer: new entries replace older ones (set ip \
               neighbor-config)",
        count: |r| r.neighbor_counters::<Ipv4Addr>().recycled + r.neighbor_counters::<Ipv6Addr>().recycled,
    },
    Scarce {
        what: "a neighbor table is full of static entries: new ones are refused (set ip neighbor-config)",
        count: |r| r.neighbor_counters::<Ipv4Addr>().refused + r.neighbor_counters::<Ipv6Addr>().refused,
    },
    Scarce {
        what: "routes have reached their memory limit: new ones are refused (routes { memory } in startup.conf, show ip \
               route-memory)",
        count: |r| r.route_memory().refused,
    },
    Scarce {
        what: "the machine or a control group is out of memory: routes and tables are refused, and new neighbors replace the \
               oldest (show ip route-memory)",
        count: |r| {
            let neighbors =
                [r.neighbor_counters::<Ipv4Addr>().no_memory, r.neighbor_counters::<Ipv6Addr>().no_memory];
            r.route_memory().no_memory + neighbors.iter().sum::<u64>()
        },
    },
    Scarce {
        what: "packets are lost without a drop reason: a defect, please report it",
        count: |_| pool::lost(),
    },
];

/// The state of the checks of one resource of [`SCARCE`].
#[derive(Clone, Copy, Default)]
struct Shortage {
    /// The value of [`Scarce::count`] at the last check.
    last: u64,
    /// The value of [`Scarce::count`] before the current shortage, if there is one.
    began: Option<u64>,
    /// Number of checks since [`Scarce::count`] last grew.
    quiet: u32,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Begins,
    /// The shortage has ended, after this number of failures.
    Ends(u64),
}

impl Shortage {
    fn look(&mut self, count: u64) -> Option<News> {
        let grew = count > self.last;
        let before = std::mem::replace(&mut self.last, count);
        self.quiet = if grew { 0 } else { self.quiet.saturating_add(1) };
        match self.began {
            None if grew => {
                self.began = Some(before);
                Some(News::Begins)
            }
            Some(began) if self.quiet >= OVER => {
                self.began = None;
                Some(News::Ends(count - began))
            }
            _ => None,
        }
    }
}

/// The state of all checks.
#[derive(Default)]
pub struct Trouble {
    shortages: [Shortage; SCARCE.len()],
    /// Number of successive checks that found a worker that had not run its loop since the previous check.
    still: u32,
}

impl Trouble {
    /// True if no worker hangs. A hanging worker forwards nothing.
    pub fn workers_turn(&self) -> bool {
        self.still < HANGS
    }
}

impl Context {
    /// Checks for hanging workers and shortages. Called once a second.
    pub fn look_around(&mut self) {
        let (trouble, router) = (&mut self.trouble, &mut self.system.router);
        let turned = trouble.workers_turn();
        let still = router.still_worker();
        trouble.still = if still.is_none() { 0 } else { trouble.still.saturating_add(1) };
        match (turned, trouble.workers_turn()) {
            (true, false) => {
                let (worker, node) = still.unwrap_or_default();
                let node = node.map_or(String::new(), |node| format!(" (in node {node})"));
                tracing::error!(
                    event = "worker",
                    "worker {worker} hangs{node} and forwards nothing: the watchdog is no longer notified"
                );
            }
            (false, true) => tracing::warn!(event = "worker", "all workers run again"),
            _ => {}
        }
        for (scarce, shortage) in SCARCE.iter().zip(&mut trouble.shortages) {
            match shortage.look((scarce.count)(router)) {
                Some(News::Begins) => tracing::warn!(event = "full", "{}", scarce.what),
                Some(News::Ends(n)) => {
                    tracing::info!(
                        event = "full",
                        "this problem has ended after {n} occurrences: {}",
                        scarce.what
                    );
                }
                None => {}
            }
        }
    }
}

impl Context {
    /// Returns a text for each way in which the router deviates from the operator's configuration, although it forwards packets; for
    /// example, an interface without a device.
    pub fn degraded(&self) -> Vec<String> {
        let absent = self.system.router.interfaces().filter(|i| i.is_absent());
        let why = |name: &str| self.system.why_absent(name).map_or(String::new(), |why| format!(": {why}"));
        let mut all: Vec<_> = absent.map(|i| format!("{} has no device{}", i.name, why(&i.name))).collect();
        all.extend(self.system.router.interfaces().flat_map(|i| {
            let addresses = i.all_ip6().into_iter().map(|a| a.address);
            let duplicates = addresses.filter(|a| i.standing(*a) == Some(Standing::Duplicate));
            duplicates.map(|a| {
                format!("another host uses {a}, an address of {}: the router does not use it", i.name)
            })
        }));
        if let Some((_, why)) = self.confirmation().and_then(Confirmation::failed) {
            all.push(format!("the unconfirmed configuration could not be rolled back: {why}"));
        }
        all.extend(self.keeper.as_ref().and_then(Keeper::fails));
        if let Some(file) = self.stale_start() {
            all.push(format!(
                "{} still contains the unconfirmed configuration that was rolled back, and a restart would apply it again: run config save, or fix the file",
                file.display()
            ));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_reported_at_its_beginning_and_end() {
        let mut shortage = Shortage::default();
        let mut news = |counts: &[u64]| counts.iter().filter_map(|n| shortage.look(*n)).collect::<Vec<_>>();
        assert_eq!(news(&[0, 0]), []);
        assert_eq!(news(&[3, 9, 9, 9, 12]), [News::Begins]);
        assert_eq!(news(&[12; OVER as usize - 1]), []);
        assert_eq!(news(&[12, 12]), [News::Ends(12)]);
        assert_eq!(news(&[13]), [News::Begins]);
        assert_eq!(news(&[13; OVER as usize]), [News::Ends(1)]);
    }
}
