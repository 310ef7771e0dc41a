//! Declaration of header views, and access to their fields.
//!
//! The offset of a field is a constant that the compiler checks against the length of the header, so each
//! access is a plain load or store.

/// Reads the `L` bytes at `AT` with one load. If each byte were read by its index, the compiler would load
/// each of them separately.
#[inline(always)]
pub(crate) const fn get<const AT: usize, const L: usize, const N: usize>(b: &[u8; N]) -> [u8; L] {
    const { assert!(AT + L <= N) };
    match b.split_at(AT).1.first_chunk() {
        Some(field) => *field,
        // The assertion guarantees that there is room.
        None => [0; L],
    }
}

/// Reads the big-endian 16-bit field at `AT`.
#[inline(always)]
pub(crate) const fn get16<const AT: usize, const N: usize>(b: &[u8; N]) -> u16 {
    u16::from_be_bytes(get::<AT, 2, N>(b))
}

/// Reads the big-endian 32-bit field at `AT`.
#[inline(always)]
pub(crate) const fn get32<const AT: usize, const N: usize>(b: &[u8; N]) -> u32 {
    u32::from_be_bytes(get::<AT, 4, N>(b))
}

/// Reads the big-endian 64-bit field at `AT`.
#[inline(always)]
pub(crate) const fn get64<const AT: usize, const N: usize>(b: &[u8; N]) -> u64 {
    u64::from_be_bytes(get::<AT, 8, N>(b))
}

/// Reads the big-endian 128-bit field at `AT`.
#[inline(always)]
pub(crate) const fn get128<const AT: usize, const N: usize>(b: &[u8; N]) -> u128 {
    u128::from_be_bytes(get::<AT, 16, N>(b))
}

/// Writes `value` at `AT`; integers are passed as `to_be_bytes`.
#[inline(always)]
pub(crate) fn put<const AT: usize, const L: usize, const N: usize>(b: &mut [u8; N], value: [u8; L]) {
    const { assert!(AT + L <= N) };
    b[AT..AT + L].copy_from_slice(&value);
}

/// Declares a header view: `header! { /// docs  Name, length }`.
macro_rules! header {
    ($(#[$meta:meta])* $name:ident, $len:literal) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, PartialEq, Eq,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout,
            zerocopy::Immutable, zerocopy::Unaligned,
        )]
        #[repr(transparent)]
        pub struct $name(pub [u8; $len]);

        impl $name {
            /// Length in bytes.
            pub const LEN: usize = $len;

            /// Returns a header with all bytes zero.
            #[inline(always)]
            pub const fn zeroed() -> Self {
                Self([0; $len])
            }

            /// Returns the header at the front of `bytes` and the bytes after it, or `None` if `bytes` is shorter than the header.
            #[inline(always)]
            pub fn split(bytes: &[u8]) -> Option<(&Self, &[u8])> {
                zerocopy::FromBytes::ref_from_prefix(bytes).ok()
            }

            /// Like [`split`](Self::split), but returns a mutable header and mutable bytes after it.
            #[inline(always)]
            pub fn split_mut(bytes: &mut [u8]) -> Option<(&mut Self, &mut [u8])> {
                zerocopy::FromBytes::mut_from_prefix(bytes).ok()
            }

            /// The header's bytes.
            #[inline(always)]
            pub const fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:02x?})"), self.0)
            }
        }
    };
}
