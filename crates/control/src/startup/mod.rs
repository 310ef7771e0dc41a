//! The start configuration, in the syntax of VPP's `startup.conf`.
//!
//! ```text
//! unix { log /var/log/volley.log  cli-listen /run/volley/cli.sock }
//! cpu { main-core 0 corelist-workers 1 }   # a comment
//! ```
//!
//! Text becomes tokens (`lex`), a tree (`tree`), and by the table of `parameters` a [`Startup`]. What VPP knows and
//! Volley has no use for is accepted with one warning; what nobody knows is an error. All faults are reported at
//! once, each with its place. `docs/reference/startup-conf.md` lists every parameter.

mod cpu;
mod lex;
mod parameters;
mod read;
mod reference;
#[cfg(test)]
mod tests;
mod tree;
mod unused;
mod value;

pub(crate) use cpu::not_there;
pub use cpu::{Cpu, Placement, Workers};
pub use model::place::{Fault, Place};
pub use parameters::MOST_BUFFERS;
pub use reference::{Entry, entries, reference};
pub use value::{Group, Listen};

use crate::logging;
use lex::{Source, Token, lex};
use std::{
    collections::BTreeMap,
    fmt, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The `unix` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unix {
    /// Offer the CLI on standard input and output as well, and end with it.
    pub interactive: bool,
    /// There, read whole lines without editing them.
    pub cli_line_mode: bool,
    /// The log's file, instead of standard error.
    pub log: Option<PathBuf>,
    /// A file of CLI commands to run at the start.
    pub startup_config: Option<PathBuf>,
    /// Where the CLI listens.
    pub cli_listen: Listen,
    /// A socket of the CLI where only what changes nothing is carried out.
    pub cli_listen_read_only: Option<PathBuf>,
    /// Whether the CLI may listen where others than this machine reach it.
    pub cli_allow_remote: bool,
    /// How long a client of the CLI has done nothing when it gives way to another, should there be no room.
    pub cli_idle_timeout: Duration,
    /// The CLI's prompt.
    pub cli_prompt: String,
    /// The group that may use the CLI's socket.
    pub gid: Option<Group>,
    /// The group that may use the socket for reading.
    pub gid_read_only: Option<Group>,
    /// Where to write the number of the process.
    pub pidfile: Option<PathBuf>,
    /// Where relative paths of sockets and of the pidfile lie.
    pub runtime_dir: PathBuf,
    /// Where the journal is kept across restarts; `None`: nowhere.
    pub state_dir: Option<PathBuf>,
    /// Whether a core dump holds all mapped memory.
    pub full_coredump: bool,
    /// The largest core dump in bytes, `u64::MAX` for any; `None` leaves the limit as it is.
    pub coredump_size: Option<u64>,
}

/// Where sockets lie, unless another directory is said.
const RUNTIME_DIR: &str = "/run/volley";
/// Where the router with these sockets keeps what is to outlive it.
const STATE_DIR: &str = "/var/lib/volley";

/// The `buffers` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// How many buffers each NUMA node has.
    pub per_numa: usize,
}

/// The `metrics` section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Where Prometheus finds them; `None`: nowhere.
    pub listen: Option<SocketAddr>,
    /// Whether others than this machine may reach it.
    pub allow_remote: bool,
}

/// The `plugins` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugins {
    /// What holds for a plugin that is not named.
    pub default_enabled: bool,
    /// Plugins by name, in order; a later entry counts.
    pub named: Vec<(String, bool)>,
}

impl Default for Plugins {
    fn default() -> Plugins {
        Plugins { default_enabled: true, named: Vec::new() }
    }
}

impl Plugins {
    /// Whether a feature of this name is wanted, which VPP has in this plugin, if it is one there. `default` is about VPP's plugins
    /// only: a file that names all plugins that it wants names nothing that VPP always has.
    pub fn want(&self, name: &str, plugin: Option<&str>) -> bool {
        let said = self.named.iter().rev().find(|(said, _)| said == name || Some(said.as_str()) == plugin);
        said.map_or(self.default_enabled || plugin.is_none(), |(_, enabled)| *enabled)
    }
}

/// The start configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Startup {
    /// Process, log and CLI.
    pub unix: Unix,
    /// Threads and cores.
    pub cpu: Cpu,
    /// Packet buffers.
    pub buffers: Buffers,
    /// How much memory routes may take, in bytes, if that is said.
    pub route_memory: Option<u64>,
    /// What Prometheus sees.
    pub metrics: Metrics,
    /// What is logged.
    pub logging: logging::Settings,
    /// Which plugins are wanted.
    pub plugins: Plugins,
    /// Where each parameter was given last, by its name in the table, for what turns out wrong later.
    pub places: BTreeMap<&'static str, Place>,
    /// What was read, in full.
    pub text: String,
    /// What was accepted but has no effect, for the log; each begins with its place.
    pub warnings: Vec<String>,
}

impl Default for Startup {
    /// The configuration that an empty file gives.
    fn default() -> Self {
        Self::unresolved().resolved()
    }
}

