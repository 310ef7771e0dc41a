//! The start configuration, in the syntax of VPP's `startup.conf`.
//!
//! ```text
//! unix { log /var/log/volley.log  cli-listen /run/volley/cli.sock }
//! cpu { main-core 0 corelist-workers 1 }   # a comment
//! ```
//!
//! The text is split into tokens (`lex`), and parsed into a tree (`tree`). With the table in `parameters`, the tree is read into a
//! [`Startup`]. A parameter of VPP without use here is accepted, with one warning; an unknown parameter is an error. All faults are
//! reported at once, each with its place. `docs/reference/startup-conf.md` lists every parameter.

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

use crate::cli::Role;
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

/// Returns the name of a parameter for a role: `socket-name` is for admins, `socket-name-operator` for operators, and
/// `socket-name-read-only` for viewers.
pub fn for_role(parameter: &str, role: Role) -> String {
    match role {
        Role::Admin => parameter.to_owned(),
        Role::Operator => format!("{parameter}-operator"),
        Role::Viewer => format!("{parameter}-read-only"),
    }
}

/// The `unix` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unix {
    /// True to offer the CLI on standard input and output, too. The router ends when the operator leaves this CLI.
    pub interactive: bool,
    /// True if the CLI on standard input reads whole lines, without editing.
    pub cli_line_mode: bool,
    /// The log file; `None` for standard error.
    pub log: Option<PathBuf>,
    /// The file with the configuration for the start: CLI commands, YAML, or JSON.
    pub startup_config: Option<PathBuf>,
    /// The socket of the CLI.
    pub cli_listen: Listen,
    /// The sockets of the CLI for roles other than admin.
    pub cli_listen_for: BTreeMap<Role, PathBuf>,
    /// True if the CLI may listen on an address that other machines can reach.
    pub cli_allow_remote: bool,
    /// Idle time after which a client of the CLI may be disconnected to make room for another.
    pub cli_idle_timeout: Duration,
    /// The CLI's prompt.
    pub cli_prompt: String,
    /// The groups that may use the sockets for a role.
    pub groups: BTreeMap<Role, Group>,
    /// The file for the process ID.
    pub pidfile: Option<PathBuf>,
    /// Directory of sockets and the pidfile, if their paths are relative.
    pub runtime_dir: PathBuf,
    /// Directory of the journal; `None` if the journal does not outlive the router.
    pub state_dir: Option<PathBuf>,
    /// True if a core dump includes all mapped memory.
    pub full_coredump: bool,
    /// The largest core dump in bytes, `u64::MAX` for any; `None` leaves the limit unchanged.
    pub coredump_size: Option<u64>,
}

/// Default directory of sockets.
const RUNTIME_DIR: &str = "/run/volley";
/// Default directory of the journal, for a router with the CLI's socket directly in [`RUNTIME_DIR`].
const STATE_DIR: &str = "/var/lib/volley";

/// Default socket of the API in the run-time directory.
const API_SOCKET: &str = "api.sock";
/// The socket of the API that VPP's clients try first.
const VPPS_SOCKET: &str = "/run/vpp/api.sock";
/// Default socket of the statistics segment in the run-time directory.
const STATISTICS_SOCKET: &str = "stats.sock";
/// The socket that programs for VPP's statistics segment try first.
const VPPS_STATISTICS: &str = "/run/vpp/stats.sock";

/// The `buffers` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Number of buffers in all: there is one pool for all NUMA nodes.
    pub per_numa: usize,
}

/// The `metrics` section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The address for Prometheus, if any.
    pub listen: Option<SocketAddr>,
    /// True if the address may be one that other machines can reach.
    pub allow_remote: bool,
}

/// The `socksvr` section: the sockets of the binary API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Api {
    /// The sockets, by role. If there are none, the API is not served.
    pub sockets: BTreeMap<Role, PathBuf>,
    /// True if startup.conf configures the socket for admins. The router does not start if it cannot open a socket that startup.conf
    /// configures.
    pub asked: bool,
    /// True to record the messages received from clients (section `api-trace`).
    pub is_recorded: bool,
}

