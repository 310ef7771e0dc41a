//! Buckets that any number of workers share without locks.
//!
//! **State.** The state of a bucket of size B that fills at a rate R is one number Z, the *tokens used*. If V tokens have arrived by now,
//! the bucket holds V − max(Z, V − B) tokens. Taking n tokens sets Z to max(Z, V − B) + n, if that is at most V. This is the virtual
//! scheduling algorithm (GCRA, ITU-T I.371 annex A) in tokens instead of in time: all numbers are integers, so no sum has a rounding error.
//! Z and V are compared modulo 2^64.
//!
//! **Two buckets.** In RFC 2698 and 4115, two buckets fill independently, so the state is two such numbers. In RFC 2697, the excess bucket
//! gets the tokens for which the committed bucket has no room: the amount by which max(Z, V − B) exceeds Z. The state of the excess bucket
//! is the number of its tokens.
//!
//! **One step for a vector.** A worker copies the state. On the copy, it polices all packets of its vector for this policer, one after the
//! other. It publishes the result by one compare-and-exchange. If another worker has published a result in the meantime, the exchange
//! fails, and the worker starts again with the new state. So the vectors of all workers have an order, and the results are those of
//! policing the packets one by one in this order.
//!
//! **Publishing two words.** The state of one bucket is the shared word itself. The state of two buckets is stored in a *cell*. The shared
//! word contains the number of the cell, which of the cell's two states is valid, and a version. A worker writes only to its own cell, and
//! there only to the state that it did not publish last. So it never overwrites the valid state. If a worker reads a state while the cell's
//! owner overwrites it, the shared word has changed since the reader read it, so the reader's exchange fails. No two exchanges replace the
//! same word: a version recurs only after 2^48 vectors.
//!
//! **Reading without an exchange.** A reader reads the word, the cell, and the word again. A writer overwrites a state only after it has
//! seen a later word, and stores with `Release`. If the reader sees any of these stores, then after its `Acquire` fence it also sees a
//! later word, and starts again.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use infra::prefetch;

use crate::action::Action;
use crate::rate::{Kind, Params, Rate, Unit};

/// The color of a packet: the policer's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Color {
    /// The packet conforms.
    #[default]
    Green = 0,
    /// The packet exceeds.
    Yellow = 1,
    /// The packet violates.
    Red = 2,
}

impl Color {
    /// All colors, the best first.
    pub const ALL: [Color; 3] = [Color::Green, Color::Yellow, Color::Red];

    /// Returns the color's name.
    pub fn name(self) -> &'static str {
        match self {
            Color::Green => "green",
            Color::Yellow => "yellow",
            Color::Red => "red",
        }
    }

    /// Returns the color's word in commands.
    pub fn word(self) -> &'static str {
        match self {
            Color::Green => "conform",
            Color::Yellow => "exceed",
            Color::Red => "violate",
        }
    }
}

/// A packet to police.
#[derive(Clone, Copy, Debug, Default)]
pub struct Item {
    /// Number of tokens that the packet needs, in the policer's unit: bytes or packets.
    pub tokens: u32,
    /// The color on arrival. Only a color-aware policer uses it.
    pub came: Color,
    /// The resulting color.
    pub color: Color,
}

/// State of the two buckets: the numbers of tokens used of the committed bucket (`c`) and of the excess bucket (`e`). With 1r2c,
/// `e` is unused. With RFC 2697, `e` is instead the number of tokens in the excess bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    c: u64,
    e: u64,
}

/// A worker's two states for a policer with two buckets.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Cell {
    states: [[AtomicU64; 2]; 2],
    /// Index of the state that this worker writes next.
    next: AtomicU64,
}

impl Cell {
    fn get(&self, which: u64) -> State {
        let [c, e] = &self.states[(which & 1) as usize];
        State { c: c.load(Relaxed), e: e.load(Relaxed) }
    }

    /// Stores a state with `Release`, as the writer of a seqlock: see "Reading without an exchange" in the module's
    /// documentation.
    fn set(&self, which: u64, state: State) {
        let [c, e] = &self.states[(which & 1) as usize];
        c.store(state.c, Release);
        e.store(state.e, Release);
    }
}

