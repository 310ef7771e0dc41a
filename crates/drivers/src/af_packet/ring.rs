//! Receive rings of packet sockets (`PACKET_RX_RING`), in the two useful versions.
//!
//! * [`FrameRing`] (TPACKET_V2): frames of one size, each for one packet. A single packet is visible after some microseconds. GSO packets
//!   larger than a frame arrive through the socket, see [`Place::Aside`].
//! * [`BlockRing`] (TPACKET_V3): packets of any size packed into blocks. User space gets a block when the block is full or after a
//!   millisecond. Under load there are fewer status words to read, but a single packet waits.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use wire::VirtioNetHeader;

use crate::kernel::mapping::Mapping;
use crate::kernel::scratch::tag;
use crate::kernel::sys;

/// Block sizes in bytes are multiples of this number, the largest page size on common machines.
const PAGE: usize = 65_536;
/// Maximum number of bytes that the kernel puts before a packet in a frame: its header, an address and the virtio
/// header.
const FRAME_HEADERS: usize = 96;
/// Bytes of link headers before a network packet: Ethernet and two VLAN tags, of which the kernel removes one.
const LINK_HEADERS: usize = 22;
/// Bytes of a block in a [`BlockRing`]: room for a 64 KiB packet and the kernel's headers.
const BLOCK: usize = 2 * PAGE;
/// Minimum number of blocks in a ring. The kernel closes a block after [`BLOCK_MS`] even if it holds a single packet, and drops packets
/// when all blocks are closed. So even 32 packets can fill a ring of 32 blocks. With this minimum, a worker may pause for 32 ms before the
/// ring drops packets for which a [`FrameRing`] would have room.
const LEAST_BLOCKS: usize = 32;
/// Milliseconds for which a block stays open for more packets, the shortest timeout that the kernel supports.
const BLOCK_MS: u32 = 1;

/// Location of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The packet is in the ring.
    Here,
    /// The packet is in the socket, because it was too large for the ring. The next read from the socket returns it.
    Aside,
    /// The packet is truncated, or its location is invalid.
    Cut,
}

/// A received packet.
pub(super) struct Slot<'a> {
    pub(super) place: Place,
    /// Bytes from the Ethernet header on.
    pub(super) bytes: &'a [u8],
    pub(super) header: VirtioNetHeader,
    pub(super) tag: Option<[u8; 4]>,
}

/// Packet metadata common to both ring versions.
struct Said {
    /// Offset of the packet's metadata in the ring.
    at: usize,
    /// Offset of the end of the packet's frame or block in the ring.
    end: usize,
    /// Offset of the Ethernet header from `at`.
    mac: usize,
    /// Number of the packet's bytes in the ring.
    captured: usize,
    /// Length of the packet in bytes.
    len: usize,
    status: u32,
    tag: Option<[u8; 4]>,
}

/// Returns the packet that this metadata describes.
///
/// # Safety
/// The ring up to `said.end` belongs to user space while the slot lives.
unsafe fn slot(ring: &Mapping, said: Said) -> Slot<'_> {
    let first = said.at + said.mac;
    let inside = said.mac > VirtioNetHeader::LEN && first + said.captured <= said.end;
    // SAFETY: guaranteed by the caller.
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
    /// Frame size in bytes.
    frame: usize,
    /// Block size in bytes.
    block_len: usize,
    frames_a_block: usize,
    blocks: usize,
    /// Index of the next frame's block.
    block: usize,
    /// Index of the next frame in its block.
    number: usize,
}

impl FrameRing {
    /// Returns a ring of at least `packets` frames, each large enough for a network packet of `mtu` bytes.
    pub(super) fn new(socket: BorrowedFd<'_>, packets: usize, mtu: usize) -> io::Result<FrameRing> {
        // An odd number of cache lines, so that headers spread over all cache sets.
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

    /// Returns the next frame's status if the frame belongs to user space. The kernel's earlier writes are visible
    /// then.
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
    /// Index of the block being read.
    block: usize,
    /// Number of packets in the block that are not read yet. 0 if the block's header, which has the number of its packets, is not read yet.
    left: usize,
    /// Offset of the next packet in the block.
    next: usize,
}

/// Offset of `hdr.bh1` in a `tpacket_block_desc`; its first word is the status.
const BLOCK_HEADER: usize = 8;

impl BlockRing {
    /// Returns a ring with about as much memory as a [`FrameRing`] for `packets` packets of `mtu` bytes, but with at least
    /// [`LEAST_BLOCKS`] blocks.
    pub(super) fn new(socket: BorrowedFd<'_>, packets: usize, mtu: usize) -> io::Result<BlockRing> {
        let bytes = packets * (FRAME_HEADERS + LINK_HEADERS + mtu);
        let blocks = bytes.div_ceil(BLOCK).max(LEAST_BLOCKS);
        let request = libc::tpacket_req3 {
            tp_block_size: small(BLOCK)?,
            tp_block_nr: small(blocks)?,
            // TPACKET_V3 does not use the frame size, but the kernel checks that the numbers match.
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

    /// True if the current block belongs to user space. The kernel's earlier writes are visible then.
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
            // In this version every packet is in the ring.
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

/// A ring of either version.
pub(super) enum Ring {
    Frames(FrameRing),
    Blocks(BlockRing),
}

impl Ring {
    /// True if a packet (or, rarely, an empty block) is ready.
    #[inline]
    pub(super) fn ready(&self) -> bool {
        match self {
            Ring::Frames(r) => r.status().is_some(),
            Ring::Blocks(r) => r.ready(),
        }
    }

    /// Returns the next packet, if there is one. Call [`release`](Ring::release) once after each packet.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Slot<'_>> {
        match self {
            Ring::Frames(r) => r.next(),
            Ring::Blocks(r) => r.next(),
        }
    }

    /// Marks the packet as read, so that the kernel can reuse its memory in the ring.
    #[inline]
    pub(super) fn release(&mut self) {
        match self {
            Ring::Frames(r) => r.release(),
            Ring::Blocks(r) => r.release(),
        }
    }
}

fn small(n: usize) -> io::Result<u32> {
    let large = || io::Error::new(io::ErrorKind::InvalidInput, "the ring is too large");
    u32::try_from(n).map_err(|_| large())
}
