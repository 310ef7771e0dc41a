//! Counts received frames for each stream.

use buf::Frame;

use super::sender::Mode;
use super::stamp::{Place, Stamp};
use crate::stats::Error;
use crate::stats::ipdv::IpdvHistogram;
use crate::stats::latency::DelayHistogram;

/// Assigns received frames to the streams of a trial.
pub struct Receiver {
    signature: u32,
    /// Streams by number.
    streams: Vec<Account>,
    /// Frames of this trial received on the wrong port.
    pub astray: u64,
    /// Frames that do not belong to this trial: frames without a mark, frames of another trial, and frames with a number that was never
    /// sent.
    pub foreign: u64,
    /// Number of the foreign frames at each port that were answered requests for hosts. The caller counts them.
    pub asked: Vec<u64>,
}

/// Counts and delays of one stream.
pub struct Account {
    /// Port that should receive the stream's frames.
    to: usize,
    mode: Mode,
    /// Nanoseconds per tick.
    ns_per_tick: f64,
    /// One bit for each frame, set when the frame was received.
    seen: Box<[u64]>,
    /// Sequence number of the next frame if no frame is reordered.
    expected: u64,
    /// Counts so far.
    pub tally: Tally,
    /// Delays of the received frames.
    pub delays: DelayHistogram,
    /// Delay differences of successive frames, if they are recorded. A reordered frame counts as a lost one.
    pub ipdv: Option<IpdvHistogram>,
}

/// Frame counts of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Distinct frames received.
    pub received: u64,
    /// Frames received more than once.
    pub duplicated: u64,
    /// Frames that arrived after one that was sent later (RFC 4737 section 3.3: Type-P-Reordered).
    pub reordered: u64,
    /// Frames with a delay beyond the histogram's limit of an hour, which no histogram contains.
    pub over: u64,
}

impl Receiver {
    /// Creates a receiver for these streams, which are numbered from 0 on, and for this number of ports. `signature` marks the frames of
    /// the trial.
    pub fn new(signature: u32, streams: Vec<Account>, ports: usize) -> Receiver {
        Receiver { signature, streams, astray: 0, foreign: 0, asked: vec![0; ports] }
    }

    /// Counts the frames received on `port` at `now` (in ticks). Calls `came` with each frame of the trial and its stamp, and `other` with
    /// each frame that has no stamp of the trial.
    #[inline]
    pub fn take(
        &mut self,
        port: usize,
        frame: &mut Frame,
        now: u64,
        mut came: impl FnMut(Stamp, &[u8]),
        mut other: impl FnMut(&[u8]),
    ) {
        // Most frames have their stamp at the same place as the frame before.
        let mut place = Place { at: usize::MAX, checksum: usize::MAX };
        for packet in frame.packets() {
            let bytes = packet.bytes();
            let ours = |s: &Stamp| s.signature == self.signature;
            let stamp = Stamp::read(bytes, place).filter(ours).or_else(|| {
                place = Place::find(bytes)?;
                Stamp::read(bytes, place).filter(ours)
            });
            let account = stamp.and_then(|s| Some((s, self.streams.get_mut(usize::from(s.stream))?)));
            match account {
                Some((_, account)) if account.to != port => self.astray += 1,
                Some((stamp, account)) => match account.take(stamp, now) {
                    true => came(stamp, bytes),
                    false => self.foreign += 1,
                },
                None => {
                    self.foreign += 1;
                    other(bytes);
                }
            }
        }
    }

    /// Returns the account of each stream.
    pub fn into_streams(self) -> impl Iterator<Item = Account> {
        self.streams.into_iter()
    }
}

impl Account {
    /// Creates the account of a stream of `frames` frames that port `to` should receive; `hz` is the number of ticks per second. A lost
    /// frame counts as if its delay were `penalty_ns`.
    ///
    /// # Errors
    /// Returns an error if the histogram cannot be created.
    pub fn new(to: usize, frames: u64, mode: Mode, hz: f64, penalty_ns: u64) -> Result<Account, Error> {
        let words = if mode == Mode::Stamped { frames.div_ceil(64) } else { 0 };
        Ok(Account {
            to,
            mode,
            ns_per_tick: 1e9 / hz,
            seen: vec![0; words as usize].into(),
            expected: 0,
            tally: Tally::default(),
            delays: DelayHistogram::new(penalty_ns)?,
            ipdv: None,
        })
    }

    /// Counts a frame received at `now` (in ticks). Returns false if the stream has no such frame.
    #[inline(always)]
    fn take(&mut self, stamp: Stamp, now: u64) -> bool {
        if self.mode == Mode::Flood {
            self.tally.received += 1;
            return true;
        }
        let Some(word) = self.seen.get_mut((stamp.sequence / 64) as usize) else { return false };
        let bit = 1 << (stamp.sequence % 64);
        if *word & bit != 0 {
            self.tally.duplicated += 1;
            return true;
        }
        *word |= bit;
        self.tally.received += 1;
        let delay = (stamp.age(now) as f64 * self.ns_per_tick) as u64;
        self.tally.over += u64::from(self.delays.record(delay).is_err());
        if stamp.sequence < self.expected {
            self.tally.reordered += 1;
        } else {
            if self.ipdv.is_some() {
                self.differ(stamp.sequence - self.expected, delay);
            }
            self.expected = stamp.sequence + 1;
        }
        true
    }

    /// Records the delay of a frame, and that `missing` frames before it did not arrive.
    #[inline(never)]
    fn differ(&mut self, missing: u64, delay: u64) {
        let Some(ipdv) = &mut self.ipdv else { return };
        // A delay beyond the limit is skipped here; the tally counts it.
        for delay in (0..missing).map(|_| None).chain([Some(delay)]) {
            let _ = ipdv.record(delay);
        }
    }

    /// Returns the highest received sequence number; `None` if no frame has been received, or frames are not numbered.
    pub fn last_received(&self) -> Option<u64> {
        self.expected.checked_sub(1)
    }

    /// Returns the last missing frame among the first `sent` frames. `None` if no frame is missing, or frames are not numbered.
    pub fn last_missing(&self, sent: u64) -> Option<u64> {
        let sent = sent.min(self.seen.len() as u64 * 64);
        (0..sent)
            .rev()
            .find(|n| self.seen.get((n / 64) as usize).is_none_or(|word| word >> (n % 64) & 1 == 0))
    }
}
