//! Where messages go: standard error, which may be a terminal or the journal, or a file.

use std::{
    env,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, IsTerminal, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use super::{Level, Line, LogError};

/// The place where messages go.
#[derive(Debug)]
pub(super) enum Out {
    /// No place.
    Nowhere,
    /// Standard error, with times; in colours on a terminal.
    Stderr { colours: bool },
    /// Standard error, which is the journal: it adds times, and reads a priority before each line (sd-daemon(3)).
    Journal,
    /// A file that is appended to.
    File(File),
}

impl Out {
    /// Standard error, as what it is.
    pub(super) fn stderr() -> Out {
        if stderr_is_journal() { Out::Journal } else { Out::Stderr { colours: io::stderr().is_terminal() } }
    }

    /// A file, which is made if need be.
    pub(super) fn file(path: &Path) -> Result<Out, LogError> {
        let file = OpenOptions::new().create(true).append(true).mode(0o640).open(path);
        file.map(Out::File).map_err(|source| LogError::File { path: path.to_owned(), source })
    }

    /// Writes a message in one call, so that lines of several processes do not mix. There is no other place to say that
    /// this fails.
    pub(super) fn write(&self, line: &Line) {
        let _ = match self {
            Out::Nowhere => Ok(()),
            Out::Stderr { colours } => io::stderr().write_all(plain(line, *colours).as_bytes()),
            Out::Journal => io::stderr().write_all(for_journal(line).as_bytes()),
            Out::File(file) => (&*file).write_all(plain(line, false).as_bytes()),
        };
    }
}

/// With its time.
fn plain(line: &Line, colours: bool) -> String {
    let Line { time, level, class, text } = line;
    let time = humantime::format_rfc3339_micros(*time);
    let colour = match level {
        Level::Error => 31,
        Level::Warn => 33,
        Level::Info => 32,
        _ => 34,
    };
    match colours {
        true => format!("\x1b[2m{time}\x1b[0m \x1b[{colour}m{level:>5}\x1b[0m {class}: {text}\n"),
        false => format!("{time} {level:>5} {class}: {text}\n"),
    }
}

/// With its priority before each line, since to the journal each is a message of its own.
fn for_journal(line: &Line) -> String {
    let Line { level, class, text, .. } = line;
    let priority = level.priority();
    let text = text.replace('\n', &format!("\n<{priority}>"));
    format!("<{priority}>{class}: {text}\n")
}

/// Whether standard error is the journal: the service manager then names its device and inode.
fn stderr_is_journal() -> bool {
    let stderr = fs::metadata("/proc/self/fd/2");
    env::var("JOURNAL_STREAM").is_ok_and(|stream| stderr.is_ok_and(|stderr| is_stream(&stderr, &stream)))
}

fn is_stream(file: &Metadata, stream: &str) -> bool {
    stream == format!("{}:{}", file.dev(), file.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn line(text: &str) -> Line {
        Line { time: SystemTime::UNIX_EPOCH, level: Level::Warn, class: "interface", text: text.into() }
    }

    #[test]
    fn the_journal_gets_priorities_and_others_get_times() {
        assert_eq!(for_journal(&line("a\n    b")), "<4>interface: a\n<4>    b\n");
        assert_eq!(plain(&line("a"), false), "1970-01-01T00:00:00.000000Z  warn interface: a\n");
        assert!(plain(&line("a"), true).contains("\x1b[33m warn\x1b[0m interface: a"));
    }

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        let file = fs::metadata("/").unwrap();
        assert!(is_stream(&file, &format!("{}:{}", file.dev(), file.ino())));
        assert!(!is_stream(&file, &format!("{}:{}", file.dev(), file.ino() + 1)));
    }

    #[test]
    fn a_file_is_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "before\n").unwrap();
        Out::file(&path).unwrap().write(&line("after"));
        let text = fs::read_to_string(path).unwrap();
        assert!(text.starts_with("before\n1970") && text.ends_with("after\n"), "{text}");
        let message = Out::file(Path::new("/proc/none/log")).unwrap_err().to_string();
        assert!(message.contains("/proc/none/log") && message.contains("unix { log"), "{message}");
    }
}
