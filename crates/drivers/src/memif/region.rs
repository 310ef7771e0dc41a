//! Memory shared with a peer.
//!
//! The peer can write to a mapping at any time, so the only Rust references to it are to atomic words in the ring headers (flags, head and
//! tail). All other bytes are copied in and out through raw pointers. Descriptors are copied out once, checked, and used from the copy.
//!
//! Mapped memory must not vanish: SIGBUS would kill the process. So the files of an untrusted peer must be sealed against shrinking
//! (`F_SEAL_SHRINK`). They must have ordinary pages, because the kernel may fail to fill holes in huge pages. A worker must not wait while
//! a peer removes pages, so the router seals the files against page removal, too (`preparing.rs`).

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use infra::mem::{Account, Promise, SMALL};

use crate::kernel::{discard, files, sys};

/// Maximum size of the shared memory of an untrusted peer, in bytes. 16 rings of 16,384 packets of 2 KiB need half of
/// it.
pub(super) const MOST: u64 = 1 << 30;

/// Returns the seals of a shared memory file, or `None` for other files, which have no seals (`fcntl(2)`,
/// `F_GET_SEALS`).
fn seals(file: BorrowedFd<'_>) -> Option<i32> {
    // SAFETY: no memory is involved.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    (seals >= 0).then_some(seals)
}

/// True if a file is shared memory. The kernel handles such files without asking a peer.
pub(super) fn is_memory(file: BorrowedFd<'_>) -> bool {
    seals(file).is_some()
}

/// Adds seals to a file. Waits while another process removes pages from the file, because the kernel serializes the two operations.
fn add_seals(file: BorrowedFd<'_>, seals: i32) -> io::Result<()> {
    // SAFETY: no memory is involved.
    sys::check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } as isize).map(|_| ())
}

/// Seals a mapped file: from then on, no process can map it for writing or remove pages from it.
///
/// # Errors
/// If the file forbids further seals (`F_SEAL_SEAL`), or is open for reading only.
pub(super) fn seal(file: BorrowedFd<'_>) -> Result<(), String> {
    let is_sealed = || seals(file).is_some_and(|seals| seals & libc::F_SEAL_FUTURE_WRITE != 0);
    match add_seals(file, libc::F_SEAL_FUTURE_WRITE) {
        Err(e) if !is_sealed() => Err(format!("it cannot be sealed (F_SEAL_FUTURE_WRITE): {e}")),
        _ => Ok(()),
    }
}

/// Returns how many of the first `len` bytes of a sealed file have no pages. The seals keep the peer from removing pages. The number of
/// allocated bytes does not show missing pages: it includes pages beyond the end of the file, which the kernel cannot always free.
fn holes(file: BorrowedFd<'_>, len: u64) -> io::Result<u64> {
    // Opens the file again: the offset of the peer's own open file, and the lock on this offset, are shared with the peer.
    let own = again(file)?;
    let (file, end) = (own.as_fd(), len.next_multiple_of(SMALL as u64));
    let (mut at, mut missing) = (0, 0);
    loop {
        let hole = seek(file, at, libc::SEEK_HOLE)?;
        if hole >= len {
            return Ok(missing);
        }
        at = match seek(file, hole, libc::SEEK_DATA) {
            // There are no pages up to the end of the file.
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) => end,
            data => data?.min(end),
        };
        missing += at - hole;
        if at >= end {
            return Ok(missing);
        }
    }
}

/// Returns the offset of the next data or hole at or after `at`; `kind` is `SEEK_DATA` or `SEEK_HOLE` (`lseek(2)`). A
/// page without contents is a hole, even if it is allocated.
fn seek(file: BorrowedFd<'_>, at: u64, kind: i32) -> io::Result<u64> {
    // SAFETY: no memory is involved.
    let found = unsafe { libc::lseek(file.as_raw_fd(), at as libc::off_t, kind) };
    u64::try_from(found).map_err(|_| io::Error::last_os_error())
}

/// Seals memory against writing.
///
/// # Errors
/// `EBUSY`, after a wait of up to 0.2 s, if a process has a writable mapping of the memory, or a page is in use: in a
/// socket, a pipe, or for I/O. `EEXIST` if the memory is sealed already: the kernel would not check its pages again.
pub(super) fn seal_unused(file: BorrowedFd<'_>) -> io::Result<()> {
    match seals(file) {
        Some(seals) if seals & libc::F_SEAL_WRITE != 0 => Err(io::Error::from_raw_os_error(libc::EEXIST)),
        _ => add_seals(file, libc::F_SEAL_WRITE),
    }
}

