//! A report to be read in a terminal.

use std::fmt::Write as _;

use crate::campaign::{Found, Key, Procedure, Results};

/// The results as Markdown.
pub fn markdown(results: &Results) -> String {
    let mut out = String::new();
    // Writing to a text does not fail.
    let _ = write(&mut out, results);
    out
}

fn write(out: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(out, "# {}\n", results.campaign.name)?;
    results.conditions.iter().try_for_each(|c| writeln!(out, "- {c}"))?;
    writeln!(out)?;
    writeln!(out, "| router | version |\n|---|---|")?;
    for dut in &results.duts {
        writeln!(out, "| {} | {} |", dut.name, dut.version)?;
    }
    writeln!(
        out,
        "\n## Throughput ({} section 26.1): thousand frames a second without loss, each direction\n",
        results.profile.label()
    )?;
    writeln!(
        out,
        "| traffic | bytes | router | median | runs | tester alone | |\n|---|--:|---|--:|--:|--:|---|"
    )?;
    for cell in &results.cells {
        let Some(m) = cell.found(Procedure::Throughput) else { continue };
        let Found::Throughput(searches) = &m.found else { continue };
        let median = cell.throughput_fps().map_or("–".into(), |fps| format!("{:.1}", fps / 1e3));
        let Key { traffic, size, dut, .. } = &cell.key;
        let limited = if m.limited_by_tester { "limited by the tester" } else { "" };
        let (runs, tester) = (searches.len(), cell.tester_fps / 1e3);
        writeln!(out, "| {traffic} | {size} | {dut} | {median} | {runs} | {tester:.1} | {limited} |")?;
    }
    if !results.failures.is_empty() {
        writeln!(out, "\n## What could not be measured\n")?;
        results.failures.iter().try_for_each(|failure| writeln!(out, "- {failure}"))?;
    }
    Ok(())
}
