//! Rings whose packets lie in the router's own buffers, for a peer that is trusted: the pool's memory is a region, and nothing is
//! copied.
//!
//! A buffer that the peer has is lent ([`LentInOrder`]): which one a slot has is remembered on this side, so whatever the peer writes
//! into a descriptor, no buffer has two owners. That the peer can write into all other buffers as well is what it is trusted with.

use buf::layout::{DATA, DATA_ROOM};
use buf::{Cache, FRAME_SIZE, Frame, Held, LentInOrder, Packet, Pool, Unsent};
use infra::prefetch;

use super::ring::{Fault, NEXT, Ring};
use super::rx::{Budget, LARGEST, LONGEST, Rubbish};
use super::tx::Stop;

/// Number of the region that the pool's memory is.
pub(super) const REGION: u16 = 1;

/// What the peer has of one ring: the buffers of so many slots in a row, of which the oldest is the next that comes back.
pub(super) struct Lending(LentInOrder);

impl Lending {
    /// Nothing yet, of a ring with so many slots.
    pub(super) fn new(pool: &Pool, slots: u16) -> Lending {
        Lending(LentInOrder::new(pool, slots.into()))
    }

    /// What the peer has. It may still write there for a while.
    pub(super) fn into_lent(self) -> LentInOrder {
        self.0
    }

    /// Appends what the peer has put into buffers, and gives it new ones; counts what is no packet.
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
            // Whoever forwards the packet writes a new link header.
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
                // There is room for one.
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

    /// The whole packet that begins in slot `used`. Its parts are put together from the last to the first, so that many of them
    /// take no longer than so many packets.
    #[cold]
    #[inline(never)]
    fn parts(&mut self, ring: &Ring, used: &mut u16, available: u16, cache: &mut Cache) -> Option<Held> {
        let first = *used;
        // The peer shows packets as a whole, or not at all.
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

    /// Gives the peer empty buffers for all slots that have none.
    fn replenish(&mut self, ring: &mut Ring, cache: &mut Cache) {
        let first = ring.given();
        let mut given = 0;
        self.0.lend_new(cache, usize::from(ring.size() - first), |place| {
            // Regions of more than 4 GiB are not offered.
            ring.describe(ring.slot(first + given), 0, DATA_ROOM as u32, (place + DATA) as u32);
            given += 1;
        });
        if given > 0 {
            cache.note_kept(given as isize);
            ring.give(given);
        }
    }

    /// Sends from the front of the frame, whose packets are the peer's then; says why the others did not go.
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

    /// Frees what the peer has read.
    fn reap(&mut self, ring: &mut Ring, free: u16, cache: &mut Cache) {
        let read = ring.given().saturating_sub(ring.size() - free);
        self.0.free(read.into(), cache);
        ring.take_back(read);
        cache.note_kept(-(read as isize));
    }

    /// Gives the peer a copy of a packet that cannot be lent: one of several buffers, which others may share, or one that is not
    /// in the window. Gives how many buffers that takes.
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

/// Whether a buffer can have so many bytes, and has any.
#[inline(always)]
fn is_len(len: u32) -> bool {
    len.wrapping_sub(1) < DATA_ROOM as u32
}

/// One packet of two; `None` when that is larger than any, or cannot be.
fn join(mut first: Held, mut rest: Held, cache: &mut Cache) -> Option<Held> {
    if first.packet().total_len() + rest.packet().total_len() > LARGEST {
        return free([Some(first), Some(rest)], cache);
    }
    // Nobody else has a share of parts that have just come.
    match first.packet().append(rest, cache) {
        Ok(()) => Some(first),
        Err(rest) => free([Some(first), Some(rest)], cache),
    }
}

/// Frees packets of no use.
fn free(packets: [Option<Held>; 2], cache: &mut Cache) -> Option<Held> {
    packets.into_iter().flatten().for_each(|held| held.free(cache));
    None
}
