//! A ring in shared memory, as one side uses it: its indices and descriptors.
//!
//! ```text
//!     0  cookie (32 bits), flags (16), head (16)        descriptor, 16 bytes:
//!    64  tail (16)                                        flags (16), region (16), length (32),
//!   128  descriptors                                      offset in the region (32), metadata (32)
//! ```
//!
//! In rings of both directions, only the client writes the head, and only the server writes the tail.
//!
//! * Ring to the server: the client moves the head past the slots that it has filled. The server moves the tail past
//!   the slots that it has read.
//! * Ring to the client: the client moves the head past the empty buffers that it offers. The server moves the tail
//!   past the slots that it has filled.
//!
//! The slots that are [`available`](Ring::available) to a side reach from its own index (`next`) to the peer's index. The exception is a
//! client that sends: the slots from the peer's index to the client's own index are unread, and all others are available.
//!
//! A side never reads its own index back from shared memory. It checks the peer's index: one that makes more slots available than the ring
//! has is an error.

use infra::prefetch;
use std::fmt;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering, fence};

use super::bell::Bell;
use super::lending::REGION;
use super::message::Direction;
use super::region::Region;
use super::{Layout, Role};

/// First word of a ring.
const COOKIE: u32 = 0x03e3_1f20;
const FLAGS: usize = 4;
pub(super) const HEAD: usize = 6;
pub(super) const TAIL: usize = 64;
pub(super) const DESCRIPTORS: usize = 128;
pub(super) const DESCRIPTOR: usize = 16;
/// Ring flag: the reader polls, and needs no signals.
const MASK_INTERRUPTS: u16 = 1;
/// Descriptor flag: the packet continues in the next descriptor.
pub(super) const NEXT: u16 = 1;

/// Misbehavior of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Fault {
    /// The peer's index makes more slots available than the ring has.
    Index = 1,
    /// A buffer has length 0, or is outside its region.
    Buffer = 2,
    /// Most packets are unusable.
    Rubbish = 3,
    /// A signal to the peer takes too long.
    SlowBell = 4,
    /// The worker waits too long for pages of the peer's memory.
    Holes = 5,
}

impl Fault {
    pub(super) fn from_code(code: u8) -> Option<Fault> {
        let all = [Fault::Index, Fault::Buffer, Fault::Rubbish, Fault::SlowBell, Fault::Holes];
        all.into_iter().find(|f| *f as u8 == code)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Index => "the peer's ring index is invalid",
            Fault::Buffer => "the peer offered a buffer that has length 0 or is outside its region",
            Fault::Rubbish => {
                "most of the peer's packets are unusable: empty, too long, or outside its regions"
            }
            Fault::SlowBell => {
                "signals to the peer take milliseconds: too many epoll instances watch the peer's eventfd"
            }
            Fault::Holes => {
                "the worker waited too long for the peer's memory: it has holes or is swapped out"
            }
        })
    }
}

/// Location of a ring's buffers.
#[derive(Clone, Copy)]
enum Buffers {
    /// The buffers lie one after the other in this side's own memory. The offsets in the shared descriptors are ignored.
    Own { first: usize, stride: usize, size: u32 },
    /// The buffers are at the locations in the peer's descriptors.
    Peer,
    /// The buffers are in the router's pool, as recorded by [`Lending`](super::lending::Lending).
    Lent,
}

/// A copy of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) flags: u16,
    pub(super) region: u16,
    pub(super) len: u32,
    pub(super) offset: u32,
}

/// Location of a packet or a part of one: `len` bytes in one of the ring's regions. Valid while the ring exists.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) at: NonNull<u8>,
    pub(super) len: u32,
    pub(super) region: u16,
    pub(super) flags: u16,
}

/// Location of a ring in memory.
#[derive(Clone)]
pub(super) struct Memory {
    /// Keeps `base` and the memory of each [`Place`] mapped.
    regions: Arc<[Region]>,
    base: NonNull<u8>,
    size: u16,
}

// SAFETY: the address is of memory that is kept mapped; it belongs to no thread.
unsafe impl Send for Memory {}

