//! The state of the router that exists once for each address family.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use infra::class_a::Writer;
use infra::quiesce::Domain;
use wire::Mac;

use super::{InterfaceInfo, Neighborhood, Router};
use crate::ip::{Address, ForwardingWriters, OwnAddresses, Path, Prefix, Routes};
use crate::nd::Standing;
use crate::neighbor::{Action, Family, Neighbors};

/// The state of the router for one address family.
pub struct Side<A: Family> {
    pub(super) routes: Routes<A>,
    pub(super) own: Writer<OwnAddresses<A>>,
    /// True if interface addresses have changed since `own` was [published](Router::publish_own). [`Router::poll`] publishes them.
    pub(super) own_changed: bool,
    /// Routes that interface addresses require, by interface.
    pub(super) connected: BTreeMap<u32, Vec<Connected<A>>>,
    /// The Ethernet address and the IP addresses that have been announced, for each interface that is up.
    pub(super) announced: BTreeMap<u32, (Mac, Vec<Address<A>>)>,
    /// Neighbors whose address is outside their interface's networks. These neighbors have a host route only while an attached route covers
    /// their address.
    pub(super) off_link: BTreeSet<(A, u32)>,
    /// The check whether attached routes still cover the addresses in `off_link`.
    pub(super) off_link_check: Check<(A, u32)>,
    /// Time at which the main thread tells the workers to drop packets that waited too long.
    pub(super) sweep_at: Option<u64>,
}

/// A check of all elements of a set, a few at a time. If a check is requested while one is running, another check follows.
pub(super) struct Check<K> {
    /// `None` if no check is running; `Some(None)` at the beginning of a check, later the element that was checked last.
    pub(super) next: Option<Option<K>>,
    /// True if another check follows.
    pub(super) again: bool,
}

impl<K> Default for Check<K> {
    fn default() -> Check<K> {
        Check { next: None, again: false }
    }
}

impl<K> Check<K> {
    /// Asks for a check of all elements.
    pub(super) fn ask(&mut self) {
        self.again |= self.next.is_some();
        self.next.get_or_insert(None);
    }

    /// Records that `elements`, the next ones of the set, have been checked. If there are none, the check is complete.
    pub(super) fn checked(&mut self, elements: &[K])
    where
        K: Copy,
    {
        self.next = match elements.last() {
            Some(last) => Some(Some(*last)),
            None => std::mem::take(&mut self.again).then_some(None),
        };
    }
}

/// A route that an interface address requires: VRF, prefix and path.
pub(super) type Connected<A> = (u16, Prefix<A>, Path);

impl<A: Family> Side<A> {
    /// Creates the state, which has only VRF 0 with its special-purpose routes.
    ///
    /// # Errors
    /// If there is no memory for the tables.
    pub(super) fn new(domain: &Domain, writers: ForwardingWriters<A>) -> io::Result<Side<A>> {
        let ForwardingWriters { fibs, objects, balances, own } = writers;
        Ok(Side {
            routes: Routes::new(domain, objects, balances, fibs)?,
            own,
            own_changed: false,
            connected: BTreeMap::new(),
            announced: BTreeMap::new(),
            off_link: BTreeSet::new(),
            off_link_check: Check::default(),
            sweep_at: None,
        })
    }
}

/// An address family that the router can forward.
pub trait Routed: Family {
    /// Returns the router's state for this family.
    fn side(router: &Router) -> &Side<Self>;
    /// Returns the router's state for this family, mutable. Also returns the interfaces, adjacencies and neighbors, mutable, by
    /// which this family's paths are resolved.
    fn side_mut(router: &mut Router) -> (&mut Side<Self>, &mut Neighborhood);
    /// Returns the neighbor table of this family.
    fn neighbors(near: &Neighborhood) -> &Neighbors<Self>;
    /// Returns the neighbor table of this family, mutable.
    fn neighbors_mut(near: &mut Neighborhood) -> &mut Neighbors<Self>;
    /// Returns all addresses that an interface has in this family.
    fn all(interface: &InterfaceInfo) -> impl Iterator<Item = Address<Self>>;
    /// Returns the addresses of an interface that are not used yet, because duplicate address detection is running for them.
    fn tentative(interface: &InterfaceInfo) -> impl Iterator<Item = Self>;
    /// Returns the addresses of an interface that the router uses and answers for.
    fn own(interface: &InterfaceInfo) -> impl Iterator<Item = Address<Self>>;
    /// Sends the packets for an action of the neighbor table.
    fn send(router: &mut Router, action: &Action<Self>);
}

