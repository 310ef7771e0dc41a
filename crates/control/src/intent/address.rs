//! Addresses of interfaces: a list for each. The first address of each family is the primary one.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;

use model::key::{Kind, Need};
use model::object::Fact;
use net::ip::Address;
use net::objects::{self, Routes};

use super::index::{self, Find};
use super::{
    Get, Key, Neighbor, Object, Reason, Refused, Unnumbered, View, neighbor, refuse, refuse_as, route,
};
use crate::cli::quote;
use crate::system::{Abilities, System};

/// The addresses of an interface: at least one. The first address of each family is the primary one.
#[derive(Clone, Debug, PartialEq)]
pub struct Addresses(pub Vec<Address>);

impl Kind for Addresses {
    /// The interface's name.
    type Key = String;
    const NAME: &'static str = "addresses";
    const PHASE: u16 = 130;
    /// True, because addresses move with the interface to another VRF.
    const MOVES: bool = true;

    fn title(interface: &String) -> String {
        format!("the addresses of {interface}")
    }
}

impl Addresses {
    /// Returns the configured addresses of an interface.
    pub fn on(interface: &str, tree: &super::Tree) -> Vec<Address> {
        super::list(tree.get(&Addresses::key(interface))).to_vec()
    }

    /// Returns the change of an interface's addresses to this list, which may be empty.
    pub fn change_to(interface: &str, list: Vec<Address>) -> super::Change {
        let value = (!list.is_empty()).then(|| Addresses(list).into());
        super::Change { key: Addresses::key(interface), value }
    }

    /// Returns the key of an interface's addresses.
    pub fn key(interface: &str) -> Key {
        Key::with::<Addresses>(interface)
    }
}

impl Object<System> for Addresses {
    fn validate(&self, interface: &String, view: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        validate(interface, &self.0, view)
    }

    fn apply(&self, interface: &String, old: Option<&Self>, system: &mut System) -> Result<(), Refused> {
        let old = old.map_or(&[][..], |old| &old.0);
        apply(interface, old, &self.0, system)
    }

    fn withdraw(&self, interface: &String, system: &mut System) -> Result<(), Refused> {
        apply(interface, &self.0, &[], system)
    }

    fn dump(&self, interface: &String, _: bool) -> Vec<String> {
        let interface = quote(interface);
        self.0.iter().map(|a| format!("set interface ip address {interface} {a}")).collect()
    }

    fn needs(&self, interface: &String, to: &mut dyn FnMut(Need)) {
        to(objects::interface(interface));
    }

    fn staying(&self, new: &Self) -> Option<Self> {
        let stay = staying(&self.0, &new.0);
        (!stay.is_empty()).then_some(Addresses(stay))
    }

    /// Reports the interface's addresses and networks, with the interface's VRF, for the indexes.
    fn facts(&self, interface: &String, get: Get<'_>, to: &mut dyn FnMut(Fact)) {
        to(Routes::Addresses.fact(interface));
        let Some(table) = index::interface(interface, get).map(|i| i.table) else { return };
        for a in &self.0 {
            to(Fact::new(index::OWNERS, (table, a.address, interface)));
            if !a.is_link_local() {
                to(Fact::new(index::NETWORKS, (table, a.network(), interface)));
            }
        }
    }
}

