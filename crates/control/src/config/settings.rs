//! Bounds of tables that many share.

use std::sync::LazyLock;

use model::schema::{Row, Schema, number, optional};
use model::yaml::{Node, Text};

use super::Reading;
use crate::intent::{Catalog, Family, NeighborBounds, Tree};

/// `settings`: bounds that are not the router's own.
pub(super) fn read(reading: &mut Reading<'_>, node: &Node) {
    let mut fields = reading.r.fields(node);
    for family in Family::ALL {
        if let Some(node) = fields.take(neighbors_name(family)) {
            let bounds = neighbors().read(&mut reading.r, node.at, node).unwrap_or_default();
            if bounds != NeighborBounds::default() {
                reading.set(node.at, NeighborBounds::key(family), bounds);
            }
        }
    }
    let catalog = reading.catalog;
    for entry in catalog.entries() {
        if let Some(node) = fields.take(entry.name) {
            (entry.read)(reading, node);
        }
    }
    for (name, why) in catalog.entries_left_out() {
        fields.refuse(&mut reading.r, name, why);
    }
    fields.end(&mut reading.r);
}

/// Writes what [`read`] reads.
pub(super) fn write(t: &mut Text<'_>, tree: &Tree, catalog: &Catalog) {
    for family in Family::ALL {
        if let Some(bounds) = tree.get(&NeighborBounds::key(family)).and_then(|value| value.get()) {
            t.map(neighbors_name(family), |t| neighbors().write(t, bounds));
        }
    }
    catalog.entries().iter().for_each(|entry| (entry.write)(t, tree));
}

/// The reference of the section.
pub(super) fn rows(catalog: &Catalog) -> Vec<Row> {
    let map =
        |name: &str, help| Row { name: name.into(), values: "a map".into(), usual: String::new(), help };
    let mut rows = Vec::new();
    for family in Family::ALL {
        let name = neighbors_name(family);
        rows.push(map(name, "Bounds of neighbours (`show ip neighbor-config`)."));
        rows.extend(neighbors().rows(&format!("{name}.")));
    }
    rows.extend(catalog.entries().iter().flat_map(|entry| entry.rows.clone()));
    rows
}

/// The name of the bounds of a family's neighbours.
fn neighbors_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip4-neighbors",
        Family::V6 => "ip6-neighbors",
    }
}

fn neighbors() -> &'static Schema<NeighborBounds> {
    static SCHEMA: LazyLock<Schema<NeighborBounds>> = LazyLock::new(|| {
        Schema::new(NeighborBounds::default())
            .field(
                "limit",
                optional(number(0..=u32::MAX)),
                |b| b.limit,
                |b, n| b.limit = n,
                "The most neighbours that are learned.",
            )
            .field(
                "age-seconds",
                optional(number(1..=u32::MAX).unit("seconds")),
                |b| b.age,
                |b, n| b.age = n,
                "How long one is kept that nobody uses.",
            )
    });
    &SCHEMA
}
