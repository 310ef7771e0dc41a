//! Zeroed arrays. Their pages take memory only after the first write.

use crate::sync::{Arc, atomic};
use std::{io, ops::Deref, ptr::NonNull};

/// Types for which memory of all zero bytes is a valid value, equal to [`zero`](Self::zero).
///
/// # Safety
/// All zero bytes must be a valid value of the type, and the type must not need `Drop`. (Under loom the array
/// is built from `zero()` instead, so loom's atomics may implement this.)
pub unsafe trait ZeroValid: Sized + 'static {
    /// The value that zeroed memory holds.
    fn zero() -> Self;
}

macro_rules! zero_valid {
    ($($t:ty),*) => { $(
        // SAFETY: plain integers, or atomics that have the layout of plain integers; zero is valid; no Drop.
        unsafe impl ZeroValid for $t {
            fn zero() -> Self {
                Self::default()
            }
        }
    )* };
}
zero_valid!(u8, u16, u32, u64, usize);
zero_valid!(atomic::AtomicU8, atomic::AtomicU16, atomic::AtomicU32, atomic::AtomicU64, atomic::AtomicUsize);

// SAFETY: AtomicPtr has the layout of a pointer, for which null is valid; it does not drop its target.
unsafe impl<T: 'static> ZeroValid for atomic::AtomicPtr<T> {
    fn zero() -> Self {
        Self::new(std::ptr::null_mut())
    }
}

/// The page size of a large array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Huge pages if the kernel has free ones. They are the fastest, but the first write takes 2 MiB.
    Huge,
    /// Small pages, except after [`Zeroed::make_huge`]: for arrays that may be numerous and nearly empty.
    Small,
}

/// An array of `n` zeroed `T` that never moves. A page of it takes memory only after its first write.
pub struct Zeroed<T> {
    base: NonNull<T>,
    len: usize,
}

// SAFETY: Zeroed owns its elements exactly as a Box<[T]> does.
unsafe impl<T: Send> Send for Zeroed<T> {}
// SAFETY: as above; a shared Zeroed only gives out &[T].
unsafe impl<T: Sync> Sync for Zeroed<T> {}

#[cfg(not(any(miri, feature = "loom")))]
impl<T: ZeroValid> Zeroed<T> {
    /// Reserves an array of `n` elements. An array of 2 MiB or more is aligned to 2 MiB.
    ///
    /// # Errors
    /// Fails if the size overflows or the kernel refuses the address range.
    pub fn with_pages(n: usize, pages: Pages) -> io::Result<Self> {
        const { assert!(!std::mem::needs_drop::<T>() && align_of::<T>() <= 4096) };
        let bytes = Self::bytes(n).ok_or(io::ErrorKind::OutOfMemory)?;
        let large = bytes >= super::HUGE;
        let mapped = if large { bytes + super::HUGE } else { bytes };
        // SAFETY: a fresh private anonymous mapping at an address of the kernel's choice touches nothing of ours.
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            let what = "address space for a table (set vm.overcommit_memory to 0 or 1, and no limit on address space)";
            return Err(super::refused(what, mapped, &io::Error::last_os_error()));
        }
        let mut base: NonNull<u8> = NonNull::new(p.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        if large {
            let front = base.align_offset(super::HUGE);
            let advice = match pages {
                Pages::Huge => libc::MADV_HUGEPAGE,
                Pages::Small => libc::MADV_NOHUGEPAGE,
            };
            let end = front + bytes.next_multiple_of(super::SMALL);
            // SAFETY: less than HUGE bytes before the array, the array, and the bytes after its last page are
            // all in the range mapped above, which has no users yet. The rest is only advice: a failure only
            // affects speed.
            unsafe {
                base = base.add(front);
                if front > 0 {
                    libc::munmap(p, front);
                }
                if end < mapped {
                    libc::munmap(p.add(end), mapped - end);
                }
                libc::madvise(base.as_ptr().cast(), bytes, advice);
            }
        }
        Ok(Self { base: base.cast(), len: n })
    }
}

