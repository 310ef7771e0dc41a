//! A report as a self-contained HTML page: no scripts, no other files.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::document::{Block, Section, sections};
use super::svg::{self, CannotDraw};
use super::table::{Column, Table};
use crate::campaign::Results;

/// Returns the results as an HTML page, with tables and plots. All text from the results is escaped.
///
/// # Errors
/// Returns an error if a plot cannot be drawn.
pub fn html(results: &Results) -> Result<String, CannotDraw> {
    let sections = sections(results);
    let bodies = sections.iter().enumerate().map(section).collect::<Result<Vec<_>, _>>()?;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (results.campaign.name) }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body {
                h1 { (results.campaign.name) }
                nav { ul { @for (at, section) in sections.iter().enumerate() {
                    li { a href={ "#s" (at) } { (section.head) } }
                } } }
                @for body in &bodies { (body) }
            }
        }
    };
    Ok(page.into_string())
}

fn section((at, section): (usize, &Section)) -> Result<Markup, CannotDraw> {
    // Consecutive plots stand side by side.
    let parts = section.blocks.chunk_by(|a, b| is_plot(a) && is_plot(b));
    let part = |blocks: &[Block]| {
        let all = blocks.iter().map(block).collect::<Result<Vec<_>, _>>()?;
        let class = blocks.iter().all(is_plot).then_some("plots");
        Ok(html! { div class=[class] { @for one in &all { (one) } } })
    };
    let parts = parts.map(part).collect::<Result<Vec<_>, _>>()?;
    Ok(html! {
        section {
            h2 id={ "s" (at) } { (section.head) }
            @if section.folded {
                details { summary { "Show" } @for part in &parts { (part) } }
            } @else {
                @for part in &parts { (part) }
            }
        }
    })
}

fn is_plot(block: &Block) -> bool {
    matches!(block, Block::Plot(_))
}

fn block(block: &Block) -> Result<Markup, CannotDraw> {
    Ok(match block {
        Block::Text(text) => html! { p { (text) } },
        Block::List(items) => html! { ul { @for item in items { li { (item) } } } },
        Block::Table(of) => table(of),
        Block::Plot(plot) => {
            let drawn = svg::draw(plot)?;
            html! {
                figure {
                    div role="img" aria-label=(plot.alternative()) { (PreEscaped(drawn)) }
                    figcaption { (plot.caption()) }
                }
            }
        }
    })
}

fn table(table: &Table) -> Markup {
    let class = |column: &Column| column.numbers.then_some("number");
    html! {
        div.wide {
            table {
                caption { (table.caption) }
                thead { tr { @for column in &table.columns { th scope="col" class=[class(column)] { (column.head) } } } }
                tbody { @for row in table.rows() { tr {
                    @for (cell, column) in row.iter().zip(&table.columns) { td class=[class(column)] { (cell) } }
                } } }
            }
            @if !table.note.is_empty() { p.note { (table.note) } }
        }
    }
}
