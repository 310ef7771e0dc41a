//! A reserved range of addresses, which is filled piece by piece with memory that other processes can share.

use crate::sync::{Mutex, lock};
use std::{io, ops::Range, os::fd::OwnedFd, ptr::NonNull};

use super::HUGE;

/// Page size of a [`Segment`]. The order is from the best size to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageSize {
    /// Pages of 2 MiB from the hugetlb pool (`vm.nr_hugepages`).
    Huge2M,
    /// Transparent huge pages.
    Transparent,
    /// Pages of 4 KiB. Lookups in large memory become slower with them, so the router should warn the operator.
    Small,
}

/// A piece of a [`Reserve`] that has memory. The memory belongs to the `Reserve`, and stays mapped as long as the `Reserve` exists. The
/// segment owns the file of the memory, which can be passed to other processes or the kernel (memif, AF_XDP).
#[derive(Debug)]
pub struct Segment {
    /// The segment's memory file, which other processes can map; `None` only under miri.
    pub fd: Option<OwnedFd>,
    /// Offset of the segment from the start of the reserve, in bytes.
    pub at: usize,
    /// Length in bytes.
    pub len: usize,
    /// Size of the segment's pages: the largest that was available.
    pub page: PageSize,
}

/// A range of addresses, in which segments of memory can be committed. The range never moves, and no part of it is unmapped before the
/// `Reserve` is dropped.
#[derive(Debug)]
pub struct Reserve {
    base: NonNull<u8>,
    len: usize,
    /// The whole range before alignment, with its length in bytes. It is released when the `Reserve` is dropped.
    whole: (NonNull<u8>, usize),
    /// The pieces that cannot be committed any more: the committed ones, and pieces whose addresses may belong to another mapping after a
    /// failed commit.
    committed: Mutex<Vec<Range<usize>>>,
}

// SAFETY: Reserve owns its address range, returns only raw pointers to it, and guards its list by a lock.
unsafe impl Send for Reserve {}
// SAFETY: as above.
unsafe impl Sync for Reserve {}

impl Reserve {
    /// Reserves a range of `len` bytes of addresses, rounded up to 2 MiB and aligned to 2 MiB. It takes no memory.
    ///
    /// # Errors
    /// Fails if the kernel refuses the range.
    pub fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1).checked_next_multiple_of(HUGE).ok_or(io::ErrorKind::OutOfMemory)?;
        let (whole, whole_len) = backend::reserve(len).map_err(|e| super::refused("addresses", len, &e))?;
        let skip = whole.as_ptr().align_offset(HUGE);
        // SAFETY: backend::reserve returns HUGE bytes more than len, or an aligned range of len.
        let base = unsafe { whole.add(skip) };
        Ok(Self { base, len, whole: (whole, whole_len), committed: Mutex::new(Vec::new()) })
    }

    /// Returns the first address of the range. Only committed segments have memory.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the length of the range in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns false, because a reserve has at least one huge page of addresses.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `len` bytes at offset `at` (both multiples of 2 MiB) with zeroed shared memory, which is present immediately. Uses the largest
    /// available pages, and prefers the NUMA node `numa`.
    ///
    /// # Errors
    /// Returns `InvalidInput` if the piece is misaligned, outside the range, or overlaps an earlier piece. Returns `OutOfMemory` if the
    /// machine or a control group has less memory, even if the limit of the control group cannot be read. Returns the kernel's error
    /// otherwise. The reserve stays usable after an error.
    pub fn commit(&self, at: usize, len: usize, numa: Option<u32>) -> io::Result<Segment> {
        let invalid = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why.to_string()));
        let Some(end) = at.checked_add(len).filter(|&end| end <= self.len) else {
            return invalid("the segment is outside of the reserved range");
        };
        if len == 0 || !at.is_multiple_of(HUGE) || !len.is_multiple_of(HUGE) {
            return invalid("a segment must start and end at a multiple of 2 MiB");
        }
        let mut committed = lock(&self.committed);
        if committed.iter().any(|c| at < c.end && c.start < end) {
            return invalid("the segment overlaps an earlier one");
        }
        // SAFETY: at + len is inside the range.
        let to = unsafe { self.base.add(at) };
        // SAFETY: the piece is ours, aligned, and not committed, so no memory in use can be lost.
        let done = unsafe { backend::commit(to, len, numa, committed.is_empty()) };
        if done.as_ref().map_or_else(|failed| failed.lost, |_| true) {
            committed.push(at..end);
        }
        let (fd, page) = done.map_err(|failed| failed.why)?;
        Ok(Segment { fd, at, len, page })
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // SAFETY: this is the range from backend::reserve; a pointer into it still in use violates base()'s
        // terms.
        unsafe { backend::release(self.whole.0, self.whole.1) };
    }
}