/// Opens memory a second time, for reading and writing. If the peer has a lease on the file, this call fails instead of waiting for the end
/// of the lease.
pub(super) fn again(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // A thread may have a table of its own: `/proc/self` would name files of another table.
    let path = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    Ok(File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)?.into())
}

/// Writes all pages of memory that this process has created. The kernel then charges them to this process, not to a
/// peer; peers find no holes, and workers do not wait for pages.
///
/// # Errors
/// If there is too little memory.
pub(super) fn fill(file: BorrowedFd<'_>) -> io::Result<()> {
    let (size, _) = sizes(file)?;
    // SAFETY: no memory is involved.
    sys::check(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, size as libc::off_t) } as isize)?;
    let region = Region::map(file, size as usize)?;
    // SAFETY: the range is the mapping, and the advice changes no contents.
    let filled = unsafe { libc::madvise(region.base.as_ptr().cast(), region.len, libc::MADV_POPULATE_WRITE) };
    match sys::check(filled as isize) {
        // Before Linux 5.14.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => region.touch(),
        filled => _ = filled?,
    }
    Ok(())
}

/// Seals memory that this process has created and [filled](fill), and checks that no page is missing. Call this after the server has mapped
/// the memory.
///
/// # Errors
/// As for [`seal`], and if pages are missing. This function checks that itself, because the inotify event of a removal may arrive
/// later.
pub(super) fn seal_filled(file: BorrowedFd<'_>) -> Result<(), String> {
    seal(file)?;
    let missing = sizes(file).and_then(|(size, _)| holes(file, size));
    match missing.map_err(|e| format!("its pages cannot be counted: {e}"))? {
        0 => Ok(()),
        bytes => Err(format!("the peer has removed pages of the memory ({bytes} bytes)")),
    }
}

/// Returns the device and inode numbers, which identify a file; `None` if they cannot be read.
pub(super) fn identity(file: BorrowedFd<'_>) -> Option<(u64, u64)> {
    stat(file).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

/// Returns the allocated bytes of these files, counting each file once. Each file must be [shared memory](is_memory).
pub(super) fn allocated<'f>(files: impl Iterator<Item = BorrowedFd<'f>>) -> u64 {
    let stats = files.filter_map(|file| stat(file).ok());
    let by_file: BTreeMap<_, _> = stats.map(|s| ((s.st_dev, s.st_ino), taken(&s))).collect();
    by_file.values().sum()
}

/// Returns the length of a file and its allocated bytes.
fn sizes(file: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    stat(file).map(|stat| (stat.st_size.max(0) as u64, taken(&stat)))
}

/// Returns the allocated bytes of a file.
fn taken(stat: &libc::stat) -> u64 {
    stat.st_blocks.max(0) as u64 * 512
}

fn stat(file: BorrowedFd<'_>) -> io::Result<libc::stat> {
    // SAFETY: zeros are a valid record, and the kernel fills it.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        sys::check(libc::fstat(file.as_raw_fd(), &mut stat) as isize)?;
        Ok(stat)
    }
}

/// A peer's file that is shared memory. The kernel handles it without asking the peer, so system calls on it do not
/// block.
#[derive(Debug)]
pub(super) struct MemoryFile(ManuallyDrop<OwnedFd>);

impl MemoryFile {
    /// Wraps a file.
    ///
    /// # Errors
    /// Returns the file if it is not shared memory.
    pub(super) fn new(file: OwnedFd) -> Result<MemoryFile, OwnedFd> {
        if is_memory(file.as_fd()) { Ok(MemoryFile(ManuallyDrop::new(file))) } else { Err(file) }
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        // SAFETY: it is taken once, here.
        let file = unsafe { ManuallyDrop::take(&mut self.0) };
        discard::elsewhere(move || drop(file));
    }
}

/// A mapping of shared memory.
pub(super) struct Region {
    base: NonNull<u8>,
    len: usize,
    /// Memory reserved for missing pages of an untrusted peer's file; `None` for other memory. The kernel charges each page to the process
    /// that touches it first.
    holes: Option<Arc<Promise>>,
    /// Heap memory in place of a mapping, for Miri, which does not support mappings.
    #[cfg(miri)]
    heap: Option<std::sync::Arc<heap::Heap>>,
}

