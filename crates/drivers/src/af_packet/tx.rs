//! The transmit queue: one `sendmmsg` per frame, which reads packets from their buffers.
//!
//! A transmit ring (`PACKET_TX_RING`) needs a copy into the ring, and a second copy when the packet leaves the namespace. Over veth, the
//! ring sent 0.45–0.54 million packets per second, and `sendmmsg` 0.53–0.77 million.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use buf::{Cache, FRAME_SIZE, Frame, Packet, TxCaps, TxQueue, Unsent};
use wire::VirtioNetHeader;

use crate::kernel::netdev::Netdev;
use crate::kernel::{offload, sys};

/// Maximum number of `iovec`s per call: a header and a buffer per packet, and spare ones for long chains.
const PARTS: usize = 4 * FRAME_SIZE;

pub(super) struct PacketTx {
    pub(super) socket: OwnedFd,
    pub(super) batch: Batch,
    pub(super) dev: Arc<Netdev>,
}

impl TxQueue for PacketTx {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        let mut done = 0;
        let outcome = loop {
            if done == frame.len() {
                break Ok(());
            }
            match self.batch.send(self.socket.as_fd(), frame, done) {
                Ok(sent) if sent > 0 => done += sent,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break Err(Unsent::Full),
                Err(e) if asks_for_the_link(&e) => break Err(self.why()),
                // The packet has more buffers than fit in one call, or the kernel refuses this packet.
                Ok(_) | Err(_) => break Err(Unsent::Refused),
            }
        };
        frame.free_front(done, cache);
        outcome
    }

    fn caps(&self) -> TxCaps {
        TxCaps { gso: true, csum: true }
    }
}

impl PacketTx {
    /// Returns why the kernel refuses to send. The kernel reports a full queue and a lost carrier alike, so this function reads the
    /// interface's flags. They may show a lost carrier late, but other queries might block.
    #[cold]
    fn why(&self) -> Unsent {
        match self.dev.flags() {
            Ok(flags) if flags & libc::IFF_RUNNING != 0 => Unsent::Full,
            Ok(_) => Unsent::Down,
            Err(_) => Unsent::Gone,
        }
    }
}

fn asks_for_the_link(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::ENETDOWN | libc::ENXIO | libc::ENODEV))
}

/// The arguments of `sendmmsg`.
pub(super) struct Batch {
    messages: Box<[libc::mmsghdr]>,
    parts: Box<[libc::iovec]>,
    headers: Box<[VirtioNetHeader]>,
}

// SAFETY: only the system call in `send` reads the pointers, and `send` writes those that it uses just before the call.
unsafe impl Send for Batch {}

impl Batch {
    pub(super) fn new() -> Batch {
        let message = libc::mmsghdr { msg_hdr: sys::message(), msg_len: 0 };
        Batch {
            messages: vec![message; FRAME_SIZE].into(),
            parts: vec![sys::iovec(&[]); PARTS].into(),
            headers: vec![VirtioNetHeader::zeroed(); FRAME_SIZE].into(),
        }
    }

    /// Sends packets of the frame from index `first` on, as many as fit in one call. Returns the number that the kernel took: 0 if the
    /// first packet has too many buffers.
    fn send(&mut self, socket: BorrowedFd<'_>, frame: &mut Frame, first: usize) -> io::Result<usize> {
        let mut count = 0;
        let mut parts = &mut *self.parts;
        for (packet, (message, header)) in
            frame.packets().skip(first).zip(self.messages.iter_mut().zip(&mut self.headers))
        {
            *header = offload::transmit(&packet);
            let Some(used) = gather(&packet, header, parts) else { break };
            let (own, rest) = std::mem::take(&mut parts).split_at_mut(used);
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (own.as_mut_ptr(), used as _);
            parts = rest;
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: the first `count` messages point to parts and headers in self, and to bytes of the frame's packets. All of them stay
        // where they are through the call, which only reads them and writes `msg_len`.
        sys::check(unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                count,
                (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
            )
        } as isize)
    }
}

/// Lists the virtio header and the packet's buffers. Returns the number of parts, or `None` if `parts` is too short.
fn gather(packet: &Packet<'_>, header: &VirtioNetHeader, parts: &mut [libc::iovec]) -> Option<usize> {
    let mut used = 0;
    for bytes in std::iter::once(header.as_bytes().as_slice()).chain(packet.segments()) {
        *parts.get_mut(used)? = sys::iovec(bytes);
        used += 1;
    }
    Some(used)
}