/// The `native-api` section: the sockets and the TCP port of the native API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Native {
    /// The sockets.
    pub sockets: BTreeMap<Role, PathBuf>,
    /// The TCP port.
    pub tls: Tls,
}

/// The settings of the native API's TCP port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The address; `None` for no port.
    pub listen: Option<SocketAddr>,
    /// The PEM file with the router's certificate, followed by those of its certificate authorities, up to one that clients trust.
    pub certificate: Option<PathBuf>,
    /// The file with the key of the router's certificate (PEM).
    pub key: Option<PathBuf>,
    /// For each role, the PEM file with certificates of authorities. A client with a certificate from one of these authorities has the
    /// role. If an authority is in the files of several roles, the client has the highest of these roles.
    pub authorities: BTreeMap<Role, PathBuf>,
}

/// The `statseg` section: the statistics segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// The socket that gives the segment to readers; `None` for no segment.
    pub socket: Option<PathBuf>,
    /// True if startup.conf configures the segment. The router then does not start if it cannot open the segment's socket.
    pub asked: bool,
    /// Size of the segment in bytes.
    pub size: u64,
    /// True to add a separate entry for each counter of each node.
    pub per_node: bool,
    /// Time between two updates.
    pub interval: Duration,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics {
            socket: None,
            asked: false,
            size: 64 << 20,
            per_node: false,
            interval: Duration::from_secs(1),
        }
    }
}

/// Limits of the statistics segment.
mod statistics {
    /// The least size in bytes.
    pub const LEAST: u64 = 1 << 20;
    /// The largest size in bytes.
    pub const MOST: u64 = 1 << 30;
    /// The shortest time between updates in seconds.
    pub const SHORTEST: f64 = 0.01;
    /// The longest time between updates in seconds.
    pub const LONGEST: f64 = 3600.0;
}

/// The `plugins` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugins {
    /// True if plugins that are not named are enabled.
    pub default_enabled: bool,
    /// Plugins by name, in order; the last entry with a name counts.
    pub named: Vec<(String, bool)>,
}

impl Default for Plugins {
    fn default() -> Plugins {
        Plugins { default_enabled: true, named: Vec::new() }
    }
}

impl Plugins {
    /// True if the feature `name` is enabled; `plugin` is its plugin in VPP, if any. The default applies to VPP's plugins only: a file that
    /// lists all wanted plugins does not list features that are built into VPP.
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
    /// Limit on the memory of routes in bytes, if set.
    pub route_memory: Option<u64>,
    /// The metrics for Prometheus.
    pub metrics: Metrics,
    /// The sockets of the binary API.
    pub api: Api,
    /// The sockets of the native API.
    pub native: Native,
    /// The statistics segment.
    pub statistics: Statistics,
    /// The log.
    pub logging: logging::Settings,
    /// The wanted plugins.
    pub plugins: Plugins,
    /// The place where each parameter was last given, by its key in the table. Used for faults that are found later.
    pub places: BTreeMap<&'static str, Place>,
    /// The whole text of the start configuration, as given.
    pub text: String,
    /// Warnings for the log; each begins with its place.
    pub warnings: Vec<String>,
}

impl Default for Startup {
    /// Returns the configuration of an empty file.
    fn default() -> Self {
        Self::unresolved().resolved()
    }
}

