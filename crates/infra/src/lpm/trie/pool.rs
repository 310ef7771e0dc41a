//! The memory of the nodes: blocks of three sizes in one address range that never moves.

use super::super::{
    LpmFull,
    first::{DENSE, PER_HUGE, resident},
};
use crate::{
    mem::{HUGE, Pages, Room, SMALL, SharedZeroed, Zeroed},
    quiesce::{Domain, Mark},
    sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, Release},
    },
};
use std::{collections::VecDeque, io, time::Duration};

/// Number of 8-byte words in a unit. A block begins at the start of a unit, and the unit's number identifies
/// the block.
pub(super) const UNIT: usize = 4;
/// Size of a unit in bytes.
pub(super) const UNIT_BYTES: usize = UNIT * size_of::<u64>();
/// Number of bits of a unit's number. 2^26 units of 32 bytes are 2 GiB.
pub(super) const UNIT_BITS: u32 = 26;
/// Stands for "no unit" where a unit's number is expected.
const NONE: u32 = u32::MAX;
/// Maximum number of retired units, 2 MiB in total. Beyond this, an allocation waits for the end of the grace period. This takes less than
/// a tenth of a millisecond, unless the kernel has given a worker's core to another thread. Without the limit, memory would grow with every
/// change during the grace period.
const MOST_RETIRED: u32 = 1 << 16;
/// Maximum time for which a change waits for readers.
const PATIENCE: Duration = Duration::from_micros(500);

/// The size of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// Half a cache line.
    Half,
    /// One cache line. The block is aligned to a cache line.
    Line,
    /// A table: 256 entries, and the lengths of their prefixes.
    Table,
}

impl Size {
    pub const fn units(self) -> u32 {
        match self {
            Size::Half => 1,
            Size::Line => 2,
            Size::Table => 41,
        }
    }
}

/// A block: the number of its first unit, and its size.
pub(super) type Block = (u32, Size);

/// Returns memory for all possible units, as 8-byte words. The words after the last unit are enough for the
/// largest block.
pub(super) fn words() -> io::Result<SharedZeroed<AtomicU64>> {
    Ok(Zeroed::with_pages(((1 << UNIT_BITS) + Size::Table.units() as usize) * UNIT, Pages::Small)?.share())
}

/// Allocates blocks. A block is reused only when no reader can still use it.
pub(super) struct Pool {
    words: SharedZeroed<AtomicU64>,
    domain: Domain,
    /// This unit and all higher ones were never used.
    next: u32,
    capacity: u32,
    /// The first free block of each size. The first word of a free block is the number of the next one.
    free: [u32; 3],
    /// Blocks that readers cannot find any more, in the order in which they were retired.
    retired: VecDeque<(Mark, Block)>,
    /// Number of units in the retired blocks.
    retired_units: u32,
    /// True if the current change has already waited for readers.
    waited: bool,
    /// The latest mark that all readers are known to have passed.
    passed: Option<Mark>,
    /// True if the current change removes a route.
    removes: bool,
}

impl Pool {
    /// Returns a pool without blocks, for up to `capacity` units, or for fewer if `words` has no room for
    /// them.
    pub fn new(domain: &Domain, words: SharedZeroed<AtomicU64>, capacity: u32) -> Pool {
        let room = (words.len() / UNIT).saturating_sub(Size::Table.units() as usize);
        let capacity = capacity.min(room.try_into().unwrap_or(NONE));
        Pool {
            words,
            domain: domain.clone(),
            next: 0,
            capacity,
            free: [NONE; 3],
            retired: VecDeque::new(),
            retired_units: 0,
            waited: false,
            passed: None,
            removes: false,
        }
    }

    /// Begins a change. `removes` is true if the change removes a route. Only such a change may use the last
    /// sixteenth of the units, which is a reserve.
    pub fn begin(&mut self, removes: bool) {
        self.waited = false;
        self.removes = removes;
    }

    /// Reads a word of the block at `unit`.
    pub fn get(&self, unit: u32, word: usize) -> u64 {
        self.words[unit as usize * UNIT + word].load(Relaxed)
    }

    /// Reads eight words from the start of a list. A list in half a cache line has only the first four of
    /// them.
    pub fn words_of(&self, unit: u32) -> [u64; 8] {
        let words = &self.words[unit as usize * UNIT..][..8];
        std::array::from_fn(|word| words[word].load(Relaxed))
    }

    /// Writes a word of the block at `unit`. A reader that sees the new word sees all earlier writes, too.
    pub fn set(&mut self, unit: u32, word: usize, value: u64) {
        self.words[unit as usize * UNIT + word].store(value, Release);
    }

