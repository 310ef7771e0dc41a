//! Tests of reports, with all kinds of results, including senseless ones.

mod plots;

use html5ever::ParseOpts;
use html5ever::tendril::TendrilSink as _;
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use proptest::prelude::*;

use super::compare::{Scaled, scaled};
use super::fixture::{results, router};
use super::{html, markdown};
use crate::campaign::{Found, Key, Results};

/// Counts the bars in a line of a Markdown table, except escaped bars.
fn cells(line: &str) -> usize {
    line.replace("\\\\", "").replace("\\|", "").matches('|').count()
}

fn check_markdown(text: &str) {
    let mut expected = 0;
    for line in text.lines() {
        match line.starts_with('|') {
            true if expected == 0 => expected = cells(line),
            true => assert_eq!(cells(line), expected, "{line}"),
            false => expected = 0,
        }
    }
    check_numbers(text);
}

fn check_numbers(text: &str) {
    let mut words = text.split(|c: char| !c.is_ascii_alphabetic());
    assert!(!words.any(|word| matches!(word.to_lowercase().as_str(), "nan" | "inf")), "{text}");
}

/// An element of a page: its name, attributes and child elements.
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    children: Vec<Element>,
}

impl Element {
    fn of(node: &Handle) -> Vec<Element> {
        let children = || node.children.borrow().iter().flat_map(Element::of).collect();
        match &node.data {
            NodeData::Element { name, attrs, .. } => {
                let attributes =
                    attrs.borrow().iter().map(|a| (a.name.local.to_string(), a.value.to_string())).collect();
                vec![Element { name: name.local.to_string(), attributes, children: children() }]
            }
            _ => children(),
        }
    }

    /// Returns this element and all its descendants.
    fn all(&self) -> Vec<&Element> {
        [self].into_iter().chain(self.children.iter().flat_map(Element::all)).collect()
    }

