//! JSON from the YAML that this program writes.
//!
//! [`Text`](super::Text) writes a small part of YAML: maps by indentation, lists whose members are maps in one line, and values in one
//! line. So this module makes JSON from the YAML text, page by page, and objects need no second writer.

use serde_json::Value;

/// Converts YAML to JSON, line by line.
#[derive(Debug, Default)]
pub struct Json {
    /// The open maps and lists, the outermost first.
    open: Vec<Level>,
    /// The indentation and the name of a value that begins in the next line; `None` if the last line had its value.
    name: Option<(usize, String)>,
}

/// An open map or list.
#[derive(Debug)]
struct Level {
    /// Indentation of the members, in spaces.
    indent: usize,
    list: bool,
    /// True if it has a member already.
    begun: bool,
}

impl Json {
    /// Converts whole lines of YAML, and appends to `out`. Comments are left out.
    pub fn lines(&mut self, yaml: &str, out: &mut String) {
        for line in yaml.lines() {
            let text = line.trim_start_matches(' ');
            if !text.is_empty() && !text.starts_with('#') && text != "{}" {
                self.line(line.len() - text.len(), text, out);
            }
        }
    }

    /// Appends the end of the document.
    pub fn end(&mut self, out: &mut String) {
        if self.open.is_empty() {
            out.push('{');
            self.open.push(Level { indent: 0, list: false, begun: false });
        }
        if let Some((indent, name)) = self.name.take() {
            self.member(indent, out);
            *out += &format!("{}: {{}}", Value::from(name));
        }
        self.close(0, out);
        out.push_str("\n}\n");
        self.open.clear();
    }

    /// Converts a line of YAML to JSON. `text` is the line without its leading spaces, `indent` the number of these spaces.
    fn line(&mut self, indent: usize, text: &str, out: &mut String) {
        if self.open.is_empty() {
            out.push('{');
            self.open.push(Level { indent: 0, list: false, begun: false });
        }
        let (list, text) = text.strip_prefix("- ").map_or((false, text), |member| (true, member));
        self.begin(indent, list, out);
        self.close(indent, out);
        if list {
            self.member(indent, out);
            value(&mut Rest(text), out);
            return;
        }
        let mut rest = Rest(text);
        let name = rest.word();
        rest.0 = rest.0.strip_prefix(':').unwrap_or(rest.0).trim_start();
        if rest.0.is_empty() {
            self.name = Some((indent, name));
        } else {
            self.member(indent, out);
            *out += &Value::from(name).to_string();
            out.push_str(": ");
            value(&mut rest, out);
        }
    }

    /// Begins the value of the last name, if there is such a name. The value is a map or a list, and its members are indented by `indent`.
    /// The value is empty if `indent` is not greater than the name's indentation.
    fn begin(&mut self, indent: usize, list: bool, out: &mut String) {
        let Some((of, name)) = self.name.take() else { return };
        self.close(of, out);
        self.member(of, out);
        *out += &Value::from(name).to_string();
        if indent <= of {
            out.push_str(": {}");
        } else {
            out.push_str(if list { ": [" } else { ": {" });
            self.open.push(Level { indent, list, begun: false });
        }
    }

    /// Begins a member of the innermost map or list.
    fn member(&mut self, indent: usize, out: &mut String) {
        if let Some(level) = self.open.last_mut() {
            out.push_str(if level.begun { ",\n" } else { "\n" });
            level.begun = true;
        }
        *out += &" ".repeat(indent + 2);
    }

    /// Closes the maps and lists whose members are indented more than `indent`.
    fn close(&mut self, indent: usize, out: &mut String) {
        while let Some(level) = self.open.pop_if(|level| level.indent > indent) {
            out.push('\n');
            *out += &" ".repeat(level.indent);
            out.push(if level.list { ']' } else { '}' });
        }
    }
}

/// The rest of a line.
struct Rest<'t>(&'t str);

