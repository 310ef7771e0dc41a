//! A report to be read in a terminal.

use std::fmt::Write as _;

use crate::campaign::{Cell, Results, Run, median};

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
    let label = results.profile.label();
    writeln!(
        out,
        "\n## Throughput ({label} section 26.1): thousand frames a second without loss, each direction\n"
    )?;
    writeln!(
        out,
        "| traffic | bytes | router | median | least | greatest | runs | tester alone | |\n|---|--:|---|--:|--:|--:|--:|--:|---|"
    )?;
    for cell in &results.cells {
        let mut sorted = cell.throughput_fps.clone();
        sorted.sort_by(f64::total_cmp);
        let kilo = |fps: Option<&f64>| fps.map_or("–".into(), |fps| format!("{:.1}", fps / 1e3));
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {:.1} | {} |",
            cell.traffic,
            cell.size,
            cell.dut,
            kilo(sorted.get(sorted.len() / 2)),
            kilo(sorted.first()),
            kilo(sorted.last()),
            sorted.len(),
            cell.tester_fps / 1e3,
            if cell.limited_by_tester { "limited by the tester" } else { "" }
        )?;
    }
    writeln!(out, "\n## Delay, microseconds: medians of the repetitions\n")?;
    writeln!(
        out,
        "| traffic | bytes | router | load, kfps | of throughput | least | median | 99 % | 99.9 % | greatest | lost | processors busy | the router's | |\n\
         |---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|"
    )?;
    results.cells.iter().try_for_each(|cell| delays(out, cell))?;
    if !results.failures.is_empty() {
        writeln!(out, "\n## What could not be measured\n")?;
        results.failures.iter().try_for_each(|failure| writeln!(out, "- {failure}"))?;
    }
    writeln!(
        out,
        "\nProcessors busy: user, system and interrupts of the whole machine, the tester's one included, which always is; it is \
                   processor time and not energy."
    )
}

fn delays(out: &mut String, cell: &Cell) -> std::fmt::Result {
    for l in &cell.latency {
        let of = |value: fn(&Run) -> f64| median(&l.runs.iter().map(value).collect::<Vec<_>>());
        let us = [0, 1, 2, 3, 4]
            .map(|at| median(&l.runs.iter().map(|r| r.ns[at] as f64 / 1e3).collect::<Vec<_>>()));
        let us = us.map(|us| format!("{us:.1}")).join(" | ");
        let own: Vec<f64> = l.runs.iter().filter_map(|r| r.dut_busy).collect();
        let own = if own.is_empty() { "in the kernel".into() } else { format!("{:.2}", median(&own)) };
        let invalid = l.runs.iter().filter(|r| !r.invalid.is_empty()).count();
        writeln!(
            out,
            "| {} | {} | {} | {:.1} | {:.0} % | {us} | {:.0} | {:.2} | {own} | {} |",
            cell.traffic,
            cell.size,
            cell.dut,
            l.load_fps / 1e3,
            l.share * 100.0,
            of(|r| r.lost as f64),
            of(|r| r.busy),
            if invalid > 0 { format!("{invalid} of {} trials invalid", l.runs.len()) } else { String::new() }
        )?;
    }
    Ok(())
}
