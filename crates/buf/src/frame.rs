//! Frames: up to 256 packets for one call of a node.

use std::mem::MaybeUninit;
use std::ops::Range;

use infra::prefetch;

use crate::arena;
use crate::layout::DATA_ROOM;
use crate::packet::{Held, Packet};
use crate::pool::{self, BATCH, Cache};
use crate::record::{Flags, NO_INTERFACE, Record, Snapshot};

/// Maximum number of packets in a frame.
pub const FRAME_SIZE: usize = 256;
/// How many packets ahead [`Frame::packets_ahead`] prefetches.
const AHEAD: usize = 8;

const _: () = assert!(FRAME_SIZE <= BATCH);

/// Up to 256 packets, with common facts about them.
///
/// The facts are collected as packets are added and changed. [`any`](Frame::any) may include a flag that no packet has any more, but never
/// misses a flag that nodes check once per frame. [`uniform_rx`](Frame::uniform_rx) may be `None` even if all packets share an interface. A
/// node that changes a single [`Packet`] so that the facts are wrong must call [`note`](Frame::note) or
/// [`forget_uniform_rx`](Frame::forget_uniform_rx). Debug builds check that.
#[repr(C, align(64))]
pub struct Frame {
    n: u32,
    facts: Facts,
    records: [MaybeUninit<Record>; FRAME_SIZE],
}

/// Common facts about the packets of a frame.
#[derive(Clone, Copy)]
pub struct Facts {
    any: Flags,
    /// The receive interface of all packets; `NO_INTERFACE` if they may have different ones.
    rx_if: u32,
}

impl Facts {
    const NONE: Facts = Facts { any: Flags::NONE, rx_if: NO_INTERFACE };
    /// The flags that nodes check once per frame instead of once per packet.
    const LOOKED_FOR: Flags = Flags::CHAINED.or(Flags::TRACED).or(Flags::GSO).or(Flags::CSUM_PARTIAL);
}

impl Default for Frame {
    fn default() -> Self {
        Self::new()
    }
}

impl Frame {
    /// Returns a frame without packets.
    pub fn new() -> Frame {
        Frame { n: 0, facts: Facts::NONE, records: [const { MaybeUninit::uninit() }; FRAME_SIZE] }
    }

    /// Number of packets, at most [`FRAME_SIZE`].
    #[inline(always)]
    pub fn len(&self) -> usize {
        // The setters keep `n` within this limit. `min` tells it to the compiler, and costs one instruction per frame.
        (self.n as usize).min(FRAME_SIZE)
    }

