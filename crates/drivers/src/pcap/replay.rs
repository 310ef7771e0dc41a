//! The receive queue that replays a recording.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use buf::{Cache, Frame, Gone, Lost, RxQueue};
use infra::clock::{self, Clock};

use super::Speed;
use super::read::Recording;
use crate::pace::Pace;

/// A worker asks to be woken this many nanoseconds before a packet is due, because it wakes up some tens of
/// microseconds late.
const EARLY: u64 = 150_000;

/// A recording and its replay state, shared by the main thread and the queue.
pub(super) struct Player {
    recording: Recording,
    /// Bit 0: playing. The other bits count the starts.
    state: AtomicU64,
    sent: AtomicU64,
    rounds: AtomicU64,
}

impl Player {
    pub(super) fn new(recording: Recording) -> Player {
        Player { recording, state: AtomicU64::new(0), sent: AtomicU64::new(0), rounds: AtomicU64::new(0) }
    }

    pub(super) fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Restarts or stops the replay. Only the main thread calls this.
    pub(super) fn switch(&self, on: bool) {
        let begun = self.state.load(Ordering::Relaxed) >> 1;
        let empty = self.recording.packets.is_empty();
        self.state.store(if on && !empty { (begun + 1) << 1 | 1 } else { begun << 1 }, Ordering::Release);
    }

    pub(super) fn plays(&self) -> bool {
        self.state.load(Ordering::Acquire) & 1 != 0
    }

    /// Returns the number of packets replayed since the device was opened.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the number of rounds completed since the device was opened.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }
}

/// The receive queue.
pub(super) struct FileRx {
    player: Arc<Player>,
    speed: Speed,
    rounds: Option<u32>,
    clock: Clock,
    /// The player's state when this replay began.
    state: u64,
    pace: Option<Pace>,
    /// Time in nanoseconds at which the current round began.
    began: u64,
    /// Index of the next packet.
    next: usize,
    /// Due time of the next packet in nanoseconds, if it is later than the last poll.
    due: Option<u64>,
    left: Option<u32>,
    /// Number of packets skipped since the last call of `take_lost`, which reports them.
    skipped: u64,
}

impl FileRx {
    pub(super) fn new(player: Arc<Player>, speed: Speed, rounds: Option<u32>) -> FileRx {
        FileRx {
            player,
            speed,
            rounds,
            clock: Clock::new(),
            state: 0,
            pace: None,
            began: 0,
            next: 0,
            due: None,
            left: None,
            skipped: 0,
        }
    }

    #[cold]
    fn begin(&mut self, state: u64, now: u64) {
        (self.state, self.next, self.began, self.left) = (state, 0, now, self.rounds);
        self.pace = match self.speed {
            Speed::Rate(pps) => Some(Pace::new(pps.into(), buf::FRAME_SIZE)),
            Speed::Own | Speed::Full => None,
        };
    }

    /// Ends a round. Returns true if another round follows.
    #[cold]
    fn end_round(&mut self, now: u64) -> bool {
        self.player.rounds.fetch_add(1, Ordering::Relaxed);
        self.skipped += self.player.recording.skipped;
        (self.next, self.began) = (0, now);
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                // Stop the replay, unless the main thread has just restarted it.
                let (playing, over) = (self.state, self.state & !1);
                let _ =
                    self.player.state.compare_exchange(playing, over, Ordering::Release, Ordering::Relaxed);
                return false;
            }
        }
        true
    }
}

impl RxQueue for FileRx {
    fn poll(&mut self, frame: &mut Frame, cache: &mut Cache) -> Result<(), Gone> {
        let state = self.player.state.load(Ordering::Acquire);
        if state & 1 == 0 {
            return Ok(());
        }
        let now = self.clock.now_ns();
        if state != self.state {
            self.begin(state, now);
        }
        self.due = None;
        let mut room = match &mut self.pace {
            Some(pace) => pace.due(clock::tsc(), frame.room()),
            None => frame.room(),
        };
        if let Some(pace) = &self.pace
            && room == 0
        {
            self.due = Some(now + pace.next_in());
        }
        let player = Arc::clone(&self.player);
        let mut sent = 0;
        while room > 0 {
            let Some(packet) = player.recording.packets.get(self.next) else {
                if self.end_round(now) {
                    continue;
                }
                break;
            };
            if self.speed == Speed::Own && self.began + packet.at > now {
                self.due = Some(self.began + packet.at);
                break;
            }
            if !player.recording.append(self.next, frame, cache) {
                // Out of buffers: retry this packet at the next poll.
                break;
            }
            self.next += 1;
            room -= 1;
            sent += 1;
        }
        player.sent.fetch_add(sent, Ordering::Relaxed);
        Ok(())
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn active(&self) -> bool {
        self.player.plays()
    }

    fn next_due(&self) -> Option<u64> {
        // After a restart the first packet is due at once.
        let same = self.player.state.load(Ordering::Acquire) == self.state;
        self.due.filter(|_| same).map(|due| due.saturating_sub(EARLY))
    }

    fn take_lost(&mut self) -> Lost {
        Lost { missed: 0, unusable: std::mem::take(&mut self.skipped) }
    }
}
