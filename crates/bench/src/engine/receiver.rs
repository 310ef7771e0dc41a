//! Accounts for what comes back.

use buf::Frame;

use super::sender::Mode;
use super::stamp::{Place, Stamp};
use crate::stats::Error;
use crate::stats::ipdv::IpdvHistogram;
use crate::stats::latency::DelayHistogram;

/// Knows the frames of a trial.
pub struct Receiver {
    signature: u32,
    /// By number.
    streams: Vec<Account>,
    /// Frames of this trial that came by a port that they should not come by.
    pub astray: u64,
    /// Frames of somebody else: no mark, another trial's, or a number that was never sent.
    pub foreign: u64,
    /// Of those, questions for hosts behind each port: whoever receives counts what he answers.
    pub asked: Vec<u64>,
}

/// What came back of one stream.
pub struct Account {
    /// The port that its frames should come by.
    to: usize,
    mode: Mode,
    /// Nanoseconds a tick.
    ns_per_tick: f64,
    /// A bit for each frame that was to be sent: it came.
    seen: Box<[u64]>,
    /// The number that is next if nothing is reordered.
    expected: u64,
    /// What was counted so far.
    pub tally: Tally,
    /// Delays of what came.
    pub delays: DelayHistogram,
    /// Differences between the delays of successive frames, where they are wanted. One that came out of order counts as lost.
    pub ipdv: Option<IpdvHistogram>,
}

/// Numbers of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Different frames.
    pub received: u64,
    /// Frames that had come before.
    pub duplicated: u64,
    /// Frames that came behind one that was sent later (RFC 4737 section 3.3: Type-P-Reordered).
    pub reordered: u64,
    /// Delays that were longer than can be counted (an hour): they are in no histogram.
    pub over: u64,
}

impl Receiver {
    /// For these streams, which have numbers from 0 on, behind so many ports.
    pub fn new(signature: u32, streams: Vec<Account>, ports: usize) -> Receiver {
        Receiver { signature, streams, astray: 0, foreign: 0, asked: vec![0; ports] }
    }

    /// Accounts for the frames that came by `port` at `now`, ticks. `came` is shown those of the trial, with their marks, and `other`
    /// what is none of the trial's.
    #[inline]
    pub fn take(
        &mut self,
        port: usize,
        frame: &mut Frame,
        now: u64,
        mut came: impl FnMut(Stamp, &[u8]),
        mut other: impl FnMut(&[u8]),
    ) {
        // Most frames have their stamp where the one before had it.
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

    /// What came of each stream.
    pub fn into_streams(self) -> impl Iterator<Item = Account> {
        self.streams.into_iter()
    }
}

impl Account {
    /// For a stream of so many frames, which should come by port `to`; `hz` ticks are a second. Frames that are lost will count with a
    /// delay of `penalty_ns`.
    ///
    /// # Errors
    /// When delays cannot be counted.
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

    /// Accounts for a frame that came at `now`; whether there is such a one in the stream.
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

    /// Accounts for a frame before which so many did not come.
    #[inline(never)]
    fn differ(&mut self, missing: u64, delay: u64) {
        let Some(ipdv) = &mut self.ipdv else { return };
        // A delay that is too long to be counted is as good as none; it stands in the tally.
        for delay in (0..missing).map(|_| None).chain([Some(delay)]) {
            let _ = ipdv.record(delay);
        }
    }

    /// The frame with the greatest number that came, if frames have numbers.
    pub fn last_received(&self) -> Option<u64> {
        self.expected.checked_sub(1)
    }

    /// The last of the first `sent` frames that did not come, if any did not, and frames have numbers.
    pub fn last_missing(&self, sent: u64) -> Option<u64> {
        let sent = sent.min(self.seen.len() as u64 * 64);
        (0..sent)
            .rev()
            .find(|n| self.seen.get((n / 64) as usize).is_none_or(|word| word >> (n % 64) & 1 == 0))
    }
}