    /// True if there are no packets.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Number of packets that still fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        FRAME_SIZE - self.len()
    }

    /// Returns which of the flags `CHAINED`, `TRACED`, `GSO` and `CSUM_PARTIAL` some packet of the frame may have. Includes other flags
    /// only if a packet had them when it was added to the frame, or a node [noted](Frame::note) them.
    #[inline(always)]
    pub fn any(&self) -> Flags {
        debug_assert!(
            self.records().iter().all(|r| (r.flags & Facts::LOOKED_FOR & !self.facts.any).is_empty()),
            "a packet was given a flag that was not noted in its frame (Frame::note)"
        );
        self.facts.any
    }

    /// Returns the receive interface of all packets, if known.
    #[inline(always)]
    pub fn uniform_rx(&self) -> Option<u32> {
        let rx_if = self.facts.rx_if;
        debug_assert!(
            rx_if == NO_INTERFACE || self.records().iter().all(|r| r.rx_if == rx_if),
            "a packet was given another receive interface without Frame::forget_uniform_rx"
        );
        (rx_if != NO_INTERFACE).then_some(rx_if)
    }

    /// Returns the transmit interface if it is the same for all packets; `None` otherwise, and for a frame without packets. Compares the
    /// packets at each call and stores nothing, since nearly every node changes the interface of some packets.
    #[inline(always)]
    pub fn uniform_tx(&self) -> Option<u32> {
        let first = self.records().first()?.tx_if;
        // No branch per packet: if interfaces differ, the first few packets usually show it.
        let differ = |records: &[Record]| records.iter().fold(0, |d, r| d | (r.tx_if ^ first)) != 0;
        let (head, rest) = self.records().split_at(self.len().min(8));
        (!differ(head) && !differ(rest)).then_some(first)
    }

    /// Bytes of all packets, from their current offsets.
    #[inline(always)]
    pub fn total_len(&mut self) -> usize {
        if self.any().any(Flags::CHAINED) {
            return self.packets().map(|p| p.total_len()).sum();
        }
        self.records().iter().map(|r| r.len as usize).sum()
    }

    /// Sets the receive interface of all packets. The frame records that all packets have this interface
    /// ([`uniform_rx`](Frame::uniform_rx)).
    pub fn set_rx(&mut self, interface: u32) {
        self.facts.rx_if = interface;
        self.records_mut().iter_mut().for_each(|r| r.rx_if = interface);
    }

    /// Marks that the packets may have different receive interfaces: a node assigned some of them to a
    /// sub-interface or a tunnel ([`Packet::set_rx_if`] cannot access the frame).
    #[inline(always)]
    pub fn forget_uniform_rx(&mut self) {
        self.facts.rx_if = NO_INTERFACE;
    }

    /// Marks the packets of `range` as traced, with consecutive trace numbers from `first_trace`.
    pub fn set_traced(&mut self, range: Range<usize>, first_trace: u32) {
        for (k, i) in range.enumerate() {
            if let Some(mut p) = self.get(i) {
                p.set_flags(p.flags() | Flags::TRACED);
                p.cold_mut().trace = first_trace.wrapping_add(k as u32);
            }
        }
        self.note(Flags::TRACED);
    }

    /// Returns the packet at `i`; `None` if the frame has fewer packets.
    #[inline(always)]
    pub fn get(&mut self, i: usize) -> Option<Packet<'_>> {
        let base = arena::base();
        self.records_mut().get_mut(i).map(|r| Packet::new(r, base))
    }

    /// All packets in order.
    #[inline(always)]
    pub fn packets(&mut self) -> impl ExactSizeIterator<Item = Packet<'_>> {
        let base = arena::base();
        self.records_mut().iter_mut().map(move |r| Packet::new(r, base))
    }

    /// All packets in order, like [`packets`](Frame::packets). With each packet, the first bytes of a later packet are prefetched. This is
    /// for the first node that reads the headers.
    #[inline(always)]
    pub fn packets_ahead(&mut self) -> impl Iterator<Item = Packet<'_>> {
        let base = arena::base();
        let mut rest = self.records_mut().iter_mut();
        std::iter::from_fn(move || {
            let record = rest.next()?;
            if let Some(later) = rest.as_slice().get(AHEAD - 1) {
                // SAFETY: a record has the index of a buffer of the arena.
                let start = unsafe { arena::at(base, later.buf) };
                prefetch::read(start.as_ptr().wrapping_add(later.off as usize));
            }
            Some(Packet::new(record, base))
        })
    }

    /// Returns a copy of the metadata of the packet at `i`, without borrowing the packet. `None` if the frame has fewer packets.
    pub fn snapshot(&self, i: usize) -> Option<Snapshot> {
        self.records().get(i).map(Record::snapshot)
    }

    /// Records a flag that a node set on one of the packets.
    ///
    /// [`Packet::set_flags`] cannot access the frame. So call this after setting a flag that nodes check once per frame (`TRACED`,
    /// `CHAINED`, `GSO`, `CSUM_PARTIAL`).
    #[inline(always)]
    pub fn note(&mut self, flags: Flags) {
        self.facts.any |= flags;
    }

    /// Appends up to `n` new, empty packets: fewer if the frame has too little room, or not enough buffers are free. Returns the
    /// number appended.
    pub fn alloc(&mut self, cache: &mut Cache, n: usize) -> usize {
        let n = cache.prepare(n.min(self.room()));
        for _ in 0..n {
            match cache.take() {
                Some(record) => self.push_record(record),
                None => break,
            }
        }
        self.forget_uniform_rx();
        n
    }

    /// Appends a new packet of `len` bytes, at most a buffer's room. The caller owns the buffer, and has
    /// checked that the frame has room.
    #[inline]
    pub(crate) fn push_new(&mut self, buffer: u32, len: usize) {
        self.push_record(Record { len: len.min(DATA_ROOM) as u16, ..pool::fresh(buffer) });
        self.forget_uniform_rx();
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// Returns the packet if the frame is full.
    #[inline]
    pub fn push(&mut self, held: Held) -> Result<(), Held> {
        if self.room() == 0 {
            return Err(held);
        }
        let record = held.into_record();
        self.merge_facts(Facts { any: record.flags, rx_if: record.rx_if });
        self.push_record(record);
        Ok(())
    }

    #[inline(always)]
    fn push_record(&mut self, record: Record) {
        self.records[self.n as usize & (FRAME_SIZE - 1)].write(record);
        self.n += 1;
    }

    /// Removes and returns the last packet; `None` if the frame is empty.
    pub fn pop(&mut self) -> Option<Held> {
        let last = self.len().checked_sub(1)?;
        self.set_len(last);
        // SAFETY: the last record was valid, and is not part of the frame any more.
        Some(Held::new(unsafe { self.records[last].assume_init_read() }))
    }

    /// Removes and returns the first packet; the others move to the front. `None` if the frame is empty.
    pub fn take_front(&mut self) -> Option<Held> {
        let left = self.len().checked_sub(1)?;
        // SAFETY: the first record is valid and is read once: the records after it move to the front, and the frame becomes shorter by one.
        // So no record is in the frame twice.
        let first = unsafe {
            let p = self.records.as_mut_ptr();
            let first = p.read().assume_init();
            std::ptr::copy(p.add(1), p, left);
            first
        };
        self.set_len(left);
        Some(Held::new(first))
    }

    /// Removes every packet, in order.
    pub fn drain(&mut self, each: impl FnMut(Held)) {
        self.drain_front(self.len(), each);
    }

    /// Removes the first `n` packets, in order; the others move to the front.
    pub fn drain_front(&mut self, n: usize, mut each: impl FnMut(Held)) {
        self.give_front(n, |record| {
            // SAFETY: the record is valid and is read once: `give_front` removes it from the frame.
            each(Held::new(unsafe { std::ptr::read(record) }));
            true
        });
    }

    /// Removes packets from the front, at most `n`, up to the first that `take` refuses; the others move to the front. When `take` returns
    /// true for a record, the caller owns its buffer. Returns the number of packets removed.
    #[inline(always)]
    pub(crate) fn give_front(&mut self, n: usize, mut take: impl FnMut(&Record) -> bool) -> usize {
        let (n, len, facts) = (n.min(self.len()), self.len(), self.facts);
        // If `take` panics, the remaining packets are leaked rather than owned twice.
        self.set_len(0);
        // SAFETY: the first n records were valid, and there is no writer meanwhile.
        let records = unsafe { std::slice::from_raw_parts(self.records.as_ptr().cast::<Record>(), n) };
        let given = records.iter().take_while(|record| take(record)).count();
        if given < len {
            // SAFETY: the given..len records are valid and still belong to the frame; they move to the front,
            // which holds no valid records any more.
            unsafe {
                let p = self.records.as_mut_ptr();
                std::ptr::copy(p.add(given), p, len - given);
            }
            (self.facts, self.n) = (facts, (len - given) as u32);
        }
        given
    }

    /// Moves packets from the front of `other` to the end of this frame, as many as fit.
    pub fn append(&mut self, other: &mut Frame) {
        let n = other.len().min(self.room());
        self.merge_facts(other.facts);
        let (at, left) = (self.len(), other.len() - n);
        // SAFETY: the first n records of `other` are valid, there is room for them after `at`, and after the
        // move they do not count in `other` any more; the rest is moved to its front.
        unsafe {
            let from = other.records.as_mut_ptr();
            std::ptr::copy_nonoverlapping(from, self.records.as_mut_ptr().add(at), n);
            std::ptr::copy(from.add(n), from, left);
        }
        self.n += n as u32;
        other.set_len(left);
    }

    #[inline(always)]
    fn merge_facts(&mut self, other: Facts) {
        if self.n == 0 {
            self.facts.rx_if = other.rx_if;
        } else if self.facts.rx_if != other.rx_if {
            self.facts.rx_if = NO_INTERFACE;
        }
        self.facts.any |= other.any;
    }

    /// Frees every packet.
    pub fn free(&mut self, cache: &mut Cache) {
        self.free_front(self.len(), cache);
    }

    /// Frees the first `n` packets; the others move to the front.
    pub fn free_front(&mut self, n: usize, cache: &mut Cache) {
        let n = n.min(self.len());
        if self.any().any(Flags::CHAINED) {
            for r in &self.records()[..n] {
                if r.flags.any(Flags::CHAINED) {
                    cache.free_tail(r.buf);
                }
            }
        }
        // SAFETY: the first n records are valid, and are forgotten by the lines below.
        unsafe { cache.free_plain(self.records.as_ptr().cast(), n) };
        let left = self.len() - n;
        if left > 0 {
            // SAFETY: the n..n+left records are valid; they move to the front, which holds no valid records
            // any more.
            unsafe {
                let p = self.records.as_mut_ptr();
                std::ptr::copy(p.add(n), p, left);
            }
        }
        self.set_len(left);
    }

    /// Frees the last packets so that `n` are left.
    pub fn truncate(&mut self, n: usize, cache: &mut Cache) {
        while self.len() > n {
            if let Some(held) = self.pop() {
                held.free(cache);
            }
        }
    }

    #[inline(always)]
    fn set_len(&mut self, n: usize) {
        self.n = n as u32;
        if n == 0 {
            self.facts = Facts::NONE;
        }
    }

    #[inline(always)]
    pub(crate) fn records(&self) -> &[Record] {
        // SAFETY: the first `len` records are initialized: only `push_record`, `append` and `raw` increase
        // `n`.
        unsafe { std::slice::from_raw_parts(self.records.as_ptr().cast(), self.len()) }
    }

    #[inline(always)]
    pub(crate) fn records_mut(&mut self) -> &mut [Record] {
        // SAFETY: as in `records`; the borrow of the frame is unique.
        unsafe { std::slice::from_raw_parts_mut(self.records.as_mut_ptr().cast(), self.len()) }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        for record in self.records() {
            pool::free_far(record, true);
        }
    }
}

