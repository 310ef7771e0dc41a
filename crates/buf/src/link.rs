//! A link header to write in front of packets.

/// Bytes of a link header for [`Packet::prepend`](crate::Packet::prepend): at least 8 and at most
/// [`MAX`](LinkHeader::MAX), so that two stores of fixed width write any length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkHeader {
    /// The header, in the last `len` bytes of the array.
    bytes: [u8; LinkHeader::MAX],
    len: u8,
}

impl LinkHeader {
    /// Maximum length of a link header in bytes: enough for Ethernet with two VLAN tags.
    pub const MAX: usize = 32;
    const MIN: usize = 8;

    /// Returns a link header of these bytes; `None` if there are fewer than 8, or more than
    /// [`MAX`](Self::MAX).
    pub fn new(header: &[u8]) -> Option<LinkHeader> {
        let at = Self::MAX.checked_sub(header.len())?;
        let mut bytes = [0; Self::MAX];
        bytes[at..].copy_from_slice(header);
        (header.len() >= Self::MIN).then_some(LinkHeader { bytes, len: header.len() as u8 })
    }

    /// The length of the header in bytes.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// The header.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[Self::MAX - self.len()..]
    }

    /// Writes the header to the [`len`](Self::len) bytes at `to`.
    ///
    /// Two overlapping stores write exactly these bytes. One store of 32 bytes would also touch the cache
    /// line in front of the packet, and thus cost one more cache line for each packet of a vector.
    ///
    /// # Safety
    /// The bytes at `to` are writable and belong to the caller.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, to: *mut u8) {
        let len = self.len();
        // SAFETY: MIN ≤ len ≤ MAX (`new`), so both loads are within the last `len` bytes of the array, and
        // both stores within the `len` bytes that the caller guarantees.
        unsafe {
            let from = self.bytes.as_ptr().add(Self::MAX - len);
            if len <= 16 {
                to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned());
                let last = from.add(len - 8).cast::<u64>().read_unaligned();
                to.add(len - 8).cast::<u64>().write_unaligned(last);
            } else {
                to.cast::<u128>().write_unaligned(from.cast::<u128>().read_unaligned());
                let last = from.add(len - 16).cast::<u128>().read_unaligned();
                to.add(len - 16).cast::<u128>().write_unaligned(last);
            }
        }
    }
}
