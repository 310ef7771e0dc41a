//! State of API clients: replacements in progress, and the VRFs that clients see in one address family only.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::ip::{Address, IpPrefix};

/// The families in which clients see a VRF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    ip4: bool,
    ip6: bool,
}

impl Seen {
    /// True if clients see the VRF in a family.
    pub(crate) fn is_in(self, ip6: bool) -> bool {
        if ip6 { self.ip6 } else { self.ip4 }
    }

    /// Shows the VRF in a family, or hides it.
    pub(crate) fn set(&mut self, ip6: bool, on: bool) {
        *(if ip6 { &mut self.ip6 } else { &mut self.ip4 }) = on;
    }
}

/// The VRFs that API clients have added or removed, with the families in which clients see them. Clients add and remove a VRF for
/// one address family at a time. A removed VRF that interfaces still use has no family. Clients see VRFs that are not listed here
/// in both families.
#[derive(Default)]
pub(crate) struct Halves(pub(crate) BTreeMap<u32, Seen>);

impl Halves {
    /// Returns the families in which clients see an existing VRF.
    pub(crate) fn seen(&self, table: u32) -> Seen {
        self.0.get(&table).copied().unwrap_or(Seen { ip4: true, ip6: true })
    }
}

/// The objects that a client has added again since its replacement began. At the end of the replacement, the planning thread reads them;
/// the client can no longer add objects then.
#[derive(Debug)]
pub(crate) struct Again<T>(Arc<Mutex<BTreeSet<T>>>);

impl<T> Clone for Again<T> {
    fn clone(&self) -> Again<T> {
        Again(self.0.clone())
    }
}

impl<T: Ord> Again<T> {
    /// Begins a replacement.
    pub(crate) fn begin() -> Again<T> {
        Again(Arc::new(Mutex::new(BTreeSet::new())))
    }

    fn set(&self) -> MutexGuard<'_, BTreeSet<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an object was added.
    pub(crate) fn insert(&self, object: T) {
        self.set().insert(object);
    }

    /// True if the object was added again.
    pub(crate) fn contains(&self, object: &T) -> bool {
        self.set().contains(object)
    }

    /// True if `self` and `other` belong to the same replacement.
    pub(crate) fn is(&self, other: &Again<T>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The replacements in progress. Each one lists the objects that the client has added again since the replacement began. At the end of the
/// replacement, the other objects are removed.
#[derive(Default)]
pub(crate) struct Replacing {
    /// When the replacement of neighbors began, in nanoseconds of the monotonic clock, and the neighbors that were added again since, by
    /// interface and address.
    pub(crate) neighbors: Option<(u64, Again<(u32, IpAddr)>)>,
    /// Addresses that were added again, with their interfaces.
    pub(crate) addresses: Option<Again<(String, Address)>>,
    /// Routes that were added again, by VRF and family (true for IPv6).
    pub(crate) tables: BTreeMap<(u32, bool), Again<IpPrefix>>,
}

impl Replacing {
    /// Begins to replace the addresses of all interfaces.
    pub(crate) fn begin_addresses(&mut self) {
        self.addresses = Some(Again::begin());
    }

    /// Begins to replace the routes of a VRF in one address family.
    pub(crate) fn begin_table(&mut self, table: u32, is_ip6: bool) {
        self.tables.insert((table, is_ip6), Again::begin());
    }

    /// Notes that an address was added, if a replacement of the addresses is in progress.
    pub(crate) fn address(&mut self, interface: &str, address: Address) {
        if let Some(again) = &self.addresses {
            again.insert((interface.to_owned(), address));
        }
    }

    /// True while a replacement of this VRF's routes, in the family of `prefix`, is in progress.
    pub(crate) fn has_table(&self, table: u32, prefix: IpPrefix) -> bool {
        self.tables.contains_key(&(table, prefix.address().is_ipv6()))
    }

    /// Notes that a route was added, if a replacement of the routes of its VRF and family is in progress.
    pub(crate) fn route(&mut self, table: u32, prefix: IpPrefix) {
        if let Some(again) = self.tables.get(&(table, prefix.address().is_ipv6())) {
            again.insert(prefix);
        }
    }
}
