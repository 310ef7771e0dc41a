//! The reference of all fields, generated from their schemas.

use std::fmt::Write;

use model::schema::Row;

use super::{body, encapsulation, route, settings};
use crate::system::Catalog;

/// Returns all fields as Markdown, for the end of `docs/reference/configuration-fields.md`.
pub fn reference(catalog: &Catalog) -> String {
    let mut text = String::new();
    let interfaces = body::body().rows("").into_iter().chain(body::beside());
    let interfaces = interfaces.chain(body::of_devices(catalog)).chain(catalog.setting_rows());
    table(&mut text, "Fields of interfaces, sub-interfaces and loopbacks", interfaces);
    let [tables, routes, paths] = route::rows();
    table(&mut text, "`encapsulation` of sub-interfaces", encapsulation::encapsulation().rows(""));
    for kind in catalog.interfaces().iter().filter(|kind| !kind.rows.is_empty()) {
        table(&mut text, &kind.title, kind.rows.iter().cloned());
    }
    table(&mut text, "`tables`, a map by number, or a list of numbers", tables);
    table(&mut text, "`routes`, a list", routes);
    table(&mut text, "A path of a route", paths);
    table(&mut text, "`settings`", settings::rows(catalog));
    for section in catalog.sections() {
        let rows = (section.rows)();
        if !rows.is_empty() {
            table(&mut text, &format!("`{}`, by name", section.name), rows);
        }
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn table(text: &mut String, title: &str, rows: impl IntoIterator<Item = Row>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "## {title}\n\n| field | values | default | meaning |\n|---|---|---|---|");
    for Row { name, values, usual, help, .. } in rows {
        let usual = if usual.is_empty() || usual == "{}" { String::new() } else { format!("`{usual}`") };
        let _ = writeln!(text, "| `{name}` | {} | {usual} | {help} |", values.replace('|', "\\|"));
    }
    text.push('\n');
}