impl Memory {
    fn word(&self, at: usize) -> &AtomicU16 {
        debug_assert!(at < DESCRIPTORS && at.is_multiple_of(2));
        // SAFETY: the header lies within the mapping, which lives as long as self; `at` is one of the places above, all
        // even. Both sides access these words atomically only.
        unsafe { AtomicU16::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    #[inline(always)]
    fn descriptor_at(&self, slot: u16) -> NonNull<u64> {
        let slot = usize::from(slot & (self.size - 1));
        // SAFETY: the ring has `size` descriptors, a power of two, within the mapping.
        unsafe { self.base.add(DESCRIPTORS + slot * DESCRIPTOR).cast() }
    }

    /// Returns a copy of a slot's descriptor.
    #[inline(always)]
    fn descriptor(&self, slot: u16) -> Descriptor {
        let at = self.descriptor_at(slot);
        // SAFETY: the descriptor lies within the mapping, at a multiple of 8. The peer may write it meanwhile: each half is
        // read once, and any bits are valid.
        let (low, high) = unsafe { (at.read_volatile(), at.add(1).read_volatile()) };
        Descriptor {
            flags: low as u16,
            region: (low >> 16) as u16,
            len: (low >> 32) as u32,
            offset: high as u32,
        }
    }

    /// Prefetches `n` descriptors for writing, so that the peer's core gives up its copies of all their cache lines
    /// at once.
    #[inline(always)]
    fn will_write(&self, from: u16, n: usize) {
        for i in (0..n as u16).step_by(64 / DESCRIPTOR) {
            prefetch::write(self.descriptor_at(from.wrapping_add(i)).as_ptr());
        }
    }

    /// Returns the ring's state, for display.
    pub(super) fn state(&self) -> RingState {
        let (head, tail) = (self.word(HEAD), self.word(TAIL));
        RingState {
            size: self.size,
            head: head.load(Ordering::Relaxed),
            tail: tail.load(Ordering::Relaxed),
            wants_signals: self.word(FLAGS).load(Ordering::Relaxed) & MASK_INTERRUPTS == 0,
        }
    }

    /// Returns the descriptors in shared memory as flags, region, length and offset, for display.
    pub(super) fn descriptors(&self) -> Vec<(u16, u16, u32, u32)> {
        (0..self.size)
            .map(|slot| self.descriptor(slot))
            .map(|d| (d.flags, d.region, d.len, d.offset))
            .collect()
    }
}

/// One side of a ring.
pub(super) struct Ring {
    memory: Memory,
    role: Role,
    direction: Direction,
    buffers: Buffers,
    /// Number of the next slot that this side processes. Increases without limit, modulo 2^16.
    next: u16,
    /// Number of slots whose buffers the peer has. Used only by a client that receives or that lends its buffers.
    given: u16,
    bell: Arc<Bell>,
}

impl Ring {
    /// Creates a client's own ring `number` in the first region, whose layout is `layout`. Writes the ring's header and descriptors. The
    /// peer gets the empty buffers when the ring is [published](Ring::publish). Returns `None` if the ring or its buffers do not fit into
    /// the region.
    pub(super) fn own(
        regions: Arc<[Region]>,
        layout: &Layout,
        direction: Direction,
        number: u16,
        bell: Arc<Bell>,
    ) -> Option<Ring> {
        let (size, offset) = (1u16 << layout.log2_ring, layout.ring_offset(direction, number));
        let first = layout.buffer_offset(direction, number);
        let region = regions.first()?;
        let base = region.at(offset, ring_len(layout.log2_ring))?;
        region.at(first, usize::from(size) * layout.stride())?;
        let buffers = Buffers::Own { first, stride: layout.stride(), size: layout.buffer_size };
        let memory = Memory { base, size, regions };
        let given = if direction == Direction::ToClient { size } else { 0 };
        let mut ring = Ring { memory, role: Role::Client, direction, buffers, next: 0, given, bell };
        for slot in 0..size {
            ring.reset(slot);
        }
        ring.write_header();
        Some(ring)
    }

    /// Creates a ring as [`own`](Ring::own) does, but for buffers of the router's pool, which are lent one by one.
    pub(super) fn lending(
        regions: Arc<[Region]>,
        layout: &Layout,
        direction: Direction,
        number: u16,
        bell: Arc<Bell>,
    ) -> Option<Ring> {
        let base = regions.first()?.at(layout.ring_offset(direction, number), ring_len(layout.log2_ring))?;
        let memory = Memory { base, size: 1 << layout.log2_ring, regions };
        let ring =
            Ring { memory, role: Role::Client, direction, buffers: Buffers::Lent, next: 0, given: 0, bell };
        ring.write_header();
        Some(ring)
    }

    fn write_header(&self) {
        // SAFETY: the header lies within the ring, 4 is its alignment at least.
        unsafe { self.memory.base.cast::<u32>().write_volatile(COOKIE) };
    }

    /// Opens a server's side of a ring that a client created.
    ///
    /// # Errors
    /// Returns an error text: what is wrong with the ring.
    pub(super) fn of_peer(
        regions: Arc<[Region]>,
        (region, offset, log2_size): (u16, u32, u8),
        direction: Direction,
        bell: Arc<Bell>,
    ) -> Result<Ring, String> {
        if !offset.is_multiple_of(8) {
            return Err(format!("a ring's offset {offset} is not a multiple of 8"));
        }
        let memory =
            regions.get(usize::from(region)).and_then(|r| r.at(offset as usize, ring_len(log2_size)));
        let base =
            memory.ok_or_else(|| format!("the ring at offset {offset} does not fit into region {region}"))?;
        // SAFETY: the header lies within the ring, which begins at a multiple of 8.
        let cookie = unsafe { base.cast::<u32>().read_volatile() };
        if cookie != COOKIE {
            return Err(format!("a ring begins with {cookie:#x} instead of {COOKIE:#x}"));
        }
        let memory = Memory { base, size: 1 << log2_size, regions };
        Ok(Ring { memory, role: Role::Server, direction, buffers: Buffers::Peer, next: 0, given: 0, bell })
    }

    fn word(&self, at: usize) -> &AtomicU16 {
        self.memory.word(at)
    }

    fn own_and_peer(&self) -> (&AtomicU16, &AtomicU16) {
        match self.role {
            Role::Client => (self.word(HEAD), self.word(TAIL)),
            Role::Server => (self.word(TAIL), self.word(HEAD)),
        }
    }

    /// Returns the number of slots that this side can process now.
    ///
    /// # Errors
    /// If the peer's index is invalid.
    #[inline]
    pub(super) fn available(&self) -> Result<u16, Fault> {
        let peer = self.own_and_peer().1.load(Ordering::Acquire);
        let (ahead, most) = match (self.role, self.direction) {
            (Role::Client, Direction::ToServer) => {
                (self.memory.size.wrapping_sub(self.next.wrapping_sub(peer)), self.memory.size)
            }
            // The peer cannot have filled more than this side has offered.
            (Role::Client, Direction::ToClient) => (peer.wrapping_sub(self.next), self.given),
            _ => (peer.wrapping_sub(self.next), self.memory.size),
        };
        if ahead <= most { Ok(ahead) } else { Err(Fault::Index) }
    }

    /// Prefetches the next `n` descriptors for writing.
    #[inline]
    pub(super) fn will_write(&self, n: u16) {
        self.memory.will_write(self.next, n.into());
    }

    /// Finishes the work on the first `n` available slots, and publishes this side's index.
    #[inline]
    pub(super) fn advance(&mut self, n: u16) {
        if n == 0 {
            return;
        }
        match (self.role, self.direction, self.buffers) {
            (_, Direction::ToClient, Buffers::Lent) => self.given -= n,
            (_, Direction::ToServer, Buffers::Lent) => self.given += n,
            (Role::Client, Direction::ToClient, _) => {
                // The buffers of these slots are empty again.
                for i in 0..n {
                    self.reset(self.next.wrapping_add(i));
                }
            }
            _ => {}
        }
        self.next = self.next.wrapping_add(n);
        self.publish();
    }

    /// Publishes this side's index to the peer. Call this only after both sides have connected: DPDK's server sets
    /// both indices to 0 while it connects.
    pub(super) fn publish(&self) {
        let given = match (self.role, self.direction) {
            (Role::Client, Direction::ToClient) => self.given,
            _ => 0,
        };
        self.own_and_peer().0.store(self.next.wrapping_add(given), Ordering::Release);
    }

    /// Returns the number of descriptors.
    #[inline(always)]
    pub(super) fn size(&self) -> u16 {
        self.memory.size
    }

    /// Returns the slot number `next + i`, modulo 2^16.
    #[inline(always)]
    pub(super) fn slot(&self, i: u16) -> u16 {
        self.next.wrapping_add(i)
    }

    /// Returns the number of slots whose buffers the peer has. In a receive ring, these slots begin at `next`; in a send ring, they end
    /// before `next`.
    #[inline(always)]
    pub(super) fn given(&self) -> u16 {
        self.given
    }

    /// Offers the peer the empty buffers of `n` more slots. Their descriptors must have been [written](Ring::describe).
    pub(super) fn give(&mut self, n: u16) {
        self.given += n;
        self.publish();
    }

    /// Takes back the oldest `n` slots that the peer has. The peer must have read them.
    #[inline(always)]
    pub(super) fn take_back(&mut self, n: u16) {
        self.given -= n;
    }

    /// Writes a slot's descriptor for a lent buffer.
    #[inline(always)]
    pub(super) fn describe(&mut self, slot: u16, flags: u16, len: u32, offset: u32) {
        let at = self.memory.descriptor_at(slot);
        let low = u64::from(flags) | u64::from(REGION) << 16 | u64::from(len) << 32;
        // SAFETY: the descriptor lies within the mapping, at a multiple of 8. It is this side's until the index moves.
        unsafe {
            at.write_volatile(low);
            at.add(1).write_volatile(offset.into());
        }
    }

    /// Returns the flags and length that the peer wrote for slot `next + i`.
    #[inline(always)]
    pub(super) fn flags_and_len(&self, i: u16) -> (u16, u32) {
        let d = self.descriptor(i);
        (d.flags, d.len)
    }

    /// Returns a copy of the descriptor of slot `next + i`.
    #[inline(always)]
    fn descriptor(&self, i: u16) -> Descriptor {
        self.memory.descriptor(self.next.wrapping_add(i))
    }

    /// Returns the address in a descriptor; `None` if it is invalid.
    #[inline(always)]
    fn resolve(&self, slot: u16, d: Descriptor) -> Option<NonNull<u8>> {
        match self.buffers {
            Buffers::Own { first, stride, size } => {
                let slot = usize::from(slot & (self.memory.size - 1));
                let region = self.memory.regions.first()?;
                if d.len <= size { region.at(first + slot * stride, d.len as usize) } else { None }
            }
            Buffers::Peer => {
                self.memory.regions.get(usize::from(d.region))?.at(d.offset as usize, d.len as usize)
            }
            Buffers::Lent => None,
        }
    }

    /// Reads the descriptors from the next slot on, one for each entry of `found`, and stores the addresses and lengths there. Returns true
    /// if each slot has a packet in one piece of at most `most` bytes. If it returns false, the contents of `found` are invalid.
    #[inline]
    pub(super) fn gather(&self, most: usize, found: &mut [(NonNull<u8>, u32)]) -> bool {
        let (next, mut plain) = (self.next, true);
        let most = most as u32;
        match self.buffers {
            Buffers::Own { first, stride, size } => {
                self.memory.will_write(next, found.len());
                let Some(base) = self.memory.regions.first().and_then(|r| r.at(first, 0)) else {
                    return false;
                };
                let (most, mask) = (most.min(size), self.memory.size - 1);
                for (i, found) in (0..).zip(found) {
                    let slot = next.wrapping_add(i);
                    let d = self.memory.descriptor(slot);
                    plain &= d.flags & NEXT == 0 && d.len.wrapping_sub(1) < most;
                    // SAFETY: `own` has checked that all buffers of the ring lie within the region.
                    let at = unsafe { base.add(usize::from(slot & mask) * stride) };
                    prefetch::read(at.as_ptr());
                    *found = (at, d.len);
                }
            }
            Buffers::Peer => {
                let mut regions = Finder::new(&self.memory.regions);
                for (i, found) in (0..).zip(found) {
                    let d = self.memory.descriptor(next.wrapping_add(i));
                    plain &= d.flags & NEXT == 0 && d.len.wrapping_sub(1) < most;
                    let Some(at) = regions.at(d) else { return false };
                    prefetch::read(at.as_ptr());
                    *found = (at, d.len);
                }
            }
            Buffers::Lent => plain = false,
        }
        plain
    }

    /// Returns the flags, length and address of the packet received in slot `next + i`. The address is `None` if it is invalid.
    #[inline(always)]
    pub(super) fn received(&self, i: u16) -> (u16, u32, Option<NonNull<u8>>) {
        let d = self.descriptor(i);
        (d.flags, d.len, self.resolve(self.next.wrapping_add(i), d))
    }

    /// Clears the flags of slot `next + i`, in a server's ring. DPDK's client before version 26.03 does not clear the `NEXT` flag
    /// that an earlier packet left in the slot, even if the new packet ends there.
    #[inline(always)]
    pub(super) fn clear_flags(&mut self, i: u16) {
        if self.role == Role::Server {
            let at = self.memory.descriptor_at(self.next.wrapping_add(i)).cast::<u16>();
            // SAFETY: the flags are the first word of the descriptor, which is this side's until the index moves.
            unsafe { at.write_volatile(0) };
        }
    }

    /// Appends the locations of the empty buffers in `slots`, which are counted from the next slot.
    ///
    /// # Errors
    /// If the peer offered an invalid buffer. New entries of `places` are then invalid.
    #[inline]
    pub(super) fn empty(&self, slots: Range<u16>, places: &mut Vec<Place>) -> Result<(), Fault> {
        let next = self.next;
        self.memory.will_write(next.wrapping_add(slots.start), slots.len());
        match self.buffers {
            // The contents of the shared descriptors are ignored here.
            Buffers::Own { first, stride, size } => {
                let region = self.memory.regions.first().and_then(|r| r.at(first, 0));
                let base = region.ok_or(Fault::Buffer)?;
                let mask = self.memory.size - 1;
                places.extend(slots.map(|i| {
                    // SAFETY: `own` has checked that all buffers of the ring lie within the region.
                    let at = unsafe { base.add(usize::from(next.wrapping_add(i) & mask) * stride) };
                    prefetch::write(at.as_ptr());
                    Place { at, len: size, region: 0, flags: 0 }
                }));
                Ok(())
            }
            Buffers::Peer => {
                let mut regions = Finder::new(&self.memory.regions);
                let mut good = true;
                places.extend(slots.map(|i| {
                    let d = self.memory.descriptor(next.wrapping_add(i));
                    let at = regions.at(d);
                    good &= at.is_some() && d.len > 0;
                    let at = at.unwrap_or(NonNull::dangling());
                    prefetch::write(at.as_ptr());
                    Place { at, len: d.len, region: d.region, flags: 0 }
                }));
                if good { Ok(()) } else { Err(Fault::Buffer) }
            }
            Buffers::Lent => Err(Fault::Buffer),
        }
    }

    /// Writes the descriptor of slot `next + i` after its buffer was filled. `place` is what [`empty`](Ring::empty) has returned
    /// for the buffer, but with the flags and length of the packet.
    #[inline(always)]
    pub(super) fn filled(&mut self, i: u16, place: Place) {
        let low = u64::from(place.flags) | u64::from(place.region) << 16 | u64::from(place.len) << 32;
        // SAFETY: the descriptor lies within the mapping, at a multiple of 8. It is this side's until the index moves; the
        // offset stays as it is.
        unsafe { self.memory.descriptor_at(self.next.wrapping_add(i)).write_volatile(low) };
    }

    /// Resets a slot of this side's own ring to an empty buffer.
    #[inline(always)]
    fn reset(&mut self, slot: u16) {
        if let Buffers::Own { first, stride, size } = self.buffers {
            let offset = first + usize::from(slot & (self.memory.size - 1)) * stride;
            let at = self.memory.descriptor_at(slot);
            // SAFETY: as in `filled`.
            unsafe {
                at.write_volatile(u64::from(size) << 32);
                at.add(1).write_volatile(offset as u64 & 0xffff_ffff);
            }
        }
    }

    /// True if the ring's reader wants a signal. If false, the reader will still see everything published before this
    /// call.
    pub(super) fn wants_signal(&self) -> bool {
        fence(Ordering::SeqCst);
        self.word(FLAGS).load(Ordering::Relaxed) & MASK_INTERRUPTS == 0
    }

    /// Sets whether this side, the reader, wants signals. After asking for signals, it must check for available slots
    /// once more before it sleeps.
    pub(super) fn want_signal(&self, wanted: bool) {
        self.word(FLAGS).store(if wanted { 0 } else { MASK_INTERRUPTS }, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Returns the event descriptor that wakes the reader.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Returns the ring's memory, for display without holding the queue's lock.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }
}

/// Finds the memory addresses that descriptors refer to. Caches the last region.
struct Finder<'a> {
    regions: &'a [Region],
    number: u16,
    region: Option<&'a Region>,
}

impl<'a> Finder<'a> {
    fn new(regions: &'a [Region]) -> Finder<'a> {
        Finder { regions, number: 0, region: regions.first() }
    }

    #[inline(always)]
    fn at(&mut self, d: Descriptor) -> Option<NonNull<u8>> {
        if d.region != self.number {
            (self.number, self.region) = (d.region, self.regions.get(usize::from(d.region)));
        }
        self.region?.at(d.offset as usize, d.len as usize)
    }
}

/// State of a ring, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingState {
    /// Number of descriptors.
    pub size: u16,
    /// The client's index.
    pub head: u16,
    /// The server's index.
    pub tail: u16,
    /// True if the reader sleeps until it gets a signal.
    pub wants_signals: bool,
}

/// Returns the size in bytes of a ring with its header.
pub(super) fn ring_len(log2_size: u8) -> usize {
    DESCRIPTORS + (DESCRIPTOR << log2_size)
}
