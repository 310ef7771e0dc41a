//! Address operations that tables need, for both families.

use std::{
    fmt::Debug,
    hash::Hash,
    ops::{BitAnd, BitOr, BitXor, Not},
};

/// An address in host byte order: `u32` for IPv4, `u128` for IPv6. Bits are counted from the top: bit 0 is
/// the first on the wire.
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
    /// The address with only the last bit set.
    const ONE: Self;

    /// Shifted left by `n` bits, with zeros shifted in; zero from [`BITS`](Self::BITS) on.
    fn up(self, n: u8) -> Self;

    /// Shifted right by `n` bits, with zeros shifted in; zero from [`BITS`](Self::BITS) on.
    fn down(self, n: u8) -> Self;

    /// The next address; `None` after the last one.
    fn next(self) -> Option<Self>;

    /// Number of leading zero bits.
    fn leading_zeros(self) -> u8;

    /// The lowest 32 bits.
    fn low(self) -> u32;

    /// Returns the mask with ones in the first `len` bits.
    #[inline(always)]
    fn mask(len: u8) -> Self {
        !Self::MAX.down(len)
    }

    /// Returns the prefix with its host bits cleared, and its length limited to that of an address.
    #[inline(always)]
    fn canonical(self, len: u8) -> (Self, u8) {
        let len = len.min(Self::BITS);
        (self & Self::mask(len), len)
    }

    /// The last address of a prefix.
    #[inline(always)]
    fn last(self, len: u8) -> Self {
        self | !Self::mask(len)
    }

    /// True if the prefix covers an address.
    #[inline(always)]
    fn covers(self, len: u8, address: Self) -> bool {
        (self ^ address) & Self::mask(len) == Self::ZERO
    }

    /// Returns `n` bits, at most 32, from bit `at` on; bits after the last one are 0.
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
