//! Ethernet (EUI-48) addresses.

use std::fmt;
use std::str::FromStr;

/// An Ethernet address, in the order of transmission.
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
    zerocopy::Unaligned,
)]
#[repr(transparent)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: Mac = Mac([0xff; 6]);
    /// `00:00:00:00:00:00`, which is never a station's address.
    pub const ZERO: Mac = Mac([0; 6]);

    /// True for a group address (including the broadcast address).
    #[inline(always)]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// True for the broadcast address.
    #[inline(always)]
    pub const fn is_broadcast(self) -> bool {
        self.to_u64() == 0xffff_ffff_ffff
    }

    /// True if a station can have this address: it is neither a group address nor zero.
    #[inline(always)]
    pub const fn is_unicast(self) -> bool {
        !self.is_multicast() && self.to_u64() != 0
    }

    /// Returns the address as a number below 2^48; the first byte sent is the most significant.
    #[inline(always)]
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// Returns a word with the address in its upper six bytes; the least significant of these is the first byte sent. The word is only for
    /// comparisons with [`EthernetHeader::dst_word`](crate::ethernet::EthernetHeader::dst_word), and for keys of tables.
    #[inline(always)]
    pub const fn to_word(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_le_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The inverse of [`to_u64`](Self::to_u64); the upper 16 bits are ignored.
    #[inline(always)]
    pub const fn from_u64(value: u64) -> Mac {
        let [_, _, a, b, c, d, e, f] = value.to_be_bytes();
        Mac([a, b, c, d, e, f])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not an Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacParseError;

impl fmt::Display for MacParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected an Ethernet address such as 02:fe:00:00:00:01 or 02fe.0000.0001")
    }
}

impl std::error::Error for MacParseError {}

impl FromStr for Mac {
    type Err = MacParseError;

    /// Parses six groups of one or two hexadecimal digits between colons or dashes (`2:fe:0:0:0:1`), or three
    /// groups of one to four between dots (`02fe.0000.0001`, `2fe.0.1`).
    fn from_str(text: &str) -> Result<Mac, MacParseError> {
        let (separator, groups, shortest, longest) = match text.chars().find(|c| !c.is_ascii_hexdigit()) {
            Some('.') => ('.', 3, 1, 4),
            Some(c @ (':' | '-')) => (c, 6, 1, 2),
            _ => return Err(MacParseError),
        };
        let bits = 48 / groups;
        let mut value = 0u64;
        let mut seen = 0;
        for group in text.split(separator) {
            // from_str_radix alone would accept a sign.
            if !(shortest..=longest).contains(&group.len()) || !group.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(MacParseError);
            }
            seen += 1;
            value = value << bits | u64::from_str_radix(group, 16).map_err(|_| MacParseError)?;
        }
        if seen == groups { Ok(Mac::from_u64(value)) } else { Err(MacParseError) }
    }
}
