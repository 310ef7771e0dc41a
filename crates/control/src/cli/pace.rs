//! How fast strangers are let in.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Connections of a user that are accepted at once.
const BURST: u32 = 64;
/// The time between two of them from then on: 400 a second. Each costs a thread, and the kernel makes threads under a lock that workers
/// need, too: 11,000 connections a second delayed packets by up to 0.9 s.
const EVERY: Duration = Duration::from_micros(2500);

/// Users that are remembered at most.
const USERS: usize = 1024;

/// The turns of each user, which come back with time. Of those who come by TCP nobody knows the user: they are one.
#[derive(Default)]
pub(super) struct Paces(HashMap<Option<u32>, Full>);

/// When a user has all turns again.
type Full = Instant;

impl Paces {
    /// Takes one of a user's turns, if there is one.
    pub(super) fn take(&mut self, user: Option<u32>, now: Instant) -> bool {
        if self.0.len() >= USERS && !self.0.contains_key(&user) {
            self.0.retain(|_, full| *full > now);
            if self.0.len() >= USERS {
                return false;
            }
        }
        let full = self.0.entry(user).or_insert(now);
        let there = full.saturating_duration_since(now) <= EVERY * (BURST - 1);
        if there {
            *full = (*full).max(now) + EVERY;
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_let_in_at_once_and_others_one_by_one() {
        let (mut paces, mut now) = (Paces::default(), Instant::now());
        let mut burst = |now| (0..BURST + 5).filter(|_| paces.take(Some(7), now)).count() as u32;
        assert_eq!(burst(now), BURST);
        for _ in 0..100 {
            now += EVERY;
            assert_eq!(burst(now), 1);
        }
        // Who comes after a while finds all turns there.
        now += EVERY * BURST;
        assert_eq!(burst(now), BURST);
        assert!(
            !paces.take(Some(7), now) && paces.take(Some(8), now) && paces.take(None, now),
            "each has his own"
        );
    }

    #[test]
    fn very_many_users_are_not_remembered() {
        let (mut paces, now) = (Paces::default(), Instant::now());
        assert!((0..USERS as u32).all(|user| paces.take(Some(user), now)));
        assert!(!paces.take(None, now) && paces.take(Some(0), now));
        assert!(paces.take(None, now + EVERY) && paces.0.len() < 3);
    }
}
