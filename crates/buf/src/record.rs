//! The packet record: everything that nodes read and write for every packet, in 32 bytes.
//!
//! Features do not add fields to the record. Fields that few packets need are in the buffer's cold header.

use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

/// The interface index for "none".
pub const NO_INTERFACE: u32 = u32::MAX;

/// Facts about a packet, one bit each.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Flags(pub(crate) u16);

impl Flags {
    /// No flags.
    pub const NONE: Flags = Flags(0);
    /// The packet has more than one buffer.
    pub const CHAINED: Flags = Flags(1 << 0);
    /// The packet is being traced.
    pub const TRACED: Flags = Flags(1 << 1);
    /// The packet is larger than allowed on the wire; it is segmented on transmission.
    pub const GSO: Flags = Flags(1 << 2);
    /// The layer 4 checksum contains the sum of the pseudo header only.
    pub const CSUM_PARTIAL: Flags = Flags(1 << 3);
    /// The Ethernet destination was the broadcast address.
    pub const L2_BROADCAST: Flags = Flags(1 << 4);
    /// The Ethernet destination was a multicast address (not broadcast).
    pub const L2_MULTICAST: Flags = Flags(1 << 5);
    /// This router made the packet: its TTL is not decremented.
    pub const LOCAL_ORIGIN: Flags = Flags(1 << 6);
    /// A node held the packet, for example to resolve a neighbor, and then sent it back to an earlier node. A node that would send
    /// it back a second time drops it instead.
    pub const RECIRCULATED: Flags = Flags(1 << 7);
    /// Some feature has written a [field](crate::feature): the feature bytes belong to this packet.
    pub const FEATURES: Flags = Flags(1 << 8);
    /// Flags about a packet's structure; only this crate sets them.
    pub(crate) const OWN: Flags = Flags(Flags::CHAINED.0 | Flags::FEATURES.0);

    /// Returns the union with `other`; usable in constants.
    #[inline(always)]
    pub const fn or(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// True if any bit of `other` is set.
    #[inline(always)]
    pub fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// True if no bit is set.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Flags {
    type Output = Flags;
    #[inline(always)]
    fn bitor(self, o: Flags) -> Flags {
        Flags(self.0 | o.0)
    }
}
impl BitOrAssign for Flags {
    #[inline(always)]
    fn bitor_assign(&mut self, o: Flags) {
        self.0 |= o.0;
    }
}
impl BitAnd for Flags {
    type Output = Flags;
    #[inline(always)]
    fn bitand(self, o: Flags) -> Flags {
        Flags(self.0 & o.0)
    }
}
impl Not for Flags {
    type Output = Flags;
    #[inline(always)]
    fn not(self) -> Flags {
        Flags(!self.0)
    }
}

impl std::fmt::Debug for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [&str; 9] = [
            "chained",
            "traced",
            "gso",
            "csum-partial",
            "l2-broadcast",
            "l2-multicast",
            "local-origin",
            "recirculated",
            "features",
        ];
        let mut first = true;
        for (bit, name) in NAMES.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                f.write_str(if first { "" } else { " " })?;
                f.write_str(name)?;
                first = false;
            }
        }
        if first { f.write_str("-") } else { Ok(()) }
    }
}

/// One packet's record. It owns its buffer, so it is neither `Copy` nor `Clone`.
#[repr(C, align(32))]
pub(crate) struct Record {
    /// The head buffer: its distance from the start of the arena in cache lines.
    pub(crate) buf: u32,
    /// Offset of the first byte that the next node handles, from the start of the buffer.
    pub(crate) off: u16,
    /// Number of bytes in the first buffer, from `off`.
    pub(crate) len: u16,
    pub(crate) flags: Flags,
    /// The forwarding table (VRF) for lookups.
    pub(crate) fib: u16,
    pub(crate) rx_if: u32,
    pub(crate) tx_if: u32,
    /// Forwarding index: first the result of the lookup, then the adjacency. If the packet is dropped or
    /// punted, the reason.
    pub(crate) fwd: u32,
    /// Flow hash; 0 until it is computed.
    pub(crate) hash: u32,
    /// Offset of the first byte of the network header, from the start of the buffer; 0 before it is marked.
    pub(crate) l3: u16,
    /// Bytes of the link header before `l3`.
    pub(crate) l2_len: u8,
    /// Bytes from `l3` to the transport header; 0 while unknown.
    pub(crate) l4: u8,
}

const _: () = assert!(size_of::<Record>() == 32);

/// A copy of a record's main fields, without ownership of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Buffer index.
    pub buffer: u32,
    /// Offset of the first byte that the node handles, from the start of the buffer.
    pub offset: u16,
    /// Number of bytes in the first buffer.
    pub len: u16,
    /// The packet's flags.
    pub flags: Flags,
    /// Forwarding table.
    pub fib: u16,
    /// Receive interface.
    pub rx_if: u32,
    /// Transmit interface.
    pub tx_if: u32,
    /// Forwarding index, or the reason if the packet is dropped or punted.
    pub fwd: u32,
    /// Flow hash; 0 until it is computed.
    pub hash: u32,
}

impl Record {
    #[inline]
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            buffer: self.buf,
            offset: self.off,
            len: self.len,
            flags: self.flags,
            fib: self.fib,
            rx_if: self.rx_if,
            tx_if: self.tx_if,
            fwd: self.fwd,
            hash: self.hash,
        }
    }
}
