//! What goes wrong without anybody asking: workers that hang, and things that there are not enough of. The main thread looks
//! once a second; what begins and what ends is said in the log and in the event log, once each.

use std::net::{Ipv4Addr, Ipv6Addr};

use buf::pool;
use net::router::Router;

use super::Context;
use crate::journal::Keeper;

/// For how many looks a worker has not turned when it hangs. One that sleeps turns ten times a second.
const HANGS: u32 = 2;
/// For how many looks nothing was short when a shortage is over.
const OVER: u32 = 10;

/// Something of which there may be too little.
struct Scarce {
    /// What is wrong while the count grows, and what to do.
    what: &'static str,
    /// Counts how often it was.
    count: fn(&Router) -> u64,
}

const SCARCE: [Scarce; 6] = [
    Scarce {
        what: "no buffer is free for packets: add some (set buffers; buffers { buffers-per-numa } in startup.conf), or look for who keeps them (show buffers)",
        count: |r| r.pool().stats().refused,
    },
    Scarce {
        what: "a table of neighbours is full, or too many do not answer: older entries give way to new ones (set ip neighbor-config)",
        count: |r| r.neighbor_counters::<Ipv4Addr>().recycled + r.neighbor_counters::<Ipv6Addr>().recycled,
    },
    Scarce {
        what: "a table of neighbours is full of static ones: new ones are refused (set ip neighbor-config)",
        count: |r| r.neighbor_counters::<Ipv4Addr>().refused + r.neighbor_counters::<Ipv6Addr>().refused,
    },
    Scarce {
        what: "routes take all the memory that they may: new ones are refused (routes { memory } in startup.conf, show ip route-memory)",
        count: |r| r.route_memory().refused,
    },
    Scarce {
        what: "the machine or a control group is out of memory: routes and tables are refused, and new neighbours replace the oldest \
               (show ip route-memory)",
        count: |r| {
            let neighbors =
                [r.neighbor_counters::<Ipv4Addr>().no_memory, r.neighbor_counters::<Ipv6Addr>().no_memory];
            r.route_memory().no_memory + neighbors.iter().sum::<u64>()
        },
    },
    Scarce { what: "packets get lost without a reason: a defect, please report it", count: |_| pool::lost() },
];

/// How it is with one of [`SCARCE`].
#[derive(Clone, Copy, Default)]
struct Shortage {
    /// The count at the last look.
    last: u64,
    /// The count before it began, while there is one.
    began: Option<u64>,
    /// Looks since the count grew.
    quiet: u32,
}

/// What a look has found.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Begins,
    /// With how often it happened.
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

/// What may go wrong, and how it is.
#[derive(Default)]
pub struct Trouble {
    shortages: [Shortage; SCARCE.len()],
    /// Looks at which some worker had not turned, one after the other.
    still: u32,
}

impl Trouble {
    /// Whether all workers turn; one that does not forwards nothing.
    pub fn workers_turn(&self) -> bool {
        self.still < HANGS
    }
}

impl Context {
    /// Looks after what may go wrong. Called once a second.
    pub fn look_around(&mut self) {
        let (trouble, router) = (&mut self.trouble, &mut self.system.router);
        let turned = trouble.workers_turn();
        let still = router.still_worker();
        trouble.still = if still.is_none() { 0 } else { trouble.still.saturating_add(1) };
        match (turned, trouble.workers_turn()) {
            (true, false) => {
                let (worker, node) = still.unwrap_or_default();
                let node = node.map_or(String::new(), |node| format!(" (it is in node {node})"));
                tracing::error!(
                    event = "worker",
                    "worker {worker} does not turn any more{node}, and forwards nothing: a watchdog is told no longer"
                );
            }
            (false, true) => tracing::warn!(event = "worker", "all workers turn again"),
            _ => {}
        }
        for (scarce, shortage) in SCARCE.iter().zip(&mut trouble.shortages) {
            match shortage.look((scarce.count)(router)) {
                Some(News::Begins) => tracing::warn!(event = "full", "{}", scarce.what),
                Some(News::Ends(n)) => {
                    tracing::info!(event = "full", "no longer, after {n} times: {}", scarce.what);
                }
                None => {}
            }
        }
    }
}

impl Context {
    /// What is not as the operator asked for while packets are forwarded, in words.
    pub fn degraded(&self) -> Vec<String> {
        let absent = self.system.router.interfaces().filter(|i| i.is_absent());
        let mut all: Vec<_> = absent.map(|i| format!("{} is without its device", i.name)).collect();
        if let (1.., why) = self.vain_ways_back() {
            all.push(format!("the configuration that nobody confirmed could not be taken back: {why}"));
        }
        all.extend(self.keeper.as_ref().and_then(Keeper::fails));
        if let Some(file) = self.stale_start() {
            all.push(format!(
                "the router starts from {}, which nobody confirmed when it was applied: config save, or mend it",
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
    fn a_shortage_is_told_of_when_it_begins_and_when_it_is_over() {
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
