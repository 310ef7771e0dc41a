//! The trace of messages of API clients, in VPP's syntax.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::Value;

use super::later::later;
use crate::api::trace::file::Unknown;
use crate::api::trace::replay::{Replay, part, reading};
use crate::api::trace::{Known, Traced, file};
use crate::app::{Context, Output, Recorded, joined, on_a_thread};
use crate::cli::{Args, CliError, PAGE, Registry, Rows};
use crate::files;

/// The directory of saved traces, as in VPP.
const DIRECTORY: &str = "/tmp";

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "api trace {on | off}",
        "Start or stop recording the messages received from API clients; the last 16 MiB are kept.",
        |c, a| {
            c.messages.received = a.has("on");
            Ok(Output::none())
        },
    );
    r.add("api trace tx {on | off}", "Start or stop recording the messages sent to API clients.", |c, a| {
        c.messages.sent = a.has("on");
        Ok(Output::none())
    });
    r.add("api trace free", "Forget the recorded messages of API clients.", |c, _| {
        c.messages.free();
        Ok(Output::none())
    });
    r.add(
        "api trace [{tx | all}] save <file:word>",
        "Write the recorded messages received from API clients to a new file in /tmp, in VPP's binary format; with \"tx\", the sent messages; with \"all\", received and sent ones. Messages that may contain a secret are left out.",
        |c, a| save(c, a, file::write),
    );
    r.add("api trace [{tx | all}] save-json <file:word>", "Like \"save\", as JSON.", |c, a| {
        save(c, a, |out, known, messages, _| {
            let all: Vec<_> = messages.iter().map(|message| known.json_of(message)).collect();
            serde_json::to_writer_pretty(out, &all)?;
            Ok(all.len())
        })
    });
    r.add(
        "api trace [{tx | all}] {dump | dump-json}",
        "Show the recorded messages received from API clients; with \"tx\", the sent messages; with \"all\", received and sent ones. \"dump-json\" shows them as JSON.",
        |c, a| {
            let (known, messages) = (Known::of(&c.definitions), chosen(c, a).into());
            Ok(Output::rows(Dump { known, messages }, a.json() || a.has("dump-json")))
        },
    );
    r.add(
        "api trace [first <first:u32>] [last <last:u32>] {dump-file | tojson} <file:path>",
        "Show the messages of a file in VPP's binary format; with \"first\" and \"last\", only the messages with these numbers and those between. \"tojson\" shows them as JSON.",
        show_file,
    );
    r.add_own(
        "api trace [first <first:u32>] [last <last:u32>] {replay | replay-json} <file:path>",
        "Execute the requests of a file again. The file is from \"api trace save\" (replay) or \"api trace save-json\" (replay-json). A refused request does not end the replay.",
        |registry, a| {
            let path: PathBuf = a.need("file")?;
            Ok(Output::job(Replay::new(registry, a, path, a.has("replay-json"), range(a))?))
        },
    );
    for syntax in ["api trace status", "show api trace-status"] {
        r.add(syntax, "Show whether messages of API clients are recorded, and how many are.", status)
            .for_viewers();
    }
}

#[derive(Serialize)]
struct Status {
    received: bool,
    sent: bool,
    messages: usize,
    bytes: usize,
    /// True if older messages were dropped.
    wrapped: bool,
}

fn status(c: &mut Context, _: &Args) -> Result<Output, CliError> {
    let usage = c.messages.usage();
    let (messages, bytes) = (usage.messages, usage.bytes);
    let (received, sent) = (c.messages.received, c.messages.sent);
    let shown = Status { received, sent, messages, bytes, wrapped: usage.wrapped };
    let word = |on: bool| if on { "on" } else { "off" };
    let dropped = if usage.wrapped { "; older ones were dropped" } else { "" };
    let text = format!(
        "messages from clients: {}\nmessages to clients: {}\nrecorded: {messages} messages, {bytes} bytes{dropped}\n",
        word(shown.received),
        word(shown.sent)
    );
    Ok(Output::show(&shown, text))
}

/// Returns the recorded messages that the command selects: by default those from clients, with `tx` those to clients, with `all` both.
fn chosen(c: &Context, a: &Args) -> Vec<Arc<Recorded>> {
    let (all, tx) = (a.has("all"), a.has("tx"));
    let mut messages = c.messages.snapshot();
    messages.retain(|message| all || message.sent == tx);
    messages
}

/// Writes recorded messages; the last argument is true if older ones were dropped. Returns how many are in the file.
type Format = fn(&mut BufWriter<File>, &Known, &[Arc<Recorded>], bool) -> io::Result<usize>;

