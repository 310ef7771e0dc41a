//! The types of the configuration for Python, from its JSON Schema: a `TypedDict` for each object.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

/// Maximum length of a line.
const WIDTH: usize = 110;

/// Returns the module with all types.
pub fn module(schema: &Value) -> String {
    let mut types = Types::default();
    types.of(schema, "", "Config", "The configuration: one document.");
    let introduction = "The configuration: the types of all its parts.\n\n\
        This file follows from the declarations of the router. This writes it again:\n\
        `VOLLEY_BLESS=1 cargo test --workspace --exclude scenarios --test reference`\n\n\
        All members are optional. The router checks values and combinations.\n";
    format!("\"\"\"{introduction}\"\"\"\n\nfrom typing import Literal, TypedDict\n{}", types.text)
}

#[derive(Default)]
struct Types {
    /// The definitions. Each type is defined before its first use.
    text: String,
    /// The defined types of objects. For each member name: the members of each object with this name, and the name of its type.
    defined: BTreeMap<String, Vec<(Value, String)>>,
}

impl Types {
    /// Returns the Python type of a member of the type `parent`, and defines the types that the member uses. `member` is the member's name
    /// in CamelCase.
    fn of(&mut self, schema: &Value, parent: &str, member: &str, help: &str) -> String {
        if let Some(any) = schema["anyOf"].as_array() {
            let types: Vec<String> = any.iter().map(|one| self.of(one, parent, member, help)).collect();
            return types.join(" | ");
        }
        if let Some(words) = schema["enum"].as_array() {
            let words: Vec<String> = words.iter().map(Value::to_string).collect();
            return format!("Literal[{}]", words.join(", "));
        }
        let names = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
        let types: Vec<String> = names
            .iter()
            .map(|name| self.named(name.as_str().unwrap_or_default(), schema, parent, member, help))
            .collect();
        types.join(" | ")
    }

    /// Returns the Python type of a member. `name` is the member's type in JSON Schema, for example `array`.
    fn named(&mut self, name: &str, schema: &Value, parent: &str, member: &str, help: &str) -> String {
        let members = schema["properties"].as_object().is_some_and(|members| !members.is_empty());
        let entry = help.replacen("The section", "An entry of the section", 1);
        match name {
            "boolean" => "bool".into(),
            "integer" => "int".into(),
            "number" => "float".into(),
            "string" => "str".into(),
            "array" => format!("list[{}]", self.of(&schema["items"], parent, single(member), &entry)),
            "object" if members => self.object(schema, parent, member, help),
            "object" => {
                let value = self.of(&schema["additionalProperties"], parent, single(member), &entry);
                format!("dict[str, {value}]")
            }
            other => panic!("{parent}.{member} has the type '{other}': {schema}"),
        }
    }

    /// Defines the type of an object, and returns its name. If a member with the same name already has a type with the same members,
    /// returns the name of that type instead.
    fn object(&mut self, schema: &Value, parent: &str, member: &str, help: &str) -> String {
        let alone = parent == "Config" || member.ends_with(parent);
        let name = if alone { member.into() } else { format!("{parent}{member}") };
        let of_name = self.defined.entry(member.into()).or_default();
        if let Some((_, name)) = of_name.iter().find(|(members, _)| *members == schema["properties"]) {
            return name.clone();
        }
        let fields: Vec<(&String, &Value)> = schema["properties"].as_object().into_iter().flatten().collect();
        let help_of = |field: &str, schema: &Value| match schema["description"].as_str() {
            Some(help) => help.to_owned(),
            None => format!("The section `{field}`."),
        };
        let mut of_fields = BTreeMap::new();
        // Objects in maps and lists come last, so that what they share with their parent has the parent's name.
        let (single, several): (Vec<_>, Vec<_>) =
            fields.iter().copied().partition(|(_, schema)| schema["properties"].is_object());
        for (field, schema) in single.into_iter().chain(several) {
            of_fields.insert(field, self.of(schema, &name, &capitals(field), &help_of(field, schema)));
        }
        let mut lines = String::new();
        for (field, schema) in fields {
            lines += &wrapped("        # ", &remark(&help_of(field, schema), &schema["default"]));
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "        \"{field}\": {},", of_fields[field]);
        }
        let help = wrapped("", &format!("\"\"\"{}\"\"\"", help.replace('\\', "\\\\")));
        let _ = write!(
            self.text,
            "\n\n{name} = TypedDict(\n    \"{name}\",\n    {{\n{lines}    }},\n    total=False,\n)\n{help}"
        );
        self.defined.entry(member.into()).or_default().push((schema["properties"].clone(), name.clone()));
        name
    }
}

/// Converts a name with hyphens to CamelCase.
fn capitals(name: &str) -> String {
    let word = |word: &str| {
        let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        first.to_uppercase() + rest
    };
    name.split('-').map(word).collect()
}

/// Returns the comment for a field: its help text and its default.
fn remark(help: &str, usual: &Value) -> String {
    match usual {
        Value::Null | Value::Object(_) => help.into(),
        usual => format!("{help} Default: {usual}."),
    }
}

/// Returns a text in lines that begin with a prefix.
fn wrapped(prefix: &str, text: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty()
            && [prefix, &line, " ", word].iter().map(|s| s.chars().count()).sum::<usize>() > WIDTH
        {
            lines += &format!("{prefix}{line}\n");
            line.clear();
        }
        line += if line.is_empty() { "" } else { " " };
        line += word;
    }
    lines + prefix + &line + "\n"
}

/// Returns the singular of a name.
fn single(name: &str) -> &str {
    name.strip_suffix("es").filter(|name| name.ends_with('x')).or(name.strip_suffix('s')).unwrap_or(name)
}
