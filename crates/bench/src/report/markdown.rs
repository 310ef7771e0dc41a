//! A report to be read in a terminal.

use std::fmt::Write as _;

use crate::campaign::{Cell, Results};

/// The results as Markdown.
pub fn markdown(results: &Results) -> String {
    let mut out = String::new();
    // Writing to a text does not fail.
    let _ = write(&mut out, results);
    out
}

fn write(out: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(out, "# {}\n", results.campaign.name)?;
    for condition in results.campaign.conditions() {
        writeln!(out, "{condition}\n")?;
    }
    writeln!(out, "| router | version |\n|---|---|")?;
    for dut in &results.duts {
        writeln!(out, "| {} | {} |", dut.name, dut.version)?;
    }
    writeln!(
        out,
        "\n## Throughput (RFC 2544 section 26.1): thousand frames a second without loss, each direction\n"
    )?;
    writeln!(
        out,
        "| traffic | bytes | router | median | least | greatest | runs | |\n|---|--:|---|--:|--:|--:|--:|---|"
    )?;
    for cell in &results.cells {
        let mut sorted = cell.throughput_fps.clone();
        sorted.sort_by(f64::total_cmp);
        let kilo = |fps: Option<&f64>| fps.map_or("–".into(), |fps| format!("{:.1}", fps / 1e3));
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            cell.traffic,
            cell.size,
            cell.dut,
            kilo(sorted.get(sorted.len() / 2)),
            kilo(sorted.first()),
            kilo(sorted.last()),
            sorted.len(),
            if cell.limited_by_tester { "limited by the tester" } else { "" }
        )?;
    }
    writeln!(out, "\n## Delay, microseconds\n")?;
    writeln!(
        out,
        "| traffic | bytes | router | load, kfps | of throughput | least | median | 99 % | 99.9 % | greatest | lost | processors busy | the router's |\n\
         |---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
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
        let us = l.ns.map(|ns| format!("{:.1}", ns as f64 / 1e3)).join(" | ");
        let own = l.dut_busy.map_or("in the kernel".into(), |busy| format!("{busy:.2}"));
        writeln!(
            out,
            "| {} | {} | {} | {:.1} | {:.0} % | {us} | {} | {:.2} | {own} |",
            cell.traffic,
            cell.size,
            cell.dut,
            l.load_fps / 1e3,
            l.share * 100.0,
            l.lost,
            l.busy
        )?;
    }
    Ok(())
}
