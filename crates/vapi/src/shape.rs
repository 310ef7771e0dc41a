//! Descriptions of types and messages, from which the checksums and the JSON definitions are derived.

/// The type of a field.
#[derive(Debug)]
pub enum Shape {
    /// A basic type with this name.
    Plain(&'static str),
    /// A text in this many bytes.
    Text(usize),
    /// A text of any length.
    Line,
    /// The number of elements of the [`Tail`](Shape::Tail) that follows.
    Count(&'static Shape),
    /// An array with this number of elements.
    Array(&'static Shape, usize),
    /// An array. The last [`Count`](Shape::Count) before it gives its number of elements.
    Tail(&'static Shape),
    /// A type with a definition of its own.
    Defined(&'static Definition),
}

impl Shape {
    /// Returns the encoded length in bytes. Texts and arrays without a fixed length count as 0.
    pub(crate) fn length(&self) -> usize {
        match self {
            Shape::Plain(name) => match *name {
                "u16" | "i16" => 2,
                "u32" | "i32" => 4,
                "u64" | "i64" | "f64" => 8,
                _ => 1,
            },
            Shape::Text(n) => *n,
            Shape::Array(element, n) => element.length() * n,
            Shape::Count(of) => of.length(),
            Shape::Line | Shape::Tail(_) => 0,
            Shape::Defined(Definition { kind, .. }) => match kind {
                Kind::Enum(of, _) | Kind::Flags(of, _) | Kind::Alias(of) => of.length(),
                Kind::Struct(fields) => fields.iter().map(|field| field.shape.length()).sum(),
                Kind::Union(fields) => longest(fields),
            },
        }
    }
}

/// Returns the encoded length of the longest of these fields in bytes.
pub(crate) fn longest(fields: &[FieldInfo]) -> usize {
    fields.iter().map(|field| field.shape.length()).max().unwrap_or(0)
}

/// A field of a message, structure or union.
#[derive(Debug)]
pub struct FieldInfo {
    /// Name of the field.
    pub name: &'static str,
    /// Type of the field.
    pub shape: &'static Shape,
    /// Default value in JSON, which clients send if their program gives no value.
    pub default: Option<&'static str>,
}

/// The definition of a type.
#[derive(Debug)]
pub struct Definition {
    /// Name of the type, without `vl_api_` and `_t`.
    pub name: &'static str,
    /// Kind of the type, with its values, fields or target.
    pub kind: Kind,
}

/// The kind of a defined type.
#[derive(Debug)]
pub enum Kind {
    /// One of several values.
    Enum(&'static Shape, &'static [Value]),
    /// Flags: any combination of values, as their sum.
    Flags(&'static Shape, &'static [Value]),
    /// Another name of a type.
    Alias(&'static Shape),
    /// Several fields in a row.
    Struct(&'static [FieldInfo]),
    /// One of several fields.
    Union(&'static [FieldInfo]),
}

/// A value of an enumeration, or a flag.
#[derive(Debug)]
pub struct Value {
    /// Name of the value.
    pub name: &'static str,
    /// Number that stands for the value in messages.
    pub number: i64,
    /// True if VPP added the value after it had published the enumeration. The checksum ignores such values.
    pub later: bool,
}

/// The first fields of a message, between its identifier and the fields of its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// `client_index` and `context`.
    Request,
    /// `context` and `retval`.
    Reply,
    /// `context` and an unsigned `retval`.
    Unsigned,
    /// `context`.
    Details,
    /// `client_index`.
    Event,
    /// No fields: the definition has all fields of the message.
    Bare,
}

const U32: &Shape = &Shape::Plain("u32");
const CLIENT: FieldInfo = FieldInfo { name: "client_index", shape: U32, default: None };
const CONTEXT: FieldInfo = FieldInfo { name: "context", shape: U32, default: None };
const RETVAL: FieldInfo = FieldInfo { name: "retval", shape: &Shape::Plain("i32"), default: None };
const UNSIGNED: FieldInfo = FieldInfo { name: "retval", shape: U32, default: None };

impl Head {
    /// Returns the fields of this head.
    pub fn fields(self) -> &'static [FieldInfo] {
        match self {
            Head::Request => &[CLIENT, CONTEXT],
            Head::Reply => &[CONTEXT, RETVAL],
            Head::Unsigned => &[CONTEXT, UNSIGNED],
            Head::Details => &[CONTEXT],
            Head::Event => &[CLIENT],
            Head::Bare => &[],
        }
    }
}

/// The description of a message.
#[derive(Clone, Debug)]
pub struct Info {
    /// Name of the message, without the checksum.
    pub name: String,
    /// The first fields of the message.
    pub head: Head,
    /// The fields after the head.
    pub fields: &'static [FieldInfo],
}

impl Info {
    /// Returns all fields, with those of the head, but without the message's identifier.
    pub fn all(&self) -> impl Iterator<Item = &'static FieldInfo> + use<> {
        self.head.fields().iter().chain(self.fields)
    }
}

/// Returns the name of a Rust identifier, which may be a raw one: `r#type` is the field `type`.
pub const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}
