//! Ethernet II (IEEE 802.3 clause 3.2) and VLAN tags (IEEE 802.1Q clause 9).

use crate::field::{get, get16, put};
use crate::mac::Mac;

/// EtherTypes: the types in an Ethernet header or a VLAN tag.
pub mod ethertype {
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86dd;
    /// Customer VLAN tag, 802.1Q.
    pub const VLAN: u16 = 0x8100;
    /// Service VLAN tag, 802.1ad.
    pub const QINQ: u16 = 0x88a8;
    /// Outer tag of equipment older than 802.1ad.
    pub const QINQ_LEGACY: u16 = 0x9100;
    /// The smallest type value; smaller values are the length of an 802.3 frame (IEEE 802.3 clause 3.2.6).
    pub const MIN: u16 = 0x0600;

    /// True if `value` is the type of a VLAN tag.
    #[inline(always)]
    pub const fn is_vlan(value: u16) -> bool {
        matches!(value, VLAN | QINQ | QINQ_LEGACY)
    }
}

header! {
    /// Destination, source and type of a frame.
    EthernetHeader, 14
}

impl EthernetHeader {
    /// Returns a header with these fields.
    #[inline(always)]
    pub fn new(dst: Mac, src: Mac, ethertype: u16) -> Self {
        let mut h = Self::zeroed();
        h.set_dst(dst);
        h.set_src(src);
        h.set_ethertype(ethertype);
        h
    }

    /// Destination address.
    #[inline(always)]
    pub const fn dst(&self) -> Mac {
        Mac(get::<0, 6, _>(&self.0))
    }

    /// Returns the destination address in the format of [`Mac::to_word`]. This takes one load and one shift.
    #[inline(always)]
    pub const fn dst_word(&self) -> u64 {
        u64::from_le_bytes(get::<0, 8, _>(&self.0)) << 16
    }

    /// Source address as [`Mac::to_word`].
    #[inline(always)]
    pub const fn src_word(&self) -> u64 {
        u64::from_le_bytes(get::<6, 8, _>(&self.0)) << 16
    }

    /// Source address.
    #[inline(always)]
    pub const fn src(&self) -> Mac {
        Mac(get::<6, 6, _>(&self.0))
    }

    /// The type of the contents, see [`ethertype`].
    #[inline(always)]
    pub const fn ethertype(&self) -> u16 {
        get16::<12, _>(&self.0)
    }

    /// Sets the destination address.
    #[inline(always)]
    pub fn set_dst(&mut self, mac: Mac) {
        put::<0, 6, _>(&mut self.0, mac.0);
    }

    /// Sets the source address.
    #[inline(always)]
    pub fn set_src(&mut self, mac: Mac) {
        put::<6, 6, _>(&mut self.0, mac.0);
    }

    /// Sets the type of the contents.
    #[inline(always)]
    pub fn set_ethertype(&mut self, value: u16) {
        put::<12, 2, _>(&mut self.0, value.to_be_bytes());
    }
}

header! {
    /// A VLAN tag without the TPID: the tag control information, then the EtherType of the contents.
    VlanTag, 4
}

impl VlanTag {
    /// Returns a tag with priority 0. `inner` is the EtherType of the contents. Only the lower 12 bits of
    /// `vid` are used.
    #[inline(always)]
    pub fn new(vid: u16, inner: u16) -> Self {
        Self::with_tci(vid & 0x0fff, inner)
    }

    /// Returns a tag with this tag control information. `inner` is the EtherType of the contents.
    #[inline(always)]
    pub fn with_tci(tci: u16, inner: u16) -> Self {
        let mut tag = Self::zeroed();
        tag.set_tci(tci);
        tag.set_ethertype(inner);
        tag
    }

    /// Tag control information: priority (3 bits), drop eligible (1), VLAN identifier (12).
    #[inline(always)]
    pub const fn tci(&self) -> u16 {
        get16::<0, _>(&self.0)
    }

    /// VLAN identifier; 0 means that the tag only carries a priority.
    #[inline(always)]
    pub const fn vid(&self) -> u16 {
        self.tci() & 0x0fff
    }

    /// Priority code point, 0 to 7.
    #[inline(always)]
    pub const fn pcp(&self) -> u8 {
        self.0[0] >> 5
    }

    /// Drop eligible indicator.
    #[inline(always)]
    pub const fn dei(&self) -> bool {
        self.0[0] & 0x10 != 0
    }

    /// The type of the contents, see [`ethertype`].
    #[inline(always)]
    pub const fn ethertype(&self) -> u16 {
        get16::<2, _>(&self.0)
    }

    /// Sets the tag control information.
    #[inline(always)]
    pub fn set_tci(&mut self, tci: u16) {
        put::<0, 2, _>(&mut self.0, tci.to_be_bytes());
    }

    /// Sets the type of the contents.
    #[inline(always)]
    pub fn set_ethertype(&mut self, value: u16) {
        put::<2, 2, _>(&mut self.0, value.to_be_bytes());
    }
}
