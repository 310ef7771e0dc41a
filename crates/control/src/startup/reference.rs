//! Generates the reference of all parameters from the table of parameters.

use super::parameters::{Effect, Parameter, SECTIONS};
use super::unused;
use std::fmt::Write;

/// A parameter in the reference documentation.
pub struct Entry {
    /// Its section.
    pub section: &'static str,
    /// Its spellings.
    pub names: Vec<&'static str>,
    /// The values that follow the name.
    pub values: &'static str,
    /// The default.
    pub default: &'static str,
    /// Its effect, or why it has none.
    pub help: &'static str,
}

/// Returns every parameter, by section. In a section, parameters that change a setting come first. Then follow those that request a
/// behavior that Volley always has, and last those without effect.
pub fn entries() -> impl Iterator<Item = Entry> {
    SECTIONS.into_iter().flat_map(|(section, parameters)| {
        [Effect::Sets, Effect::Granted, Effect::Ignored].into_iter().flat_map(move |effect| {
            parameters.iter().filter(move |p| p.effect == effect).map(move |p| entry(section, p))
        })
    })
}

fn entry(section: &'static str, parameter: &Parameter) -> Entry {
    let default = match (parameter.effect, parameter.default) {
        (Effect::Sets, "") => "off",
        (Effect::Sets, default) => default,
        (Effect::Granted, _) => "always on",
        (Effect::Ignored, _) => "*no effect*",
    };
    let names = parameter.names().collect();
    Entry { section, names, values: parameter.values, default, help: parameter.help }
}

/// Returns every section and parameter as Markdown, for the end of `docs/reference/startup-conf.md`.
pub fn reference() -> String {
    let mut text = String::new();
    for (section, _) in SECTIONS {
        text += &format!("## `{section}`\n\n| parameter | default | meaning |\n|---|---|---|\n");
        entries().filter(|entry| entry.section == section).for_each(|entry| row(&mut text, &entry));
        text.push('\n');
    }
    let unused = unused::names().collect::<Vec<_>>().join("`, `");
    text + &format!(
        "## Other sections\n\nThese sections are accepted with one warning each, if VPP 26.06 would accept their contents: `{unused}`.\n"
    )
}

fn row(text: &mut String, entry: &Entry) {
    let names: Vec<_> = entry.names.iter().map(|name| format!("`{name}`")).collect();
    let values = match entry.values {
        "" => String::new(),
        values => format!(" `{}`", values.replace('|', "\\|")),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "| {}{values} | {} | {} |", names.join(", "), entry.default, entry.help);
}
