//! Messages from JSON, as VPP's traces have them: the reverse of [`value`](crate::value).

use std::fmt;

use serde_json::{Map, Value};

use crate::shape::{Definition, FieldInfo, Kind, Shape, longest};
use crate::value::Text;
use crate::wire::{Field, Writer};

/// The reason why JSON cannot be encoded as a message: the path of the faulty field, and what is expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    path: String,
    what: String,
}

impl Unfit {
    fn new(what: impl Into<String>) -> Unfit {
        Unfit { path: String::new(), what: what.into() }
    }

    /// Returns the error with `name`, the field or element that contains the faulty one, in front of its path.
    fn within(self, name: impl fmt::Display) -> Unfit {
        let between = if self.path.is_empty() { "" } else { "." };
        Unfit { path: format!("{name}{between}{}", self.path), what: self.what }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() { f.write_str(&self.what) } else { write!(f, "{}: {}", self.path, self.what) }
    }
}

impl std::error::Error for Unfit {}

/// Encodes the fields of a message from JSON. The object must have all fields, except the fields of unions, and the numbers of elements,
/// which are those of the arrays. Members of the object that are no fields are ignored.
///
/// # Errors
/// If a field is missing, or does not have the form of its description.
pub fn fields(
    fields: impl IntoIterator<Item = &'static FieldInfo>,
    given: &Map<String, Value>,
) -> Result<Vec<u8>, Unfit> {
    let mut w = Writer::default();
    all(fields, given, &mut w)?;
    Ok(w.into_bytes())
}

fn all(
    fields: impl IntoIterator<Item = &'static FieldInfo>,
    given: &Map<String, Value>,
    w: &mut Writer,
) -> Result<(), Unfit> {
    for field in fields {
        if let Shape::Count(of) = field.shape {
            w.reserve_count(of.length());
            continue;
        }
        let value = given.get(field.name).ok_or_else(|| Unfit::new("missing").within(field.name))?;
        put(field.shape, value, w).map_err(|e| e.within(field.name))?;
    }
    Ok(())
}

fn put(shape: &'static Shape, value: &Value, w: &mut Writer) -> Result<(), Unfit> {
    match shape {
        Shape::Plain(name) => plain(name, value, w),
        Shape::Text(n) => {
            let text = text(value)?;
            if text.len() >= *n {
                return Err(Unfit::new(format!("longer than {} bytes", n.saturating_sub(1))));
            }
            w.put(text.as_bytes());
            w.put(&vec![0; n - text.len()]);
            Ok(())
        }
        Shape::Line => {
            let text = text(value)?;
            u32::try_from(text.len()).map_err(|_| Unfit::new("too long"))?.put(w);
            w.put(text.as_bytes());
            Ok(())
        }
        // The count is filled in when its array is encoded.
        Shape::Count(of) => {
            w.reserve_count(of.length());
            Ok(())
        }
        Shape::Array(element, n) => several(element, Some(*n), value, w),
        Shape::Tail(element) => several(element, None, value, w),
        Shape::Defined(definition) => match (Text::of(definition), value) {
            (Some(form), Value::String(text)) => {
                let bytes = form.written(text);
                w.put(&bytes.ok_or_else(|| Unfit::new(format!("no {}: '{text}'", definition.name)))?);
                Ok(())
            }
            _ => defined(definition, value, w),
        },
    }
}

