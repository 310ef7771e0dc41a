//! Renders a comparison as Markdown for a terminal.

use std::fmt::Write as _;

use super::{Comparison, Judgement, Key, Row, Side, Verdict};
use crate::stats::{self, Effect};

pub(super) fn write(comparison: &Comparison) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = all(&mut out, comparison);
    out
}

fn all(out: &mut String, c: &Comparison) -> std::fmt::Result {
    let [base, new] = &c.campaigns;
    writeln!(out, "# {base} and {new}, better or worse\n")?;
    list(out, "Conditions that differ (base / new)", &c.conditions)?;
    writeln!(
        out,
        "| router | traffic | bytes | figure | base | new | effect | interval | |\n|---|---|--:|---|--:|--:|--:|--:|---|"
    )?;
    c.rows.iter().try_for_each(|row| line(out, row))?;
    let each = c.bootstrap.level * 100.0;
    let all = 100.0 - (100.0 - each) * c.judged.max(1) as f64;
    writeln!(
        out,
        "\nMedians of the repetitions, and the bootstrap interval of their ratio or difference. {} figures are judged at a confidence level of \
         {all:.0} % together, {each:.3} % each.\n",
        c.judged
    )?;
    list(out, "Only in the base campaign", &c.only_base)?;
    list(out, "Only in the new campaign", &c.only_new)?;
    let said = match (c.has(Verdict::Worse), c.has(Verdict::Better)) {
        (true, true) => "Some figures are worse beyond the noise, and some are better.",
        (true, false) => "Some figures are worse beyond the noise.",
        (false, true) => "Some figures are better beyond the noise, and none is worse.",
        (false, false) if c.has(Verdict::NoDifference) => "No figure differs beyond the noise.",
        (false, false) => "No figure has enough repetitions for a verdict.",
    };
    writeln!(out, "{said}")
}

fn list(out: &mut String, title: &str, lines: &[String]) -> std::fmt::Result {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title}:\n")?;
    lines.iter().try_for_each(|line| writeln!(out, "- {line}"))?;
    writeln!(out)
}

fn line(out: &mut String, row: &Row) -> std::fmt::Result {
    let Row { key, figure, unit, .. } = row;
    let both = if key.bidirectional { ", both directions" } else { "" };
    let (effect, said) = match &row.judgement {
        Judgement::Compared(c) => (effect(c), verdict(c.verdict).to_owned()),
        Judgement::LimitedByTester(c) => {
            (effect(c), "no verdict: the worse side was limited by the tester".into())
        }
        Judgement::TooFew { have, needed } => {
            ("– | –".into(), format!("not enough repetitions: {have} of {needed}"))
        }
        Judgement::Unfit(why) => ("– | –".into(), format!("cannot be compared: {why}")),
    };
    let (base, new) = (side(&row.base, unit), side(&row.new, unit));
    let Key { dut, traffic, size, .. } = key;
    writeln!(out, "| {dut} | {traffic}{both} | {size} | {figure} | {base} | {new} | {effect} | {said} |")
}

fn side(side: &Side, unit: &str) -> String {
    let median = side.median.map_or("–".into(), |median| format!("{} {unit}", number(median)));
    let out = if side.left_out > 0 { format!(" ({} left out)", side.left_out) } else { String::new() };
    median + &out
}

fn effect(c: &stats::Comparison) -> String {
    let stats::Interval { estimate, low, high, .. } = c.effect;
    match c.terms.effect {
        Effect::Ratio => format!("× {estimate:.3} | {low:.3} to {high:.3}"),
        Effect::Difference => {
            let sign = if estimate > 0.0 { "+" } else { "" };
            format!("{sign}{} | {} to {}", number(estimate), number(low), number(high))
        }
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "**better**",
        Verdict::Worse => "**worse**",
        Verdict::NoDifference => "no difference beyond the noise",
    }
}

/// Formats a number with four significant digits and at most nine decimals. Digits before the decimal point are never cut.
fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let before = value.abs().log10().floor() as i32;
    let decimals = usize::try_from(3 - before).unwrap_or(0).min(9);
    format!("{value:.decimals$}")
}
