//! The operations on addresses that lookup tables need, for IPv4 and IPv6.

use std::{
    fmt::Debug,
    hash::Hash,
    ops::{BitAnd, BitOr, BitXor, Not},
};

/// An address in host byte order: `u32` for IPv4, `u128` for IPv6. Bit 0 is the most significant bit, which
/// is the first on the wire.
pub trait Address:
    Copy
    + Ord
    + Hash
    + Debug
    + Default
    + Send
    + Sync
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + 'static
{
    /// Number of bits of an address.
    const BITS: u8;
    /// The all-zeros address.
    const ZERO: Self;
    /// The all-ones address.
    const MAX: Self;
    /// The address in which only the last bit is set.
    const ONE: Self;

    /// Returns the address shifted left by `n` bits, with zeros shifted in. Returns zero if `n` is at least
    /// [`BITS`](Self::BITS).
    fn up(self, n: u8) -> Self;

    /// Returns the address shifted right by `n` bits, with zeros shifted in. Returns zero if `n` is at least
    /// [`BITS`](Self::BITS).
    fn down(self, n: u8) -> Self;

    /// Returns the next address; `None` after the last one.
    fn next(self) -> Option<Self>;

    /// Returns the number of leading zero bits.
    fn leading_zeros(self) -> u8;

    /// Returns the lowest 32 bits.
    fn low(self) -> u32;

    /// Returns the mask with ones in the first `len` bits.
    #[inline(always)]
    fn mask(len: u8) -> Self {
        !Self::MAX.down(len)
    }

    /// Returns the prefix with its host bits cleared, and `len`, limited to the address length.
    #[inline(always)]
    fn canonical(self, len: u8) -> (Self, u8) {
        let len = len.min(Self::BITS);
        (self & Self::mask(len), len)
    }

    /// Returns the last address of the prefix of length `len`.
    #[inline(always)]
    fn last(self, len: u8) -> Self {
        self | !Self::mask(len)
    }

    /// True if the prefix of length `len` covers `address`.
    #[inline(always)]
    fn covers(self, len: u8, address: Self) -> bool {
        (self ^ address) & Self::mask(len) == Self::ZERO
    }

    /// Returns the `n` bits from bit `at` on, where `n` is at most 32. Bits after the address's last one are
    /// 0.
    #[inline(always)]
    fn bits(self, at: u8, n: u8) -> u32 {
        if n == 0 { 0 } else { self.up(at).down(Self::BITS - n).low() }
    }
}

macro_rules! address {
    ($t:ty) => {
        impl Address for $t {
            const BITS: u8 = <$t>::BITS as u8;
            const ZERO: Self = 0;
            const MAX: Self = <$t>::MAX;
            const ONE: Self = 1;

            #[inline(always)]
            fn up(self, n: u8) -> Self {
                self.checked_shl(n.into()).unwrap_or(0)
            }

            #[inline(always)]
            fn down(self, n: u8) -> Self {
                self.checked_shr(n.into()).unwrap_or(0)
            }

            #[inline(always)]
            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            #[inline(always)]
            fn leading_zeros(self) -> u8 {
                <$t>::leading_zeros(self) as u8
            }

            #[inline(always)]
            fn low(self) -> u32 {
                self as u32
            }
        }
    };
}
address!(u32);
address!(u128);

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    fn check<A: Address>(address: A) {
        let bit = |at: u8| address.bits(at, 1);
        for len in 0..=A::BITS {
            let (prefix, cut) = address.canonical(len);
            let last = address.last(len);
            assert_eq!(cut, len);
            for at in 0..A::BITS {
                let inside = at < len;
                assert_eq!(A::mask(len).bits(at, 1), u32::from(inside));
                assert_eq!(prefix.bits(at, 1), if inside { bit(at) } else { 0 });
                assert_eq!(last.bits(at, 1), if inside { bit(at) } else { 1 });
            }
            assert!(prefix.covers(len, address) && prefix.covers(len, last));
            assert!(len == 0 || !prefix.covers(len, address ^ A::ONE.up(A::BITS - len)));
            for n in 0..=A::BITS.min(32) {
                let plain =
                    (0..n).fold(0u32, |all, i| all << 1 | if len + i < A::BITS { bit(len + i) } else { 0 });
                assert_eq!(address.bits(len, n), plain, "{n} bits from {len}");
            }
        }
        assert_eq!(address.canonical(255), (address, A::BITS));
        assert_eq!((A::ONE.leading_zeros(), A::ZERO.leading_zeros()), (A::BITS - 1, A::BITS));
    }

    #[test]
    fn bits_equal_simple_arithmetic() {
        for address in [0, 1, 0x8000_0000, 0xa5c3_0f1e, u32::MAX] {
            check(address);
        }
        for address in [0, 1, 1 << 127, 0x2001_0db8_a5c3_0f1e_1234_5678_9abc_def1, u128::MAX] {
            check(address);
        }
    }
}
