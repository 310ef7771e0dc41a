//! The forms in which a field's value is written.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde_json::{Value, json};

use super::{Row, Schema};
use crate::yaml::{At, Json, Node, Reader, Text, quoted};

/// The form of a value in a configuration file.
pub trait Form: Send + Sync + 'static {
    /// The type of the value in the program.
    type Value: Clone + PartialEq + 'static;

    /// Reads a value. Returns `None` after a fault, which is reported to `r`.
    fn read(&self, r: &mut Reader, node: &Node) -> Option<Self::Value>;

    /// Checks a value that was not read from a file: it must be one that [`read`](Self::read) could return.
    ///
    /// # Errors
    /// What is wrong with the value.
    fn valid(&self, _: &Self::Value) -> Result<(), String> {
        Ok(())
    }

    /// Returns the value as text in one line.
    fn line(&self, value: &Self::Value) -> String;

    /// Writes the field `name` with this value: by default, in one line.
    fn write(&self, t: &mut Text<'_>, name: &str, value: &Self::Value) {
        t.field(name, Some(self.line(value)));
    }

    /// Returns a description of the valid values for the reference, in Markdown.
    fn values(&self) -> String;

    /// Returns the JSON Schema of the values as they are written. The default has the JSON types of the [examples](Form::examples).
    fn json(&self) -> Value {
        let mut schema =
            types(&self.examples().iter().map(|value| in_json(&self.line(value))).collect::<Vec<_>>());
        schema["description"] = self.values().into();
        schema
    }

    /// Returns a default value as text for the reference; empty if it cannot be written.
    fn usual(&self, value: &Self::Value) -> String {
        self.line(value)
    }

    /// Returns rows for the reference documentation. If the value of the field `name` has fields itself, there is one row for each
    /// of them.
    fn rows(&self, _name: &str) -> Vec<Row> {
        Vec::new()
    }

    /// Returns values for tests, including extreme ones.
    fn examples(&self) -> Vec<Self::Value>;

    /// Returns the syntax of the value in commands, with an argument of this name: by default, one word.
    fn syntax(&self, argument: &str) -> String {
        format!("<{argument}:word>")
    }
}

/// Converts a value, written as YAML in one line, to JSON.
fn in_json(line: &str) -> Value {
    let (mut json, mut text) = (Json::default(), String::new());
    json.lines(&format!("value: {line}\n"), &mut text);
    json.end(&mut text);
    serde_json::from_str(&text).map(|mut all: Value| all["value"].take()).unwrap_or_default()
}

/// Returns the JSON Schema that allows the types of these values. If there are no values, returns the schema of a string.
fn types(values: &[Value]) -> Value {
    let name = |value: &Value| match value {
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Null | Value::String(_) => "string",
    };
    let names: BTreeSet<&str> = values.iter().map(name).collect();
    let mut schema = match names.iter().collect::<Vec<_>>()[..] {
        [] => json!({ "type": "string" }),
        [one] => json!({ "type": one }),
        ref several => json!({ "type": several }),
    };
    let members: Vec<Value> = values.iter().filter_map(Value::as_array).flatten().cloned().collect();
    if names.contains("array") {
        schema["items"] = types(&members);
    }
    schema
}

/// `true` or `false`.
pub struct Truth;

/// `true` or `false`.
pub fn truth() -> Truth {
    Truth
}

impl Form for Truth {
    type Value = bool;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<bool> {
        r.truth(node)
    }

    fn line(&self, value: &bool) -> String {
        value.to_string()
    }

    fn values(&self) -> String {
        "`true`, `false`".into()
    }

    fn json(&self) -> Value {
        json!({ "type": "boolean" })
    }

    fn examples(&self) -> Vec<bool> {
        vec![true, false]
    }
}

/// A number in a range.
pub struct Number<N> {
    range: RangeInclusive<N>,
    unit: &'static str,
}

/// Returns the form of a number in a range, both ends included.
pub fn number<N>(range: RangeInclusive<N>) -> Number<N> {
    Number { range, unit: "" }
}

