//! What tables need to know of an address, whatever its family.

use std::{
    fmt::Debug,
    hash::Hash,
    ops::{BitAnd, BitOr, BitXor, Not},
};

/// An address in host byte order: `u32` for IPv4, `u128` for IPv6. The bits of an address are counted from the top: bit 0
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
    /// How many bits an address has.
    const BITS: u8;
    /// The address of zeros.
    const ZERO: Self;
    /// The address of ones.
    const MAX: Self;
    /// The address whose last bit only is set.
    const ONE: Self;

    /// Moved up by `n` bits; zeros come in, and are all there is from [`BITS`](Self::BITS) on.
    fn up(self, n: u8) -> Self;

    /// Moved down by `n` bits; zeros come in, and are all there is from [`BITS`](Self::BITS) on.
    fn down(self, n: u8) -> Self;

    /// The next address; `None` behind the last one.
    fn next(self) -> Option<Self>;

    /// How many bits in front are 0.
    fn leading_zeros(self) -> u8;

    /// The lowest 32 bits.
    fn low(self) -> u32;

    /// Ones in the first `len` bits, zeros behind them.
    #[inline(always)]
    fn mask(len: u8) -> Self {
        !Self::MAX.down(len)
    }

    /// A prefix with zeros behind its length, and its length cut to that of an address.
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

    /// Whether the prefix covers an address.
    #[inline(always)]
    fn covers(self, len: u8, address: Self) -> bool {
        (self ^ address) & Self::mask(len) == Self::ZERO
    }

    /// `n` bits, at most 32, from bit `at` on; what lies beyond the last bit is 0.
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
    fn bits_are_those_of_plain_arithmetic() {
        for address in [0, 1, 0x8000_0000, 0xa5c3_0f1e, u32::MAX] {
            check(address);
        }
        for address in [0, 1, 1 << 127, 0x2001_0db8_a5c3_0f1e_1234_5678_9abc_def1, u128::MAX] {
            check(address);
        }
    }
}
