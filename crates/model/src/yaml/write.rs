//! Writes YAML as text, line by line.

use std::fmt::{Display, Write};

use wire::Mac;

/// Appends lines of YAML to a text.
pub struct Text<'o> {
    text: &'o mut String,
    indent: usize,
    /// True if the indices of interfaces are written.
    indices: bool,
    /// True if secrets are hidden.
    hides: bool,
}

impl<'o> Text<'o> {
    /// Returns a writer that appends to `text`. `indices`: write the indices of interfaces. `hides`: hide secrets.
    pub fn new(text: &'o mut String, indices: bool, hides: bool) -> Text<'o> {
        Text { text, indent: 0, indices, hides }
    }

    /// True if the indices of interfaces are written.
    pub fn indices(&self) -> bool {
        self.indices
    }

    /// True if secrets are hidden.
    pub fn hides(&self) -> bool {
        self.hides
    }

    /// Returns the number of bytes in the text, including those before the first line written here.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Removes the text after the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.text.truncate(len);
    }

    /// Calls `lines`. The lines that it writes are indented by `levels` levels.
    pub fn indented(&mut self, levels: usize, lines: impl FnOnce(&mut Text<'_>)) {
        let before = std::mem::replace(&mut self.indent, levels);
        lines(self);
        self.indent = before;
    }

    /// Writes a line.
    pub fn line(&mut self, line: impl Display) {
        let _ = writeln!(self.text, "{:1$}{line}", "", 2 * self.indent);
    }

    /// Writes a map below `name`. Writes nothing if `fields` writes no lines.
    pub fn map(&mut self, name: impl Display, fields: impl FnOnce(&mut Text<'_>)) {
        let before = self.text.len();
        self.line(format_args!("{name}:"));
        let empty = self.text.len();
        self.indent += 1;
        fields(self);
        self.indent -= 1;
        if self.text.len() == empty {
            self.text.truncate(before);
        }
    }

    /// Writes a map below `name`, even an empty one.
    pub fn object(&mut self, name: &str, fields: impl FnOnce(&mut Text<'_>)) {
        // Keys that are numbers stay unquoted: other programs read the keys of sub-interfaces as numbers.
        let number = !name.is_empty() && name.bytes().all(|c| c.is_ascii_digit());
        self.entry(&if number { name.to_string() } else { quoted(name) }, fields);
    }

    /// Writes a map below `key`, which is already in YAML. Writes an empty map, too.
    pub fn entry(&mut self, key: &str, fields: impl FnOnce(&mut Text<'_>)) {
        let before = self.text.len();
        self.map(key, fields);
        if self.text.len() == before {
            self.line(format_args!("{key}: {{}}"));
        }
    }

    /// Writes a field. Writes nothing if `value` is `None`.
    pub fn field(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.line(format_args!("{name}: {value}"));
        }
    }
}

/// Returns a text in YAML, in quotes if it could be read as something other than a text.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain);
    let special = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    match word && !special.contains(&text.to_ascii_lowercase().as_str()) {
        true => text.into(),
        // JSON's texts are valid YAML.
        false => serde_json::Value::from(text).to_string(),
    }
}

/// Returns an Ethernet address in quotes, because YAML 1.1 reads digits between colons as a number.
pub fn mac(mac: Mac) -> String {
    format!("\"{mac}\"")
}

/// Returns an address or prefix. An IPv6 address is in quotes, because YAML 1.1 reads digits between colons as a number.
pub fn ip(address: impl Display) -> String {
    let text = address.to_string();
    if text.contains(':') { format!("\"{text}\"") } else { text }
}