/// The part of a policer that workers use: parameters that never change, and shared buckets.
///
/// Guarantees, for any number of workers: the packets of all workers together get the colors that they would get one by one, in an order
/// that keeps the order of each worker's packets. In any time T, green packets take at most `cir`·T + `cb` + 1 tokens. The 1 is a token of
/// which a fraction had already arrived when T began. The same holds with `eir` and `eb` for yellow packets of RFC 4115, and for green and
/// yellow packets together of RFC 2698.
///
/// Workers' clocks may differ. A worker whose clock is behind by a time t sees too few tokens, by at most rate·t, and never too many.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Policer {
    /// With 1r2c, the number of tokens used. With all other kinds, the version (48 bits), the number of the cell (15 bits), and the
    /// index of the valid state in the cell (1 bit).
    word: AtomicU64,
    c: Rate,
    cb: u64,
    /// One cell for each worker that existed when the policer was made, and a spare cell that all later workers share; no cells for 1r2c.
    cells: Box<[Cell]>,
    kind: Kind,
    aware: bool,
    unit: Unit,
    /// True while a worker is using the spare cell.
    spare: AtomicBool,
    /// The action for each color, see [`code`].
    actions: [u8; 3],
    e: Rate,
    eb: u64,
}

/// Code of the action that passes a packet unchanged.
pub(crate) const TRANSMIT: u8 = 0;
/// Code of the action that drops a packet.
pub(crate) const DROP: u8 = 1;
/// Lowest code of an action that sets a DSCP, which is in the lower 6 bits of the code.
pub(crate) const MARK: u8 = 0x40;

fn code(action: Action) -> u8 {
    match action {
        Action::Transmit => TRANSMIT,
        Action::Drop => DROP,
        Action::Mark(dscp) => MARK | dscp & 0x3f,
    }
}

/// Returns the number of used tokens of a bucket of size `burst` after tokens have arrived. `used` is the number before, and `arrived` the
/// number of tokens that have arrived since time 0. Tokens for which the bucket has no room are lost, so they count as used.
#[inline(always)]
fn filled(used: u64, arrived: u64, burst: u64) -> u64 {
    let full = arrived.wrapping_sub(burst);
    if full.wrapping_sub(used).cast_signed() > 0 { full } else { used }
}

/// True if a bucket has at least `tokens` tokens.
#[inline(always)]
fn has(used: u64, arrived: u64, tokens: u64) -> bool {
    arrived.wrapping_sub(used).cast_signed() >= tokens.cast_signed()
}

impl Policer {
    /// Returns a policer with full buckets at `now` (nanoseconds of the workers' clock). It is made for workers with numbers below
    /// `workers`; workers with higher numbers can also use it, but more slowly. The parameters must have been [checked](Params::check).
    pub fn new(params: &Params, workers: usize, now: u64) -> Policer {
        let (c, e) = (Rate::new(params.per_second(params.cir)), Rate::new(params.per_second(params.eir)));
        let cells = if params.kind == Kind::OneRateTwoColors { 0 } else { workers + 1 };
        let policer = Policer {
            word: AtomicU64::new(0),
            c,
            cb: params.cb,
            cells: (0..cells).map(|_| Cell::default()).collect(),
            kind: params.kind,
            aware: params.aware,
            unit: params.unit,
            spare: AtomicBool::new(false),
            actions: [params.conform, params.exceed, params.violate].map(code),
            e,
            eb: params.eb,
        };
        // Not at time 0: tokens are compared modulo 2^64, and at 400 Gbit/s half of that arrives in six years.
        policer.begin(now, [params.cb, params.eb]);
        policer
    }

    /// Like [`new`](Self::new), but keeps the fill levels that the buckets of `old` have at `now` (nanoseconds of the workers'
    /// clock): each bucket is filled to the same fraction of its size. If `old` has another kind or unit, the buckets are full. A bucket
    /// whose old size was 0 is full, too.
    pub fn instead_of(old: &Policer, params: &Params, workers: usize, now: u64) -> Policer {
        let new = Policer::new(params, workers, now);
        if (old.kind, old.unit) == (new.kind, new.unit) {
            let share = |tokens: u64, of: u64, burst: u64| match of {
                0 => burst,
                of => (u128::from(tokens) * u128::from(burst) / u128::from(of)) as u64,
            };
            let [c, e] = old.tokens(now);
            new.begin(now, [share(c, old.cb, new.cb), share(e, old.eb, new.eb)]);
        }
        new
    }

