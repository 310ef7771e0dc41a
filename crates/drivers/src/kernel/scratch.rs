//! A buffer for one packet of any size, for system calls that return one packet each.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use buf::{Cache, Flags, Frame};
use wire::VirtioNetHeader;

use super::{offload, sys};

/// Size of the largest IP packet with link headers and two VLAN tags.
const LARGEST: usize = 65_535 + 22;
/// Size of a control message's header: length, level and type (`struct cmsghdr`).
const CONTROL: usize = size_of::<libc::cmsghdr>();

/// The packet read last.
pub(crate) struct Scratch {
    header: [u8; VirtioNetHeader::LEN],
    bytes: Box<[u8]>,
    control: [u64; 8],
}

/// Metadata of the packet in the scratch buffer.
#[derive(Clone, Copy)]
pub(crate) struct Received {
    /// Length of the packet in bytes.
    len: usize,
    /// The VLAN tag that a packet socket removed from the packet; `None` if it removed none.
    tag: Option<[u8; 4]>,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch { header: [0; _], bytes: vec![0; LARGEST].into(), control: [0; 8] }
    }

    /// Reads a packet from a tap device.
    ///
    /// # Errors
    /// `WouldBlock` if no packet is there.
    pub(crate) fn read(&mut self, fd: BorrowedFd<'_>) -> io::Result<Received> {
        let parts = [sys::iovec(&self.header), sys::iovec(&self.bytes)];
        // SAFETY: both parts are borrowed mutably through self, and live through the call.
        let n = sys::check(unsafe { libc::readv(fd.as_raw_fd(), parts.as_ptr(), 2) })?;
        Ok(Received { len: n.saturating_sub(self.header.len()), tag: None })
    }

    /// Reads a packet from a packet socket. Returns `None` if it is larger than any IP packet.
    ///
    /// # Errors
    /// `WouldBlock` if no packet is there.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<Option<Received>> {
        let mut parts = [sys::iovec(&self.header), sys::iovec(&self.bytes)];
        let mut message = sys::message();
        (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len() as _);
        message.msg_control = self.control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&self.control) as _;
        // SAFETY: all parts of the message are borrowed mutably through self, and live through the call.
        let n = sys::check(unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) })?;
        let len = n.saturating_sub(self.header.len());
        if message.msg_flags & libc::MSG_TRUNC != 0 {
            return Ok(None);
        }
        let tag = auxiliary(&self.control, message.msg_controllen)
            .and_then(|a| tag(a.tp_status, a.tp_vlan_tpid, a.tp_vlan_tci));
        Ok(Some(Received { len, tag }))
    }

    /// Fills the last packet of a frame with the packet that was read last, as [`fill_last`] does.
    #[must_use]
    pub(crate) fn fill_last(&self, received: Received, frame: &mut Frame, cache: &mut Cache) -> bool {
        let header = VirtioNetHeader(self.header);
        self.bytes.get(..received.len).is_some_and(|b| fill_last(frame, cache, b, header, received.tag))
    }
}

/// Returns the auxiliary data of a packet socket, if it is the first control message in `control`.
fn auxiliary(control: &[u64; 8], len: usize) -> Option<libc::tpacket_auxdata> {
    const LEN: usize = CONTROL + size_of::<libc::tpacket_auxdata>();
    const { assert!(LEN <= 64) };
    // SAFETY: the buffer is larger than both together, aligned for both, and any bits are valid in them.
    let (head, data) = unsafe {
        let first = control.as_ptr().cast::<u8>();
        (first.cast::<libc::cmsghdr>().read(), first.add(CONTROL).cast::<libc::tpacket_auxdata>().read())
    };
    let is = len >= LEN && (head.cmsg_level, head.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA);
    is.then_some(data)
}

/// Returns the VLAN tag that a packet socket removed from a packet, in wire format; `None` if it removed none.
pub(crate) fn tag(status: u32, tpid: u16, tci: u16) -> Option<[u8; 4]> {
    let valid = |bit| status & bit != 0;
    let tpid = if valid(libc::TP_STATUS_VLAN_TPID_VALID) { tpid } else { libc::ETH_P_8021Q as u16 };
    let ([a, b], [c, d]) = (tpid.to_be_bytes(), tci.to_be_bytes());
    valid(libc::TP_STATUS_VLAN_VALID).then_some([a, b, c, d])
}

/// Fills the last packet of a frame, which must be new and empty, with these bytes. Inserts the tag after the Ethernet addresses and sets
/// the flags from the header. Returns `false`, and frees the packet, if buffers run out or the header contradicts the packet.
#[must_use]
#[inline]
pub(crate) fn fill_last(
    frame: &mut Frame,
    cache: &mut Cache,
    bytes: &[u8],
    mut header: VirtioNetHeader,
    tag: Option<[u8; 4]>,
) -> bool {
    let last = frame.len().wrapping_sub(1);
    let Some(mut packet) = frame.get(last) else { return false };
    let mut whole = packet.fill_chained(bytes, cache);
    if let Some(tag) = tag {
        whole &= packet.push(tag.len());
        match packet.bytes_mut().first_chunk_mut::<16>() {
            Some(front) => {
                front.copy_within(4.., 0);
                front[12..].copy_from_slice(&tag);
                header.shift(4);
            }
            None => whole = false,
        }
    }
    let flags = if whole { offload::receive(&header, &mut packet) } else { None };
    match flags {
        Some(flags) => frame.note(flags),
        None => {
            // The partial chain is freed with the head, so the frame must know that the packet may be chained.
            frame.note(Flags::CHAINED);
            frame.truncate(last, cache);
        }
    }
    flags.is_some()
}
