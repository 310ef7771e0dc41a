//! Indexes to find objects by something other than their keys. The comment of each index lists the objects that it finds, and the fields of
//! an index entry.

use std::collections::BTreeSet;
use std::net::IpAddr;

use model::object::Fact;
use model::tuple::Tuple;
use net::ethernet::Match;
use net::ip::IpPrefix;

use super::{Interface, Key, Reason, Refused, Snapshot, Store, Value, View, refuse_as};

/// Sub-interfaces: parent, match, name.
const TAGGED: &str = "tags";
/// Interfaces by index: index, name.
pub(super) const NUMBERS: &str = "index";
/// Addresses of interfaces: VRF, address, interface.
pub(super) const OWNERS: &str = "address";
/// Networks of interfaces, except link-local ones: VRF, network, interface.
pub(super) const NETWORKS: &str = "network";
/// Next hops of routes: next hop, the route's interface if it has one, the route's VRF.
pub(super) const NEXT_HOPS: &str = "next-hop";
/// VRFs with a name: name, number.
pub(super) const TABLE_NAMES: &str = "table-name";
/// Unnumbered interfaces: the lender of the addresses, the borrower.
pub(super) const BORROWERS: &str = "borrower";

/// Returns the entry of a sub-interface in the index `TAGGED`.
pub(super) fn tagged_as(parent: &str, takes: Match, name: &str) -> Fact {
    Fact::new(TAGGED, (parent, takes.to_string(), name))
}

/// Returns the sub-interfaces of `parent` with this match. A valid tree has at most one.
pub(super) fn tagged(view: &View<'_>, parent: &str, takes: Match) -> impl Iterator<Item = String> {
    view.found(TAGGED, Tuple::of(&(parent, takes.to_string())))
}

/// Returns the interfaces with this index. A valid tree has at most one.
pub(super) fn numbered(view: &View<'_>, number: u32) -> impl Iterator<Item = String> {
    view.found(NUMBERS, Tuple::of(&number))
}

/// Returns the interfaces that have `address` in the VRF `table`. A valid tree has at most one, unless the address is link-local.
pub(super) fn owners(view: &View<'_>, table: u32, address: IpAddr) -> impl Iterator<Item = String> {
    view.found(OWNERS, Tuple::of(&(table, address)))
}

/// True if an interface of the VRF has this network.
pub(crate) fn is_connected(view: &View<'_>, table: u32, network: IpPrefix) -> bool {
    view.found::<String>(NETWORKS, Tuple::of(&(table, network))).next().is_some()
}

/// Returns an interface of the VRF, other than `but`, with a network that overlaps `network`.
pub(super) fn overlapping(view: &View<'_>, table: u32, network: IpPrefix, but: &str) -> Option<String> {
    let wider = (0..network.len()).flat_map(|len| {
        let wider = IpPrefix::new(network.address(), len);
        view.found(NETWORKS, Tuple::of(&(table, wider)))
    });
    // In the index, more specific networks follow directly after a network.
    let place = |place: &Tuple| place.get::<(u32, IpPrefix, String)>();
    let within = view.places_while(NETWORKS, Tuple::of(&(table, network)), move |tuple| {
        place(tuple).is_some_and(|(t, n, _)| t == table && network.covers(n))
    });
    let within = within.filter_map(place).map(|(.., name)| name);
    within.chain(wider).find(|name| *name != but)
}

/// For each route with this next hop, returns the route's interface, if it has one, and the route's VRF.
pub(super) fn leading_to(view: &View<'_>, next_hop: IpAddr) -> impl Iterator<Item = (Option<String>, u32)> {
    view.found(NEXT_HOPS, Tuple::of(&next_hop))
}

/// Returns the VRFs with this name. A valid tree has at most one.
pub(super) fn tables_named(view: &View<'_>, name: &str) -> impl Iterator<Item = u32> {
    view.found(TABLE_NAMES, Tuple::of(name))
}

/// Returns the interfaces that use the addresses of `lender`.
pub(super) fn borrowers(view: &View<'_>, lender: &str) -> impl Iterator<Item = String> {
    view.found(BORROWERS, Tuple::of(lender))
}

/// Returns the interface or sub-interface with this name. `get` returns the object with a key.
pub(super) fn interface<'t>(name: &str, get: impl Fn(&Key) -> Option<&'t Value>) -> Option<&'t Interface> {
    let value = get(&Interface::key(name)).or_else(|| get(&Interface::sub_key(name)))?;
    value.get::<Interface>()
}

/// A collection that finds interfaces by name.
pub trait Find {
    /// Returns the interface or sub-interface with this name.
    fn interface(&self, name: &str) -> Option<&Interface>;

    /// Returns the interface or sub-interface with this name.
    ///
    /// # Errors
    /// If there is no such interface.
    fn must_have_interface(&self, name: &str) -> Result<&Interface, Refused> {
        match self.interface(name) {
            Some(interface) => Ok(interface),
            None => refuse_as(Reason::NoInterface, format!("there is no interface {name}")),
        }
    }
}

impl Find for View<'_> {
    fn interface(&self, name: &str) -> Option<&Interface> {
        interface(name, |key| self.get(key))
    }
}

impl Find for Store {
    fn interface(&self, name: &str) -> Option<&Interface> {
        interface(name, |key| self.get(key))
    }
}

/// The lowest index that the router assigns to an interface. VPP's clients use index 0 for VPP's interface `local0`, or for no interface.
const FIRST: u32 = 1;

/// Sets the index of each interface in `wanted` that has none. An interface that already exists in `now` keeps its index; any other gets
/// the lowest free index, in the order of `wanted`.
pub(super) fn number(now: &Snapshot, mut wanted: Vec<(String, &mut Interface)>) {
    // The present indices of the interfaces in `wanted`. They are free if the interfaces get other ones.
    let mut own = BTreeSet::new();
    for (name, i) in &mut wanted {
        let has = interface(name, |key| now.tree().get(key)).and_then(|i| i.index);
        i.index = i.index.or(has);
        own.extend(has);
    }
    if wanted.iter().all(|(_, i)| i.index.is_some()) {
        return;
    }
    let view = now.view();
    let others = view.places(NUMBERS, Tuple::default());
    // Reads only the number at the start of each index entry, because there may be many entries.
    let others = others.filter_map(|place| place.behind::<u32>(&Tuple::default()));
    let others = others.filter(|number| !own.contains(number));
    let mut taken: Vec<u32> = others.chain(wanted.iter().filter_map(|(_, i)| i.index)).collect();
    taken.sort_unstable();
    let (mut free, mut behind) = (FIRST, taken.into_iter().peekable());
    for (_, i) in wanted.iter_mut().filter(|(_, i)| i.index.is_none()) {
        while let Some(n) = behind.next_if(|n| *n <= free) {
            free = free.max(n + 1);
        }
        i.index = Some(free);
        free += 1;
    }
}

/// True if each interface has the index that it would get if the interfaces were created one by one, in the order of the tree.
/// An interface without an index fits at any place.
pub fn in_order(tree: &super::Tree) -> bool {
    (FIRST..).zip(tree.range(Key::all::<Interface>())).all(|(n, (_, value))| match value.get::<Interface>() {
        Some(i) => i.index.is_none_or(|index| index == n),
        None => true,
    })
}
