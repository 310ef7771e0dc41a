//! Random numbers for inputs. The same seed gives the same numbers.

use infra::hash::mix64;

/// A generator of numbers that depend only on the seed.
pub struct Dice {
    seed: u64,
    rolls: u64,
}

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice { seed, rolls: 0 }
    }

    /// Returns the next number.
    pub fn roll(&mut self) -> u64 {
        self.rolls += 1;
        mix64(mix64(self.seed) ^ self.rolls)
    }

    /// Returns a number below `n`, which must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.roll() % n as u64) as usize
    }

    /// Returns true with the probability 1/`n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of the items, of which there is at least one.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Returns `n` random bytes.
    pub fn bytes(&mut self, n: usize) -> impl Iterator<Item = u8> {
        (0..n).map(|_| self.roll() as u8)
    }
}
