//! Frames: up to 256 packets that a node is given at once.

use std::mem::MaybeUninit;
use std::ops::Range;

use crate::arena;
use crate::layout::DATA_ROOM;
use crate::packet::Packet;
use crate::pool::{self, BATCH, Cache};
use crate::record::{Flags, NO_INTERFACE, Record, Snapshot};

/// Packets that a frame holds at most.
pub const FRAME_SIZE: usize = 256;

const _: () = assert!(FRAME_SIZE <= BATCH);

/// Up to 256 packets, with what is known of all of them.
///
/// The facts are gathered on the way: [`any`](Frame::any) may name a flag that no packet has any more, but does not
/// miss one that others look for by frame; [`uniform_rx`](Frame::uniform_rx) may be `None` for packets that do share
/// an interface. A node that changes a single [`Packet`] so that they become wrong says so by [`note`](Frame::note)
/// or [`forget_uniform_rx`](Frame::forget_uniform_rx); debug builds check that it did.
#[repr(C, align(64))]
pub struct Frame {
    n: u32,
    facts: Facts,
    records: [MaybeUninit<Record>; FRAME_SIZE],
}

/// What is known of all packets of a frame.
#[derive(Clone, Copy)]
pub struct Facts {
    any: Flags,
    /// The interface that all packets came in by, or `NO_INTERFACE`.
    rx_if: u32,
}

impl Facts {
    const NONE: Facts = Facts { any: Flags::NONE, rx_if: NO_INTERFACE };
    /// The flags that others look for by frame.
    const LOOKED_FOR: Flags = Flags::CHAINED.or(Flags::TRACED).or(Flags::GSO).or(Flags::CSUM_PARTIAL);
}

impl Default for Frame {
    fn default() -> Self {
        Self::new()
    }
}

impl Frame {
    /// A frame without packets.
    pub fn new() -> Frame {
        Frame { n: 0, facts: Facts::NONE, records: [const { MaybeUninit::uninit() }; FRAME_SIZE] }
    }

    /// Number of packets, at most [`FRAME_SIZE`].
    #[inline(always)]
    pub fn len(&self) -> usize {
        // The minimum tells the compiler what the setters already keep, and costs one instruction a frame.
        (self.n as usize).min(FRAME_SIZE)
    }