/// The error of a commit that failed.
struct Failed {
    why: io::Error,
    /// True if another mapping may now have the piece's addresses.
    lost: bool,
}

impl From<io::Error> for Failed {
    fn from(why: io::Error) -> Failed {
        Failed { why, lost: false }
    }
}

#[cfg(not(miri))]
mod backend {
    use super::*;
    use crate::mem::{Room, trial};
    use std::os::fd::{AsRawFd, FromRawFd};

    /// Maximum number of bytes that `populate` fills at once. Without hugetlb pages, the free memory is checked before each step.
    pub const PIECE: usize = 64 << 20;

    /// `MADV_COLLAPSE` (Linux 6.1) makes huge pages of a range now, whatever the system-wide policy is.
    const MADV_COLLAPSE: libc::c_int = 25;

    fn map(to: *mut libc::c_void, len: usize, prot: i32, flags: i32, fd: i32) -> io::Result<NonNull<u8>> {
        // SAFETY: callers pass either no address, or a piece of a reserve without memory in use.
        let p = unsafe { libc::mmap(to, len, prot, flags, fd, 0) };
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(p.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    const NOTHING: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

    pub fn reserve(len: usize) -> io::Result<(NonNull<u8>, usize)> {
        let len = len.checked_add(HUGE).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok((map(std::ptr::null_mut(), len, libc::PROT_NONE, NOTHING, -1)?, len))
    }

    /// Gives the range back to the kernel.
    ///
    /// # Safety
    /// `base` and `len` come from `reserve`, and nothing uses the range any more.
    pub unsafe fn release(base: NonNull<u8>, len: usize) {
        // SAFETY: by the contract above.
        unsafe { libc::munmap(base.as_ptr().cast(), len) };
    }

    /// Fills a piece with memory: with hugetlb pages if possible, otherwise with ordinary ones. Before ordinary memory is used, a child
    /// process tries to fill `len` bytes, if the limit of some control group is not visible. For the `first` piece, the child also tries
    /// the memory that the router needs besides its buffers.
    ///
    /// # Safety
    /// `to..to + len` is a piece of a reserve, aligned to 2 MiB, without memory in use.
    pub unsafe fn commit(
        to: NonNull<u8>,
        len: usize,
        numa: Option<u32>,
        first: bool,
    ) -> Result<(Option<OwnedFd>, PageSize), Failed> {
        match fill(to, len, numa, true) {
            Ok((fd, page)) => return Ok((Some(fd), page)),
            Err(failed) if failed.lost => return Err(failed),
            Err(_) => {}
        }
        Room::now().must_have(len as u64)?;
        if !Room::sees_all() {
            trial::fill(len, if first { trial::BESIDE } else { 0 })?;
        }
        let (fd, page) = fill(to, len, numa, false).map_err(|Failed { why, lost }| {
            let clear = why.kind() == io::ErrorKind::OutOfMemory && why.raw_os_error().is_none();
            Failed { why: if clear { why } else { crate::mem::refused("memory", len, &why) }, lost }
        })?;
        Ok((Some(fd), page))
    }

    /// Maps a new memory file over the piece, and makes all of its pages present: hugetlb pages if `hugetlb` is true, otherwise
    /// ordinary ones. After a failure, the piece is empty, unless `lost` is set in the error.
    fn fill(
        to: NonNull<u8>,
        len: usize,
        numa: Option<u32>,
        hugetlb: bool,
    ) -> Result<(OwnedFd, PageSize), Failed> {
        let fd = file(len, hugetlb)?;
        // A failed mapping at a fixed address leaves a hole, and the next mapping of another thread may take
        // its addresses. So the file is first mapped at another address, to see that the kernel can map it.
        // For hugetlb pages, this also reserves them.
        let rw = libc::PROT_READ | libc::PROT_WRITE;
        let elsewhere = map(std::ptr::null_mut(), len, rw, libc::MAP_SHARED, fd.as_raw_fd())?;
        let fixed = map(to.as_ptr().cast(), len, rw, libc::MAP_SHARED | libc::MAP_FIXED, fd.as_raw_fd());
        // SAFETY: no other code has the address of this mapping.
        unsafe { libc::munmap(elsewhere.as_ptr().cast(), len) };
        fixed.map_err(|why| Failed { why, lost: true })?;
        match populate(to, len, numa, hugetlb) {
            Ok(page) => Ok((fd, page)),
            Err(why) => {
                // The file's pages are freed with its last mapping.
                let empty = map(to.as_ptr().cast(), len, libc::PROT_NONE, NOTHING | libc::MAP_FIXED, -1);
                Err(Failed { why, lost: empty.is_err() })
            }
        }
    }

    /// Returns a new memory file of `len` bytes, whose size is sealed.
    fn file(len: usize, hugetlb: bool) -> io::Result<OwnedFd> {
        let kind = if hugetlb { libc::MFD_HUGETLB | libc::MFD_HUGE_2MB } else { 0 };
        // SAFETY: the name is a C string; the call touches no memory of ours.
        let fd = unsafe {
            libc::memfd_create(c"volley".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | kind)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: memfd_create just returned it, and it has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let size = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: plain system call on a descriptor that we own.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), size) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // Other programs get this file with buffers lent to them. The seals keep them from truncating it, which would end this process with
        // a SIGBUS at its next access. The seals also keep a program from adding a seal that would block writes by the other programs.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: no memory is involved.
        if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(fd)
    }

    /// Makes all pages of a newly mapped piece present, on NUMA node `numa` if possible. Returns the page size.
    fn populate(to: NonNull<u8>, len: usize, numa: Option<u32>, hugetlb: bool) -> io::Result<PageSize> {
        if let Some(node) = numa {
            prefer(to, len, node);
        }
        let mut page = if hugetlb { PageSize::Huge2M } else { PageSize::Transparent };
        for offset in (0..len).step_by(PIECE) {
            // SAFETY: offset is less than len.
            let (at, len) = (unsafe { to.add(offset) }, PIECE.min(len - offset));
            // Hugetlb pages were reserved by the mapping. Ordinary memory was not, and less may be free by
            // now.
            if !hugetlb {
                Room::now().must_have(len as u64)?;
            }
            if page == PageSize::Transparent && collapse(at, len).is_err() {
                page = PageSize::Small;
            }
            advise(at, len, libc::MADV_POPULATE_WRITE)?;
        }
        Ok(page)
    }

    /// Makes transparent huge pages of a newly mapped piece. The kernel collapses only ranges that have
    /// pages, and copies those pages. So each range first gets a single small page.
    fn collapse(at: NonNull<u8>, len: usize) -> io::Result<()> {
        advise(at, len, libc::MADV_HUGEPAGE)?;
        for offset in (0..len).step_by(HUGE) {
            // SAFETY: offset is less than len.
            advise(unsafe { at.add(offset) }, 1, libc::MADV_POPULATE_WRITE)?;
        }
        advise(at, len, MADV_COLLAPSE)
    }

    /// Calls `madvise`. None of the kinds of advice used here changes the contents of the memory.
    fn advise(at: NonNull<u8>, len: usize, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range belongs to a reserve; the advice only brings pages in or changes their size.
        let rc = unsafe { libc::madvise(at.as_ptr().cast(), len, advice) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Asks the kernel to take the range's pages from NUMA node `node`. The kernel takes other pages if the node has none free. A
    /// failure of the call is ignored.
    fn prefer(at: NonNull<u8>, len: usize, node: u32) {
        const MPOL_PREFERRED: libc::c_int = 1;
        let mask = 1u64.checked_shl(node).unwrap_or(0);
        // SAFETY: mbind reads 64 bits of mask and changes only the policy of a range that we own.
        unsafe {
            libc::syscall(libc::SYS_mbind, at.as_ptr(), len, MPOL_PREFERRED, &raw const mask, 65usize, 0usize)
        };
    }
}

#[cfg(miri)]
mod backend {
    use super::*;
    use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

    fn layout(len: usize) -> io::Result<Layout> {
        Layout::from_size_align(len, HUGE).map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    pub fn reserve(len: usize) -> io::Result<(NonNull<u8>, usize)> {
        let layout = layout(len)?;
        // SAFETY: len is at least HUGE.
        let p = unsafe { alloc_zeroed(layout) };
        Ok((NonNull::new(p).unwrap_or_else(|| handle_alloc_error(layout)), len))
    }

    /// Frees the range.
    ///
    /// # Safety
    /// `base` and `len` come from `reserve`, and nothing uses the range any more.
    pub unsafe fn release(base: NonNull<u8>, len: usize) {
        if let Ok(layout) = layout(len) {
            // SAFETY: by the contract above.
            unsafe { dealloc(base.as_ptr(), layout) };
        }
    }

    /// Does nothing: with this backend, the whole range has memory from the start.
    ///
    /// # Safety
    /// As for the function that maps memory.
    pub unsafe fn commit(
        _to: NonNull<u8>,
        _len: usize,
        _numa: Option<u32>,
        _first: bool,
    ) -> Result<(Option<OwnedFd>, PageSize), Failed> {
        Ok((None, PageSize::Small))
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn committed_memory_is_zeroed_writable_and_stays() {
        let r = Reserve::new(4 * HUGE).unwrap();
        assert!(r.len() == 4 * HUGE && r.base().as_ptr().addr().is_multiple_of(HUGE));
        let s = r.commit(HUGE, 2 * HUGE, None).unwrap();
        assert_eq!((s.at, s.len), (HUGE, 2 * HUGE));
        drop(s);
        // SAFETY: the last byte of the committed piece.
        unsafe {
            let last = r.base().add(3 * HUGE - 1);
            assert_eq!(last.read(), 0);
            last.write(9);
            assert_eq!(last.read(), 9);
        }
    }

    #[test]
    fn invalid_pieces_are_refused() {
        let r = Reserve::new(3 * HUGE).unwrap();
        r.commit(HUGE, HUGE, Some(0)).unwrap();
        for (at, len) in [
            (HUGE, HUGE),
            (0, 2 * HUGE),
            (0, 3 * HUGE),
            (1, HUGE),
            (0, 4096),
            (0, 0),
            (3 * HUGE, HUGE),
            (usize::MAX - HUGE + 1, HUGE),
        ] {
            assert_eq!(
                r.commit(at, len, None).unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{at} {len}"
            );
        }
        r.commit(0, HUGE, None).unwrap();
        r.commit(2 * HUGE, HUGE, None).unwrap();
    }

    /// A piece that is larger than the free memory is refused. Without this check, the kernel would kill a process.
    #[test]
    #[cfg(not(miri))]
    fn too_large_pieces_are_refused_and_the_range_stays_usable() {
        let more = usize::try_from(crate::mem::Room::now().bytes).unwrap().next_multiple_of(HUGE) + HUGE;
        let r = Reserve::new(more).unwrap();
        let error = r.commit(0, more, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("of memory needed"), "{error}");
        r.commit(0, HUGE, None).unwrap();
    }

    /// A commit must not unmap its addresses even for a moment: another thread's new mapping could get one of them, and the commit
    /// would then replace that mapping.
    #[test]
    #[cfg(not(miri))]
    fn a_commit_leaves_no_hole_for_mappings_of_other_threads() {
        use std::sync::atomic::{AtomicBool, Ordering};
        const PIECES: usize = 100;
        let r = Reserve::new(PIECES * HUGE).unwrap();
        let over = AtomicBool::new(false);
        // A new mapping that nothing accesses. The kernel takes the highest gap that is large enough.
        let map = || {
            let (len, flags) = (HUGE - crate::mem::SMALL, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: the kernel chooses an address that is free.
            let p = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
            (p, len)
        };
        let distance = |p: *mut libc::c_void| p.addr().wrapping_sub(r.base().as_ptr().addr());
        // First the gaps above the reserve are filled.
        while distance(map().0).cast_signed() > 0 {}
        let map_often = || {
            let mut inside = 0;
            while !over.load(Ordering::Relaxed) {
                let (p, len) = map();
                match distance(p) < r.len() {
                    true => inside += 1,
                    // SAFETY: the range was just mapped here. (A mapping within the reserve is not unmapped: a commit may have replaced
                    // it.)
                    false => drop(unsafe { libc::munmap(p, len) }),
                }
            }
            inside
        };
        let inside: usize = std::thread::scope(|s| {
            let mappers = [s.spawn(map_often), s.spawn(map_often)];
            // Without huge pages in the kernel's pool, the first attempt to map fails.
            for at in 0..PIECES {
                r.commit(at * HUGE, HUGE, None).unwrap();
            }
            over.store(true, Ordering::Relaxed);
            mappers.into_iter().map(|mapper| mapper.join().unwrap()).sum()
        });
        assert_eq!(inside, 0, "mappings got addresses of the reserve");
    }

    #[test]
    #[cfg(not(miri))]
    fn several_pieces_are_filled_to_the_last_byte() {
        let len = 2 * backend::PIECE + HUGE;
        let r = Reserve::new(len).unwrap();
        r.commit(0, len, None).unwrap();
        let mut present = vec![0u8; len / crate::mem::SMALL];
        // SAFETY: the range is mapped, and the vector has a byte for each of its pages.
        let rc = unsafe { libc::mincore(r.base().as_ptr().cast(), len, present.as_mut_ptr()) };
        assert_eq!(rc, 0);
        assert!(present.iter().all(|page| page & 1 == 1));
    }

    /// A peer that gets buffers also gets their memory file. It must not be able to resize the file, since that would kill this process.
    #[test]
    #[cfg(not(miri))]
    fn the_size_of_the_file_is_sealed() {
        let r = Reserve::new(HUGE).unwrap();
        let file = std::fs::File::from(r.commit(0, HUGE, None).unwrap().fd.unwrap());
        for len in [0, HUGE as u64 - 4096, 2 * HUGE as u64] {
            assert_eq!(file.set_len(len).unwrap_err().raw_os_error(), Some(libc::EPERM), "{len}");
        }
        assert_eq!(file.metadata().unwrap().len(), HUGE as u64);
    }

    #[test]
    #[cfg(not(miri))]
    fn the_file_shares_the_memory() {
        use std::os::unix::fs::FileExt;
        let r = Reserve::new(HUGE).unwrap();
        let s = r.commit(0, HUGE, None).unwrap();
        // SAFETY: inside the committed piece.
        unsafe { r.base().add(100).write(42) };
        if s.page != PageSize::Huge2M {
            let mut byte = [0];
            std::fs::File::from(s.fd.unwrap()).read_exact_at(&mut byte, 100).unwrap();
            assert_eq!(byte, [42]);
        }
    }
}
