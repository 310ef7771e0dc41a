//! Random numbers that a seed repeats.

/// A generator of pseudorandom numbers: SplitMix64 (Steele, Lea and Flood, 2014). Enough for simulations, not for
/// secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// One that gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to 1, 1 excluded, every one as probable.
    pub fn unit(&mut self) -> f64 {
        // A f64 holds 53 bits exactly.
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from −1 to 1.
    pub fn around_zero(&mut self) -> f64 {
        self.unit() * 2.0 - 1.0
    }

    /// Whether something happens that has this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// An exponentially distributed number: the time between the events of a Poisson process.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 − unit is never zero.
        -(1.0 - self.unit()).ln() * mean
    }

    /// `number` as a whole number, up or down so that the mean over many calls is `number`.
    pub fn round(&mut self, number: f64) -> u64 {
        let whole = number.floor();
        whole as u64 + u64::from(self.happens(number - whole))
    }
}
