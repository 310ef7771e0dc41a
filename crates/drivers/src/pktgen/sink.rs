//! The sink: where the packets that are sent to a generator end.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use buf::{Cache, Flags, Frame, Gso, Packet, TxCaps, TxQueue, Unsent};

/// A packet that the sink kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Its bytes, of all segments.
    pub bytes: Vec<u8>,
    /// How it was still to be cut.
    pub gso: Option<Gso>,
    /// Where its partial checksum starts, and where from there it is stored.
    pub csum: Option<(u16, u16)>,
}

#[derive(Default)]
struct Shared {
    packets: AtomicU64,
    keep: AtomicUsize,
    kept: Mutex<VecDeque<Captured>>,
}

/// The operator's side of a sink. Clones are the same.
#[derive(Clone, Default)]
pub struct Sink(Arc<Shared>);

impl Sink {
    /// Packets that came so far.
    pub fn packets(&self) -> u64 {
        self.0.packets.load(Ordering::Relaxed)
    }

    /// Keeps the last `n` packets from now on; 0 (as it begins): none.
    pub fn keep(&self, n: usize) {
        self.0.keep.store(n, Ordering::Relaxed);
    }

    /// Takes out what was kept, the oldest first.
    pub fn take(&self) -> Vec<Captured> {
        self.0.kept.lock().unwrap_or_else(|e| e.into_inner()).drain(..).collect()
    }

    /// A queue of the sink.
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

/// A queue of the sink: it counts and frees.
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
