//! One packet: [`Packet`] is the cursor over its record and the bytes of its buffers, [`Held`] is its owner outside of a frame.

mod duplicate;
mod held;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::arena;
use crate::bpf::Program;
use crate::feature::{FeatureField, Field};
use crate::layout::{COLD, Cold, FEATURE, FEATURE_LEN, HEADROOM, Link, MAX_OFFSET, PEEK, STRIDE};
use crate::link::LinkHeader;
use crate::pool::Cache;
use crate::record::{Flags, Record, Snapshot};

pub use held::Held;

/// One packet. It borrows its record, and owns the packet's head buffer for that time.
///
/// Lengths: [`len`](Packet::len) counts the bytes in the first buffer, from the current offset; [`total_len`](Packet::total_len) counts
/// the bytes in all buffers. Headers are always whole in the first buffer: the first 128 bytes of a new packet are contiguous.
pub struct Packet<'a> {
    record: &'a mut Record,
    base: *mut u8,
    buffer: PhantomData<&'a mut [u8]>,
}

macro_rules! field {
    ($(#[$doc:meta])* $get:ident, $set:ident, $field:ident, $t:ty) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $get(&self) -> $t {
            self.record.$field
        }
        #[doc = concat!("Sets [`", stringify!($get), "`](Packet::", stringify!($get), ").")]
        #[inline(always)]
        pub fn $set(&mut self, value: $t) {
            self.record.$field = value;
        }
    };
}

impl<'a> Packet<'a> {
    #[inline(always)]
    pub(crate) fn new(record: &'a mut Record, base: *mut u8) -> Packet<'a> {
        Packet { record, base, buffer: PhantomData }
    }

    field!(/// The forwarding table (VRF) to look up in.
        fib, set_fib, fib, u16);
    field!(/// Index of the receive interface.
        rx_if, set_rx_if, rx_if, u32);
    field!(/// Index of the transmit interface.
        tx_if, set_tx_if, tx_if, u32);
    field!(/// Forwarding index: the lookup's result, then the adjacency; the reason once dropped or punted.
        fwd, set_fwd, fwd, u32);
    field!(/// Flow hash; 0 until it is computed.
        hash, set_hash, hash, u32);
    field!(/// Bytes from the network header to the transport header; 0 while unknown.
        l4_offset, set_l4_offset, l4, u8);

    /// Returns another cursor over the same packet, which a loop passes to the routine for exceptional packets. The compiler can then keep
    /// the loop's own cursor in registers.
    #[inline(always)]
    pub fn again(&mut self) -> Packet<'_> {
        Packet { record: self.record, base: self.base, buffer: PhantomData }
    }

    /// The packet's flags.
    #[inline(always)]
    pub fn flags(&self) -> Flags {
        self.record.flags
    }

    /// Sets [`flags`](Packet::flags), except `CHAINED` and `FEATURES`, which keep their values. `CHAINED` decides which
    /// buffers are freed. `FEATURES` decides whether the feature bytes belong to this packet.
    #[inline(always)]
    pub fn set_flags(&mut self, value: Flags) {
        self.record.flags = (value & !Flags::OWN) | (self.record.flags & Flags::OWN);
    }

    /// Returns the address of the byte at `off` from the start of the head buffer.
    #[inline(always)]
    fn ptr(&self, off: usize) -> *mut u8 {
        // SAFETY: the record came from a pool; every caller passes an offset within the buffer, so the
        // address does not wrap. Declaring it non-null avoids tests wherever a reference becomes an option.
        unsafe {
            let p = arena::at(self.base, self.record.buf).as_ptr().add(off);
            std::hint::assert_unchecked(!p.is_null());
            p
        }
    }

