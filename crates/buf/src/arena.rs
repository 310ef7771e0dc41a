//! The single address range that holds every buffer of the process.
//!
//! A buffer index is the distance from the start of the range in cache lines. So 32 bits reach 256 GiB, and
//! an index becomes an address with one shift and one addition, whatever the buffer's pool.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock};

use infra::mem::{Reserve, Segment};

use crate::layout::{LINE, LINK, Link, STRIDE};

/// Reserved address space (not memory): 64 GiB, room for 26 million buffers. Under miri, 64 MiB.
const RESERVED: usize = if cfg!(miri) { 64 << 20 } else { 64 << 30 };
/// Regions begin at multiples of the huge page size, 2 MiB.
const ALIGN: usize = 2 << 20;

static BASE: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static ARENA: OnceLock<Arena> = OnceLock::new();

struct Arena {
    reserve: Reserve,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Offset of the first byte that no region has used yet. Byte 0 is never used, so index 0 is always invalid.
    end: usize,
    /// Regions of removed pools, for reuse. All their buffers have been returned.
    spare: Vec<Region>,
}

/// A mapped piece of the arena, divided into buffers.
pub(crate) struct Region {
    pub(crate) segment: Segment,
    pub(crate) buffers: usize,
}

impl Region {
    /// Indexes of the region's buffers.
    pub(crate) fn indexes(&self) -> impl ExactSizeIterator<Item = u32> + use<> {
        let first = self.segment.at / LINE;
        (0..self.buffers).map(move |i| (first + i * (STRIDE / LINE)) as u32)
    }

    /// Returns the indexes of the buffers of a region that no pool uses yet. Marks each buffer as free, and as part of the pool with the
    /// number `pool`.
    pub(crate) fn prepare(&self, pool: u32) -> impl ExactSizeIterator<Item = u32> + use<> {
        self.indexes().inspect(move |&index| {
            // SAFETY: no other code knows the region's indexes yet.
            let link = unsafe { link(index) };
            link.pool = pool;
            link.allocated = 0;
        })
    }
}

fn arena() -> io::Result<&'static Arena> {
    if let Some(a) = ARENA.get() {
        return Ok(a);
    }
    let reserve = Reserve::new(RESERVED)?;
    // The base is stored before the arena is accessible, and so before there is an index.
    Ok(ARENA.get_or_init(|| {
        BASE.store(reserve.base().as_ptr(), Ordering::Release);
        Arena { reserve, state: Mutex::new(State { end: ALIGN, spare: Vec::new() }) }
    }))
}

/// Returns a region of `buffers` buffers: a spare one with exactly as many, otherwise newly mapped memory.
pub(crate) fn map(buffers: usize) -> io::Result<Region> {
    let arena = arena()?;
    let mut state = arena.state.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(i) = state.spare.iter().position(|r| r.buffers == buffers) {
        return Ok(state.spare.swap_remove(i));
    }
    let room = arena.reserve.len() - state.end;
    let len = buffers.checked_mul(STRIDE).and_then(|n| n.checked_next_multiple_of(ALIGN));
    let Some(len) = len.filter(|&n| n <= room) else {
        return Err(io::Error::other(format!(
            "no address space left for {buffers} more buffers: all buffers together can use {} GiB",
            RESERVED >> 30
        )));
    };
    let segment = arena.reserve.commit(state.end, len, None)?;
    state.end += len;
    Ok(Region { segment, buffers })
}

/// Makes a region available for reuse. No packet may use its buffers any more.
pub(crate) fn give_back(region: Region) {
    if let Ok(arena) = arena() {
        arena.state.lock().unwrap_or_else(|e| e.into_inner()).spare.push(region);
    }
}

/// Start of the arena.
///
/// Every buffer index comes from a pool, and a pool exists only after `BASE` was stored. A relaxed load is
/// enough: passing the index to this thread has ordered the store before the load.
#[inline(always)]
pub(crate) fn base() -> *mut u8 {
    BASE.load(Ordering::Relaxed)
}

/// Returns the address of a buffer's first byte.
///
/// # Safety
/// `index` came from a pool (see the crate's documentation), so `base` is set.
#[inline(always)]
pub(crate) unsafe fn at(base: *mut u8, index: u32) -> NonNull<u8> {
    // SAFETY: a pool's index is within the reserved range, so the address does not wrap and is not null.
    unsafe { NonNull::new_unchecked(base.add(index as usize * LINE)) }
}

/// Returns the address of a buffer's link. Several packets can have the same buffer in their chains. Code reads the link of such a buffer,
/// and changes its share count, only through this pointer, never through a reference.
///
/// # Safety
/// `index` came from a pool.
#[inline(always)]
pub(crate) unsafe fn link_ptr(index: u32) -> *mut Link {
    // SAFETY: every buffer has its link at LINK, aligned to 64.
    unsafe { at(base(), index).as_ptr().add(LINK).cast() }
}

/// Returns the link of a buffer.
///
/// # Safety
/// `index` came from a pool, and the caller is the buffer's only owner and allows no other access to its link
/// during the borrow.
#[inline(always)]
pub(crate) unsafe fn link<'a>(index: u32) -> &'a mut Link {
    // SAFETY: the memory was mapped zeroed, and any bits are a valid `Link` (plain integers). Ownership makes
    // the reference unique.
    unsafe { &mut *link_ptr(index) }
}
