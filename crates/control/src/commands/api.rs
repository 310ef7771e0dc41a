//! The trace of messages of API clients, in VPP's syntax.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::Serialize;

use super::later::later;
use crate::app::{Context, Output, joined, on_a_thread};
use crate::cli::{Args, CliError, Registry};
use crate::files;

/// The directory of saved traces, as in VPP.
const DIRECTORY: &str = "/tmp";

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "api trace {on | off}",
        "Start or stop recording the messages from API clients; the last 16 MiB are kept.",
        |c, a| {
            c.messages.received = a.has("on");
            Ok(Output::none())
        },
    );
    r.add("api trace tx {on | off}", "Start or stop recording the messages to API clients.", |c, a| {
        c.messages.sent = a.has("on");
        Ok(Output::none())
    });
    r.add("api trace free", "Forget the recorded messages of API clients.", |c, _| {
        c.messages.free();
        Ok(Output::none())
    });
    for word in ["save", "save-json"] {
        r.add(
            &format!("api trace {word} <file:word>"),
            "Write the recorded messages of API clients to a file in /tmp, as JSON.",
            save,
        );
    }
    r.add("api trace status", "Show whether messages of API clients are recorded, and how many are.", status)
        .for_viewers();
}

#[derive(Serialize)]
struct Status {
    received: bool,
    sent: bool,
    messages: usize,
    bytes: usize,
}

fn status(c: &mut Context, _: &Args) -> Result<Output, CliError> {
    let (messages, bytes) = c.messages.usage();
    let shown = Status { received: c.messages.received, sent: c.messages.sent, messages, bytes };
    let word = |on: bool| if on { "on" } else { "off" };
    let text = format!(
        "messages from clients: {}\nmessages to clients: {}\nrecorded: {messages} messages, {bytes} bytes\n",
        word(shown.received),
        word(shown.sent)
    );
    Ok(Output::show(&shown, text))
}

fn save(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let name: String = a.need("file")?;
    if name.contains('/') || name.starts_with('.') {
        return Err(a.fault(
            "file",
            format!("the file is written to {DIRECTORY}: give its name without a directory"),
        ));
    }
    let path = Path::new(DIRECTORY).join(&name);
    let recorded = c.messages.snapshot();
    // On another thread: writing may take long, and may block.
    let write = move || -> io::Result<String> {
        // A new file: another user may have put something in its place.
        let create = |path: &Path| File::options().write(true).create_new(true).mode(0o600).open(path);
        let file = files::open_by(&path, create)?;
        let mut out = BufWriter::new(file);
        let messages: Vec<_> = recorded.iter().map(|message| message.json()).collect();
        serde_json::to_writer_pretty(&mut out, &messages)?;
        out.flush()?;
        Ok(format!("{} messages are in {}\n", messages.len(), path.display()))
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

#[cfg(test)]
mod tests {
    use crate::testing::Cli;

    #[test]
    fn traces_are_switched_and_saved_by_name_only() {
        let mut cli = Cli::new();
        assert_eq!(cli.json("api trace status")["received"], false);
        cli.ok("api trace on");
        cli.ok("api trace tx on");
        let status = cli.json("api trace status");
        assert_eq!(
            (&status["received"], &status["sent"], &status["messages"]),
            (&true.into(), &true.into(), &0.into())
        );
        for name in ["/etc/passwd", "../x", ".hidden"] {
            assert!(cli.refused(&format!("api trace save {name}"), name).contains("without a directory"));
        }
        let name = format!("volley-trace-{}.json", std::process::id());
        assert!(cli.ok(&format!("api trace save-json {name}")).contains("0 messages are in /tmp/"));
        let path = std::path::Path::new("/tmp").join(name);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[]");
        std::fs::remove_file(path).unwrap();
        cli.ok("api trace off");
        cli.ok("api trace free");
        assert_eq!(cli.json("api trace status")["received"], false);
    }
}
