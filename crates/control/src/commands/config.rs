//! The whole configuration: `show config yaml`, apply, confirm, save.

use std::path::PathBuf;
use std::time::Duration;

use super::long::{ForClient, Told};
use crate::app::{Context, Output, Terms, header};
use crate::cli::{Args, CliError, Registry, Rows};
use crate::config::Writer;

/// The last line of a configuration that changed while it was shown.
pub(super) const CHANGED: &str =
    "# the configuration changed while it was shown: this is a mixture of old and new parts\n";

/// The longest time to wait for a confirmation, in seconds.
const LONGEST: u64 = 24 * 3600;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("show config yaml", "Show the configuration as YAML, for \"config apply\".", |c, a| {
        Ok(Output::rows(Document::of(c, a), a.json()))
    });
    r.add("show config json", "Show the configuration as JSON, for \"config apply\".", |c, a| {
        let Document { writer, version, rest, .. } = Document::of(c, a);
        // The text is JSON already.
        Ok(Output::rows(Document { writer: writer.in_json(), version, begun: true, rest }, false))
    });
    r.add(
        "config apply <file:path> [dry-run] [confirm <time:word>] [generation <expected:u64>]",
        "Replace the configuration by that of a YAML or JSON file, all or nothing. \"dry-run\" only shows what would change. With \"confirm\", \
         the change is rolled back unless \"config confirm\" follows within this number of minutes (or seconds, as in \"90s\"). \
         \"generation\" refuses the file unless the configuration has this generation.",
        apply,
    );
    let help = "Keep the configuration that was applied with \"confirm\". With \"generation\", only if it was applied as this generation.";
    r.add("config confirm [generation <expected:u64>]", help, |c, a| {
        c.confirm(a.get("expected")).map_err(|e| a.about("expected", e))?;
        Ok(Output::text("confirmed"))
    });
    r.add(
        "config save [<file:path>]",
        "Write the configuration to a file: YAML if its name ends in .yaml or .yml, JSON if it ends in .json, otherwise commands. The \
         default is the file that the router starts from (startup-config).",
        save,
    );
}

/// The lines of the configuration as YAML or JSON.
struct Document {
    writer: Writer,
    /// The store's version when the first line was shown.
    version: u64,
    /// True once the heading is written. JSON has no heading.
    begun: bool,
    /// The beginning of a line that the next page completes.
    rest: String,
}

impl Document {
    /// Returns the configuration for this client, without secrets unless the client is an admin.
    fn of(c: &Context, a: &Args) -> Document {
        let writer = Writer::new(c.store.tree(), &c.system.abilities.catalog);
        let writer = if !a.call().role.is_admin() { writer.hiding_secrets() } else { writer };
        Document { writer, version: c.store.version(), begun: false, rest: String::new() }
    }
}

impl Rows<Context> for Document {
    type Row = String;

    fn next(&mut self, c: &Context, page: &mut Vec<String>) -> bool {
        let mut text = std::mem::take(&mut self.rest);
        if !std::mem::replace(&mut self.begun, true) {
            text = header(c.journal.generation());
        }
        let more = self.writer.page(c.store.tree(), &mut text);
        if more {
            let whole = text.rfind('\n').map_or(0, |end| end + 1);
            self.rest = text.split_off(whole);
        }
        page.extend(text.lines().map(str::to_string));
        more
    }

    fn text(&mut self, page: &[String], out: &mut String) {
        page.iter().for_each(|line| out.extend([line, "\n"]));
    }

    fn end(&mut self, c: &Context, out: &mut String) {
        if c.store.version() != self.version {
            // JSON has no comments, so that other programs refuse the mixture.
            out.push_str(CHANGED);
        }
    }
}

fn apply(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let path: PathBuf = a.need("file")?;
    let dry_run = a.has("dry-run");
    let confirm = a.get::<String>("time").map(|word| {
        let (number, unit) = word.strip_suffix('s').map_or((&*word, 60), |number| (number, 1));
        let seconds = number.parse().ok().and_then(|n: u64| n.checked_mul(unit));
        let fault = || a.fault("time", "the time to confirm must be 1 to 1440 minutes, or 1s to 86400s");
        seconds.filter(|s| (1..=LONGEST).contains(s)).map(Duration::from_secs).ok_or_else(fault)
    });
    let confirm = confirm.transpose()?;
    if dry_run && confirm.is_some() {
        return Err(a.fault("confirm", "confirm cannot be combined with dry-run: nothing is applied"));
    }
    let terms = Terms { dry_run, confirm, expected: a.get("expected"), ..Terms::default() };
    Ok(Output::job(ForClient::new(Told::new(c.apply(path, terms)?), c)))
}

fn save(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let save = c.save(a.get("file")).map_err(|e| a.about("save", e))?;
    Ok(Output::job(Told::new(save).about(a, "file")))
}
