//! The router's listeners: those of the CLI, of the APIs, of the metrics, and of the statistics segment.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;

use nix::sys::socket::SockType;

use super::{DaemonError, failed};
use crate::api;
use crate::app::Context;
use crate::cli::{self, CliError, Listener, Packets, Registry, Role, Service, Use};
use crate::metrics;
use crate::native;
use crate::process;
use crate::startup::{Listen, Startup, Workers, for_role};
use crate::stats;

/// The directory of VPP's sockets, which is created on demand.
const VPPS_DIRECTORY: &str = "/run/vpp";

/// The router's listeners.
pub(super) struct Doors {
    cli: Listener,
    /// The listeners of the CLI for roles other than admin.
    limited: Vec<(Role, Listener)>,
    api: Vec<(Role, Listener)>,
    native: Vec<(Role, Listener)>,
    /// The TCP port of the native API.
    tls: Option<native::tls::Port>,
    metrics: Option<TcpListener>,
    /// The listening socket of the statistics segment. It stays open, with its file, until the process ends.
    statistics: Option<Packets>,
}

impl Doors {
    /// Binds the listeners. They serve no clients yet.
    pub(super) fn open(startup: &Startup) -> Result<Doors, DaemonError> {
        let cli = listen(startup)?;
        let limited = startup.unix.cli_listen_for.iter().map(|(role, path)| {
            let listener = Listener::unix(path, group(startup, *role)?);
            let at = for_role("cli-listen", *role);
            Ok((*role, listener.map_err(|e| failed(startup.about(&[&at], e)))?))
        });
        let limited = limited.collect::<Result<_, DaemonError>>()?;
        let metrics = startup.metrics.listen.map(|address| {
            let what = |e| format!("cannot serve metrics on {address}: {e}");
            metrics::listen(address).map_err(|e| failed(startup.about(&["listen"], what(e))))
        });
        let api = listen_for_api(startup)?;
        let native = listen_for_native(startup)?;
        let tls = &startup.native.tls;
        let tls = tls.listen.map(|address| {
            native::tls::Port::open(address, tls).map_err(|(parameter, why)| {
                failed(startup.about(&[&format!("native-api {parameter}"), &parameter], why))
            })
        });
        let statistics = listen_for_statistics(startup)?;
        Ok(Doors {
            cli,
            limited,
            api,
            native,
            tls: tls.transpose()?,
            metrics: metrics.transpose()?,
            statistics,
        })
    }

    /// Serves clients. Returns the CLI's address if the CLI listens on TCP, and the socket of the statistics segment, which must stay open
    /// until the process ends.
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
        for (role, listener) in self.limited {
            let service = Service { role, ..service.clone() };
            tokio::task::spawn_local(cli::serve(listener, registry.clone(), context.clone(), service));
        }
        tokio::task::spawn_local(api::watch(messages.clone(), context.clone()));
        for (role, listener) in self.api {
            let (table, commands, turns) = (messages.clone(), registry.clone(), service.turns.clone());
            let service = api::Service { table, commands, role, idle: service.idle, turns };
            tokio::task::spawn_local(api::serve(listener, context.clone(), service));
        }
        let of_native = Rc::new(native::Service::new(registry.clone(), service.idle, service.turns.clone()));
        for (role, listener) in self.native {
            tokio::task::spawn_local(native::serve(listener, role, context.clone(), of_native.clone()));
        }
        if let Some(port) = self.tls {
            tokio::task::spawn_local(native::serve_certified(port.start()?, context.clone(), of_native));
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
        Listen::Socket(path) => Listener::unix(path, group(startup, Role::Admin)?),
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

/// Binds the sockets of the binary API. If startup.conf does not configure the socket for admins, and its default cannot be bound, logs a
/// warning and leaves this socket out.
///
/// # Errors
/// If a configured socket cannot be bound.
fn listen_for_api(startup: &Startup) -> Result<Vec<(Role, Listener)>, DaemonError> {
    let hello = api::hello();
    let mut bound = Vec::new();
    for (role, path) in &startup.api.sockets {
        let parameter = for_role("socket-name", *role);
        let directory = path.parent().filter(|_| path.starts_with(VPPS_DIRECTORY));
        let made = directory.map_or(Ok(()), process::make_directory);
        let group = group(startup, *role)?;
        let setting = format!("socksvr {{ {parameter} ... }}");
        let by = Use { hello: &hello, kind: SockType::Stream, setting: &setting };
        let listener = made
            .map_err(|e| CliError::new(e.to_string()))
            .and_then(|()| Listener::unix_for(path, group, &by));
        match listener {
            Ok(listener) => bound.push((*role, listener)),
            Err(e) if startup.api.asked || !role.is_admin() => {
                return Err(failed(startup.about(&[&parameter, "default"], e)));
            }
            Err(e) => tracing::warn!("the binary API is not served at its default socket: {e}"),
        }
    }
    Ok(bound)
}

/// Binds the sockets of the native API.
fn listen_for_native(startup: &Startup) -> Result<Vec<(Role, Listener)>, DaemonError> {
    let mut bound = Vec::new();
    for (role, path) in &startup.native.sockets {
        let parameter = for_role("socket-name", *role);
        let setting = format!("native-api {{ {parameter} ... }}");
        let by = Use { hello: native::HELLO, kind: SockType::Stream, setting: &setting };
        let listener = Listener::unix_for(path, group(startup, *role)?, &by);
        let at = format!("native-api {parameter}");
        bound.push((*role, listener.map_err(|e| failed(startup.about(&[&at], e)))?));
    }
    Ok(bound)
}

/// Binds the socket of the statistics segment. If startup.conf does not configure the segment and the default socket cannot be bound, logs
/// a warning and leaves the socket out.
fn listen_for_statistics(startup: &Startup) -> Result<Option<Packets>, DaemonError> {
    let Some(path) = &startup.statistics.socket else { return Ok(None) };
    let directory = path.parent().filter(|_| path.starts_with(VPPS_DIRECTORY));
    let made = directory.map_or(Ok(()), process::make_directory);
    let group = group(startup, Role::Admin)?;
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
    let others = [&startup.unix.pidfile, &startup.statistics.socket].into_iter().flatten();
    let sockets = [&startup.unix.cli_listen_for, &startup.api.sockets, &startup.native.sockets];
    let others = others.chain(sockets.into_iter().flat_map(BTreeMap::values));
    if !socket.into_iter().chain(others).any(|path| path.starts_with(directory)) {
        return Ok(());
    }
    process::make_directory(directory).map_err(|e| {
        let what = format_args!("cannot create the directory {}: {e}", directory.display());
        failed(startup.about(&["runtime-dir"], what))
    })
}

/// Returns the ID of the group that may use the sockets for a role; `None` if none is set, or if it is VPP's group `vpp` and this machine
/// does not have it.
fn group(startup: &Startup, role: Role) -> Result<Option<u32>, DaemonError> {
    let Some(group) = startup.unix.groups.get(&role) else { return Ok(None) };
    let parameter = for_role("gid", role);
    let id = group.id().map_err(|e| failed(startup.about(&[&parameter], e)))?;
    if id.is_none() {
        let what = format_args!("no such group on this machine: the socket keeps the group of the process");
        tracing::warn!("{}", startup.about(&[&parameter], what));
    }
    Ok(id)
}

pub(super) fn where_listening(startup: &Startup) -> String {
    match &startup.unix.cli_listen {
        Listen::Socket(path) => path.display().to_string(),
        Listen::Tcp(address) => address.to_string(),
    }
}