fn defined(definition: &'static Definition, value: &Value, w: &mut Writer) -> Result<(), Unfit> {
    let named = |values: &[crate::shape::Value], value: &Value| match value {
        Value::String(name) => {
            let found = values.iter().find(|v| v.name == name);
            let unknown = || Unfit::new(format!("no value of {}: '{name}'", definition.name));
            found.map(|v| v.number).ok_or_else(unknown)
        }
        other => other.as_i64().ok_or_else(|| Unfit::new("expected a name or a number")),
    };
    match definition.kind {
        Kind::Enum(width, values) => put(width, &named(values, value)?.into(), w),
        Kind::Flags(width, values) => {
            let number = match value {
                Value::Array(flags) => {
                    flags.iter().try_fold(0, |all, flag| named(values, flag).map(|flag| all | flag))?
                }
                other => named(values, other)?,
            };
            put(width, &number.into(), w)
        }
        Kind::Alias(target) => put(target, value, w),
        Kind::Struct(fields) => all(fields, object(value)?, w),
        Kind::Union(fields) => {
            let given = object(value)?;
            let mut bytes = vec![0; longest(fields)];
            let arms = fields.iter().filter_map(|field| Some((field, given.get(field.name)?)));
            // Several fields of the union may be given. A later one overwrites an earlier one, as in VPP; the longest fields come last.
            for (field, value) in arms {
                let mut arm = Writer::default();
                put(field.shape, value, &mut arm).map_err(|e| e.within(field.name))?;
                let arm = arm.into_bytes();
                bytes.iter_mut().zip(arm).for_each(|(to, byte)| *to = byte);
            }
            w.put(&bytes);
            Ok(())
        }
    }
}

fn plain(name: &str, value: &Value, w: &mut Writer) -> Result<(), Unfit> {
    let unsigned = |most: u64| {
        let number = value.as_u64().filter(|n| *n <= most);
        number.ok_or_else(|| Unfit::new(format!("expected a number from 0 to {most}")))
    };
    let signed = |most: i64| {
        let number = value.as_i64().filter(|n| (-most - 1..=most).contains(n));
        number.ok_or_else(|| Unfit::new(format!("expected a number from {} to {most}", -most - 1)))
    };
    match name {
        "u8" => (unsigned(u8::MAX.into())? as u8).put(w),
        "u16" => (unsigned(u16::MAX.into())? as u16).put(w),
        "u32" => (unsigned(u32::MAX.into())? as u32).put(w),
        "u64" => unsigned(u64::MAX)?.put(w),
        "i8" => (signed(i8::MAX.into())? as i8).put(w),
        "i16" => (signed(i16::MAX.into())? as i16).put(w),
        "i32" => (signed(i32::MAX.into())? as i32).put(w),
        "i64" => signed(i64::MAX)?.put(w),
        "f64" => value.as_f64().ok_or_else(|| Unfit::new("expected a number"))?.put(w),
        _ => value.as_bool().ok_or_else(|| Unfit::new("expected true or false"))?.put(w),
    }
    Ok(())
}

/// Encodes the elements of an array. Elements of type `u8` may be given as a text of hexadecimal digits, all others as a JSON array. `n` is
/// the number of elements if it is fixed. Otherwise, writes the number into the reserved count field.
fn several(element: &'static Shape, n: Option<usize>, value: &Value, w: &mut Writer) -> Result<(), Unfit> {
    let expect = |found: usize| match n {
        Some(n) if n != found => Err(Unfit::new(format!("expected {n} elements, not {found}"))),
        _ => Ok(()),
    };
    let too_many = || Unfit::new("too many elements");
    if let (Shape::Plain("u8"), Value::String(text)) = (element, value) {
        let bytes = bytes(text).ok_or_else(|| Unfit::new("expected 0x and hexadecimal digits"))?;
        expect(bytes.len())?;
        if n.is_none() {
            w.fill_count(bytes.len()).ok_or_else(too_many)?;
        }
        w.put(&bytes);
        return Ok(());
    }
    let elements = value.as_array().ok_or_else(|| Unfit::new("expected an array"))?;
    expect(elements.len())?;
    if n.is_none() {
        w.fill_count(elements.len()).ok_or_else(too_many)?;
    }
    for (at, value) in elements.iter().enumerate() {
        put(element, value, w).map_err(|e| e.within(at))?;
    }
    Ok(())
}

/// Decodes `0x` and an even number of hexadecimal digits; `None` for any other text.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x")?.as_bytes();
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let digit = |digit: u8| char::from(digit).to_digit(16);
    pairs.iter().map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8)).collect()
}

fn text(value: &Value) -> Result<&str, Unfit> {
    value.as_str().ok_or_else(|| Unfit::new("expected a text"))
}

fn object(value: &Value) -> Result<&Map<String, Value>, Unfit> {
    value.as_object().ok_or_else(|| Unfit::new("expected an object"))
}