impl Startup {
    /// Reads `text`; `file` is the name that messages give to it.
    ///
    /// # Errors
    /// Everything that is wrong, in order of place.
    pub fn parse(text: &str, file: &str) -> Result<Self, Vec<Fault>> {
        let (tokens, faults) = lex(text, &Source::File(file.into()));
        Ok(Self { text: text.to_owned(), ..Self::build(tokens, faults)? })
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// That the file cannot be read, or everything that is wrong in it.
    pub fn load(path: &Path) -> Result<Self, Vec<Fault>> {
        let file: Arc<str> = path.display().to_string().into();
        let start = |line, column| Place::File { file: file.clone(), line, column };
        let bytes = fs::read(path)
            .map_err(|e| vec![Fault::new(&Place::Whole(file.clone()), format!("cannot be read: {e}"))])?;
        match std::str::from_utf8(&bytes) {
            Ok(text) => Self::parse(text, &file),
            Err(e) => {
                let valid = String::from_utf8_lossy(bytes.get(..e.valid_up_to()).unwrap_or_default());
                let column =
                    valid.lines().last().filter(|_| !valid.ends_with('\n')).map_or(0, |l| l.chars().count());
                let place = start(valid.matches('\n').count() + 1, column + 1);
                Err(vec![Fault::new(&place, "expected text in UTF-8")])
            }
        }
    }

    /// Reads the arguments of a command line, as `unix { interactive cli-listen 127.0.0.1:5002 }`; an argument may hold
    /// several words.
    ///
    /// # Errors
    /// Everything that is wrong, each with the number of its argument.
    pub fn from_args(words: &[String]) -> Result<Self, Vec<Fault>> {
        let (mut tokens, mut faults) = (Vec::new(), Vec::new());
        for (i, word) in words.iter().enumerate() {
            let (more, wrong) = lex(word, &Source::Argument(i + 1));
            tokens.extend(more);
            faults.extend(wrong);
        }
        Ok(Self { text: words.join(" "), ..Self::build(tokens, faults)? })
    }

    /// A message about a parameter, with the place where it was given, if it was. There may be several that set the same.
    pub fn about(&self, parameters: &[&str], message: impl fmt::Display) -> String {
        match parameters.iter().find_map(|name| self.places.get(name)) {
            Some(place) => format!("{place}: {message}"),
            None => message.to_string(),
        }
    }

    /// The groups that this machine does not know, each with its place.
    pub fn unknown_groups(&self) -> Vec<String> {
        let groups = [("gid", &self.unix.gid), ("gid-read-only", &self.unix.gid_read_only)];
        let wrong = |(name, group): (&str, &Option<Group>)| {
            let what = match group.as_ref()?.id() {
                Ok(Some(_)) => return None,
                Ok(None) => "there is no such group: the socket keeps the process's".into(),
                Err(e) => e,
            };
            Some(self.about(&[name], format_args!("on this machine: {what}")))
        };
        groups.into_iter().filter_map(wrong).collect()
    }

    fn build(tokens: Vec<Token>, mut faults: Vec<Fault>) -> Result<Self, Vec<Fault>> {
        let (sections, wrong) = tree::parse(tokens);
        faults.extend(wrong);
        let (startup, wrong) = read::read(&sections, Self::unresolved());
        faults.extend(wrong);
        faults.sort_by(|a, b| a.place.cmp(&b.place));
        if faults.is_empty() { Ok(startup.resolved()) } else { Err(faults) }
    }

    /// The defaults, with paths that still need the run-time directory before them.
    fn unresolved() -> Self {
        Self {
            unix: Unix {
                interactive: false,
                log: None,
                startup_config: None,
                cli_line_mode: false,
                cli_listen: Listen::Socket("cli.sock".into()),
                cli_listen_read_only: None,
                cli_allow_remote: false,
                cli_idle_timeout: Duration::from_secs(60),
                cli_prompt: "volley# ".into(),
                gid: None,
                gid_read_only: None,
                pidfile: None,
                runtime_dir: RUNTIME_DIR.into(),
                state_dir: None,
                full_coredump: false,
                coredump_size: None,
            },
            cpu: Cpu::default(),
            buffers: Buffers { per_numa: 16_384 },
            route_memory: None,
            metrics: Metrics::default(),
            logging: logging::Settings::default(),
            plugins: Plugins::default(),
            places: BTreeMap::new(),
            text: String::new(),
            warnings: Vec::new(),
        }
    }

    /// Puts the run-time directory before the paths that are relative to it.
    fn resolved(mut self) -> Self {
        let unix = &mut self.unix;
        if let Listen::Socket(path) = &mut unix.cli_listen {
            *path = unix.runtime_dir.join(&*path);
        }
        for path in [&mut unix.pidfile, &mut unix.cli_listen_read_only].into_iter().flatten() {
            *path = unix.runtime_dir.join(&*path);
        }
        // Of several routers on a machine, the others need directories of their own.
        if matches!(&unix.cli_listen, Listen::Socket(path) if path.parent() == Some(Path::new(RUNTIME_DIR))) {
            unix.state_dir.get_or_insert_with(|| STATE_DIR.into());
        }
        self
    }
}
