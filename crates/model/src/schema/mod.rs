//! The fields of a value in a configuration file, declared once. A [`Schema`] lists the fields of a record: name, [`Form`], access, help.
//! From this follow a reader that reports all faults with their places, a writer, the reference in the documentation, and values for tests.
//!
//! ```
//! use std::sync::LazyLock;
//! use model::schema::{Schema, number, truth};
//!
//! #[derive(Clone, Debug, Default, PartialEq)]
//! struct Limit { hops: u8, log: bool }
//!
//! static LIMIT: LazyLock<Schema<Limit>> = LazyLock::new(|| {
//!     Schema::new(Limit::default())
//!         .field("hops", number(0..=255), |l| l.hops, |l, hops| l.hops = hops, "Fewest hops of packets that pass.")
//!         .field("log", truth(), |l| l.log, |l, log| l.log = log, "Whether others are logged.")
//! });
//!
//! let mut reader = model::yaml::Reader::new("f");
//! let document = reader.document("{ hops: 3 }", "", |_, _| ()).unwrap();
//! let limit = LIMIT.read(&mut reader, document.at, &document).unwrap();
//! assert_eq!(limit, Limit { hops: 3, log: false });
//! assert_eq!(LIMIT.line(&limit), "{ hops: 3 }");
//! ```

mod form;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::Value;

use crate::key::Kind;
use crate::yaml::{At, Fields, NOT_YET, Node, Reader, Text};

pub use form::{
    Form, Inline, Keyed, List, Number, Optional, Parsed, Truth, Words, block, inline, keyed, list, number,
    optional, pairs, parsed, text, truth, words,
};

/// A fault of a record whose fields are each valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    /// The field with the fault; empty if the fault concerns several fields of the record.
    pub field: &'static str,
    /// What is wrong, and the solution.
    pub why: String,
}

impl Bad {
    /// Returns a fault of a field, or of the whole record if `field` is empty.
    pub fn new(field: &'static str, why: impl Into<String>) -> Bad {
        Bad { field, why: why.into() }
    }
}

/// A value that has fields in configuration files.
pub trait Described: Clone + PartialEq + 'static {
    /// Returns the declaration of the value's fields.
    fn schema() -> &'static Schema<Self>;
}

/// An object with fields, whose name in configuration files is not just any text.
pub trait Named: Described + Kind<Key: Clone + PartialEq> {
    /// Returns the form of the names.
    fn names() -> Parsed<Self::Key>;
}

/// An object whose whole configuration is one value. In a configuration file, each object is a line with its name and its value, such as
/// the reason and the rate of a punt policer.
pub trait Valued: Kind<Key: Clone + PartialEq> + Clone + PartialEq + 'static {
    /// The form of the value.
    type Form: Form;
    /// Returns the form of the names.
    fn names() -> Parsed<Self::Key>;
    /// Returns the form of the value.
    fn form() -> Self::Form;
    /// Returns the value.
    fn value(&self) -> <Self::Form as Form>::Value;
    /// Returns the object with this value.
    fn with(value: <Self::Form as Form>::Value) -> Self;

    /// Returns valid objects for tests: each example of a name with each example of a value.
    fn examples() -> Vec<(Self::Key, Self)> {
        let values = Self::form().examples();
        let of = |name: Self::Key| values.iter().map(move |value| (name.clone(), Self::with(value.clone())));
        Self::names().examples().into_iter().flat_map(of).collect()
    }
}

/// A row of the reference documentation, about one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The field's name, after the names of the fields around it: `receive.queues.NUMBER.worker`.
    pub name: String,
    /// Its valid values.
    pub values: String,
    /// The default value; empty if there is none, or if the field is required.
    pub usual: String,
    /// Its meaning.
    pub help: Cow<'static, str>,
    /// The JSON Schema of its values. The schema of a map does not list the fields in the map: these have rows of their own, which follow.
    pub json: Value,
}

