//! The definitions of messages as JSON, for clients that read definitions (`*.api.json` of VPP).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::shape::{Definition, FieldInfo, Kind, Shape};
use crate::table::{Entry, Listed, Table};

/// Returns the definitions of a module.
pub fn module<C: 'static>(table: &Table<C>, module: &Listed) -> Value {
    let entries: Vec<&Entry<C>> = table.entries_of(module).collect();
    let mut types = Types::default();
    entries.iter().flat_map(|e| e.info.all()).for_each(|field| types.add(field.shape));
    let version = module.version.map(|n| n.to_string()).join(".");
    let messages: Vec<Value> = entries.iter().copied().map(message).collect();
    let checksum = crc32fast::hash(Value::from(messages.clone()).to_string().as_bytes());
    json!({
        "module": module.name,
        "types": types.structs,
        "messages": messages,
        "unions": types.unions,
        "enums": types.enums,
        "enumflags": types.flags,
        "services": services(&entries),
        "options": { "version": version },
        "aliases": types.aliases,
        "vl_api_version": format!("{checksum:#010x}"),
        "imports": [],
        "counters": [],
        "paths": [],
    })
}

/// Returns the definitions of all modules, an array.
pub fn all<C: 'static>(table: &Table<C>) -> String {
    let modules = table.modules().iter().map(|listed| module(table, listed));
    Value::from(modules.collect::<Vec<_>>()).to_string()
}

/// The types that the messages of a module use, each after the types that it depends on.
#[derive(Default)]
struct Types {
    seen: Vec<&'static str>,
    structs: Vec<Value>,
    unions: Vec<Value>,
    enums: Vec<Value>,
    flags: Vec<Value>,
    aliases: BTreeMap<&'static str, Value>,
}

impl Types {
    fn add(&mut self, shape: &'static Shape) {
        match shape {
            Shape::Array(of, _) | Shape::Tail(of) | Shape::Count(of) => self.add(of),
            Shape::Defined(definition) if !self.seen.contains(&definition.name) => {
                self.seen.push(definition.name);
                self.define(definition);
            }
            Shape::Plain(_) | Shape::Text(_) | Shape::Line | Shape::Defined(_) => {}
        }
    }

    fn define(&mut self, Definition { name, kind }: &'static Definition) {
        match kind {
            Kind::Enum(width, values) | Kind::Flags(width, values) => {
                let values = values.iter().map(|v| json!([v.name, v.number]));
                let width = json!({ "enumtype": width.name() });
                let all: Vec<Value> = [json!(name)].into_iter().chain(values).chain([width]).collect();
                let list = if matches!(kind, Kind::Enum(..)) { &mut self.enums } else { &mut self.flags };
                list.push(all.into());
            }
            Kind::Alias(of) => {
                self.add(of);
                let target = match of {
                    Shape::Array(of, n) => json!({ "type": of.name(), "length": n }),
                    of => json!({ "type": of.name() }),
                };
                self.aliases.insert(name, target);
            }
            Kind::Struct(fields) | Kind::Union(fields) => {
                fields.iter().for_each(|field| self.add(field.shape));
                let all: Vec<Value> = [json!(name)].into_iter().chain(listed(fields.iter())).collect();
                let list = if matches!(kind, Kind::Struct(_)) { &mut self.structs } else { &mut self.unions };
                list.push(all.into());
            }
        }
    }
}

fn message<C>(entry: &Entry<C>) -> Value {
    let head = [json!(entry.info.name), json!(["u16", "_vl_msg_id"])];
    let end = json!({ "crc": format!("{:#010x}", entry.crc), "options": {} });
    head.into_iter().chain(listed(entry.info.all())).chain([end]).collect::<Vec<_>>().into()
}

fn services<C>(entries: &[&Entry<C>]) -> Value {
    let mut all = serde_json::Map::new();
    for entry in entries {
        let Some(service) = &entry.service else { continue };
        let mut said = serde_json::Map::new();
        said.insert("reply".into(), service.reply.clone().into());
        if service.is_stream {
            said.insert("stream".into(), true.into());
        }
        if let Some(stream) = &service.stream {
            said.insert("stream_msg".into(), stream.clone().into());
        }
        if !service.events.is_empty() {
            said.insert("events".into(), service.events.into());
        }
        all.insert(entry.info.name.clone(), said.into());
    }
    all.into()
}

/// Returns the JSON descriptions of fields.
fn listed(fields: impl Iterator<Item = &'static FieldInfo>) -> impl Iterator<Item = Value> {
    let mut count = "";
    fields.map(move |FieldInfo { name, shape, default }| {
        if let Shape::Count(_) = shape {
            count = name;
        }
        let mut field = match shape {
            Shape::Array(_, n) => vec![json!(shape.name()), json!(name), json!(n)],
            Shape::Text(n) => vec!["string".into(), json!(name), json!(n)],
            Shape::Line => vec!["string".into(), json!(name), json!(0)],
            Shape::Tail(_) => vec![json!(shape.name()), json!(name), json!(0), json!(count)],
            Shape::Plain(_) | Shape::Count(_) | Shape::Defined(_) => vec![json!(shape.name()), json!(name)],
        };
        // A default that is no JSON is a text, such as the name of an enumeration's value.
        let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| json!(text));
        field.extend(default.map(|text| json!({ "default": value(text) })));
        field.into()
    })
}
