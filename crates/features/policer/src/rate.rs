//! The parameters of a policer, and rates that are exact to a single token.

use model::schema::Bad;

use crate::action::{Action, MAX_DSCP};

/// The algorithm of a policer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// One rate, two colors: packets conform or violate.
    #[default]
    OneRateTwoColors,
    /// One rate, three colors (RFC 2697). The excess bucket gets the tokens for which the committed bucket
    /// has no room.
    OneRateThreeColors,
    /// Two rates, three colors (RFC 2698). `eir` is the peak rate, `eb` the peak burst.
    TwoRates2698,
    /// Two rates, three colors (RFC 4115). The excess bucket fills at a rate of its own, `eir`.
    TwoRates4115,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] =
        [Kind::OneRateTwoColors, Kind::OneRateThreeColors, Kind::TwoRates2698, Kind::TwoRates4115];

    /// Returns the kind's word in commands, such as `1r2c`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::OneRateTwoColors => "1r2c",
            Kind::OneRateThreeColors => "1r3c",
            Kind::TwoRates2698 => "2r3c-2698",
            Kind::TwoRates4115 => "2r3c-4115",
        }
    }

    /// Returns the kind that a word of a command stands for.
    pub fn parse(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// The unit of rates and bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// Rates in kbit/s (1,000 bits), bursts in bytes.
    #[default]
    Kbps,
    /// Rates in packets per second, whatever the packet size; bursts in packets. A packet that is still to be
    /// segmented counts as its segments.
    Pps,
}

impl Unit {
    /// All units.
    pub const ALL: [Unit; 2] = [Unit::Kbps, Unit::Pps];

    /// Returns the lowest and the highest rate that a policer with this unit can have.
    const fn rates(self) -> (u64, u64) {
        match self {
            Unit::Kbps => (8, 400_000_000),
            Unit::Pps => (1, MOST_RATE),
        }
    }

    /// Returns the unit's word in commands: `kbps` or `pps`.
    pub fn word(self) -> &'static str {
        match self {
            Unit::Kbps => "kbps",
            Unit::Pps => "pps",
        }
    }

    /// Returns the unit that a word of a command stands for.
    pub fn parse(word: &str) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| unit.word() == word)
    }

    /// Returns the name of the unit of bursts: bytes or packets.
    pub fn tokens(self) -> &'static str {
        match self {
            Unit::Kbps => "bytes",
            Unit::Pps => "packets",
        }
    }
}

/// The highest number that a rate can have, in any unit: the maximum in packets per second.
pub const MOST_RATE: u64 = 1_000_000_000;

/// The largest burst: 2^40 bytes or packets.
pub const MAX_BURST: u64 = 1 << 40;

/// The rounding of a rate. It is accepted for compatibility with VPP and has no effect, because rates are
/// exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Round {
    /// To the closest possible rate.
    #[default]
    Closest,
    /// To the next higher possible rate.
    Up,
    /// To the next lower possible rate.
    Down,
}

impl Round {
    /// All ways to round.
    pub const ALL: [Round; 3] = [Round::Closest, Round::Up, Round::Down];

    /// Returns the word in commands for this way to round.
    pub fn word(self) -> &'static str {
        match self {
            Round::Closest => "closest",
            Round::Up => "up",
            Round::Down => "down",
        }
    }

    /// Returns the way to round that a word of a command stands for.
    pub fn parse(word: &str) -> Option<Round> {
        Round::ALL.into_iter().find(|round| round.word() == word)
    }
}

