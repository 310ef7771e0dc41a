//! Fragments that wait: their limits, and the end of their time.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Router, RouterError};
use crate::ip::reassembly::{Fragmented, Kind, Limits, MOST_FRAGMENTS};

/// Of so many buffers, one may be in fragments of each kind of reassembly, as long as nobody says otherwise.
const SHARE: usize = 8;
/// Of so many buffers, one may be in those of one kind at most: all kinds together leave half of the buffers to packets that go on,
/// whatever the order in which their bounds are set.
const LARGEST_SHARE: usize = 2 * Kind::ALL.len();
/// Datagrams of one kind, at most.
const MOST_DATAGRAMS: u32 = 1 << 16;
const SECOND: u64 = 1_000_000_000;

/// The limits of a kind of reassembly as long as nobody says otherwise, where there are so many buffers in all.
pub fn reassembly_defaults(kind: Kind, buffers: usize) -> Limits {
    let share = u32::try_from(buffers / SHARE).unwrap_or(u32::MAX);
    let limits = kind.defaults();
    Limits { buffers: limits.buffers.min(share), ..limits }
}

/// Whether a kind of reassembly can have these limits, where there are so many buffers in all.
///
/// # Errors
/// When one is out of range.
pub fn check_reassembly(limits: Limits, buffers: usize) -> Result<(), RouterError> {
    let refuse = |what: &str, most: u64| Err(RouterError(format!("{what}: 1 to {most}")));
    let most = u32::try_from(buffers / LARGEST_SHARE).unwrap_or(u32::MAX);
    if !(1..=MOST_DATAGRAMS).contains(&limits.datagrams) {
        return refuse("datagrams that may wait", u64::from(MOST_DATAGRAMS));
    }
    if !(1..=MOST_FRAGMENTS as u32).contains(&limits.fragments) {
        return refuse("fragments of one datagram", MOST_FRAGMENTS as u64);
    }
    if !(1..=most).contains(&limits.buffers) {
        return refuse("buffers that fragments may wait in", u64::from(most));
    }
    if !(SECOND..=600 * SECOND).contains(&limits.timeout) {
        return refuse("seconds until a datagram is given up", 600);
    }
    Ok(())
}

impl Router {
    /// Sets the limits of a kind of reassembly.
    ///
    /// # Errors
    /// When one is out of range.
    pub fn set_reassembly(&mut self, kind: Kind, limits: Limits) -> Result<(), RouterError> {
        check_reassembly(limits, self.pool.stats().total)?;
        self.tables.reassembly.set_limits(kind, limits);
        Ok(())
    }

    /// Tells a worker when the time of some datagrams is over. One that cannot be told now is told in the next turn.
    pub(super) fn expire_fragments(&mut self, now: u64) {
        self.expire_fragments_of::<Ipv4Addr>(now);
        self.expire_fragments_of::<Ipv6Addr>(now);
    }

    fn expire_fragments_of<A: Fragmented>(&mut self, now: u64) {
        // From the reserve: it may be the waiting fragments that have all buffers.
        if self.tables.reassembly.is_due::<A>(now)
            && let Some(message) = self.last_packet(&[])
        {
            self.send(0, A::EXPIRE, message);
        }
    }
}
