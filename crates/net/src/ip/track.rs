//! Tracks: features follow the route to a destination. For example, a tunnel tracks the route to its far end.
//!
//! A track is a path that belongs to no route; its next hop is the tracked destination. It is resolved through
//! the route to that destination, and again when that route changes, like a recursive path (`recursion.rs`). A
//! feature sets the track's forwarding object in its packets and sends them to the node `ip4-follow` or
//! `ip6-follow`, which do not look up the destination again.

use infra::lpm::Address as _;

use super::family::Ip;
use super::object::Object;
use super::path::Path;
use super::prefix::Prefix;
use super::table::{Resolver, RouteError, Routes};

/// A destination whose route a feature follows. The feature returns the track to
/// [`Router::untrack`](crate::router::Router::untrack) once no worker can find it in the feature's tables any
/// more.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a dropped track is never released: return it to `Router::untrack`"]
pub struct Track {
    /// Index of the forwarding object. The feature sets it as the forwarding index of packets that it sends
    /// to `ip4-follow` or `ip6-follow`.
    pub object: u32,
    pub(super) list: u32,
    ip6: bool,
}

impl Track {
    /// True if the destination is of family `A`.
    pub(crate) fn is_of<A: Ip>(&self) -> bool {
        self.ip6 == A::choose(false, true)
    }
}

impl<A: Ip> Routes<A> {
    /// Starts tracking the route to a destination.
    ///
    /// # Errors
    /// If the VRF does not exist, or there is no memory for the track.
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

    /// Stops tracking a destination.
    pub(crate) fn untrack(&mut self, track: Track, by: &mut impl Resolver) {
        let state = &mut self.rib.paths.states[track.list];
        state.tracks -= 1;
        self.leave_list(track.list, by);
    }

    /// True if the path to a tracked destination is resolved, and at least one of its resolved paths leads to something other than an entry
    /// of a feature's table. Routes that drop packets or report them as unreachable count as resolved.
    pub(crate) fn leads(&self, track: &Track) -> bool {
        let state = &self.rib.paths.states[track.list];
        state.resolved.is_some() && !state.ways.iter().all(|way| matches!(way, Object::Feature(..)))
    }

    /// Returns a destination that a track uses in the VRF, if there is one.
    pub(super) fn tracked_in(&self, fib: u16) -> Option<Prefix<A>> {
        let state = self.rib.paths.tracked_in(fib)?;
        let to = state.list.paths().find_map(Path::next_hop).and_then(A::of)?;
        Some(Prefix::new(to, A::Bits::BITS))
    }
}
