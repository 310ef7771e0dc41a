//! The receive queue: copies packets out of the rings assigned to it.

use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use buf::layout::DATA_ROOM;
use buf::{Cache, FRAME_SIZE, Flags, Frame, Gone, Lost, RxQueue};
use infra::clock::tsc;

use super::BUFFER_SIZES;
use super::lending::Lending;
use super::region;
use super::ring::{Fault, NEXT, Ring};
use super::shared::{Shared, lock};
use super::signal::Watch;

/// Bytes of the largest packet: an IP packet with a link header and two VLAN tags.
pub(super) const LARGEST: usize = 65_535 + 22;

/// Maximum number of descriptors of a packet: the largest packet in the smallest buffers.
pub(super) const LONGEST: usize = LARGEST.div_ceil(*BUFFER_SIZES.start() as usize);
/// Cost of reading one descriptor, given as the number of bytes that could be copied in the same time.
const DESCRIPTOR_COST: usize = 256;
/// Number of unusable descriptors, minus the number of usable ones, above which the peer is disconnected.
const MOST_RUBBISH: usize = 65_536;

/// Limits how much work one poll may spend on packets that are unusable, or that take several descriptors. Packets that fit into one buffer
/// are limited by the frame size. But other packets may have 64 KiB, or a chain of descriptors without an end, and a worker must also poll
/// its other ports.
#[derive(Debug)]
pub(super) struct Budget {
    /// Remaining budget: the number of bytes that may still be copied, see also [`DESCRIPTOR_COST`].
    left: usize,
    /// Number of unusable packets.
    pub(super) unusable: u64,
}

impl Default for Budget {
    /// Returns a budget for one frame of packets that each fill one buffer.
    fn default() -> Budget {
        Budget { left: FRAME_SIZE * DATA_ROOM, unusable: 0 }
    }
}

impl Budget {
    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }

    pub(super) fn spend(&mut self, descriptors: usize, bytes: usize) {
        self.left = self.left.saturating_sub(descriptors * DESCRIPTOR_COST + bytes);
    }
}

/// Detects a peer that sends mostly unusable packets, as opposed to occasional errors.
#[derive(Default)]
pub(super) struct Rubbish(usize);

impl Rubbish {
    /// Deducts the descriptors of a usable packet from the count of unusable ones.
    #[inline]
    pub(super) fn good(&mut self, descriptors: usize) {
        self.0 = self.0.saturating_sub(descriptors);
    }

    /// Counts descriptors of an unusable packet.
    ///
    /// # Errors
    /// If there are too many unusable descriptors.
    pub(super) fn bad(&mut self, descriptors: usize) -> Result<(), Fault> {
        self.0 += descriptors;
        if self.0 > MOST_RUBBISH { Err(Fault::Rubbish) } else { Ok(()) }
    }
}

/// A ring to receive packets from.
pub(super) struct RxRing {
    pub(super) ring: Ring,
    /// The router's buffers lent to the peer, if packets are not copied.
    pub(super) lending: Option<Lending>,
    /// True after a fault of the peer: the ring is no longer read.
    broken: bool,
    /// True if this queue has asked the peer for signals.
    wants_signals: bool,
    rubbish: Rubbish,
    /// Scratch memory of the current call: addresses and lengths of the packets for a frame, or of the parts of one packet.
    found: Box<[(NonNull<u8>, u32)]>,
    /// Copy of a packet in several descriptors, or larger than a buffer.
    whole: Vec<u8>,
}

// SAFETY: the addresses in `found` are those of the ring, and are written anew in each call.
unsafe impl Send for RxRing {}

impl RxRing {
    pub(super) fn new(ring: Ring, lending: Option<Lending>) -> RxRing {
        let found = vec![(NonNull::dangling(), 0); LONGEST].into();
        RxRing {
            ring,
            lending,
            broken: false,
            wants_signals: true,
            rubbish: Rubbish::default(),
            found,
            whole: Vec::with_capacity(LARGEST),
        }
    }

    /// Informs the peer that no signals are needed while this side polls.
    #[inline]
    pub(super) fn wake_up(&mut self, watch: &Watch) {
        if self.wants_signals {
            self.wants_signals = false;
            self.ring.want_signal(false);
            watch.clear();
        }
    }

    /// Appends the ring's packets to the frame; counts unusable packets.
    pub(super) fn poll(
        &mut self,
        frame: &mut Frame,
        cache: &mut Cache,
        budget: &mut Budget,
    ) -> Result<(), Fault> {
        if let Some(lending) = &mut self.lending {
            return lending.poll(&mut self.ring, frame, cache, (budget, &mut self.rubbish));
        }
        let available = self.ring.available()?;
        let n = usize::from(available).min(frame.room());
        if n == 0 {
            return Ok(());
        }
        if !self.ring.gather(DATA_ROOM, &mut self.found[..n]) {
            return self.poll_each(available, frame, cache, budget);
        }
        let first = frame.len();
        let got = frame.alloc(cache, n);
        for (mut packet, &(place, len)) in frame.packets().skip(first).zip(&self.found[..got]) {
            let len = len as usize;
            // SAFETY: the place has `len` bytes within a region that the ring keeps mapped; the room of a new packet is
            // DATA_ROOM, and `gather` says that `len` is not more.
            unsafe { region::copy(place.as_ptr(), packet.room_mut().as_mut_ptr(), len) };
            packet.set_len(len);
        }
        self.ring.advance(got as u16);
        self.rubbish.good(got);
        Ok(())
    }