#[cfg(not(any(miri, feature = "loom")))]
impl<T> Zeroed<T> {
    /// Moves the 2 MiB at offset `HUGE * place` of a large array into one huge page, if the kernel has one. The kernel copies the present
    /// contents; meanwhile, for about 0.1 ms, readers of these 2 MiB wait. If the last part of the array is shorter than 2 MiB, it keeps
    /// its pages.
    pub fn make_huge(&self, place: usize) {
        let bytes = self.len * size_of::<T>();
        let Some(start) =
            place.checked_mul(super::HUGE).filter(|s| bytes >= super::HUGE && *s <= bytes - super::HUGE)
        else {
            return;
        };
        // SAFETY: the range is inside the array's mapping. Both calls are advice that changes no byte of it:
        // huge pages from now on, and one for the present contents (since Linux 6.1; earlier kernels do so
        // later).
        unsafe {
            let at = self.base.as_ptr().cast::<u8>().add(start).cast();
            libc::madvise(at, super::HUGE, libc::MADV_HUGEPAGE);
            libc::madvise(at, super::HUGE, libc::MADV_COLLAPSE);
        }
    }

    /// Returns the number of bytes to map for `n` elements: at least one, because an empty mapping is an
    /// error; `None` if there are too many elements.
    fn bytes(n: usize) -> Option<usize> {
        n.checked_mul(size_of::<T>()).map(|b| b.max(1)).filter(|&b| b <= isize::MAX as usize)
    }
}

#[cfg(not(any(miri, feature = "loom")))]
impl<T> Drop for Zeroed<T> {
    fn drop(&mut self) {
        if let Some(bytes) = Self::bytes(self.len) {
            // SAFETY: new() mapped exactly this range; nothing borrows from self any more. T needs no Drop.
            unsafe { libc::munmap(self.base.as_ptr().cast(), bytes) };
        }
    }
}

#[cfg(any(miri, feature = "loom"))]
impl<T: ZeroValid> Zeroed<T> {
    /// Allocates an array of `n` elements.
    ///
    /// # Errors
    /// Never fails with this backend. The signature is that of the mapped backend.
    pub fn with_pages(n: usize, _: Pages) -> io::Result<Self> {
        let elements: Box<[T]> = std::iter::repeat_with(T::zero).take(n).collect();
        let base = NonNull::from(Box::leak(elements)).cast();
        Ok(Self { base, len: n })
    }
}

#[cfg(any(miri, feature = "loom"))]
impl<T> Zeroed<T> {
    /// Does nothing: this backend has no pages.
    pub fn make_huge(&self, _: usize) {}
}

#[cfg(any(miri, feature = "loom"))]
impl<T> Drop for Zeroed<T> {
    fn drop(&mut self) {
        // SAFETY: new() leaked exactly this boxed slice; nothing borrows from self any more.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.base.as_ptr(), self.len)) });
    }
}

impl<T: ZeroValid> Zeroed<T> {
    /// Reserves an array of `n` elements, of huge pages if it is large.
    ///
    /// # Errors
    /// See [`with_pages`](Self::with_pages).
    pub fn new(n: usize) -> io::Result<Self> {
        Self::with_pages(n, Pages::Huge)
    }

    /// Turns the array into a handle that can be cloned, so that several threads can share it.
    pub fn share(self) -> SharedZeroed<T> {
        SharedZeroed { base: self.base, len: self.len, owner: Arc::new(self) }
    }
}

impl<T> Deref for Zeroed<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: base points to len valid elements that live as long as self; &mut only through &mut self.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl<T> std::ops::DerefMut for Zeroed<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in deref; &mut self proves that there is no other access.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

/// A shared handle on a [`Zeroed`] array. It contains the array's address itself, so that an access takes one
/// load, not two.
pub struct SharedZeroed<T> {
    base: NonNull<T>,
    len: usize,
    owner: Arc<Zeroed<T>>,
}