/// A policer as the operator describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Params {
    /// The algorithm.
    pub kind: Kind,
    /// The unit of rates and bursts.
    pub unit: Unit,
    /// Committed rate in kbit/s or packets/s.
    pub cir: u64,
    /// Excess rate in kbit/s or packets/s; with RFC 2698, this is the peak rate. 0 for policers with one
    /// rate.
    pub eir: u64,
    /// Committed burst in bytes or packets.
    pub cb: u64,
    /// Excess burst in bytes or packets; with RFC 2698, this is the peak burst. 0 for 1r2c.
    pub eb: u64,
    /// Color-aware mode: a packet keeps the color of its DSCP on arrival, or gets a worse one. The color
    /// is the drop precedence of assured forwarding (RFC 2597): AFx1 green, AFx2 yellow, AFx3 red; any other
    /// packet is green.
    pub aware: bool,
    /// The rounding of rates. It has no effect, because all rates are exact.
    pub round: Round,
    /// The action for green packets.
    pub conform: Action,
    /// The action for yellow packets.
    pub exceed: Action,
    /// The action for red packets.
    pub violate: Action,
}

impl Default for Params {
    /// Returns the parameters of a 1r2c policer that transmits conforming packets and drops all others. The
    /// rate and the burst are 0, so they must still be set.
    fn default() -> Params {
        Params {
            kind: Kind::default(),
            unit: Unit::default(),
            cir: 0,
            eir: 0,
            cb: 0,
            eb: 0,
            aware: false,
            round: Round::default(),
            conform: Action::Transmit,
            exceed: Action::Drop,
            violate: Action::Drop,
        }
    }
}

/// Returns the error text for a parameter whose `number` is out of range. A 0 is reported as missing.
fn named(parameter: &str, number: u64) -> String {
    match number {
        0 => format!("{parameter} is missing or 0"),
        _ => format!("{parameter} {number} is out of range"),
    }
}

/// Returns an error about a parameter.
fn bad(parameter: &'static str, why: String) -> Result<(), Bad> {
    Err(Bad::new(parameter, why))
}

impl Params {
    /// Checks that a policer with these parameters is possible.
    ///
    /// # Errors
    /// Returns an error that names the faulty parameter and its limits.
    pub fn check(&self) -> Result<(), Bad> {
        self.check_rate("cir", self.cir)?;
        self.check_burst("cb", self.cb)?;
        let word = self.kind.word();
        match self.kind {
            Kind::OneRateTwoColors | Kind::OneRateThreeColors if self.eir != 0 => {
                return bad("eir", format!("eir {} is not used by type {word}: remove it", self.eir));
            }
            Kind::OneRateTwoColors if self.eb != 0 => {
                return bad("eb", format!("eb {} is not used by type {word}: remove it", self.eb));
            }
            Kind::OneRateTwoColors => {}
            Kind::OneRateThreeColors => self.check_burst("eb", self.eb)?,
            Kind::TwoRates2698 | Kind::TwoRates4115 => {
                self.check_rate("eir", self.eir)?;
                self.check_burst("eb", self.eb)?;
                if self.kind == Kind::TwoRates2698 && self.eir < self.cir {
                    let (eir, cir) = (self.eir, self.cir);
                    return bad(
                        "eir",
                        format!(
                            "eir {eir} is less than cir {cir}: type {word} needs a peak rate of at least the committed rate"
                        ),
                    );
                }
            }
        }
        for (name, action) in self.actions() {
            if let Action::Mark(dscp) = action
                && dscp > MAX_DSCP
            {
                return bad(name, format!("{name}: DSCP {dscp} is more than {MAX_DSCP}"));
            }
        }
        Ok(())
    }

