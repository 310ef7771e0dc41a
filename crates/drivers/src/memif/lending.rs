//! Rings whose packets stay in the router's own buffers, for a trusted peer: the pool's memory is shared as a region, and nothing is
//! copied.
//!
//! Buffers given to the peer are lent ([`LentInOrder`]). The router records each slot's buffer, so no descriptor that the peer writes can
//! give a buffer two owners. The peer is trusted not to write into the other buffers of the pool.

use buf::layout::{DATA, DATA_ROOM};
use buf::{Cache, FRAME_SIZE, Frame, Held, LentInOrder, Packet, Pool, Unsent};
use infra::prefetch;

use super::ring::{Fault, NEXT, Ring};
use super::rx::{Budget, LARGEST, LONGEST, Rubbish};
use super::tx::Stop;

/// Index of the region with the pool's memory.
pub(super) const REGION: u16 = 1;

/// The buffers of one ring that are lent to the peer, in consecutive slots. The peer returns the oldest buffer first.
pub(super) struct Lending(LentInOrder);

impl Lending {
    /// Returns an empty record for a ring with this many slots.
    pub(super) fn new(pool: &Pool, slots: u16) -> Lending {
        Lending(LentInOrder::new(pool, slots.into()))
    }

    /// Returns the lent buffers. The peer may still write to them for a while.
    pub(super) fn into_lent(self) -> LentInOrder {
        self.0
    }

    /// Appends the received packets to the frame and offers new buffers to the peer. Counts unusable packets.
    pub(super) fn poll(
        &mut self,
        ring: &mut Ring,
        frame: &mut Frame,
        cache: &mut Cache,
        (budget, rubbish): (&mut Budget, &mut Rubbish),
    ) -> Result<(), Fault> {
        let available = ring.available()?;
        let n = available.min(frame.room() as u16);
        ring.will_write(n);
        let start = self.0.window().start().as_ptr();
        for place in self.0.oldest(n.into()) {
            // Forwarding writes a new link header into the packet.
            prefetch::write(start.wrapping_add(place + DATA));
        }
        let (mut used, mut plain, mut judged) = (0, 0, Ok(()));
        while used < available && frame.room() > 0 && !budget.is_spent() && judged.is_ok() {
            let most = usize::from(available - used);
            let got = self.0.receive(frame, most, |i| {
                let (flags, len) = ring.flags_and_len(used + i as u16);
                (flags & NEXT == 0 && is_len(len)).then_some(len as usize)
            });
            (used, plain) = (used + got as u16, plain + got as isize);
            rubbish.good(got);
            if used == available || frame.room() == 0 {
                break;
            }
            let first = used;
            match self.parts(ring, &mut used, available, cache) {
                // The frame has room for one.
                Some(held) => {
                    drop(frame.push(held));
                    rubbish.good((used - first).into());
                }
                None => {
                    budget.unusable += 1;
                    judged = rubbish.bad((used - first).into());
                }
            }
            budget.spend((used - first).into(), 0);
        }
        cache.note_kept(-plain);
        ring.advance(used);
        self.replenish(ring, cache);
        judged
    }

    /// Returns the packet of several parts that begins in slot `used`, or `None` if it is unusable. Moves `used` to the slot after the
    /// packet. The parts are joined from last to first, so the cost is linear in their number.
    #[cold]
    #[inline(never)]
    fn parts(&mut self, ring: &Ring, used: &mut u16, available: u16, cache: &mut Cache) -> Option<Held> {
        let first = *used;
        // If no descriptor ends the packet, it is unusable, because a peer must publish a packet completely or not at all.
        let mut good = false;
        let end = available.min(first.saturating_add(LONGEST as u16));
        while *used < end && !good {
            good = ring.flags_and_len(*used).0 & NEXT == 0;
            *used += 1;
        }
        let mut whole = None;
        self.0.back(usize::from(*used - first), |i, mut part| {
            cache.note_kept(-1);
            let len = ring.flags_and_len(first + i as u16).1;
            good &= is_len(len);
            if good {
                part.packet().set_len(len as usize);
            }
            whole = match whole.take() {
                Some(rest) if good => join(part, rest, cache),
                None if good => Some(part),
                rest => free([Some(part), rest], cache),
            };
            good &= whole.is_some();
        });
        whole
    }

