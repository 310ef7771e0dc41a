//! A report in Markdown, for a terminal.

use std::fmt::Write as _;

use super::document::{Block, sections};
use super::table::{Column, Table};
use crate::campaign::Results;

/// Returns the results as Markdown, with tables.
pub fn markdown(results: &Results) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut out, results);
    out
}

fn write(out: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(out, "# {}", one_line(&results.campaign.name))?;
    for section in sections(results) {
        writeln!(out, "\n## {}", one_line(&section.head))?;
        for block in &section.blocks {
            let gap = if matches!(block, Block::Plot(_)) { "" } else { "\n" };
            write!(out, "{gap}")?;
            match block {
                Block::Text(text) => writeln!(out, "{}", one_line(text))?,
                Block::List(items) => items.iter().try_for_each(|i| writeln!(out, "- {}", one_line(i)))?,
                Block::Table(table) => write_table(out, table)?,
                Block::Plot(_) => {}
            }
        }
    }
    Ok(())
}

/// Writes a table as Markdown. Pads columns to their widest cell, so that the table is readable as plain text.
fn write_table(out: &mut String, table: &Table) -> std::fmt::Result {
    writeln!(out, "{}:\n", one_line(&table.caption))?;
    let rows: Vec<Vec<String>> =
        table.rows().iter().map(|row| row.iter().map(|c| cell(c)).collect()).collect();
    let heads: Vec<String> = table.columns.iter().map(|c| cell(&c.head)).collect();
    let wide =
        |at: usize| rows.iter().chain([&heads]).map(|r| r[at].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..heads.len()).map(wide).collect();
    let line = |out: &mut String, cells: &[String]| {
        for ((text, width), column) in cells.iter().zip(&widths).zip(&table.columns) {
            match column.numbers {
                true => write!(out, "| {text:>width$} ")?,
                false => write!(out, "| {text:<width$} ")?,
            }
        }
        writeln!(out, "|")
    };
    line(out, &heads)?;
    for (Column { numbers, .. }, width) in table.columns.iter().zip(&widths) {
        write!(out, "|{}{}", "-".repeat(width + 1), if *numbers { ":" } else { "-" })?;
    }
    writeln!(out, "|")?;
    rows.iter().try_for_each(|row| line(out, row))?;
    if table.note.is_empty() { Ok(()) } else { writeln!(out, "\n{}", table.note) }
}

/// Joins a text into one line, so that it cannot end a paragraph or a list.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Escapes a text so that it cannot end a table cell.
fn cell(text: &str) -> String {
    one_line(text).replace('\\', "\\\\").replace('|', "\\|")
}
