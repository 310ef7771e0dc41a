//! The queue that records sent packets, and the thread that writes them.
//!
//! The queue appends packets in file format to a buffer. The thread swaps the filled buffer for an empty one. The
//! lock is held for the append or the swap, never during disk writes.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use crate::kernel::behind::{Ends, Leaving, PIECE};
use buf::{Cache, Frame, Packet, TxCaps, TxQueue, Unsent};
use infra::clock::Clock;

/// Maximum number of bytes waiting to be written.
const WAITING: usize = 4 << 20;
/// Interval at which the thread looks for packets.
const LOOK: Duration = Duration::from_millis(5);
/// File header without the link type: pcap with nanoseconds, version 2.4, snapshot length 262,144 bytes.
const HEADER: [u32; 5] = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144];

/// A recording and the thread that writes it. Dropping it waits a moment until the thread has written the last packets and has ended, but
/// not for a file system that does not answer. [`finish`](Self::finish) does not wait.
pub(crate) struct Recorder {
    shared: Arc<Shared>,
    most: u64,
    thread: Option<JoinHandle<()>>,
    clock: Clock,
    /// Nanoseconds to add to the clock's time to get the time since 1970 (UTC).
    epoch: u64,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Vec<u8>>,
    /// Number of bytes appended to `waiting` so far.
    appended: AtomicU64,
    /// Number of appended bytes that are in the file.
    written: AtomicU64,
    taken: AtomicU64,
    over: AtomicBool,
    failed: Mutex<Option<String>>,
    has_failed: AtomicBool,
    leaving: Leaving,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

/// Writes the file header, with this link type.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn begin(file: &mut File, link_type: u32) -> io::Result<()> {
    let header: Vec<u8> = HEADER.iter().chain([&link_type]).flat_map(|word| word.to_le_bytes()).collect();
    file.write_all(&header)
}

impl Recorder {
    /// Starts a recording of at most `most` packets in a file with a [header](begin).
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub(super) fn start(file: File, most: u64) -> io::Result<Recorder> {
        Recorder::writing(most, move |shared| shared.write(|| Ok(file)))
    }

    /// Starts a recording of at most `most` packets, with this link type, in the file that `create` opens when the first packet arrives.
    ///
    /// # Errors
    /// If the thread cannot be created.
    pub(crate) fn lazily(
        most: u64,
        link_type: u32,
        create: impl FnOnce() -> io::Result<File> + Send + 'static,
    ) -> io::Result<Recorder> {
        let create = move || {
            let mut file = create()?;
            begin(&mut file, link_type).map(|()| file)
        };
        Recorder::writing(most, move |shared| shared.write(create))
    }

    fn writing(most: u64, write: impl FnOnce(&Shared) + Send + 'static) -> io::Result<Recorder> {
        let shared =
            Arc::new(Shared { waiting: Mutex::new(Vec::with_capacity(WAITING)), ..Shared::default() });
        shared.leaving.may_begin()?;
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("volley_pcap".into()).spawn(move || {
            let _end = Ends(&own.leaving);
            write(&own);
        })?;
        let clock = Clock::new();
        let utc = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let epoch = (utc.as_nanos() as u64).saturating_sub(clock.now_ns());
        Ok(Recorder { shared, most, thread: Some(thread), clock, epoch })
    }

    /// Returns the number of packets accepted for the recording so far.
    pub(crate) fn taken(&self) -> u64 {
        self.shared.taken.load(Ordering::Relaxed)
    }