    /// Sets the numbers of tokens in the committed and the excess bucket at `now`. No other thread may use the policer yet.
    fn begin(&self, now: u64, tokens: [u64; 2]) {
        let used = |rate: &Rate, tokens: u64| rate.credit(now).wrapping_sub(tokens);
        let c = used(&self.c, tokens[0]);
        let e = match self.kind {
            Kind::OneRateThreeColors => tokens[1],
            _ => used(&self.e, tokens[1]),
        };
        match self.cells.first() {
            None => self.word.store(c, Relaxed),
            Some(cell) => {
                cell.set(0, State { c, e });
                cell.next.store(1, Relaxed);
            }
        }
    }

    /// Returns the numbers of tokens in the committed and the excess bucket at `now` (nanoseconds of the workers' clock).
    pub fn tokens(&self, now: u64) -> [u64; 2] {
        let state = loop {
            let word = self.word.load(Acquire);
            let Some(cell) = self.cells.get((word >> 1 & 0x7fff) as usize) else {
                break State { c: word, e: 0 };
            };
            let state = cell.get(word);
            std::sync::atomic::fence(Acquire);
            if self.word.load(Relaxed) == word {
                break state;
            }
        };
        let (arrived, mut state) = (self.arrived(now), state);
        self.fill(&mut state, arrived);
        let left = |arrived: u64, used: u64| arrived.wrapping_sub(used).cast_signed().max(0).cast_unsigned();
        let e = match self.kind {
            Kind::OneRateTwoColors => 0,
            Kind::OneRateThreeColors => state.e,
            _ => left(arrived.e, state.e),
        };
        [left(arrived.c, state.c), e]
    }

    /// True if the policer is color-aware: it takes the packets' colors on arrival into account.
    #[inline(always)]
    pub fn is_aware(&self) -> bool {
        self.aware
    }