impl<N> Number<N> {
    /// Sets the unit, such as bytes or packets per second.
    pub fn unit(self, unit: &'static str) -> Number<N> {
        Number { unit, ..self }
    }
}

impl<N: Copy + Display + FromStr + PartialOrd + Send + Sync + 'static> Form for Number<N> {
    type Value = N;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<N> {
        r.number(node, self.range.clone())
    }

    fn valid(&self, value: &N) -> Result<(), String> {
        let (from, to) = (self.range.start(), self.range.end());
        let is = self.range.contains(value);
        if is { Ok(()) } else { Err(format!("{value} is not a number from {from} to {to}")) }
    }

    fn line(&self, value: &N) -> String {
        value.to_string()
    }

    fn values(&self) -> String {
        let (from, to) = (self.range.start(), self.range.end());
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        format!("{from} to {to}{unit}")
    }

    fn json(&self) -> Value {
        let bound = |n: &N| serde_json::from_str::<Value>(&n.to_string()).unwrap_or_default();
        let (from, to) = (bound(self.range.start()), bound(self.range.end()));
        // A number with a fraction is not an integer.
        let kind = if from.is_f64() { "number" } else { "integer" };
        json!({ "type": kind, "minimum": from, "maximum": to, "description": self.values() })
    }

    fn usual(&self, value: &N) -> String {
        if self.range.contains(value) { value.to_string() } else { String::new() }
    }

    fn examples(&self) -> Vec<N> {
        vec![*self.range.start(), *self.range.end()]
    }

    fn syntax(&self, argument: &str) -> String {
        let range = format!("{}..{}", self.range.start(), self.range.end());
        // Some ranges have a shorter name in the grammar.
        let kind = match &*range {
            "0..65535" => "u16",
            "0..4294967295" => "u32",
            range => range,
        };
        format!("<{argument}:{kind}>")
    }
}

/// One of several words. Each stands for a value.
pub struct Words<E>(Vec<(E, &'static str)>);

/// Returns the form in which each value in `all` is written as one word, the result of `word`.
pub fn words<E: Copy>(all: &[E], word: fn(E) -> &'static str) -> Words<E> {
    Words(all.iter().map(|value| (*value, word(*value))).collect())
}

/// Returns the form of values that are written as words. `all` has each value with its word.
pub fn pairs<E: Copy>(all: &[(E, &'static str)]) -> Words<E> {
    Words(all.to_vec())
}

impl<E: Copy + PartialEq + Send + Sync + 'static> Form for Words<E> {
    type Value = E;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<E> {
        let words: Vec<&str> = self.0.iter().map(|(_, word)| *word).collect();
        let said = r.word(node, &words)?;
        self.0.iter().find(|(_, word)| *word == said).map(|(value, _)| *value)
    }

    fn line(&self, value: &E) -> String {
        self.0.iter().find(|(other, _)| other == value).map(|(_, word)| quoted(word)).unwrap_or_default()
    }

    fn values(&self) -> String {
        let words: Vec<String> = self.0.iter().map(|(_, word)| format!("`{word}`")).collect();
        words.join(", ")
    }

    fn json(&self) -> Value {
        json!({ "enum": self.0.iter().map(|(_, word)| *word).collect::<Vec<_>>() })
    }

    fn examples(&self) -> Vec<E> {
        self.0.iter().map(|(value, _)| *value).collect()
    }

    fn syntax(&self, _: &str) -> String {
        let words: Vec<&str> = self.0.iter().map(|(_, word)| *word).collect();
        format!("{{{}}}", words.join(" | "))
    }
}

/// A text that a function parses.
pub struct Parsed<V: 'static> {
    values: &'static str,
    read: fn(&str) -> Result<V, String>,
    write: fn(&V) -> String,
    examples: Vec<&'static str>,
}

/// Returns the form of a value that is a text in the file: `read` parses the text, and `write` returns the value as YAML. `values`
/// describes the valid values; `examples` are texts for tests.
pub fn parsed<V>(
    values: &'static str,
    examples: &[&'static str],
    read: fn(&str) -> Result<V, String>,
    write: fn(&V) -> String,
) -> Parsed<V> {
    Parsed { values, read, write, examples: examples.to_vec() }
}

/// Returns the form of any text that is not empty, such as a name.
pub fn text(values: &'static str, examples: &[&'static str]) -> Parsed<String> {
    parsed(values, examples, |text| Ok(text.to_string()), |text| quoted(text))
}

impl<V: 'static> Parsed<V> {
    /// Parses `name`, the name of a map's entry at the position `at`. If that fails, reports a fault to `r` and returns `None`.
    pub fn name(&self, r: &mut Reader, at: At, name: &str) -> Option<V> {
        (self.read)(name).map_err(|why| r.fault(at, why)).ok()
    }
}

impl<V: Clone + PartialEq + 'static> Form for Parsed<V> {
    type Value = V;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<V> {
        let text = r.text(node)?;
        (self.read)(text).map_err(|why| r.fault(node.at, why)).ok()
    }

    fn line(&self, value: &V) -> String {
        (self.write)(value)
    }

    fn values(&self) -> String {
        self.values.into()
    }

    fn examples(&self) -> Vec<V> {
        self.examples.iter().map(|text| (self.read)(text).expect("an example can be read")).collect()
    }
}