// A record is plain integers, and every thread can access its buffer's memory.
const _: () = {
    const fn send<T: Send>() {}
    send::<Frame>();
};

/// Raw access to frames, for the routines of the `kernels` crate that move records between them.
pub mod raw {
    pub use super::Facts;
    use super::{Frame, Record};

    /// Bytes of a record.
    pub const RECORD: usize = size_of::<Record>();

    /// Returns the address of a frame's records: [`FRAME_SIZE`](super::FRAME_SIZE) times [`RECORD`] bytes,
    /// the first `len` records valid.
    #[inline(always)]
    pub fn records(frame: &mut Frame) -> *mut [u8; RECORD] {
        frame.records.as_mut_ptr().cast()
    }

    /// Empties a frame whose records are about to be moved, and returns its facts. The records stay in place
    /// until the frame is filled again. Emptying it first ensures that no record ever has two owners, even if
    /// the caller panics midway.
    #[inline(always)]
    pub fn take(frame: &mut Frame) -> Facts {
        let facts = frame.facts;
        frame.set_len(0);
        facts
    }

    /// Sets the number of valid records of `to` to `n`, and adds `facts` to the facts of `to`.
    ///
    /// # Safety
    /// The first `n` ≤ 256 records of `to` are valid. Records that were added to `to` were moved there from frames emptied by [`take`], and
    /// are not used in those frames again. `facts` is what [`take`] returned.
    #[inline(always)]
    pub unsafe fn moved(to: &mut Frame, n: usize, facts: Facts) {
        to.merge_facts(facts);
        to.n = n as u32;
    }
}
