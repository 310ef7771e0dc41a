//! Rings whose packets lie in the router's own buffers, for a peer that is trusted: the pool's memory is a region, and nothing is
//! copied.
//!
//! A buffer that the peer has is lent ([`Lent`]): what a slot names is remembered on this side, so whatever the peer writes into
//! a descriptor, no buffer has two owners. That the peer can write into all other buffers as well is what it is trusted with.

use buf::layout::{DATA, DATA_ROOM};
use buf::{Cache, Frame, Held, Lent, Packet, Pool, Unsent, Window};

use super::ring::{Fault, NEXT, Ring};
use super::rx::LARGEST;
use super::tx::Stop;
use crate::kernel::prefetch;

/// Number of the region that the pool's memory is.
pub(super) const REGION: u16 = 1;

/// What the peer has of one ring.
pub(super) struct Lending {
    window: Window,
    lent: Lent,
    /// Where in the window the buffer of each slot begins, while the peer has it.
    places: Box<[u32]>,
}

impl Lending {
    /// Nothing yet, of a ring with so many slots.
    pub(super) fn new(pool: &Pool, slots: u16) -> Lending {
        let window = pool.window();
        Lending { window, lent: Lent::new(pool, window), places: vec![0; slots.into()].into() }
    }

    /// What the peer has. It may still write there for a while.
    pub(super) fn into_lent(self) -> Lent {
        self.lent
    }

    /// Where a slot's place is remembered.
    fn index(&self, slot: u16) -> usize {
        usize::from(slot) & (self.places.len() - 1)
    }

    /// Gives the peer a packet's buffer.
    fn lend(&mut self, slot: u16, held: Held) -> Result<u32, Held> {
        // Regions of more than 4 GiB are not offered.
        let place = self.lent.lend(held)? as u32;
        let index = self.index(slot);
        self.places[index] = place;
        Ok(place)
    }

    /// Takes the buffer of a slot back.
    fn back(&mut self, slot: u16) -> Option<Held> {
        self.lent.back(self.places[self.index(slot)] as usize)
    }

    /// Appends what the peer has put into buffers, and gives it new ones; counts what is no packet.
    pub(super) fn poll(
        &mut self,
        ring: &mut Ring,
        frame: &mut Frame,
        cache: &mut Cache,
        unusable: &mut u64,
    ) -> Result<(), Fault> {
        let available = ring.available()?;
        let n = available.min(frame.room() as u16);
        ring.will_write(n);
        for i in 0..n {
            let place = self.places[self.index(ring.slot(i))] as usize;
            prefetch::read(self.window.start().as_ptr().wrapping_add(place + DATA));
        }
        let (mut used, mut plain) = (0, 0);
        while used < available && frame.room() > 0 {
            let (flags, len) = ring.flags_and_len(used);
            if flags & NEXT == 0 && len.wrapping_sub(1) < DATA_ROOM as u32 {
                let place = self.places[self.index(ring.slot(used))] as usize;
                // It was lent when the slot was described.
                plain += isize::from(self.lent.receive(place, len as usize, frame));
                used += 1;
                continue;
            }
            match self.parts(ring, &mut used, available, cache) {
                // There is room for one.
                Some(held) => drop(frame.push(held)),
                None => *unusable += 1,
            }
        }
        cache.note_kept(-plain);
        ring.advance(used);
        self.replenish(ring, cache);
        Ok(())
    }

    /// What was put into the buffer of a slot; `None` when that is nothing, or cannot be.
    fn received(&mut self, slot: u16, len: u32, cache: &mut Cache) -> Option<Held> {
        let mut held = self.back(slot)?;
        cache.note_kept(-1);
        if len.wrapping_sub(1) < DATA_ROOM as u32 {
            held.packet().set_len(len as usize);
            return Some(held);
        }
        held.free(cache);
        None
    }

    /// The whole packet that begins in slot `used`. Its parts are put together from the last to the first, so that many of them
    /// take no longer than so many packets.
    #[cold]
    #[inline(never)]
    fn parts(&mut self, ring: &Ring, used: &mut u16, available: u16, cache: &mut Cache) -> Option<Held> {
        let first = *used;
        // The peer shows packets as a whole, or not at all.
        let mut good = false;
        while *used < available && !good {
            good = ring.flags_and_len(*used).0 & NEXT == 0;
            *used += 1;
        }
        let mut whole = None;
        for i in (first..*used).rev() {
            let part = self.received(ring.slot(i), ring.flags_and_len(i).1, cache);
            whole = match (part, whole.take()) {
                (Some(part), None) if good => Some(part),
                (Some(part), Some(rest)) => join(part, rest, cache),
                (part, rest) => free([part, rest], cache),
            };
            good &= whole.is_some();
        }
        whole
    }

    /// Gives the peer empty buffers for all slots that have none.
    fn replenish(&mut self, ring: &mut Ring, cache: &mut Cache) {
        let mut given = 0;
        for i in ring.given()..ring.size() {
            let Some(place) = self.lent.lend_new(cache) else { break };
            let (slot, place) = (ring.slot(i), place as u32);
            let index = self.index(slot);
            self.places[index] = place;
            ring.describe(slot, 0, DATA_ROOM as u32, place + DATA as u32);
            given += 1;
        }
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
        ring.will_write(frame.len() as u16);
        self.reap(ring, free, cache);
        let mut used = 0;
        let outcome = loop {
            let room = usize::from(free - used);
            let takes = |i: &usize| frame.snapshot(*i).is_some_and(|p| p.len > 0 && self.lent.takes(&p));
            let fit = (0..room).take_while(takes).count();
            let mut given = 0;
            frame.drain_front(fit, |held| {
                let (packet, slot) = (held.snapshot(), ring.slot(used));
                match self.lend(slot, held) {
                    Ok(place) => ring.describe(slot, 0, packet.len.into(), place + u32::from(packet.offset)),
                    // It was looked at.
                    Err(held) => return held.free(cache),
                }
                (used, given) = (used + 1, given + 1);
            });
            cache.note_kept(given);
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
        (used, outcome)
    }

    /// Frees what the peer has read.
    fn reap(&mut self, ring: &mut Ring, free: u16, cache: &mut Cache) {
        let mut freed = 0;
        while ring.given() > ring.size() - free {
            // The oldest that the peer had.
            let slot = ring.slot(0).wrapping_sub(ring.given());
            freed += isize::from(self.lent.free(self.places[self.index(slot)] as usize, cache));
            ring.take_back();
        }
        cache.note_kept(-freed);
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
        let fresh = (0..parts.min(copies.room())).map_while(|_| self.lent.alloc(cache));
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
        let mut slot = from;
        copies.drain(|held| {
            let (copy, at) = (held.snapshot(), ring.slot(slot));
            let flags = if usize::from(slot - from) + 1 < parts { NEXT } else { 0 };
            match self.lend(at, held) {
                Ok(place) => ring.describe(at, flags, copy.len.into(), place + u32::from(copy.offset)),
                // It was made to be lent.
                Err(held) => return held.free(cache),
            }
            slot += 1;
        });
        cache.note_kept(parts as isize);
        Ok(parts as u16)
    }
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