    /// Allocates a block, whose contents are undefined. Returns the number of the block's first unit.
    ///
    /// # Errors
    /// Fails if there is no memory for the block, or if all units that the current change may use are in use.
    pub fn take(&mut self, size: Size) -> Result<u32, LpmFull> {
        if self.free[size as usize] == NONE {
            self.reclaim();
            if self.free[size as usize] == NONE && self.retired_units > MOST_RETIRED && !self.waited {
                self.waited = true;
                self.domain.synchronize(PATIENCE);
                self.reclaim();
            }
        }
        let unit = self.free[size as usize];
        if unit != NONE {
            self.free[size as usize] = self.get(unit, 0) as u32;
            return Ok(unit);
        }
        self.grow(size)
    }

    /// Frees a block that no reader can use.
    pub fn give_back(&mut self, (unit, size): Block) {
        let next = self.free[size as usize];
        self.set(unit, 0, next.into());
        self.free[size as usize] = unit;
    }

    /// Reserves memory so that the next call of [`retire`](Self::retire) with this number of blocks cannot
    /// fail.
    ///
    /// # Errors
    /// Fails if there is no memory.
    pub fn make_room(&mut self, blocks: usize) -> Result<(), LpmFull> {
        self.retired.try_reserve(blocks).map_err(|_| LpmFull::Memory)
    }

    /// Retires blocks that readers cannot find any more but may still use. The blocks become free after a
    /// grace period.
    pub fn retire(&mut self, blocks: impl Iterator<Item = Block>) {
        let mark = self.domain.mark();
        for block in blocks {
            self.retired_units += block.1.units();
            self.retired.push_back((mark, block));
        }
    }

    /// Returns a new mark of the readers' domain, see [`Domain::mark`].
    pub fn mark(&self) -> Mark {
        self.domain.mark()
    }

    /// True if all readers have passed the mark.
    pub fn passed(&mut self, mark: Mark) -> bool {
        if self.passed < Some(mark) {
            self.passed = Some(self.domain.all_passed());
        }
        self.passed >= Some(mark)
    }

    /// Frees the retired blocks whose grace period has ended.
    fn reclaim(&mut self) {
        let Some(&(oldest, _)) = self.retired.front() else { return };
        if !self.passed(oldest) {
            return;
        }
        while let Some(&(mark, block)) = self.retired.front()
            && Some(mark) <= self.passed
        {
            self.retired.pop_front();
            self.retired_units -= block.1.units();
            self.give_back(block);
        }
    }

    /// Allocates a block from memory that was never used.
    fn grow(&mut self, size: Size) -> Result<u32, LpmFull> {
        let odd = size == Size::Line && !self.next.is_multiple_of(2);
        let unit = self.next + u32::from(odd);
        let end = unit + size.units();
        let kept = if self.removes { 0 } else { self.capacity / 16 };
        if end > self.capacity - kept {
            return Err(LpmFull::Blocks);
        }
        let byte = |unit: u32| unit as usize * UNIT_BYTES;
        // The block begins another 2 MiB. Check that so much memory is free, because the kernel overcommits memory.
        if !self.removes && byte(end).div_ceil(HUGE) > byte(self.next).div_ceil(HUGE) {
            Room::now().must_have(HUGE as u64).map_err(|_| LpmFull::Memory)?;
        }
        for page in byte(self.next).div_ceil(SMALL)..byte(end).div_ceil(SMALL) {
            if page % PER_HUGE == DENSE - 1 {
                self.words.make_huge(page / PER_HUGE);
            }
        }
        if odd {
            self.give_back((self.next, Size::Half));
        }
        self.next = end;
        Ok(unit)
    }

    /// Returns the number of bytes of memory in use.
    pub fn memory_bytes(&self) -> usize {
        let pages = (self.next as usize * UNIT_BYTES).div_ceil(SMALL);
        let in_each = (0..pages).step_by(PER_HUGE).map(|first| (pages - first).min(PER_HUGE));
        resident(Pages::Small, in_each) + self.retired.capacity() * size_of::<(Mark, Block)>()
    }

    /// Returns the number of units that are neither free nor retired.
    #[cfg(all(test, not(feature = "loom")))]
    pub fn in_use(&self) -> u32 {
        let mut n = self.next - self.retired_units;
        for size in [Size::Half, Size::Line, Size::Table] {
            let mut unit = self.free[size as usize];
            while unit != NONE {
                n -= size.units();
                unit = self.get(unit, 0) as u32;
            }
        }
        n
    }
}
