//! Rates of packets that are costly to handle, shared by the interfaces that they come from.

/// A policer with a burst of a tenth of a second. It uses the generic cell rate algorithm, which needs only one time stamp. Interfaces have
/// shares of the rate: a flood on one takes what the others leave, but not the shares of the others.
#[derive(Clone)]
pub struct Police {
    /// Time in nanoseconds when the next packet would be due at an even rate.
    due: u64,
    /// The same for each group of interfaces at its share of the rate.
    shares: [u64; GROUPS],
}

/// Number of groups of interfaces. The index of an interface selects its group.
const GROUPS: usize = 64;
/// An interface's share is the rate divided by this number.
const SHARE: u64 = 8;

impl Default for Police {
    fn default() -> Police {
        Police { due: 0, shares: [0; GROUPS] }
    }
}

impl Police {
    const BURST_NS: u64 = 100_000_000;

    /// Returns whether a packet that came in on this interface passes at the time `now` (nanoseconds of any monotonic clock). `rate` is in
    /// packets per second.
    #[inline]
    pub fn pass(&mut self, now: u64, rate: u32, interface: u32) -> bool {
        let interval = 1_000_000_000 / u64::from(rate.max(1));
        let share = &mut self.shares[interface as usize % GROUPS];
        let (due, own) = (self.due.max(now), (*share).max(now));
        // Packets within the share of their interface have a burst of their own, beyond what a flood can use up.
        let is_within = own - now <= Self::BURST_NS;
        if due - now > if is_within { 2 * Self::BURST_NS } else { Self::BURST_NS } {
            return false;
        }
        self.due = due + interval;
        if is_within {
            *share = own + SHARE * interval;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Sends floods at 20 times the rate on some interfaces for ten seconds, and a packet every 50 ms on another one. Returns how many
    /// packets of both passed.
    fn passed(flooding: &[u32], other: u32) -> (u64, u64) {
        const RATE: u32 = 5000;
        let mut police = Police::default();
        let (mut floods, mut others, mut now) = (0, 0, SECOND);
        let step = SECOND / u64::from(20 * RATE);
        for n in 0..10 * SECOND / step {
            now += step;
            for interface in flooding {
                floods += u64::from(police.pass(now, RATE, *interface));
            }
            if n % (SECOND / 20 / step) == 0 {
                others += u64::from(police.pass(now, RATE, other));
            }
        }
        (floods, others)
    }

    #[test]
    fn a_flood_takes_only_what_other_interfaces_leave() {
        let (floods, others) = passed(&[1], 2);
        assert_eq!(others, 200, "of the other interface");
        assert!((49_000..51_500).contains(&(floods + others)), "{floods} at 5,000 a second");
        let (floods, others) = passed(&[1, 3, 4, 5], 2);
        assert_eq!(others, 200);
        assert!(floods < 51_500, "{floods}");
        // On the flooded interface itself, packets have no advantage.
        assert!(passed(&[1], 1).1 < 100);
    }
}