    /// Number of bytes in the first buffer, from the current offset.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.record.len as usize
    }

    /// Number of bytes in all buffers, from the current offset.
    #[inline(always)]
    pub fn total_len(&self) -> usize {
        if self.record.flags.any(Flags::CHAINED) {
            self.len() + self.link().tail_len as usize
        } else {
            self.len()
        }
    }

    /// Returns a header at the current offset; `None` if the first buffer has too few bytes of the packet.
    #[inline(always)]
    pub fn head<T: Header>(&mut self) -> Option<&mut T> {
        if size_of::<T>() <= self.len() { Some(self.peek()) } else { None }
    }

    /// Returns a header at the current offset without a length check, for nodes that have checked the length.
    /// If the packet is too short, the rest of the header is old data in the packet's own buffer, never data of another buffer.
    #[inline(always)]
    pub fn peek<T: Header>(&mut self) -> &mut T {
        self.peek_at(0)
    }

    /// Returns a header at `at` bytes after the current offset, without a length check. `at` is limited to 64.
    #[inline(always)]
    pub fn peek_at<T: Header>(&mut self, at: usize) -> &mut T {
        const { assert!(size_of::<T>() <= PEEK / 2, "headers are at most 64 bytes") };
        let at = at.min(PEEK / 2);
        // SAFETY: offset ≤ MAX_OFFSET = STRIDE - PEEK and at + size ≤ PEEK, so T is within the buffer; its
        // bytes are initialized (the pool's memory is mapped zeroed); T accepts any bytes and has no
        // alignment; the record is borrowed uniquely through self.
        unsafe { &mut *self.ptr(self.record.off as usize + at).cast::<T>() }
    }

    /// The bytes in the first buffer.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the setters keep `off + len <= STRIDE`; the bytes are initialized, and ours.
        unsafe { std::slice::from_raw_parts(self.ptr(self.record.off as usize), self.len()) }
    }

    /// The bytes in the first buffer, mutable.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and self is borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.ptr(self.record.off as usize), self.len()) }
    }

    /// The bytes from the current offset to the end of the buffer, whatever the packet's length. Drivers write received packets there.
    #[inline(always)]
    pub fn room_mut(&mut self) -> &mut [u8] {
        let off = self.record.off as usize;
        // SAFETY: off ≤ MAX_OFFSET < STRIDE; otherwise as in `bytes_mut`.
        unsafe { std::slice::from_raw_parts_mut(self.ptr(off), STRIDE - off) }
    }

    /// Sets the number of bytes in the first buffer, limited to the room from the current offset to the end of the buffer.
    #[inline(always)]
    pub fn set_len(&mut self, len: usize) {
        self.record.len = len.min(STRIDE - self.record.off as usize) as u16;
    }

    /// Replaces the bytes in the first buffer by these. Returns false, without a change, if they do not fit.
    pub fn fill(&mut self, bytes: &[u8]) -> bool {
        let Some(room) = self.room_mut().get_mut(..bytes.len()) else { return false };
        room.copy_from_slice(bytes);
        self.set_len(bytes.len());
        true
    }

    /// Moves the start forward by `n` bytes. Returns false, without a change, if the first buffer has fewer bytes, or the start would
    /// exceed [`MAX_OFFSET`].
    #[inline(always)]
    #[must_use]
    pub fn advance(&mut self, n: usize) -> bool {
        if n > self.len() || self.record.off as usize + n > MAX_OFFSET {
            return false;
        }
        self.record.off += n as u16;
        self.record.len -= n as u16;
        true
    }

    /// Moves the start back by `n` bytes, so that a header can be written there. Returns false, without a
    /// change, if the headroom is too small.
    #[inline(always)]
    #[must_use]
    pub fn push(&mut self, n: usize) -> bool {
        if n > self.record.off as usize - HEADROOM {
            return false;
        }
        self.record.off -= n as u16;
        self.record.len += n as u16;
        true
    }

    /// True if `n` bytes fit in front of the packet: [`push`](Self::push) and [`prepend`](Self::prepend) then succeed.
    #[inline(always)]
    pub fn has_headroom(&self, n: usize) -> bool {
        self.record.off as usize >= HEADROOM + n
    }

    /// Writes a link header in front of the network header, which begins at the current offset. Returns
    /// false, without a change, if the headroom is too small.
    #[inline(always)]
    #[must_use]
    pub fn prepend(&mut self, header: &LinkHeader) -> bool {
        let (off, len) = (self.record.off as usize, header.len());
        if off < HEADROOM + len {
            return false;
        }
        // SAFETY: HEADROOM ≤ off - len keeps the `len` bytes before the packet in the buffer; they are ours.
        // (The end of the packet does not move, so off + len ≤ STRIDE stays true.)
        unsafe { header.write(self.ptr(off - len)) };
        self.record.off = (off - len) as u16;
        self.record.len += len as u16;
        (self.record.l3, self.record.l2_len) = (off as u16, len as u8);
        true
    }

    /// Writes bytes in front of the packet, for example a tunnel's headers. Returns false, without a change,
    /// if the headroom is too small. [`prepend`](Self::prepend) is faster for a link header, and records the start of the network header.
    #[inline(always)]
    #[must_use]
    pub fn push_bytes(&mut self, header: &[u8]) -> bool {
        let (off, len) = (self.record.off as usize, header.len());
        if off < HEADROOM + len {
            return false;
        }
        // SAFETY: HEADROOM ≤ off - len keeps the `len` bytes before the packet in the buffer; they are ours,
        // and `header` cannot overlap them, since a borrow of the buffer's bytes borrows `self`.
        unsafe { std::ptr::copy_nonoverlapping(header.as_ptr(), self.ptr(off - len), len) };
        self.record.off = (off - len) as u16;
        self.record.len += len as u16;
        true
    }

    /// Records that the network header begins at the current offset, with `l2_len` bytes of link header
    /// before it.
    #[inline(always)]
    pub fn mark_l3(&mut self, l2_len: u8) {
        self.record.l3 = self.record.off;
        self.record.l2_len = l2_len;
    }

    /// Bytes of the link header before the network header.
    #[inline(always)]
    pub fn l2_len(&self) -> u8 {
        self.record.l2_len
    }

    /// Moves the start to the link header. A packet without a marked network header is unchanged.
    pub fn rewind_to_l2(&mut self) {
        self.move_to(self.record.l3.saturating_sub(u16::from(self.record.l2_len)));
    }

    /// Moves the start to the network header. A packet without a marked network header is unchanged.
    pub fn rewind_to_l3(&mut self) {
        self.move_to(self.record.l3);
    }

    fn move_to(&mut self, off: u16) {
        if self.record.l3 == 0 {
            return;
        }
        let end = self.record.off + self.record.len;
        // Keeps the start between the headroom and the packet's end. The marks were within these limits when
        // they were made.
        self.record.off = off.max(HEADROOM as u16).min(end).min(MAX_OFFSET as u16);
        self.record.len = end - self.record.off;
    }

    /// The cold header.
    #[inline(always)]
    pub fn cold(&self) -> &Cold {
        // SAFETY: every buffer has its cold header at COLD; any bits are a valid `Cold` (plain integers). The
        // packet owns its head buffer while it borrows the record.
        unsafe { &*self.ptr(COLD).cast() }
    }

    /// The cold header, mutable.
    #[inline(always)]
    pub fn cold_mut(&mut self) -> &mut Cold {
        // SAFETY: as in `cold`, and self is borrowed uniquely.
        unsafe { &mut *self.ptr(COLD).cast() }
    }

    #[inline(always)]
    fn link(&self) -> &Link {
        // SAFETY: as in `cold`, for the link at LINK.
        unsafe { &*arena::link_ptr(self.record.buf) }
    }

    #[inline(always)]
    fn link_mut(&mut self) -> &mut Link {
        // SAFETY: as in `link`, and self is borrowed uniquely.
        unsafe { arena::link(self.record.buf) }
    }

    /// Returns a feature's field of this packet; zeros until it is written.
    #[inline(always)]
    pub fn feature<T: Field>(&self, field: FeatureField<T>) -> T {
        if !self.record.flags.any(Flags::FEATURES) {
            return T::new_zeroed();
        }
        // SAFETY: every buffer has its 64 feature bytes at FEATURE, aligned to 64; the handle's place is
        // within them and aligned for T, which accepts any bytes. They are ours with the head buffer.
        unsafe { self.ptr(field.offset()).cast::<T>().read() }
    }

    /// Returns a feature's field of this packet, mutable. The first call for a packet clears the fields of all features.
    #[inline(always)]
    pub fn feature_mut<T: Field>(&mut self, field: FeatureField<T>) -> &mut T {
        if !self.record.flags.any(Flags::FEATURES) {
            self.record.flags |= Flags::FEATURES;
            *self.feature_bytes_mut() = [0; FEATURE_LEN];
        }
        // SAFETY: as in `feature`, and self is borrowed uniquely.
        unsafe { &mut *self.ptr(field.offset()).cast::<T>() }
    }

    /// Returns the bytes of all fields; `None` if no feature has written any.
    pub fn feature_bytes(&self) -> Option<[u8; FEATURE_LEN]> {
        // SAFETY: as in `feature_bytes_mut`; only read here.
        self.record.flags.any(Flags::FEATURES).then(|| unsafe { *self.ptr(FEATURE).cast() })
    }

    /// Copies the feature fields of `from` to this packet: for example, when this packet is made from a part of `from`.
    pub fn copy_features(&mut self, from: &Packet<'_>) {
        self.record.flags = (self.record.flags & !Flags::FEATURES) | (from.record.flags & Flags::FEATURES);
        if self.record.flags.any(Flags::FEATURES) {
            // SAFETY: as in `feature_bytes_mut`; only read here.
            *self.feature_bytes_mut() = unsafe { *from.ptr(FEATURE).cast() };
        }
    }

    /// Marks this as a new packet without feature fields: for example, a reply in the buffer of its request.
    pub fn forget_features(&mut self) {
        self.record.flags = self.record.flags & !Flags::FEATURES;
    }

    #[inline(always)]
    fn feature_bytes_mut(&mut self) -> &mut [u8; FEATURE_LEN] {
        // SAFETY: every buffer has its feature bytes at FEATURE; they are ours with the head buffer, and any
        // bytes are valid.
        unsafe { &mut *self.ptr(FEATURE).cast() }
    }

    /// Returns a copy of the packet's metadata, without ownership.
    pub fn snapshot(&self) -> Snapshot {
        self.record.snapshot()
    }

    /// The packet's bytes, one slice for each buffer of its chain.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let (mut next, mut left) = if self.record.flags.any(Flags::CHAINED) {
            (self.link().next, self.link().tail_len)
        } else {
            (0, 0)
        };
        let base = self.base;
        std::iter::once(self.bytes()).chain(std::iter::from_fn(move || {
            if next == 0 || left == 0 {
                return None;
            }
            // SAFETY: `next` was written by `fill_chained` with a buffer of the pool that this packet owns,
            // perhaps shared; a tail is never written once it is linked. seg_off + seg_len were taken from a
            // record, so they are within the buffer.
            unsafe {
                let link = arena::link_ptr(next);
                let len = u32::from((*link).seg_len).min(left);
                let first = arena::at(base, next).as_ptr().add((*link).seg_off as usize);
                next = (*link).next;
                left -= len;
                Some(std::slice::from_raw_parts(first, len as usize))
            }
        }))
    }

    /// True if the packet matches a filter. The filter's offset 0 is the packet's current offset.
    pub fn matches(&self, filter: &Program) -> bool {
        filter.matches(self.bytes(), self.total_len() as u32, |at| {
            let mut at = at;
            for segment in self.segments() {
                match segment.get(at) {
                    Some(byte) => return Some(*byte),
                    None => at -= segment.len(),
                }
            }
            None
        })
    }

    /// Number of the packet's buffers. Shared buffers count in full.
    pub fn buffers(&self) -> usize {
        let mut next = if self.record.flags.any(Flags::CHAINED) { self.link().next } else { 0 };
        let mut count = 1;
        while next != 0 {
            count += 1;
            // SAFETY: as in `segments`: the chain leads over buffers that this packet owns, perhaps shared.
            next = unsafe { (*arena::link_ptr(next)).next };
        }
        count
    }

    /// Replaces the packet's contents by these bytes, in as many buffers as necessary. Returns false if buffers run out; the packet is
    /// still consistent then, and must be freed.
    ///
    /// If the packet is in a frame, the caller [notes](crate::Frame::note) `CHAINED` there.
    pub fn fill_chained(&mut self, bytes: &[u8], cache: &mut Cache) -> bool {
        self.cut_tail(cache);
        let first = self.room_mut().len().min(bytes.len());
        let (head, mut rest) = bytes.split_at(first);
        if !self.fill(head) {
            return false;
        }
        if rest.is_empty() {
            return true;
        }
        let mut last = self.record.buf;
        while !rest.is_empty() {
            let Some(mut record) = cache.take_segment() else { return false };
            let mut segment = Packet::new(&mut record, self.base);
            let n = segment.room_mut().len().min(rest.len());
            let (now, after) = rest.split_at(n);
            segment.fill(now);
            rest = after;
            // SAFETY: `last` and the new buffer are both owned by this packet.
            let (before, new) = unsafe { (arena::link(last), arena::link(record.buf)) };
            new.next = 0;
            new.shares = 1;
            new.seg_off = record.off;
            new.seg_len = record.len;
            before.next = record.buf;
            last = record.buf;
            if !self.record.flags.any(Flags::CHAINED) {
                self.record.flags |= Flags::CHAINED;
                self.link_mut().tail_len = 0;
            }
            self.link_mut().tail_len += n as u32;
        }
        true
    }

    /// Appends the packet `other`: its buffers are chained, not copied. The first 128 bytes must be
    /// contiguous: if this packet's first buffer has fewer, the missing bytes are copied into it. The record
    /// of `other` is not used any more.
    ///
    /// This walks the buffers of this packet. So a caller that joins many pieces starts with the last two. If this packet is in a frame,
    /// the caller [notes](crate::Frame::note) `CHAINED` there.
    ///
    /// # Errors
    /// Returns `other`, without a change, if this packet or `other` shares buffers after its first one with another packet.
    pub fn append(&mut self, mut other: Held, cache: &mut Cache) -> Result<(), Held> {
        if !(self.owns_tail() && other.packet().owns_tail()) {
            return Err(other);
        }
        let last = self.trim_tail(cache);
        let record = other.into_record();
        cache.note_merged();
        // SAFETY: this packet is now the only owner of `last` and the other head, which are two buffers.
        let (before, new) = unsafe { (arena::link(last), arena::link(record.buf)) };
        before.next = record.buf;
        let mut added = u32::from(record.len);
        if record.flags.any(Flags::CHAINED) {
            added += new.tail_len;
        } else {
            new.next = 0;
        }
        (new.shares, new.seg_off, new.seg_len) = (1, record.off, record.len);
        let tail = if self.record.flags.any(Flags::CHAINED) { self.link().tail_len } else { 0 };
        self.link_mut().tail_len = tail.saturating_add(added);
        self.record.flags |= Flags::CHAINED;
        self.gather(cache);
        Ok(())
    }

    /// True if no other packet shares the buffers after the first.
    fn owns_tail(&self) -> bool {
        if !self.record.flags.any(Flags::CHAINED) {
            return true;
        }
        // SAFETY: a chained packet has a next buffer, and counts as one of its users. The count is atomic, see `duplicate`. No other thread
        // can become a user while this packet, the only user, is borrowed.
        let shares = unsafe { AtomicU32::from_ptr(&raw mut (*arena::link_ptr(self.link().next)).shares) };
        shares.load(Ordering::Acquire) == 1
    }

    /// Limits the buffers after the first to `tail_len` bytes in total, and frees the buffers beyond that. No other packet may share these
    /// buffers. Returns the last remaining buffer.
    fn trim_tail(&mut self, cache: &mut Cache) -> u32 {
        let mut last = self.record.buf;
        if !self.record.flags.any(Flags::CHAINED) {
            return last;
        }
        let mut left = self.link().tail_len;
        loop {
            // SAFETY: this packet owns all buffers of its chain, and shares none; one borrow at a time.
            let next = unsafe { arena::link(last) }.next;
            if next == 0 {
                return last;
            }
            if left == 0 {
                cache.free_tail(last);
                // SAFETY: as above.
                unsafe { arena::link(last) }.next = 0;
                return last;
            }
            // SAFETY: as above.
            let segment = unsafe { arena::link(next) };
            segment.seg_len = u32::from(segment.seg_len).min(left) as u16;
            left -= u32::from(segment.seg_len);
            last = next;
        }
    }

    /// Moves bytes from later buffers to the first until it has 128 bytes or no others are left, and frees buffers that become empty. No
    /// other packet may share the later buffers.
    fn gather(&mut self, cache: &mut Cache) {
        while self.len() < PEEK && self.record.flags.any(Flags::CHAINED) {
            let (next, left) = (self.link().next, self.link().tail_len);
            if next == 0 || left == 0 {
                return self.cut_tail(cache);
            }
            // SAFETY: this packet owns the next buffer, which is not the head.
            let segment = unsafe { arena::link(next) };
            let n = (PEEK - self.len()).min(segment.seg_len as usize).min(left as usize);
            let to = self.ptr(self.record.off as usize + self.len());
            // SAFETY: offset ≤ STRIDE - PEEK and len + n ≤ PEEK, so the target is within the head; seg_off + seg_len are within the next
            // buffer, and n ≤ seg_len; they are two different buffers.
            unsafe {
                let from = arena::at(self.base, next).as_ptr().add(segment.seg_off as usize);
                std::ptr::copy_nonoverlapping(from, to, n);
            }
            self.record.len += n as u16;
            segment.seg_off += n as u16;
            segment.seg_len -= n as u16;
            let (rest, after) = (segment.seg_len, segment.next);
            let head = self.link_mut();
            head.tail_len -= n as u32;
            if rest == 0 {
                head.next = after;
                cache.put(next);
                if after == 0 {
                    self.record.flags = self.record.flags & !Flags::CHAINED;
                }
            }
        }
    }

    /// Frees the buffers after the first.
    #[inline(always)]
    fn cut_tail(&mut self, cache: &mut Cache) {
        if self.record.flags.any(Flags::CHAINED) {
            cache.free_tail(self.record.buf);
            self.record.flags = self.record.flags & !Flags::CHAINED;
        }
    }

    /// Cuts the packet to at most `len` bytes in total. Frees the later buffers only if the first one has all remaining bytes.
    ///
    /// Used to remove the Ethernet padding after an IP packet, and to limit the quote in an ICMP error.
    pub fn truncate(&mut self, len: usize, cache: &mut Cache) {
        if len > self.len() {
            if self.record.flags.any(Flags::CHAINED) {
                // Other packets may share the later buffers, so these are not changed: the head's `tail_len` limits their valid length.
                let tail = len - self.len();
                let link = self.link_mut();
                link.tail_len = tail.min(link.tail_len as usize) as u32;
            }
            return;
        }
        self.cut_tail(cache);
        self.record.len = len as u16;
    }
}

/// A plain header for [`Packet::head`] and [`Packet::peek`]: any bytes are valid, and it needs no alignment.
pub trait Header: FromBytes + IntoBytes + KnownLayout + Unaligned + Immutable {}
impl<T: FromBytes + IntoBytes + KnownLayout + Unaligned + Immutable> Header for T {}
