//! An event descriptor that a peer has as well.
//!
//! To close it may take for ever (see `kernel::closing`). So nobody closes it who has other work: the descriptors of a
//! connection are collected, and closed by a thread of their own when the last of them is given up.

use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use super::channel::Porters;
use crate::kernel::closing;

/// An event descriptor that a peer has as well.
#[derive(Debug)]
pub(super) struct Bell {
    file: ManuallyDrop<OwnedFd>,
    home: Arc<Home>,
}

/// Where the descriptors of a connection go when they are given up.
#[derive(Debug, Default)]
pub(super) struct Home {
    given_up: Mutex<Vec<OwnedFd>>,
    porters: Porters,
}

impl Home {
    /// The thread that closes them will be one of `porters`.
    pub(super) fn new(porters: &Porters) -> Arc<Home> {
        Arc::new(Home { given_up: Mutex::default(), porters: porters.clone() })
    }
}

impl Bell {
    pub(super) fn new(file: OwnedFd, home: &Arc<Home>) -> Bell {
        Bell { file: ManuallyDrop::new(file), home: home.clone() }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // SAFETY: it is taken once, here.
        let file = unsafe { ManuallyDrop::take(&mut self.file) };
        self.home.given_up.lock().unwrap_or_else(|e| e.into_inner()).push(file);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let files = mem::take(self.given_up.get_mut().unwrap_or_else(|e| e.into_inner()));
        closing::close(files, self.porters.closing());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::sys;
    use std::os::fd::AsRawFd;
    use std::thread;
    use std::time::{Duration, Instant};

    #[test]
    fn descriptors_are_closed_by_another_thread_when_the_last_one_is_given_up() {
        let porters = Porters::default();
        let home = Home::new(&porters);
        let [a, b] = [(); 2].map(|()| Bell::new(sys::eventfd().unwrap(), &home));
        drop(home);
        let number = a.as_fd().as_raw_fd();
        let open = || std::fs::exists(format!("/proc/self/fd/{number}")).unwrap();
        drop(a);
        assert!(open(), "nobody has closed it yet");
        drop(b);
        let end = Instant::now() + Duration::from_secs(20);
        while open() {
            assert!(Instant::now() < end);
            thread::yield_now();
        }
    }
}
