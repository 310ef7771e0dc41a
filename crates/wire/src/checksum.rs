//! The internet checksum (RFC 1071) and its incremental update (RFC 1624).
//!
//! The checksum of data is the ones' complement of the ones' complement sum of its 16-bit words; an odd last
//! byte counts as the upper half of a word. Data with its own checksum sums up to 0xffff.

/// An intermediate ones' complement sum.
///
/// The sum is in memory order, not in host order. It does not depend on the byte order (RFC 1071 section 2). So machine words are added as
/// they are in memory, and only the result is converted to host order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The empty sum.
    pub const ZERO: Sum = Sum(0);

    /// Returns the sum of `bytes`, of any length and alignment.
    #[inline]
    pub fn of(bytes: &[u8]) -> Sum {
        // The halves of 64-bit words go into two sums that cannot overflow before 2^32 words. So there are no
        // carries to handle, and the compiler can use vector additions.
        let (mut low, mut high) = (0u64, 0u64);
        let mut words = bytes.chunks_exact(8);
        for w in &mut words {
            let w = u64::from_ne_bytes([w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]]);
            low += w & 0xffff_ffff;
            high += w >> 32;
        }
        let mut rest = words.remainder();
        if let Some((&w, behind)) = rest.split_first_chunk::<4>() {
            low += u64::from(u32::from_ne_bytes(w));
            rest = behind;
        }
        if let Some((&w, behind)) = rest.split_first_chunk::<2>() {
            high += u64::from(u16::from_ne_bytes(w));
            rest = behind;
        }
        if let Some(&byte) = rest.first() {
            high += u64::from(u16::from_ne_bytes([byte, 0]));
        }
        Sum(low).plus(Sum(high))
    }

    /// Returns the sum of one word in host order.
    #[inline(always)]
    pub const fn of_u16(word: u16) -> Sum {
        Sum(word.to_be() as u64)
    }

    /// Returns the sum of the two 16-bit words of a number in host order.
    #[inline(always)]
    pub const fn of_u32(number: u32) -> Sum {
        Sum(number.to_be() as u64)
    }

    /// Returns the sum of the four 16-bit words of a number in host order.
    #[inline(always)]
    pub const fn of_u64(number: u64) -> Sum {
        Sum(number.to_be())
    }

    /// Returns the sum of the eight 16-bit words of a number in host order.
    #[inline(always)]
    pub const fn of_u128(number: u128) -> Sum {
        Sum::of_u64((number >> 64) as u64).plus(Sum::of_u64(number as u64))
    }

    /// Returns the sum of the IPv4 pseudo header of UDP and TCP: addresses in host order, protocol, and
    /// length of the transport header and payload in bytes (RFC 768, RFC 9293 section 3.1).
    #[inline(always)]
    pub const fn of_ipv4_pseudo(src: u32, dst: u32, protocol: u8, length: u16) -> Sum {
        Sum::of_u64((src as u64) << 32 | dst as u64).plus(Sum::of_pseudo_end(protocol, length as u32))
    }

    /// Returns the sum of the IPv6 pseudo header: addresses in host order, protocol of the upper layer, and
    /// length of the upper layer's header and payload in bytes (RFC 8200 section 8.1).
    #[inline(always)]
    pub const fn of_ipv6_pseudo(src: u128, dst: u128, protocol: u8, length: u32) -> Sum {
        Sum::of_u128(src).plus(Sum::of_u128(dst)).plus(Sum::of_pseudo_end(protocol, length))
    }

    /// Returns the sum of a pseudo header's fields after the addresses: protocol and length. The other bytes
    /// are zero.
    #[inline(always)]
    const fn of_pseudo_end(protocol: u8, length: u32) -> Sum {
        Sum::of_u64((protocol as u64) << 32 | length as u64)
    }

    /// Returns the sum of both parts. Each part except the last must have an even number of bytes.
    #[inline(always)]
    pub const fn plus(self, other: Sum) -> Sum {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Sum(sum + carry as u64)
    }

    /// Returns the sum that this data has if it begins at an odd offset: the two bytes of each word are
    /// exchanged.
    #[inline(always)]
    pub const fn at_odd_offset(self) -> Sum {
        Sum(self.folded().swap_bytes() as u64)
    }

    /// Returns the sum in 16 bits, in memory order.
    #[inline(always)]
    const fn folded(self) -> u16 {
        // A number plus itself with exchanged halves has the sum of the halves in its upper half, and the
        // carry from the lower half is the end-around carry.
        fold32((self.0.wrapping_add(self.0.rotate_left(32)) >> 32) as u32)
    }

    /// Returns the sum in 16 bits, in host order: the contents of a partial checksum field.
    #[inline(always)]
    pub const fn fold(self) -> u16 {
        u16::from_be(self.folded())
    }

    /// Returns the complement of the sum in host order, which is the value of the checksum field.
    #[inline(always)]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// Returns the checksum for UDP. A checksum of 0 is replaced by 0xffff, because 0 in the field means "no
    /// checksum" (RFC 768).
    #[inline(always)]
    pub const fn checksum_nonzero(self) -> u16 {
        nonzero(self.checksum())
    }

    /// True if this is the sum of data whose checksum field is correct.
    #[inline(always)]
    pub const fn is_valid(self) -> bool {
        self.folded() == 0xffff
    }
}

