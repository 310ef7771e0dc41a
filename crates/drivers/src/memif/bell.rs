//! An event descriptor that a peer has as well.
//!
//! To close the last copy of it may take for ever (see `kernel::apart`). So the thread of the connection keeps one until
//! all others are closed, and is the one that may hang.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::channel::Pass;

/// An event descriptor that a peer has as well.
#[derive(Debug)]
pub(super) struct Bell {
    file: OwnedFd,
    /// Dropped behind the file: as long as anybody has it, the thread keeps its copy.
    _pass: Option<Arc<Pass>>,
}

impl Bell {
    /// Takes a descriptor of which the thread at the other end of `pass` keeps a copy.
    pub(super) fn new(file: OwnedFd, pass: &Arc<Pass>) -> Bell {
        Bell { file, _pass: Some(pass.clone()) }
    }

    /// Takes one that no peer has.
    #[cfg(test)]
    pub(super) fn alone(file: OwnedFd) -> Bell {
        Bell { file, _pass: None }
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