    /// Reads up to 256 parts of packets from the ring, and calls `seen` with a copy of each usable part. Then returns the parts' buffers to
    /// the peer. Returns the number of packets that end in these parts.
    pub(super) fn look(&mut self, mut seen: impl FnMut(&[u8])) -> Result<usize, Fault> {
        let n = usize::from(self.ring.available()?).min(FRAME_SIZE);
        let plain = self.ring.gather(LARGEST, &mut self.found[..n]);
        let mut show = |from: NonNull<u8>, len: usize| {
            // SAFETY: the place has `len` bytes within a region that the ring keeps mapped, and `whole` has room for LARGEST,
            // which `len` does not exceed. The bytes up to the new length are written by the copy.
            unsafe {
                region::copy(from.as_ptr(), self.whole.as_mut_ptr(), len);
                self.whole.set_len(len);
            }
            seen(&self.whole);
        };
        let mut packets = n;
        if plain {
            self.found[..n].iter().for_each(|&(from, len)| show(from, len as usize));
        } else {
            for i in 0..n as u16 {
                let (flags, len, place) = self.ring.received(i);
                packets -= usize::from(flags & NEXT != 0);
                if let Some(place) = place.filter(|_| len as usize <= LARGEST) {
                    show(place, len as usize);
                }
            }
        }
        self.ring.advance(n as u16);
        Ok(packets)
    }

    /// Does the work of [`poll`](RxRing::poll) when some packets have several descriptors, do not fit into one
    /// buffer, or are unusable.
    #[cold]
    #[inline(never)]
    fn poll_each(
        &mut self,
        available: u16,
        frame: &mut Frame,
        cache: &mut Cache,
        budget: &mut Budget,
    ) -> Result<(), Fault> {
        let (mut used, mut judged) = (0, Ok(()));
        while used < available && frame.room() > 0 && !budget.is_spent() && judged.is_ok() {
            let (descriptors, whole) = self.gather(used, available, budget);
            let mut good = whole;
            if whole {
                if frame.alloc(cache, 1) == 0 {
                    break;
                }
                let last = frame.len() - 1;
                good = frame.get(last).is_some_and(|mut p| p.fill_chained(&self.whole, cache));
                if self.whole.len() > DATA_ROOM {
                    frame.note(Flags::CHAINED);
                }
                if !good {
                    frame.truncate(last, cache);
                }
            }
            budget.unusable += u64::from(!good);
            // If no buffer is free, that is not the peer's fault.
            match whole {
                true => self.rubbish.good(descriptors.into()),
                false => judged = self.rubbish.bad(descriptors.into()),
            }
            // The flags are cleared only now: if a packet stays in its slots, it is read again and still needs its flags.
            (used..used + descriptors).for_each(|i| self.ring.clear_flags(i));
            used += descriptors;
        }
        self.ring.advance(used);
        judged
    }

    /// Copies the packet that begins in slot `from` into `whole`. Returns the packet's number of descriptors, and true if the packet is
    /// usable; an unusable packet is not copied.
    fn gather(&mut self, from: u16, available: u16, budget: &mut Budget) -> (u16, bool) {
        self.whole.clear();
        let (mut parts, mut total, mut ended, mut usable) = (0, 0, false, true);
        for (i, found) in (from..available).zip(&mut self.found) {
            let (flags, len, place) = self.ring.received(i);
            usable &= (1..=LARGEST as u32).contains(&len) && place.is_some();
            *found = (place.unwrap_or(NonNull::dangling()), len);
            (parts, total) = (parts + 1, total + len as usize);
            ended = flags & NEXT == 0;
            if ended {
                break;
            }
        }
        // If no descriptor ends the packet, it is unusable, because a peer must publish a packet completely or not at all.
        let usable = usable && ended && total <= LARGEST;
        budget.spend(parts, if usable { total } else { 0 });
        if usable {
            for &(place, len) in self.found.iter().take(parts) {
                let (before, len) = (self.whole.len(), len as usize);
                // SAFETY: the place has `len` bytes within a region that the ring keeps mapped; `whole` has room for
                // LARGEST, which all parts together do not exceed. The bytes up to the new length are written by the copy.
                unsafe {
                    let to = self.whole.as_mut_ptr().add(before);
                    region::copy(place.as_ptr(), to, len);
                    self.whole.set_len(before + len);
                }
            }
        }
        (parts as u16, usable)
    }
}

/// A receive queue. It gets its rings when a peer connects, and loses them when the peer disconnects.
pub(super) struct MemifRx {
    shared: Arc<Shared>,
    queue: usize,
    /// Index of the ring that the next poll reads first.
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
        // The main thread has the lock while it connects or disconnects; the next poll will get it.
        let Ok(mut rings) = port.rings.try_lock() else { return Ok(()) };
        let count = rings.len();
        let (mut budget, mut since) = (Budget::default(), tsc());
        for k in 0..count {
            let at = (self.turn + k) % count;
            let ring = &mut rings[at];
            if ring.broken {
                continue;
            }
            ring.wake_up(&port.watch);
            let polled = ring.poll(frame, cache, &mut budget);
            let looked = polled.and_then(|()| self.shared.patience.look(&mut since));
            if let Err(fault) = looked {
                ring.broken = true;
                self.shared.fail(fault);
            }
            if frame.room() == 0 || budget.is_spent() || looked != Ok(false) {
                self.turn = (at + 1) % count;
                break;
            }
        }
        self.unusable += budget.unusable;
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

    fn depth(&self) -> usize {
        // The main thread gives this queue its rings, which have the client's size on a server. Then it queries this value again.
        let rings = self.shared.rx.get(self.queue).map(|port| lock(&port.rings));
        let sizes = rings.iter().flat_map(|rings| rings.iter()).map(|r| r.ring.size());
        sizes.min().unwrap_or(self.shared.config.ring_size).into()
    }

    fn take_lost(&mut self) -> Lost {
        Lost { missed: 0, unusable: std::mem::take(&mut self.unusable) }
    }
}
