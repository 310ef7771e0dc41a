//! The sub-interfaces of a device, by VLAN tags.

use std::sync::Arc;

/// The VLAN tags of a sub-interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tags {
    /// True if the outer tag is a service tag (0x88a8, 802.1ad) instead of a customer tag (0x8100, 802.1Q).
    pub outer_service: bool,
    /// VLAN of the outer tag, 1–4094.
    pub outer: u16,
    /// VLAN of the inner tag (always type 0x8100), if there are two tags.
    pub inner: Option<u16>,
}

/// Maps VLAN tags to sub-interfaces. Clones share the table; a change makes a new one.
#[derive(Clone, Debug, Default)]
pub struct Vlans(Option<Arc<Vec<(Tags, u32)>>>);

impl Vlans {
    /// Creates a table with these entries.
    pub fn new(mut entries: Vec<(Tags, u32)>) -> Vlans {
        entries.sort_unstable();
        Vlans(if entries.is_empty() { None } else { Some(Arc::new(entries)) })
    }

    /// Returns the sub-interface for frames with these tags.
    pub fn get(&self, tags: Tags) -> Option<u32> {
        let entries = self.0.as_ref()?;
        let at = entries.binary_search_by_key(&tags, |e| e.0).ok()?;
        Some(entries[at].1)
    }

    /// Returns all entries.
    pub fn entries(&self) -> &[(Tags, u32)] {
        self.0.as_ref().map_or(&[], |e| e)
    }
}
