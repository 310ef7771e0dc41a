//! Decides when router advertisements are sent (RFC 4861 section 6.2): periodically, in answer to solicitations, and when the router stops
//! advertising.
//!
//! All advertisements go to all nodes, even in answer to a solicitation. So a link gets at most one in three seconds, however many hosts
//! solicit.

use std::collections::BTreeMap;
use std::fmt;

use net::jitter::Jitter;

const SECOND: u64 = 1_000_000_000;
/// Number of initial advertisements that are sent at short intervals (RFC 4861 section 10: MAX_INITIAL_RTR_ADVERTISEMENTS).
const INITIAL: u8 = 3;
/// Maximum interval between the initial advertisements (MAX_INITIAL_RTR_ADVERT_INTERVAL).
const INITIAL_INTERVAL: u64 = 16 * SECOND;
/// Number of final advertisements (MAX_FINAL_RTR_ADVERTISEMENTS).
const FINAL: u8 = 3;
/// Minimum time between two advertisements (MIN_DELAY_BETWEEN_RAS).
const GAP: u64 = 3 * SECOND;
/// Maximum delay of the answer to a solicitation (MAX_RA_DELAY_TIME).
const ANSWER: u64 = SECOND / 2;

/// Minimum and maximum time between two unsolicited advertisements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    min: u64,
    max: u64,
}

/// The times are out of the bounds of RFC 4861 section 6.2.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalError;

impl fmt::Display for IntervalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the longest interval between router advertisements must be 4 to 1800 seconds, and the shortest must be from 3 seconds to \
             three quarters of the longest",
        )
    }
}

impl std::error::Error for IntervalError {}

impl Interval {
    /// Returns an interval of `min` to `max` seconds (MinRtrAdvInterval and MaxRtrAdvInterval).
    ///
    /// # Errors
    /// If the times are out of bounds.
    pub fn new(min: u64, max: u64) -> Result<Interval, IntervalError> {
        let fits = (4..=1800).contains(&max) && min >= 3 && min <= max * 3 / 4;
        if fits { Ok(Interval { min: min * SECOND, max: max * SECOND }) } else { Err(IntervalError) }
    }
}

impl Interval {
    /// Returns the longest interval in seconds.
    pub fn longest(self) -> u32 {
        (self.max / SECOND) as u32
    }

    /// Returns the shortest interval in seconds.
    pub fn shortest(self) -> u32 {
        (self.min / SECOND) as u32
    }
}

impl Default for Interval {
    /// Returns the default interval: 200 to 600 seconds.
    fn default() -> Self {
        Interval { min: 200 * SECOND, max: 600 * SECOND }
    }
}

/// Input events.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// Start to advertise the router on the interface. If it is advertised already, use this interval from now on.
    Start(u32, Interval),
    /// The contents of the advertisement changed.
    Changed(u32),
    /// A valid router solicitation was received on the interface.
    Solicited(u32),
    /// Stop advertising. Final advertisements inform the hosts.
    Stop(u32),
    /// The final advertisement was sent, because the interface is about to go down. Nothing more is sent until [`Start`](Event::Start).
    Ceased(u32),
    /// The interface went down or was removed.
    Down(u32),
}

/// Output actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Advertise the router to all nodes.
    Advertise(u32),
    /// Advertise the router to all nodes with lifetime 0: it is no longer a default router (section 6.2.5).
    Withdraw(u32),
}

/// The interfaces on which the router advertises itself or sends final advertisements.
#[derive(Debug, Default)]
pub struct Advertiser {
    senders: BTreeMap<u32, Sender>,
    jitter: Jitter,
}

/// State of the advertisements on an interface.
#[derive(Clone, Copy, Debug)]
struct Sender {
    interval: Interval,
    /// Time of the next advertisement; `None` after the last final advertisement.
    next: Option<u64>,
    last: Option<u64>,
    /// Number of further advertisements to send at short intervals.
    quick: u8,
    /// Number of final advertisements left; `None` while the router advertises itself.
    left: Option<u8>,
}

impl Sender {
    /// Schedules an advertisement `delay` nanoseconds after `now`. If the minimum gap since the last advertisement ends after `now`, the
    /// delay counts from the end of the gap. An advertisement that is already scheduled for an earlier time stays.
    fn hasten(&mut self, now: u64, delay: u64) {
        let earliest = self.last.map_or(now, |last| now.max(last + GAP));
        let then = earliest + delay;
        self.next = Some(self.next.map_or(then, |next| next.min(then)));
    }

    /// Records that an advertisement is sent at `now`, and schedules the next one.
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
    /// Handles an event. [`timeout`](Self::timeout) returns the actions.
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
            Event::Ceased(interface) => {
                if let Some(sender) = self.senders.get_mut(&interface) {
                    *sender = Sender { next: None, last: None, quick: 0, left: Some(0), ..*sender };
                }
            }
            Event::Down(interface) => drop(self.senders.remove(&interface)),
        }
    }

    /// True if the interface has state: the router has advertised itself there since the interface came up.
    pub fn knows(&self, interface: u32) -> bool {
        self.senders.contains_key(&interface)
    }

    /// True if the router advertises itself on an interface, and is not stopping.
    pub fn serves(&self, interface: u32) -> bool {
        self.senders.get(&interface).is_some_and(|s| s.left.is_none())
    }

    /// Returns an interface's advertising state; `None` if the router does not advertise itself there, or is stopping.
    fn serving(&mut self, interface: u32) -> Option<&mut Sender> {
        self.senders.get_mut(&interface).filter(|s| s.left.is_none())
    }

    /// True if advertisements, final ones included, are still to be sent on the interface.
    pub fn has_more_to_say(&self, interface: u32) -> bool {
        self.senders.get(&interface).is_some_and(|s| s.next.is_some())
    }

    /// Returns the time at which [`timeout`](Self::timeout) must be called next; `None` if no advertisement is scheduled.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.senders.values().filter_map(|s| s.next).min()
    }

    /// Handles expired timers. Adds the actions to `out`.
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
