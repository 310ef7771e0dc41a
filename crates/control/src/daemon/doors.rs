//! The router's listeners: those of the CLI, of the binary API, and of the metrics.

use std::cell::RefCell;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;

use nix::sys::socket::SockType;

use super::{DaemonError, failed};
use crate::api;
use crate::app::Context;
use crate::cli::{self, CliError, Listener, Packets, Registry, Service, Use};
use crate::metrics;
use crate::native;
use crate::process;
use crate::startup::{Group, Listen, Startup, Workers};
use crate::stats;

/// The directory of VPP's sockets, which is created on demand.
const VPPS_DIRECTORY: &str = "/run/vpp";

/// The router's listeners.
pub(super) struct Doors {
    cli: Listener,
    read_only: Option<Listener>,
    /// The listeners of the API, each with true if it is read-only.
    api: Vec<(Listener, bool)>,
    /// The listeners of the native API, each with true if it is read-only.
    native: Vec<(Listener, bool)>,
    metrics: Option<TcpListener>,
    /// The listening socket of the statistics segment. It stays open until the process ends, which also removes its file.
    statistics: Option<Packets>,
}

impl Doors {
    /// Binds the listeners. They serve no clients yet.
    pub(super) fn open(startup: &Startup) -> Result<Doors, DaemonError> {
        let cli = listen(startup)?;
        let read_only = startup.unix.cli_listen_read_only.as_deref().map(|path| {
            let group = group(startup, "gid-read-only", &startup.unix.gid_read_only)?;
            Listener::unix(path, group).map_err(|e| failed(startup.about(&["cli-listen-read-only"], e)))
        });
        let metrics = startup.metrics.listen.map(|address| {
            let what = |e| format!("cannot serve metrics on {address}: {e}");
            metrics::listen(address).map_err(|e| failed(startup.about(&["listen"], what(e))))
        });
        let api = listen_for_api(startup)?;
        let native = listen_for_native(startup)?;
        let statistics = listen_for_statistics(startup)?;
        let (read_only, metrics) = (read_only.transpose()?, metrics.transpose()?);
        Ok(Doors { cli, read_only, api, native, metrics, statistics })
    }

    /// Serves clients. If the CLI listens on TCP, returns its address. Also returns the socket that must stay open until the
    /// process ends.
    pub(super) fn serve(
        self,
        startup: &Startup,
        registry: Rc<Registry<Context>>,
        messages: Rc<vapi::Table<Context>>,
        context: &Rc<RefCell<Context>>,
    ) -> Result<(Option<SocketAddr>, Option<Packets>), DaemonError> {
        let prompt = format!("{} ", startup.unix.cli_prompt.trim_end());
        let sessions = context.borrow().sessions.clone();
        let service = Service { prompt, idle: startup.unix.cli_idle_timeout, sessions, ..Service::default() };
        let address = self.cli.address();
        if let Some(listener) = self.read_only {
            let service = Service { read_only: true, ..service.clone() };
            tokio::task::spawn_local(cli::serve(listener, registry.clone(), context.clone(), service));
        }
        tokio::task::spawn_local(api::watch(messages.clone(), context.clone()));
        for (listener, read_only) in self.api {
            let (table, commands, turns) = (messages.clone(), registry.clone(), service.turns.clone());
            let service = api::Service { table, commands, read_only, idle: service.idle, turns };
            tokio::task::spawn_local(api::serve(listener, context.clone(), service));
        }
        let of_native = native::Service::new(registry.clone(), service.idle, service.turns.clone());
        for (listener, read_only) in self.native {
            tokio::task::spawn_local(native::serve(listener, context.clone(), of_native.twin(read_only)));
        }
        tokio::task::spawn_local(cli::serve(self.cli, registry, context.clone(), service));
        if let Some(listener) = self.metrics {
            metrics::start(listener, context)?;
        }
        if let Some(listener) = &self.statistics {
            let settings = stats::Settings {
                size: startup.statistics.size,
                per_node: startup.statistics.per_node,
                interval: startup.statistics.interval,
                merged: matches!(startup.cpu.workers, Workers::Default | Workers::Count(0)),
            };
            stats::start(listener, context, settings).map_err(|e| {
                failed(
                    startup.about(&["statseg size"], format_args!("cannot make the statistics segment: {e}")),
                )
            })?;
        }
        Ok((address, self.statistics))
    }
}

fn listen(startup: &Startup) -> Result<Listener, DaemonError> {
    make_runtime_dir(startup)?;
    let listener = match &startup.unix.cli_listen {
        Listen::Socket(path) => Listener::unix(path, group(startup, "gid", &startup.unix.gid)?),
        Listen::Tcp(address) => {
            if !address.ip().is_loopback() {
                tracing::warn!(
                    "the CLI has no password: everybody who reaches {address} may configure this router"
                );
            }
            Listener::tcp(*address)
        }
    };
    listener.map_err(|e| failed(startup.about(&["cli-listen"], e)))
}

