//! `ip route load`: adds the routes of a file, one per line.
//!
//! A thread reads the file and parses its lines in batches. The main thread adds the routes in slices, between other
//! commands.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{Display, Write};
use std::io::{self, BufRead, BufReader, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use drivers::{Patience, Waiter};
use model::origin::Origin;
use model::store::Counts;
use net::ip::IpPrefix;

use super::long::{ForClient, Unfinished};
use super::route::branches;
use super::table;
use crate::app::{Context, Output, SLICE};
use crate::cli::{Args, CliError, Job, Registry, Step};
use crate::files;
use crate::intent::{Branch, Change, Edit, Family, Key, Note, Route, Value, Via};

/// Maximum number of lines in one batch.
const BATCH: usize = 256;
/// Maximum number of batches that wait for the main thread.
const BATCHES: usize = 64;
/// Maximum length of a line in bytes.
const LONGEST: u64 = 8192;
/// Maximum number of faults reported with their line numbers.
const TOLD: usize = 10;
/// Keywords that may follow a next hop, apart from those in [`Via::WORDS`].
const FURTHER: [&str; 3] = ["table", "weight", "via"];
/// The polling interval for further lines.
const LOOK: Duration = Duration::from_millis(1);

/// Declares the command.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "ip route load <file:path> [table <table:table>] [{via <next-hop:ip> [<interface:interface>] [weight <weight:1..255>]}...] [{strict | --strict}]",
        "Add the routes of a file. Each line has the arguments of \"ip route add\"; if this command has \"via\", only the prefix of each \
         line is used. Invalid lines are reported and skipped. With \"strict\", the first invalid line cancels the load, and nothing is \
         added.",
        load,
    );
}

/// A line of the file.
struct Line {
    /// The line number, from 1.
    number: u64,
    said: Result<Said, Fault>,
}

/// What is wrong with a line.
struct Fault {
    why: String,
    /// True if the client may see `why`: the first word of the line looks like a prefix, or the line is not UTF-8 text.
    prefix: bool,
}

/// The route that a line describes.
struct Said {
    table: Option<u32>,
    prefix: IpPrefix,
    branches: Vec<Branch>,
}

/// A batch of lines from the thread that reads the file.
struct Batch {
    lines: Vec<Line>,
    /// Bytes read so far, and the size of the file.
    read: (u64, u64),
}

/// Parses a line. `via` has the paths given in the command, which all routes get; if it is empty, each line must have its own paths.
/// Returns `None` for an empty line or a comment.
fn parse(line: &str, via: &[Branch]) -> Option<Result<Said, Fault>> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_whitespace().peekable();
    for word in ["ip", "route", "add"] {
        words.next_if_eq(&word);
    }
    let word = words.next()?;
    let prefix = word.bytes().all(|b| b.is_ascii_hexdigit() || b".:/".contains(&b));
    Some(route_of(word, words, via).map_err(|why| Fault { why, prefix }))
}

fn route_of<'l>(prefix: &str, words: impl Iterator<Item = &'l str>, via: &[Branch]) -> Result<Said, String> {
    let prefix = IpPrefix::exact(prefix)?;
    if !via.is_empty() {
        return Ok(Said { table: None, prefix, branches: via.to_vec() });
    }
    let (mut words, mut table, mut branches) = (words.peekable(), None, Vec::<Branch>::new());
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| missing(word));
        let via = match word {
            "table" => {
                table = Some(number(value()?, 0..=u32::MAX)?);
                continue;
            }
            "via" => {
                let to = value()?;
                match to {
                    "ip4-lookup-in-table" => Via::Table(Family::V4, number(value()?, 0..=u32::MAX)?),
                    "ip6-lookup-in-table" => Via::Table(Family::V6, number(value()?, 0..=u32::MAX)?),
                    _ => match (Via::of_word(to), to.parse()) {
                        (Some(via), _) => via,
                        (None, Ok(hop)) => {
                            let name = |w: &&str| !FURTHER.contains(w) && Via::of_word(w).is_none();
                            Via::NextHop(hop, words.next_if(name).map(str::to_string))
                        }
                        (None, Err(_)) => Via::Attached(to.to_string()),
                    },
                }
            }
            word => Via::of_word(word).ok_or_else(|| format!("unexpected \"{word}\""))?,
        };
        let weight = match via.shares() && words.next_if_eq(&"weight").is_some() {
            true => number(words.next().ok_or_else(|| missing("weight"))?, 1..=u8::MAX)?,
            false => 1,
        };
        let branch = Branch { via, weight };
        branch.may_join(&branches).map_err(|e| format!("{branch}: {e}"))?;
        branches.push(branch);
    }
    if branches.is_empty() {
        return Err("the route needs a next hop (via …, local, drop, unreachable)".into());
    }
    Ok(Said { table, prefix, branches })
}