impl Row {
    /// Returns the row of a field without a default.
    pub fn new(
        name: impl Into<String>,
        values: impl Into<String>,
        help: impl Into<Cow<'static, str>>,
        json: Value,
    ) -> Row {
        Row { name: name.into(), values: values.into(), usual: String::new(), help: help.into(), json }
    }
}

/// The fields of a record of type `T`.
pub struct Schema<T> {
    usual: T,
    fields: Vec<Field<T>>,
    /// Fields that files of other programs have, and that this program does not support yet.
    later: &'static [&'static str],
    check: fn(&T) -> Result<(), Bad>,
}

struct Field<T> {
    name: &'static str,
    help: &'static str,
    /// True if the field is written even with its default value.
    always: bool,
    /// The error if the field is missing; empty if the field is optional.
    needed: &'static str,
    member: Box<dyn Member<T>>,
}

/// A function that sets a field of a record to an example value.
type Example<T> = Box<dyn Fn(&mut T)>;

/// A field of a record, whatever the type of the field.
trait Member<T>: Send + Sync {
    fn read(&self, r: &mut Reader, node: &Node, to: &mut T);
    fn write(&self, t: &mut Text<'_>, name: &str, from: &T);
    fn valid(&self, value: &T) -> Result<(), String>;
    fn line(&self, from: &T) -> String;
    fn same(&self, a: &T, b: &T) -> bool;
    fn rows(&self, name: &str, usual: &T, help: &'static str) -> Vec<Row>;
    fn examples(&self) -> Vec<Example<T>>;
    fn syntax(&self, argument: &str) -> String;
}

/// A form, and the functions that read and set its value in a record.
struct Accessor<T, F: Form> {
    form: F,
    get: fn(&T) -> F::Value,
    set: fn(&mut T, F::Value),
}

impl<T: 'static, F: Form> Member<T> for Accessor<T, F> {
    fn read(&self, r: &mut Reader, node: &Node, to: &mut T) {
        if let Some(value) = self.form.read(r, node) {
            (self.set)(to, value);
        }
    }

    fn write(&self, t: &mut Text<'_>, name: &str, from: &T) {
        self.form.write(t, name, &(self.get)(from));
    }

    fn valid(&self, value: &T) -> Result<(), String> {
        self.form.valid(&(self.get)(value))
    }

    fn line(&self, from: &T) -> String {
        self.form.line(&(self.get)(from))
    }

    fn same(&self, a: &T, b: &T) -> bool {
        (self.get)(a) == (self.get)(b)
    }

    fn rows(&self, name: &str, usual: &T, help: &'static str) -> Vec<Row> {
        let row = Row {
            name: name.into(),
            values: self.form.values(),
            usual: self.form.usual(&(self.get)(usual)),
            help: help.into(),
            json: self.form.json(),
        };
        std::iter::once(row).chain(self.form.rows(name)).collect()
    }

    fn examples(&self) -> Vec<Example<T>> {
        let set = self.set;
        let example = |value: F::Value| -> Example<T> { Box::new(move |to| set(to, value.clone())) };
        self.form.examples().into_iter().map(example).collect()
    }

    fn syntax(&self, argument: &str) -> String {
        self.form.syntax(argument)
    }
}

impl<T: Clone + PartialEq + 'static> Schema<T> {
    /// Returns a schema without fields. The default record is `usual`.
    pub fn new(usual: T) -> Schema<T> {
        Schema { usual, fields: Vec::new(), later: &[], check: |_| Ok(()) }
    }

    /// Adds a field: its name, its form, functions that get and set its value in a record, and one or two sentences of help. Fields are
    /// written in the order in which they are added. They are also read in this order, so `set` gets a record with the
    /// values of the earlier fields.
    pub fn field<F: Form>(
        mut self,
        name: &'static str,
        form: F,
        get: fn(&T) -> F::Value,
        set: fn(&mut T, F::Value),
        help: &'static str,
    ) -> Schema<T> {
        let member = Box::new(Accessor { form, get, set });
        self.fields.push(Field { name, help, always: false, needed: "", member });
        self
    }

