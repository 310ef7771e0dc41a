//! What goes through each interface a second. Once a second the main thread looks at the counters, some interfaces at a
//! time; workers have no part in it. A rate is the difference between the first and the last look of a [`WINDOW`].

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use net::interface::InterfaceTotals;
use net::router::{InterfaceInfo, Router};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use crate::commands::Context;

/// The time that rates are of.
pub const WINDOW: Duration = Duration::from_secs(5);
/// How often counters are looked at.
const EVERY: Duration = Duration::from_secs(1);
/// Looks that are remembered of each interface: the first and the last are a window apart.
const LOOKS: usize = (WINDOW.as_secs() / EVERY.as_secs()) as usize + 1;
/// Interfaces that are looked at before others get their turn.
const PAGE: usize = 64;

/// What an interface had counted at a time.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Nanoseconds of the monotonic clock.
    at: u64,
    totals: InterfaceTotals,
}

impl Sample {
    /// What an interface has counted now.
    pub fn take(router: &Router, i: &InterfaceInfo, now: u64) -> Sample {
        Sample { at: now, totals: router.interface_totals(i) }
    }
}

/// What goes through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// The time over which this is the mean.
    pub window_seconds: f64,
    /// Packets received a second.
    pub rx_packets_per_second: f64,
    /// Bits received a second, with link headers.
    pub rx_bits_per_second: f64,
    /// Packets sent a second.
    pub tx_packets_per_second: f64,
    /// Bits sent a second, with link headers.
    pub tx_bits_per_second: f64,
    /// Packets a second that came in by it and were dropped.
    pub drops_per_second: f64,
}

impl Rate {
    /// The rate between two looks at the same interface; `None` if no time lies between them.
    pub fn between(before: &Sample, after: &Sample) -> Option<Rate> {
        let window_seconds = after.at.checked_sub(before.at).filter(|ns| *ns > 0)? as f64 / 1e9;
        let since = after.totals.since(&before.totals);
        let each = |n: u64| n as f64 / window_seconds;
        Some(Rate {
            window_seconds,
            rx_packets_per_second: each(since.rx_packets),
            rx_bits_per_second: 8.0 * each(since.rx_bytes),
            tx_packets_per_second: each(since.tx_packets),
            tx_bits_per_second: 8.0 * each(since.tx_bytes),
            drops_per_second: each(since.drops),
        })
    }

    /// As whole numbers: packets and bits received, packets and bits sent, drops; each a second.
    pub fn whole(&self) -> [u64; 5] {
        [
            self.rx_packets_per_second,
            self.rx_bits_per_second,
            self.tx_packets_per_second,
            self.tx_bits_per_second,
            self.drops_per_second,
        ]
        .map(|rate| rate.round() as u64)
    }
}

/// What was seen of an interface.
struct Track {
    serial: u64,
    /// The newest last; [`LOOKS`] at most.
    samples: VecDeque<Sample>,
}

/// The last looks at all interfaces.
#[derive(Default)]
pub struct Rates {
    /// By index.
    tracks: BTreeMap<u32, Track>,
}

impl Rates {
    /// What goes through an interface; `None` as long as it was looked at less than twice.
    pub fn of(&self, i: &InterfaceInfo) -> Option<Rate> {
        let track = self.tracks.get(&i.index).filter(|track| track.serial == i.serial)?;
        Rate::between(track.samples.front()?, track.samples.back()?)
    }

    /// Looks at the next interfaces from this index on. Gives the index to go on from, if there may be more.
    fn look(&mut self, router: &Router, now: u64, first: u32) -> Option<u32> {
        let mut last = None;
        for i in router.interfaces_from(first).take(PAGE) {
            let new = || Track { serial: i.serial, samples: VecDeque::with_capacity(LOOKS) };
            let track = self.tracks.entry(i.index).or_insert_with(new);
            if track.serial != i.serial {
                *track = new();
            }
            if track.samples.len() == LOOKS {
                track.samples.pop_front();
            }
            track.samples.push_back(Sample::take(router, i, now));
            last = Some(i.index);
        }
        if last.is_none() {
            self.tracks.retain(|index, _| router.interface(*index).is_ok());
        }
        last.map(|last| last + 1)
    }
}

/// Looks at all interfaces once a second, for ever. Nobody may hold a borrow of the context while waiting.
pub async fn sample(context: Rc<RefCell<Context>>) {
    let mut looks = interval(EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let mut next = Some(0);
        while let Some(first) = next {
            {
                let mut context = context.borrow_mut();
                let c = &mut *context;
                next = c.rates.look(&c.system.router, c.clock.now_ns(), first);
            }
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::router::Sizes;
    use wire::Mac;

    const SECOND: u64 = 1_000_000_000;

    fn all(rates: &mut Rates, router: &Router, now: u64) {
        let mut next = Some(0);
        while let Some(first) = next {
            next = rates.look(router, now, first);
        }
    }

    /// Of more interfaces than a page has, each has its own rate, of the last five seconds.
    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let mut router = Router::build(|_, _, _| Ok(()), &Sizes { buffers: 64, workers: 1 }).unwrap().router;
        let indexes: Vec<u32> = (0..PAGE as u32 + 3)
            .map(|n| router.add_loopback(&format!("loop{n}"), Mac([2, 0, 0, 0, 0, n as u8])).unwrap())
            .collect();
        let (mut rx, mut tx) = {
            let counters = &router.tables().counters;
            (counters.rx.lane(5).unwrap(), counters.tx.lane(5).unwrap())
        };
        let mut rates = Rates::default();
        let rate = |rates: &Rates, router: &Router, index| {
            rates.of(router.interface(index).unwrap()).map(|r| r.whole())
        };
        all(&mut rates, &router, 10 * SECOND);
        assert_eq!(rate(&rates, &router, indexes[0]), None, "one look is no rate");
        for second in 11..=14 {
            indexes.iter().for_each(|i| rx.add(*i, [1000, 64_000]));
            all(&mut rates, &router, second * SECOND);
        }
        for i in &indexes {
            assert_eq!(rate(&rates, &router, *i), Some([1000, 512_000, 0, 0, 0]));
        }
        // Ten seconds later nothing is left of it but what came since.
        tx.add(indexes[1], [50, 5000]);
        for second in 20..=25 {
            all(&mut rates, &router, second * SECOND);
            tx.add(indexes[2], [10, 600]);
        }
        assert_eq!(rate(&rates, &router, indexes[0]), Some([0; 5]));
        assert_eq!(rate(&rates, &router, indexes[2]), Some([0, 0, 10, 4800, 0]));
        // Who takes over an index starts anew.
        router.remove_interface(indexes[2]).unwrap();
        let again = router.add_loopback("other", Mac([2, 0, 0, 0, 1, 0])).unwrap();
        assert_eq!((again, rate(&rates, &router, again)), (indexes[2], None));
        all(&mut rates, &router, 26 * SECOND);
        assert_eq!(rate(&rates, &router, again), None);
        router.remove_interface(again).unwrap();
        all(&mut rates, &router, 27 * SECOND);
        assert_eq!(rates.tracks.len(), indexes.len() - 1);
    }
}
