//! The sub-interfaces of a device, by the tags of their packets.

use std::sync::Arc;

/// The tags of a sub-interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tags {
    /// Whether the outer tag is a service tag (0x88a8, 802.1ad) instead of a customer tag (0x8100, 802.1Q).
    pub outer_service: bool,
    /// The outer tag's VLAN, 1–4094.
    pub outer: u16,
    /// The inner tag's VLAN (always 0x8100), if there are two.
    pub inner: Option<u16>,
}

/// Which sub-interface takes which tags. Copies share the table; a change makes a new one.
#[derive(Clone, Debug, Default)]
pub struct Vlans(Option<Arc<Vec<(Tags, u32)>>>);

impl Vlans {
    /// The table with these entries.
    pub fn new(mut entries: Vec<(Tags, u32)>) -> Vlans {
        entries.sort_unstable();
        Vlans(if entries.is_empty() { None } else { Some(Arc::new(entries)) })
    }

    /// The sub-interface for packets with these tags.
    pub fn get(&self, tags: Tags) -> Option<u32> {
        let entries = self.0.as_ref()?;
        let at = entries.binary_search_by_key(&tags, |e| e.0).ok()?;
        Some(entries[at].1)
    }

    /// Every entry.
    pub fn entries(&self) -> &[(Tags, u32)] {
        self.0.as_ref().map_or(&[], |e| e)
    }
}
