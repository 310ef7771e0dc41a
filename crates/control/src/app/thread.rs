//! Work on other threads, which the main thread does not wait for.

use std::thread::{self, JoinHandle};

use drivers::{Patience, Waiter};

use super::Failure;

/// A thread that returns a result.
pub(crate) type Thread<T, E = Failure> = JoinHandle<Result<T, E>>;

/// Starts work on another thread.
///
/// # Errors
/// If the thread cannot be started.
pub(crate) fn on_a_thread<T: Send + 'static, E: Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<Thread<T, E>, Failure> {
    let thread = thread::Builder::new().name("volley_config".into()).spawn(work);
    thread.map_err(|e| format!("no thread can be started: {e}").into())
}

/// Returns the result of a thread that has ended.
///
/// # Errors
/// The error of the thread, or an internal error if the thread panicked.
pub(crate) fn joined<T, E: From<Failure>>(thread: Thread<T, E>) -> Result<T, E> {
    thread.join().unwrap_or_else(|_| {
        Err(Failure::from("internal error: a configuration thread died".to_string()).into())
    })
}

/// A thread that reads files for a client. When this value is dropped, nobody needs the files, and the thread reads no further.
pub(crate) struct FileThread<T, E = Failure> {
    thread: Thread<T, E>,
    waiter: Waiter,
}

impl<T: Send + 'static, E: From<Failure> + Send + 'static> FileThread<T, E> {
    /// Starts a thread that reads files.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn begin(
        read: impl FnOnce(&Patience) -> Result<T, E> + Send + 'static,
    ) -> Result<FileThread<T, E>, Failure> {
        FileThread::with(Patience::without_end(), read)
    }

    /// Starts a thread that reads files with this patience.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn with(
        patience: Patience,
        read: impl FnOnce(&Patience) -> Result<T, E> + Send + 'static,
    ) -> Result<FileThread<T, E>, Failure> {
        let waiter = Waiter(patience.clone());
        Ok(FileThread { thread: on_a_thread(move || read(&patience))?, waiter })
    }

    /// Continues with the result on another thread, and with the same patience.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn then<U: Send + 'static>(
        self,
        work: impl FnOnce(T, &Patience) -> Result<U, E> + Send + 'static,
    ) -> Result<FileThread<U, E>, Failure> {
        let FileThread { thread, waiter } = self;
        let patience = waiter.0.clone();
        Ok(FileThread { thread: on_a_thread(move || work(joined(thread)?, &patience))?, waiter })
    }

    /// True if the thread has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Returns the result of a thread that has ended.
    ///
    /// # Errors
    /// As [`joined`].
    pub(crate) fn joined(self) -> Result<T, E> {
        joined(self.thread)
    }
}

/// Frees large data on another thread, because freeing the data takes as long as creating it.
pub(crate) fn let_go(much: impl Send + 'static) {
    // If the thread cannot be started, the data is freed here.
    drop(thread::Builder::new().name("volley_config".into()).spawn(move || drop(much)));
}
