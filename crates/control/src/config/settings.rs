//! Settings of the whole router: `settings`.

use model::schema::Row;
use model::yaml::{Node, Text};

use super::Reading;
use crate::intent::Tree;
use crate::system::Catalog;

/// Reads `settings`, which has an entry for each feature with settings.
pub(super) fn read(reading: &mut Reading<'_>, node: &Node) {
    let mut fields = reading.r.fields(node);
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

/// Writes the section `settings`.
pub(super) fn write(t: &mut Text<'_>, tree: &Tree, catalog: &Catalog) {
    catalog.entries().iter().for_each(|entry| (entry.write)(t, tree));
}

/// Returns the rows of the reference documentation for the section `settings`.
pub(super) fn rows(catalog: &Catalog) -> Vec<Row> {
    catalog.entries().iter().flat_map(|entry| entry.rows.clone()).collect()
}
