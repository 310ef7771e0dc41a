//! Extension headers that have done their work, and are taken out of a packet.

use buf::{Flags, Packet};

/// Takes `len` bytes out of a packet, `at` bytes behind its IPv6 header's start: what is in front of them, the link header too,
/// moves up. `false` if that is not to be done. Lengths, and what names the headers behind, are left to the caller.
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
