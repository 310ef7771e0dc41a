//! Fragments: the key of their datagram, their place in the datagram, and the reasons for dropping them.

use graph::reasons;
use net::ip::Ip;

use crate::waiting::Span;

/// Maximum number of fragments of a datagram.
pub const MOST_FRAGMENTS: usize = 256;

reasons! {
    pub enum Reason {
        Malformed = "bad-fragment", Error, "an invalid fragment: it has no data, or is not the last one and its length is not a multiple \
                                            of 8 bytes";
        TooLong = "too-long", Error, "the reassembled packet would exceed the largest packet length";
        Overlap = "overlap", Warn, "fragments of one datagram overlap, or disagree about its end: the datagram is dropped";
        Duplicate = "duplicate", Info, "the same fragment arrived twice";
        TooMany = "too-many-fragments", Warn, "the datagram has more fragments than allowed";
        Displaced = "displaced-datagrams", Warn, "too many datagrams wait for fragments: the oldest is dropped";
        Crowded = "displaced-buffers", Warn, "waiting fragments occupy too many buffers: the oldest datagrams are dropped";
        Ecn = "bad-ecn", Warn, "one fragment has a congestion mark, and another is not ECN-capable (RFC 3168 section 5.3)";
        Unfinished = "unfinished", Error, "the fragment cannot be reassembled: its checksum or its segmentation is still to be done (offload)";
        Shared = "shared-buffers", Warn, "the fragment cannot be appended: it shares buffers with another packet";
    }
}

/// What all fragments of a datagram have in common: the header fields of RFC 791 section 3.2 or RFC 8200
/// section 4.5, and the VRF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key<A: Ip> {
    pub src: A::Bits,
    pub dst: A::Bits,
    /// VRF, protocol and identification.
    rest: u64,
}

impl<A: Ip> Key<A> {
    pub fn new(fib: u16, src: A::Bits, dst: A::Bits, protocol: u8, id: u32) -> Key<A> {
        Key { src, dst, rest: u64::from(fib) << 40 | u64::from(protocol) << 32 | u64::from(id) }
    }

    pub fn fib(&self) -> u16 {
        (self.rest >> 40) as u16
    }

    pub fn protocol(&self) -> u8 {
        (self.rest >> 32) as u8
    }

    pub fn id(&self) -> u32 {
        self.rest as u32
    }
}

/// The header fields of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The position of the fragment's data in the datagram, and the number of the fragment's buffers.
    pub span: Span,
    /// True if more fragments of the datagram follow.
    pub more: bool,
    /// Number of bytes before the fragment's data, from the start of the packet.
    pub header: u32,
    /// Number of the `header` bytes that count as part of the datagram's length.
    pub counted: u32,
    /// The fragment's ECN code point.
    pub ecn: u8,
}

impl Fragment {
    /// True for a fragment that is not the last one, but has a length that is not a multiple of 8 bytes: no
    /// fragment can begin at its end.
    pub fn is_uneven(&self) -> bool {
        self.more && !(self.span.end - self.span.start).is_multiple_of(8)
    }

    /// Checks that the fragment is valid.
    pub fn check(&self) -> Result<(), Reason> {
        if self.span.end == self.span.start || self.is_uneven() {
            return Err(Reason::Malformed);
        }
        if self.span.end + self.counted > u32::from(u16::MAX) {
            return Err(Reason::TooLong);
        }
        Ok(())
    }
}
