//! Recomputes the papers' derived figures, to the digit. Contradictions within a paper are listed here with the reason: unlisted rows must
//! agree, and listed rows must not.

use super::*;
use crate::stats::{dispersion_percent, scaling::scaling};

/// A printed figure that differs from the one computed from its table's other figures: table, setup, printed value, computed value.
type Disagreement = (String, String, String, String);

fn case_name(case: &Case) -> String {
    let routes = case.routes.map_or(String::new(), |routes| format!(" {routes} routes"));
    let place = case.placement.as_ref().map_or(String::new(), |place| format!(", {place}"));
    format!("{} {} B{routes}, {} cores{place}", case.system, case.frame_bytes, case.cores)
}

fn of(paper: Paper) -> Vec<Case> {
    cases().unwrap().into_iter().filter(|case| case.paper == paper).collect()
}

fn value(case: &Case, metric: Metric) -> f64 {
    case.value(metric).unwrap()
}

/// Compares a printed figure with a computed value, rounded to the printed digits. `None` if they are equal.
fn disagreement(case: &Case, metric: Metric, computed: f64) -> Option<Disagreement> {
    let printed = case.figures[&metric];
    let computed = printed.print_like(computed);
    let differs = printed.to_string() != computed;
    differs.then(|| (case.table.clone(), case_name(case), printed.to_string(), computed))
}

/// Checks that the found disagreements are the listed ones. The last field of a listed disagreement is its reason.
fn assert_listed(found: &[Disagreement], listed: &[(&str, &str, &str, &str, &str)]) {
    let found: Vec<_> = found.iter().map(|(t, case, p, c)| [t.as_str(), case, p, c]).collect();
    let listed: Vec<_> = listed.iter().map(|(t, case, p, c, _reason)| [*t, *case, *p, *c]).collect();
    assert_eq!(found, listed);
}

#[test]
fn published_dispersions_are_reproduced() {
    let cases = of(Paper::KosakLencse2025);
    let found = cases.iter().filter_map(|case| {
        let [min, max, median] =
            [Metric::MinFps, Metric::MaxFps, Metric::MedianFps].map(|metric| value(case, metric));
        disagreement(case, Metric::DispersionPercent, dispersion_percent(min, max, median).unwrap())
    });
    assert_listed(&found.collect::<Vec<_>>(), &[]);
    assert_eq!(cases.len(), 54);
}

#[test]
fn published_scale_ups_and_ratios_are_reproduced() {
    let cases = of(Paper::KosakLencse2025);
    let (mut found, mut scale_ups, mut ratios) = (Vec::new(), 0, 0);
    for table in ["I", "II", "V", "VI", "VII", "VIII"] {
        let rows: Vec<&Case> = cases.iter().filter(|case| case.table == table).collect();
        let measured: Vec<(u32, f64)> = rows.iter().map(|c| (c.cores, value(c, Metric::MedianFps))).collect();
        for (case, computed) in rows.into_iter().zip(scaling(&measured).unwrap()) {
            assert_eq!(case.cores, computed.cores);
            found.extend(disagreement(case, Metric::ScaleUp, computed.scale_up.unwrap()));
            scale_ups += 1;
            // The paper has this figure exactly where half as many cores were measured.
            assert_eq!(case.value(Metric::RatioToHalf).is_some(), computed.ratio_to_half.is_some());
            if let Some(ratio) = computed.ratio_to_half {
                found.extend(disagreement(case, Metric::RatioToHalf, ratio));
                ratios += 1;
            }
        }
    }
    assert_listed(&found, &[]);
    let printed = |metric| cases.iter().filter(|case| case.value(metric).is_some()).count();
    assert_eq!((scale_ups, ratios), (printed(Metric::ScaleUp), printed(Metric::RatioToHalf)));
    assert_eq!((scale_ups, ratios), (32, 24));
}

/// Except in two rows, the printed standard deviation is possible for 20 runs with the printed minimum and maximum.
///
/// The deviation of n runs is smallest if one run is at the minimum, one at the maximum, and all others are in the middle. With the divisor
/// n, it is then (maximum − minimum) / sqrt(2 n); with the divisor n − 1, it is a little more. The deviation is largest if half of the runs
/// are at the minimum, and half at the maximum.
#[test]
fn standard_deviations_are_possible_for_20_runs() {
    let cases = of(Paper::KosakLencse2025);
    let impossible = cases.iter().filter(|case| {
        let range = value(case, Metric::MaxFps) - value(case, Metric::MinFps);
        let possible = range / 40f64.sqrt()..=range / 2.0 * (20.0 / 19.0f64).sqrt();
        !possible.contains(&value(case, Metric::SdFps))
    });
    let impossible: Vec<_> = impossible.map(|case| (case.table.as_str(), case_name(case))).collect();
    // Both printed deviations are about half of the smallest possible one: the columns do not belong together.
    assert_eq!(
        impossible,
        [("X", "VPP 84 B, 1 cores, core 4".to_owned()), ("X", "VPP 84 B, 2 cores, cores 4+6".to_owned())]
    );
}

