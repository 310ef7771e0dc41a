//! The log: `tracing` events to standard error or to a file.
//!
//! A filter is a level (`error`, `warn`, `info`, `debug`, `trace`, `off`), or several for parts of the program, as
//! `info,net::neighbor=debug`. The environment variable `VOLLEY_LOG` goes before any other.

use std::{
    env,
    error::Error,
    fmt,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, IsTerminal},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};
use tracing::Subscriber;
use tracing_subscriber::{
    Layer, Registry,
    filter::{ParseError, Targets},
    fmt::{MakeWriter, layer},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// The environment variable that overrides the filter.
pub const VARIABLE: &str = "VOLLEY_LOG";

/// The filter when none is given.
pub const DEFAULT_FILTER: &str = "info";

/// Why logging could not start.
#[derive(Debug)]
pub enum LogError {
    /// The filter is not one.
    Filter {
        /// The filter.
        text: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The log's file cannot be opened.
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// There is a log already.
    Again,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filter { text, source } => write!(
                f,
                "'{text}' is not a log filter ({source}): expected a level (error, warn, info, debug, trace or off), \
                 or parts and levels as info,net::neighbor=debug; {VARIABLE} overrides the configuration"
            ),
            Self::File { path, source } => write!(
                f,
                "the log's file {} cannot be opened: {source}; name another (unix {{ log … }}), or make its directory",
                path.display()
            ),
            Self::Again => f.write_str("the log is set up already"),
        }
    }
}

impl Error for LogError {}

/// Starts the log for the whole process: to `file`, appended, or else to standard error. Colours appear on a
/// terminal only; the time is left out where the journal adds its own. `filter` is [`DEFAULT_FILTER`] unless the
/// operator chose another.
///
/// # Errors
/// When the filter or the file is no good, or when there is a log already.
pub fn init(filter: &str, file: Option<&Path>) -> Result<(), LogError> {
    let text = env::var(VARIABLE).unwrap_or_else(|_| filter.to_owned());
    let filter = targets(&text)?;
    match file {
        Some(path) => subscriber(filter, open(path)?, Style { colours: false, time: true }).try_init(),
        None => {
            let style = Style { colours: io::stderr().is_terminal(), time: !stderr_is_journal() };
            subscriber(filter, io::stderr, style).try_init()
        }
    }
    .map_err(|_| LogError::Again)
}

fn targets(text: &str) -> Result<Targets, LogError> {
    text.parse().map_err(|source| LogError::Filter { text: text.to_owned(), source })
}

fn open(path: &Path) -> Result<Arc<File>, LogError> {
    let file = OpenOptions::new().create(true).append(true).mode(0o640).open(path);
    file.map(Arc::new).map_err(|source| LogError::File { path: path.to_owned(), source })
}

struct Style {
    colours: bool,
    time: bool,
}

fn subscriber<W>(filter: Targets, writer: W, style: Style) -> Box<dyn Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = layer().with_writer(writer).with_ansi(style.colours);
    let lines = if style.time { lines.boxed() } else { lines.without_time().boxed() };
    Box::new(Registry::default().with(lines.with_filter(filter)))
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

    /// What the log holds after one event at each of two levels.
    fn logged(filter: &str, time: bool) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let style = Style { colours: false, time };
        let subscriber = subscriber(targets(filter).unwrap(), open(&path).unwrap(), style);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(interface = "host-eth0", "link is up");
            tracing::debug!(target: "elsewhere", "a detail");
        });
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn the_filter_chooses_by_level_and_part() {
        let info = logged("info", true);
        assert!(info.contains("link is up interface=\"host-eth0\"") && !info.contains("a detail"), "{info}");
        assert!(!info.contains('\x1b'), "no colours in a file: {info:?}");
        let detail = logged("warn,elsewhere=debug", true);
        assert!(detail.contains("a detail") && !detail.contains("link is up"), "{detail}");
        assert_eq!(logged("off", true), "");
    }

    #[test]
    fn the_time_can_be_left_out() {
        assert!(logged("info", false).trim_start().starts_with("INFO"));
        assert!(logged("info", true).starts_with(|c: char| c.is_ascii_digit()));
    }

    #[test]
    fn a_log_is_appended_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "before\n").unwrap();
        let subscriber =
            subscriber(targets("info").unwrap(), open(&path).unwrap(), Style { colours: false, time: true });
        tracing::subscriber::with_default(subscriber, || tracing::info!("after"));
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("before\n") && text.contains("after"), "{text}");
    }

    #[test]
    fn errors_say_what_to_do() {
        let message = targets("net=loud").unwrap_err().to_string();
        assert!(message.contains("'net=loud'") && message.contains("VOLLEY_LOG"), "{message}");
        let message = open(Path::new("/proc/none/log")).unwrap_err().to_string();
        assert!(message.contains("/proc/none/log") && message.contains("unix { log"), "{message}");
    }

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        let file = fs::metadata("/").unwrap();
        assert!(is_stream(&file, &format!("{}:{}", file.dev(), file.ino())));
        assert!(!is_stream(&file, &format!("{}:{}", file.dev(), file.ino() + 1)));
    }
}
