//! Rates of interfaces. Once a second the main thread samples the counters of all interfaces, some interfaces at a time. The workers do
//! nothing for this. A rate is the increase of a counter since the oldest stored sample, divided by the time since then.
//!
//! A new interface has a rate, too: it did not exist when the last complete round of samples began, so its counters were 0 at that time.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use net::interface::InterfaceTotals;
use net::router::{InterfaceInfo, Router};
use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};

use super::Context;

/// The interval between samples.
const EVERY: Duration = Duration::from_secs(1);
/// Number of samples stored for each interface, one per second. So a rate is an average over 4 to 5 seconds.
const LOOKS: usize = 5;
/// Number of interfaces sampled before other tasks get their turn.
const PAGE: usize = 64;

/// The counters of an interface at one point in time.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The time of the sample, in nanoseconds of the monotonic clock.
    at: u64,
    totals: InterfaceTotals,
}

impl Sample {
    /// Returns the current counters of an interface.
    pub fn take(router: &Router, i: &InterfaceInfo, now: u64) -> Sample {
        Sample { at: now, totals: router.interface_totals(i) }
    }
}

/// The rates of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// The averaging time, in seconds.
    pub window_seconds: f64,
    /// Packets received per second.
    pub rx_packets_per_second: f64,
    /// Bits received per second, with link headers.
    pub rx_bits_per_second: f64,
    /// Packets sent per second.
    pub tx_packets_per_second: f64,
    /// Bits sent per second, with link headers.
    pub tx_bits_per_second: f64,
    /// Packets per second that were received on the interface and dropped.
    pub drops_per_second: f64,
}

impl Rate {
    /// Returns the rate between two samples of the same interface; `None` if no time lies between them.
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

    /// Returns the rates rounded to whole numbers per second, in this order: packets received, bits received, packets sent, bits sent,
    /// drops.
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

/// The samples of an interface.
struct Track {
    serial: u64,
    /// At most [`LOOKS`] samples, the newest last.
    samples: VecDeque<Sample>,
}

/// The samples of all interfaces.
pub struct Rates {
    /// The samples of each interface, by index.
    tracks: BTreeMap<u32, Track>,
    /// When the last complete round of samples began, in nanoseconds of the monotonic clock. An interface without a sample since then did
    /// not exist at that time.
    complete: u64,
    /// When the current round began, in nanoseconds of the monotonic clock.
    begun: u64,
}

impl Rates {
    /// Returns the rates of a router without interfaces. `now` is in nanoseconds of the monotonic clock.
    pub fn new(now: u64) -> Rates {
        Rates { tracks: BTreeMap::new(), complete: now, begun: now }
    }

    /// Returns the rates of an interface, averaged over the time since its oldest stored sample or, if it has none, since the last complete
    /// round began; `None` if no time has passed since then.
    pub fn of(&self, router: &Router, i: &InterfaceInfo, now: u64) -> Option<Rate> {
        let track = self.tracks.get(&i.index).filter(|track| track.serial == i.serial);
        let first = track.and_then(|track| track.samples.front().copied());
        Rate::between(&first.unwrap_or(self.unseen()), &Sample::take(router, i, now))
    }

    /// Returns a sample with all counters 0, for an interface that did not exist when the last complete round began.
    fn unseen(&self) -> Sample {
        Sample { at: self.complete, totals: InterfaceTotals::default() }
    }

    /// Samples the next [`PAGE`] interfaces, from the index `first` on; 0 begins a round. Returns the index to continue from; `None` at the
    /// end of the round.
    fn look(&mut self, router: &Router, now: u64, first: u32) -> Option<u32> {
        if first == 0 {
            self.begun = now;
        }
        let unseen = self.unseen();
        let mut last = None;
        for i in router.interfaces_from(first).take(PAGE) {
            let new = || Track { serial: i.serial, samples: VecDeque::from([unseen]) };
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
            self.complete = self.begun;
        }
        last.map(|last| last + 1)
    }
}

/// Samples all interfaces once a second, forever. No task may keep `context` borrowed while it waits.
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

