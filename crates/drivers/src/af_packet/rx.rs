//! The receive queue: reads packets from the ring, and packets that are too large for the ring from the socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use buf::{Cache, Frame, Gone, Lost, RxQueue};

use super::ring::{Place, Ring};
use crate::kernel::netdev::Netdev;
use crate::kernel::scratch::{self, Scratch};
use crate::kernel::sys;

/// Number of consecutive empty polls after which the queue reads the socket's error. A pending error makes the socket readable until the
/// error is read.
const ASK: u32 = 64;

pub(super) struct PacketRx {
    pub(super) socket: OwnedFd,
    pub(super) ring: Ring,
    pub(super) scratch: Scratch,
    pub(super) dev: Arc<Netdev>,
    pub(super) name: String,
    /// Consecutive empty polls.
    pub(super) idle: u32,
    /// True after the socket has reported an error, such as the interface going down, until the interface is up.
    pub(super) down: bool,
    /// Number of unusable packets since the last call of `take_lost`, which reports them.
    pub(super) unusable: u64,
}

impl PacketRx {
    /// Appends the ring's next packet, if there is one; an unusable packet is counted and skipped. Returns `false` if no buffer is free.
    #[inline]
    fn take(&mut self, frame: &mut Frame, cache: &mut Cache) -> bool {
        if frame.alloc(cache, 1) == 0 {
            return false;
        }
        let last = frame.len() - 1;
        let Some(slot) = self.ring.next() else {
            frame.truncate(last, cache);
            return true;
        };
        let whole = match slot.place {
            Place::Here => scratch::fill_last(frame, cache, slot.bytes, slot.header, slot.tag),
            Place::Aside => match self.scratch.receive(self.socket.as_fd()) {
                Ok(Some(received)) => self.scratch.fill_last(received, frame, cache),
                _ => false,
            },
            Place::Cut => false,
        };
        self.ring.release();
        if !whole {
            self.unusable += 1;
            frame.truncate(last, cache);
        }
        true
    }

    #[cold]
    fn look_after(&mut self) -> Result<(), Gone> {
        self.down |= sys::take_error(self.socket.as_fd()).is_some();
        if self.down {
            match self.dev.flags() {
                Ok(flags) => self.down = flags & libc::IFF_UP == 0,
                Err(_) => return Err(Gone(format!("the interface {} no longer exists", self.name))),
            }
        }
        Ok(())
    }
}

impl RxQueue for PacketRx {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        let mut polled = false;
        while frame.room() > 0 && self.ring.ready() && self.take(frame, cache) {
            polled = true;
        }
        if polled {
            self.idle = 0;
            return Ok(());
        }
        self.idle += 1;
        if self.idle == ASK || self.down {
            self.idle = 0;
            self.look_after()?;
        }
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn take_lost(&mut self) -> Lost {
        // Reading the counter resets it in the kernel. This function also resets the queue's own counter.
        let option = sys::option::<libc::tpacket_stats>(
            self.socket.as_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
        );
        let missed = option.map_or(0, |s| s.tp_drops.into());
        Lost { missed, unusable: std::mem::take(&mut self.unusable) }
    }
}
