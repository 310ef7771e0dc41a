//! Counts received frames for each stream.

use buf::Frame;
use serde::{Deserialize, Serialize};

use super::check::{Damage, Expected};
use super::sender::Mode;
use super::stamp::{Place, Stamp};
use crate::stats::Error;
use crate::stats::ipdv::IpdvHistogram;
use crate::stats::jitter::Jitter;
use crate::stats::latency::DelayHistogram;

/// Assigns received frames to the streams of a trial.
pub struct Receiver {
    signature: u32,
    /// Streams by number.
    streams: Vec<Account>,
    /// Frames of this trial received on the wrong port.
    pub astray: u64,
    /// Frames that do not belong to this trial: frames without a stamp, frames of another trial, and frames with a number that was never
    /// sent.
    pub foreign: u64,
    /// For each port, the number of requests for simulated hosts that the tester answered. The caller counts them. They count in
    /// `foreign`, too.
    pub asked: Vec<u64>,
    /// Longest interval in ticks between a poll that returned frames and the poll before it: these frames may have waited that long.
    pub away: u64,
    /// Time of the last poll that returned frames, in ticks; 0 before the first.
    pub brought: u64,
    /// Time of the last poll of each port, in ticks; 0 before the first.
    polled: Vec<u64>,
}

/// Counts and delays of one stream.
pub struct Account {
    /// Port that should receive the stream's frames.
    to: usize,
    /// Its frames as they should arrive.
    frames: Expected,
    /// Position in the pattern of the frame with the number `expected`. The pattern is the order in which templates are used.
    turn: usize,
    /// True if frames carry the time at which they were sent.
    is_timed: bool,
    /// Nanoseconds per tick.
    ns_per_tick: f64,
    /// One bit for each frame, set when the frame was received.
    seen: Box<[u64]>,
    /// Sequence number of the frame that arrives next if no frame is reordered or lost.
    expected: u64,
    /// Counts so far.
    pub tally: Tally,
    /// Delays of the received frames.
    pub delays: DelayHistogram,
    /// Jitter of the received frames, in the order of arrival.
    pub jitter: Jitter,
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
    /// Frames that arrived damaged. They do not count as received (RFC 2544 section 10).
    pub damaged: Damaged,
    /// Frames with a delay beyond the histogram's limit of an hour, which no histogram contains.
    pub over: u64,
}

impl Tally {
    /// Adds the counts of another stream.
    pub fn add(&mut self, other: &Tally) {
        self.received += other.received;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.damaged.add(&other.damaged);
        self.over += other.over;
    }
}

/// Counts of frames that arrived damaged, by the first damage found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Damaged {
    /// Frames of another length than sent.
    pub length: u64,
    /// Frames with a wrong checksum of IPv4, UDP, TCP or ICMP.
    pub checksum: u64,
    /// Frames whose time to live was not lowered by one for each router.
    pub ttl: u64,
    /// Frames with another payload than sent, but right checksums.
    pub payload: u64,
}

impl Damaged {
    /// Returns the number of damaged frames.
    pub fn all(&self) -> u64 {
        self.length + self.checksum + self.ttl + self.payload
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Damaged) {
        self.length += other.length;
        self.checksum += other.checksum;
        self.ttl += other.ttl;
        self.payload += other.payload;
    }

    #[cold]
    fn note(&mut self, damage: Damage) {
        *match damage {
            Damage::Length => &mut self.length,
            Damage::Checksum => &mut self.checksum,
            Damage::Ttl => &mut self.ttl,
            Damage::Payload => &mut self.payload,
        } += 1;
    }
}

/// Result of counting a received frame of a stream.
enum Fate {
    /// The frame counts as received, or as a duplicate.
    Counted,
    /// The frame counts as damaged.
    Damaged,
    /// The stream has no frame with this number.
    Unknown,
}

impl Receiver {
    /// Creates a receiver for this number of ports. A stream's number is its index in `streams`. `signature` identifies the frames of the
    /// trial.
    pub fn new(signature: u32, streams: Vec<Account>, ports: usize) -> Receiver {
        let none = vec![0; ports];
        Receiver {
            signature,
            streams,
            astray: 0,
            foreign: 0,
            asked: none.clone(),
            away: 0,
            brought: 0,
            polled: none,
        }
    }

    /// Notes a poll of `port` at `now` (ticks), and whether it returned frames.
    #[inline(always)]
    pub fn polled(&mut self, port: usize, now: u64, has_frames: bool) {
        let Some(last) = self.polled.get_mut(port) else { return };
        if has_frames {
            let since = if *last > 0 { now.saturating_sub(*last) } else { 0 };
            (self.away, self.brought) = (self.away.max(since), now);
        }
        *last = now;
    }