    /// Returns why writing the file failed, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.shared.failed).clone()
    }

    /// True if all accepted packets are in the file, or cannot be written. If not, wakes the thread that writes them.
    pub(crate) fn is_written(&self) -> bool {
        let shared = &self.shared;
        let done = shared.has_failed.load(Ordering::Relaxed)
            || shared.written.load(Ordering::Acquire) == shared.appended.load(Ordering::Acquire);
        if !done {
            self.wake();
        }
        done
    }

    /// Ends the recording without waiting. Returns the thread, which writes the last packets and ends.
    pub(crate) fn finish(mut self) -> Option<JoinHandle<()>> {
        self.end();
        self.thread.take()
    }

    fn end(&self) {
        self.shared.over.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    /// Records the packets of a frame, and leaves the frame as it is. Returns the number of packets at the front of the frame that are
    /// done. They are recorded, or left out because the file already has the maximum number. The other packets need another call, because
    /// the buffer is full.
    pub(crate) fn take(&self, frame: &mut Frame) -> usize {
        let time = self.clock.now_ns().saturating_add(self.epoch);
        let mut taken = self.taken();
        let mut done = 0;
        let mut waiting = lock(&self.shared.waiting);
        let before = waiting.len();
        for packet in frame.packets() {
            if taken < self.most {
                if !append(&mut waiting, &packet, time) {
                    break;
                }
                taken += 1;
            }
            done += 1;
        }
        self.shared.appended.fetch_add((waiting.len() - before) as u64, Ordering::Release);
        drop(waiting);
        self.shared.taken.store(taken, Ordering::Relaxed);
        done
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            let shared = &self.shared;
            let written = || shared.written.load(Ordering::Acquire);
            let is_done = || written() == shared.appended.load(Ordering::Acquire);
            if !shared.leaving.wait(&thread, is_done, written) {
                tracing::warn!(
                    "a recording is not complete yet: its file system does not answer, or is slow"
                );
            }
        }
    }
}

impl Shared {
    /// Writes waiting packets until the recorder ends. `create` opens the file when the first packets wait.
    fn write(&self, create: impl FnOnce() -> io::Result<File>) {
        let (mut file, mut create) = (None, Some(create));
        let mut full = Vec::with_capacity(WAITING);
        loop {
            // Read before the buffer is swapped, so that the last packets are written.
            let over = self.over.load(Ordering::Acquire);
            std::mem::swap(&mut *lock(&self.waiting), &mut full);
            for piece in full.chunks(PIECE) {
                if let Err(e) = append_to(&mut file, &mut create, piece) {
                    *lock(&self.failed) = Some(e.to_string());
                    self.has_failed.store(true, Ordering::Relaxed);
                    return;
                }
                self.written.fetch_add(piece.len() as u64, Ordering::Release);
            }
            full.clear();
            if over {
                return;
            }
            thread::park_timeout(LOOK);
        }
    }
}

/// Appends bytes to a file, which `create` opens the first time.
fn append_to<F: FnOnce() -> io::Result<File>>(
    file: &mut Option<File>,
    create: &mut Option<F>,
    bytes: &[u8],
) -> io::Result<()> {
    let file = match (&mut *file, create.take()) {
        (None, Some(create)) => file.insert(create()?),
        (Some(file), _) => file,
        (None, None) => return Err(io::ErrorKind::NotFound.into()),
    };
    file.write_all(bytes)
}

/// The transmit queue. Without a recorder it only frees packets.
pub(super) struct FileTx {
    recorder: Option<Arc<Recorder>>,
}

impl FileTx {
    pub(super) fn new(recorder: Option<Arc<Recorder>>) -> FileTx {
        FileTx { recorder }
    }
}

impl TxQueue for FileTx {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        let Some(recorder) = &self.recorder else {
            frame.free(cache);
            return Ok(());
        };
        if recorder.shared.has_failed.load(Ordering::Relaxed) {
            return Err(Unsent::Down);
        }
        let done = recorder.take(frame);
        let all = done == frame.len();
        frame.free_front(done, cache);
        if all { Ok(()) } else { Err(Unsent::Full) }
    }

    fn caps(&self) -> TxCaps {
        TxCaps::default()
    }
}

/// Appends a packet in file format. Returns `false` if the capacity of `to` is too small: this function allocates no memory.
fn append(to: &mut Vec<u8>, packet: &Packet<'_>, time: u64) -> bool {
    let len = packet.total_len();
    if to.capacity() - to.len() < 16 + len {
        return false;
    }
    let words = [(time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32, len as u32, len as u32];
    words.iter().for_each(|word| to.extend_from_slice(&word.to_le_bytes()));
    packet.segments().for_each(|segment| to.extend_from_slice(segment));
    true
}