/// A value that may be missing.
pub struct Optional<F>(F);

/// Returns the form of an optional value. If the value is missing, the field is not written.
pub fn optional<F: Form>(form: F) -> Optional<F> {
    Optional(form)
}

impl<F: Form> Form for Optional<F> {
    type Value = Option<F::Value>;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<Self::Value> {
        self.0.read(r, node).map(Some)
    }

    fn valid(&self, value: &Self::Value) -> Result<(), String> {
        value.as_ref().map_or(Ok(()), |value| self.0.valid(value))
    }

    fn line(&self, value: &Self::Value) -> String {
        value.as_ref().map(|value| self.0.line(value)).unwrap_or_default()
    }

    fn write(&self, t: &mut Text<'_>, name: &str, value: &Self::Value) {
        if let Some(value) = value {
            self.0.write(t, name, value);
        }
    }

    fn values(&self) -> String {
        self.0.values()
    }

    fn json(&self) -> Value {
        self.0.json()
    }

    fn rows(&self, name: &str) -> Vec<Row> {
        self.0.rows(name)
    }

    fn examples(&self) -> Vec<Self::Value> {
        self.0.examples().into_iter().map(Some).collect()
    }

    fn syntax(&self, argument: &str) -> String {
        self.0.syntax(argument)
    }
}

/// A record as the value of a field in another record.
pub struct Inline<T: 'static> {
    schema: fn() -> &'static Schema<T>,
    /// True if the record has one line for each field; false if it is in one line.
    block: bool,
}

/// Returns the form of a record in one line.
pub fn inline<T>(schema: fn() -> &'static Schema<T>) -> Inline<T> {
    Inline { schema, block: false }
}

/// Returns the form of a record with a line for each field.
pub fn block<T>(schema: fn() -> &'static Schema<T>) -> Inline<T> {
    Inline { schema, block: true }
}

impl<T: Clone + PartialEq + 'static> Form for Inline<T> {
    type Value = T;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<T> {
        (self.schema)().read(r, node.at, node)
    }

    fn valid(&self, value: &T) -> Result<(), String> {
        (self.schema)().valid(value)
    }

    fn line(&self, value: &T) -> String {
        (self.schema)().line(value)
    }

    fn write(&self, t: &mut Text<'_>, name: &str, value: &T) {
        if self.block {
            t.map(name, |t| (self.schema)().write(t, value));
        } else {
            t.field(name, Some(self.line(value)));
        }
    }

    fn values(&self) -> String {
        "a map".into()
    }

    fn json(&self) -> Value {
        json!({ "type": "object" })
    }

    fn rows(&self, name: &str) -> Vec<Row> {
        (self.schema)().rows(&format!("{name}."))
    }

    fn examples(&self) -> Vec<T> {
        (self.schema)().examples()
    }
}

/// Values in a list.
pub struct List<F>(F);

