//! Exact delays, each of them stored.

use super::{Error, Lost, Ranked, check_delay};

/// The exact delays of a trial's frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    sorted: Vec<u64>,
    lost: Lost,
}

impl Delays {
    /// Takes the delays of received frames, in any order, and the lost frames.
    ///
    /// # Errors
    /// If a delay or the penalty is longer than [`super::LONGEST_NS`].
    pub fn new(mut delays_ns: Vec<u64>, lost: Lost) -> Result<Self, Error> {
        delays_ns.iter().chain([&lost.penalty_ns]).try_for_each(|ns| check_delay(*ns).map(|_| ()))?;
        delays_ns.sort_unstable();
        Ok(Self { sorted: delays_ns, lost })
    }
}

impl Ranked for Delays {
    fn frames(&self) -> u64 {
        self.sorted.len() as u64 + self.lost.frames
    }

    fn lost(&self) -> Lost {
        self.lost
    }

    /// Returns the delay at a rank. Lost frames are ranked by their penalty without being stored one by one: there may be far more lost
    /// than received frames.
    fn at_rank(&self, rank: u64) -> u64 {
        let before_lost = self.sorted.partition_point(|ns| *ns <= self.lost.penalty_ns) as u64;
        if rank <= before_lost {
            self.sorted[rank as usize - 1]
        } else if rank <= before_lost + self.lost.frames {
            self.lost.penalty_ns
        } else {
            self.sorted[(rank - self.lost.frames) as usize - 1]
        }
    }

    fn sum_ns(&self) -> u128 {
        let returned: u128 = self.sorted.iter().map(|ns| u128::from(*ns)).sum();
        returned + u128::from(self.lost.frames) * u128::from(self.lost.penalty_ns)
    }
}
