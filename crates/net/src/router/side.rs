//! What the router has once for each family of addresses.

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

/// What the router has of one family.
pub struct Side<A: Family> {
    pub(super) routes: Routes<A>,
    pub(super) own: Writer<OwnAddresses<A>>,
    /// Whether interfaces have other addresses than `own` says, which [follows](Router::publish_own) within this turn.
    pub(super) own_changed: bool,
    /// Routes that follow from interface addresses, by interface.
    pub(super) connected: BTreeMap<u32, Vec<Connected<A>>>,
    /// What was told of interfaces that are up.
    pub(super) announced: BTreeMap<u32, (Mac, Vec<Address<A>>)>,
    /// Neighbours with an address that is on no network of their interface. Whether they have a route depends on others.
    pub(super) off_link: BTreeSet<(A, u32)>,
    /// When workers are told to look for packets that nobody released.
    pub(super) sweep_at: Option<u64>,
}

/// A route that follows from an interface's address: its VRF, its prefix, and where it leads.
pub(super) type Connected<A> = (u16, Prefix<A>, Path);

impl<A: Family> Side<A> {
    /// Nothing yet, and the VRF 0.
    ///
    /// # Errors
    /// When memory for the tables is not to be had.
    pub(super) fn new(domain: &Domain, writers: ForwardingWriters<A>) -> io::Result<Side<A>> {
        let ForwardingWriters { fibs, objects, balances, own } = writers;
        Ok(Side {
            routes: Routes::new(domain, objects, balances, fibs)?,
            own,
            own_changed: false,
            connected: BTreeMap::new(),
            announced: BTreeMap::new(),
            off_link: BTreeSet::new(),
            sweep_at: None,
        })
    }
}

/// A family that a router routes.
pub trait Routed: Family {
    /// What the router has of it.
    fn side(router: &Router) -> &Side<Self>;
    /// The same to be changed, and what resolves its paths.
    fn side_mut(router: &mut Router) -> (&mut Side<Self>, &mut Neighborhood);
    /// Its neighbours.
    fn neighbors(near: &Neighborhood) -> &Neighbors<Self>;
    /// Its neighbours, to be changed.
    fn neighbors_mut(near: &mut Neighborhood) -> &mut Neighbors<Self>;
    /// The addresses of an interface.
    fn all(interface: &InterfaceInfo) -> impl Iterator<Item = Address<Self>>;
    /// Those that may turn out to be another's, and are not used yet.
    fn tentative(interface: &InterfaceInfo) -> impl Iterator<Item = Self>;
    /// The addresses of an interface that the router answers at.
    fn own(interface: &InterfaceInfo) -> impl Iterator<Item = Address<Self>>;
    /// Sends the packets that the protocol of neighbours asks for.
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