impl Rest<'_> {
    /// Consumes and returns a name or a text.
    fn word(&mut self) -> String {
        if self.0.starts_with('"') {
            let mut texts = serde_json::Deserializer::from_str(self.0).into_iter::<String>();
            if let Some(Ok(text)) = texts.next() {
                self.0 = self.0.get(texts.byte_offset()..).unwrap_or_default();
                return text;
            }
        }
        self.plain().to_owned()
    }

    /// Consumes and returns a word without quotes. It ends before a separator, the end of a map or list, or the colon after a name.
    fn plain(&mut self) -> &str {
        let ends = [", ", " }", " ]", ": "].into_iter().filter_map(|end| self.0.find(end));
        let end = ends.min().unwrap_or(self.0.strip_suffix(':').unwrap_or(self.0).len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    /// If `mark` comes next, consumes it with the blanks around it, and returns true.
    fn mark(&mut self, mark: &str) -> bool {
        let rest = self.0.trim_start().strip_prefix(mark).map(str::trim_start);
        rest.map(|rest| self.0 = rest).is_some()
    }
}

/// Converts a value in one line.
fn value(rest: &mut Rest<'_>, out: &mut String) {
    if rest.mark("{") {
        out.push('{');
        let mut begun = false;
        while !rest.mark("}") && !rest.0.is_empty() {
            out.push_str(if begun { ", " } else { " " });
            begun = true;
            *out += &Value::from(rest.word()).to_string();
            out.push_str(": ");
            rest.mark(":");
            value(rest, out);
            rest.mark(",");
        }
        out.push_str(if begun { " }" } else { "}" });
    } else if rest.mark("[") {
        out.push('[');
        let mut begun = false;
        while !rest.mark("]") && !rest.0.is_empty() {
            out.push_str(if begun { ", " } else { " " });
            begun = true;
            value(rest, out);
            rest.mark(",");
        }
        out.push_str(if begun { " ]" } else { "]" });
    } else if rest.0.starts_with('"') {
        *out += &Value::from(rest.word()).to_string();
    } else {
        let word = rest.plain();
        match serde_json::from_str::<Value>(word) {
            Ok(Value::Number(_) | Value::Bool(_)) => out.push_str(word),
            _ => *out += &Value::from(word).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn converted(yaml: &str) -> Value {
        let (mut json, mut text) = (Json::default(), String::new());
        // Pages end between any two lines.
        yaml.split_inclusive('\n').for_each(|line| json.lines(line, &mut text));
        json.end(&mut text);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}:\n{text}"))
    }

    #[test]
    fn maps_lists_and_values_are_converted() {
        let yaml = "# a comment\ninterfaces:\n  pg0:\n    mtu: 1500\n    up: false\n    description: \"a: \\\"b\\\", }\"\n    \
                    addresses: [ 10.0.0.1/24, \"2001:db8::1/64\" ]\n    sub-interfaces:\n      5:\n        table: 7\n      6: {}\n  pg1: {}\n\
                    tables: [ 7 ]\nroutes:\n  - { prefix: 0.0.0.0/0, paths: [ { via: 10.0.0.2, weight: 2 }, { via: drop } ] }\n  \
                    - { prefix: \"::/0\", via: drop }\nsettings:\n  x: { a: 1, b: {} }\n";
        assert_eq!(
            converted(yaml),
            json!({
                "interfaces": {
                    "pg0": {
                        "mtu": 1500, "up": false, "description": "a: \"b\", }",
                        "addresses": ["10.0.0.1/24", "2001:db8::1/64"],
                        "sub-interfaces": { "5": { "table": 7 }, "6": {} },
                    },
                    "pg1": {},
                },
                "tables": [7],
                "routes": [
                    { "prefix": "0.0.0.0/0", "paths": [{ "via": "10.0.0.2", "weight": 2 }, { "via": "drop" }] },
                    { "prefix": "::/0", "via": "drop" },
                ],
                "settings": { "x": { "a": 1, "b": {} } },
            })
        );
    }

    #[test]
    fn an_empty_configuration_is_an_empty_object() {
        assert_eq!(converted("# head\n{}\n"), json!({}));
        assert_eq!(converted(""), json!({}));
        assert_eq!(converted("a:\n"), json!({ "a": {} }));
        assert_eq!(converted("a:\nb: 1\n"), json!({ "a": {}, "b": 1 }));
    }
}
