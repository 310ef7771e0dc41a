//! Checksums over packets that may have several buffers.

use buf::{Flags, Packet};
use wire::Sum;

/// Returns the sum of `len` bytes, beginning `from` bytes after the packet's start, over all its buffers. If the packet is shorter, the sum
/// ends with the packet.
pub fn sum(p: &Packet<'_>, from: usize, len: usize) -> Sum {
    let (mut skip, mut left) = (from, len);
    let (mut sum, mut odd) = (Sum::ZERO, false);
    for segment in p.segments() {
        let part = segment.get(skip..).unwrap_or(&[]);
        skip = skip.saturating_sub(segment.len());
        let part = part.get(..left).unwrap_or(part);
        left -= part.len();
        let s = Sum::of(part);
        sum = sum.plus(if odd { s.at_odd_offset() } else { s });
        odd ^= part.len() % 2 == 1;
    }
    sum
}

/// Completes the partial checksum of a packet that begins with its network header. Returns `false`, and changes nothing, if the checksum field
/// is not in the packet's first buffer.
pub fn complete_network(p: &mut Packet<'_>) -> bool {
    // `csum_start` counts from the link header that the packet had at input.
    let start = usize::from(p.cold().csum_start).checked_sub(p.l2_len().into());
    start.is_some_and(|start| complete(p, start))
}

/// Completes the partial checksum of a packet that begins with its link header. Returns `false`, and changes nothing, if the checksum field
/// is not in the packet's first buffer.
pub fn complete_frame(p: &mut Packet<'_>) -> bool {
    complete(p, p.cold().csum_start.into())
}

/// Completes a partial checksum over the bytes from `start` on.
fn complete(p: &mut Packet<'_>, start: usize) -> bool {
    let at = start + usize::from(p.cold().csum_offset);
    let value = sum(p, start, usize::MAX).checksum_nonzero();
    let Some(field) = p.bytes_mut().get_mut(at..at + 2) else { return false };
    field.copy_from_slice(&value.to_be_bytes());
    p.set_flags(p.flags() & !Flags::CSUM_PARTIAL);
    true
}

#[cfg(test)]
mod tests {
    use buf::{Held, Pool};
    use proptest::prelude::*;

    use super::sum;
    use crate::testing::checksum;

    proptest! {
        #[test]
        fn checksum_does_not_depend_on_segments(len in 0usize..8000, from in 0usize..8100, of in 0usize..8100, odd in 0usize..2) {
            let pool = Pool::new(64).unwrap();
            let mut cache = pool.cache();
            let bytes: Vec<u8> = (0..len + odd).map(|i| ((i * i) >> 3) as u8).collect();
            let mut held = Held::alloc(&mut cache).unwrap();
            let mut p = held.packet();
            prop_assert!(p.fill_chained(&bytes, &mut cache));
            // Shifts the borders between buffers, so that some buffers begin at odd offsets.
            prop_assert!(p.advance(odd.min(bytes.len())));
            let (bytes, to) = (&bytes[odd.min(bytes.len())..], from.saturating_add(of));
            let part = bytes.get(from..to.min(bytes.len())).unwrap_or(&[]);
            prop_assert_eq!(sum(&p, from, of).checksum(), checksum(part));
            held.free(&mut cache);
        }
    }
}
