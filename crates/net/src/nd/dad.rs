//! Duplicate address detection (RFC 4862 section 5.4): the router probes an address before it uses the
//! address, and does not use it if another node has it or probes for it at the same time.
//!
//! The caller of this state machine must first join the address's solicited-node group, and must filter out
//! the router's own packets: on a link with a loop, every address would otherwise be a duplicate.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use crate::jitter::Jitter;
use crate::neighbor::Key;

const SECOND: u64 = 1_000_000_000;
/// Time to wait for an answer to a probe, in nanoseconds (RETRANS_TIMER, RFC 4861 section 10).
const WAIT: u64 = SECOND;
/// Maximum delay of the first probe, in nanoseconds, if many nodes may probe at once
/// (MAX_RTR_SOLICITATION_DELAY).
const FIRST: u64 = SECOND;

/// State of an interface's IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The address is being probed and not used yet.
    Tentative,
    /// No other node has the address.
    Unique,
    /// Another node has the address, so this router does not use it.
    Duplicate,
}

/// Input events.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The address was added to the interface, or the interface came up.
    Start {
        /// The address.
        key: Key<Ipv6Addr>,
        /// True to wait before the first probe, because other nodes may have come up at the same time
        /// (section 5.4.2).
        delay: bool,
    },
    /// Another node probes for the address: its solicitation is from `::`.
    Solicited(Key<Ipv6Addr>),
    /// Another node advertised the address as its own.
    Advertised(Key<Ipv6Addr>),
    /// The address is removed.
    Stop(Key<Ipv6Addr>),
    /// The interface went down or was removed.
    Down(u32),
}

/// Output actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Probe for the address, from `::` to its solicited-node group.
    Probe(Key<Ipv6Addr>),
    /// No other node has the address: the router may use it.
    Unique(Key<Ipv6Addr>),
    /// Another node has the address: the router must not use it.
    Duplicate(Key<Ipv6Addr>),
}

/// The tentative addresses.
#[derive(Debug)]
pub struct Dad {
    /// Number of probes for an address (DupAddrDetectTransmits). With 0, an address is used immediately.
    pub transmits: u8,
    /// For each tentative address, the time of the next step and the number of probes left.
    tentative: BTreeMap<Key<Ipv6Addr>, (u64, u8)>,
    jitter: Jitter,
}

impl Default for Dad {
    fn default() -> Self {
        Dad { transmits: 1, tentative: BTreeMap::new(), jitter: Jitter::default() }
    }
}

impl Dad {
    /// True while duplicate address detection of an address is running.
    pub fn is_tentative(&self, key: Key<Ipv6Addr>) -> bool {
        self.tentative.contains_key(&key)
    }

    /// Handles an event. Adds the actions to `out`.
    pub fn handle(&mut self, now: u64, event: Event, out: &mut Vec<Action>) {
        match event {
            Event::Start { key, .. } if self.transmits == 0 => out.push(Action::Unique(key)),
            Event::Start { key, delay } => {
                let due = now + if delay { self.jitter.up_to(FIRST) } else { 0 };
                self.tentative.insert(key, (due, self.transmits));
                self.timeout(now, out);
            }
            Event::Solicited(key) | Event::Advertised(key) => {
                if self.tentative.remove(&key).is_some() {
                    out.push(Action::Duplicate(key));
                }
            }
            Event::Stop(key) => drop(self.tentative.remove(&key)),
            Event::Down(interface) => self.tentative.retain(|key, _| key.0 != interface),
        }
    }

    /// Returns the time at which [`timeout`](Self::timeout) must be called next; `None` if there is no timer.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.tentative.values().map(|t| t.0).min()
    }

    /// Handles expired timers.
    pub fn timeout(&mut self, now: u64, out: &mut Vec<Action>) {
        self.tentative.retain(|key, (due, left)| {
            if *due > now {
                return true;
            }
            let asks = *left > 0;
            out.push(if asks { Action::Probe(*key) } else { Action::Unique(*key) });
            (*due, *left) = (now + WAIT, left.saturating_sub(1));
            asks
        });
    }
}

#[cfg(test)]
#[path = "dad_tests.rs"]
mod tests;
