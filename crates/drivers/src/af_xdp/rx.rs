//! The receive queue: the kernel writes packets directly into buffers of the router's pool.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use buf::layout::{DATA, DATA_ROOM, HEADROOM};
use buf::{Cache, Frame, Gone, Held, Lent, Lost, RxQueue};
use libc::{xdp_desc, xdp_statistics};

use super::ring::Ring;
use super::{PLACE, Socket};
use crate::kernel::netdev::Netdev;
use crate::kernel::sys;

/// Number of consecutive empty polls after which the queue checks that the interface still exists.
const ASK: u32 = 1024;

pub(super) struct XdpRx {
    pub(super) ring: Ring<xdp_desc>,
    pub(super) fill: Ring<u64>,
    pub(super) socket: Arc<Socket>,
    pub(super) dev: Arc<Netdev>,
    pub(super) name: String,
    pub(super) idle: u32,
    /// The kernel's counter of missed packets, as last read.
    pub(super) missed: u64,
    pub(super) unusable: u64,
    /// Buffers lent to the kernel; `None` once the queue is dropped.
    pub(super) lent: Option<Lent>,
}

impl Drop for XdpRx {
    fn drop(&mut self) {
        self.socket.outlive(self.lent.take());
    }
}

impl XdpRx {
    /// Takes back the buffer of the packet that the kernel's descriptor describes; `None` if the buffer is not lent. An invalid packet is
    /// counted, and returned without bytes.
    #[inline]
    fn packet(&mut self, said: xdp_desc) -> Option<Held> {
        let chunk = (said.addr & PLACE) as usize;
        let mut held = self.lent.as_mut()?.back(chunk.checked_sub(HEADROOM)?)?;
        let (offset, len) = (HEADROOM + (said.addr >> 48) as usize, said.len as usize);
        match offset == DATA && len <= DATA_ROOM && said.options == 0 {
            true => held.packet().set_len(len),
            // An invalid packet becomes an empty one, so that its buffer is freed.
            false => self.unusable += 1,
        }
        Some(held)
    }

    /// Lends empty buffers to the kernel, as many as the fill ring has room for.
    #[inline]
    fn replenish(&mut self, cache: &mut Cache) {
        let Some(lent) = &mut self.lent else { return };
        let room = self.fill.room(u32::MAX);
        let mut given = 0;
        while given < room {
            let Some(place) = lent.lend_new(cache) else { break };
            self.fill.put((place + HEADROOM) as u64);
            given += 1;
        }
        if given > 0 {
            cache.note_kept(given as isize);
            self.fill.submit();
        }
        if self.fill.needs_wakeup() {
            // An error needs no handling here: the rings show what the kernel has done.
            let _ = self.socket.wake_receiver();
        }
    }
}

impl RxQueue for XdpRx {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        let n = self.ring.ready(frame.room() as u32);
        for _ in 0..n {
            let Some(held) = self.ring.take().and_then(|said| self.packet(said)) else { continue };
            cache.note_kept(-1);
            match held.snapshot().len {
                0 => held.free(cache),
                // The frame has room: at most that many descriptors were taken.
                _ => drop(frame.push(held)),
            }
        }
        if n > 0 {
            self.ring.release();
            self.idle = 0;
        } else {
            self.idle += 1;
            if self.idle >= ASK {
                self.idle = 0;
                if !self.dev.exists() {
                    return Err(Gone(format!("the interface {} no longer exists", self.name)));
                }
            }
        }
        self.replenish(cache);
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn take_lost(&mut self) -> Lost {
        let said: Option<xdp_statistics> =
            sys::option(self.socket.as_fd(), libc::SOL_XDP, libc::XDP_STATISTICS).ok();
        let now = said.map_or(self.missed, |s| s.rx_dropped + s.rx_ring_full);
        let missed = now.saturating_sub(std::mem::replace(&mut self.missed, now));
        Lost { missed, unusable: std::mem::take(&mut self.unusable) }
    }
}
