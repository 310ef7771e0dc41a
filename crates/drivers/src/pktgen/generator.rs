//! The generator: streams as the operator switches them, and the queue that makes their packets.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use buf::{Cache, Frame, Gone, RxQueue};
use infra::clock;

use super::compile::Maker;
use super::stream::{Stream, StreamError};
use crate::pace::Pace;

/// What a stream's two sides share.
#[derive(Default)]
struct Switch {
    enabled: AtomicBool,
    removed: AtomicBool,
    sent: AtomicU64,
}

/// A stream as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamState {
    /// Its name.
    pub name: String,
    /// Whether it makes packets.
    pub enabled: bool,
    /// Packets it made so far.
    pub sent: u64,
    /// When it ends.
    pub limit: Option<u64>,
}

impl fmt::Display for StreamState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.enabled { "enabled" } else { "disabled" };
        write!(f, "{} {state}, {} packets", self.name, self.sent)?;
        match self.limit {
            Some(limit) => write!(f, " of {limit}"),
            None => Ok(()),
        }
    }
}

#[derive(Default)]
struct Shared {
    /// Counts the changes of the list, so that a poll knows without the lock whether there was one.
    version: AtomicU64,
    lists: Mutex<Lists>,
}

#[derive(Default)]
struct Lists {
    known: Vec<(Stream, Arc<Switch>)>,
    /// Streams that the queue has not taken over yet.
    new: Vec<Running>,
}

/// The operator's side of a generator. Clones are the same.
///
/// Who adds or enables a stream wakes the worker afterwards: nothing else does.
#[derive(Clone, Default)]
pub struct Generator(Arc<Shared>);

impl Generator {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lists.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a stream; it makes packets once it is enabled.
    ///
    /// # Errors
    /// When there is one with this name, or it cannot be as described.
    pub fn add(&self, stream: Stream) -> Result<(), StreamError> {
        let maker = Maker::new(&stream)?;
        let mut lists = self.lists();
        if lists.known.iter().any(|(s, _)| s.name == stream.name) {
            return Err(StreamError(format!("stream {}: there is one with this name already", stream.name)));
        }
        let switch = Arc::<Switch>::default();
        lists.new.push(Running {
            maker,
            pace: stream.rate_pps.map(|pps| Pace::new(pps, stream.vector)),
            vector: stream.vector,
            limit: stream.limit.unwrap_or(u64::MAX),
            switch: Arc::clone(&switch),
        });
        lists.known.push((stream, switch));
        self.0.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Removes a stream; whether there was one.
    pub fn remove(&self, name: &str) -> bool {
        let mut lists = self.lists();
        let Some(at) = lists.known.iter().position(|(s, _)| s.name == name) else { return false };
        let (_, switch) = lists.known.remove(at);
        switch.removed.store(true, Ordering::Relaxed);
        switch.enabled.store(false, Ordering::Relaxed);
        self.0.version.fetch_add(1, Ordering::Release);
        true
    }

    /// Switches a stream, or with `None` all of them; whether there was one. A stream that had reached its limit starts
    /// anew.
    pub fn set_enabled(&self, name: Option<&str>, enabled: bool) -> bool {
        let mut any = false;
        for (stream, switch) in &self.lists().known {
            if name.is_none_or(|n| n == stream.name) {
                any = true;
                if enabled && stream.limit.is_some_and(|limit| switch.sent.load(Ordering::Relaxed) >= limit) {
                    switch.sent.store(0, Ordering::Relaxed);
                }
                switch.enabled.store(enabled, Ordering::Release);
            }
        }
        any
    }

    /// All streams as they are.
    pub fn streams(&self) -> Vec<StreamState> {
        let state = |(stream, switch): &(Stream, Arc<Switch>)| StreamState {
            name: stream.name.clone(),
            enabled: switch.enabled.load(Ordering::Relaxed),
            sent: switch.sent.load(Ordering::Relaxed),
            limit: stream.limit,
        };
        self.lists().known.iter().map(state).collect()
    }

    /// The queue. There is one: it takes the streams over.
    pub(super) fn rx(&self) -> PgRx {
        PgRx { generator: self.clone(), version: 0, streams: Vec::new(), next: 0 }
    }
}

/// A stream in the queue.
struct Running {
    maker: Maker,
    pace: Option<Pace>,
    vector: usize,
    limit: u64,
    switch: Arc<Switch>,
}

impl Running {
    fn fill(&mut self, frame: &mut Frame, cache: &mut Cache) {
        if !self.switch.enabled.load(Ordering::Acquire) {
            return;
        }
        let sent = self.switch.sent.load(Ordering::Relaxed);
        let left = usize::try_from(self.limit.saturating_sub(sent)).unwrap_or(usize::MAX);
        let mut n = self.vector.min(left);
        if let Some(pace) = &mut self.pace {
            n = pace.due(clock::tsc(), n);
        }
        let first = frame.len();
        let n = frame.alloc(cache, n);
        for mut packet in frame.packets().skip(first) {
            let len = self.maker.make(packet.room_mut());
            packet.set_len(len);
        }
        // Only this side counts up; the other resets only while the stream is disabled.
        self.switch.sent.store(sent + n as u64, Ordering::Relaxed);
        if sent + n as u64 >= self.limit {
            self.switch.enabled.store(false, Ordering::Relaxed);
        }
    }
}

/// The queue that makes the packets: one stream a poll, in turn, so that each keeps its vector size.
pub struct PgRx {
    generator: Generator,
    version: u64,
    streams: Vec<Running>,
    next: usize,
}

impl PgRx {
    #[cold]
    fn take_over(&mut self, version: u64) {
        self.streams.retain(|s| !s.switch.removed.load(Ordering::Relaxed));
        self.streams.append(&mut self.generator.lists().new);
        self.version = version;
    }
}

impl RxQueue for PgRx {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        let version = self.generator.0.version.load(Ordering::Acquire);
        if version != self.version {
            self.take_over(version);
        }
        for _ in 0..self.streams.len() {
            self.next = if self.next + 1 < self.streams.len() { self.next + 1 } else { 0 };
            if let Some(stream) = self.streams.get_mut(self.next) {
                stream.fill(frame, cache);
            }
            if !frame.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn active(&self) -> bool {
        self.version != self.generator.0.version.load(Ordering::Acquire)
            || self.streams.iter().any(|s| s.switch.enabled.load(Ordering::Acquire))
    }
}
