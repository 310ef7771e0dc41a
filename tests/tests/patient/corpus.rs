//! Thousands of malformed and odd packets: each one is counted, and the router keeps forwarding.

use std::collections::BTreeSet;
use std::time::Duration;

use scenarios::corpus::{self, Odd, Outcome, Tester, tester};
use serde_json::Value;
use testkit::netns::LIMIT;
use testkit::process::until;
use testkit::router::Router;

/// Number of packets with random damage.
const DAMAGED: usize = 6000;

/// A router between the tester's ends.
struct Bench {
    router: Router,
    tester: Tester,
}

impl Bench {
    fn new() -> Option<Bench> {
        let (tester, r) = Tester::new()?;
        let router = Router::start(&r, &tester::volley());
        until("no address is tentative", LIMIT, || !router.ctl("show ip6 interface").contains("tentative"));
        Some(Bench { router, tester })
    }

    fn accounting(&self) -> Value {
        self.router.json("show accounting")
    }

    /// Checks that the counters account for every packet.
    fn books_close(&self, sent: usize) {
        let mut shown = Value::Null;
        let rest = || {
            let before = std::mem::replace(&mut shown, self.accounting());
            shown == before && shown["waiting"] == 0
        };
        until("all packets have ended", LIMIT, rest);
        let shown = self.accounting();
        let count = |name: &str| shown[name].as_i64().unwrap_or_else(|| panic!("{name}: {shown}"));
        assert_eq!(count("unaccounted"), 0, "{shown}");
        // The kernel drops a few itself: those that end within a VLAN tag.
        assert!(count("received") * 100 >= sent as i64 * 99, "{sent} sent: {shown}");
        let came = count("received") + count("injected") + count("made");
        let ended = count("sent") + count("dropped") + count("consumed") + count("handled");
        assert_eq!(came, ended, "{shown}");
        // Each dropped packet has a reason, and an interface unless it is the router's own.
        let errors = self.router.json("show errors");
        let drops = errors.as_array().into_iter().flatten().filter(|e| e["dropped"] == true);
        let (main, nodes): (Vec<_>, Vec<_>) = drops.partition(|e| e["node"] == "main-thread");
        let sum = |of: &[&Value]| of.iter().filter_map(|e| e["count"].as_i64()).sum::<i64>();
        assert_eq!(sum(&nodes), count("dropped"), "{errors}");
        assert_eq!(sum(&main), count("handled_dropped"), "{errors}");
        let ports: u64 = ["host-eth0", "host-eth1"].iter().map(|p| self.router.counter(p, "drops")).sum();
        assert_eq!(ports as i64 + count("dropped_own"), sum(&nodes) + sum(&main), "{errors}");
        // The interfaces' counters equal the nodes' counters.
        let rx: u64 = ["host-eth0", "host-eth1"].iter().map(|p| self.router.counter(p, "rx packets")).sum();
        assert_eq!(rx as i64, count("received"));
        let punted = self.router.json("show punt");
        let passed: i64 = punted.as_array().into_iter().flatten().filter_map(|p| p["passed"].as_i64()).sum();
        let full = self.router.drops("punt", "punt-ring-full") as i64;
        assert_eq!(passed - full, count("handled"), "{punted}");
    }
}

#[test]
fn every_packet_of_the_corpus_is_accounted_for() {
    let Some(bench) = Bench::new() else { return };
    let packets = corpus::corpus();
    assert!(packets.len() > 3000, "{}", packets.len());
    bench.tester.burst(&packets);
    bench.books_close(packets.len());
    let damaged = corpus::damaged(DAMAGED);
    bench.tester.burst(&damaged);
    bench.books_close(packets.len() + damaged.len());
    // The packets ended for many different reasons.
    let reasons = bench.router.json("show errors").as_array().map_or(0, Vec::len);
    assert!(reasons > 60, "{reasons}");
    // The router still forwards.
    let before = bench.accounting();
    let good = Odd { class: String::new(), frame: tester::good() };
    bench.tester.burst(&vec![good; 100]);
    until("good packets pass", LIMIT, || {
        let sent = |shown: &Value| shown["sent"].as_u64().unwrap_or(0);
        sent(&bench.accounting()) >= sent(&before) + 100
    });
    bench.books_close(packets.len() + damaged.len() + 100);
}