    /// Whether there is no packet.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// How many more packets fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        FRAME_SIZE - self.len()
    }

    /// Which of `CHAINED`, `TRACED`, `GSO` and `CSUM_PARTIAL` some packet of the frame may have; of the other flags,
    /// those that packets had when they came into the frame.
    #[inline(always)]
    pub fn any(&self) -> Flags {
        debug_assert!(
            self.records().iter().all(|r| (r.flags & Facts::LOOKED_FOR & !self.facts.any).is_empty()),
            "a packet was given a flag that was not noted in its frame (Frame::note)"
        );
        self.facts.any
    }

    /// The interface that all packets came in by, where that is known.
    #[inline(always)]
    pub fn uniform_rx(&self) -> Option<u32> {
        let rx_if = self.facts.rx_if;
        debug_assert!(
            rx_if == NO_INTERFACE || self.records().iter().all(|r| r.rx_if == rx_if),
            "a packet was given another receive interface without Frame::forget_uniform_rx"
        );
        (rx_if != NO_INTERFACE).then_some(rx_if)
    }

    /// The interface that all packets go out by, if it is one; `None` for a frame without packets. Looked up, not
    /// remembered: some packets change it at nearly every node.
    #[inline(always)]
    pub fn uniform_tx(&self) -> Option<u32> {
        let first = self.records().first()?.tx_if;
        // Without a branch a packet; those that differ, differ in the first few.
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

    /// Says that every packet of this frame came in by `interface`, and writes it into the records.
    pub fn set_rx(&mut self, interface: u32) {
        self.facts.rx_if = interface;
        self.records_mut().iter_mut().for_each(|r| r.rx_if = interface);
    }

    /// Says that the packets may have come in by different interfaces: a node gave some of them to a sub-interface or a
    /// tunnel ([`Packet::set_rx_if`] cannot reach the frame).
    #[inline(always)]
    pub fn forget_uniform_rx(&mut self) {
        self.facts.rx_if = NO_INTERFACE;
    }

    /// Marks the packets of `range` as traced.
    pub fn set_traced(&mut self, range: Range<usize>, first_trace: u32) {
        for (k, i) in range.enumerate() {
            if let Some(mut p) = self.get(i) {
                p.set_flags(p.flags() | Flags::TRACED);
                p.cold_mut().trace = first_trace.wrapping_add(k as u32);
            }
        }
        self.note(Flags::TRACED);
    }

    /// The packet at `i`.
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

    /// What is known of the packet at `i`, without borrowing it.
    pub fn snapshot(&self, i: usize) -> Option<Snapshot> {
        self.records().get(i).map(Record::snapshot)
    }

    /// Notes a flag that a node gave to one of the packets.
    ///
    /// [`Packet::set_flags`] cannot reach the frame, so whoever sets a flag that others look for by frame
    /// (`TRACED`, `CHAINED`, `GSO`, `CSUM_PARTIAL`) notes it here.
    #[inline(always)]
    pub fn note(&mut self, flags: Flags) {
        self.facts.any |= flags;
    }

    /// Appends up to `n` new, empty packets; returns how many there were buffers and room for.
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

    /// Appends a new packet of `len` bytes, or of what a buffer has room for. The caller owns the buffer, and has seen that there
    /// is room.
    #[inline]
    pub(crate) fn push_new(&mut self, buffer: u32, len: usize) {
        self.push_record(Record { len: len.min(DATA_ROOM) as u16, ..pool::fresh(buffer) });
        self.forget_uniform_rx();
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// Gives the packet back when the frame is full.
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

    /// Takes the last packet out.
    pub fn pop(&mut self) -> Option<Held> {
        let last = self.len().checked_sub(1)?;
        self.set_len(last);
        // SAFETY: the last record was one of the valid ones, and is none any more.
        Some(Held::new(unsafe { self.records[last].assume_init_read() }))
    }

    /// Takes the first packet out; the others move to the front.
    pub fn take_front(&mut self) -> Option<Held> {
        let left = self.len().checked_sub(1)?;
        // SAFETY: the first record is valid and read once: the valid ones behind it move over it, and none of them is
        // left at the end, where the frame counts one less.
        let first = unsafe {
            let p = self.records.as_mut_ptr();
            let first = p.read().assume_init();
            std::ptr::copy(p.add(1), p, left);
            first
        };
        self.set_len(left);
        Some(Held::new(first))
    }

    /// Takes every packet out, in order.
    pub fn drain(&mut self, each: impl FnMut(Held)) {
        self.drain_front(self.len(), each);
    }

    /// Takes the first `n` packets out, in order; the others move to the front.
    pub fn drain_front(&mut self, n: usize, mut each: impl FnMut(Held)) {
        self.give_front(n, |record| {
            // SAFETY: the record is valid, and read once: the frame counts it no more when this one is taken.
            each(Held::new(unsafe { std::ptr::read(record) }));
            true
        });
    }

    /// Gives packets away from the front, `n` at most, up to the first that is not taken; the others move to the front. Whoever
    /// says that it takes a record owns the buffer then. Gives how many went.
    #[inline(always)]
    pub(crate) fn give_front(&mut self, n: usize, mut take: impl FnMut(&Record) -> bool) -> usize {
        let (n, len, facts) = (n.min(self.len()), self.len(), self.facts);
        // Should `take` panic, those that are left are forgotten rather than owned twice.
        self.set_len(0);
        // SAFETY: the first n records were valid, and nobody writes to them meanwhile.
        let records = unsafe { std::slice::from_raw_parts(self.records.as_ptr().cast::<Record>(), n) };
        let given = records.iter().take_while(|record| take(record)).count();
        if given < len {
            // SAFETY: the given..len records are valid, and still the frame's; they move to the front, where nothing valid is
            // any more.
            unsafe {
                let p = self.records.as_mut_ptr();
                std::ptr::copy(p.add(given), p, len - given);
            }
            (self.facts, self.n) = (facts, (len - given) as u32);
        }
        given
    }

    /// Moves all packets that fit from `other` to the end of this frame.
    pub fn append(&mut self, other: &mut Frame) {
        let n = other.len().min(self.room());
        self.merge_facts(other.facts);
        let (at, left) = (self.len(), other.len() - n);
        // SAFETY: the first n records of `other` are valid, there is room for them behind `at`, and after the move
        // they no longer count in `other`; the rest is moved to its front.
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
        // SAFETY: the first n records are valid, and forgotten by the lines below.
        unsafe { cache.free_plain(self.records.as_ptr().cast(), n) };
        let left = self.len() - n;
        if left > 0 {
            // SAFETY: the n..n+left records are valid; they move to the front, where nothing valid is any more.
            unsafe {
                let p = self.records.as_mut_ptr();
                std::ptr::copy(p.add(n), p, left);
            }
        }
        self.set_len(left);
    }

    /// Frees the last packets so that `n` remain.
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
        // SAFETY: the first `len` records are initialised: only `push_record`, `append` and
        // `raw` raise `n`.
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

/// One packet out of a frame: waiting in a queue, on its way between threads, or just made.
///
/// It goes back into a frame ([`Frame::push`]) or is freed ([`Held::free`]). One that goes out of scope instead is
/// freed all the same, but counted as lost: packets leave by a reason.
pub struct Held(MaybeUninit<Record>);

// A record is plain integers, and its buffer's memory can be reached by every thread.
const _: () = {
    const fn send<T: Send>() {}
    send::<Held>();
    send::<Frame>();
};

impl Held {
    #[inline(always)]
    pub(crate) fn new(record: Record) -> Held {
        Held(MaybeUninit::new(record))
    }

    #[inline(always)]
    pub(crate) fn into_record(self) -> Record {
        // SAFETY: a Held always has its record; `forget` keeps it from being freed by the drop.
        let record = unsafe { self.0.assume_init_read() };
        std::mem::forget(self);
        record
    }

    /// A new, empty packet, `None` when no buffer is free.
    #[inline]
    pub fn alloc(cache: &mut Cache) -> Option<Held> {
        cache.take().map(Held::new)
    }

    /// The packet.
    #[inline]
    pub fn packet(&mut self) -> Packet<'_> {
        // SAFETY: a Held always has its record, and the borrow is unique.
        Packet::new(unsafe { self.0.assume_init_mut() }, arena::base())
    }

    /// What is known of the packet.
    #[inline(always)]
    pub fn snapshot(&self) -> Snapshot {
        // SAFETY: a Held always has its record.
        unsafe { self.0.assume_init_ref() }.snapshot()
    }

    /// Gives the buffers back.
    #[inline]
    pub fn free(self, cache: &mut Cache) {
        cache.free(self.into_record());
    }

    /// Gives the buffers back from a thread without a cache.
    pub fn discard(self) {
        pool::free_far(&self.into_record(), false);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: a Held always has its record.
        pool::free_far(unsafe { self.0.assume_init_ref() }, true);
    }
}

/// Raw access to frames, for the routines of the `kernels` crate that move records between them.
pub mod raw {
    pub use super::Facts;
    use super::{Frame, Record};

    /// Bytes of a record.
    pub const RECORD: usize = size_of::<Record>();

    /// Where the records of a frame lie: [`FRAME_SIZE`](super::FRAME_SIZE) times [`RECORD`] bytes, the first
    /// `len` of them valid.
    #[inline(always)]
    pub fn records(frame: &mut Frame) -> *mut [u8; RECORD] {
        frame.records.as_mut_ptr().cast()
    }

    /// Empties a frame whose records are about to be moved elsewhere, and returns what was known of them. The records
    /// stay where they are until something is put into the frame. It is emptied first, so that none of them has two
    /// owners at any moment, not even when the caller panics half way.
    #[inline(always)]
    pub fn take(frame: &mut Frame) -> Facts {
        let facts = frame.facts;
        frame.set_len(0);
        facts
    }

    /// Says that the first `n` records of a frame are valid.
    ///
    /// # Safety
    /// The first `n` ≤ 256 records of `to` are valid; those beyond its old length were moved there from frames that
    /// were emptied by [`take`], which gave `facts`, and are read from there only once.
    #[inline(always)]
    pub unsafe fn moved(to: &mut Frame, n: usize, facts: Facts) {
        to.merge_facts(facts);
        to.n = n as u32;
    }
}
