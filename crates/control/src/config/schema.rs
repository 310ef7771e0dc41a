//! The JSON Schema of the configuration, from the same declarations as the reference.

use std::iter;

use model::schema::Row;
use serde_json::{Map, Value, json};

use super::{body, encapsulation, route, settings};
use crate::system::Catalog;

/// Returns the schema. It describes names and types of all fields. A document that fits it may still have faults, which the router reports.
pub fn schema(catalog: &Catalog) -> Value {
    let fields = || body::body().rows("").into_iter().chain(body::beside()).chain(catalog.setting_rows());
    let of_kinds = catalog.interfaces().iter().flat_map(|kind| {
        kind.field.iter().flat_map(move |field| kind.rows.iter().map(move |row| inside(field, row.clone())))
    });
    let tags = Row::new("encapsulation", "a map", "The tags.", json!({ "type": "object" }));
    let tags = iter::once(tags).chain(encapsulation::encapsulation().rows("encapsulation."));
    let mut interface = object(fields().chain(body::of_devices(catalog)).chain(of_kinds));
    interface["properties"][body::SUBS]["additionalProperties"] = object(fields().chain(tags));
    let [tables, routes, paths] = route::rows();
    let path = object(paths.clone());
    let mut one_route = object(routes.into_iter().chain(paths));
    one_route["properties"]["paths"]["items"] = path;
    let mut properties = Map::new();
    properties.insert("interfaces".into(), map_of(interface));
    properties.insert("loopbacks".into(), map_of(object(fields())));
    for kind in catalog.interfaces() {
        let made = || map_of(object(kind.rows.iter().cloned()));
        properties.extend(kind.section.map(|section| (section.to_owned(), made())));
    }
    let numbers = json!({ "type": "array", "items": { "type": "integer" } });
    properties.insert("tables".into(), json!({ "anyOf": [numbers, object(tables)] }));
    properties.insert("routes".into(), json!({ "type": "array", "items": one_route }));
    properties.insert("settings".into(), object(settings::rows(catalog)));
    for section in catalog.sections() {
        let rows = (section.rows)();
        let member = if rows.is_empty() { (section.json)() } else { object(rows) };
        properties.insert(section.name.into(), map_of(member));
    }
    json!({ "type": "object", "properties": properties })
}

/// Returns the row of a field inside the map `field`.
fn inside(field: &str, row: Row) -> Row {
    Row { name: format!("{field}.{}", row.name), ..row }
}

fn map_of(values: Value) -> Value {
    json!({ "type": "object", "additionalProperties": values })
}

/// Returns the schema of a map with these fields. The row named `a.b` describes the field `b` inside the field `a`. A name in capitals
/// stands for any name.
fn object(rows: impl IntoIterator<Item = Row>) -> Value {
    let mut all = json!({ "type": "object", "properties": {} });
    for row in rows {
        let field = row.name.split('.').fold(&mut all, member);
        if let Value::Object(schema) = row.json {
            schema.into_iter().for_each(|(name, value)| field[name] = value);
        }
        let values =
            field["description"].as_str().map(|values| format!(" Values: {values}.")).unwrap_or_default();
        field["description"] = format!("{}{values}", row.help).into();
        // A default that is a text may be quoted as in YAML. If it is no JSON, it is left out.
        if let Ok(usual) = serde_json::from_str::<Value>(&row.usual) {
            field["default"] = usual;
        }
    }
    all
}

/// Returns the schema of the field `name` inside a map. Adds an empty schema if the map has none for the field.
fn member<'v>(map: &'v mut Value, name: &str) -> &'v mut Value {
    let any = name.chars().all(|c| c.is_ascii_uppercase());
    map["type"] = "object".into();
    let field = if any { &mut map["additionalProperties"] } else { &mut map["properties"][name] };
    if field.is_null() {
        *field = json!({});
    }
    field
}
