//! The rate limit of new clients: clients above the rate wait in a queue.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Number of connections of a user that are accepted in a burst.
const BURST: u32 = 64;
/// Time between two connections of a user after the burst: 400 per second. Each connection costs a thread. The kernel creates threads under
/// a lock that workers need too: 11,000 connections per second delayed packets by up to 0.9 s.
const EVERY: Duration = Duration::from_micros(2500);

/// Maximum number of waiting clients of one user.
const LINE: usize = 256;
/// Maximum number of waiting clients of all users.
const LINES: usize = 1024;
/// Maximum number of users remembered.
const USERS: usize = 1024;

/// A token bucket for each user, and the waiting clients `C`. The user of a TCP client is unknown, so all TCP clients
/// share one bucket.
pub(super) struct Pace<C> {
    users: HashMap<Option<u32>, User<C>>,
    /// Number of waiting clients of all users.
    waiting: usize,
}

struct User<C> {
    /// The time at which the bucket is full again.
    full: Instant,
    waiting: VecDeque<C>,
}

/// What happens to a new client.
#[derive(Debug, PartialEq)]
pub(super) enum Come<C> {
    /// The client is accepted now.
    In(C),
    /// The client waits until [`Pace::next`] returns it.
    Waits,
    /// The client is rejected: the queue is full, or too many users are remembered.
    Away(C),
}

impl<C> Default for Pace<C> {
    fn default() -> Pace<C> {
        Pace { users: HashMap::new(), waiting: 0 }
    }
}

impl<C> User<C> {
    /// Returns when the user may connect next. A past time or `None` means: at once.
    fn due(&self) -> Option<Instant> {
        self.full.checked_sub(EVERY * (BURST - 1))
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due().is_none_or(|due| due <= now)
    }

    fn take(&mut self, now: Instant) {
        self.full = self.full.max(now) + EVERY;
    }
}

impl<C> Pace<C> {
    /// Accepts, queues or rejects a new client of a user.
    pub(super) fn come(&mut self, user: Option<u32>, client: C, now: Instant) -> Come<C> {
        if self.users.len() >= USERS && !self.users.contains_key(&user) {
            self.users.retain(|_, user| user.full > now || !user.waiting.is_empty());
            if self.users.len() >= USERS {
                return Come::Away(client);
            }
        }
        let user = self.users.entry(user).or_insert_with(|| User { full: now, waiting: VecDeque::new() });
        if user.waiting.is_empty() && user.is_due(now) {
            user.take(now);
            return Come::In(client);
        }
        if user.waiting.len() >= LINE || self.waiting >= LINES {
            return Come::Away(client);
        }
        user.waiting.push_back(client);
        self.waiting += 1;
        Come::Waits
    }

    /// Returns when the next waiting client is accepted; `None` if no client waits.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.waiting == 0 {
            return None;
        }
        self.users.values().filter(|user| !user.waiting.is_empty()).filter_map(User::due).min()
    }

    /// Removes a client that has waited long enough at the time `now` from the queue, and returns it; `None` if there is no such client.
    pub(super) fn next(&mut self, now: Instant) -> Option<C> {
        let waiting = self.users.values_mut().filter(|user| !user.waiting.is_empty() && user.is_due(now));
        let user = waiting.min_by_key(|user| user.full)?;
        user.take(now);
        self.waiting -= 1;
        user.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_after_a_burst_are_accepted_one_by_one() {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for n in 0..BURST {
            assert_eq!(pace.come(Some(7), n, now), Come::In(n));
        }
        for n in 0..LINE as u32 {
            assert_eq!(pace.come(Some(7), BURST + n, now), Come::Waits);
        }
        assert_eq!(pace.come(Some(7), 9999, now), Come::Away(9999), "the queue is full");
        assert_eq!(pace.come(Some(8), 0, now), Come::In(0), "users do not share a queue");
        assert_eq!(pace.come(None, 1, now), Come::In(1));
        for n in 0..LINE as u32 {
            assert_eq!(pace.next(now), None);
            now = pace.due().unwrap();
            assert_eq!(pace.next(now), Some(BURST + n), "in order of arrival");
        }
        assert_eq!((pace.due(), pace.next(now + EVERY)), (None, None));
        // After a while the bucket is full again.
        now += EVERY * BURST;
        assert!((0..BURST).all(|n| pace.come(Some(7), n, now) == Come::In(n)));
        assert_eq!(pace.come(Some(7), 5, now), Come::Waits);
    }

    #[test]
    fn waiting_clients_are_not_overtaken() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        assert!((0..BURST).all(|n| pace.come(Some(7), n, now) == Come::In(n)));
        assert_eq!(pace.come(Some(7), 100, now), Come::Waits);
        let later = now + 2 * EVERY;
        assert_eq!(pace.come(Some(7), 101, later), Come::Waits);
        assert_eq!([pace.next(later), pace.next(later), pace.next(later)], [Some(100), Some(101), None]);
    }

    #[test]
    fn waiting_clients_of_all_users_are_limited() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let mut waiting = 0;
        for user in 0..10 {
            waiting +=
                (0..BURST + LINE as u32).filter(|_| pace.come(Some(user), (), now) == Come::Waits).count();
        }
        assert_eq!(waiting, LINES);
    }

    #[test]
    fn remembered_users_are_limited() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        assert!((0..USERS as u32).all(|user| pace.come(Some(user), (), now) == Come::In(())));
        assert_eq!(pace.come(None, (), now), Come::Away(()));
        assert_eq!(pace.come(Some(0), (), now), Come::In(()));
        assert_eq!(pace.come(None, (), now + EVERY), Come::In(()));
        assert!(pace.users.len() < 3);
    }
}
