//! An event descriptor that a peer has as well.
//!
//! To close the last copy of it may take for ever (see `kernel::apart`). So the thread of the connection keeps one until
//! all others are closed, and is the one that may hang. The others are closed by a thread, too: where somebody has very many
//! locks on event descriptors (all of a machine share one inode), that takes some milliseconds each.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::channel::Pass;
use crate::kernel::discard;

/// An event descriptor that a peer has as well.
#[derive(Debug)]
pub(super) struct Bell {
    file: ManuallyDrop<OwnedFd>,
    /// As long as anybody has it, the thread keeps its copy.
    pass: Option<Arc<Pass>>,
}

impl Bell {
    /// Takes a descriptor of which the thread at the other end of `pass` keeps a copy.
    pub(super) fn new(file: OwnedFd, pass: &Arc<Pass>) -> Bell {
        Bell { file: ManuallyDrop::new(file), pass: Some(pass.clone()) }
    }

    /// Takes one that no peer has.
    #[cfg(test)]
    pub(super) fn alone(file: OwnedFd) -> Bell {
        Bell { file: ManuallyDrop::new(file), pass: None }
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
        let pass = self.pass.take();
        if cfg!(miri) {
            return drop((file, pass));
        }
        discard::elsewhere(move || {
            drop(file);
            drop(pass);
        });
    }
}
