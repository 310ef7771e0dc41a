//! The receive rings of packet sockets (`PACKET_RX_RING`), in both of the versions that are of use.
//!
//! * [`FrameRing`] (TPACKET_V2): frames of one size, each handed over alone; a lone packet is seen after some
//!   microseconds. Packets larger than a frame (segments that are still to be cut) come aside, see [`Place::Aside`].
//! * [`BlockRing`] (TPACKET_V3): packets of any size packed into blocks, handed over a block at a time or after a
//!   millisecond: fewer words to look at under load, but a lone packet waits.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use wire::VirtioNetHeader;

use crate::kernel::mapping::Mapping;
use crate::kernel::scratch::tag;
use crate::kernel::sys;

/// Multiple that blocks must have: the largest page there is on common machines.
const PAGE: usize = 65_536;
/// What the kernel puts in front of a packet in a frame, at most: its header, an address and the virtio header.
const FRAME_HEADERS: usize = 96;
/// Bytes of link headers in front of a network packet: Ethernet and two tags, of which the kernel takes out one.
const LINK_HEADERS: usize = 22;
/// A block of a [`BlockRing`]: holds a packet of 64 KiB and what the kernel puts in front.
const BLOCK: usize = 2 * PAGE;
/// Blocks of a ring, at least. The kernel closes a block after [`BLOCK_MS`] even if a single packet is in it, and drops what
/// comes when all are closed. So few packets fill a ring as well as many, and this is how many milliseconds a worker may be
/// away (not scheduled, say) before packets are lost that a ring of frames would have room for.
const LEAST_BLOCKS: usize = 32;
/// How long a block is kept open for more packets, in milliseconds: the least there is.
const BLOCK_MS: u32 = 1;

/// Where a received packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the ring.
    Here,
    /// It was too large for the ring: the next read from the socket gives it.
    Aside,
    /// Only its front came, or its place makes no sense.
    Cut,
}

/// A received packet.
pub(super) struct Slot<'a> {
    pub(super) place: Place,
    /// From the Ethernet header on.
    pub(super) bytes: &'a [u8],
    pub(super) header: VirtioNetHeader,
    pub(super) tag: Option<[u8; 4]>,
}

/// What both versions say of a packet.
struct Said {
    /// Where its header is in the ring, and where its part of the ring ends.
    at: usize,
    end: usize,
    mac: usize,
    captured: usize,
    len: usize,
    status: u32,
    tag: Option<[u8; 4]>,
}

/// The packet that the kernel says is at a place.
///
/// # Safety
/// The part of the ring up to `said.end` is ours while the slot lives.
unsafe fn slot(ring: &Mapping, said: Said) -> Slot<'_> {
    let first = said.at + said.mac;
    let inside = said.mac > VirtioNetHeader::LEN && first + said.captured <= said.end;
    // SAFETY: as the caller says.
    let bytes = if inside { unsafe { ring.bytes(first, said.captured) } } else { None };
    let header = if inside { ring.read(first - VirtioNetHeader::LEN) } else { None };
    let place = match (bytes, header) {
        _ if said.status & libc::TP_STATUS_COPY != 0 => Place::Aside,
        (Some(bytes), Some(_)) if bytes.len() == said.len => Place::Here,
        _ => Place::Cut,
    };
    Slot {
        place,
        bytes: bytes.unwrap_or_default(),
        header: header.unwrap_or(VirtioNetHeader::zeroed()),
        tag: said.tag,
    }
}

/// A ring of frames.
pub(super) struct FrameRing {
    memory: Mapping,
    /// Bytes of a frame and of a block.
    frame: usize,
    block_len: usize,
    frames_a_block: usize,
    blocks: usize,
    /// The next frame: its block, and its number there.
    block: usize,
    number: usize,
}

impl FrameRing {
    /// A ring of at least `packets` frames, each large enough for a network packet of `mtu` bytes.
    pub(super) fn new(socket: BorrowedFd<'_>, packets: usize, mtu: usize) -> io::Result<FrameRing> {
        // An odd number of cache lines, so that the headers do not share a few sets of the cache.
        let lines = (FRAME_HEADERS + LINK_HEADERS + mtu).div_ceil(64) | 1;
        let frame = lines * 64;
        let block_len = frame.next_multiple_of(PAGE);
        let frames_a_block = block_len / frame;
        let blocks = packets.max(1).div_ceil(frames_a_block);
        let request = libc::tpacket_req {
            tp_block_size: small(block_len)?,
            tp_block_nr: small(blocks)?,
            tp_frame_size: small(frame)?,
            tp_frame_nr: small(blocks * frames_a_block)?,
        };
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        let memory = Mapping::new(socket, 0, block_len * blocks)?;
        Ok(FrameRing { memory, frame, block_len, frames_a_block, blocks, block: 0, number: 0 })
    }

    fn at(&self) -> usize {
        self.block * self.block_len + self.number * self.frame
    }

    /// The status of the next frame if it is ours. What the kernel wrote before it is visible then.
    fn status(&self) -> Option<u32> {
        // `tp_status` is the first word.
        let status = self.memory.word(self.at())?.load(Ordering::Acquire);
        (status & libc::TP_STATUS_USER != 0).then_some(status)
    }

