//! Reports of all kinds of results, sensible and not.

use html5ever::ParseOpts;
use html5ever::tendril::TendrilSink as _;
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use proptest::prelude::*;

use super::fixture::results;
use super::{html, markdown};

/// Lines of a Markdown table, split at bars that are not escaped.
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

/// The page has no error that a browser would have to mend, runs nothing, fetches nothing, and has a figure for each plot.
/// An element of a page: its name, its attributes, and the elements in it.
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

    /// This one, and all in it.
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
        "Routers beside each other",
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
        // Routers of one kind alone are compared over workers.
        assert!(found || head == "Throughput over workers", "{head}");
    }
}

#[test]
fn routers_that_differ_in_workers_are_scaled() {
    let mut all = results(&[1.0], &["volley-1", "volley-2"], 1, "x");
    for (cell, fps) in all.cells.iter_mut().zip([1e6, 1e5, 1.8e6, 2e5]) {
        let crate::campaign::Found::Throughput(searches) = &mut cell.measurements[0].found else { panic!() };
        (searches[0].throughput_fps, searches[0].ended) = (Some(fps), crate::search::Ended::Found);
    }
    let text = markdown(&all);
    let lines: Vec<&str> = text.lines().filter(|l| l.contains("1.8000")).collect();
    assert!(lines.len() == 1 && lines[0].contains("0.9000"), "{text}");
    assert!(html(&all).unwrap().contains("<figcaption>Throughput over workers"));
    // Beside each other: 1.8 times as much, without an interval of single runs.
    assert!(
        text.lines().any(|l| l.contains("volley-1") && l.contains("1.800 ") && l.contains("–")),
        "{text}"
    );
}

#[test]
fn lost_frames_are_in_the_99th_percentile() {
    let mut all = results(&[1.0], &["linux"], 1, "x");
    let crate::campaign::Found::Latency(at) = &mut all.cells[0].measurements[1].found else { panic!() };
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
        bins: vec![(10, 98), (20, 1)],
    };
    at[0].runs[0].delays = Some(delays.clone());
    assert_eq!(super::delays::p99_ns(&delays), 20.0);
    let two_lost = crate::campaign::Delays { bins: vec![(10, 98)], ..delays };
    assert_eq!(super::delays::p99_ns(&two_lost), 777.0);
}

#[test]
fn a_page_shows_all_plots_and_what_was_published_beside() {
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
        "Frames for the router",
    ] {
        assert!(page.contains(&format!("<figcaption>{title}")), "{title}");
    }
    let (markdown, paper) = (markdown(&results(&numbers, &["linux"], 1, "x")), "Kosák and Lencse 2025");
    // Table I, one core: in both directions at once, in each 442,782 frames a second. VPP stands beside Volley alone.
    let rows: Vec<&str> = markdown.lines().filter(|l| l.contains(paper) && l.contains("| Linux")).collect();
    assert!(rows.iter().any(|l| l.contains("442.8")), "{markdown}");
    assert!(!markdown.contains("| VPP") && page.contains("<td>VPP</td>"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_results_can_be_reported(numbers in prop::collection::vec(any_number(), 0..40), runs in 0usize..8, routers in 0usize..4) {
        let routers = &["linux", "volley-1", "<volley>-2"][..routers.min(3)];
        let all = results(&numbers, routers, runs, NAME);
        check_markdown(&markdown(&all));
        check_html(&html(&all).unwrap());
    }
}
