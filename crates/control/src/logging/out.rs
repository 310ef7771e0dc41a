//! The output of the log: standard error, which may be a terminal or the systemd journal, or a file. A thread of its own writes to it, so
//! that a slow reader or disk blocks no other thread.

use std::{
    cell::{Cell, RefCell},
    env,
    fs::{self, File, Metadata},
    io::{self, IsTerminal, Write},
    os::fd::{AsFd, OwnedFd},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel},
    thread,
    time::{Duration, Instant, SystemTime},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Level, Line, LogError, class, classes};
use crate::files;

/// Maximum number of messages that wait to be written.
const WAITING: usize = 4096;
/// How long the end of the program waits until the last messages are written.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Pause between attempts to queue the request for an answer at the end of the program, while the queue is full.
const STEP: Duration = Duration::from_millis(1);
/// Minimum time between two warnings about lost messages.
const LOSSES: Duration = Duration::from_secs(1);

/// The queue of an output.
pub(super) struct Out {
    /// The sending end of the queue; `None` if there is no output.
    writer: Option<SyncSender<Said>>,
    /// Number of messages that did not fit into the queue, or that could not be written.
    unwritten: Arc<AtomicU64>,
    /// Set when the thread must open the file again; `None` if the output is no file.
    again: Option<Arc<AtomicBool>>,
}

/// A message to write, or another request to the writing thread.
enum Said {
    Line(Line),
    /// Pins the thread to this core.
    Pin(usize),
    /// Wakes the thread, so that it opens the file again.
    Again,
    /// Asks for an answer when all earlier messages are written.
    End(Sender<()>),
}

impl Out {
    /// Returns an output that discards all messages.
    pub(super) fn nowhere() -> Out {
        Out { writer: None, unwritten: Arc::default(), again: None }
    }

