//! The generator: its streams, and the queue that builds their packets.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use buf::{Cache, Frame, Gone, RxQueue};
use infra::clock;

use super::compile::{Maker, check_stream};
use super::stream::{Stream, StreamError};
use crate::pace::Pace;
use crate::pcap::Recording;

/// Stream state shared by the operator's handle and the queue.
#[derive(Default)]
struct Switch {
    enabled: AtomicBool,
    removed: AtomicBool,
    sent: AtomicU64,
}

/// State of a stream, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamState {
    /// The name of the stream.
    pub name: String,
    /// True if the stream is enabled.
    pub enabled: bool,
    /// Number of packets built since the stream was added, or since it was enabled again after its limit.
    pub sent: u64,
    /// Number of packets after which the stream ends; `None` means no limit.
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
    /// Number of times that `lists` has changed. A poll compares it with the number at the previous poll, without taking the lock.
    version: AtomicU64,
    lists: Mutex<Lists>,
}

#[derive(Default)]
struct Lists {
    known: Vec<(Stream, Arc<Switch>)>,
    /// New streams that their queues have not taken yet, each with the number of its queue.
    new: Vec<(usize, Running)>,
}

/// The operator's handle of a generator. Clones share it.
///
/// After adding or enabling a stream, the caller must wake the worker.
#[derive(Clone, Default)]
pub struct Generator(Arc<Shared>);

impl Generator {
    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.0.lists.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a stream, disabled.
    ///
    /// # Errors
    /// If a stream with this name exists, or the stream's description is invalid.
    pub fn add(&self, stream: Stream) -> Result<(), StreamError> {
        let source = Source::of(&stream)?;
        let mut lists = self.lists();
        if lists.known.iter().any(|(s, _)| s.name == stream.name) {
            return Err(StreamError(format!("stream {}: the name is taken: choose another", stream.name)));
        }
        let switch = Arc::<Switch>::default();
        let running = Running {
            source,
            pace: stream.rate_pps.map(|pps| Pace::new(pps, stream.vector)),
            vector: stream.vector,
            limit: stream.limit.unwrap_or(u64::MAX),
            switch: Arc::clone(&switch),
        };
        lists.new.push((stream.queue, running));
        lists.known.push((stream, switch));
        self.0.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Removes a stream. Returns `false` if no stream has this name.
    pub fn remove(&self, name: &str) -> bool {
        let mut lists = self.lists();
        let Some(at) = lists.known.iter().position(|(s, _)| s.name == name) else { return false };
        let (_, switch) = lists.known.remove(at);
        switch.removed.store(true, Ordering::Relaxed);
        switch.enabled.store(false, Ordering::Relaxed);
        self.0.version.fetch_add(1, Ordering::Release);
        true
    }

    /// Enables or disables a stream, or all streams if `name` is `None`. Returns `false` if there is no such stream.
    /// Enabling a stream that has reached its limit restarts it.
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

    /// Returns the state of all streams.
    pub fn streams(&self) -> Vec<StreamState> {
        let state = |(stream, switch): &(Stream, Arc<Switch>)| StreamState {
            name: stream.name.clone(),
            enabled: switch.enabled.load(Ordering::Relaxed),
            sent: switch.sent.load(Ordering::Relaxed),
            limit: stream.limit,
        };
        self.lists().known.iter().map(state).collect()
    }

    /// True if a stream is enabled.
    pub fn is_running(&self) -> bool {
        self.lists().known.iter().any(|(_, switch)| switch.enabled.load(Ordering::Acquire))
    }

    /// Returns the receive queue with this number. Call this only once for each number, because the queue takes over its streams.
    pub(super) fn rx(&self, number: usize) -> PgRx {
        PgRx { generator: self.clone(), number, version: 0, streams: Vec::new(), next: 0 }
    }
}

/// The source of a stream's packets.
enum Source {
    Made(Box<Maker>),
    /// A recording, and the index of its next packet.
    Recorded(Arc<Recording>, usize),
}

impl Source {
    fn of(stream: &Stream) -> Result<Source, StreamError> {
        let Some(recording) = &stream.recorded else {
            return Maker::new(stream).map(Box::new).map(Source::Made);
        };
        check_stream(stream)?;
        if recording.is_empty() {
            return Err(StreamError(format!("stream {}: the file has no packet", stream.name)));
        }
        Ok(Source::Recorded(Arc::clone(recording), 0))
    }

    /// Appends up to `n` packets to a frame. Returns their number.
    fn fill(&mut self, frame: &mut Frame, cache: &mut Cache, n: usize) -> usize {
        match self {
            Source::Made(maker) => {
                let first = frame.len();
                let n = frame.alloc(cache, n);
                for mut packet in frame.packets().skip(first) {
                    let len = maker.make(packet.room_mut());
                    packet.set_len(len);
                }
                n
            }
            Source::Recorded(recording, next) => {
                let mut filled = 0;
                while filled < n && recording.append(*next, frame, cache) {
                    *next = if *next + 1 < recording.len() { *next + 1 } else { 0 };
                    filled += 1;
                }
                filled
            }
        }
    }
}

/// A stream whose packets a queue builds.
struct Running {
    source: Source,
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
        let n = self.source.fill(frame, cache, n);
        // Only this thread increases the count. The operator's handle resets it only while the stream is disabled.
        self.switch.sent.store(sent + n as u64, Ordering::Relaxed);
        if sent + n as u64 >= self.limit {
            self.switch.enabled.store(false, Ordering::Release);
        }
    }
}

/// A receive queue. Each poll builds packets of one stream, and the next poll those of the next stream, so that each stream keeps
/// its vector size.
pub struct PgRx {
    generator: Generator,
    number: usize,
    version: u64,
    streams: Vec<Running>,
    next: usize,
}

impl PgRx {
    #[cold]
    fn take_over(&mut self, version: u64) {
        self.streams.retain(|s| !s.switch.removed.load(Ordering::Relaxed));
        let mut lists = self.generator.lists();
        self.streams.extend(lists.new.extract_if(.., |(queue, _)| *queue == self.number).map(|(_, new)| new));
        drop(lists);
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