    /// Returns the unit of the policer's rates and bursts.
    #[inline(always)]
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Prefetches the data that a policer with two buckets has outside its first cache line.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        let word = self.word.load(Relaxed);
        if let Some(cell) = self.cells.get((word >> 1 & 0x7fff) as usize) {
            prefetch::write(cell);
            prefetch::read(&self.e);
        }
    }

    /// Returns the code of the action for a color.
    #[inline(always)]
    pub(crate) fn action(&self, color: Color) -> u8 {
        self.actions[color as usize]
    }

    /// Polices some packets that all arrived green and need `tokens` in total. If all of them conform, takes the tokens and returns
    /// true. If not, takes nothing and returns false.
    ///
    /// `worker` is the number of the calling worker; no other thread may use this number. `now` is the worker's clock in nanoseconds.
    #[inline(always)]
    pub fn all(&self, worker: usize, now: u64, tokens: u64) -> bool {
        let arrived = self.arrived(now);
        self.change(worker, |state| {
            self.fill(state, arrived);
            self.color(state, arrived, tokens, Color::Green) == Color::Green
        })
    }

    /// Polices the packets one after the other, and sets the color of each. `worker` and `now` are as for [`all`](Self::all).
    #[inline]
    pub fn each(&self, worker: usize, now: u64, packets: &mut [Item]) {
        let arrived = self.arrived(now);
        self.change(worker, |state| {
            self.fill(state, arrived);
            for packet in packets.iter_mut() {
                let came = if self.aware { packet.came } else { Color::Green };
                packet.color = self.color(state, arrived, packet.tokens.into(), came);
            }
            true
        });
    }

    /// Returns for each bucket how many tokens have arrived by `now`; 0 for an excess bucket without a rate of its own.
    #[inline(always)]
    fn arrived(&self, now: u64) -> State {
        let e = match self.kind {
            Kind::OneRateTwoColors | Kind::OneRateThreeColors => 0,
            Kind::TwoRates2698 | Kind::TwoRates4115 => self.e.credit(now),
        };
        State { c: self.c.credit(now), e }
    }

    /// Fills the buckets of `state` with the tokens that have arrived by now. `arrived` is the result of [`arrived`](Self::arrived).
    #[inline(always)]
    fn fill(&self, state: &mut State, arrived: State) {
        let c = filled(state.c, arrived.c, self.cb);
        match self.kind {
            Kind::OneRateTwoColors => {}
            Kind::OneRateThreeColors => {
                let surplus = c.wrapping_sub(state.c);
                state.e = state.e.saturating_add(surplus).min(self.eb);
            }
            Kind::TwoRates2698 | Kind::TwoRates4115 => state.e = filled(state.e, arrived.e, self.eb),
        }
        state.c = c;
    }

    /// Returns the color of a packet that arrived with the color `came`, and takes its `tokens` unless the color is red. The caller has
    /// already filled the buckets of `state` with the tokens in `arrived`.
    #[inline(always)]
    fn color(&self, state: &mut State, arrived: State, tokens: u64, came: Color) -> Color {
        let conforms = came == Color::Green && has(state.c, arrived.c, tokens);
        let exceeds = match self.kind {
            Kind::OneRateTwoColors => false,
            Kind::OneRateThreeColors => came != Color::Red && state.e >= tokens,
            Kind::TwoRates2698 | Kind::TwoRates4115 => came != Color::Red && has(state.e, arrived.e, tokens),
        };
        match (conforms, exceeds, self.kind) {
            // The peak rate limits all packets (RFC 2698 section 3).
            (true, true, Kind::TwoRates2698) => {
                state.c = state.c.wrapping_add(tokens);
                state.e = state.e.wrapping_add(tokens);
                Color::Green
            }
            (true, false, Kind::TwoRates2698) => Color::Red,
            (true, ..) => {
                state.c = state.c.wrapping_add(tokens);
                Color::Green
            }
            (false, true, Kind::OneRateThreeColors) => {
                state.e -= tokens;
                Color::Yellow
            }
            (false, true, _) => {
                state.e = state.e.wrapping_add(tokens);
                Color::Yellow
            }
            (false, false, _) => Color::Red,
        }
    }

    /// Calls `f` with a copy of the state. If `f` returns true, publishes the changed copy. If another worker has published a state in the
    /// meantime, calls `f` again with a copy of that state. Returns the last result of `f`.
    #[inline(always)]
    fn change(&self, worker: usize, mut f: impl FnMut(&mut State) -> bool) -> bool {
        if !self.cells.is_empty() {
            return self.change_cell(worker, f);
        }
        let mut old = self.word.load(Relaxed);
        loop {
            let mut state = State { c: old, e: 0 };
            if !f(&mut state) {
                return false;
            }
            match self.word.compare_exchange_weak(old, state.c, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => old = now,
            }
        }
    }

    #[inline(always)]
    fn change_cell(&self, worker: usize, f: impl FnMut(&mut State) -> bool) -> bool {
        let spare = self.cells.len() - 1;
        if worker < spare { self.change_by(worker, f) } else { self.change_by_spare(spare, f) }
    }

    /// Like [`change`](Self::change), for workers that were unknown when the policer was made. They share the cell at index `spare`: one
    /// worker uses it at a time.
    #[cold]
    fn change_by_spare(&self, spare: usize, f: impl FnMut(&mut State) -> bool) -> bool {
        while self.spare.swap(true, Acquire) {
            hint::spin_loop();
        }
        let done = self.change_by(spare, f);
        self.spare.store(false, Release);
        done
    }

    #[inline(always)]
    fn change_by(&self, mine: usize, mut f: impl FnMut(&mut State) -> bool) -> bool {
        let Some(own) = self.cells.get(mine) else { return false };
        loop {
            let word = self.word.load(Acquire);
            let Some(cell) = self.cells.get((word >> 1 & 0x7fff) as usize) else { return false };
            let mut state = cell.get(word);
            if !f(&mut state) {
                // The state may be a mix of two states. Returning false is right nevertheless, because
                // nothing was taken.
                return false;
            }
            let next = own.next.load(Relaxed);
            own.set(next, state);
            let new = (word >> 16).wrapping_add(1) << 16 | (mine as u64) << 1 | next;
            if self.word.compare_exchange(word, new, Release, Relaxed).is_ok() {
                own.next.store(next ^ 1, Relaxed);
                return true;
            }
        }
    }
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
pub(crate) mod tests;