    /// Counts the frames received on `port` at `now` (in ticks). Calls `came` with each intact frame of the trial that arrived on the right
    /// port, and with the frame's stamp; duplicates are included. Calls `other` with each frame that does not belong to the trial. A frame
    /// that was truncated within a stamp of the trial counts as damaged.
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
        let mut place = Place::NONE;
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
                Some((stamp, account)) => match account.take(stamp, bytes, place, now) {
                    Fate::Counted => came(stamp, bytes),
                    Fate::Damaged => {}
                    Fate::Unknown => self.foreign += 1,
                },
                None => match self.cut(bytes) {
                    Some(account) => account.tally.damaged.length += 1,
                    None => {
                        self.foreign += 1;
                        other(bytes);
                    }
                },
            }
        }
    }

    /// Returns the account of the stream of a frame that was truncated within its stamp. `None` if the frame is not of this trial.
    #[cold]
    fn cut(&mut self, bytes: &[u8]) -> Option<&mut Account> {
        let (signature, stream) = Stamp::cut(bytes)?;
        self.streams.get_mut(usize::from(stream)).filter(|_| signature == self.signature)
    }

    /// Returns the account of each stream.
    pub fn into_streams(self) -> impl Iterator<Item = Account> {
        self.streams.into_iter()
    }
}

impl Account {
    /// Creates the account of a stream: the counts of its `count` frames, which port `to` should receive. `hz` is the number of
    /// ticks per second. A lost frame counts as if its delay were `penalty_ns`.
    ///
    /// # Errors
    /// Returns an error if the histogram cannot be created.
    pub fn new(
        to: usize,
        frames: Expected,
        count: u64,
        mode: Mode,
        hz: f64,
        penalty_ns: u64,
    ) -> Result<Account, Error> {
        Ok(Account {
            to,
            frames,
            turn: 0,
            is_timed: mode == Mode::Stamped,
            ns_per_tick: 1e9 / hz,
            seen: vec![0; count.div_ceil(64) as usize].into(),
            expected: 0,
            tally: Tally::default(),
            delays: DelayHistogram::new(penalty_ns)?,
            jitter: Jitter::default(),
            ipdv: None,
        })
    }

    /// Checks and counts a frame received at `now` (in ticks), and records its delay.
    #[inline(always)]
    fn take(&mut self, stamp: Stamp, bytes: &[u8], place: Place, now: u64) -> Fate {
        let sequence = stamp.sequence;
        let in_order = sequence == self.expected;
        let turn = if in_order { self.turn } else { self.frames.turn(sequence) };
        if let Err(damage) = self.frames.check(turn, bytes, place) {
            self.tally.damaged.note(damage);
            return Fate::Damaged;
        }
        let Some(word) = self.seen.get_mut((sequence / 64) as usize) else { return Fate::Unknown };
        let bit = 1 << (sequence % 64);
        if *word & bit != 0 {
            self.tally.duplicated += 1;
            return Fate::Counted;
        }
        *word |= bit;
        self.tally.received += 1;
        let mut delay = 0;
        if self.is_timed {
            delay = (stamp.age(now) as f64 * self.ns_per_tick) as u64;
            self.tally.over += u64::from(self.delays.record(delay).is_err());
            self.jitter.record(delay);
        }
        if sequence < self.expected {
            self.tally.reordered += 1;
        } else {
            if self.ipdv.is_some() && self.is_timed {
                self.differ(sequence - self.expected, delay);
            }
            self.expected = sequence + 1;
            self.turn = self.frames.after(turn);
        }
        Fate::Counted
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

    /// Returns the highest sequence number of a received frame; `None` if no frame was received.
    pub fn last_received(&self) -> Option<u64> {
        self.expected.checked_sub(1)
    }

    /// Returns the sequence number of the last missing frame among the first `sent` frames; `None` if none is missing.
    pub fn last_missing(&self, sent: u64) -> Option<u64> {
        let sent = sent.min(self.seen.len() as u64 * 64);
        (0..sent.div_ceil(64)).rev().find_map(|n| {
            let beyond = (n * 64 + 64).saturating_sub(sent);
            let missing = !self.seen.get(n as usize)? & u64::MAX >> beyond;
            (missing != 0).then(|| n * 64 + u64::from(missing.ilog2()))
        })
    }
}
