//! Work on other threads, which the main thread does not wait for.

use std::thread::{self, JoinHandle};

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

/// Frees large data on another thread, because freeing the data takes as long as creating it.
pub(crate) fn let_go(much: impl Send + 'static) {
    // If the thread cannot be started, the data is freed here.
    drop(thread::Builder::new().name("volley_config".into()).spawn(move || drop(much)));
}
