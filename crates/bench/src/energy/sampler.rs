//! Takes readings periodically while a trial runs.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Fault;

/// A source that takes and stores readings.
pub(super) trait Sample: Send + 'static {
    /// Takes one reading.
    fn sample(&mut self) -> Result<(), Fault>;
}

/// A thread that takes readings at an interval, until it is stopped or dropped, or a reading fails.
pub(super) struct Sampler<S> {
    stop: Sender<()>,
    thread: JoinHandle<(S, Result<(), Fault>)>,
}

impl<S: Sample> Sampler<S> {
    /// Takes a reading now, and then one at each `interval` on a thread.
    ///
    /// # Errors
    /// Returns an error if the first reading fails, or the thread cannot be started.
    pub fn start(mut what: S, interval: Duration) -> Result<Sampler<S>, Fault> {
        what.sample()?;
        let (stop, stopped) = channel();
        let run = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(interval) {
                if let Err(fault) = what.sample() {
                    return (what, Err(fault));
                }
            }
            (what, Ok(()))
        };
        let thread = std::thread::Builder::new().name("meter".into()).spawn(run);
        let thread = thread.map_err(|e| Fault(format!("cannot start the meter's thread: {e}")))?;
        Ok(Sampler { stop, thread })
    }

    /// Stops the thread, takes a last reading, and returns the source.
    ///
    /// # Errors
    /// Returns the error of the first failed reading.
    pub fn stop(self) -> Result<S, Fault> {
        drop(self.stop);
        let ended =
            self.thread.join().map_err(|_| Fault("internal error: the meter's thread panicked".into()))?;
        let (mut what, in_between) = ended;
        in_between?;
        what.sample()?;
        Ok(what)
    }
}