/// Returns the error for a line that ends after this word, without the word's arguments.
fn missing(word: &str) -> String {
    format!("the arguments of \"{word}\" are incomplete")
}

fn number<T: FromStr + PartialOrd + Display>(word: &str, range: RangeInclusive<T>) -> Result<T, String> {
    let number = word.parse().ok().filter(|n| range.contains(n));
    number.ok_or_else(|| format!("\"{word}\" is not a number from {} to {}", range.start(), range.end()))
}

/// Reads the file to its end, to a line that is too long, or until the receiver is dropped.
fn read(path: &Path, patience: &Patience, via: &[Branch], to: &SyncSender<io::Result<Batch>>) {
    let (size, mut file) = match files::open(path, patience) {
        Ok(file) => (file.size, BufReader::new(file)),
        Err(e) => return drop(to.send(Err(e))),
    };
    let (mut number, mut read, mut end) = (0, 0, None);
    while end.is_none() {
        let mut lines = Vec::with_capacity(BATCH);
        while lines.len() < BATCH && end.is_none() {
            let mut line = Vec::new();
            number += 1;
            match file.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
                Ok(0) => end = Some(Ok(())),
                Ok(n) if n as u64 == LONGEST && line.last() != Some(&b'\n') => {
                    end = Some(Err(too_long(number)))
                }
                Ok(n) => read += n as u64,
                Err(e) => end = Some(Err(e)),
            }
            let said = match std::str::from_utf8(&line) {
                _ if end.is_some() => None,
                Err(_) => Some(Err(Fault { why: "the line is not UTF-8 text".into(), prefix: true })),
                Ok(line) => parse(line, via),
            };
            lines.extend(said.map(|said| Line { number, said }));
        }
        if to.send(Ok(Batch { lines, read: (read, size) })).is_err() {
            return;
        }
    }
    if let Some(Err(e)) = end {
        let _ = to.send(Err(e));
    }
}

fn too_long(number: u64) -> io::Error {
    io::Error::other(format!("line {number} is longer than {LONGEST} bytes"))
}

fn load(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let path: PathBuf = a.need("file")?;
    let failed = |e: &dyn Display| a.fault("file", format!("{}: {e}", path.display()));
    c.changes.must_be_free()?;
    c.must_not_go_back()?;
    let (via, _) = branches(a)?;
    let (send, batches) = sync_channel(BATCHES);
    let from = path.clone();
    let waiter = Waiter(Patience::without_end());
    let patience = waiter.0.clone();
    let work = move || read(&from, &patience, &via, &send);
    thread::Builder::new().name("volley_routes".into()).spawn(work).map_err(|e| failed(&e))?;
    let load = Load {
        args: a.clone(),
        file: path.display().to_string(),
        table: table(a, "table"),
        strict: a.has("strict") || a.has("--strict"),
        batches: Some(batches),
        waiter,
        lines: VecDeque::new(),
        read: (0, 0),
        ended: false,
        familiar: false,
        added: 0,
        faults: 0,
        before: Some(BTreeMap::new()),
        origin: c.origin.clone(),
        failed: None,
        broken: None,
        _beside: c.changes.beside(),
    };
    Ok(Output::job(ForClient::new(load, c)))
}