    /// Returns the actions for green, yellow and red packets, each with the name of its parameter.
    pub fn actions(&self) -> [(&'static str, Action); 3] {
        [("conform-action", self.conform), ("exceed-action", self.exceed), ("violate-action", self.violate)]
    }

    fn check_rate(&self, name: &'static str, rate: u64) -> Result<(), Bad> {
        let (least, most) = self.unit.rates();
        if (least..=most).contains(&rate) {
            return Ok(());
        }
        let (what, unit) = (named(name, rate), self.unit.word());
        bad(name, format!("{what}: use {least} to {most} {unit}"))
    }

    fn check_burst(&self, name: &'static str, burst: u64) -> Result<(), Bad> {
        if (1..=MAX_BURST).contains(&burst) {
            return Ok(());
        }
        let (what, tokens) = (named(name, burst), self.unit.tokens());
        bad(name, format!("{what}: use 1 to {MAX_BURST} {tokens}"))
    }

    /// Returns a warning for each burst in bytes that is smaller than a frame of `frame` bytes (link header included). The warning says
    /// which color such frames can never get, or that they are always red. Bursts in packets get no warning.
    pub fn too_small_for(&self, frame: u64) -> impl Iterator<Item = String> {
        let never = match self.kind {
            Kind::OneRateTwoColors => None,
            // In RFC 2698, conforming packets take from both buckets.
            Kind::TwoRates2698 => Some("always violate"),
            Kind::OneRateThreeColors | Kind::TwoRates4115 => Some("never exceed"),
        };
        let bursts = [("cb", self.cb, Some("never conform")), ("eb", self.eb, never)];
        let bytes = self.unit == Unit::Kbps;
        bursts.into_iter().filter_map(move |(name, burst, never)| {
            let never = never.filter(|_| bytes && burst < frame)?;
            Some(format!(
                "{name} {burst} is less than a frame of {frame} bytes: such frames {never}; use a larger burst"
            ))
        })
    }

    /// Returns how many tokens (bytes or packets) arrive per second at `rate`, which is in kbit/s or
    /// packets/s.
    pub fn per_second(&self, rate: u64) -> u64 {
        match self.unit {
            Unit::Kbps => rate.saturating_mul(125),
            Unit::Pps => rate,
        }
    }
}

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// A rate at which tokens (bytes or packets) arrive.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Rate {
    per_second: u64,
    /// Tokens per nanosecond times 2^`shift`, rounded down. `shift` is as large as 64 bits allow.
    scaled: u64,
    shift: u32,
}

impl Rate {
    /// Returns the rate of `per_second` tokens per second. `per_second` is at most 2^40.
    pub(crate) fn new(per_second: u64) -> Rate {
        if per_second == 0 {
            return Rate { per_second, scaled: 0, shift: 0 };
        }
        let shift = ((u128::from(per_second) << 64) / u128::from(SECOND)).leading_zeros();
        let scaled = (u128::from(per_second) << shift) / u128::from(SECOND);
        Rate { per_second, scaled: scaled as u64, shift }
    }

