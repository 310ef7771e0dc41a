//! The reference of all parameters, from the same table that reads them.

use super::parameters::{Effect, Parameter, SECTIONS, UNUSED_SECTIONS};
use std::fmt::Write;

/// Every section and parameter as Markdown; `docs/startup-conf.md` ends with it.
pub fn reference() -> String {
    let mut text = String::new();
    for (section, parameters) in SECTIONS {
        text += &format!("## `{section}`\n\n| parameter | default | meaning |\n|---|---|---|\n");
        for effect in [Effect::Sets, Effect::Granted, Effect::Ignored] {
            parameters.iter().filter(|p| p.effect == effect).for_each(|p| row(&mut text, p));
        }
        text.push('\n');
    }
    let unused = UNUSED_SECTIONS.join("`, `");
    text + &format!("## Other sections\n\nAccepted with one warning each, whatever is in them: `{unused}`.\n")
}

fn row(text: &mut String, parameter: &Parameter) {
    let names: Vec<_> = parameter.names().map(|name| format!("`{name}`")).collect();
    let values = match parameter.values {
        "" => String::new(),
        values => format!(" `{}`", values.replace('|', "\\|")),
    };
    let default = match (parameter.effect, parameter.default) {
        (Effect::Sets, "") => "off",
        (Effect::Sets, default) => default,
        (Effect::Granted, _) => "always so",
        (Effect::Ignored, _) => "*no effect*",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "| {}{values} | {default} | {} |", names.join(", "), parameter.help);
}