/// A running load.
struct Load {
    args: Args,
    file: String,
    /// The VRF of lines without one.
    table: u32,
    strict: bool,
    /// `None` if no more lines are needed.
    batches: Option<Receiver<io::Result<Batch>>>,
    waiter: Waiter,
    lines: VecDeque<Line>,
    /// Bytes read so far, and the size of the file; both are 0 until the first batch arrives.
    read: (u64, u64),
    /// True if there are no more batches.
    ended: bool,
    /// True once a line was a valid route. Before that, errors show no text of the file: the router can read files that its client
    /// must not read.
    familiar: bool,
    added: u64,
    faults: u64,
    /// The changes made so far. `None` once a load without `strict` has made more changes than the journal can store.
    before: Option<BTreeMap<Key, Edit>>,
    /// The user and the command.
    origin: Origin,
    /// Why the added routes are being rolled back.
    failed: Option<CliError>,
    /// Why the file could not be read to its end.
    broken: Option<io::Error>,
    /// While this exists, changes of the whole configuration wait.
    _beside: Rc<()>,
}

impl Load {
    /// Adds the route of a line.
    fn add(&mut self, c: &mut Context, said: Said) -> Result<(), CliError> {
        let key = Route::key(said.table.unwrap_or(self.table), said.prefix);
        let before = c.store.get(&key).and_then(|value| value.get::<Route>()).cloned();
        let after = Route::joined(before.as_ref(), &said.branches);
        self.added += 1;
        if before == after {
            return Ok(());
        }
        let after = after.map(Value::from);
        c.change(vec![Change { key: key.clone(), value: after.clone() }]).inspect_err(|_| self.added -= 1)?;
        if let Some(all) = &mut self.before {
            let edit = all.entry(key.clone());
            let edit = edit.or_insert_with(|| Edit { key, old: before.map(Value::from), new: None });
            edit.new = after;
            if !self.strict && !c.journal.has_room(all.len()) {
                self.before = None;
            }
        }
        Ok(())
    }

    /// Handles a line whose route cannot be added. A load with `strict` fails; a load without it reports the line and continues.
    fn fault(&mut self, number: u64, why: &dyn Display, out: &mut String) {
        let place = format!("{}:{number}", self.file);
        self.faults += 1;
        if self.strict {
            let taken_back = if self.added > 0 {
                format!(" (routes already added, now rolled back: {})", self.added)
            } else {
                String::new()
            };
            self.failed = Some(CliError::new(format!("{place}: {why}{taken_back}")));
        } else if self.faults as usize <= TOLD {
            let _ = writeln!(out, "{place}: {why}");
        }
    }

    /// Adds the route of the next line or, after a failure, rolls back one route. Returns true if nothing is left to do now.
    fn one(&mut self, c: &mut Context, out: &mut String) -> bool {
        if self.failed.is_some() {
            // The rest of the file is not needed.
            self.waiter.0.end();
            self.batches = None;
            let Some((key, edit)) = self.before.as_mut().and_then(BTreeMap::pop_last) else { return true };
            if let Err(e) = c.change(vec![Change { key, value: edit.old }]) {
                tracing::error!("a route that was loaded from {} cannot be rolled back: {e}", self.file);
            }
            return false;
        }
        let Some(Line { number, said }) = self.lines.pop_front() else { return true };
        match said {
            Ok(said) => {
                self.familiar = true;
                if let Err(e) = self.add(c, said) {
                    self.fault(number, &e, out);
                }
            }
            Err(Fault { why, prefix }) if self.familiar && prefix => self.fault(number, &why, out),
            Err(_) => self.fault(
                number,
                &"not a route: expected PREFIX via NEXT-HOP (the exact fault is shown only for a line that begins with a prefix, \
                  after the first valid route of the file)",
                out,
            ),
        }
        false
    }

