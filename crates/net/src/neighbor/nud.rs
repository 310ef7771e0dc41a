//! The differences of Neighbor Discovery from ARP: the effect of messages on an entry (RFC 4861 sections
//! 7.2.3 and 7.2.5), and neighbor unreachability detection (section 7.3).
//!
//! ```text
//!            max_age, about        used           5 s            3 × no answer
//! Reachable ───────────────→ Stale ────→ Delay ───────→ Probing ───────────────→ (nothing)
//!     ↑                        │           │               │
//!     │                        │ 20 min    │               │
//!     │                        ↓           │               │
//!     │                    (nothing)       │               │
//!     └────────────────────────────────────┴───────────────┘ solicited advertisement
//! ```
//!
//! If a neighbor reports another Ethernet address in a solicitation, a router message, or an unsolicited advertisement with the override
//! flag, its entry becomes stale with this address. An advertisement without the override flag does not replace a known address; it only
//! makes a reachable entry stale. Of all these messages, only a solicited advertisement makes an entry reachable.
//!
//! An entry keeps its adjacency in all of these states. The owner of the table must detect that packets are
//! sent to a stale entry: it checks the adjacency's counter when the entry becomes stale, and periodically
//! after that.

use wire::Mac;

use super::entries::{Entry, Key, State};
use super::family::Family;
use super::table::{Action, Neighbors};
use crate::Unused;

const SECOND: u64 = 1_000_000_000;
/// Time after which a stale neighbor is probed once packets are sent to it, unless it confirms its Ethernet address in this time
/// (DELAY_FIRST_PROBE_TIME, RFC 4861 section 10).
const DELAY: u64 = 5 * SECOND;
/// Lifetime of a stale entry to which no packets are sent.
const REMEMBER_STALE: u64 = 1200 * SECOND;

impl Entry {
    /// Returns the entry as stale at `mac`: it is not known whether the neighbor is still reachable there.
    pub(super) fn stale(self, now: u64, mac: Mac) -> Entry {
        Entry { state: State::Stale(mac), due: Some(now + REMEMBER_STALE), ..self }
    }
}

impl<A: Family> Neighbors<A> {
    /// Records that packets are sent to a neighbor: a stale entry will be probed after [`DELAY`].
    pub(super) fn used(&mut self, now: u64, key: Key<A>) {
        if let Some(entry @ Entry { state: State::Stale(mac), .. }) = self.entries.get(key) {
            self.entries.put(key, Entry { state: State::Delay(mac), due: Some(now + DELAY), ..entry });
        }
    }

    /// Handles a message other than a neighbor advertisement that contains a neighbor's Ethernet address, and
    /// possibly its router flag. Updates the neighbor's entry. If the neighbor has no entry, adds a stale one
    /// if `create` is `Ok`, or else returns the error in `create`. The message does not confirm reachability.
    pub(super) fn mentioned(
        &mut self,
        now: u64,
        key: Key<A>,
        mac: Mac,
        router: Option<bool>,
        create: Result<(), Unused>,
        out: &mut Vec<Action<A>>,
    ) -> Result<(), Unused> {
        let before = self.entries.get(key);
        self.may_follow(before, create, out)?;
        let router = router.unwrap_or(before.is_some_and(|b| b.router));
        let entry = match before {
            Some(same) if same.state.mac() == Some(mac) => Entry { router, ..same },
            _ => Entry { state: State::Stale(mac), router, since: now, due: None }.stale(now, mac),
        };
        self.complete(key, before, entry, out);
        Ok(())
    }

    /// Handles a neighbor advertisement. If the neighbor has no entry, the advertisement is ignored (RFC 4861
    /// section 7.2.5).
    pub(super) fn advertised(
        &mut self,
        now: u64,
        key: Key<A>,
        mac: Option<Mac>,
        (router, solicited, overrides): (bool, bool, bool),
        out: &mut Vec<Action<A>>,
    ) -> Result<(), Unused> {
        let before = self.entries.get(key).ok_or(Unused::NotAsked)?;
        self.may_follow(Some(before), Ok(()), out)?;
        let old = before.state.mac();
        let new = mac.or(old).ok_or(Unused::NoLinkAddress)?;
        let other = old.is_some_and(|old| old != new);
        let entry = match old {
            // Two nodes may claim the address; the next answer decides.
            Some(old) if other && !overrides => match before.state {
                State::Reachable(_) => before.stale(now, old),
                _ => return Err(Unused::NotOverriding),
            },
            _ if solicited => self.reachable(now, new, router),
            Some(_) if !other => Entry { router, ..before },
            _ => Entry { state: State::Stale(new), router, since: now, due: None }.stale(now, new),
        };
        self.complete(key, Some(before), entry, out);
        Ok(())
    }
}
