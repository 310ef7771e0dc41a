//! When a router advertises itself (RFC 4861 section 6.2): now and then, when hosts ask, and when it ceases to.
//!
//! All advertisements go to all nodes, also those that were asked for: however many hosts ask, there are no more than one in
//! three seconds.

use std::collections::BTreeMap;
use std::fmt;

use crate::jitter::Jitter;

const SECOND: u64 = 1_000_000_000;
/// Constants of RFC 4861 section 10: MAX_INITIAL_RTR_ADVERTISEMENTS, MAX_INITIAL_RTR_ADVERT_INTERVAL,
/// MAX_FINAL_RTR_ADVERTISEMENTS, MIN_DELAY_BETWEEN_RAS and MAX_RA_DELAY_TIME.
const INITIAL: u8 = 3;
const INITIAL_INTERVAL: u64 = 16 * SECOND;
const FINAL: u8 = 3;
const GAP: u64 = 3 * SECOND;
const ANSWER: u64 = SECOND / 2;

/// Time between two advertisements that nobody asked for: any between these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    min: u64,
    max: u64,
}

/// The times are not within the bounds of RFC 4861 section 6.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalError;

impl fmt::Display for IntervalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the longest interval between router advertisements is 4 to 1800 seconds, the shortest 3 seconds to three \
             quarters of that",
        )
    }
}

impl std::error::Error for IntervalError {}

impl Interval {
    /// An interval of `min` to `max` seconds (MinRtrAdvInterval and MaxRtrAdvInterval).
    ///
    /// # Errors
    /// When they are out of bounds.
    pub fn new(min: u64, max: u64) -> Result<Interval, IntervalError> {
        let fits = (4..=1800).contains(&max) && min >= 3 && min <= max * 3 / 4;
        if fits { Ok(Interval { min: min * SECOND, max: max * SECOND }) } else { Err(IntervalError) }
    }
}

impl Interval {
    /// The longest time, in seconds.
    pub fn longest(self) -> u32 {
        (self.max / SECOND) as u32
    }

    /// The shortest time, in seconds.
    pub fn shortest(self) -> u32 {
        (self.min / SECOND) as u32
    }
}

impl Default for Interval {
    /// 200 to 600 seconds.
    fn default() -> Self {
        Interval { min: 200 * SECOND, max: 600 * SECOND }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The router begins to advertise itself on the interface, or does so at another interval.
    Start(u32, Interval),
    /// What it has to say has changed.
    Changed(u32),
    /// A valid router solicitation came in by the interface.
    Solicited(u32),
    /// It ceases to advertise itself; hosts are to hear of it.
    Stop(u32),
    /// The interface went down, or is gone.
    Down(u32),
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Advertise the router to all nodes.
    Advertise(u32),
    /// Advertise it with a lifetime of 0: it is no default router any more (section 6.2.5).
    Withdraw(u32),
}

/// The interfaces that the router advertises itself on, or did.
#[derive(Debug, Default)]
pub struct Advertiser {
    senders: BTreeMap<u32, Sender>,
    jitter: Jitter,
}

/// What is sent on an interface.
#[derive(Clone, Copy, Debug)]
struct Sender {
    interval: Interval,
    /// When the next one is sent; `None` after the end.
    next: Option<u64>,
    last: Option<u64>,
    /// How many of the next ones follow each other quickly.
    quick: u8,
    /// How many are left to send, if this is the end.
    left: Option<u8>,
}

impl Sender {
    /// Sends the next one after `delay`, or in due distance from the last one, unless it is sent earlier anyway.
    fn hasten(&mut self, now: u64, delay: u64) {
        let earliest = self.last.map_or(now, |last| now.max(last + GAP));
        let then = earliest + delay;
        self.next = Some(self.next.map_or(then, |next| next.min(then)));
    }

    /// Notes that one is sent now.
    fn sent(&mut self, now: u64, jitter: &mut Jitter) {
        self.last = Some(now);
        self.quick = self.quick.saturating_sub(1);
        let interval = jitter.between(self.interval.min, self.interval.max);
        self.next = Some(now + if self.quick > 0 { interval.min(INITIAL_INTERVAL) } else { interval });
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
            self.next = (*left > 0).then_some(now + GAP);
        }
    }
}

impl Advertiser {
    /// Takes an event in; what is to be done is said by [`timeout`](Self::timeout).
    pub fn handle(&mut self, now: u64, event: Event) {
        match event {
            Event::Start(interface, interval) => {
                let fresh = Sender { interval, next: None, last: None, quick: 0, left: None };
                let sender = self.senders.entry(interface).or_insert(fresh);
                *sender = Sender { last: sender.last, quick: INITIAL, ..fresh };
                sender.hasten(now, self.jitter.up_to(ANSWER));
            }
            Event::Changed(interface) => {
                if let Some(sender) = self.serving(interface) {
                    sender.quick = INITIAL;
                    sender.hasten(now, 0);
                }
            }
            Event::Solicited(interface) => {
                let delay = self.jitter.up_to(ANSWER);
                if let Some(sender) = self.serving(interface) {
                    sender.hasten(now, delay);
                }
            }
            Event::Stop(interface) => {
                if let Some(sender) = self.serving(interface) {
                    sender.left = Some(FINAL);
                    sender.hasten(now, 0);
                }
            }
            Event::Down(interface) => drop(self.senders.remove(&interface)),
        }
    }

    /// Whether the router advertises itself on an interface.
    pub fn serves(&self, interface: u32) -> bool {
        self.senders.get(&interface).is_some_and(|s| s.left.is_none())
    }

    /// The sender of an interface that is not about to end.
    fn serving(&mut self, interface: u32) -> Option<&mut Sender> {
        self.senders.get_mut(&interface).filter(|s| s.left.is_none())
    }

    /// Whether hosts on the link of an interface may still take the router for their default router, or are to be told once more
    /// that it is none.
    pub fn has_more_to_say(&self, interface: u32) -> bool {
        self.senders.get(&interface).is_some_and(|s| s.next.is_some())
    }

    /// When [`timeout`](Self::timeout) is to be called next.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.senders.values().filter_map(|s| s.next).min()
    }

    /// Does what is due; what is to be done is added to `out`.
    pub fn timeout(&mut self, now: u64, out: &mut Vec<Action>) {
        for (interface, sender) in &mut self.senders {
            if sender.next.is_none_or(|next| next > now) {
                continue;
            }
            let ends = sender.left.is_some();
            out.push(if ends { Action::Withdraw(*interface) } else { Action::Advertise(*interface) });
            sender.sent(now, &mut self.jitter);
        }
    }
}

#[cfg(test)]
#[path = "advertiser_tests.rs"]
mod tests;
