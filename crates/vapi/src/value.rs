//! Encoded messages as JSON, by their descriptions.

use serde_json::{Map, Value};

use crate::shape::{Definition, FieldInfo, Kind, Shape};
use crate::wire::{Field, Malformed, Reader};

/// Decodes the fields of a message, without its identifier, to JSON.
///
/// # Errors
/// If the bytes do not have the form of the description.
pub fn of_message(
    fields: impl IntoIterator<Item = &'static FieldInfo>,
    bytes: &[u8],
) -> Result<Map<String, Value>, Malformed> {
    all(fields, &mut Reader::new(bytes))
}

fn all(
    fields: impl IntoIterator<Item = &'static FieldInfo>,
    r: &mut Reader<'_>,
) -> Result<Map<String, Value>, Malformed> {
    fields.into_iter().map(|field| Ok((field.name.to_owned(), of(field.shape, r)?))).collect()
}

fn of(shape: &'static Shape, r: &mut Reader<'_>) -> Result<Value, Malformed> {
    Ok(match shape {
        Shape::Plain(name) => plain(name, r)?,
        Shape::Text(n) => text(r.bytes(*n)?),
        Shape::Line => {
            let length = u32::take(r)? as usize;
            text(r.bytes(length)?)
        }
        Shape::Count(of_count) => {
            let value = of(of_count, r)?;
            r.announce(value.as_u64().unwrap_or(0));
            value
        }
        Shape::Array(element, n) => several(element, *n, r)?,
        Shape::Tail(element) => {
            let n = r.announced()?;
            several(element, n, r)?
        }
        Shape::Defined(Definition { name, kind }) => match kind {
            Kind::Enum(width, values) => {
                let number = of(width, r)?;
                let named = values.iter().find(|v| number.as_i64() == Some(v.number));
                named.map_or(number, |v| v.name.into())
            }
            Kind::Flags(width, _) => of(width, r)?,
            Kind::Alias(Shape::Array(_, n)) if *name == "mac_address" => joined(r.bytes(*n)?, ":").into(),
            Kind::Alias(target) => of(target, r)?,
            Kind::Struct(fields) => Value::Object(all(*fields, r)?),
            Kind::Union(fields) => {
                let longest = fields.iter().map(|field| length(field.shape)).max().unwrap_or(0);
                joined(r.bytes(longest)?, "").into()
            }
        },
    })
}

fn plain(name: &str, r: &mut Reader<'_>) -> Result<Value, Malformed> {
    Ok(match name {
        "u8" => u8::take(r)?.into(),
        "u16" => u16::take(r)?.into(),
        "u32" => u32::take(r)?.into(),
        "u64" => u64::take(r)?.into(),
        "i8" => i8::take(r)?.into(),
        "i16" => i16::take(r)?.into(),
        "i32" => i32::take(r)?.into(),
        "i64" => i64::take(r)?.into(),
        "f64" => f64::take(r)?.into(),
        _ => bool::take(r)?.into(),
    })
}

/// Returns several elements as one value: bytes as a text of hexadecimal digits, other elements as an array.
fn several(element: &'static Shape, n: usize, r: &mut Reader<'_>) -> Result<Value, Malformed> {
    match element {
        Shape::Plain("u8") => Ok(joined(r.bytes(n)?, "").into()),
        element => (0..n).map(|_| of(element, r)).collect(),
    }
}

fn text(bytes: &[u8]) -> Value {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into()
}

fn joined(bytes: &[u8], between: &str) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(between)
}

/// Returns the encoded length of a type in bytes; 0 for a type without a fixed length.
fn length(shape: &Shape) -> usize {
    match shape {
        Shape::Plain(name) => match *name {
            "u16" | "i16" => 2,
            "u32" | "i32" => 4,
            "u64" | "i64" | "f64" => 8,
            _ => 1,
        },
        Shape::Text(n) => *n,
        Shape::Array(element, n) => length(element) * n,
        Shape::Count(of) => length(of),
        Shape::Line | Shape::Tail(_) => 0,
        Shape::Defined(Definition { kind, .. }) => match kind {
            Kind::Enum(of, _) | Kind::Flags(of, _) | Kind::Alias(of) => length(of),
            Kind::Struct(fields) => fields.iter().map(|field| length(field.shape)).sum(),
            Kind::Union(fields) => fields.iter().map(|field| length(field.shape)).max().unwrap_or(0),
        },
    }
}