fn save(c: &mut Context, a: &Args, format: Format) -> Result<Output, CliError> {
    let name: String = a.need("file")?;
    if name.contains('/') || name.starts_with('.') {
        return Err(a.fault(
            "file",
            format!("the file is written to {DIRECTORY}: give its name without a directory"),
        ));
    }
    let path = Path::new(DIRECTORY).join(&name);
    let (known, recorded, wrapped) = (Known::of(&c.definitions), chosen(c, a), c.messages.usage().wrapped);
    // On another thread: writing may take long, and may block.
    let write = move || -> io::Result<String> {
        // Creates a new file, and never opens an existing one: another user may have put a file in this place.
        let create = |path: &Path| File::options().write(true).create_new(true).mode(0o600).open(path);
        let file = files::open_by(&path, create)?;
        let mut out = BufWriter::new(file);
        let written = format(&mut out, &known, &recorded, wrapped)?;
        out.flush()?;
        let omitted = recorded.len() - written;
        let note = if omitted > 0 {
            format!("; {omitted} that may contain a secret are left out")
        } else {
            String::new()
        };
        Ok(format!("{written} messages are in {}{note}\n", path.display()))
    };
    let mut writing = Some(on_a_thread(move || {
        write().map_err(|e| CliError::new(format!("the file cannot be written: {e}")))
    })?);
    let look = move |a: &Args| {
        let written = joined(writing.take_if(|writing| writing.is_finished())?);
        Some(written.map_err(|e| a.about("file", e)))
    };
    Ok(later(a, look, |_, _, told| Ok(Output::text(told))))
}

/// The recorded messages that are not shown yet.
struct Dump {
    known: Known,
    messages: std::collections::VecDeque<Arc<Recorded>>,
}

impl Rows<Context> for Dump {
    type Row = Value;

    fn next(&mut self, _: &Context, page: &mut Vec<Value>) -> bool {
        let some = self.messages.drain(..self.messages.len().min(PAGE));
        page.extend(some.map(|message| self.known.json_of(&message)));
        !self.messages.is_empty()
    }

    fn text(&mut self, page: &[Value], out: &mut String) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        for message in page {
            let ago = now - message["_time"].as_f64().unwrap_or(now);
            let way = if message["_sent"] == true { "to" } else { "from" };
            *out += &format!("{ago:.3} s ago, {way} client {}: {}\n", message["_client"], line(message));
        }
    }
}

/// Returns a message as text in one line.
fn line(message: &Value) -> String {
    let fields = message.as_object().map(Known::fields).unwrap_or_default();
    format!("{} {fields}", message["_msgname"].as_str().unwrap_or("unknown"))
}

/// Returns the numbers of the first and the last message that a command is about.
fn range(a: &Args) -> (usize, usize) {
    let number = |name: &str| a.get::<u32>(name).map(|n| n as usize);
    (number("first").unwrap_or(0), number("last").unwrap_or(usize::MAX))
}

/// The messages of a file that are not shown yet, with their numbers.
struct Shown {
    known: Arc<Known>,
    messages: std::collections::VecDeque<(usize, Result<Traced, Unknown>)>,
}

impl Rows<Context> for Shown {
    type Row = Value;

    fn next(&mut self, _: &Context, page: &mut Vec<Value>) -> bool {
        for (number, message) in self.messages.drain(..self.messages.len().min(PAGE)) {
            let mut row = match message {
                Ok(Traced { id, bytes }) => self.known.json(id, Some(&bytes)),
                Err(why) => [("_malformed".to_owned(), why.to_string().into())].into_iter().collect(),
            };
            row.insert("_number".into(), number.into());
            page.push(row.into());
        }
        !self.messages.is_empty()
    }

    fn text(&mut self, page: &[Value], out: &mut String) {
        page.iter().for_each(|message| *out += &format!("{}: {}\n", message["_number"], line(message)));
    }
}