    /// Returns an output to `sink`. The thread that writes has no other file open. So if it hangs after the router was killed, it
    /// keeps none of the router's sockets open.
    pub(super) fn to(sink: Sink) -> Result<Out, LogError> {
        let (writer, said) = sync_channel(WAITING);
        let unwritten = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&unwritten);
        let again = match sink {
            Sink::Stderr { file, form } => {
                let work = move |file: &File| {
                    let cut = Cell::new(false);
                    write_all(&said, &counted, |line| form.write(file, line, &cut), || None);
                };
                drivers::spawn_apart_with("volley_log", file.as_fd(), work).map_err(LogError::Thread)?;
                None
            }
            Sink::File(path) => Some(into_file(path, said, counted)?),
        };
        Ok(Out { writer: Some(writer), unwritten, again })
    }

    pub(super) fn is_nowhere(&self) -> bool {
        self.writer.is_none()
    }

    /// Returns the number of messages that were not written.
    pub(super) fn unwritten(&self) -> u64 {
        self.unwritten.load(Relaxed)
    }

    /// Queues a message. If the queue is full, drops the message, and counts it as unwritten.
    pub(super) fn write(&self, line: Line) {
        let Some(writer) = &self.writer else { return };
        if writer.try_send(Said::Line(line)).is_err() {
            self.unwritten.fetch_add(1, Relaxed);
        }
    }

    /// Lets the thread open its file again, because the file was renamed. Returns false if the output is no file.
    pub(super) fn reopen(&self) -> bool {
        let Some((again, writer)) = self.again.as_ref().zip(self.writer.as_ref()) else { return false };
        again.store(true, Relaxed);
        // With a full queue, the next message wakes the thread.
        let _ = writer.try_send(Said::Again);
        true
    }

    /// Pins the thread to a core.
    pub(super) fn pin(&self, core: usize) {
        if let Some(writer) = &self.writer {
            // If the queue is full, the thread stays unpinned: there are worse problems then.
            let _ = writer.try_send(Said::Pin(core));
        }
    }

    /// Waits until all queued messages are written, for a second at most.
    pub(super) fn drain(&self) {
        let Some(writer) = &self.writer else { return };
        let ((done, answer), end) = (channel(), Instant::now() + LAST_WORDS);
        let mut last = Said::End(done);
        while let Err(TrySendError::Full(back)) = writer.try_send(last) {
            if Instant::now() >= end {
                return;
            }
            last = back;
            thread::sleep(STEP);
        }
        let _ = answer.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

/// Starts the thread that writes to a file. The thread opens the file, and opens it again whenever the returned flag is set.
fn into_file(
    path: PathBuf,
    said: Receiver<Said>,
    unwritten: Arc<AtomicU64>,
) -> Result<Arc<AtomicBool>, LogError> {
    let again = Arc::<AtomicBool>::default();
    let (wanted, name) = (Arc::clone(&again), path.clone());
    let (to_start, opened) = sync_channel(1);
    let work = move || {
        let open = || files::to_append(&name, 0o640);
        let file = match open() {
            Ok(file) => RefCell::new(file),
            Err(e) => return drop(to_start.send(Err(e))),
        };
        let _ = to_start.send(Ok(()));
        let cut = Cell::new(false);
        let form = Form::Timed { colors: false };
        let write = |line: &Line| form.write(&*file.borrow(), line, &cut);
        let reopen = || {
            let asked = wanted.swap(false, Relaxed);
            asked.then(|| open().map(|new| drop((file.replace(new), cut.replace(false)))))
        };
        write_all(&said, &unwritten, write, reopen);
    };
    drivers::spawn_apart("volley_log", work).map_err(LogError::Thread)?;
    match opened.recv() {
        Ok(outcome) => outcome.map_err(|source| LogError::File { path, source })?,
        Err(_) => return Err(LogError::Thread(io::ErrorKind::BrokenPipe.into())),
    }
    Ok(again)
}

/// Writes queued messages until the queue is closed. `reopen` opens the output again if that was requested.
fn write_all(
    said: &Receiver<Said>,
    unwritten: &AtomicU64,
    write: impl Fn(&Line) -> io::Result<()>,
    reopen: impl Fn() -> Option<io::Result<()>>,
) {
    let line = |level, text| {
        let class = classes()[class::of(module_path!())].name;
        Line { time: SystemTime::now(), level, class, text }
    };
    let (mut told, mut told_at, mut why) = (0, None::<Instant>, None);
    loop {
        // Losses are reported even if no message follows.
        let next = match unwritten.load(Relaxed) > told {
            true => said.recv_timeout(LOSSES),
            false => said.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        // A failed report is not repeated: the operator sees that the file does not grow.
        let _ = match reopen() {
            None => Ok(()),
            Some(Ok(())) => write(&line(Level::Info, "the log file was opened again".into())),
            Some(Err(e)) => write(&line(
                Level::Warn,
                format!("the log file cannot be opened again: {e}; messages still go to the old file"),
            )),
        };
        let (mut pause, mut done) = (false, None);
        match &next {
            Ok(Said::Line(line)) => {
                if let Err(e) = write(line) {
                    unwritten.fetch_add(1, Relaxed);
                    why = Some(e);
                }
            }
            Ok(Said::Again) => {}
            Ok(Said::Pin(core)) => drop(infra::cpu::pin_current(*core)),
            Ok(Said::End(sender)) => done = Some(sender),
            Err(_) => pause = true,
        }
        let lost = unwritten.load(Relaxed);
        if lost > told && (pause || done.is_some() || told_at.is_none_or(|at| at.elapsed() >= LOSSES)) {
            let because = why.as_ref().map_or_else(
                || "the log output is too slow".into(),
                |e: &io::Error| format!("the log output failed ({e})"),
            );
            let text =
                format!("messages not written: {}; {because} (show logging has the last ones)", lost - told);
            told_at = Some(Instant::now());
            // If the report fails, it is repeated later.
            if write(&line(Level::Warn, text)).is_ok() {
                (told, why) = (lost, None);
            }
        }
        if let Some(done) = done {
            let _ = done.send(());
        }
        if next.is_err_and(|e| e == RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// An output of the log.
#[derive(Debug)]
pub(super) enum Sink {
    /// Standard error.
    Stderr { file: OwnedFd, form: Form },
    /// A file to append to, created if missing.
    File(PathBuf),
}

/// The format of messages.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// A line begins with the time of the message. `colors`: color the level, for a terminal.
    Timed { colors: bool },
    /// For the systemd journal: without times, which the journal adds itself. Each line begins with a priority (sd-daemon(3)).
    Journal,
}

impl Sink {
    /// Returns standard error as a sink, in the format for a terminal, the systemd journal, or a file.
    pub(super) fn stderr() -> Result<Sink, LogError> {
        let colors = io::stderr().is_terminal();
        let form = if stderr_is_journal() { Form::Journal } else { Form::Timed { colors } };
        let file = io::stderr().as_fd().try_clone_to_owned().map_err(LogError::Thread)?;
        Ok(Sink::Stderr { file, form })
    }
}

impl Form {
    /// Writes a message, in one call if possible, so that lines of several processes do not mix. `cut` is true if only a part of the last
    /// message was written, because the disk was full. In this case, a line feed is written first.
    fn write(self, mut file: impl Write + AsFd, line: &Line, cut: &Cell<bool>) -> io::Result<()> {
        let mut text = match self {
            Form::Timed { colors } => plain(line, colors),
            Form::Journal => for_journal(line),
        };
        if cut.get() {
            text.insert(0, '\n');
        }
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    rest = &rest[n..];
                    cut.set(!rest.is_empty());
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // Another program with the same file may have set it to non-blocking.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    poll(&mut [PollFd::new(file.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE)?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Returns the message with its time.
fn plain(line: &Line, colors: bool) -> String {
    let Line { time, level, class, text } = line;
    let time = humantime::format_rfc3339_micros(*time);
    let color = match level {
        Level::Error => 31,
        Level::Warn => 33,
        Level::Info => 32,
        _ => 34,
    };
    match colors {
        true => format!("\x1b[2m{time}\x1b[0m \x1b[{color}m{level:>5}\x1b[0m {class}: {text}\n"),
        false => format!("{time} {level:>5} {class}: {text}\n"),
    }
}

/// Returns the message with its priority before each line, because the systemd journal takes each line as a message.
fn for_journal(line: &Line) -> String {
    let Line { level, class, text, .. } = line;
    let priority = level.priority();
    let text = text.replace('\n', &format!("\n<{priority}>"));
    format!("<{priority}>{class}: {text}\n")
}

/// True if standard error is the systemd journal: the service manager gives the device and inode of the journal's stream in
/// `JOURNAL_STREAM`.
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
    use std::path::Path;
    use std::time::SystemTime;

    fn line(text: &str) -> Line {
        Line { time: SystemTime::UNIX_EPOCH, level: Level::Warn, class: "interface", text: text.into() }
    }

    #[test]
    fn journal_gets_priorities_and_others_get_times() {
        assert_eq!(for_journal(&line("a\n    b")), "<4>interface: a\n<4>    b\n");
        assert_eq!(plain(&line("a"), false), "1970-01-01T00:00:00.000000Z  warn interface: a\n");
        assert!(plain(&line("a"), true).contains("\x1b[33m warn\x1b[0m interface: a"));
    }

    #[test]
    fn journal_is_recognized_by_device_and_inode() {
        let file = fs::metadata("/").unwrap();
        assert!(is_stream(&file, &format!("{}:{}", file.dev(), file.ino())));
        assert!(!is_stream(&file, &format!("{}:{}", file.dev(), file.ino() + 1)));
    }

    #[test]
    fn files_are_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "before\n").unwrap();
        let out = Out::to(Sink::File(path.clone())).unwrap();
        out.write(line("after"));
        out.drain();
        let text = fs::read_to_string(path).unwrap();
        assert!(text.starts_with("before\n1970") && text.ends_with("after\n"), "{text}");
        let message = Out::to(Sink::File("/proc/none/log".into())).err().unwrap().to_string();
        assert!(message.contains("/proc/none/log") && message.contains("unix { log"), "{message}");
    }

    /// After a rotation, messages go to the new file, and nothing keeps the old one open. Until then, they go to the old one.
    #[test]
    fn a_renamed_file_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("log"), dir.path().join("log.1"));
        let out = Out::to(Sink::File(path.clone())).unwrap();
        let say = |text| {
            out.write(line(text));
            out.drain();
        };
        say("one");
        fs::rename(&path, &old).unwrap();
        say("two");
        assert!(out.reopen());
        say("three");
        let (before, after) = (fs::read_to_string(&old).unwrap(), fs::read_to_string(&path).unwrap());
        assert!(before.contains("one") && before.ends_with("two\n"), "{before}");
        assert!(after.contains("opened again") && after.ends_with("three\n"), "{after}");
        // Nothing keeps the old file open.
        let open = |of: &Path| {
            let all = fs::read_dir("/proc/self/task").unwrap().flatten();
            let all = all.filter_map(|task| fs::read_dir(task.path().join("fd")).ok()).flatten().flatten();
            all.filter(|fd| fs::read_link(fd.path()).is_ok_and(|file| file == of)).count()
        };
        assert_eq!((open(&old), open(&path)), (0, 1));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(out.reopen());
        say("four");
        assert!(!Out::to(Sink::stderr().unwrap()).unwrap().reopen(), "standard error is no file");
    }

    /// A file on a disk with this many free bytes.
    struct Disk {
        file: File,
        free: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.free == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let n = self.file.write(&bytes[..bytes.len().min(self.free)])?;
            self.free -= n;
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl AsFd for Disk {
        fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
            self.file.as_fd()
        }
    }

    #[test]
    fn a_message_after_a_cut_one_begins_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (form, cut) = (Form::Timed { colors: false }, Cell::new(false));
        let on = |free| Disk { file: File::options().create(true).append(true).open(&path).unwrap(), free };
        form.write(on(1000), &line("a"), &cut).unwrap();
        form.write(on(10), &line("b"), &cut).unwrap_err();
        // Not even a newline fits.
        form.write(on(0), &line("c"), &cut).unwrap_err();
        form.write(on(1000), &line("d"), &cut).unwrap();
        form.write(on(1000), &line("e"), &cut).unwrap();
        let text = fs::read_to_string(path).unwrap();
        let ends: Vec<&str> = text.lines().map(|line| &line[line.len() - 1..]).collect();
        assert_eq!(ends, ["a", "1", "d", "e"], "{text}");
    }

    #[test]
    fn full_queue_drops_and_counts_messages() {
        let (writer, said) = sync_channel(2);
        let out = Out { writer: Some(writer), unwritten: Arc::default(), again: None };
        // No thread writes.
        (0..5).for_each(|n| out.write(line(&n.to_string())));
        let begun = Instant::now();
        out.drain();
        assert!(begun.elapsed() >= LAST_WORDS, "the queue could have become free");
        assert_eq!(out.unwritten(), 3);
        let unwritten = Arc::clone(&out.unwritten);
        drop(out);
        let texts = std::cell::RefCell::new(Vec::new());
        write_all(
            &said,
            &unwritten,
            |line| {
                texts.borrow_mut().push(line.text.clone());
                Ok(())
            },
            || None,
        );
        let texts = texts.into_inner();
        assert_eq!((texts.len(), &texts[0][..], &texts[2][..]), (3, "0", "1"));
        assert!(texts[1].starts_with("messages not written: 3; "), "{texts:?}");
    }

    /// The drain waits for the last message, even if the queue is full.
    #[test]
    fn drain_waits_for_the_last_message() {
        let (writer, said) = sync_channel(100);
        let out = Out { writer: Some(writer), unwritten: Arc::default(), again: None };
        (0..100).for_each(|n| out.write(line(&n.to_string())));
        let (unwritten, written) = (Arc::clone(&out.unwritten), Arc::<AtomicU64>::default());
        let counted = Arc::clone(&written);
        let slowly = thread::spawn(move || {
            write_all(
                &said,
                &unwritten,
                |_| {
                    thread::sleep(STEP);
                    counted.fetch_add(1, Relaxed);
                    Ok(())
                },
                || None,
            );
        });
        out.drain();
        assert_eq!((written.load(Relaxed), out.unwritten()), (100, 0));
        drop(out);
        slowly.join().unwrap();
    }

    #[test]
    fn messages_lost_to_a_full_disk_are_reported_later() {
        let (writer, said) = sync_channel(8);
        let out = Out { writer: Some(writer), unwritten: Arc::default(), again: None };
        (0..3).for_each(|n| out.write(line(&n.to_string())));
        let unwritten = Arc::clone(&out.unwritten);
        drop(out);
        let (calls, texts) = (std::cell::Cell::new(0), std::cell::RefCell::new(Vec::new()));
        write_all(
            &said,
            &unwritten,
            |line| {
                calls.set(calls.get() + 1);
                // The first message and its first report fail.
                if calls.get() <= 2 {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                texts.borrow_mut().push(line.text.clone());
                Ok(())
            },
            || None,
        );
        let texts = texts.into_inner();
        assert_eq!((texts.len(), unwritten.load(Relaxed)), (3, 1), "{texts:?}");
        assert!(
            texts[2].contains("messages not written: 1; ") && texts[2].contains("no storage"),
            "{texts:?}"
        );
    }

    #[test]
    fn losses_are_reported_at_intervals_and_when_idle() {
        let (writer, said) = sync_channel(4);
        let out = Out { writer: Some(writer), unwritten: Arc::default(), again: None };
        (0..10).for_each(|n| out.write(line(&n.to_string())));
        let unwritten = Arc::clone(&out.unwritten);
        let written = thread::spawn(move || {
            let texts = std::cell::RefCell::new(Vec::new());
            write_all(
                &said,
                &unwritten,
                |line| {
                    texts.borrow_mut().push(line.text.clone());
                    // More messages are lost while this one is written.
                    if line.text == "1" {
                        unwritten.fetch_add(5, Relaxed);
                    }
                    Ok(())
                },
                || None,
            );
            texts.into_inner()
        });
        thread::sleep(LOSSES + Duration::from_millis(500));
        drop(out);
        let texts = written.join().unwrap();
        let told: Vec<_> = texts.iter().filter(|text| text.starts_with("messages")).collect();
        assert!(told.len() == 2 && told[0].contains(": 6;") && told[1].contains(": 5;"), "{texts:?}");
    }
}
