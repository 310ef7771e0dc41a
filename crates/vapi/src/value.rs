//! Encoded messages as JSON, by their descriptions; [`given`](crate::given) is the reverse. The JSON is that of VPP's traces.
//!
//! Addresses and prefixes are texts such as `10.0.0.0/8`, bytes are texts such as `0x0a0b`, values of enumerations are their names, and
//! flags are arrays of names. Numbers without a name stay numbers. A union has all its fields, as each would read the bytes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Map, Value};

use crate::shape::{Definition, FieldInfo, Kind, Shape, longest};
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
        Shape::Defined(definition) => match Text::of(definition) {
            Some(form) => {
                let bytes = r.bytes(shape.length())?;
                // A value without a text, such as an address of an unknown family, is shown by its fields.
                match form.read(bytes) {
                    Some(text) => text.into(),
                    None => defined(definition, &mut Reader::new(bytes))?,
                }
            }
            None => defined(definition, r)?,
        },
    })
}

fn defined(definition: &'static Definition, r: &mut Reader<'_>) -> Result<Value, Malformed> {
    Ok(match definition.kind {
        Kind::Enum(width, values) => {
            let number = of(width, r)?;
            let named = values.iter().find(|v| number.as_i64() == Some(v.number));
            named.map_or(number, |v| v.name.into())
        }
        Kind::Flags(width, values) => {
            let number = of(width, r)?.as_i64().unwrap_or(0);
            let is_set = |flag: i64| flag != 0 && number & flag == flag;
            let set: Vec<_> = values.iter().filter(|v| is_set(v.number)).collect();
            let rest = set.iter().fold(number, |rest, v| rest & !v.number);
            let rest = (rest != 0).then(|| Value::from(rest));
            set.iter().map(|v| Value::from(v.name)).chain(rest).collect()
        }
        Kind::Alias(target) => of(target, r)?,
        Kind::Struct(fields) => Value::Object(all(fields, r)?),
        Kind::Union(fields) => {
            let bytes = r.bytes(longest(fields))?;
            let arm =
                |field: &FieldInfo| Ok((field.name.to_owned(), of(field.shape, &mut Reader::new(bytes))?));
            Value::Object(fields.iter().map(arm).collect::<Result<_, _>>()?)
        }
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
        Shape::Plain("u8") => Ok(format!("0x{}", joined(r.bytes(n)?, "")).into()),
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

/// The address types whose JSON is one text.
#[derive(Clone, Copy)]
pub(crate) enum Text {
    Mac,
    V4,
    V6,
    /// An address with its family.
    Address,
    /// An address with its family and a prefix length.
    Prefix,
}

impl Text {
    /// Returns the text form of a type; `None` if the type has none.
    pub(crate) fn of(definition: &Definition) -> Option<Text> {
        Some(match definition.name {
            "mac_address" => Text::Mac,
            "ip4_address" => Text::V4,
            "ip6_address" => Text::V6,
            "address" => Text::Address,
            "prefix" | "address_with_prefix" => Text::Prefix,
            _ => return None,
        })
    }

    /// Returns the text for encoded bytes; `None` if these bytes have no text form.
    fn read(self, bytes: &[u8]) -> Option<String> {
        Some(match self {
            Text::Mac => joined(bytes, ":"),
            Text::V4 => Ipv4Addr::from(*bytes.first_chunk::<4>()?).to_string(),
            Text::V6 => Ipv6Addr::from(*bytes.first_chunk::<16>()?).to_string(),
            Text::Address => ip(bytes)?.to_string(),
            Text::Prefix => format!("{}/{}", ip(bytes)?, bytes.get(17)?),
        })
    }

    /// Returns the encoded bytes for a text; `None` if the text does not have this form.
    pub(crate) fn written(self, text: &str) -> Option<Vec<u8>> {
        let address = |text: &str| {
            let mut bytes = vec![0; 17];
            match text.parse().ok()? {
                IpAddr::V4(v4) => bytes[1..5].copy_from_slice(&v4.octets()),
                IpAddr::V6(v6) => {
                    bytes[0] = 1;
                    bytes[1..].copy_from_slice(&v6.octets());
                }
            }
            Some(bytes)
        };
        match self {
            Text::Mac => {
                let octet = |part: &str| u8::from_str_radix(part, 16).ok().filter(|_| part.len() <= 2);
                text.split(':').map(octet).collect::<Option<Vec<u8>>>().filter(|octets| octets.len() == 6)
            }
            Text::V4 => Some(text.parse::<Ipv4Addr>().ok()?.octets().to_vec()),
            Text::V6 => Some(text.parse::<Ipv6Addr>().ok()?.octets().to_vec()),
            Text::Address => address(text),
            Text::Prefix => {
                let (of, length) = text.split_once('/')?;
                let mut bytes = address(of)?;
                bytes.push(length.parse().ok()?);
                Some(bytes)
            }
        }
    }
}

/// Returns the address in the bytes of an `address`. `None` if the bytes have no text form: the family is unknown, or the bytes after an
/// IPv4 address are not 0.
fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let (family, address) = bytes.split_first()?;
    let address: &[u8; 16] = address.first_chunk()?;
    match family {
        0 => {
            let (v4, rest) = address.split_first_chunk::<4>()?;
            rest.iter().all(|byte| *byte == 0).then(|| Ipv4Addr::from(*v4).into())
        }
        1 => Some(Ipv6Addr::from(*address).into()),
        _ => None,
    }
}
