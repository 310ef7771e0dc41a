//! The sink: discards the packets sent to a generator.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use buf::{Cache, Flags, Frame, Gso, Packet, TxCaps, TxQueue, Unsent};

/// A packet kept by the sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Bytes of all segments.
    pub bytes: Vec<u8>,
    /// Pending segmentation.
    pub gso: Option<Gso>,
    /// Partial checksum: its start, and the checksum field's offset from there.
    pub csum: Option<(u16, u16)>,
}

#[derive(Default)]
struct Shared {
    packets: AtomicU64,
    keep: AtomicUsize,
    kept: Mutex<VecDeque<Captured>>,
}

/// The operator's handle of a sink. Clones share it.
#[derive(Clone, Default)]
pub struct Sink(Arc<Shared>);

impl Sink {
    /// Returns the number of packets received so far.
    pub fn packets(&self) -> u64 {
        self.0.packets.load(Ordering::Relaxed)
    }

    /// Keeps the last `n` packets from now on. 0, the default, keeps none.
    pub fn keep(&self, n: usize) {
        self.0.keep.store(n, Ordering::Relaxed);
    }

    /// Takes the kept packets, oldest first.
    pub fn take(&self) -> Vec<Captured> {
        self.0.kept.lock().unwrap_or_else(|e| e.into_inner()).drain(..).collect()
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
        let keep = self.sink.0.keep.load(Ordering::Relaxed);
        if keep > 0 {
            self.sink.capture(frame, keep);
        }
        self.sink.0.packets.fetch_add(frame.len() as u64, Ordering::Relaxed);
        frame.free(cache);
        Ok(())
    }

    fn caps(&self) -> TxCaps {
        self.caps
    }
}
