//! The alert rules and the dashboard use only metrics and labels that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use control::metrics::declared;
use model::metrics::Metric;
use saphyr_parser::{Event, Parser};
use serde_json::Value;

/// Labels that Prometheus adds.
const ADDED: [&str; 2] = ["instance", "job"];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Returns every metric.
fn metrics() -> Vec<&'static Metric> {
    declared::metrics(&volley::features::declared().1)
}

/// Returns the words of an expression that begin with `volley_` or `process_`, each with the text after it.
fn named(expression: &str) -> Vec<(&str, &str)> {
    let at = ["volley_", "process_"].into_iter().flat_map(|prefix| expression.match_indices(prefix));
    at.map(|(at, _)| {
        let rest = &expression[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        rest.split_at(end)
    })
    .collect()
}

/// Checks that an expression uses existing metrics, with their labels. Returns all labels of these metrics.
fn check(expression: &str) -> BTreeSet<&'static str> {
    let mut labels = BTreeSet::from(ADDED);
    let asked = named(expression);
    assert!(!asked.is_empty(), "no metric in {expression}");
    for (name, rest) in asked {
        let metric = metrics().into_iter().find(|m| m.name == name);
        let metric = metric.unwrap_or_else(|| panic!("there is no metric {name}: {expression}"));
        labels.extend(metric.labels);
        let Some(matchers) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) else { continue };
        for matcher in matchers.0.split(',') {
            let label = matcher.split(['=', '!']).next().unwrap_or_default();
            assert!(metric.labels.contains(&label) || ADDED.contains(&label), "{label}: {expression}");
        }
    }
    // "by (a, b)", "ignoring (a)", "without (a)".
    for clause in ["by (", "ignoring (", "without ("] {
        for (at, _) in expression.match_indices(clause) {
            let inside = expression[at + clause.len()..].split(')').next().unwrap_or_default();
            inside
                .split(',')
                .for_each(|label| assert!(labels.contains(label.trim()), "{label}: {expression}"));
        }
    }
    let depth = |c| expression.matches(c).count();
    assert_eq!((depth('('), depth('{'), depth('[')), (depth(')'), depth('}'), depth(']')), "{expression}");
    labels
}

/// Checks that each word after `open` in a text is one of these labels.
fn check_text(text: &str, open: &str, labels: &BTreeSet<&str>) {
    for part in text.split(open).skip(1) {
        let end = part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(part.len());
        assert!(labels.contains(&part[..end]), "no label {}: {text}", &part[..end]);
    }
}

#[test]
fn alert_rules_use_existing_metrics() {
    let text = read("packaging/prometheus/volley.rules.yml");
    // The scalars in order: a key, its value, and so on.
    let scalars: Vec<String> = Parser::new_from_str(&text)
        .map(|event| event.unwrap_or_else(|e| panic!("{e}")))
        .filter_map(|(event, _)| match event {
            Event::Scalar(value, ..) => Some(value.into_owned()),
            _ => None,
        })
        .collect();
    let (mut alerts, mut labels) = (BTreeSet::new(), None);
    for (key, value) in scalars.iter().zip(&scalars[1..]) {
        match key.as_str() {
            "alert" => assert!(alerts.insert(value), "{value} twice"),
            "expr" => labels = Some(check(value)),
            "summary" | "description" => {
                check_text(value, "$labels.", labels.as_ref().expect("the expression comes first"));
            }
            _ => {}
        }
    }
    let count = |key: &str| scalars.iter().filter(|scalar| *scalar == key).count();
    assert_eq!(
        (count("expr"), count("summary"), count("severity")),
        (alerts.len(), alerts.len(), alerts.len())
    );
    assert!(alerts.len() >= 5);
}

/// Collects all strings under a key, at any depth.
fn strings<'v>(value: &'v Value, key: &str, found: &mut Vec<&'v str>) {
    match value {
        Value::Array(all) => all.iter().for_each(|v| strings(v, key, found)),
        Value::Object(all) => {
            found.extend(all.get(key).and_then(Value::as_str));
            all.values().for_each(|v| strings(v, key, found));
        }
        _ => {}
    }
}

#[test]
fn dashboard_shows_existing_metrics() {
    let dashboard: Value = serde_json::from_str(&read("packaging/grafana/volley.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut shown = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "each panel has a number of its own");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            check_text(target["legendFormat"].as_str().unwrap(), "{{", &check(expression));
            shown.extend(named(expression).into_iter().map(|(name, _)| name));
        }
    }
    // The queries of variables.
    let mut queries = Vec::new();
    strings(&dashboard["templating"], "definition", &mut queries);
    for query in queries {
        assert!(metrics().iter().any(|m| named(query)[0].0 == m.name), "{query}");
    }
    assert!(shown.len() > metrics().len() / 2, "most metrics are shown: {shown:?}");
}