    /// Gives the peer an empty buffer for each slot without one, as far as buffers are free.
    fn replenish(&mut self, ring: &mut Ring, cache: &mut Cache) {
        let first = ring.given();
        let mut given = 0;
        self.0.lend_new(cache, usize::from(ring.size() - first), |place| {
            // Regions larger than 4 GiB are never shared.
            ring.describe(ring.slot(first + given), 0, DATA_ROOM as u32, (place + DATA) as u32);
            given += 1;
        });
        if given > 0 {
            cache.note_kept(given as isize);
            ring.give(given);
        }
    }

    /// Lends packets from the front of the frame to the peer. Returns the number of slots used, and the reason if packets are left.
    pub(super) fn send(
        &mut self,
        ring: &mut Ring,
        frame: &mut Frame,
        cache: &mut Cache,
    ) -> (u16, Result<(), Stop>) {
        let free = match ring.available() {
            Ok(free) => free,
            Err(fault) => return (0, Err(fault.into())),
        };
        self.reap(ring, free, cache);
        let mut used = 0;
        let outcome = loop {
            let before = used;
            self.0.lend_front(frame, usize::from(free - used), |place, offset, len| {
                ring.describe(ring.slot(used), 0, len.into(), place as u32 + u32::from(offset));
                used += 1;
            });
            cache.note_kept((used - before) as isize);
            let Some(first) = frame.get(0) else { break Ok(()) };
            if used == free {
                break Err(Stop::For(Unsent::Full));
            }
            match self.put_copy(ring, &first, used, free, cache) {
                Ok(parts) => used += parts,
                Err(why) => break Err(Stop::For(why)),
            }
            frame.free_front(1, cache);
        };
        ring.advance(used);
        ring.will_write(FRAME_SIZE as u16);
        (used, outcome)
    }

    /// Frees the buffers that the peer has read.
    fn reap(&mut self, ring: &mut Ring, free: u16, cache: &mut Cache) {
        let read = ring.given().saturating_sub(ring.size() - free);
        self.0.free(read.into(), cache);
        ring.take_back(read);
        cache.note_kept(-(read as isize));
    }

    /// Sends the peer a copy of a packet that cannot be lent: it has several buffers, which may be shared, or its
    /// buffer lies outside the memory mapped by the peer. Returns the number of buffers used.
    #[cold]
    #[inline(never)]
    fn put_copy(
        &mut self,
        ring: &mut Ring,
        packet: &Packet<'_>,
        from: u16,
        free: u16,
        cache: &mut Cache,
    ) -> Result<u16, Unsent> {
        let total = packet.total_len();
        let parts = total.div_ceil(DATA_ROOM);
        if parts == 0 || parts > usize::from(ring.size()) {
            return Err(Unsent::Refused);
        }
        if parts > usize::from(free - from) {
            return Err(Unsent::Full);
        }
        let mut copies = Frame::new();
        let fresh = (0..parts.min(copies.room())).map_while(|_| self.0.window().alloc(cache));
        fresh.for_each(|copy| drop(copies.push(copy)));
        if copies.len() < parts {
            copies.free(cache);
            return Err(Unsent::Full);
        }
        let mut bytes = packet.segments().flatten();
        for mut copy in copies.packets() {
            let mut len = 0;
            for (to, from) in copy.room_mut().iter_mut().zip(&mut bytes) {
                *to = *from;
                len += 1;
            }
            copy.set_len(len);
        }
        let (mut slot, last) = (from, from + parts as u16 - 1);
        self.0.lend_front(&mut copies, parts, |place, offset, len| {
            let flags = if slot < last { NEXT } else { 0 };
            ring.describe(ring.slot(slot), flags, len.into(), place as u32 + u32::from(offset));
            slot += 1;
        });
        cache.note_kept(parts as isize);
        Ok(parts as u16)
    }
}

/// True if a buffer can hold `len` bytes, and `len` is not 0.
#[inline(always)]
fn is_len(len: u32) -> bool {
    len.wrapping_sub(1) < DATA_ROOM as u32
}

/// Joins two packets. Returns `None`, and frees both, if the result is too large or they cannot be joined.
fn join(mut first: Held, mut rest: Held, cache: &mut Cache) -> Option<Held> {
    if first.packet().total_len() + rest.packet().total_len() > LARGEST {
        return free([Some(first), Some(rest)], cache);
    }
    // Parts just received are not shared.
    match first.packet().append(rest, cache) {
        Ok(()) => Some(first),
        Err(rest) => free([Some(first), Some(rest)], cache),
    }
}

/// Frees unusable packets. Always returns `None`.
fn free(packets: [Option<Held>; 2], cache: &mut Cache) -> Option<Held> {
    packets.into_iter().flatten().for_each(|held| held.free(cache));
    None
}