/// Returns the form of values in a list, in order.
pub fn list<F: Form>(form: F) -> List<F> {
    List(form)
}

impl<F: Form> Form for List<F> {
    type Value = Vec<F::Value>;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<Self::Value> {
        let before = r.found();
        let members = r.list(node);
        let values = members.iter().filter_map(|node| self.0.read(r, node)).collect();
        (r.found() == before).then_some(values)
    }

    fn valid(&self, value: &Self::Value) -> Result<(), String> {
        value.iter().try_for_each(|value| self.0.valid(value))
    }

    fn line(&self, value: &Self::Value) -> String {
        let members: Vec<String> = value.iter().map(|value| self.0.line(value)).collect();
        if members.is_empty() { "[]".into() } else { format!("[ {} ]", members.join(", ")) }
    }

    fn values(&self) -> String {
        format!("a list of: {}", self.0.values())
    }

    fn json(&self) -> Value {
        json!({ "type": "array", "items": self.0.json() })
    }

    fn examples(&self) -> Vec<Self::Value> {
        vec![self.0.examples()]
    }
}

/// Records with names that the operator chooses.
pub struct Keyed<M, K: 'static, T: 'static> {
    /// The placeholder for the name in the reference, such as `NUMBER`.
    title: &'static str,
    key: Parsed<K>,
    schema: fn() -> &'static Schema<T>,
    block: bool,
    map: PhantomData<fn() -> M>,
}

/// Returns the form of records with names that the operator chooses. `title` is the placeholder for the name
/// in the reference, and `key` is the name's form. Each record is in one line, or in several if `block` is
/// set.
pub fn keyed<M, K, T>(
    title: &'static str,
    key: Parsed<K>,
    schema: fn() -> &'static Schema<T>,
    block: bool,
) -> Keyed<M, K, T> {
    Keyed { title, key, schema, block, map: PhantomData }
}

impl<M, K, T> Form for Keyed<M, K, T>
where
    M: Clone + PartialEq + FromIterator<(K, T)> + 'static,
    for<'m> &'m M: IntoIterator<Item = (&'m K, &'m T)>,
    K: Clone + PartialEq + 'static,
    T: Clone + PartialEq + 'static,
{
    type Value = M;

    fn read(&self, r: &mut Reader, node: &Node) -> Option<M> {
        let (before, mut all) = (r.found(), Vec::new());
        for (name, at, node) in r.entries(node) {
            let key = self.key.name(r, at, name);
            let value = (self.schema)().read(r, at, node);
            all.extend(key.zip(value));
        }
        (r.found() == before).then(|| all.into_iter().collect())
    }

    fn valid(&self, value: &M) -> Result<(), String> {
        value.into_iter().try_for_each(|(key, value)| {
            (self.schema)().valid(value).map_err(|why| format!("{}: {why}", self.key.line(key)))
        })
    }

    fn line(&self, value: &M) -> String {
        let entries = value
            .into_iter()
            .map(|(key, value)| format!("{}: {}", self.key.line(key), (self.schema)().line(value)));
        let entries: Vec<String> = entries.collect();
        if entries.is_empty() { "{}".into() } else { format!("{{ {} }}", entries.join(", ")) }
    }

    fn write(&self, t: &mut Text<'_>, name: &str, value: &M) {
        t.map(name, |t| {
            for (key, value) in value {
                let key = self.key.line(key);
                if self.block {
                    t.entry(&key, |t| (self.schema)().write(t, value));
                } else {
                    t.field(&key, Some((self.schema)().line(value)));
                }
            }
        });
    }

    fn values(&self) -> String {
        format!("maps by {}", self.key.values)
    }

    fn json(&self) -> Value {
        json!({ "type": "object", "description": self.values() })
    }

    fn rows(&self, name: &str) -> Vec<Row> {
        (self.schema)().rows(&format!("{name}.{}.", self.title))
    }

    fn examples(&self) -> Vec<M> {
        let values = (self.schema)().examples().into_iter();
        let one = |(key, value)| std::iter::once((key, value)).collect();
        self.key.examples().into_iter().cycle().zip(values).map(one).collect()
    }
}
