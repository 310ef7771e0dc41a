//! Where messages go: standard error, which may be a terminal or the journal, or a file. A thread of its own writes them, for a reader may
//! stand still, or a disk: who says something never waits for that.

use std::{
    env,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, IsTerminal, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    thread,
    time::{Duration, SystemTime},
};

use super::{Level, Line, LogError, class, classes};

/// Messages that wait to be written, at most.
const WAITING: usize = 4096;
/// How long the end of the program waits for its last messages.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The way to the place where messages go.
pub(super) struct Out {
    /// Nothing: they go nowhere.
    writer: Option<SyncSender<Said>>,
    /// Messages for which there was no room.
    unwritten: Arc<AtomicU64>,
}

/// What the thread is told.
enum Said {
    Line(Line),
    /// All that was said before is to be written, and then this answered.
    End(Sender<()>),
}

impl Out {
    /// No place.
    pub(super) fn nowhere() -> Out {
        Out { writer: None, unwritten: Arc::default() }
    }

    /// A place.
    pub(super) fn to(sink: Sink) -> Result<Out, LogError> {
        let (writer, said) = sync_channel(WAITING);
        let unwritten = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&unwritten);
        let write = move || write_all(&said, &counted, |line| sink.write(line));
        thread::Builder::new().name("volley_log".into()).spawn(write).map_err(LogError::Thread)?;
        Ok(Out { writer: Some(writer), unwritten })
    }

    pub(super) fn is_nowhere(&self) -> bool {
        self.writer.is_none()
    }

    /// Messages that were not written, because those before them were not in time.
    pub(super) fn unwritten(&self) -> u64 {
        self.unwritten.load(Relaxed)
    }

    /// Has a message written.
    pub(super) fn write(&self, line: Line) {
        let Some(writer) = &self.writer else { return };
        if writer.try_send(Said::Line(line)).is_err() {
            self.unwritten.fetch_add(1, Relaxed);
        }
    }

    /// Waits until what was said is written, but not for ever.
    pub(super) fn drain(&self) {
        let (done, answer) = channel();
        let Some(writer) = &self.writer else { return };
        // With no room for this, nothing moves.
        if writer.try_send(Said::End(done)).is_ok() {
            let _ = answer.recv_timeout(LAST_WORDS);
        }
    }
}

/// Writes what is said until nobody can say anything more.
fn write_all(said: &Receiver<Said>, unwritten: &AtomicU64, write: impl Fn(&Line)) {
    let mut told = 0;
    for one in said {
        match one {
            Said::Line(line) => write(&line),
            Said::End(done) => drop(done.send(())),
        }
        let lost = unwritten.load(Relaxed);
        if lost > told {
            let text = format!(
                "{} messages were not written: the place where they go did not take those before them in time (show logging has \
                 the last ones)",
                lost - told
            );
            let class = classes()[class::of(module_path!())].name;
            write(&Line { time: SystemTime::now(), level: Level::Warn, class, text });
            told = lost;
        }
    }
}

/// The place where messages go.
#[derive(Debug)]
pub(super) enum Sink {
    /// Standard error, with times; in colours on a terminal.
    Stderr { colours: bool },
    /// Standard error, which is the journal: it adds times, and reads a priority before each line (sd-daemon(3)).
    Journal,
    /// A file that is appended to.
    File(File),
}

impl Sink {
    /// Standard error, as what it is.
    pub(super) fn stderr() -> Sink {
        if stderr_is_journal() { Sink::Journal } else { Sink::Stderr { colours: io::stderr().is_terminal() } }
    }

    /// A file, which is made if need be.
    pub(super) fn file(path: &Path) -> Result<Sink, LogError> {
        let file = OpenOptions::new().create(true).append(true).mode(0o640).open(path);
        file.map(Sink::File).map_err(|source| LogError::File { path: path.to_owned(), source })
    }

    /// Writes a message in one call, so that lines of several processes do not mix. There is no other place to say that
    /// this fails.
    fn write(&self, line: &Line) {
        let _ = match self {
            Sink::Stderr { colours } => io::stderr().write_all(plain(line, *colours).as_bytes()),
            Sink::Journal => io::stderr().write_all(for_journal(line).as_bytes()),
            Sink::File(file) => (&*file).write_all(plain(line, false).as_bytes()),
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
        Sink::file(&path).unwrap().write(&line("after"));
        let text = fs::read_to_string(path).unwrap();
        assert!(text.starts_with("before\n1970") && text.ends_with("after\n"), "{text}");
        let message = Sink::file(Path::new("/proc/none/log")).unwrap_err().to_string();
        assert!(message.contains("/proc/none/log") && message.contains("unix { log"), "{message}");
    }

    #[test]
    fn who_says_something_never_waits_and_what_is_lost_is_counted() {
        let (writer, said) = sync_channel(2);
        let out = Out { writer: Some(writer), unwritten: Arc::default() };
        // Nobody writes.
        (0..5).for_each(|n| out.write(line(&n.to_string())));
        out.drain();
        assert_eq!(out.unwritten(), 3);
        let unwritten = Arc::clone(&out.unwritten);
        drop(out);
        let texts = std::cell::RefCell::new(Vec::new());
        write_all(&said, &unwritten, |line| texts.borrow_mut().push(line.text.clone()));
        let texts = texts.into_inner();
        assert_eq!((texts.len(), &texts[0][..], &texts[2][..]), (3, "0", "1"));
        assert!(texts[1].starts_with("3 messages were not written: "), "{texts:?}");
    }

    #[test]
    fn the_end_waits_for_the_last_message() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let out = Out::to(Sink::file(&path).unwrap()).unwrap();
        (0..1000).for_each(|_| out.write(line("one")));
        out.drain();
        assert_eq!(fs::read_to_string(path).unwrap().lines().count(), 1000);
    }
}
