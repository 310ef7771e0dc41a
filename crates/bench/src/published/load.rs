//! Parses files of published results.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use csv::StringRecord;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as ValueError;

use super::case::Case;
use super::figure::{Figure, Metric};

/// Columns that describe the setup; all others are figures.
const KEYS: [&str; 13] = [
    "paper",
    "table",
    "machine",
    "clock_mhz",
    "system",
    "cores",
    "placement",
    "path",
    "routes",
    "traffic",
    "offered_gbps",
    "frame_bytes",
    "remark",
];

/// An error in a file of published results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// Line number, from 1; `None` for an error of the whole file.
    pub line: Option<u64>,
    /// Cause.
    pub what: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "published results, line {line}: {}", self.what),
            None => write!(f, "published results: {}", self.what),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<csv::Error> for LoadError {
    fn from(error: csv::Error) -> Self {
        Self { line: error.position().map(csv::Position::line), what: error.to_string() }
    }
}

/// Parses published results from CSV text with a header line.
///
/// # Errors
/// Returns an error if a column is missing, unknown or duplicate, or a field is invalid. Nothing is skipped.
pub fn parse(text: &str) -> Result<Vec<Case>, LoadError> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers()?.clone();
    check_names(&names).map_err(|what| LoadError { line: Some(1), what })?;
    let mut cases = Vec::new();
    for record in reader.records() {
        let record = record?;
        let line = record.position().map(csv::Position::line);
        let row = Row { names: &names, record: &record };
        cases.push(row.case().map_err(|what| LoadError { line, what })?);
    }
    Ok(cases)
}

fn check_names(names: &StringRecord) -> Result<(), String> {
    for (index, name) in names.iter().enumerate() {
        if !KEYS.contains(&name) && Metric::of_column(name).is_none() {
            return Err(format!("unknown column {name:?}"));
        }
        if names.iter().take(index).any(|earlier| earlier == name) {
            return Err(format!("duplicate column {name}"));
        }
    }
    match KEYS.iter().find(|key| !names.iter().any(|name| name == **key)) {
        Some(key) => Err(format!("column {key} is missing")),
        None => Ok(()),
    }
}

/// A line with the names of its fields.
struct Row<'a> {
    names: &'a StringRecord,
    record: &'a StringRecord,
}

impl Row<'_> {
    fn case(&self) -> Result<Case, String> {
        let offered_gbps: Option<f64> = self.number("offered_gbps")?;
        if offered_gbps.is_some_and(|gbps| !(gbps.is_finite() && gbps > 0.0)) {
            return Err("offered_gbps must be a finite figure above 0".into());
        }
        Ok(Case {
            paper: self.name("paper")?,
            table: self.text("table").ok_or("table is empty")?,
            machine: self.text("machine"),
            clock_mhz: self.number("clock_mhz")?,
            system: self.text("system").ok_or("system is empty")?,
            cores: self.count("cores")?,
            placement: self.text("placement"),
            path: self.name("path")?,
            routes: self.number("routes")?,
            traffic: self.name("traffic")?,
            offered_gbps,
            frame_bytes: self.count("frame_bytes")?,
            figures: self.figures()?,
            remark: self.text("remark"),
        })
    }

    /// Returns a field, unless it is empty. The header was checked before, so every key has a column.
    fn field(&self, column: &str) -> Option<&str> {
        let index = self.names.iter().position(|name| name == column)?;
        self.record.get(index).filter(|field| !field.is_empty())
    }

    fn text(&self, column: &str) -> Option<String> {
        self.field(column).map(str::to_owned)
    }

    fn number<T: FromStr>(&self, column: &str) -> Result<Option<T>, String> {
        let parse =
            |field: &str| field.parse().map_err(|_| format!("{column} is {field:?}, which is not a number"));
        self.field(column).map(parse).transpose()
    }

    /// Parses a required number above 0.
    fn count(&self, column: &str) -> Result<u32, String> {
        match self.number(column)? {
            None => Err(format!("{column} is empty")),
            Some(0) => Err(format!("{column} must be above 0")),
            Some(count) => Ok(count),
        }
    }

    /// Parses the name of an enum variant.
    fn name<'de, T: Deserialize<'de>>(&self, column: &str) -> Result<T, String> {
        let field = self.field(column).unwrap_or_default();
        let read: Result<T, ValueError> = T::deserialize(field.to_owned().into_deserializer());
        read.map_err(|error| format!("{column}: {error}"))
    }

    fn figures(&self) -> Result<BTreeMap<Metric, Figure>, String> {
        let mut figures = BTreeMap::new();
        for (name, field) in self.names.iter().zip(self.record) {
            let Some(metric) = Metric::of_column(name).filter(|_| !field.is_empty()) else { continue };
            let figure = Figure::read(field);
            figures
                .insert(metric, figure.ok_or_else(|| format!("{name} is {field:?}, which is not a figure"))?);
        }
        if figures.is_empty() {
            return Err("the row has no figure".into());
        }
        Ok(figures)
    }
}