/// Checks the addresses of an interface. Connected networks of a VRF must not overlap, unless they are link-local. None of the addresses
/// may be the next hop of a route. Each static neighbor on the interface must still have a valid host address.
fn validate(interface: &str, list: &[Address], view: &View<'_>) -> Result<(), Refused> {
    let on = view.must_have_interface(interface)?;
    let table = on.table;
    if list.is_empty() {
        return refuse(format!("the address list of {interface} is empty: leave it out"));
    }
    on.can_send(interface)?;
    on.can_speak_ip6(interface, list.iter().any(|a| a.address.is_ipv6()))?;
    objects::may_route(interface, view)?;
    if let Some(lender) = Unnumbered::lender(interface, view) {
        return refuse(format!("{interface} uses the addresses of {lender}: it cannot have its own"));
    }
    // All invalid addresses are reported.
    let (mut faults, mut known) = (Vec::new(), HashSet::new());
    for a in list {
        if let Err(e) = a.check() {
            faults.push(Refused::new(e.0).because(Reason::Value));
        } else if !known.insert(a.address) {
            let why = format!("{interface} has the address {} already", a.address);
            faults.push(Refused::new(why).because(Reason::There));
        }
    }
    together(std::mem::take(&mut faults))?;
    let apart = |a: &&Address| !a.is_link_local();
    let networks: BTreeSet<_> = list.iter().filter(apart).map(|a| a.network()).collect();
    let others: BTreeSet<_> =
        networks.into_iter().filter_map(|n| index::overlapping(view, table, n, interface)).collect();
    for a in list {
        let clash = others.iter().filter(|_| apart(&a)).find_map(|other| {
            let theirs = super::list(view.get(&Addresses::key(other)));
            let theirs = || theirs.iter().filter(apart);
            let overlap = |b: &&Address| a.network().covers(b.network()) || b.network().covers(a.network());
            // Report the same address rather than an overlapping network.
            let b = theirs().find(|b| a.address == b.address).or_else(|| theirs().find(overlap))?;
            Some((other, b))
        });
        match clash {
            Some((other, b)) if a.address == b.address => {
                let why = format!("{other} has the address {} already", b.address);
                faults.push(Refused::new(why).because(Reason::AddressTaken));
            }
            Some((other, b)) => {
                let why = format!(
                    "{a} on {interface} overlaps {b} on {other}: connected networks must not overlap"
                );
                faults.push(Refused::new(why).because(Reason::AddressTaken));
            }
            None => {}
        }
        if let Some(prefix) = route::leading_to(a.address, interface, table, view) {
            let why =
                format!("{} is the next hop of the route for {prefix}: remove the route first", a.address);
            faults.push(Refused::new(why).because(Reason::AddressTaken));
        }
    }
    for (key, _) in view.range(Key::beginning::<Neighbor>(interface)) {
        if let Some((_, ip)) = key.get::<Neighbor>() {
            let wrong = list.iter().filter_map(|a| neighbor::apart(*a, ip, interface).err());
            faults.extend(wrong);
        }
    }
    together(faults)
}

/// Returns one refusal with the texts of all `faults` and the reason of the first one; `Ok` if there are no faults.
fn together(faults: Vec<Refused>) -> Result<(), Refused> {
    let Some(reason) = faults.first().map(Refused::reason) else { return Ok(()) };
    refuse_as(reason, faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// True if an address is link-local (RFC 4291 section 2.5.6).
pub fn is_link_local(address: IpAddr) -> bool {
    Address::new(address, u8::MAX).is_link_local()
}

/// Returns the addresses that stay in place when the list changes from `old` to `new`. First leaves out of `old` the addresses that
/// are not in `new`; then returns the longest common beginning of both lists.
fn staying(old: &[Address], new: &[Address]) -> Vec<Address> {
    let wanted: HashSet<Address> = new.iter().copied().collect();
    let mut stay: Vec<Address> = old.iter().copied().filter(|a| wanted.contains(a)).collect();
    let in_place = stay.iter().zip(new).take_while(|(a, b)| a == b).count();
    stay.truncate(in_place);
    stay
}

pub(super) fn apply(
    interface: &str,
    old: &[Address],
    new: &[Address],
    system: &mut System,
) -> Result<(), Refused> {
    let index = system.index(interface)?;
    let stay = staying(old, new);
    let r = &mut system.router;
    // All addresses are removed and added at once: an update of the interface's routes takes time in proportion to their number.
    let kept: HashSet<Address> = stay.iter().copied().collect();
    let removed: Vec<Address> = old.iter().rev().filter(|a| !kept.contains(a)).copied().collect();
    r.remove_addresses(index, &removed)?;
    if let Err(e) = r.add_addresses(index, &new[stay.len()..]) {
        apply(interface, &stay, old, system)?;
        return Err(e.into());
    }
    Ok(())
}