/// An IP header with the fields of the pseudo header, which upper-layer checksums cover.
pub trait PseudoHeader {
    /// True if a UDP checksum of 0 means "no checksum" (RFC 768); over IPv6 it is invalid (RFC 8200 section
    /// 8.1).
    const UDP_CHECKSUM_OPTIONAL: bool;

    /// Returns the sum of the pseudo header for `length` bytes of this protocol's header and payload.
    fn pseudo_header(&self, protocol: u8, length: u32) -> Sum;
}

/// Returns the value to store in a UDP checksum field: 0xffff instead of 0. Both have the same value in ones'
/// complement, but 0 in the field means "no checksum".
#[inline(always)]
pub const fn nonzero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// Returns the checksum of `bytes`, in which the checksum field is 0.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::of(bytes).checksum()
}

/// Returns the checksum after a word of the data has changed (RFC 1624, equation 3).
///
/// The result equals that of a full computation, unless all of the data is zero afterwards. In that case,
/// pass the result to [`nonzero`]. An IP header is never all zeros.
#[inline(always)]
pub const fn update16(checksum: u16, old: u16, new: u16) -> u16 {
    !fold32(!checksum as u32 + !old as u32 + new as u32)
}

/// Like [`update16`], for two adjacent words at an even offset, such as an address.
#[inline(always)]
pub const fn update32(checksum: u16, old: u32, new: u32) -> u16 {
    !fold32(!checksum as u32 + halves(!old) + halves(new))
}

/// Returns a partial checksum (the bare sum of the pseudo header) after two adjacent words of the pseudo
/// header have changed.
#[inline(always)]
pub const fn update_partial32(sum: u16, old: u32, new: u32) -> u16 {
    fold32(sum as u32 + halves(!old) + halves(new))
}

/// Completes a partial checksum: sums up the transport header and payload of a packet, and stores the result in the checksum field.
///
/// The packet consists of `head` and then the slices of `tail`. The summed bytes begin at offset `start` in `head` and end with the packet.
/// The checksum field is at offset `start + offset`, as in [`crate::VirtioNetHeader`]. If this field is not in `head`, the function returns
/// false and changes nothing.
pub fn finish_partial<'a>(
    head: &mut [u8],
    tail: impl IntoIterator<Item = &'a [u8]>,
    start: usize,
    offset: usize,
) -> bool {
    let Some(summed) = head.get_mut(start..) else { return false };
    let mut sum = Sum::of(summed);
    let mut odd = summed.len() % 2 == 1;
    let Some(field) = summed.get_mut(offset..).and_then(|f| f.first_chunk_mut::<2>()) else { return false };
    for part in tail {
        let s = Sum::of(part);
        sum = sum.plus(if odd { s.at_odd_offset() } else { s });
        odd ^= part.len() % 2 == 1;
    }
    // 0xffff instead of 0 is required for UDP and allowed for everything else.
    *field = sum.checksum_nonzero().to_be_bytes();
    true
}

#[inline(always)]
const fn halves(n: u32) -> u32 {
    (n >> 16) + (n & 0xffff)
}

/// Folds the two 16-bit words of `s` into one, with the end-around carry.
#[inline(always)]
const fn fold32(s: u32) -> u16 {
    (s.wrapping_add(s.rotate_left(16)) >> 16) as u16
}
