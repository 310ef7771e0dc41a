//! The receive queue: packets are copied out of the rings that lead here.

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use buf::layout::DATA_ROOM;
use buf::{Cache, FRAME_SIZE, Flags, Frame, Gone, Lost, RxQueue};

use super::region;
use super::ring::{Fault, NEXT, Ring};
use super::shared::Shared;
use crate::kernel::prefetch;

/// The largest packet: one of IP with a link header and two tags.
const LARGEST: usize = 65_535 + 22;

/// A ring that packets come in by.
pub(super) struct RxRing {
    pub(super) ring: Ring,
    /// The peer has broken it: nothing is read any more.
    broken: bool,
    /// Whether the peer is to wake the worker.
    wants_signals: bool,
    /// What a call found, of as many descriptors as a frame has packets.
    found: Box<[(NonNull<u8>, u32)]>,
    /// A packet of several descriptors, or one that is larger than a buffer.
    whole: Vec<u8>,
}

// SAFETY: the addresses in `found` are those of the ring, and are written anew in each call.
unsafe impl Send for RxRing {}

impl RxRing {
    pub(super) fn new(ring: Ring) -> RxRing {
        let found = vec![(NonNull::dangling(), 0); FRAME_SIZE].into();
        RxRing { ring, broken: false, wants_signals: true, found, whole: Vec::with_capacity(LARGEST) }
    }

    /// Appends what the ring has; counts what is no packet.
    pub(super) fn poll(
        &mut self,
        frame: &mut Frame,
        cache: &mut Cache,
        unusable: &mut u64,
    ) -> Result<(), Fault> {
        let available = self.ring.available()?;
        let n = usize::from(available).min(frame.room());
        if n == 0 {
            return Ok(());
        }
        let mut plain = true;
        for (i, found) in (0..).zip(&mut self.found[..n]) {
            let (flags, len, place) = self.ring.received(i);
            plain &= flags & NEXT == 0 && len.wrapping_sub(1) < DATA_ROOM as u32 && place.is_some();
            let place = place.unwrap_or(NonNull::dangling());
            prefetch::read(place.as_ptr());
            *found = (place, len);
        }
        if !plain {
            return self.poll_each(available, frame, cache, unusable);
        }
        let first = frame.len();
        let got = frame.alloc(cache, n);
        for (mut packet, &(place, len)) in frame.packets().skip(first).zip(&self.found[..got]) {
            let len = len as usize;
            // SAFETY: the place has `len` bytes within a region that the ring keeps mapped; the room of a new packet is
            // DATA_ROOM, and `plain` says that `len` is not more.
            unsafe { region::copy(place.as_ptr(), packet.room_mut().as_mut_ptr(), len) };
            packet.set_len(len);
        }
        self.ring.advance(got as u16);
        Ok(())
    }

    /// The same, where some packets have several descriptors, do not fit one buffer, or are none.
    #[cold]
    #[inline(never)]
    fn poll_each(
        &mut self,
        available: u16,
        frame: &mut Frame,
        cache: &mut Cache,
        unusable: &mut u64,
    ) -> Result<(), Fault> {
        let mut used = 0;
        while used < available && frame.room() > 0 {
            let (descriptors, whole) = self.gather(used, available);
            if whole {
                if frame.alloc(cache, 1) == 0 {
                    break;
                }
                let last = frame.len() - 1;
                let filled = frame.get(last).is_some_and(|mut p| p.fill_chained(&self.whole, cache));
                if self.whole.len() > DATA_ROOM {
                    frame.note(Flags::CHAINED);
                }
                if !filled {
                    frame.truncate(last, cache);
                }
                *unusable += u64::from(!filled);
            } else {
                *unusable += 1;
            }
            used += descriptors;
        }
        self.ring.advance(used);
        Ok(())
    }

    /// Copies the packet that begins in slot `from` into `whole`. Gives how many descriptors it has, and whether it is one
    /// that can be used.
    fn gather(&mut self, from: u16, available: u16) -> (u16, bool) {
        self.whole.clear();
        let mut usable = true;
        for i in from..available {
            let (flags, len, place) = self.ring.received(i);
            let (before, len) = (self.whole.len(), len as usize);
            match place {
                Some(place) if usable && len > 0 && len <= LARGEST - before => {
                    // SAFETY: the place has `len` bytes within a region that the ring keeps mapped; `whole` has room for
                    // LARGEST, of which `before` are used. The bytes up to the new length are written by the copy.
                    unsafe {
                        let to = self.whole.as_mut_ptr().add(before);
                        region::copy(place.as_ptr(), to, len);
                        self.whole.set_len(before + len);
                    }
                }
                _ => usable = false,
            }
            if flags & NEXT == 0 {
                return (i + 1 - from, usable);
            }
        }
        // The peer shows packets as a whole, or not at all.
        (available - from, false)
    }
}

/// A receive queue. Its rings come and go with the connection.
pub(super) struct MemifRx {
    shared: Arc<Shared>,
    queue: usize,
    /// The ring to begin with.
    turn: usize,
    unusable: u64,
}

impl MemifRx {
    pub(super) fn new(shared: Arc<Shared>, queue: usize) -> MemifRx {
        MemifRx { shared, queue, turn: 0, unusable: 0 }
    }
}

impl RxQueue for MemifRx {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        let Some(port) = self.shared.rx.get(self.queue) else { return Ok(()) };
        // Whoever else has the lock is connecting or disconnecting: there will be time after that.
        let Ok(mut rings) = port.rings.try_lock() else { return Ok(()) };
        let count = rings.len();
        for k in 0..count {
            let at = (self.turn + k) % count;
            let ring = &mut rings[at];
            if ring.broken {
                continue;
            }
            if ring.wants_signals {
                ring.wants_signals = false;
                ring.ring.want_signal(false);
                port.watch.clear();
            }
            if let Err(fault) = ring.poll(frame, cache, &mut self.unusable) {
                ring.broken = true;
                self.shared.fail(fault);
            }
            if frame.room() == 0 {
                self.turn = (at + 1) % count;
                break;
            }
        }
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.shared.rx.get(self.queue).map(|port| port.watch.as_fd())
    }

    fn before_sleep(&mut self) -> bool {
        let Some(port) = self.shared.rx.get(self.queue) else { return true };
        let Ok(mut rings) = port.rings.try_lock() else { return false };
        let mut quiet = true;
        for ring in rings.iter_mut().filter(|r| !r.broken) {
            ring.wants_signals = true;
            ring.ring.want_signal(true);
            quiet &= ring.ring.available() == Ok(0);
        }
        quiet
    }

    fn take_lost(&mut self) -> Lost {
        Lost { missed: 0, unusable: std::mem::take(&mut self.unusable) }
    }
}
