//! Memory shared with the kernel.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;

use super::sys::Plain;

/// The mapped ring of a socket. The kernel writes to it at any time; atomic words mark the owner of each part.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; only its owner reads and unmaps it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes of the ring that `socket` has at `offset`.
    pub(crate) fn new(socket: BorrowedFd<'_>, offset: libc::off_t, len: usize) -> io::Result<Mapping> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, socket.as_raw_fd(), offset) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, len })
    }

    fn at(&self, at: usize, len: usize) -> Option<*mut u8> {
        let inside = at.checked_add(len).is_some_and(|end| end <= self.len);
        // SAFETY: at ≤ len, the length of the mapping.
        inside.then(|| unsafe { self.base.as_ptr().add(at) })
    }

    /// Returns the atomic word at offset `at`, a multiple of 4; `None` if it is outside of the mapping. Such words mark the owner of a
    /// part of the ring.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> Option<&AtomicU32> {
        let word = self.at(at, 4)?.cast::<u32>();
        // SAFETY: within the mapping, which lives as long as self; both sides access such words atomically only.
        word.is_aligned().then(|| unsafe { AtomicU32::from_ptr(word) })
    }

    /// Returns a copy of the header at offset `at`; `None` if it is outside of the mapping. If the kernel owns that part of the ring, it
    /// may write the header at the same time: any bits are a valid `T`.
    #[inline]
    pub(crate) fn read<T: Plain>(&self, at: usize) -> Option<T> {
        let from = self.at(at, size_of::<T>())?.cast::<T>();
        // SAFETY: within the mapping, initialized by the kernel, and any bits are a valid T.
        Some(unsafe { ptr::read_unaligned(from) })
    }

    /// Writes a header.
    ///
    /// # Safety
    /// No reference to these bytes exists. (The kernel may read them at the same time, which does no harm.)
    #[inline]
    pub(crate) unsafe fn write<T: Plain>(&self, at: usize, value: T) {
        if let Some(to) = self.at(at, size_of::<T>()) {
            // SAFETY: within the mapping, and no reference to it exists, as the caller guarantees.
            unsafe { ptr::write_unaligned(to.cast::<T>(), value) };
        }
    }

    /// Returns the `len` bytes at offset `at`; `None` if they are outside of the mapping.
    ///
    /// # Safety
    /// The kernel has given this part of the ring to user space, and does not get it back while the bytes are
    /// borrowed.
    #[inline]
    pub(crate) unsafe fn bytes(&self, at: usize, len: usize) -> Option<&[u8]> {
        let first = self.at(at, len)?;
        // SAFETY: within the mapping, initialized, and the kernel does not write there, as the caller guarantees.
        Some(unsafe { std::slice::from_raw_parts(first, len) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrowed from it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}