    /// Takes the next batch of lines, if there is one.
    fn fetch(&mut self) {
        let Some(batches) = &self.batches else { return };
        match batches.try_recv() {
            Ok(Ok(batch)) => {
                self.lines.extend(batch.lines);
                self.read = batch.read;
            }
            Ok(Err(e)) if self.read == (0, 0) => {
                let error = CliError::new(format!("{}: {e}", self.file));
                self.failed = Some(self.args.about("file", error));
            }
            Ok(Err(e)) if self.strict => self.failed = Some(CliError::new(format!("{}: {e}", self.file))),
            Ok(Err(e)) => (self.broken, self.ended) = (Some(e), true),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => self.ended = true,
        }
    }

    fn end(&mut self, c: &mut Context, out: &mut String) -> Step {
        if let Some(e) = self.failed.take() {
            return Step::Failed(e);
        }
        match self.before.take() {
            Some(before) if c.journal.has_room(before.len()) => {
                let edits = before.into_values().filter(|edit| edit.old != edit.new).collect();
                c.note(self.origin.clone(), edits);
            }
            _ => {
                let counts = Counts { added: self.added, ..Counts::default() };
                c.remember(|journal| {
                    journal.note(Note::too_much(self.origin.clone(), [].into_iter(), counts))
                });
            }
        }
        let passed_over = match self.faults {
            0 => String::new(),
            n if n as usize > TOLD => {
                format!(", {n} lines skipped ({} of them not shown)", n as usize - TOLD)
            }
            n => format!(", {n} lines skipped"),
        };
        let _ = writeln!(out, "{} routes added{passed_over}", self.added);
        out.extend(c.goes_back_too().map(|why| format!("! {why}\n")));
        match self.broken.take() {
            Some(e) => Step::Failed(CliError::new(format!(
                "{}: {e}; the routes read before this error were added",
                self.file
            ))),
            None => Step::Done,
        }
    }
}

impl Job<Context> for Load {
    fn step(&mut self, c: &mut Context, out: &mut String) -> Step {
        let (start, (begun, _)) = (Instant::now(), self.read);
        while start.elapsed() < SLICE {
            for _ in 0..BATCH / 4 {
                if self.one(c, out) {
                    break;
                }
            }
            if self.failed.is_some() {
                if self.before.as_ref().is_none_or(BTreeMap::is_empty) {
                    return self.end(c, out);
                }
            } else if self.lines.is_empty() {
                if self.ended {
                    return self.end(c, out);
                }
                self.fetch();
                if self.lines.is_empty() && !self.ended {
                    return Step::After(LOOK);
                }
            }
        }
        // A line for every tenth of the file.
        let (read, size) = self.read;
        let tenth = |read: u64| read * 10 / size.max(1);
        if size > 1 << 20 && self.failed.is_none() && tenth(read) > tenth(begun) {
            let _ = writeln!(out, "{} routes, {} %", self.added, read * 100 / size);
        }
        Step::Again
    }
}

