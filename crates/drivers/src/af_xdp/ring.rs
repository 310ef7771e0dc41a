//! The four rings of an AF_XDP socket. Each has a single producer and a single consumer, one of which is the kernel.
//!
//! * Fill ring: the router passes empty buffers to the kernel, for packets to receive.
//! * Receive ring: the kernel passes received packets to the router.
//! * Transmit ring: the router passes packets to send to the kernel.
//! * Completion ring: the kernel returns the buffers of sent packets to the router.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{SOL_XDP, c_int, off_t, xdp_mmap_offsets, xdp_ring_offset};

use crate::kernel::mapping::Mapping;
use crate::kernel::sys::{self, Plain};

/// The kind of ring.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Receive,
    Transmit,
    Fill,
    Completion,
}

impl Kind {
    /// Returns the socket option that creates the ring, and the offset at which the ring is mapped.
    fn names(self) -> (c_int, off_t) {
        match self {
            Kind::Receive => (libc::XDP_RX_RING, libc::XDP_PGOFF_RX_RING),
            Kind::Transmit => (libc::XDP_TX_RING, libc::XDP_PGOFF_TX_RING),
            Kind::Fill => (libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_PGOFF_FILL_RING as off_t),
            Kind::Completion => {
                (libc::XDP_UMEM_COMPLETION_RING, libc::XDP_UMEM_PGOFF_COMPLETION_RING as off_t)
            }
        }
    }

    fn of(self, all: &xdp_mmap_offsets) -> &xdp_ring_offset {
        match self {
            Kind::Receive => &all.rx,
            Kind::Transmit => &all.tx,
            Kind::Fill => &all.fr,
            Kind::Completion => &all.cr,
        }
    }
}

/// A ring of `T`s: [`xdp_desc`](libc::xdp_desc) for packets, `u64` for buffers.
pub(super) struct Ring<T> {
    memory: Mapping,
    producer: usize,
    consumer: usize,
    flags: usize,
    slots: usize,
    size: u32,
    /// The router's index: number of entries that the router has put or taken so far, including those not yet published to the kernel.
    ours: u32,
    /// The kernel's index, as last read.
    theirs: u32,
    of: std::marker::PhantomData<T>,
}

impl<T: Plain> Ring<T> {
    /// Creates a ring of `size` slots, a power of two.
    pub(super) fn new(socket: BorrowedFd<'_>, kind: Kind, size: u32) -> io::Result<Ring<T>> {
        let (option, offset) = kind.names();
        sys::set_option(socket, SOL_XDP, option, size as c_int)?;
        let all: xdp_mmap_offsets = sys::option(socket, SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let at = kind.of(&all);
        let memory = Mapping::new(socket, offset, at.desc as usize + size as usize * size_of::<T>())?;
        let ring = Ring {
            memory,
            producer: at.producer as usize,
            consumer: at.consumer as usize,
            flags: at.flags as usize,
            slots: at.desc as usize,
            size,
            ours: 0,
            theirs: 0,
            of: std::marker::PhantomData,
        };
        match [ring.producer, ring.consumer, ring.flags].iter().all(|at| ring.memory.word(*at).is_some()) {
            true => Ok(ring),
            false => Err(io::Error::other("the kernel returned invalid ring offsets")),
        }
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        static NONE: AtomicU32 = AtomicU32::new(0);
        // `new` has checked that all slots are within the mapping.
        self.memory.word(at).unwrap_or(&NONE)
    }

    #[inline]
    fn slot(&self, i: u32) -> usize {
        self.slots + (i & (self.size - 1)) as usize * size_of::<T>()
    }

    /// True if the kernel processes further entries of the ring only after a system call.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    /// Returns the number of entries that the kernel has not taken yet from a ring that the router fills.
    pub(super) fn waiting(&self) -> u32 {
        self.ours.wrapping_sub(self.word(self.consumer).load(Ordering::Acquire))
    }

    /// Returns the number of entries that the router can put into the ring now, at most `wanted`.
    #[inline]
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        let free = |ring: &Self| ring.size - ring.ours.wrapping_sub(ring.theirs).min(ring.size);
        if free(self) < wanted {
            self.theirs = self.word(self.consumer).load(Ordering::Acquire);
        }
        free(self).min(wanted)
    }

    /// Puts one entry into the ring. The caller has checked with [`room`](Self::room) that a slot is free.
    #[inline]
    pub(super) fn put(&mut self, value: T) {
        // SAFETY: the only references into this mapping are to its index words, which lie outside the slots.
        unsafe { self.memory.write(self.slot(self.ours), value) };
        self.ours = self.ours.wrapping_add(1);
    }

    /// Publishes the entries put so far to the kernel.
    #[inline]
    pub(super) fn submit(&self) {
        self.word(self.producer).store(self.ours, Ordering::Release);
    }

    /// Returns the number of entries that the router can take from the ring now, at most `wanted`.
    #[inline]
    pub(super) fn ready(&mut self, wanted: u32) -> u32 {
        if self.theirs.wrapping_sub(self.ours) < wanted {
            self.theirs = self.word(self.producer).load(Ordering::Acquire);
        }
        self.theirs.wrapping_sub(self.ours).min(self.size).min(wanted)
    }

    /// Takes the next entry. The caller has checked with [`ready`](Self::ready) that there is one.
    #[inline]
    pub(super) fn take(&mut self) -> Option<T> {
        let value = self.memory.read(self.slot(self.ours));
        self.ours = self.ours.wrapping_add(1);
        value
    }

    /// Returns the taken slots to the kernel.
    #[inline]
    pub(super) fn release(&self) {
        self.word(self.consumer).store(self.ours, Ordering::Release);
    }
}
