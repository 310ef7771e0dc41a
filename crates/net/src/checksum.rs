//! Checksums over packets that may have several segments.

use buf::Packet;
use wire::Sum;

/// The sum of `len` bytes that begin `from` bytes behind the packet's start, over all its segments; of what there is
/// when the packet ends before.
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