// SAFETY: the mapping belongs to the process, not to a thread. Its contents are accessed by raw pointers only; the
// ring's protocol says which side owns each part.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Creates zeroed memory for sharing, with a sealed size. Returns a mapping, and a second open file of the memory for the peer. The
    /// peer must not get the first open file, which is from `memfd_create(2)`: the kernel ignores such a file when it checks for other open
    /// files before a lease. If the memory cannot be opened a second time, returns a copy of the first open file.
    pub(super) fn create(name: &CStr, len: usize) -> io::Result<(Region, OwnedFd)> {
        // SAFETY: the name is a string that ends with a zero.
        let fd = sys::check(unsafe {
            libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
        } as isize)?;
        // SAFETY: the descriptor is new and has no other owner.
        let file = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        let size = libc::off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: no memory is involved.
        sys::check(unsafe { libc::ftruncate(file.as_raw_fd(), size) } as isize)?;
        // More seals follow after the peer has mapped it ([`seal`]).
        add_seals(file.as_fd(), libc::F_SEAL_SHRINK | libc::F_SEAL_GROW)?;
        let shared = again(file.as_fd()).or_else(|_| file.try_clone())?;
        Ok((Region::map(file.as_fd(), len)?, shared))
    }

    /// Maps `len` bytes of a peer's file and seals it. Memory for missing pages is reserved and counted in `account`. Without an
    /// `account`, the peer is trusted not to change the file. A malicious peer can make this call block.
    ///
    /// # Errors
    /// Returns an error text for the operators of both sides: what is wrong with the file.
    pub(super) fn of_peer(
        file: BorrowedFd<'_>,
        len: u64,
        account: Option<&Account>,
    ) -> Result<Region, String> {
        let trusted = account.is_none();
        let unknown = |e: io::Error| format!("its properties cannot be read: {e}");
        let system = files::file_system(file).map_err(unknown)?;
        let (size, _) = sizes(file).map_err(unknown)?;
        let seals = seals(file).unwrap_or(0);
        if len == 0 || len > size {
            return Err(format!("the peer announced {len} bytes, but the memory has {size} bytes"));
        }
        if !trusted {
            let refused = |why: &str| {
                Err(format!("{why}; only a peer of a \"trusted\" interface may provide such memory"))
            };
            if len > MOST {
                return Err(format!(
                    "it has {len} bytes; an untrusted peer may provide at most {MOST} bytes"
                ));
            }
            if seals & libc::F_SEAL_SHRINK == 0 {
                return refused("it is not sealed against shrinking (F_SEAL_SHRINK)");
            }
            if system != libc::TMPFS_MAGIC {
                return refused("it uses huge pages, which may run out");
            }
            if seals & libc::F_SEAL_SEAL != 0 {
                return refused(
                    "it cannot be sealed against the removal of pages, because it forbids further seals (F_SEAL_SEAL)",
                );
            }
            if seals & libc::F_SEAL_FUTURE_WRITE != 0 {
                return Err("it is sealed against writing, most likely by an earlier attempt to connect: a client must create new memory".into());
            }
            // Waits here until a removal of pages ends. If this thread waited while it maps the file, other threads would wait for this
            // thread.
            add_seals(file, libc::F_SEAL_SHRINK).map_err(|e| format!("it cannot be sealed: {e}"))?;
        }
        let len =
            usize::try_from(len).map_err(|_| "it is larger than this machine's address space".to_string())?;
        let mut region = Region::map(file, len).map_err(|e| format!("it cannot be mapped: {e}"))?;
        if let Some(account) = account {
            seal(file)?;
            let holes = holes(file, len as u64).map_err(unknown)?;
            let holes = Promise::to_stranger(holes, account).map_err(|e| e.to_string())?;
            region.holes = Some(Arc::new(holes));
        } else {
            // A trusted peer may forbid seals. The router trusts it not to shrink the file.
            let _ = add_seals(file, libc::F_SEAL_SHRINK);
        }
        Ok(region)
    }

    fn map(file: BorrowedFd<'_>, len: usize) -> io::Result<Region> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let base =
            unsafe { libc::mmap(ptr::null_mut(), len, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region {
            base,
            len,
            holes: None,
            #[cfg(miri)]
            heap: None,
        })
    }

    /// Writes a zero to every page, so that the kernel allocates all pages. The contents must be zeros, and no peer must have the memory
    /// yet.
    pub(super) fn touch(&self) {
        for at in (0..self.len).step_by(SMALL) {
            // SAFETY: the address is within the mapping, and nobody else uses it.
            unsafe { self.base.add(at).write_volatile(0) };
        }
    }

    /// Returns the reservation for missing pages; `None` unless the memory is that of an untrusted peer.
    pub(super) fn promise(&self) -> Option<Arc<Promise>> {
        self.holes.clone()
    }

    /// Returns the address of `len` bytes at `offset`; `None` if they do not lie within the region.
    #[inline(always)]
    pub(super) fn at(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        // SAFETY: offset ≤ self.len, so the address lies within the mapping or at its end.
        inside.then(|| unsafe { self.base.add(offset) })
    }
}

