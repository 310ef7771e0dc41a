//! The sink: discards the packets sent to a generator.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use buf::{Cache, Flags, Frame, Gso, Packet, TxCaps, TxQueue, Unsent};

use crate::pcap::{ETHERNET, ETHERNET_HEADER, RAW, Recorder};

/// A packet kept by the sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The packet's bytes, from all its buffers.
    pub bytes: Vec<u8>,
    /// Pending segmentation, if any.
    pub gso: Option<Gso>,
    /// Partial checksum, if any: its start, and the checksum field's offset from there.
    pub csum: Option<(u16, u16)>,
}

#[derive(Default)]
struct Shared {
    packets: AtomicU64,
    keep: AtomicUsize,
    kept: Mutex<VecDeque<Captured>>,
    /// True while there is a recorder. Without a recorder, the queue takes no lock.
    records: AtomicBool,
    /// True if the packets on the link have no Ethernet header.
    bare: bool,
    recorder: Mutex<Option<Recorder>>,
}

impl Drop for Shared {
    /// Does not wait for the thread that writes the last packets: a file system may not answer.
    fn drop(&mut self) {
        let recorder = self.recorder.get_mut().unwrap_or_else(|e| e.into_inner()).take();
        drop(recorder.and_then(Recorder::finish));
    }
}

/// The operator's handle of a sink. Clones share it.
#[derive(Clone, Default)]
pub struct Sink(Arc<Shared>);

impl Sink {
    /// Returns a sink. If `bare`, the sink removes the Ethernet header of each packet.
    pub(super) fn new(bare: bool) -> Sink {
        let mut shared = Shared::default();
        shared.bare = bare;
        Sink(Arc::new(shared))
    }

    /// Returns the number of packets received so far.
    pub fn packets(&self) -> u64 {
        self.0.packets.load(Ordering::Relaxed)
    }

    /// From now on, keeps the last `n` packets received. With 0, the default, keeps none.
    pub fn keep(&self, n: usize) {
        self.0.keep.store(n, Ordering::Relaxed);
    }

    /// Takes the kept packets, oldest first.
    pub fn take(&self) -> Vec<Captured> {
        self.0.kept.lock().unwrap_or_else(|e| e.into_inner()).drain(..).collect()
    }

    /// Records the next packets, at most `most`, in the file that `create` opens. A separate thread calls `create` when the first packet
    /// arrives, so no file without packets is created. If packets arrive faster than the file is written, packets are left out. Call this
    /// only when there is no other recording.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn record(
        &self,
        most: u64,
        create: impl FnOnce() -> io::Result<File> + Send + 'static,
    ) -> io::Result<()> {
        *self.recorder() = Some(Recorder::lazily(most, self.link_type(), create)?);
        self.0.records.store(true, Ordering::Release);
        Ok(())
    }

    /// Returns the link type of recorded files.
    fn link_type(&self) -> u32 {
        if self.0.bare { RAW } else { ETHERNET }
    }

    /// Ends the recording. Returns the thread that writes the last packets; `None` if there is no recording.
    pub fn stop_recording(&self) -> Option<JoinHandle<()>> {
        self.0.records.store(false, Ordering::Release);
        let recorder = self.recorder().take();
        recorder.and_then(Recorder::finish)
    }

    /// True if there is a recording.
    pub fn records(&self) -> bool {
        self.0.records.load(Ordering::Relaxed)
    }

    /// True if all recorded packets are in the file, or cannot be written.
    pub fn is_written(&self) -> bool {
        self.recorder().as_ref().is_none_or(Recorder::is_written)
    }

    /// Describes the recording for the operator; `None` if there is none.
    pub fn recording(&self) -> Option<String> {
        let recorder = self.recorder();
        let recorder = recorder.as_ref()?;
        let failed = recorder.failure().map_or(String::new(), |why| format!("; failed: {why}"));
        Some(format!("{} packets{failed}", recorder.taken()))
    }

    /// Returns why the recording failed; `None` if nothing is recorded, or the recording did not fail.
    pub fn failure(&self) -> Option<String> {
        self.recorder().as_ref().and_then(Recorder::failure)
    }

    fn recorder(&self) -> MutexGuard<'_, Option<Recorder>> {
        self.0.recorder.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns a transmit queue of the sink.
    pub(super) fn tx(&self, caps: TxCaps) -> PgTx {
        PgTx { sink: self.clone(), caps }
    }

    #[cold]
    fn capture(&self, frame: &mut Frame, keep: usize) {
        let mut kept = self.0.kept.lock().unwrap_or_else(|e| e.into_inner());
        for packet in frame.packets() {
            kept.push_back(captured(&packet));
        }
        let old = kept.len().saturating_sub(keep);
        kept.drain(..old);
    }
}

fn captured(packet: &Packet<'_>) -> Captured {
    let (flags, cold) = (packet.flags(), packet.cold());
    Captured {
        bytes: packet.segments().flatten().copied().collect(),
        gso: if flags.any(Flags::GSO) { cold.gso() } else { None },
        csum: flags.any(Flags::CSUM_PARTIAL).then_some((cold.csum_start, cold.csum_offset)),
    }
}

/// A transmit queue of the sink: counts packets and frees them.
pub struct PgTx {
    sink: Sink,
    caps: TxCaps,
}

impl TxQueue for PgTx {
    fn send(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Unsent> {
        if self.sink.0.bare {
            for mut packet in frame.packets() {
                // A shorter packet than the header would stay as it is; the router sends none.
                let _ = packet.advance(ETHERNET_HEADER);
            }
        }
        let keep = self.sink.0.keep.load(Ordering::Relaxed);
        if keep > 0 {
            self.sink.capture(frame, keep);
        }
        if self.sink.0.records.load(Ordering::Acquire)
            && let Some(recorder) = self.sink.recorder().as_ref()
        {
            recorder.take(frame);
        }
        self.sink.0.packets.fetch_add(frame.len() as u64, Ordering::Relaxed);
        frame.free(cache);
        Ok(())
    }

    fn caps(&self) -> TxCaps {
        self.caps
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use buf::Pool;

    use super::*;

    /// Dropping a sink does not wait for its recording, which waits for a file system.
    #[test]
    fn nothing_waits_for_the_file_system_of_a_recording() {
        let ((answer, system), (ended, end)) = (channel::<()>(), channel());
        std::thread::spawn(move || {
            let sink = Sink::default();
            let create = move || {
                let _ = system.recv();
                Err(io::ErrorKind::TimedOut.into())
            };
            sink.record(10, create).unwrap();
            let (mut frame, mut cache) = (Frame::new(), Pool::new(256).unwrap().cache());
            frame.alloc(&mut cache, 3);
            sink.tx(TxCaps::default()).send(&mut frame, &mut cache).unwrap();
            assert!(!sink.is_written());
            drop(sink);
            ended.send(()).unwrap();
        });
        end.recv_timeout(Duration::from_secs(20)).expect("the sink has ended");
        drop(answer);
    }
}