impl Startup {
    /// Parses `text`; messages call the file `file`.
    ///
    /// # Errors
    /// All faults, in order of place.
    pub fn parse(text: &str, file: &str) -> Result<Self, Vec<Fault>> {
        let (tokens, faults) = lex(text, &Source::File(file.into()));
        Ok(Self { text: text.to_owned(), ..Self::build(tokens, faults)? })
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If the file cannot be read; or all faults in it.
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

    /// Parses the arguments of a command line, such as `unix { interactive cli-listen 127.0.0.1:5002 }`. An argument
    /// may hold several words.
    ///
    /// # Errors
    /// All faults, each with the number of its argument.
    pub fn from_args(words: &[String]) -> Result<Self, Vec<Fault>> {
        let (mut tokens, mut faults) = (Vec::new(), Vec::new());
        for (i, word) in words.iter().enumerate() {
            let (more, wrong) = lex(word, &Source::Argument(i + 1));
            tokens.extend(more);
            faults.extend(wrong);
        }
        Ok(Self { text: words.join(" "), ..Self::build(tokens, faults)? })
    }

    /// Returns a message with the place of the first of `parameters` that was given; without a place if none was given.
    pub fn about(&self, parameters: &[&str], message: impl fmt::Display) -> String {
        match parameters.iter().find_map(|name| self.places.get(name)) {
            Some(place) => format!("{place}: {message}"),
            None => message.to_string(),
        }
    }

    /// Returns a warning for each group that this machine does not know.
    pub fn unknown_groups(&self) -> Vec<String> {
        let wrong = |(role, group): (&Role, &Group)| {
            let what = match group.id() {
                Ok(Some(_)) => return None,
                Ok(None) => "no such group; the socket keeps the group of the process".into(),
                Err(e) => e,
            };
            Some(self.about(&[&for_role("gid", *role)], format_args!("on this machine: {what}")))
        };
        self.unix.groups.iter().filter_map(wrong).collect()
    }

    fn build(tokens: Vec<Token>, mut faults: Vec<Fault>) -> Result<Self, Vec<Fault>> {
        let (sections, wrong) = tree::parse(tokens);
        faults.extend(wrong);
        let (startup, wrong) = read::read(&sections, Self::unresolved());
        faults.extend(wrong);
        faults.sort_by(|a, b| a.place.cmp(&b.place));
        if faults.is_empty() { Ok(startup.resolved()) } else { Err(faults) }
    }

    /// Returns the defaults; paths are not yet joined to the run-time directory.
    fn unresolved() -> Self {
        Self {
            unix: Unix {
                interactive: false,
                log: None,
                startup_config: None,
                cli_line_mode: false,
                cli_listen: Listen::Socket("cli.sock".into()),
                cli_listen_for: BTreeMap::new(),
                cli_allow_remote: false,
                cli_idle_timeout: Duration::from_secs(60),
                cli_prompt: "volley# ".into(),
                groups: BTreeMap::new(),
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
            api: Api::default(),
            native: Native::default(),
            statistics: Statistics::default(),
            logging: logging::Settings::default(),
            plugins: Plugins::default(),
            places: BTreeMap::new(),
            text: String::new(),
            warnings: Vec::new(),
        }
    }

    /// Joins relative paths to the run-time directory, and sets the default sockets of the binary API and of the statistics segment, and
    /// the default state directory.
    fn resolved(mut self) -> Self {
        let unix = &mut self.unix;
        if let Listen::Socket(path) = &mut unix.cli_listen {
            *path = unix.runtime_dir.join(&*path);
        }
        let others = [&mut unix.pidfile, &mut self.statistics.socket].into_iter().flatten();
        let sockets = [&mut unix.cli_listen_for, &mut self.api.sockets, &mut self.native.sockets];
        for path in sockets.into_iter().flat_map(BTreeMap::values_mut).chain(others) {
            *path = unix.runtime_dir.join(&*path);
        }
        // A router with its CLI outside the run-time directory may share this directory with other routers, so it has no default sockets
        // there.
        let in_runtime_dir =
            matches!(&unix.cli_listen, Listen::Socket(path) if path.starts_with(&unix.runtime_dir));
        if !self.api.asked && in_runtime_dir {
            self.api.sockets.insert(Role::Admin, unix.runtime_dir.join(API_SOCKET));
        }
        // If the API has the path of VPP's socket, the statistics segment has the path of VPP's socket, too.
        let like_vpp = self.api.sockets.get(&Role::Admin).is_some_and(|path| path == Path::new(VPPS_SOCKET));
        let own = || match in_runtime_dir || !like_vpp {
            true => unix.runtime_dir.join(STATISTICS_SOCKET),
            false => VPPS_STATISTICS.into(),
        };
        if in_runtime_dir || self.statistics.asked {
            self.statistics.socket.get_or_insert_with(own);
        }
        // Several routers on a machine must not share the default directory.
        if matches!(&unix.cli_listen, Listen::Socket(path) if path.parent() == Some(Path::new(RUNTIME_DIR))) {
            unix.state_dir.get_or_insert_with(|| STATE_DIR.into());
        }
        self
    }
}
