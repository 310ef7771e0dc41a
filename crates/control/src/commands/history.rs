//! Past changes of the configuration: history and rollback.

use model::store::{Deed, Detail};

use super::long::{ForClient, Told};
use crate::app::{Context, Output, Past};
use crate::cli::{Args, CliError, PAGE, Registry, Rows, Table};
use crate::journal::{self, Keeper};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "show config history [<n:u32>]",
        "Show the changes of the configuration, the newest first, or the last n. \"Back\" is the number for \"config rollback\".",
        history,
    );
    r.add(
        "show config change <number:u64>",
        "Show a change, by its number in \"show config history\": its author, and what it added (+) and removed (-).",
        change,
    );
    r.add(
        "config rollback [<n:u32>]",
        "Roll back the last change in effect, or the last n. A second rollback undoes the next older \
         change, not the first rollback. \"config diff rollback\" shows a preview.",
        |c, a| rollback(c, a, false),
    );
    r.add(
        "config diff rollback [<n:u32>]",
        "Show what \"config rollback\" would change, without changing anything.",
        |c, a| rollback(c, a, true),
    );
}

fn rollback(c: &mut Context, a: &Args, dry_run: bool) -> Result<Output, CliError> {
    let n = a.get::<u32>("n").map(|n| n as usize);
    let back = c.roll_back(n, dry_run, None).map_err(|e| a.about("n", e))?;
    Ok(Output::job(ForClient::new(Told::new(back), c)))
}

/// Returns the numbers of added (+), modified (~) and removed (-) objects of a change.
fn objects(past: &Past) -> String {
    let counts = [('+', past.added), ('~', past.modified), ('-', past.removed)];
    let some = counts.iter().filter(|(_, n)| *n > 0).map(|(sign, n)| format!("{sign}{n}"));
    some.collect::<Vec<_>>().join(" ")
}

/// The entries of the journal.
struct History {
    /// The number of the last entry shown.
    last: Option<u64>,
    /// Maximum number of entries still to show.
    left: usize,
    /// The number of the newest shown entry that an earlier run of the router made.
    earlier: Option<u64>,
    table: Table,
}

impl Rows<Context> for History {
    type Row = Past;

    fn next(&mut self, c: &Context, page: &mut Vec<Past>) -> bool {
        let mut back = 0;
        for entry in c.journal.entries() {
            back += usize::from(entry.is_in_effect());
            if self.last.is_some_and(|last| entry.number >= last) {
                continue;
            }
            if page.len() == PAGE || self.left == 0 {
                break;
            }
            page.push(Past::of(&c.journal, entry, entry.is_in_effect().then_some(back)));
            self.left -= 1;
            self.earlier = self.earlier.or(entry.earlier.then_some(entry.number));
        }
        self.last = page.last().map(|past| past.generation).or(self.last);
        !page.is_empty()
    }

    fn text(&mut self, page: &[Past], out: &mut String) {
        for p in page {
            let back = p.back.map_or("-".into(), |n| n.to_string());
            let (number, objects, what) = (p.generation.to_string(), objects(p), p.what());
            let (time, user, front_end) = (p.time.clone(), p.user.clone(), p.front_end.clone());
            self.table.row(vec![back, number, time, user, front_end, objects, what, p.command.clone()]);
        }
        self.table.flush(out);
    }

    fn end(&mut self, c: &Context, out: &mut String) {
        if let Some(number) = self.earlier {
            *out += &format!(
                "changes up to {number} were made before the router started: they can be rolled back if their objects are still \
                 the same\n"
            );
        }
        if let Some(trouble) = c.keeper.as_ref().and_then(Keeper::trouble) {
            *out += &format!("! {trouble}\n");
        }
        let Some(waiting) = c.confirmation() else { return };
        let (generation, left) = (waiting.generation, waiting.left());
        *out += &match waiting.failed() {
            None => format!("rolls back to generation {generation} in {left} s unless confirmed\n"),
            Some((times, why)) => format!(
                "overdue rollback to generation {generation}: attempt {times} failed, the next one is in {left} s: {why}\n"
            ),
        };
    }
}

fn history(_: &mut Context, a: &Args) -> Result<Output, CliError> {
    let table = Table::new(&["Back", "Change", "Time", "User", "From", "Objects", "What", "Command"]);
    let left = a.get::<u32>("n").map_or(usize::MAX, |n| n as usize);
    Ok(Output::rows(History { last: None, left, earlier: None, table }, a.json()))
}

/// The lines of one change.
struct Shown {
    /// The lines before the details.
    head: Vec<String>,
    detail: Detail<crate::system::System>,
    /// Position of the next output: the index of an object or, for a change stored as text, an offset in bytes.
    next: usize,
}

impl Rows<Context> for Shown {
    type Row = String;

    fn next(&mut self, _: &Context, page: &mut Vec<String>) -> bool {
        page.append(&mut self.head);
        match &self.detail {
            Detail::Edits(edits) => {
                let some = edits.all.iter().skip(self.next).take(PAGE);
                some.for_each(|edit| {
                    page.extend(journal::public_difference(edit).lines().map(str::to_string))
                });
                self.next += PAGE;
                self.next < edits.all.len()
            }
            Detail::Written(written) => {
                let rest = written.difference.get(self.next..).unwrap_or_default();
                for line in rest.split_inclusive('\n').take(PAGE) {
                    self.next += line.len();
                    page.push(line.trim_end().to_string());
                }
                self.next < written.difference.len()
            }
            Detail::Forgotten => false,
        }
    }

    fn text(&mut self, page: &[String], out: &mut String) {
        page.iter().for_each(|line| out.extend([line, "\n"]));
    }
}

fn change(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let number: u64 = a.need("number")?;
    let Some(entry) = c.journal.entry(number) else {
        return Err(a.fault("number", "the journal has no change with this number (show config history)"));
    };
    let past = Past::of(&c.journal, entry, None);
    let mut head = vec![
        format!("# change {number}: {}", past.what()),
        format!("# {} by {} ({}): {}", past.time, past.user, past.front_end, past.command),
    ];
    if matches!((&entry.detail, entry.deed), (Detail::Forgotten, Deed::Change | Deed::Rollback(_))) {
        head.push(format!("# {}", entry.what_is_forgotten()));
    }
    Ok(Output::rows(Shown { head, detail: entry.detail.clone(), next: 0 }, a.json()))
}