impl Unfinished for Load {
    fn cut_off(&mut self) -> bool {
        self.waiter.0.end();
        self.batches = None;
        if !self.strict {
            tracing::info!(
                event = "config",
                "{}: interrupted after {} routes, which are kept",
                self.file,
                self.added
            );
            // The routes added so far stay. The rest of the job adds them to the journal.
            self.lines.clear();
            self.ended = true;
            return self.failed.is_none();
        }
        self.failed.get_or_insert_with(|| CliError::new("the client disconnected"));
        self.before.as_ref().is_some_and(|before| !before.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Cli;

    /// Runs the command to its end.
    fn load(cli: &mut Cli, text: &str, options: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("routes");
        std::fs::write(&file, text).unwrap();
        let said = cli.run(&format!("ip route load {} {options}", file.display()));
        let strip = |said: String| said.replace(&dir.path().display().to_string(), "");
        said.map(strip).map_err(|e| strip(e.to_string()))
    }

    fn routes(cli: &mut Cli) -> Vec<String> {
        let config = cli.ok("show config");
        config.lines().filter_map(|l| l.strip_prefix("ip route add ")).map(str::to_string).collect()
    }

    #[test]
    fn a_file_of_routes_is_loaded() {
        let mut cli = Cli::new();
        cli.ok("ip table add 7");
        let text = "# two uplinks\n20.0.0.0/24 via 10.0.0.2 pg0 weight 2\n20.0.0.0/24 via 10.0.0.3\n\n\
                    20.0.6.0/24 via 10.0.0.2 via pg1 weight 7 table 0 via 10.0.0.3 pg0\n\
                    ip route add 20.0.1.0/24 table 7 via drop # nobody\n20.0.2.0/24 prohibit\n\
                    20.0.3.0/24 via pg0\n20.0.4.0/24\tvia\tip4-lookup-in-table 7\n20.0.5.1 via 10.0.0.2\n\
                    2001:db8:9::/48 via fe80::2 pg0\n::/0 via ip6-lookup-in-table 7";
        assert_eq!(load(&mut cli, text, "").unwrap(), "10 routes added\n");
        let all = [
            "20.0.0.0/24 via 10.0.0.2 pg0 weight 2 via 10.0.0.3",
            "20.0.2.0/24 via prohibit",
            "20.0.3.0/24 via pg0",
            "20.0.4.0/24 via ip4-lookup-in-table 7",
            "20.0.5.1/32 via 10.0.0.2",
            "20.0.6.0/24 via 10.0.0.2 via 10.0.0.3 pg0 via pg1 weight 7",
            "::/0 via ip6-lookup-in-table 7",
            "2001:db8:9::/48 via fe80::2 pg0",
            "20.0.1.0/24 table 7 via drop",
        ];
        assert_eq!(routes(&mut cli), all);
        // The output of show config can be loaded.
        let config = cli.ok("show config");
        let lines: Vec<&str> = config.lines().filter(|l| l.starts_with("ip route add")).collect();
        assert_eq!(load(&mut cli, &lines.join("\n"), "strict").unwrap(), "9 routes added\n");
        assert_eq!(routes(&mut cli), all);
        cli.ok("config rollback");
        assert_eq!(routes(&mut cli), [""; 0]);
        // A list of prefixes with other data after them.
        assert_eq!(
            load(&mut cli, "20.0.0.0/24\t65001\n20.0.1.0/24\t65002\n", "via 10.0.0.2").unwrap(),
            "2 routes added\n"
        );
        assert_eq!(routes(&mut cli), ["20.0.0.0/24 via 10.0.0.2", "20.0.1.0/24 via 10.0.0.2"]);
        let options = "via 10.0.0.3 weight 2 via 10.0.0.4 pg0";
        assert_eq!(load(&mut cli, "20.0.2.0/24\n", options).unwrap(), "1 routes added\n");
        assert_eq!(routes(&mut cli).last().unwrap(), "20.0.2.0/24 via 10.0.0.3 weight 2 via 10.0.0.4 pg0");
    }

    #[test]
    fn invalid_lines_are_reported_with_file_and_number() {
        let mut cli = Cli::new();
        let good = |n: u32| format!("20.{}.{}.0/24 via 10.0.0.2", n >> 8, n & 255);
        let mut lines: Vec<String> = (0..2000).map(good).collect();
        lines[999] = "20.0.0.1/24 via 10.0.0.2".into();
        lines[1499] = "20.9.9.0/24 via pg77".into();
        let text = lines.join("\n");
        let said = load(&mut cli, &text, "").unwrap();
        assert!(
            said.contains("/routes:1000: 20.0.0.1/24 has host bits set: did you mean 20.0.0.0/24?"),
            "{said}"
        );
        assert!(said.contains("/routes:1500: ") && said.contains("pg77"), "{said}");
        assert!(said.ends_with("1998 routes added, 2 lines skipped\n"), "{said}");
        assert_eq!(routes(&mut cli).len(), 1998);
        cli.ok("config rollback");
        assert_eq!(routes(&mut cli).len(), 0);
        // With "strict", no route stays.
        cli.ok("ip route add 20.0.0.0/24 via 10.0.0.9");
        for word in ["strict", "--strict"] {
            let said = load(&mut cli, &text, word).unwrap_err();
            assert!(
                said.contains("/routes:1000: ")
                    && said.contains("(routes already added, now rolled back: 999)"),
                "{said}"
            );
            assert_eq!(routes(&mut cli), ["20.0.0.0/24 via 10.0.0.9"]);
        }
        let faulty = "x\n".repeat(25);
        let said = load(&mut cli, &faulty, "").unwrap();
        assert!(said.ends_with("0 routes added, 25 lines skipped (15 of them not shown)\n"), "{said}");
    }

    #[test]
    fn the_fault_of_a_line_is_named() {
        let mut cli = Cli::new();
        for (line, why) in [
            ("20.0.0.0/24", "the route needs a next hop"),
            ("20.0.0.0/33 via 10.0.0.2", "is not an IPv4 prefix"),
            ("20.0.0.0/24 via", "the arguments of \"via\" are incomplete"),
            ("20.0.0.0/24 via 10.0.0.2 weight 0", "not a number from 1 to 255"),
            ("20.0.0.0/24 via 10.0.0.2 pg0 pg1", "unexpected \"pg1\""),
            ("20.0.0.0/24 via drop via drop", "via drop: the same path is given twice"),
            (
                "20.0.0.0/24 via 10.0.0.2 drop",
                "via drop: a path that is neither a next hop nor an interface must be",
            ),
            ("20.0.0.0/24 via drop weight 2", "unexpected \"weight\""),
            ("20.0.0.0/24 via 10.0.0.2 weight", "the arguments of \"weight\" are incomplete"),
            ("20.0.0.0/24 via 10.0.0.2 weight 2 via 10.0.0.2", "via 10.0.0.2: the same path is given twice"),
            ("20.0.0.0/24 via 10.0.0.2 table 4294967296", "not a number from 0 to 4294967295"),
            ("20.0.0.0/24 table 3 via 10.0.0.2", "no table 3"),
            ("20.0.0.0/24 via ip4-lookup-in-table", "the arguments of \"via\" are incomplete"),
            ("2001:db8::1/64 via drop", "did you mean 2001:db8::/64?"),
            ("2001:db8::/64 via 10.0.0.2", "it is not an IPv6 address"),
        ] {
            let said = load(&mut cli, &format!("30.0.0.0/24 via drop\n{line}"), "strict").unwrap_err();
            assert!(said.contains("/routes:2: ") && said.contains(why), "{line}: {said}");
        }
        assert!(cli.refused("ip route load /nonexistent", "/nonexistent").contains("No such file"));
        let long = format!("20.0.0.0/24 via 10.0.0.2\n{}\n", "x".repeat(9000));
        assert!(load(&mut cli, &long, "strict").unwrap_err().contains("line 2 is longer than 8192 bytes"));
        assert_eq!(routes(&mut cli), [""; 0]);
        assert!(
            load(&mut cli, &long, "").unwrap_err().contains("the routes read before this error were added")
        );
        assert_eq!(routes(&mut cli), ["20.0.0.0/24 via 10.0.0.2"]);
    }

    #[test]
    fn the_content_of_other_files_is_not_shown() {
        let mut cli = Cli::new();
        let secret = "root:$6$secret::0:99999:7:::\n10.0.0.1 : PSK secret\n10.0.0.1 secret\n";
        for options in ["", "strict"] {
            let said = load(&mut cli, secret, options).unwrap_or_else(|e| e);
            assert!(said.contains("/routes:1: not a route") && !said.contains("secret"), "{said}");
        }
        // After a valid route, a line that does not begin with a prefix is still not shown.
        let said = load(&mut cli, &format!("20.0.0.0/24 via drop\n{secret}"), "").unwrap();
        assert!(said.contains("/routes:2: not a route") && !said.contains("$6$"), "{said}");
        assert!(said.contains("/routes:3: unexpected \":\""), "{said}");
    }
}
