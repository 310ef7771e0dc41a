//! Destinations that features follow, as a tunnel follows the route to its far end.
//!
//! A track is a path over a next hop that no route has: it means what the route to the destination means, and follows that as recursive
//! paths do (`recursion.rs`). Its forwarding object goes into a feature's packets, for the node `ip4-follow` or `ip6-follow`: no
//! destination is looked up again.

use infra::lpm::Address as _;

use super::family::Ip;
use super::path::Path;
use super::prefix::Prefix;
use super::table::{Resolver, RouteError, Routes};

/// A destination that is followed. Who has it gives it back to [`Router::untrack`](crate::router::Router::untrack) when no worker can find
/// it in the feature's tables any more.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a track that is forgotten stays for ever"]
pub struct Track {
    /// Index of the forwarding object: what packets have as their forwarding index when they come to the node that follows.
    pub object: u32,
    pub(super) list: u32,
    ip6: bool,
}

impl Track {
    /// Whether the destination is of this family.
    pub(crate) fn is_of<A: Ip>(&self) -> bool {
        self.ip6 == A::choose(false, true)
    }
}

impl<A: Ip> Routes<A> {
    /// Follows the route to a destination from now on.
    ///
    /// # Errors
    /// When there is no such VRF, or no more room.
    pub(crate) fn track(&mut self, fib: u16, to: A, by: &mut impl Resolver) -> Result<Track, RouteError> {
        if !self.vrfs.contains_key(&fib) {
            return Err(RouteError::NoTable(fib));
        }
        let path = Path::Via { next_hop: to.into(), interface: None };
        let list = self.use_list(fib, &path.into(), None, by)?;
        let state = &mut self.rib.paths.states[list];
        state.tracks += 1;
        Ok(Track { object: state.object, list, ip6: A::choose(false, true) })
    }

    /// Follows a destination no longer.
    pub(crate) fn untrack(&mut self, track: Track, by: &mut impl Resolver) {
        let state = &mut self.rib.paths.states[track.list];
        state.tracks -= 1;
        self.leave_list(track.list, by);
    }

    /// Whether packets to a destination that is followed can leave.
    pub(crate) fn leads(&self, track: &Track) -> bool {
        self.rib.paths.states[track.list].resolved.is_some()
    }

    /// A destination in a VRF that is followed.
    pub(super) fn tracked_in(&self, fib: u16) -> Option<Prefix<A>> {
        let state = self.rib.paths.tracked_in(fib)?;
        let to = state.list.paths().find_map(Path::next_hop).and_then(A::of)?;
        Some(Prefix::new(to, A::Bits::BITS))
    }
}