    fn next(&mut self) -> Option<Slot<'_>> {
        let (at, status) = (self.at(), self.status()?);
        let head: libc::tpacket2_hdr = self.memory.read(at)?;
        let said = Said {
            at,
            end: at + self.frame,
            mac: head.tp_mac.into(),
            captured: head.tp_snaplen as usize,
            len: head.tp_len as usize,
            status,
            tag: tag(status, head.tp_vlan_tpid, head.tp_vlan_tci),
        };
        // SAFETY: the status says that the frame is ours; `release` needs the borrow to have ended.
        Some(unsafe { slot(&self.memory, said) })
    }

    fn release(&mut self) {
        if let Some(status) = self.memory.word(self.at()) {
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.number += 1;
        if self.number == self.frames_a_block {
            self.number = 0;
            self.block = if self.block + 1 == self.blocks { 0 } else { self.block + 1 };
        }
    }
}

/// A ring of blocks.
pub(super) struct BlockRing {
    memory: Mapping,
    blocks: usize,
    /// The block that is being read, how many of its packets are left, and where the next is.
    block: usize,
    left: usize,
    next: usize,
}

/// Where `hdr.bh1` is in a `tpacket_block_desc`; its first word is the status.
const BLOCK_HEADER: usize = 8;

impl BlockRing {
    /// A ring that has the memory of a [`FrameRing`] of `packets` frames, and at least [`LEAST_BLOCKS`].
    pub(super) fn new(socket: BorrowedFd<'_>, packets: usize, mtu: usize) -> io::Result<BlockRing> {
        let bytes = packets * (FRAME_HEADERS + LINK_HEADERS + mtu);
        let blocks = bytes.div_ceil(BLOCK).max(LEAST_BLOCKS);
        let request = libc::tpacket_req3 {
            tp_block_size: small(BLOCK)?,
            tp_block_nr: small(blocks)?,
            // Of no meaning but that the numbers have to fit.
            tp_frame_size: small(PAGE)?,
            tp_frame_nr: small(blocks * (BLOCK / PAGE))?,
            tp_retire_blk_tov: BLOCK_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        sys::set_option(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, request)?;
        let memory = Mapping::new(socket, 0, BLOCK * blocks)?;
        Ok(BlockRing { memory, blocks, block: 0, left: 0, next: 0 })
    }

    /// Whether the present block is ours. What the kernel wrote before is visible then.
    fn ready(&self) -> bool {
        let status = self.memory.word(self.block * BLOCK + BLOCK_HEADER);
        status.is_some_and(|s| s.load(Ordering::Acquire) & libc::TP_STATUS_USER != 0)
    }

    fn next(&mut self) -> Option<Slot<'_>> {
        let start = self.block * BLOCK;
        if !self.ready() {
            return None;
        }
        if self.left == 0 {
            let head: libc::tpacket_hdr_v1 = self.memory.read(start + BLOCK_HEADER)?;
            (self.left, self.next) = (head.num_pkts as usize, head.offset_to_first_pkt as usize);
            if self.left == 0 {
                self.release_block();
                return None;
            }
        }
        let at = start + self.next.min(BLOCK - size_of::<libc::tpacket3_hdr>());
        let head: libc::tpacket3_hdr = self.memory.read(at)?;
        let said = Said {
            at,
            end: start + BLOCK,
            mac: head.tp_mac.into(),
            captured: head.tp_snaplen as usize,
            len: head.tp_len as usize,
            // Nothing comes aside in this version.
            status: head.tp_status & !libc::TP_STATUS_COPY,
            tag: tag(head.tp_status, head.hv1.tp_vlan_tpid, head.hv1.tp_vlan_tci as u16),
        };
        self.next = self.next.saturating_add(head.tp_next_offset as usize);
        // SAFETY: the block's status said that it is ours; `release` needs the borrow to have ended.
        Some(unsafe { slot(&self.memory, said) })
    }

    fn release(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.release_block();
        }
    }

    fn release_block(&mut self) {
        if let Some(status) = self.memory.word(self.block * BLOCK + BLOCK_HEADER) {
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.block = if self.block + 1 == self.blocks { 0 } else { self.block + 1 };
    }
}

/// Either ring.
pub(super) enum Ring {
    Frames(FrameRing),
    Blocks(BlockRing),
}

impl Ring {
    /// Whether there is a packet (or, rarely, an empty block).
    #[inline]
    pub(super) fn ready(&self) -> bool {
        match self {
            Ring::Frames(r) => r.status().is_some(),
            Ring::Blocks(r) => r.ready(),
        }
    }

    /// The next packet, if there is one. Each is followed by one [`release`](Ring::release), or never looked at again.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Slot<'_>> {
        match self {
            Ring::Frames(r) => r.next(),
            Ring::Blocks(r) => r.next(),
        }
    }

    /// Gives the packet's place back to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        match self {
            Ring::Frames(r) => r.release(),
            Ring::Blocks(r) => r.release(),
        }
    }
}

fn small(n: usize) -> io::Result<u32> {
    let large = || io::Error::new(io::ErrorKind::InvalidInput, "the ring would be too large");
    u32::try_from(n).map_err(|_| large())
}
