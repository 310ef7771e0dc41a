//! Tests of the limits, which compare them with a plain token bucket.

use proptest::prelude::*;

use super::limit::{Bucket, Limiter, Limits, Rate, Refused};
use super::report::VITAL;

/// Returns a limiter with this rate for one source, and 1,000 messages a second in total.
fn limiter(per_source: Rate) -> Limiter {
    Limiter::new(Limits { per_source, in_total: Rate::new(1000, 50), buckets: 1024 })
}

/// A plain token bucket: the number of tokens, and the time in nanoseconds when the last token was added.
struct Plain {
    tokens: u64,
    since: u64,
}

impl Plain {
    fn pass(&mut self, interval: u64, burst: u64, now: u64) -> bool {
        while self.tokens < burst && now - self.since >= interval {
            self.tokens += 1;
            self.since += interval;
        }
        if self.tokens == burst {
            self.since = now;
        }
        let pass = self.tokens > 0;
        self.tokens -= u64::from(pass);
        pass
    }
}

proptest! {
    #[test]
    fn a_bucket_is_a_token_bucket(
        per_second in 1u32..2000,
        burst in 1u32..50,
        gaps in prop::collection::vec(prop_oneof![Just(0), 0u64..2_000_000, 0u64..3_000_000_000], 1..400),
    ) {
        let interval = 1_000_000_000 / u64::from(per_second);
        let (mut bucket, mut now) = (Bucket::default(), 1_000_000_000_000);
        let mut plain = Plain { tokens: u64::from(burst), since: now };
        for gap in gaps {
            now += gap;
            prop_assert_eq!(
                bucket.pass(Rate::new(per_second, burst), now),
                plain.pass(interval, u64::from(burst), now)
            );
        }
    }
}

#[test]
fn one_source_does_not_use_up_the_total_limit() {
    let mut limiter = limiter(Rate::new(1, 5));
    let mut now = 1;
    let passed = (0..1000).filter(|_| limiter.pass(0, 1, now).is_ok()).count();
    assert_eq!((passed, limiter.pass(0, 1, now)), (5, Err(Refused::Source)));
    // Ten other sources: at most a few of them share the first one's bucket.
    let others = (2..12).filter(|source| limiter.pass(0, *source, now).is_ok()).count();
    assert!(others >= 8, "{others} of 10 sources passed");
    // The same address in other VRFs passes too.
    let vrfs = (1..11).filter(|fib| limiter.pass(*fib, 1, now).is_ok()).count();
    assert!(vrfs >= 8, "{vrfs} of 10 VRFs passed");
    now += 1_000_000_000;
    assert_eq!(limiter.pass(0, 1, now), Ok(()));
}

#[test]
fn many_sources_share_the_total_limit() {
    let mut limiter = limiter(Rate::new(100, 10));
    let results: Vec<_> = (0..500).map(|source| limiter.pass(0, source, 1)).collect();
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 50);
    assert!(results[100..].contains(&Err(Refused::Total)));
}

/// A host sends 40,000 packets per second that are larger than the MTU, with all 254 addresses of its network as sources. Nearly all other
/// sources still get their reports.
#[test]
fn a_flood_from_one_network_leaves_vital_reports_to_others() {
    let mut limiter = Limiter::new(VITAL);
    let (mut now, mut passed) = (0, 0);
    for victim in 0..1000u32 {
        for n in 0..40u32 {
            let _ = limiter.pass(0, 0x0a00_0000 + (victim * 40 + n) % 254, now);
            now += 25_000;
        }
        passed += u32::from(limiter.pass(0, 0xc000_0000 + victim, now).is_ok());
    }
    assert!(passed > 900, "{passed} of 1000");
}
