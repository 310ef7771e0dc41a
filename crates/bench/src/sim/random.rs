//! Repeatable random numbers.

/// A pseudorandom number generator: SplitMix64 (Steele, Lea and Flood, 2014). Good enough for simulations, not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a uniformly distributed number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        // A f64 holds 53 bits exactly.
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a uniformly distributed number from −1 to below 1.
    pub fn around_zero(&mut self) -> f64 {
        self.unit() * 2.0 - 1.0
    }

    /// Returns true with this probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns an exponentially distributed number: the time between events of a Poisson process.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 − unit is never zero.
        -(1.0 - self.unit()).ln() * mean
    }

    /// Rounds `number` up or down at random, so that the mean over many calls is `number`.
    pub fn round(&mut self, number: f64) -> u64 {
        let whole = number.floor();
        whole as u64 + u64::from(self.happens(number - whole))
    }
}
