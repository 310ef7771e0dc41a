//! An event descriptor shared with a peer.
//!
//! Closing the last copy of the descriptor may block forever (see `kernel::apart`). So the connection's thread, which may hang, keeps a
//! copy until all others are closed. The other copies are closed on a separate thread too (`kernel::discard`), because each close may take
//! milliseconds: all event descriptors of a machine share one inode, and a peer may hold very many locks on that inode.

use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::channel::Pass;
use crate::kernel::discard;

/// An event descriptor shared with a peer.
#[derive(Debug)]
pub(super) struct Bell {
    file: ManuallyDrop<OwnedFd>,
    /// While this reference exists, the connection's thread keeps its copy of the descriptor.
    pass: Option<Arc<Pass>>,
}

impl Bell {
    /// Wraps a descriptor. The thread at the other end of `pass` keeps a copy of it.
    pub(super) fn new(file: OwnedFd, pass: &Arc<Pass>) -> Bell {
        Bell { file: ManuallyDrop::new(file), pass: Some(pass.clone()) }
    }

    /// Wraps a descriptor that no peer has.
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