impl<T> SharedZeroed<T> {
    /// See [`Zeroed::make_huge`].
    pub fn make_huge(&self, place: usize) {
        self.owner.make_huge(place);
    }
}

impl<T> Clone for SharedZeroed<T> {
    fn clone(&self) -> Self {
        Self { base: self.base, len: self.len, owner: self.owner.clone() }
    }
}

// SAFETY: as Arc<[T]>: handles on several threads give out &T.
unsafe impl<T: Send + Sync> Send for SharedZeroed<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for SharedZeroed<T> {}

impl<T> Deref for SharedZeroed<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the owner keeps the elements alive and in place, and a shared array has no &mut.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn starts_zeroed_and_keeps_written_values() {
        let mut a = Zeroed::<u32>::new(1000).unwrap();
        assert!(a.len() == 1000 && a.iter().all(|&x| x == 0));
        a[999] = 7;
        assert_eq!(a[999], 7);
        assert!(Zeroed::<u64>::new(0).unwrap().is_empty());
    }

    /// Returns how many bytes of a large array are in memory.
    #[cfg(not(miri))]
    fn present<T>(a: &Zeroed<T>) -> usize {
        let bytes = a.len * size_of::<T>();
        let mut present = vec![0u8; bytes.div_ceil(crate::mem::SMALL)];
        // SAFETY: the range is the array's, and there is a byte for each of its pages.
        let rc = unsafe { libc::mincore(a.base.as_ptr().cast(), bytes, present.as_mut_ptr()) };
        assert_eq!(rc, 0);
        present.iter().filter(|&&p| p & 1 != 0).count() * crate::mem::SMALL
    }

    #[test]
    #[cfg(not(miri))]
    fn a_large_array_takes_no_memory_until_touched() {
        for (pages, most) in [(Pages::Huge, crate::mem::HUGE), (Pages::Small, crate::mem::SMALL)] {
            let a = Zeroed::<AtomicU64>::with_pages((1 << 27) + 5, pages).unwrap();
            assert!(a.base.as_ptr().cast::<u8>().align_offset(crate::mem::HUGE) == 0);
            a[1 << 26].store(1, Relaxed);
            a[(1 << 27) + 4].store(1, Relaxed);
            let bytes = present(&a);
            assert!((1..=most + crate::mem::SMALL).contains(&bytes), "{bytes}");
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn huge_pages_keep_the_content() {
        use crate::mem::{HUGE, SMALL};
        let a = Zeroed::<AtomicU64>::with_pages(2 * HUGE / 8 + 1, Pages::Small).unwrap();
        for at in (0..HUGE / 8).step_by(1000) {
            a[at].store(at as u64 + 1, Relaxed);
        }
        a[HUGE / 8].store(5, Relaxed);
        for place in [0, 2, 3, usize::MAX] {
            a.make_huge(place);
        }
        assert!(
            (0..HUGE / 8).all(|at| a[at].load(Relaxed) == if at % 1000 == 0 { at as u64 + 1 } else { 0 })
        );
        assert_eq!(a[HUGE / 8].load(Relaxed), 5);
        // Without a free huge page in the kernel, the size is unchanged.
        assert!([HUGE, HUGE + SMALL].contains(&present(&a)), "{}", present(&a));
    }

    #[test]
    #[cfg(not(miri))]
    fn an_impossible_size_is_an_error() {
        assert!(Zeroed::<u64>::new(usize::MAX / 4).is_err());
        assert!(Zeroed::<u64>::new(1 << 59).is_err());
    }

    #[test]
    fn handles_share_one_array() {
        let a = Zeroed::<AtomicU64>::new(4).unwrap().share();
        let b = a.clone();
        a[1].store(5, Relaxed);
        drop(a);
        assert_eq!(b[1].load(Relaxed), 5);
    }
}