    /// Returns the number of tokens that have arrived between time 0 and `time` (in nanoseconds), rounded
    /// down as in RFC 2697. The number wraps at 2^64, at 400 Gbit/s after 11 years.
    ///
    /// The number is exact while `time` is below 2^58 ns (9 years); later it may be one token too low.
    #[inline(always)]
    pub(crate) fn credit(&self, time: u64) -> u64 {
        // `scaled` is too small by less than 1, so this is too small by less than time / 2^shift < 1 before
        // rounding: one token at most.
        let about = ((u128::from(time) * u128::from(self.scaled)) >> self.shift) as u64;
        // The rest is less than two tokens' worth, so it is right although its terms wrap.
        let left = time.wrapping_mul(self.per_second).wrapping_sub(about.wrapping_mul(SECOND));
        about.wrapping_add(u64::from(left >= SECOND))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 400 Gbit/s in bytes per second.
    const FASTEST: u64 = 50_000_000_000;

    fn good() -> Params {
        Params { cir: 1000, cb: 10_000, ..Params::default() }
    }

    #[test]
    fn invalid_parameters_are_refused_with_the_reason() {
        let three = Params { kind: Kind::OneRateThreeColors, eb: 1, ..good() };
        let two = Params { kind: Kind::TwoRates2698, eir: 1000, ..three };
        let four = Params { kind: Kind::TwoRates4115, eir: 8, ..three };
        for params in [good(), three, two, four, Params { unit: Unit::Pps, cir: 1, ..good() }] {
            assert_eq!(params.check(), Ok(()), "{params:?}");
        }
        let refused = [
            (Params { cir: 7, ..good() }, "cir 7 is out of range: use 8 to 400000000 kbps"),
            (Params { cir: 400_000_001, ..good() }, "use 8 to 400000000 kbps"),
            (Params { unit: Unit::Pps, cir: 0, ..good() }, "use 1 to 1000000000 pps"),
            (Params { cb: 0, ..good() }, "cb is missing or 0: use 1 to"),
            (Params { unit: Unit::Pps, cb: 0, ..good() }, "1099511627776 packets"),
            (Params { eir: 8, ..good() }, "eir 8 is not used by type 1r2c: remove it"),
            (Params { eb: 8, ..good() }, "eb 8 is not used by type 1r2c: remove it"),
            (Params { eir: 8, ..three }, "eir 8 is not used by type 1r3c: remove it"),
            (Params { eb: MAX_BURST + 1, ..three }, "eb 1099511627777 is out of range"),
            (Params { eir: 999, ..two }, "eir 999 is less than cir 1000"),
            (Params { eir: 0, ..four }, "eir is missing or 0: use 8 to"),
            (Params { exceed: Action::Mark(64), ..good() }, "exceed-action: DSCP 64 is more than 63"),
        ];
        for (params, why) in refused {
            let said = params.check().unwrap_err().why;
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn a_burst_below_a_frame_gives_a_warning() {
        let told = |params: Params, frame| params.too_small_for(frame).collect::<Vec<_>>();
        assert_eq!(told(good(), 10_000), [""; 0]);
        let conform =
            "cb 10000 is less than a frame of 10001 bytes: such frames never conform; use a larger burst";
        assert_eq!(told(good(), 10_001), [conform]);
        assert_eq!(told(Params { unit: Unit::Pps, ..good() }, u64::MAX), [""; 0]);
        for (kind, never) in [
            (Kind::OneRateThreeColors, "never exceed"),
            (Kind::TwoRates2698, "always violate"),
            (Kind::TwoRates4115, "never exceed"),
        ] {
            let params = Params { kind, eir: 1000, eb: 9000, ..good() };
            let excess = format!(
                "eb 9000 is less than a frame of 9001 bytes: such frames {never}; use a larger burst"
            );
            assert_eq!(told(params, 9001), [excess]);
            assert_eq!((told(params, 9000).len(), told(params, 10_001).len()), (0, 2));
        }
    }

    #[test]
    fn kinds_and_units_are_parsed_from_their_words() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.word()), Some(kind));
        }
        assert_eq!((Unit::parse("pps"), Unit::parse("kbps")), (Some(Unit::Pps), Some(Unit::Kbps)));
        assert_eq!((Kind::parse("2r3c"), Unit::parse("")), (None, None));
    }

    proptest! {
        /// Credit is exact at all rates, while the clock is below 2^58 ns (9 years).
        #[test]
        fn credit_has_no_rounding_error(rate in prop_oneof![1..=FASTEST, Just(FASTEST)], bits in 0u32..=58, time in any::<u64>()) {
            let time = time >> (64 - bits.max(1));
            let exact = u128::from(time) * u128::from(rate) / 1_000_000_000;
            prop_assert_eq!(Rate::new(rate).credit(time), exact as u64);
        }

        /// Credit is exact at the nanosecond when a token arrives, and one nanosecond earlier.
        #[test]
        fn tokens_arrive_on_time(rate in prop_oneof![1..=FASTEST, Just(FASTEST)], token in 1u64..1_000_000_000_000) {
            let at = (u128::from(token) * 1_000_000_000).div_ceil(u128::from(rate)) as u64;
            prop_assume!(at < 1 << 58);
            let r = Rate::new(rate);
            prop_assert!(r.credit(at) >= token && r.credit(at - 1) < token);
        }
    }
}