/// The list of differences to Linux.
const LIST: &str = include_str!("../../../docs/reference/differences-to-linux.md");
/// The wait for an answer in the first, second and third attempt, as answers may be late on a busy machine. A packet is sent again if its
/// difference is not in the list, or if a row for its class has not matched any difference yet.
const SETTLE: [Duration; 3] =
    [Duration::from_micros(500), Duration::from_millis(20), Duration::from_millis(60)];

/// A row of the list.
struct Row<'l> {
    cells: [&'l str; 3],
}

impl Row<'_> {
    /// True if the row covers this difference. `…` matches any text.
    fn covers(&self, difference: &[String; 3]) -> bool {
        self.cells.iter().zip(difference).all(|(pattern, text)| matches(pattern, text))
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut open = false;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        open = part.is_empty();
    }
    open || rest.is_empty()
}

fn rows() -> Vec<Row<'static>> {
    let rows = LIST.lines().filter(|line| line.starts_with("| ")).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "a row of the list has five cells: {line}");
        Row { cells: [cells[0], cells[1], cells[2]] }
    });
    rows.skip(1).collect()
}

/// Returns a packet's class and its outcomes on Linux and on Volley; `None` if the outcomes are the same.
fn difference(odd: &Odd, [linux, volley]: [&Outcome; 2]) -> Option<[String; 3]> {
    // The routers write different time stamps.
    let same = linux.forwarded == volley.forwarded || odd.class.contains("timestamp");
    let [on_linux, on_volley] = [linux, volley].map(ToString::to_string);
    if on_linux == on_volley && same {
        return None;
    }
    let otherwise = if on_linux == on_volley { ", changed otherwise" } else { "" };
    Some([odd.class.clone(), on_linux, on_volley + otherwise])
}

#[test]
fn the_list_of_differences_to_linux_is_complete() {
    let Some((near_linux, r)) = Tester::new() else { return };
    tester::linux(&r);
    let Some(bench) = Bench::new() else { return };
    let packets = corpus::corpus();
    let rows = rows();
    let (mut seen, mut new) = (vec![false; rows.len()], BTreeSet::new());
    let mut left: Vec<&Odd> = packets.iter().collect();
    for settle in SETTLE {
        let [linux, volley] = [&near_linux, &bench.tester].map(|tester| tester.outcomes(&left, settle));
        new.clear();
        let mut unlisted = Vec::new();
        for (odd, (linux, volley)) in left.iter().zip(linux.iter().zip(&volley)) {
            let Some(difference) = difference(odd, [linux, volley]) else {
                unlisted.push(false);
                continue;
            };
            let mut is_listed = false;
            for (row, seen) in rows.iter().zip(&mut seen) {
                let covers = row.covers(&difference);
                *seen |= covers;
                is_listed |= covers;
            }
            unlisted.push(!is_listed);
            if !is_listed {
                new.insert(difference);
            }
        }
        let is_unseen =
            |odd: &Odd| rows.iter().zip(&seen).any(|(row, seen)| !seen && matches(row.cells[0], &odd.class));
        let again = left.iter().zip(unlisted).filter(|(odd, unlisted)| *unlisted || is_unseen(odd));
        left = again.map(|(odd, _)| *odd).collect();
    }
    let new: Vec<String> = new.iter().map(|d| format!("| {} |", d.join(" | "))).collect();
    assert!(
        new.is_empty(),
        "docs/reference/differences-to-linux.md lacks these differences:\n{}",
        new.join("\n")
    );
    let gone = rows.iter().zip(seen).filter(|(_, seen)| !seen);
    let gone: Vec<String> = gone.map(|(row, _)| row.cells.join(" | ")).collect();
    assert!(
        gone.is_empty(),
        "docs/reference/differences-to-linux.md lists these, but no packet shows them:\n{}",
        gone.join("\n")
    );
}