    /// Makes the field added last written even with its default value.
    #[must_use]
    pub fn always(mut self) -> Schema<T> {
        self.fields.last_mut().expect("a field comes first").always = true;
        self
    }

    /// Makes the field added last required, with `message` as the error if it is missing. The field is always written.
    #[must_use]
    pub fn needed(self, message: &'static str) -> Schema<T> {
        let mut schema = self.always();
        schema.fields.last_mut().expect("a field comes first").needed = message;
        schema
    }

    /// Refuses these fields, which files of other programs have, as not supported yet.
    #[must_use]
    pub fn later(self, later: &'static [&'static str]) -> Schema<T> {
        Schema { later, ..self }
    }

    /// Adds a check of the whole record. It refuses records whose fields are valid, but do not fit together.
    #[must_use]
    pub fn check(self, check: fn(&T) -> Result<(), Bad>) -> Schema<T> {
        Schema { check, ..self }
    }

    /// Reads a record from a map. Returns `None` after a fault, which is reported to `r`. Faults of the whole record are reported at `at`.
    pub fn read(&self, r: &mut Reader, at: At, node: &Node) -> Option<T> {
        let (before, mut value) = (r.found(), self.usual.clone());
        self.read_over(r, at, node, &mut value);
        (r.found() == before).then_some(value)
    }

    /// Reads a record from a map into `to`. A field with a fault, which is reported to `r`, stays unchanged.
    pub fn read_over(&self, r: &mut Reader, at: At, node: &Node, to: &mut T) {
        let (before, mut fields) = (r.found(), r.fields(node));
        self.take(r, at, &mut fields, to);
        if r.found() == before {
            self.verify(r, at, &mut fields, to);
        }
        fields.end(r);
    }

    /// Reads a record from the fields of a map that may have other fields, too. Returns `None` after a fault, which is reported to `r`.
    /// Faults of the whole record are reported at `at`.
    pub fn read_fields(&self, r: &mut Reader, at: At, fields: &mut Fields<'_>) -> Option<T> {
        let (before, mut value) = (r.found(), self.usual.clone());
        self.take(r, at, fields, &mut value);
        if r.found() == before {
            self.verify(r, at, fields, &value);
        }
        (r.found() == before).then_some(value)
    }

    /// Reads the fields of a record from a map that has other fields, too. A field with a fault, which is reported to `r`, stays
    /// unchanged. The record is checked as a whole only if the map has at least one of its fields. Returns the names of the fields with
    /// faults.
    pub fn read_into(&self, r: &mut Reader, fields: &mut Fields<'_>, to: &mut T) -> Vec<&'static str> {
        let before = r.found();
        let (said, faulty) = self.take(r, fields.at, fields, to);
        if said && r.found() == before {
            self.verify(r, fields.at, fields, to);
        }
        faulty
    }

    /// Reads the fields. Returns true if the map has at least one of them, and the names of the fields with faults.
    fn take(&self, r: &mut Reader, at: At, fields: &mut Fields<'_>, to: &mut T) -> (bool, Vec<&'static str>) {
        let (mut said, mut faulty) = (false, Vec::new());
        for field in &self.fields {
            let before = r.found();
            match fields.take(field.name) {
                Some(node) => {
                    field.member.read(r, node, to);
                    said = true;
                }
                None if field.needed.is_empty() => {}
                None => r.fault(at, field.needed),
            }
            faulty.extend((r.found() > before).then_some(field.name));
        }
        self.later.iter().for_each(|name| fields.refuse(r, name, NOT_YET));
        (said, faulty)
    }

    /// Checks a record whose fields are each valid, and reports its faults to `r`.
    fn verify(&self, r: &mut Reader, at: At, fields: &mut Fields<'_>, value: &T) {
        if let Err(bad) = (self.check)(value) {
            let field = self.fields.iter().find(|field| field.name == bad.field);
            let node = field.and_then(|field| fields.take(field.name));
            r.fault(node.map_or(at, |node| node.at), bad.why);
        }
    }

    /// Checks a record that was not read from a file, but made by a command or an API request: a file must be able to have it, because the
    /// configuration is saved in files.
    ///
    /// # Errors
    /// What is wrong. If the value of a field is invalid, the text begins with the field's name.
    pub fn valid(&self, value: &T) -> Result<(), String> {
        for field in self.said(value, &self.usual) {
            field.member.valid(value).map_err(|why| format!("{}: {why}", field.name))?;
        }
        (self.check)(value).map_err(|bad| bad.why)
    }

    /// True if the record is the default one.
    pub fn is_usual(&self, value: &T) -> bool {
        *value == self.usual
    }

    /// Writes the fields that differ from their default, and those that are [always](Self::always) written.
    pub fn write(&self, t: &mut Text<'_>, value: &T) {
        self.write_over(t, value, &self.usual);
    }

    /// Writes the fields in which `value` differs from `usual`, which is used as the default, and those that are [always](Self::always)
    /// written.
    pub fn write_over(&self, t: &mut Text<'_>, value: &T, usual: &T) {
        self.said(value, usual).for_each(|field| field.member.write(t, field.name, value));
    }

    /// Returns in one line, as a map, the fields that differ from their default, and those that are [always](Self::always) written.
    pub fn line(&self, value: &T) -> String {
        let fields = self.fields(value);
        if fields.is_empty() { "{}".into() } else { format!("{{ {fields} }}") }
    }

    /// As [`line`](Self::line), but without the braces of the map.
    pub fn fields(&self, value: &T) -> String {
        let mut text = String::new();
        for field in self.said(value, &self.usual) {
            text += if text.is_empty() { "" } else { ", " };
            text += field.name;
            text += ": ";
            text += &field.member.line(value);
        }
        text
    }

    fn said<'a>(&'a self, value: &'a T, usual: &'a T) -> impl Iterator<Item = &'a Field<T>> {
        self.fields.iter().filter(|field| field.always || !field.member.same(value, usual))
    }

    /// Returns the syntax of a field's value in commands: a choice of words, or an argument called `argument` with its type, such as a
    /// range.
    ///
    /// # Panics
    /// If there is no field `name`.
    pub fn syntax(&self, name: &str, argument: &str) -> String {
        let field = self.fields.iter().find(|field| field.name == name).expect("the field exists");
        field.member.syntax(argument)
    }

    /// Returns the rows of the reference: one for each field, and one for each field inside the value of a field. The names in the rows
    /// begin with the text `around`.
    pub fn rows(&self, around: &str) -> Vec<Row> {
        let rows = |field: &Field<T>| {
            let name = format!("{around}{}", field.name);
            let mut rows = field.member.rows(&name, &self.usual, field.help);
            if !field.needed.is_empty() {
                rows[0].usual = String::new();
            }
            rows
        };
        self.fields.iter().flat_map(rows).collect()
    }

    /// Returns valid records for tests: one for each example of each field, and some for each pair of fields. The default record is not
    /// among them.
    pub fn examples(&self) -> Vec<T> {
        let all: Vec<Vec<Example<T>>> = self.fields.iter().map(|field| field.member.examples()).collect();
        let mut base = self.usual.clone();
        for (_, examples) in self.fields.iter().zip(&all).filter(|(field, _)| !field.needed.is_empty()) {
            examples.iter().take(1).for_each(|example| example(&mut base));
        }
        let with = |examples: &[&Example<T>]| {
            let mut record = base.clone();
            examples.iter().for_each(|example| example(&mut record));
            record
        };
        let mut records: Vec<T> = all.iter().flatten().map(|one| with(&[one])).collect();
        for (n, examples) in all.iter().enumerate() {
            for other in all.iter().skip(n + 1).flat_map(|others| some(others)) {
                records.extend(some(examples).map(|one| with(&[one, other])));
            }
        }
        records.retain(|record| *record != self.usual && (self.check)(record).is_ok());
        records
    }
}

/// Returns at most eight of the elements, evenly spaced.
fn some<T>(all: &[T]) -> impl Iterator<Item = &T> {
    all.iter().step_by(all.len().div_ceil(8).max(1))
}
