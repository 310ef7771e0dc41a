//! Removal of IPv6 extension headers from a packet.

use buf::{Flags, Packet};

/// Removes `len` bytes from a packet, beginning `at` bytes after the start of its IPv6 header. All bytes before them, the link header
/// included, are moved to close the gap. Returns `false` if the bytes cannot be removed; then the packet begins with its link header. The
/// caller adjusts lengths and next-header fields.
#[cold]
pub fn take_out(p: &mut Packet<'_>, at: usize, len: usize) -> bool {
    let whole = p.len();
    p.rewind_to_l2();
    let link = p.len() - whole;
    let Some(front) = p.bytes_mut().get_mut(..link + at + len) else { return false };
    front.copy_within(..link + at, len);
    if !p.advance(len + link) {
        return false;
    }
    p.mark_l3(link as u8);
    if p.flags().any(Flags::CSUM_PARTIAL) {
        let cold = p.cold_mut();
        cold.csum_start = cold.csum_start.saturating_sub(len as u16);
    }
    true
}