fn show_file(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let known = Arc::new(Known::of(&c.definitions));
    let mut thread = Some(reading(a.need::<PathBuf>("file")?, false, known.clone())?);
    let look = move |a: &Args| {
        let read = thread.take_if(|thread| thread.is_finished())?.joined();
        Some(read.map_err(|e| a.about("file", e)))
    };
    Ok(later(a, look, move |_, a, trace| {
        let messages = part(trace.messages, range(a)).map_err(|why| a.fault("file", why))?;
        Ok(Output::rows(Shown { known, messages }, a.json() || a.has("tojson")))
    }))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::testing::Cli;

    /// Returns the path of a new file in /tmp, and its name.
    fn new_file(about: &str) -> (PathBuf, String) {
        let name = format!("volley-trace-{about}-{}", std::process::id());
        let path = std::path::Path::new("/tmp").join(&name);
        let _ = std::fs::remove_file(&path);
        (path, name)
    }

    /// Records a request.
    fn record(cli: &mut Cli, name: &str, body: &[u8]) {
        let table = cli.context.definitions.clone();
        let id = table.id(name).unwrap();
        let message = [&[0; 8][..], body].concat();
        cli.context.messages.record((1, false), (id, table.get(id).unwrap()), &message);
    }

    #[test]
    fn traces_are_switched_and_saved_by_name_only() {
        let mut cli = Cli::new();
        assert_eq!(cli.json("api trace status")["received"], false);
        cli.ok("api trace on");
        cli.ok("api trace tx on");
        let status = cli.json("show api trace-status");
        assert_eq!(
            (&status["received"], &status["sent"], &status["messages"]),
            (&true.into(), &true.into(), &0.into())
        );
        for name in ["/etc/passwd", "../x", ".hidden"] {
            assert!(cli.refused(&format!("api trace save {name}"), name).contains("without a directory"));
        }
        let (path, name) = new_file("empty");
        assert!(cli.ok(&format!("api trace save-json {name}")).contains("0 messages are in /tmp/"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[]");
        std::fs::remove_file(path).unwrap();
        cli.ok("api trace off");
        cli.ok("api trace free");
        assert_eq!(cli.json("api trace status")["received"], false);
    }

    #[test]
    fn traces_are_replayed_from_both_kinds_of_files() {
        let mut cli = Cli::new();
        record(&mut cli, "create_loopback", &[2, 0, 0, 0, 0, 7]);
        record(&mut cli, "control_ping", &[]);
        record(&mut cli, "sw_interface_set_flags", &[0, 0, 0, 99, 0, 0, 0, 1]);
        record(&mut cli, "cli_inband", b"\0\0\0\x2eset interface mtu 1400 loop0\nset interface odd\n");
        record(&mut cli, "cli_inband", b"\0\0\0\x11show x secret yyy");
        for (save, replay) in [("save", "replay"), ("save-json", "replay-json")] {
            let (path, name) = new_file(save);
            let said = cli.ok(&format!("api trace {save} {name}"));
            let path = path.display();
            let replayed = cli.ok(&format!("api trace {replay} {path}"));
            assert!(replayed.contains("message 2, sw_interface_set_flags, is refused: -2\n"), "{replayed}");
            assert!(replayed.contains("message 3, cli_inband, is refused: -1\n"), "{replayed}");
            assert!(cli.ok("show interface loop0").contains("1400"));
            let (left_out, skipped) =
                if save == "save" { ("; 1 that may contain a secret", 1) } else { ("", 2) };
            assert!(said.contains(left_out), "{said}");
            let counts =
                format!("3 requests replayed, 2 of them refused; {skipped} other messages skipped\n");
            assert!(replayed.ends_with(&counts), "{replayed}");
            cli.ok("delete loopback interface intfc loop0");
            if save == "save" {
                let shown = cli.ok(&format!("api trace first 0 last 1 dump-file {path}"));
                assert_eq!(
                    shown,
                    "0: create_loopback client_index 0, context 0, mac_address \"02:00:00:00:00:07\"\n1: control_ping client_index 0, context 0\n"
                );
                assert_eq!(cli.json(&format!("api trace first 2 tojson {path}"))[0]["_number"], 2);
                assert!(
                    cli.run(&format!("api trace first 4 replay {path}"))
                        .unwrap_err()
                        .render()
                        .contains("the file has messages 0 to 3")
                );
            }
            std::fs::remove_file(path.to_string()).unwrap();
        }
        assert!(cli.ok("api trace dump").contains("s ago, from client 1: create_loopback"));
        assert_eq!(cli.ok("api trace tx dump"), "");
        assert_eq!(cli.json("api trace dump")[4]["_omitted"], "it may contain a secret");
        // The journal knows where a change comes from.
        assert!(cli.ok("show config history").contains("api trace replay: create_loopback"));
    }

    /// A replay that replays its own file ends.
    #[test]
    fn replays_are_nested_up_to_a_depth() {
        let mut cli = Cli::new();
        let (path, name) = new_file("nested");
        let line = format!("api trace replay {}", path.display());
        let command = [&(line.len() as u32).to_be_bytes()[..], line.as_bytes()].concat();
        record(&mut cli, "cli_inband", &command);
        cli.ok(&format!("api trace save {name}"));
        let said = cli.ok(&line);
        assert!(said.contains("more than 8 levels of nested replays"), "{said}");
        std::fs::remove_file(path).unwrap();
    }
}
