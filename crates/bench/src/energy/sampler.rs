//! Reads something again and again while a trial runs.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Fault;

/// What can be read, and remembers what it read.
pub(super) trait Sample: Send + 'static {
    /// Reads once.
    fn sample(&mut self) -> Result<(), Fault>;
}

/// A thread that reads at an interval, until it is stopped or dropped.
pub(super) struct Sampler<S> {
    stop: Sender<()>,
    thread: JoinHandle<(S, Result<(), Fault>)>,
}

impl<S: Sample> Sampler<S> {
    /// Reads at once, and then at each `interval` in a thread of its own.
    ///
    /// # Errors
    /// When the first reading fails, or there is no thread to be had.
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
        let thread = thread.map_err(|e| Fault(format!("no thread for the meter: {e}")))?;
        Ok(Sampler { stop, thread })
    }

    /// Reads for the last time, and gives what was read.
    ///
    /// # Errors
    /// The first reading that failed.
    pub fn stop(self) -> Result<S, Fault> {
        drop(self.stop);
        let ended = self.thread.join().map_err(|_| Fault("the meter's thread failed".into()))?;
        let (mut what, in_between) = ended;
        in_between?;
        what.sample()?;
        Ok(what)
    }
}