/// Binds the sockets of the binary API. If startup.conf does not configure the API and the default socket cannot be bound, logs a warning
/// and leaves it out.
///
/// # Errors
/// If a configured socket cannot be bound.
fn listen_for_api(startup: &Startup) -> Result<Vec<(Listener, bool)>, DaemonError> {
    let hello = api::hello();
    let mut bound = Vec::new();
    for (path, read_only, parameter) in
        [(&startup.api.socket, false, "socket-name"), (&startup.api.read_only, true, "socket-name-read-only")]
    {
        let Some(path) = path else { continue };
        let directory = path.parent().filter(|_| path.starts_with(VPPS_DIRECTORY));
        let made = directory.map_or(Ok(()), process::make_directory);
        let group = match read_only {
            true => group(startup, "gid-read-only", &startup.unix.gid_read_only)?,
            false => group(startup, "gid", &startup.unix.gid)?,
        };
        let setting = format!("socksvr {{ {parameter} ... }}");
        let by = Use { hello: &hello, kind: SockType::Stream, setting: &setting };
        let listener = made
            .map_err(|e| CliError::new(e.to_string()))
            .and_then(|()| Listener::unix_for(path, group, &by));
        match listener {
            Ok(listener) => bound.push((listener, read_only)),
            Err(e) if startup.api.asked || read_only => {
                return Err(failed(startup.about(&[parameter, "default"], e)));
            }
            Err(e) => tracing::warn!("the binary API is not served: {e}"),
        }
    }
    Ok(bound)
}

/// Binds the sockets of the native API.
fn listen_for_native(startup: &Startup) -> Result<Vec<(Listener, bool)>, DaemonError> {
    let unix = &startup.unix;
    let sockets = [
        (&startup.native.socket, "socket-name", group(startup, "gid", &unix.gid)?, false),
        (
            &startup.native.read_only,
            "socket-name-read-only",
            group(startup, "gid-read-only", &unix.gid_read_only)?,
            true,
        ),
    ];
    let mut bound = Vec::new();
    for (path, parameter, group, read_only) in sockets {
        let Some(path) = path else { continue };
        let setting = format!("native-api {{ {parameter} ... }}");
        let by = Use { hello: native::HELLO, kind: SockType::Stream, setting: &setting };
        let listener = Listener::unix_for(path, group, &by);
        let at = format!("native-api {parameter}");
        bound.push((listener.map_err(|e| failed(startup.about(&[&at], e)))?, read_only));
    }
    Ok(bound)
}

/// Binds the socket of the statistics segment. If startup.conf does not configure the segment and the default socket cannot be bound, logs
/// a warning and leaves the socket out.
fn listen_for_statistics(startup: &Startup) -> Result<Option<Packets>, DaemonError> {
    let Some(path) = &startup.statistics.socket else { return Ok(None) };
    let directory = path.parent().filter(|_| path.starts_with(VPPS_DIRECTORY));
    let made = directory.map_or(Ok(()), process::make_directory);
    let group = group(startup, "gid", &startup.unix.gid)?;
    let listener = made
        .map_err(|e| CliError::new(e.to_string()))
        .and_then(|()| Packets::bind(path, group, "statseg { socket-name ... }"));
    match listener {
        Ok(listener) => Ok(Some(listener)),
        Err(e) if startup.statistics.asked => {
            Err(failed(startup.about(&["statseg socket-name", "statseg default"], e)))
        }
        Err(e) => {
            tracing::warn!("the statistics segment is not served: {e}");
            Ok(None)
        }
    }
}

/// Creates the run-time directory if a socket or the pidfile is in it. Creates no other directory: its name may be
/// mistyped.
fn make_runtime_dir(startup: &Startup) -> Result<(), DaemonError> {
    let directory = &startup.unix.runtime_dir;
    let socket = match &startup.unix.cli_listen {
        Listen::Socket(path) => Some(path),
        Listen::Tcp(_) => None,
    };
    let unix = &startup.unix;
    let others = [&unix.cli_listen_read_only, &unix.pidfile, &startup.api.socket, &startup.api.read_only];
    let others = others.into_iter().chain([&startup.statistics.socket]);
    let others = others.chain([&startup.native.socket, &startup.native.read_only]);
    let others = others.into_iter().flatten();
    if !socket.into_iter().chain(others).any(|path| path.starts_with(directory)) {
        return Ok(());
    }
    process::make_directory(directory).map_err(|e| {
        let what = format_args!("cannot create the directory {}: {e}", directory.display());
        failed(startup.about(&["runtime-dir"], what))
    })
}

/// Returns the ID of the group that may use a socket of the CLI.
fn group(startup: &Startup, parameter: &str, given: &Option<Group>) -> Result<Option<u32>, DaemonError> {
    let Some(group) = given else { return Ok(None) };
    let id = group.id().map_err(|e| failed(startup.about(&[parameter], e)))?;
    if id.is_none() {
        let what = format_args!("no such group on this machine: the socket keeps the group of the process");
        tracing::warn!("{}", startup.about(&[parameter], what));
    }
    Ok(id)
}

pub(super) fn where_listening(startup: &Startup) -> String {
    match &startup.unix.cli_listen {
        Listen::Socket(path) => path.display().to_string(),
        Listen::Tcp(address) => address.to_string(),
    }
}
