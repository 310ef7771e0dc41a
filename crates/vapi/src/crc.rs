//! The checksum of a message's definition, which is a part of the message's name on the wire. So a client that was
//! built with another definition of the message does not find the message.
//!
//! The checksum covers the names and types of all fields and, depth first, the definitions of their types. It does not cover the width of
//! an enumeration, values that VPP added to it later, the target of an alias, or default values.

use crc32fast::Hasher;

use crate::shape::{Definition, FieldInfo, Info, Kind, Shape};

/// Returns the checksum of a message.
pub fn of(message: &Info) -> u32 {
    let mut crc = Hasher::new();
    crc.update(list(message.all()).as_bytes());
    message.all().for_each(|field| fold(&mut crc, field.shape));
    crc.finalize()
}

/// Adds the definition of a field's type to the checksum, if the type has a definition.
fn fold(crc: &mut Hasher, shape: &'static Shape) {
    match shape {
        Shape::Array(of, _) | Shape::Tail(of) | Shape::Count(of) => fold(crc, of),
        Shape::Defined(Definition { kind, .. }) => match kind {
            Kind::Enum(_, values) | Kind::Flags(_, values) => {
                let values = values.iter().filter(|v| !v.later);
                let all: Vec<String> = values.map(|v| format!("['{}', {}]", v.name, v.number)).collect();
                crc.update(format!("[{}]", all.join(", ")).as_bytes());
            }
            Kind::Alias(_) => crc.update(b"[]"),
            Kind::Struct(fields) | Kind::Union(fields) => {
                crc.update(list(fields.iter()).as_bytes());
                fields.iter().for_each(|field| fold(crc, field.shape));
            }
        },
        Shape::Plain(_) | Shape::Text(_) | Shape::Line => {}
    }
}

/// Returns the text of a list of fields.
fn list(fields: impl Iterator<Item = &'static FieldInfo>) -> String {
    let mut count = "";
    let mut all = Vec::new();
    for FieldInfo { name, shape, .. } in fields {
        if let Shape::Count(_) = shape {
            count = name;
        }
        all.push(match shape {
            Shape::Array(of, n) => format!("['{}', '{name}', {n}, None]", of.name()),
            Shape::Tail(of) => format!("['{}', '{name}', 0, '{count}']", of.name()),
            Shape::Text(n) => format!("['string', '{name}', {n}, None]"),
            Shape::Line => format!("['string', '{name}', 0, None]"),
            Shape::Plain(_) | Shape::Count(_) | Shape::Defined(_) => {
                format!("['{}', '{name}']", shape.name())
            }
        });
    }
    format!("[{}]", all.join(", "))
}

impl Shape {
    /// Returns the name of the type; for an array, of its elements' type.
    pub fn name(&self) -> String {
        match self {
            Shape::Plain(name) => (*name).into(),
            Shape::Text(_) | Shape::Line => "string".into(),
            Shape::Count(of) | Shape::Array(of, _) | Shape::Tail(of) => of.name(),
            Shape::Defined(definition) => format!("vl_api_{}_t", definition.name),
        }
    }
}
