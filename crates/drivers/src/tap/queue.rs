//! The queues of a tap: one packet per system call.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use buf::{Cache, Frame, Gone, Lost, Packet, RxQueue, TxCaps, TxQueue, Unsent};

use crate::kernel::scratch::Scratch;
use crate::kernel::{offload, sys};

/// Maximum number of parts of a packet: its virtio header and its buffers. 64 KiB need half as many buffers of 2,112 bytes.
const PARTS: usize = 64;

pub(super) struct TapRx {
    pub(super) tun: Arc<File>,
    pub(super) scratch: Scratch,
    pub(super) name: String,
    /// Number of unusable packets since the last call of `take_lost`, which reports them.
    pub(super) unusable: u64,
}

impl RxQueue for TapRx {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        while frame.alloc(cache, 1) == 1 {
            let last = frame.len() - 1;
            match self.scratch.read(self.tun.as_fd()) {
                Ok(received) => {
                    if !self.scratch.fill_last(received, frame, cache) {
                        self.unusable += 1;
                    }
                }
                Err(e) => {
                    frame.truncate(last, cache);
                    return match e.raw_os_error() {
                        Some(libc::EBADFD) => Err(Gone(format!("the tap {} was removed", self.name))),
                        // No packet, or the host's interface is down.
                        _ => Ok(()),
                    };
                }
            }
        }
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.tun.as_fd())
    }

    fn take_lost(&mut self) -> Lost {
        Lost { missed: 0, unusable: std::mem::take(&mut self.unusable) }
    }
}

pub(super) struct TapTx {
    pub(super) tun: Arc<File>,
    /// True if the host takes GSO packets.
    pub(super) gso: bool,
}

impl TxQueue for TapTx {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        let mut done = 0;
        let mut outcome = Ok(());
        for packet in frame.packets() {
            if let Err(e) = write(&self.tun, &packet) {
                outcome = Err(match e.raw_os_error() {
                    Some(libc::EBADFD) => Unsent::Gone,
                    // The host's interface is down.
                    Some(libc::EIO) => Unsent::Down,
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => Unsent::Full,
                    _ => Unsent::Refused,
                });
                break;
            }
            done += 1;
        }
        frame.free_front(done, cache);
        outcome
    }

    fn caps(&self) -> TxCaps {
        TxCaps { gso: self.gso, csum: true }
    }
}

/// Writes the virtio header and a packet's bytes from all its buffers. Returns the number of bytes written.
fn write(tun: &File, packet: &Packet<'_>) -> io::Result<usize> {
    let header = offload::transmit(packet);
    let mut parts = [sys::iovec(header.as_bytes()); PARTS];
    let mut used = 1;
    for segment in packet.segments() {
        *parts.get_mut(used).ok_or(io::ErrorKind::InvalidInput)? = sys::iovec(segment);
        used += 1;
    }
    // SAFETY: the header and the buffers, borrowed by the packet, live through the call, which only reads them.
    sys::check(unsafe { libc::writev(tun.as_raw_fd(), parts.as_ptr(), used as _) })
}
