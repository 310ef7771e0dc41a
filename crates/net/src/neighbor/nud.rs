//! What Neighbor Discovery does otherwise than ARP: what messages mean for an entry (RFC 4861 sections 7.2.3 and 7.2.5), and
//! neighbor unreachability detection (section 7.3).
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
//! Who says by the way, or without being asked, that it has another Ethernet address than before is stale at that one.
//!
//! An entry keeps its adjacency in all of these states. That a stale one is used is for the owner of the table to notice: it
//! looks at the adjacency's counter when the entry becomes stale, and now and then.

use wire::Mac;

use super::entries::{Entry, Key, State};
use super::family::Family;
use super::table::{Action, Neighbors};
use crate::Unused;

const SECOND: u64 = 1_000_000_000;
/// How long a neighbour that is used again may make itself heard before it is asked (DELAY_FIRST_PROBE_TIME, RFC 4861
/// section 10).
const DELAY: u64 = 5 * SECOND;
/// How long one that is not used is remembered.
const REMEMBER_STALE: u64 = 1200 * SECOND;

impl Entry {
    /// The entry when it is not known any more whether the neighbour can be reached at `mac`.
    pub(super) fn stale(self, now: u64, mac: Mac) -> Entry {
        Entry { state: State::Stale(mac), due: Some(now + REMEMBER_STALE), ..self }
    }
}

impl<A: Family> Neighbors<A> {
    /// Packets are sent to a neighbour.
    pub(super) fn used(&mut self, now: u64, key: Key<A>) {
        if let Some(entry @ Entry { state: State::Stale(mac), .. }) = self.entries.get(key) {
            self.entries.put(key, Entry { state: State::Delay(mac), due: Some(now + DELAY), ..entry });
        }
    }

    /// A neighbour says by the way which Ethernet address it has, and perhaps whether it is a router. An entry follows it; a
    /// new one is made unless `create` says why not. That the neighbour can be reached is not said.
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

    /// A neighbour advertised itself; of the flags `router`, `solicited` and `overrides`. Nothing is learned of one that
    /// nobody asked for (RFC 4861 section 7.2.5).
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
            // Two claim the address, perhaps; whoever answers next time has it.
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
