//! Limits the rate of packets that are costly to handle. All interfaces together have one rate limit, of which each group of interfaces has
//! a share.

/// A policer with a burst of a tenth of a second. It uses the generic cell rate algorithm, which stores only one time stamp.
///
/// Each group of interfaces has a share of the rate. A packet within its group's share may use a second burst of the same length. So a
/// flood on one interface can use all of the rate that other groups leave unused, but the other groups can still use their shares.
#[derive(Clone)]
pub struct Police {
    /// Time in nanoseconds when the next packet would be due at an even rate.
    due: u64,
    /// For each group of interfaces, the time in nanoseconds when its next packet would be due at an even rate within its share.
    shares: [u64; GROUPS],
}

/// Number of groups of interfaces. The index of an interface selects its group.
const GROUPS: usize = 64;
/// The share of a group of interfaces is the rate divided by this number.
const SHARE: u64 = 8;

impl Default for Police {
    fn default() -> Police {
        Police { due: 0, shares: [0; GROUPS] }
    }
}

impl Police {
    const BURST_NS: u64 = 100_000_000;

    /// True if a packet that arrived on this interface passes at the time `now` (nanoseconds of any monotonic clock). `rate` is the maximum
    /// number of packets per second.
    #[inline]
    pub fn pass(&mut self, now: u64, rate: u32, interface: u32) -> bool {
        let interval = 1_000_000_000 / u64::from(rate.max(1));
        let share = &mut self.shares[interface as usize % GROUPS];
        let (due, own) = (self.due.max(now), (*share).max(now));
        // Packets within the share of their group may use a second burst, which is not available to a flood beyond its share.
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

    /// Sends a flood of 20 times the rate on each interface in `flooding` for ten seconds, and a packet every 50 ms on `other`. Returns two
    /// numbers: the packets of the floods that passed, and the packets on `other` that passed.
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
        // Packets on the flooded interface itself have no advantage over the flood.
        assert!(passed(&[1], 1).1 < 100);
    }
}
