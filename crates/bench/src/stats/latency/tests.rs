use proptest::prelude::*;

use super::*;

fn exactly(delays: &[u64], lost: Lost) -> LatencyFigures {
    Delays::new(delays.to_vec(), lost).unwrap().figures().unwrap()
}

fn counted(delays: &[u64], lost: Lost) -> DelayHistogram {
    let mut histogram = DelayHistogram::new(lost.penalty_ns).unwrap();
    delays.iter().for_each(|ns| histogram.record(*ns).unwrap());
    histogram.record_lost(lost.frames).unwrap();
    histogram
}

#[test]
fn figures_follow_the_rfc() {
    let delays: Vec<u64> = (1..=2000).map(|i| 1000 * i).collect();
    let f = exactly(&delays, Lost::default());
    assert_eq!(
        (f.typical_ns, f.worst_case_ns, f.minimum_ns, f.maximum_ns),
        (1_000_500.0, 1_998_000, 1000, 2_000_000)
    );
    assert_eq!((f.pdv_ns, f.mean_ns, f.frames), (1_997_000, 1_000_500.0, 2000));
}

#[test]
fn one_frame_has_all_figures() {
    let f = exactly(&[7], Lost::default());
    assert_eq!((f.typical_ns, f.worst_case_ns, f.pdv_ns, f.mean_ns), (7.0, 7, 0, 7.0));
    assert_eq!(counted(&[7], Lost::default()).figures().unwrap(), f);
}

#[test]
fn lost_frames_count_with_their_penalty() {
    let lost = Lost { frames: 2, penalty_ns: 1_000_000 };
    let f = exactly(&[10, 20, 30], lost);
    assert_eq!((f.frames, f.lost.frames, f.typical_ns, f.worst_case_ns), (5, 2, 30.0, 1_000_000));
    assert_eq!((f.mean_ns, f.received_mean_ns()), (2_000_060.0 / 5.0, Some(20.0)));
    let all_lost = exactly(&[], lost);
    assert_eq!((all_lost.typical_ns, all_lost.pdv_ns, all_lost.received_mean_ns()), (1e6, 0, None));
    // Far too many lost frames to store individually.
    let flood = exactly(&[10], Lost { frames: u64::MAX / 4, penalty_ns: 5 });
    assert_eq!((flood.typical_ns, flood.maximum_ns), (5.0, 10));
}

#[test]
fn missing_frames_and_impossible_delays_are_errors() {
    assert_eq!(Delays::default().figures(), Err(Error::Empty));
    assert_eq!(DelayHistogram::new(0).unwrap().figures(), Err(Error::Empty));
    let wrong = Delays::new(vec![LONGEST_NS + 1], Lost::default()).unwrap_err();
    assert_eq!(wrong.to_string(), "a delay in nanoseconds is 3600000000001: it must be at most an hour");
    assert!(Delays::new(vec![], Lost { frames: 1, penalty_ns: u64::MAX }).is_err());
    assert!(DelayHistogram::new(u64::MAX).is_err());
    let mut histogram = DelayHistogram::new(0).unwrap();
    assert!(histogram.record(LONGEST_NS + 1).is_err());
    assert_eq!(histogram.frames(), 0);
    histogram.record(LONGEST_NS).unwrap();
    assert_eq!(histogram.figures().unwrap().maximum_ns, LONGEST_NS);
    assert!(histogram.add(&DelayHistogram::new(1).unwrap()).is_err());
}

fn delays() -> impl Strategy<Value = Vec<u64>> {
    // Delays of all magnitudes; a uniform draw would give almost only long ones.
    prop::collection::vec(
        (0u32..42, any::<u64>()).prop_map(|(bits, any)| (any >> (63 - bits)).min(LONGEST_NS)),
        0..300,
    )
}

fn lost() -> impl Strategy<Value = Lost> {
    (0u64..20, 0..=LONGEST_NS).prop_map(|(frames, penalty_ns)| Lost { frames, penalty_ns })
}

proptest! {
    /// Compares with a sorted list of all delays, including one entry per lost frame.
    #[test]
    fn ranks_equal_those_of_a_sorted_list(delays in delays(), lost in lost()) {
        let mut all = delays.clone();
        all.extend(std::iter::repeat_n(lost.penalty_ns, lost.frames as usize));
        all.sort_unstable();
        let ranked = Delays::new(delays, lost).unwrap();
        prop_assert_eq!(ranked.frames(), all.len() as u64);
        let ranks: Vec<u64> = (1..=all.len() as u64).map(|rank| ranked.at_rank(rank)).collect();
        prop_assert_eq!(ranks, all);
    }

    #[test]
    fn exact_and_counted_figures_agree_to_a_thousandth(delays in delays(), lost in lost()) {
        prop_assume!(!delays.is_empty() || lost.frames > 0);
        let exact = exactly(&delays, lost);
        let counted = counted(&delays, lost).figures().unwrap();
        prop_assert_eq!((counted.frames, counted.lost, counted.mean_ns), (exact.frames, exact.lost, exact.mean_ns));
        prop_assert_eq!((counted.minimum_ns, counted.maximum_ns), (exact.minimum_ns, exact.maximum_ns));
        let near = |counted: f64, exact: f64| (0.0..=exact / 1000.0).contains(&(counted - exact));
        prop_assert!(near(counted.typical_ns, exact.typical_ns), "{counted:?} {exact:?}");
        prop_assert!(near(counted.worst_case_ns as f64, exact.worst_case_ns as f64), "{counted:?} {exact:?}");
        // The PDV has the same error as the worst-case latency.
        let pdv_error = counted.pdv_ns as f64 - exact.pdv_ns as f64;
        prop_assert!((0.0..=exact.worst_case_ns as f64 / 1000.0).contains(&pdv_error));
    }

    #[test]
    fn two_receivers_count_the_same_as_one(left in delays(), right in delays(), lost in lost()) {
        prop_assume!(!left.is_empty() || !right.is_empty());
        let mut sum = counted(&left, lost);
        sum.add(&counted(&right, Lost { frames: 0, ..lost })).unwrap();
        let all = counted(&[left, right].concat(), lost);
        prop_assert_eq!(sum.figures(), all.figures());
    }
}