#[test]
fn published_throughput_shares_are_reproduced() {
    let cases = of(Paper::Okelmann2019);
    let found = cases.iter().filter_map(|case| {
        let peers = cases.iter().filter(|peer| peer.table == case.table);
        // Table 6.1 compares each scenario with itself at the highest clock, 6.2 all with the fastest.
        let highest = peers
            .filter(|peer| case.table == "6.2" || (peer.path, peer.routes) == (case.path, case.routes))
            .map(|peer| value(peer, Metric::ThroughputMpps))
            .fold(0.0, f64::max);
        let share = value(case, Metric::ThroughputMpps) / highest * 100.0;
        disagreement(case, Metric::RelativePercent, share)
    });
    // Throughputs are printed with one decimal, and the fastest is 14.6.
    let explained = |mpps: f64, share: f64| {
        let (low, high) = ((mpps - 0.05) / 14.65 * 100.0, (mpps + 0.05) / 14.55 * 100.0);
        (low - 0.5..=high + 0.5).contains(&share)
    };
    assert!(
        [(10.4, 72.0), (7.2, 50.0), (4.2, 28.0), (1.5, 11.0)]
            .iter()
            .all(|(mpps, share)| explained(*mpps, *share))
    );
    assert!(!explained(9.7, 71.0));
    const ROUNDED: &str = "may follow from the throughputs before they were rounded";
    const WRONG: &str = "no rounding explains it: 9.7 of 14.6 are 66 %";
    assert_listed(
        &found.collect::<Vec<_>>(),
        &[
            ("6.2", "FastClick DPDK 64 B 1 routes, 1 cores", "72", "71", ROUNDED),
            ("6.2", "FastClick DPDK 64 B 1048576 routes, 1 cores", "72", "71", ROUNDED),
            ("6.2", "VPP 16.09 64 B 1 routes, 1 cores", "71", "66", WRONG),
            ("6.2", "VPP 18.10 64 B 255000 routes, 1 cores", "50", "49", ROUNDED),
            ("6.2", "Click DPDK 64 B 1048576 routes, 1 cores", "28", "29", ROUNDED),
            ("6.2", "Linux 3.7 64 B 1 routes, 1 cores", "11", "10", ROUNDED),
        ],
    );
}

/// Except in three rows, the bytes printed in the drafts are the printed packets times the frame size. In all rows, the packets match the
/// offered load in both directions for 30 trials of five minutes, if the load does not include preamble and gap.
#[test]
fn bytes_and_packets_of_the_drafts_are_consistent() {
    let cases = of(Paper::Slavik2025Draft);
    let apart = cases.iter().filter(|case| {
        let size = f64::from(case.frame_bytes);
        let packets = value(case, Metric::PacketsPerEnergy);
        let sent = packets * value(case, Metric::EnergyAsPrinted);
        let offered = case.offered_gbps.unwrap() * 2.0 * 1e9 / 8.0 / size * 9000.0;
        assert!((sent / offered - 1.0).abs() < 1e-6, "{}", case_name(case));
        // Packets and bytes are printed with two decimals.
        (packets * size - value(case, Metric::BytesPerEnergy)).abs() > 0.005 * (size + 1.0) + 1e-6
    });
    let apart: Vec<_> = apart.map(|case| (case.table.as_str(), case_name(case))).collect();
    assert_eq!(
        apart,
        [
            ("udp:one", "VPP 64 B, 4 cores".to_owned()),
            ("udp:one", "Linux 64 B, 20 cores".to_owned()),
            ("udp:two", "Linux 512 B, 20 cores".to_owned()),
        ]
    );
}

/// Rows with the same energy, latency and jitter to two decimals are copies, not chance, and must have a remark.
#[test]
fn copied_rows_have_a_remark() {
    let cases = of(Paper::Slavik2025);
    let key = |c: &Case| {
        [Metric::EnergyWh, Metric::LatencyUs, Metric::JitterUs].map(|metric| c.figures[&metric].to_string())
    };
    let mut copied = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        if let Some(earlier) = cases[..index].iter().find(|earlier| key(earlier) == key(case)) {
            assert!(
                case.remark.as_ref().is_some_and(|remark| remark.contains("slip of copying")),
                "{case:?}"
            );
            copied.push((earlier.table.as_str(), earlier.frame_bytes, case.table.as_str(), case.frame_bytes));
        }
    }
    assert_eq!(copied, [("2.8", 512, "2.8", 889), ("2.7", 1280, "2.8", 1518)]);
}