#[cfg(not(miri))]
impl Drop for Region {
    fn drop(&mut self) {
        let (base, len) = (self.base.as_ptr() as usize, self.len);
        // If the peer no longer has the memory, this frees it.
        discard::elsewhere(move || {
            // SAFETY: the mapping is ours. All users of addresses in it hold the regions, see `Ring`: no user is
            // left.
            unsafe { libc::munmap(base as *mut libc::c_void, len) };
        });
    }
}

/// Heap memory that replaces files in tests under Miri, which does not support mappings.
#[cfg(miri)]
mod heap {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;
    use std::sync::Arc;

    use super::Region;

    pub(super) struct Heap(NonNull<u8>, Layout);

    // SAFETY: the memory belongs to no thread.
    unsafe impl Send for Heap {}
    // SAFETY: as above.
    unsafe impl Sync for Heap {}

    impl Drop for Heap {
        fn drop(&mut self) {
            // SAFETY: it was allocated with this layout, by `pair`, and this is the last that has it.
            unsafe { dealloc(self.0.as_ptr(), self.1) };
        }
    }

    impl Region {
        /// Returns two regions with the same memory, one for each side.
        pub(in crate::memif) fn pair(len: usize) -> [Region; 2] {
            let layout = Layout::from_size_align(len, 4096).unwrap();
            // SAFETY: a test's memory has a length.
            let base = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
            let heap = Arc::new(Heap(base, layout));
            [(); 2].map(|()| Region { base, len, holes: None, heap: Some(heap.clone()) })
        }

        /// Returns a pool's memory as a peer maps it.
        pub(in crate::memif) fn of_pool(pool: &buf::Pool) -> Region {
            let window = pool.window();
            Region { base: window.start(), len: window.len(), holes: None, heap: None }
        }
    }
}

#[cfg(all(test, not(miri)))]
impl Region {
    /// Returns the bytes reserved for missing pages.
    pub(super) fn promised(&self) -> u64 {
        self.holes.as_ref().map_or(0, |holes| holes.bytes())
    }

    /// Returns two mappings of the same memory, one for each side.
    pub(super) fn pair(len: usize) -> [Region; 2] {
        let (own, file) = Region::create(c"test", len).unwrap();
        let peers = Region::of_peer(file.as_fd(), len as u64, Some(&Account::default())).unwrap();
        [own, peers]
    }

    /// Returns a pool's memory as a peer maps it.
    pub(super) fn of_pool(pool: &buf::Pool) -> Region {
        let file = pool.file().unwrap();
        Region::of_peer(file.as_fd(), pool.window().len() as u64, None).unwrap()
    }
}

/// Maximum number of bytes for the loop in [`copy`]. `memcpy` copies more bytes faster.
const BY_HAND: usize = 256;

/// Copies `len` bytes between private memory and memory shared with a peer. If the peer writes there at the same
/// time, the copied bytes may be anything, but no other memory is read or written.
///
/// # Safety
/// `from` can be read and `to` written for `len` bytes, and the two do not overlap.
#[inline(always)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    if !(16..=BY_HAND).contains(&len) {
        // SAFETY: guaranteed by the caller.
        return unsafe { copy_rest(from, to, len) };
    }
    let last = len - 16;
    // SAFETY: every caller passes a place of at most len - 16.
    let block = |at: usize| unsafe {
        to.add(at).cast::<u128>().write_unaligned(from.add(at).cast::<u128>().read_unaligned());
    };
    // Four blocks that may overlap cover any packet of 16 to 64 bytes without a branch.
    let tail = last.saturating_sub(48);
    let mut at = 0;
    while at < tail {
        block(at);
        at += 16;
    }
    block(tail);
    block((tail + 16).min(last));
    block((tail + 32).min(last));
    block(last);
}

/// Copies `len` bytes, for lengths that the loop in [`copy`] does not handle.
///
/// # Safety
/// As for [`copy`].
#[cold]
#[inline(never)]
unsafe fn copy_rest(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { ptr::copy_nonoverlapping(from, to, len) }
}
