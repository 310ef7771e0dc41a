use super::*;
use crate::search::Ended;
use crate::sim::Router;

#[test]
fn the_strict_profile_has_no_deviations() {
    assert_eq!(Profile::strict().deviations(), []);
    assert_eq!(Profile::strict().waits.sum(), s(11.0));
}

#[test]
fn the_quick_profile_lists_all_its_deviations() {
    let told: Vec<String> = Profile::quick().deviations().iter().map(Deviation::to_string).collect();
    for line in [
        "RFC 2544 section 9.1: frames of 128, 256, 1024, 1280 bytes are not tested",
        "RFC 2544 section 23 e: the wait for the router to become stable is 0.2 s, less than 5 s",
        "RFC 2544 section 24: trials of throughput and frame loss rate send for 1 s, less than 60 s",
        "RFC 2544 section 26.4: the wait after a back-to-back burst is 0.2 s, less than 2 s",
        "RFC 2544 section 26.4: repetitions of a back-to-back search: 5, less than 50",
    ] {
        assert!(told.iter().any(|told| told == line), "{line} is not in {told:#?}");
    }
}

/// Violates one rule of the RFCs at a time, and counts the deviations. Two rules concern the wait for residual frames.
#[test]
fn each_deviation_is_detected_separately() {
    let changes: [fn(&mut Profile); 12] = [
        |p| p.frame_bytes = vec![64, 128, 256, 512, 1024, 1280],
        |p| p.waits.after_routes = s(1.0),
        |p| p.waits.after_learning = s(1.0),
        |p| p.waits.residual = s(1.0),
        |p| p.waits.restabilise = s(4.0),
        |p| p.duration = s(59.0),
        |p| p.latency.duration = s(60.0),
        |p| p.latency.repetitions = 19,
        |p| p.variation = s(10.0),
        |p| p.back_to_back.repetitions = 49,
        |p| p.recovery.overload = s(10.0),
        |p| p.loss_step = 0.2,
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut profile = Profile::strict();
        change(&mut profile);
        let expected = if profile.waits.residual < s(2.0) { 2 } else { 1 };
        assert_eq!(profile.deviations().len(), expected, "change {index}");
    }
}

#[test]
fn an_older_profile_gets_the_reset_time_of_its_version() {
    let mut text = serde_json::to_value(Profile::strict()).unwrap();
    text["recovery"].as_object_mut().unwrap().remove("reset");
    let read: Profile = serde_json::from_value(text).unwrap();
    assert_eq!((read.recovery.reset, read.recovery.overload), (s(5.0), s(60.0)));
}

#[test]
fn both_profiles_find_a_routers_throughput() {
    for profile in [Profile::strict(), Profile::quick()] {
        let router = || Router::new(1e6).queue(1000);
        let mut quiet = |_: &crate::search::Progress<'_>| ();
        let found = profile.throughput(1e3, 14.88e6).search(&mut router(), &mut quiet).unwrap();
        assert_eq!(found.ended, Ended::Found);
        let throughput = found.throughput_fps.unwrap();
        // The buffer adds up to a thousand frames in each trial.
        assert!((throughput - 1e6).abs() <= 1e6 * 0.011 + 1000.0, "{throughput}");
        assert_eq!(profile.loss_rate(14.88e6).search(&mut router(), &mut quiet).unwrap().points.len(), 10);
        let bursts = profile.back_to_back(14.88e6, throughput).search(&mut router(), &mut quiet).unwrap();
        assert!((bursts.summary.unwrap().corrected_seconds * 14.88e6 - 1000.0).abs() < 30.0);
        let mlr = profile.mlr(1e3, 14.88e6).search(&mut router(), &mut quiet).unwrap();
        assert!(mlr.goals.iter().all(|goal| goal.ended == Ended::Found));
    }
}
