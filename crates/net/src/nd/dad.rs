//! Duplicate address detection (RFC 4862 section 5.4): an address is asked for before it is used, and given up if
//! somebody else has it, or asks for it at the same time.
//!
//! Whoever owns this joins the address's solicited-node group first, and keeps what the router itself sent away from it: a
//! link with a loop would have every address a duplicate.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use crate::jitter::Jitter;
use crate::neighbor::Key;

const SECOND: u64 = 1_000_000_000;
/// How long an answer may take (RETRANS_TIMER, RFC 4861 section 10).
const WAIT: u64 = SECOND;
/// Within this time the first question is asked where many may ask at once (MAX_RTR_SOLICITATION_DELAY).
const FIRST: u64 = SECOND;

/// How an address of an interface stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is being asked for, and not used yet.
    Tentative,
    /// Nobody else has it.
    Unique,
    /// Somebody else has it: it is not used.
    Duplicate,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The interface is given this address, or came up with it.
    Start {
        /// The address.
        key: Key<Ipv6Addr>,
        /// Not at once: others may have come up at the same time (section 5.4.2).
        delay: bool,
    },
    /// Somebody asked for the address, from `::`.
    Solicited(Key<Ipv6Addr>),
    /// Somebody said that the address is his.
    Advertised(Key<Ipv6Addr>),
    /// The address is taken away.
    Stop(Key<Ipv6Addr>),
    /// The interface went down, or is gone.
    Down(u32),
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask for the address, from `::`, its solicited-node group.
    Probe(Key<Ipv6Addr>),
    /// Nobody has it: it may be used.
    Unique(Key<Ipv6Addr>),
    /// Somebody has it: it must not be used.
    Duplicate(Key<Ipv6Addr>),
}

/// The addresses that are not in use yet.
#[derive(Debug)]
pub struct Dad {
    /// How often an address is asked for (DupAddrDetectTransmits); 0: it is used at once.
    pub transmits: u8,
    /// When there is something to do about an address, and how many questions are left.
    tentative: BTreeMap<Key<Ipv6Addr>, (u64, u8)>,
    jitter: Jitter,
}

impl Default for Dad {
    fn default() -> Self {
        Dad { transmits: 1, tentative: BTreeMap::new(), jitter: Jitter::default() }
    }
}

impl Dad {
    /// Whether an address is not in use yet.
    pub fn is_tentative(&self, key: Key<Ipv6Addr>) -> bool {
        self.tentative.contains_key(&key)
    }

    /// Takes an event in; what is to be done is added to `out`.
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

    /// When [`timeout`](Self::timeout) is to be called next.
    pub fn poll_timeout(&self) -> Option<u64> {
        self.tentative.values().map(|t| t.0).min()
    }

    /// Does what is due.
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