    /// There are more interfaces than [`PAGE`], and each has its own rate.
    #[test]
    fn rates_cover_the_last_five_seconds() {
        let mut router = Router::build(|_, _, _| Ok(()), &Sizes { buffers: 64, workers: 1 }).unwrap().router;
        let mut rates = Rates::new(9 * SECOND);
        all(&mut rates, &router, 10 * SECOND);
        let indexes: Vec<u32> = (0..PAGE as u32 + 3)
            .map(|n| router.add_loopback(&format!("loop{n}"), Mac([2, 0, 0, 0, 0, n as u8])).unwrap())
            .collect();
        let (mut rx, mut tx) = {
            let counters = &router.tables().counters;
            (counters.rx.lane(5).unwrap(), counters.tx.lane(5).unwrap())
        };
        let rate = |rates: &Rates, router: &Router, index, now| {
            let rate = rates.of(router, router.interface(index).unwrap(), now);
            rate.map(|r| (r.window_seconds, r.whole()))
        };
        assert_eq!(rate(&rates, &router, indexes[0], 10 * SECOND), None, "no time has passed");
        for second in 11..=14 {
            indexes.iter().for_each(|i| rx.add(*i, [1000, 64_000]));
            // The window begins at second 10, with the last round before the interfaces existed, even if there is no sample, or only one.
            let window = (second - 10) as f64;
            for i in &indexes {
                assert_eq!(
                    rate(&rates, &router, *i, second * SECOND),
                    Some((window, [1000, 512_000, 0, 0, 0]))
                );
            }
            all(&mut rates, &router, second * SECOND);
        }
        // Half a second later, the window is half a second longer, with no more packets.
        let later = rate(&rates, &router, indexes[0], 14 * SECOND + SECOND / 2);
        assert_eq!(later, Some((4.5, [889, 455_111, 0, 0, 0])));
        // Ten seconds later, only new packets count.
        tx.add(indexes[1], [50, 5000]);
        for second in 20..=24 {
            all(&mut rates, &router, second * SECOND);
            tx.add(indexes[2], [10, 600]);
        }
        assert_eq!(rate(&rates, &router, indexes[0], 25 * SECOND), Some((5.0, [0; 5])));
        assert_eq!(rate(&rates, &router, indexes[2], 25 * SECOND), Some((5.0, [0, 0, 10, 4800, 0])));
        // A new interface with the same index starts at 0.
        router.remove_interface(indexes[2]).unwrap();
        let again = router.add_loopback("other", Mac([2, 0, 0, 0, 1, 0])).unwrap();
        assert_eq!((again, rate(&rates, &router, again, 25 * SECOND)), (indexes[2], Some((1.0, [0; 5]))));
        all(&mut rates, &router, 26 * SECOND);
        tx.add(again, [10, 600]);
        assert_eq!(rate(&rates, &router, again, 26 * SECOND), Some((2.0, [0, 0, 5, 2400, 0])));
        router.remove_interface(again).unwrap();
        all(&mut rates, &router, 27 * SECOND);
        assert_eq!(rates.tracks.len(), indexes.len() - 1);
    }

    /// An interface that is created during a round has a rate, even if the round has already passed its index.
    #[test]
    fn an_interface_created_during_a_round_has_a_rate() {
        let mut router = Router::build(|_, _, _| Ok(()), &Sizes { buffers: 64, workers: 1 }).unwrap().router;
        let mut rates = Rates::new(0);
        let first = router.add_loopback("loop0", Mac([2, 0, 0, 0, 0, 0])).unwrap();
        all(&mut rates, &router, SECOND);
        assert_eq!(rates.look(&router, 2 * SECOND, 0), Some(first + 1));
        let late = router.add_loopback("loop1", Mac([2, 0, 0, 0, 0, 1])).unwrap();
        router.tables().counters.tx.lane(5).unwrap().add(late, [30, 3000]);
        let rate = |rates: &Rates, index, now| {
            rates.of(&router, router.interface(index).unwrap(), now).map(|r| (r.window_seconds, r.whole()))
        };
        assert_eq!(rate(&rates, late, 3 * SECOND), Some((2.0, [0, 0, 15, 12_000, 0])));
        assert_eq!(rate(&rates, first, 3 * SECOND), Some((3.0, [0; 5])));
        assert_eq!(rates.look(&router, 2 * SECOND, late + 1), None);
        assert_eq!(rate(&rates, late, 3 * SECOND), Some((1.0, [0, 0, 30, 24_000, 0])));
    }
}