    fn named(&self, name: &str) -> Vec<&Element> {
        self.all().into_iter().filter(|e| e.name == name).collect()
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Checks that the page parses without errors, has no scripts, loads no other files, and has one `svg` in each figure.
fn check_html(page: &str) {
    let read = html5ever::parse_document(RcDom::default(), ParseOpts::default()).one(page);
    assert!(read.errors.borrow().is_empty(), "{:?}", read.errors);
    let roots = Element::of(&read.document);
    let root = &roots[0];
    for element in root.all() {
        assert!(
            !["script", "link", "img", "iframe", "object"].contains(&element.name.as_str()),
            "{}",
            element.name
        );
        assert!(element.attributes.iter().all(|(name, _)| name != "src" && !name.starts_with("on")));
    }
    for figure in root.named("figure") {
        assert_eq!(figure.named("svg").len(), 1);
        let told = |e: &&Element| e.attribute("role") == Some("img") && e.attribute("aria-label").is_some();
        assert_eq!(figure.all().into_iter().filter(told).count(), 1);
    }
    assert!(!page.contains("<script"));
    for table in root.named("table") {
        let wide: Vec<usize> = table.named("tr").iter().map(|row| row.children.len()).collect();
        assert!(wide.iter().all(|n| *n == wide[0] && *n > 0), "{wide:?}");
    }
    check_numbers(page);
}

const NAME: &str = "a|b\n<script>alert(1)</script> & \"c\"";

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        1f64..1e8,
        1e-9f64..1.0,
        Just(f64::MAX),
        Just(u64::MAX as f64),
        Just(-1.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
    ]
}

#[test]
fn every_procedure_has_its_section() {
    let text = markdown(&results(&[1e3, 2e5, 3e4, 5.0], &["linux", "volley"], 7, "x"));
    for head in [
        "Conditions",
        "Routers",
        "Provenance",
        "Throughput (RFC 2544-like section 26.1)",
        "Comparison of routers",
        "Throughput over workers",
        "Latency (RFC 8219",
        "Delay variation (RFC 8219",
        "Given loads",
        "Inter-packet",
        "Frame loss rate",
        "Back-to-back frames",
        "Non-drop",
        "Maximum receive rate",
        "Soak",
        "System recovery",
        "Reset",
        "Maximum connection establishment rate (RFC 9693",
        "Connection tracking table capacity (RFC 9693",
        "Connection tear-down rate (RFC 9693",
        "Processor time",
        "What the routers counted",
        "Invalid trials",
        "What could not be measured",
    ] {
        let found = text.lines().any(|line| line.starts_with(&format!("## {head}")));
        // These routers are of two kinds, so the report does not show how they scale over workers.
        assert!(found || head == "Throughput over workers", "{head}");
    }
}

#[test]
fn throughput_over_workers_compares_equal_routers() {
    let mut all = results(&[1.0], &["volley-1", "volley-2"], 1, "x");
    for (cell, fps) in all.cells.iter_mut().zip([1e6, 1e5, 1.8e6, 2e5]) {
        let Found::Throughput(searches) = &mut cell.measurements[0].found else { panic!() };
        (searches[0].throughput_fps, searches[0].ended) = (Some(fps), crate::search::Ended::Found);
        cell.measurements[0].limited_by_tester = false;
    }
    let scaled = |all: &Results| {
        let text = markdown(all);
        let line = text.lines().find(|l| l.contains("1.8000")).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(scaled(&all).contains("1800.0 | 0.9000 | 1.8000 |"), "{}", scaled(&all));
    // If the tester limited one of two throughputs, their ratio is only a bound.
    all.cells[2].measurements[0].limited_by_tester = true;
    assert!(scaled(&all).contains("| volley-2 † |"), "{}", scaled(&all));
    assert!(scaled(&all).contains("≥ 0.9000 | ≥ 1.8000 |"), "{}", scaled(&all));
    let ratios = || rows(&markdown(&all), "Comparison of routers").join("\n");
    assert!(ratios().contains("| volley-2 † | volley-1 | throughput | ≥ 1.800 | – |"), "{}", ratios());
    all.cells[2].measurements[0].limited_by_tester = false;
    all.cells[0].measurements[0].limited_by_tester = true;
    assert!(scaled(&all).contains("≤ 0.9000 | ≤ 1.8000 |"), "{}", scaled(&all));
    all.cells[2].measurements[0].limited_by_tester = true;
    assert!(!scaled(&all).contains("1.8000"), "{}", scaled(&all));
    all.cells.iter_mut().for_each(|cell| cell.measurements[0].limited_by_tester = false);
    let text = markdown(&all);
    assert!(html(&all).unwrap().contains("<figcaption>Throughput over workers"));
    // The ratio is 1.8, and has no interval with single runs.
    assert!(
        text.lines().any(|l| l.contains("volley-1") && l.contains("1.800 ") && l.contains("–")),
        "{text}"
    );
}

#[test]
fn workers_are_read_from_the_campaign_not_from_names() {
    let mut all = results(&[1.0], &["volley-9", "b"], 1, "x");
    let fps = |all: &mut Results, n: usize, fps: f64| {
        let Found::Throughput(searches) = &mut all.cells[n].measurements[0].found else { panic!() };
        (searches[0].throughput_fps, searches[0].ended) = (Some(fps), crate::search::Ended::Found);
    };
    (0..4).for_each(|n| fps(&mut all, n, 1e6));
    assert_eq!(
        scaled(&all).iter().map(Scaled::names).collect::<Vec<_>>(),
        ["volley-9 †, b †", "volley-9 †, b †"]
    );
    // Not compared: a router that forwards nothing, a second one with as many workers, one with another configuration.
    fps(&mut all, 0, 0.0);
    assert_eq!(scaled(&all).len(), 1);
    fps(&mut all, 0, 1e6);
    all.campaign.duts[1] = router("b", 1);
    assert_eq!(scaled(&all).len(), 0);
    all.campaign.duts[1] =
        serde_json::from_str(r#"{"kind":"volley","name":"b","workers":2,"driver":"af-xdp"}"#).unwrap();
    assert_eq!(scaled(&all).len(), 0);
}

#[test]
fn throughput_over_workers_shows_the_spread_of_runs() {
    let mut all = results(&[1.0], &["volley-1", "volley-2"], 2, "x");
    for cell in &mut all.cells {
        let Found::Throughput(searches) = &mut cell.measurements[0].found else { panic!() };
        for (search, fps) in searches.iter_mut().zip([1e6, 3e6]) {
            (search.throughput_fps, search.ended) = (Some(fps), crate::search::Ended::Found);
        }
    }
    let points: Vec<_> = scaled(&all).into_iter().flat_map(|group| group.points).collect();
    assert!(points.iter().all(|p| (p.fps, p.range) == (2e6, Some((1e6, 3e6)))) && points.len() == 4);
}

#[test]
fn the_lookup_model_is_fitted_with_lookup_times() {
    let mut all = results(&[1.0], &["volley"], 1, "x");
    all.cells[1].key = Key { routes: 255_000, ..all.cells[0].key.clone() };
    for (cell, (fps, lookups)) in all.cells.iter_mut().zip([(9e5, "100"), (5e5, "500")]) {
        let one = &mut cell.measurements[0];
        let Found::Throughput(searches) = &mut one.found else { panic!() };
        (searches[0].throughput_fps, searches[0].ended) = (Some(fps), crate::search::Ended::Found);
        one.counters =
            [("lookup clocks", lookups), ("node clocks", "1000")].map(|(n, v)| (n.into(), v.into())).into();
    }
    let models = || rows(&markdown(&all), "Models").join("\n");
    // The two measured throughputs are 90 % and 50 % of a million frames per second.
    let fit = "throughput = 1000.0 (1 − s) kfps, share s of the nodes' time in lookups | 0 routes (10.0 %): 0.00; 255000 routes (50.0 %): \
               0.00 kfps |";
    assert!(models().contains(fit), "{}", models());
    all.cells[1].measurements[0].counters.clear();
    assert!(!rows(&markdown(&all), "Models").join("").contains("in lookups"));
}

#[test]
fn lost_frames_are_in_the_99th_percentile() {
    let mut all = results(&[1.0], &["linux"], 1, "x");
    let Found::Latency(at) = &mut all.cells[0].measurements[1].found else { panic!() };
    let delays = crate::campaign::Delays {
        figures: crate::stats::latency::LatencyFigures {
            frames: 100,
            lost: crate::stats::latency::Lost { frames: 1, penalty_ns: 777 },
            minimum_ns: 10,
            typical_ns: 10.0,
            worst_case_ns: 777,
            maximum_ns: 777,
            mean_ns: 18.0,
            pdv_ns: 767,
        },
        ipdv: None,
        jitter: None,
        bins: vec![(10, 98), (20, 1)],
        directions: Vec::new(),
    };
    at[0].runs[0].delays = Some(delays.clone());
    assert_eq!(super::delays::p99_ns(&delays), 20.0);
    let two_lost = crate::campaign::Delays { bins: vec![(10, 98)], ..delays };
    assert_eq!(super::delays::p99_ns(&two_lost), 777.0);
}

#[test]
fn each_direction_has_its_delays_and_its_loss() {
    let mut all = results(&[1e3], &["linux"], 1, "x");
    assert!(!markdown(&all).contains("left to right"));
    let Found::Latency(at) = &mut all.cells[0].measurements[1].found else { panic!() };
    let figures = crate::stats::latency::LatencyFigures {
        frames: 200,
        lost: crate::stats::latency::Lost::default(),
        minimum_ns: 12_000,
        typical_ns: 13_000.0,
        worst_case_ns: 14_000,
        maximum_ns: 15_000,
        mean_ns: 13_000.0,
        pdv_ns: 2_000,
    };
    let mut back = figures.clone();
    (back.minimum_ns, back.lost.frames) = (34_000, 50);
    let way = |figures| crate::campaign::DirectionDelays { figures, ipdv: None };
    at[0].runs[0].delays = Some(crate::campaign::Delays {
        figures: figures.clone(),
        ipdv: None,
        jitter: None,
        bins: Vec::new(),
        directions: vec![way(figures), way(back)],
    });
    at[0].runs.iter_mut().for_each(|run| run.outcome.invalid.clear());
    let text = markdown(&all);
    let rows = rows(&text, "Latency");
    let of = |name: &str| rows.iter().find(|row| row.contains(name)).unwrap_or_else(|| panic!("{text}"));
    let cells = |name: &str| of(name).split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let (forth, back) = (cells("left to right"), cells("right to left"));
    assert!(forth.contains(&"12.00".to_owned()) && back.contains(&"34.00".to_owned()), "{forth:?} {back:?}");
    assert!(back.contains(&"25.00".to_owned()), "{back:?}");
    // The mean is of the 150 received frames.
    assert!(forth.contains(&"13.00".to_owned()) && back.contains(&"17.33".to_owned()), "{forth:?} {back:?}");
}

#[test]
fn the_page_shows_all_plots_with_published_results() {
    let numbers = [1e3, 2e5, 3e4, 5.0, 12.0, 0.4, 700.0];
    let page = html(&results(&numbers, &["linux", "volley-1", "volley-2"], 7, NAME)).unwrap();
    check_html(&page);
    for title in [
        "Throughput over frame size",
        "Loss over the offered load",
        "Loss over time",
        "Delay over load",
        "PDV over load",
        "Distribution",
        "Frames per processor time",
        "Packets per Wh",
    ] {
        assert!(page.contains(&format!("<figcaption>{title}")), "{title}");
    }
    let (markdown, paper) = (markdown(&results(&numbers, &["linux"], 1, "x")), "Kosák and Lencse 2025");
    // Table I, one core, both directions: 442,782 frames per second in each. VPP is listed with Volley only.
    let rows: Vec<&str> = markdown.lines().filter(|l| l.contains(paper) && l.contains("| Linux")).collect();
    assert!(rows.iter().any(|l| l.contains("442.8")), "{markdown}");
    assert!(!markdown.contains("| VPP") && page.contains("<td>VPP</td>"));
}

/// Returns the systems and numbers of routes in the table of published results.
fn published(all: &Results) -> Vec<(String, String)> {
    let text = markdown(all);
    let rows =
        text.lines().filter(|l| l.contains("| Kosák") || l.contains("| Okelmann") || l.contains("| Slavík"));
    let cells = rows.map(|l| l.split('|').map(|c| c.trim().to_owned()).collect::<Vec<_>>());
    let mut found: Vec<_> =
        cells.map(|c| (c[3].split(' ').next().unwrap().to_owned(), c[9].clone())).collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn published_results_are_matched_by_kind_not_by_name() {
    let mut all = results(&[1e3], &["linux"], 1, "x");
    let mut beside = |spec: &str| {
        all.campaign.duts = vec![serde_json::from_str(spec).unwrap()];
        published(&all).into_iter().map(|(system, _)| system).collect::<std::collections::BTreeSet<_>>()
    };
    for kind in ["vpp", "volley"] {
        let found = beside(&format!(r#"{{"kind":"{kind}","name":"linux"}}"#));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["VPP"], "{kind}");
    }
    assert_eq!(beside(r#"{"kind":"command","name":"linux","start":"x"}"#).len(), 0);
    assert_eq!(beside(r#"{"kind":"linux"}"#).into_iter().collect::<Vec<_>>(), ["Linux"]);
    // No paper has a throughput with translated addresses; Slavík 2025 has delays.
    let text = markdown(&all);
    let nat = results_of(&mut all, r#"{"kind":"linux","nat":true}"#);
    assert!(text.contains("| Kosák") && !nat.contains("| Kosák") && nat.contains("| Slavík"), "{nat}");
}

fn results_of(all: &mut Results, spec: &str) -> String {
    all.campaign.duts = vec![serde_json::from_str(spec).unwrap()];
    markdown(all)
}

#[test]
fn published_results_are_matched_by_table_size() {
    let mut all = results(&[1e3], &["volley"], 1, "x");
    let small = published(&all);
    assert!(small.contains(&("VPP".into(), "1".into())), "{small:?}");
    assert!(small.iter().all(|(_, routes)| routes == "not given" || routes.parse::<u32>().unwrap() <= 2));
    all.cells.iter_mut().for_each(|cell| cell.key.routes = 200_000);
    assert_eq!(published(&all), [("VPP".into(), "255000".into())]);
    all.cells.iter_mut().for_each(|cell| cell.key.routes = 1_000_000);
    assert_eq!(published(&all), [("VPP".into(), "1048576".into())]);
}

#[test]
fn throughput_is_compared_over_flows_and_sessions() {
    let mut all = results(&[1e3], &["linux"], 1, "x");
    for (cell, fps) in all.cells.iter_mut().zip([4e5, 1e5]) {
        cell.measurements[0].limited_by_tester = false;
        let Found::Throughput(searches) = &mut cell.measurements[0].found else { panic!() };
        (searches[0].throughput_fps, searches[0].ended) = (Some(fps), crate::search::Ended::Found);
    }
    assert!(!markdown(&all).contains("Throughput over flows"));
    let key = all.cells[0].key.clone();
    all.cells[1].key = Key { flows: 1000, ..key.clone() };
    assert!(!markdown(&all).contains("Throughput over flows"));
    all.cells[0].key.flows = 1;
    all.cells[1].measurements[0].limited_by_tester = true;
    let text = markdown(&all);
    let rest = text.split("## Throughput over flows").nth(1).unwrap();
    let row = rest.lines().find(|l| l.contains(" 1000 |")).unwrap();
    assert!(row.contains('†') && row.contains(" 100.0 ") && row.ends_with(" ≥ 0.250 |"), "{row}");
    assert!(
        text.contains("rfc2544, 1 flow,")
            && text.contains("rfc2544, 1000 flows,")
            && !text.contains("Throughput over sessions"),
        "{text}"
    );
    assert!(html(&all).unwrap().contains("<figcaption>Throughput over flows"));
    all.cells[1].key = Key { sessions: 5000, flows: 1, ..key };
    assert!(markdown(&all).contains("## Throughput over sessions"));
}

#[test]
fn throughput_is_compared_over_routes_with_the_caches() {
    let mut all = results(&[1e3], &["linux"], 1, "x");
    all.cells[1].key = Key { routes: 100_000, ..all.cells[0].key.clone() };
    for (cell, fps) in all.cells.iter_mut().zip([4e5, 1e5]) {
        cell.measurements[0].limited_by_tester = false;
        let Found::Throughput(searches) = &mut cell.measurements[0].found else { panic!() };
        (searches[0].throughput_fps, searches[0].ended) = (Some(fps), crate::search::Ended::Found);
    }
    let row = |all: &Results| {
        let text = markdown(all);
        let rest = text.split("## Throughput over routes").nth(1).unwrap().to_owned();
        rest.lines().find(|l| l.contains(" 100000 |")).unwrap().to_owned()
    };
    assert!(row(&all).contains("0.250 | – "), "{}", row(&all));
    let cache = |(name, size): (&str, &str)| (format!("cache {name}"), format!("{size}, for threads 0"));
    let caches = [("L1 data", "32K"), ("L2 unified", "1024K"), ("L3 unified", "8192K")];
    all.provenance.facts = caches.map(cache).into();
    // Okelmann 2019 has no marks for the IPv4 table.
    assert!(row(&all).contains("0.250 | – "), "{}", row(&all));
    all.cells.iter_mut().for_each(|cell| (cell.key.traffic, cell.key.size) = ("rfc5180".into(), 84));
    assert!(row(&all).contains("0.250 | L3 "), "{}", row(&all));
    assert!(html(&all).unwrap().contains("<figcaption>Throughput over routes"));
    // The router is on another machine.
    all.campaign.testbed.kind = crate::testbed::Kind::Physical;
    assert!(row(&all).contains("0.250 | – "), "{}", row(&all));
}

#[test]
fn routers_are_compared_side_by_side() {
    let mut all = results(&[1e3], &["linux", "volley"], 1, "x");
    all.cells.iter_mut().for_each(|cell| cell.measurements[0].limited_by_tester = false);
    let text = markdown(&all);
    let table = text.split("\n## Throughput (").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table
        .lines()
        .filter(|l| l.starts_with("| rfc2544"))
        .map(|l| l.split('|').map(str::trim).collect::<Vec<_>>());
    let keys: Vec<_> = rows.map(|row| (row[2].to_owned(), row[3].to_owned())).collect();
    let expected = [("64", "linux"), ("64", "volley"), ("1518", "linux"), ("1518", "volley")];
    assert_eq!(keys, expected.map(|(size, dut)| (size.to_owned(), dut.to_owned())));
}

#[test]
fn repeated_trials_are_counted() {
    let mut all = results(&[1e3], &["linux"], 2, "x");
    all.cells.truncate(1);
    let said = |all: &Results, row: &str| {
        let text = markdown(all);
        let table = text.split("\n## Invalid trials\n").nth(1).and_then(|t| t.split("\n## ").next());
        table.is_some_and(|t| t.split_whitespace().collect::<Vec<_>>().join(" ").contains(row))
    };
    assert!(said(&all, "| back-to-back | – | 7 | – |"), "{}", markdown(&all));
    // The table also lists a procedure whose invalid trials were all repeated successfully.
    let mut one = all.cells[0].measurements.remove(8);
    let Found::Soak(found) = &mut one.found else { panic!("{one:?}") };
    found.points[0].outcomes.iter_mut().for_each(|o| o.invalid.clear());
    all.cells[0].measurements = vec![one];
    assert!(said(&all, "| soak | 2 | 7 | 0 |"), "{}", markdown(&all));
    all.cells[0].measurements[0].repeated = 0;
    assert!(!said(&all, "| soak | 2 |"));
}

/// Returns the table rows whose traffic begins with `rfc2544`, from the section with the heading `head`.
fn rows(text: &str, head: &str) -> Vec<String> {
    let section = text.split(&format!("\n## {head}")).nth(1).and_then(|rest| rest.split("\n## ").next());
    let rows = section.unwrap_or_default().lines().filter(|l| l.starts_with("| rfc2544"));
    rows.map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn limits_of_the_tester_are_shown_for_each_load() {
    let mut all = results(&[1e3], &["linux"], 1, "x");
    all.cells.truncate(1);
    let Found::Latency(at) = &mut all.cells[0].measurements[1].found else { panic!() };
    (at[0].limited_by_tester, at[1].limited_by_tester) = (Some(false), None);
    let text = markdown(&all);
    let marked: Vec<bool> = rows(&text, "Latency").iter().map(|l| l.contains("| linux † |")).collect();
    // The rows that follow are those of the averages.
    assert_eq!(marked[..2], [false, true], "{text}");
    let note = "†: limited by the tester. The router may do more than that, and lose less.";
    assert!(text.split("\n## Latency").nth(1).unwrap().contains(note), "{text}");
    assert!(html(&all).unwrap().contains(&format!("<p class=\"note\">{note}</p>")));
}

#[test]
fn the_spread_of_runs_is_reported() {
    let mut all = results(&[1e3], &["linux"], 4, "x");
    all.cells.truncate(1);
    let Found::Throughput(searches) = &mut all.cells[0].measurements[0].found else { panic!() };
    for (search, fps) in searches.iter_mut().zip([1e5, 2e5, 3e5, 6e5]) {
        (search.throughput_fps, search.ended) = (Some(fps), crate::search::Ended::Found);
    }
    let rows = rows(&markdown(&all), "Throughput (");
    // Mean 300 kfps; the sum of squares (4 + 1 + 0 + 9) · 10⁴, divided by 3.
    assert!(rows.iter().any(|l| l.ends_with("| linux † | 300.0 | 216.0 | 100.0 | 600.0 | 4 |")), "{rows:?}");
}

#[test]
fn duplicates_and_disorder_are_reported_if_present() {
    let mut all = results(&[1e3], &["linux"], 1, "x");
    all.cells.truncate(1);
    let soak = "| rfc2544, both directions | 64 | linux | soak | 9 | 1 | 2 | 4 | 0 | 5 | 6 | 3 |";
    assert!(
        rows(&markdown(&all), "Duplicates, damage and disorder").contains(&soak.into()),
        "{}",
        markdown(&all)
    );
    all.cells[0].measurements.iter_mut().for_each(|m| m.disorder = crate::campaign::Disorder::default());
    assert!(!markdown(&all).contains("Duplicates, damage and disorder"));
}

#[test]
fn tables_of_virtual_links_are_marked() {
    let mut all = results(&[1e3], &["linux"], 1, "x");
    let said = |all: &Results| markdown(all).lines().filter(|l| l.ends_with(", on virtual links:")).count();
    assert!(said(&all) > 10);
    all.campaign.testbed.kind = crate::testbed::Kind::Physical;
    assert_eq!(said(&all), 0);
}

#[test]
fn a_meter_without_a_reading_shows_the_reason() {
    let mut all = results(&[7.0], &["linux"], 2, "x");
    let said = |all: &Results| markdown(all).contains("| the unit does not answer |");
    assert!(!said(&all));
    let Found::Latency(at) = &mut all.cells[0].measurements[1].found else { panic!() };
    for meter in &mut at[0].runs[1].usage.meters {
        (meter.reading, meter.figures) = (Err(crate::energy::Fault("the unit does not answer".into())), None);
    }
    assert!(said(&all));
    let text = markdown(&all);
    // Energy and processor time have separate tables.
    let energy = text.split("\n## Energy\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let time = text.split("\n## Processor time by meters\n").nth(1).unwrap().split("\n## ").next().unwrap();
    assert!(energy.contains("| PDU") && !energy.contains("| cpu"), "{energy}");
    assert!(time.contains("| cpu") && !time.contains("| PDU"), "{time}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_results_give_a_report(numbers in prop::collection::vec(any_number(), 0..40), runs in 0usize..8, routers in 0usize..4) {
        let routers = &["linux", "volley-1", "<volley>-2"][..routers.min(3)];
        let all = results(&numbers, routers, runs, NAME);
        check_markdown(&markdown(&all));
        check_html(&html(&all).unwrap());
    }
}