impl Routed for Ipv4Addr {
    fn side(router: &Router) -> &Side<Ipv4Addr> {
        &router.ip4
    }

    fn side_mut(router: &mut Router) -> (&mut Side<Ipv4Addr>, &mut Neighborhood) {
        (&mut router.ip4, &mut router.near)
    }

    fn neighbors(near: &Neighborhood) -> &Neighbors<Ipv4Addr> {
        &near.neighbors4
    }

    fn neighbors_mut(near: &mut Neighborhood) -> &mut Neighbors<Ipv4Addr> {
        &mut near.neighbors4
    }

    fn all(interface: &InterfaceInfo) -> impl Iterator<Item = Address<Ipv4Addr>> {
        interface.addresses_of()
    }

    fn tentative(_: &InterfaceInfo) -> impl Iterator<Item = Ipv4Addr> {
        std::iter::empty()
    }

    fn own(interface: &InterfaceInfo) -> impl Iterator<Item = Address<Ipv4Addr>> {
        interface.addresses_of()
    }

    fn send(router: &mut Router, action: &Action<Ipv4Addr>) {
        router.send_arp_for(action);
    }
}

impl Routed for Ipv6Addr {
    fn side(router: &Router) -> &Side<Ipv6Addr> {
        &router.ip6
    }

    fn side_mut(router: &mut Router) -> (&mut Side<Ipv6Addr>, &mut Neighborhood) {
        (&mut router.ip6, &mut router.near)
    }

    fn neighbors(near: &Neighborhood) -> &Neighbors<Ipv6Addr> {
        &near.neighbors6
    }

    fn neighbors_mut(near: &mut Neighborhood) -> &mut Neighbors<Ipv6Addr> {
        &mut near.neighbors6
    }

    fn all(interface: &InterfaceInfo) -> impl Iterator<Item = Address<Ipv6Addr>> {
        interface.all_ip6().into_iter()
    }

    fn tentative(interface: &InterfaceInfo) -> impl Iterator<Item = Ipv6Addr> {
        interface.standing.iter().filter(|(_, s)| **s == Standing::Tentative).map(|(a, _)| *a)
    }

    fn own(interface: &InterfaceInfo) -> impl Iterator<Item = Address<Ipv6Addr>> {
        interface.own_ip6()
    }

    fn send(router: &mut Router, action: &Action<Ipv6Addr>) {
        router.send_nd_for(action);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Bound;

    use super::Check;

    /// Checks two elements of the set, as the router does. Returns them.
    fn some(check: &mut Check<u32>, all: &BTreeSet<u32>) -> Vec<u32> {
        let from = check.next.expect("a check is running").map_or(Bound::Unbounded, Bound::Excluded);
        let some: Vec<u32> = all.range((from, Bound::Unbounded)).take(2).copied().collect();
        check.checked(&some);
        some
    }

    #[test]
    fn a_request_during_a_check_is_followed_by_another() {
        let (mut check, mut all) = (Check::default(), BTreeSet::from([1, 2, 3, 4, 5]));
        check.ask();
        assert_eq!(some(&mut check, &all), [1, 2]);
        // The last element that was checked may be removed meanwhile.
        all.remove(&2);
        check.ask();
        check.ask();
        assert_eq!(some(&mut check, &all), [3, 4]);
        assert_eq!(some(&mut check, &all), [5]);
        assert!(some(&mut check, &all).is_empty());
        assert_eq!(some(&mut check, &all), [1, 3]);
        assert_eq!(some(&mut check, &all), [4, 5]);
        assert!(some(&mut check, &all).is_empty() && check.next.is_none());
    }
}
