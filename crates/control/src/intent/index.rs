//! Where objects are found, beside under their keys.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use model::object::Fact;
use model::tuple::Tuple;
use net::ethernet::Tags;
use net::ip::IpPrefix;

use super::{Interface, Key, Refused, Snapshot, Store, Value, View, refuse};

/// Sub-interfaces: parent, tags, name.
const TAGGED: &str = "tags";
/// Interfaces by their index: that, name.
pub(super) const NUMBERS: &str = "index";
/// Taps whose other end is the host's: its name there, and that of the tap.
pub(crate) const TAPS: &str = "tap";
/// Files that devices record to, and their interfaces.
pub(crate) const RECORDS: &str = "record";
/// Addresses of interfaces: VRF, address, interface.
pub(super) const OWNERS: &str = "address";
/// Networks of interfaces, but the link-local ones: VRF, network, interface.
pub(super) const NETWORKS: &str = "network";
/// Next hops of routes: that, the interface if they name one, and the VRF that they are in.
pub(super) const NEXT_HOPS: &str = "next-hop";
/// Those that use the addresses of another interface: that one, and they.
pub(super) const BORROWERS: &str = "borrower";

/// The place of a sub-interface.
pub(super) fn tagged_as(parent: &str, tags: Tags, name: &str) -> Fact {
    Fact::new(TAGGED, (parent, (tags.outer_service, tags.outer, tags.inner), name))
}

/// The sub-interfaces of `parent` with these tags; more than one only in a tree that nobody has validated.
pub(super) fn tagged(view: &View<'_>, parent: &str, tags: Tags) -> impl Iterator<Item = String> {
    view.found(TAGGED, Tuple::of(&(parent, (tags.outer_service, tags.outer, tags.inner))))
}

/// The interfaces with this index; more than one only in a tree that nobody has validated.
pub(super) fn numbered(view: &View<'_>, number: u32) -> impl Iterator<Item = String> {
    view.found(NUMBERS, Tuple::of(&number))
}

/// The taps whose other end is the host's interface of this name; more than one only in a tree that nobody has validated.
pub(crate) fn taps(view: &View<'_>, host_name: &str) -> impl Iterator<Item = String> {
    view.found(TAPS, Tuple::of(host_name))
}

/// The interfaces of devices that record to this file; more than one only in a tree that nobody has validated.
pub(crate) fn recorded(view: &View<'_>, file: &Path) -> impl Iterator<Item = String> {
    view.found(RECORDS, Tuple::of(file))
}

/// The interfaces of a VRF that have this address: one, unless it is a link-local one.
pub(super) fn owners(view: &View<'_>, table: u16, address: IpAddr) -> impl Iterator<Item = String> {
    view.found(OWNERS, Tuple::of(&(table, address)))
}

/// An interface of a VRF, but not this one, with a network that overlaps.
pub(super) fn overlapping(view: &View<'_>, table: u16, network: IpPrefix, but: &str) -> Option<String> {
    let wider = (0..network.len()).flat_map(|len| {
        let wider = IpPrefix::new(network.address(), len);
        view.found(NETWORKS, Tuple::of(&(table, wider)))
    });
    // What is in a network stands right behind it.
    let place = |place: &Tuple| place.get::<(u16, IpPrefix, String)>();
    let within = view.places_while(NETWORKS, Tuple::of(&(table, network)), move |tuple| {
        place(tuple).is_some_and(|(t, n, _)| t == table && network.covers(n))
    });
    let within = within.filter_map(place).map(|(.., name)| name);
    within.chain(wider).find(|name| *name != but)
}

/// The interface named, if one is, and the VRF of routes that lead to this next hop.
pub(super) fn leading_to(view: &View<'_>, next_hop: IpAddr) -> impl Iterator<Item = (Option<String>, u16)> {
    view.found(NEXT_HOPS, Tuple::of(&next_hop))
}

/// Those that use the addresses of this interface.
pub(super) fn borrowers(view: &View<'_>, lender: &str) -> impl Iterator<Item = String> {
    view.found(BORROWERS, Tuple::of(lender))
}

/// The interface or sub-interface with this name, of what `get` gives.
pub(super) fn interface<'t>(name: &str, get: impl Fn(&Key) -> Option<&'t Value>) -> Option<&'t Interface> {
    let value = get(&Interface::key(name)).or_else(|| get(&Interface::sub_key(name)))?;
    value.get::<Interface>()
}

/// Where interfaces can be asked for by name.
pub trait Find {
    /// The interface or sub-interface with this name.
    fn interface(&self, name: &str) -> Option<&Interface>;

    /// Refuses a name that is no interface's.
    ///
    /// # Errors
    /// As it says.
    fn must_have_interface(&self, name: &str) -> Result<&Interface, Refused> {
        match self.interface(name) {
            Some(interface) => Ok(interface),
            None => refuse(format!("there is no interface {name}")),
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

/// Gives indices to those of the wanted interfaces that say none: what they have `now`, or else the lowest that is free, in their
/// order.
pub(super) fn number(now: &Snapshot, mut wanted: Vec<(String, &mut Interface)>) {
    // What they have now, which is free if they want another one.
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
    // The number comes first; names behind it are not looked at, as there may be many.
    let others = others.filter_map(|place| place.behind::<u32>(&Tuple::default()));
    let others = others.filter(|number| !own.contains(number));
    let mut taken: Vec<u32> = others.chain(wanted.iter().filter_map(|(_, i)| i.index)).collect();
    taken.sort_unstable();
    let (mut free, mut behind) = (0, taken.into_iter().peekable());
    for (_, i) in wanted.iter_mut().filter(|(_, i)| i.index.is_none()) {
        while let Some(n) = behind.next_if(|n| *n <= free) {
            free = free.max(n + 1);
        }
        i.index = Some(free);
        free += 1;
    }
}

/// Whether the indices of the interfaces are those that they would get anyway, were they made one by one in their order.
pub fn in_order(tree: &super::Tree) -> bool {
    (0..).zip(tree.range(Key::all::<Interface>())).all(|(n, (_, value))| match value.get::<Interface>() {
        Some(i) => i.index.is_none_or(|index| index == n),
        None => true,
    })
}
