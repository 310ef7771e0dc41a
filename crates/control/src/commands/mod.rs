//! The operator's commands, in VPP's grammar. Each file declares the commands of one area, and implements them.

mod buffers;
pub mod config;
mod filter;
pub mod foreign;
mod history;
mod interface;
mod later;
mod load;
mod logging;
mod long;
mod monitor;
mod nd;
mod neighbor;
mod ping;
pub mod rates;
mod route;
mod scripts;
pub(crate) mod show;
mod trace;
pub mod trouble;
mod warnings;
pub mod whole;
mod workers;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use buf::bpf::Program;
use infra::clock::Clock;
use net::feature::{App, Backing, Configured};
use net::objects::Ability;
use net::router::Router;

use model::origin::Origin;

use crate::cli::{Args, CliError, Registry, Sessions, Values};
use crate::intent::{Change, Journal, Key, Store, Table, can_be_name};
use crate::journal::Keeper;
use crate::logging::{Level, Log, classes};
use crate::system::{Backed, Catalog, System};
use rates::Rates;
use trouble::Trouble;

/// The answer to a command.
pub type Output = crate::cli::Output<Context>;

/// The result of a command.
pub(crate) type Done = Result<Output, CliError>;

/// A feature of this program.
pub type Feature = dyn net::feature::Feature<Context>;

pub use long::Abandoned;

/// The state that commands read and change.
pub struct Context {
    /// The file of the configuration that the router starts from, if any.
    pub startup_config: Option<PathBuf>,
    /// The router and its devices.
    pub system: System,
    /// The origin of the running command. A job has a copy of the origin of its command.
    pub origin: Origin,
    /// The operator's configuration.
    pub store: Store,
    /// Past changes of the configuration.
    pub journal: Journal,
    /// Writes the journal to disk.
    pub(crate) keeper: Option<Keeper>,
    /// True while the start configuration is applied, which is one entry of the journal.
    starting: bool,
    /// The turns of long changes.
    changes: long::Changes,
    /// The turn to add buffers.
    growing: buffers::Growing,
    /// The applied configuration awaiting confirmation.
    unconfirmed: Option<config::Unconfirmed>,
    /// Packet and bit rates of the interfaces.
    pub rates: Rates,
    /// Hanging workers and shortages.
    pub trouble: Trouble,
    /// Running pings.
    pub pings: Vec<ping::Pinging>,
    /// A message to the client of the last command.
    notice: Option<String>,
    /// True if the configuration in the start file was rolled back, and the file was not replaced since.
    start_is_stale: bool,
    /// The filter of "show trace".
    trace_filter: Option<Rc<trace::Filter>>,
    /// The jobs whose clients have disconnected, and which must still run to their end.
    pub abandoned: Abandoned,
    /// The text of startup.conf, or the command-line arguments given instead of it.
    pub startup: String,
    /// When this instance started.
    pub started: Instant,
    /// The clients of the CLI.
    pub sessions: Sessions,
    /// The log and the event log.
    pub log: Arc<Log>,
    /// The clock, the same as in the data plane.
    pub clock: Clock,
    /// The core of the main thread, if it is pinned.
    pub main_core: Option<usize>,
}

impl Context {
    /// Returns the state of a router without configuration.
    pub fn new(system: System) -> Context {
        let clock = Clock::new();
        Context {
            startup_config: None,
            system,
            origin: Origin::default(),
            store: Store::default(),
            journal: Journal::default(),
            keeper: None,
            starting: false,
            changes: long::Changes::default(),
            growing: buffers::Growing::default(),
            unconfirmed: None,
            start_is_stale: false,
            notice: None,
            rates: Rates::new(clock.now_ns()),
            trouble: Trouble::default(),
            pings: Vec::new(),
            trace_filter: None,
            abandoned: Abandoned::default(),
            startup: String::new(),
            started: Instant::now(),
            sessions: Sessions::default(),
            log: Log::silent(),
            clock,
            main_core: None,
        }
    }

    /// Returns the time in nanoseconds of the monotonic clock.
    pub fn now(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Returns the start file if its configuration was rolled back unconfirmed.
    pub fn stale_start(&self) -> Option<&Path> {
        self.startup_config.as_deref().filter(|_| self.start_is_stale)
    }

    /// True if an applied configuration awaits confirmation.
    pub fn awaits_confirmation(&self) -> bool {
        self.unconfirmed.is_some()
    }

    /// Prepares the end of the process: tells hosts that the router is no longer a default router, gives every device back to the kernel,
    /// and waits until the journal is written.
    pub fn shut_down(&mut self) {
        // All at once: waiting for the workers takes as long for many interfaces as for one.
        let all: Vec<u32> = self.system.router.interfaces().map(|i| i.index).collect();
        self.system.router.cease_advertising(&all);
        let all: Vec<u32> =
            self.system.router.interfaces().filter(|i| i.parent == i.index).map(|i| i.index).collect();
        for index in all {
            if let Err(e) = self.system.router.remove_interface(index) {
                tracing::error!("{e}");
            }
        }
        if let Some(keeper) = &mut self.keeper {
            keeper.end();
        }
        // The process ends. Freeing these piece by piece would only take time.
        std::mem::forget((std::mem::take(&mut self.store), std::mem::take(&mut self.journal)));
    }

    /// Changes the configuration, all or nothing.
    ///
    /// # Errors
    /// If the change is refused.
    pub fn transact(&mut self, changes: Vec<Change>) -> Result<(), CliError> {
        self.changes.must_be_free()?;
        let origin = self.origin.clone();
        self.finish_abandoned();
        let before = Journal::before(&self.store, &changes);
        self.change(changes)?;
        let edits = Journal::edits(before, &self.store);
        self.note(origin, edits);
        self.notice = self.goes_back_too();
        Ok(())
    }

    /// Returns a warning for a change that is made while a configuration awaits confirmation: a rollback of that configuration undoes this
    /// change, too. `None` if no configuration awaits confirmation.
    fn goes_back_too(&self) -> Option<String> {
        let left = self.unconfirmed.as_ref()?.left();
        Some(format!(
            "! the applied configuration awaits confirmation: without config confirm, both it and this change are rolled back in {left} \
             s\n"
        ))
    }

    /// Changes the configuration for a job, which adds its own entry to the journal when it is done.
    fn change(&mut self, changes: Vec<Change>) -> Result<(), CliError> {
        self.changes.must_be_free()?;
        self.store.transact(&mut self.system, changes).map_err(|e| CliError::new(e.to_string()))
    }

    /// Removes the object with this key, if there is one.
    ///
    /// # Errors
    /// If the removal is refused.
    fn unset(&mut self, key: Key) -> Result<Output, CliError> {
        let had = self.store.get(&key).is_some();
        self.transact(had.then(|| Change::remove(key)).into_iter().collect())?;
        Ok(Output::none())
    }
}

impl App for Context {
    type World = System;

    fn router(&self) -> &Router {
        &self.system.router
    }

    fn router_mut(&mut self) -> &mut Router {
        &mut self.system.router
    }

    fn store(&self) -> &Store {
        &self.store
    }

    fn transact(&mut self, changes: Vec<Change>) -> Result<(), CliError> {
        self.transact(changes)
    }

    fn change_setting<T: Configured>(
        &mut self,
        interface: &str,
        change: impl FnOnce(&mut T),
    ) -> Result<(), CliError> {
        let (key, mut interface) = interface::find(self, interface)?;
        let mut value = interface.attached.get::<T>();
        change(&mut value);
        interface.attached.put(value);
        self.transact(vec![Change::set(key, interface)])
    }

    fn create_interface(&mut self, a: &Args, about: &str, name: &str, backing: impl Backing<System>) -> Done {
        interface::create_backed(self, a, about, name, Backed::by(backing))
    }

    fn delete_interface<T: Backing<System>>(&mut self, a: &Args, about: &str, name: &str) -> Done {
        interface::delete(self, a, about, name, |spec| spec.get::<T>().is_some())
    }

    fn now(&self) -> u64 {
        self.now()
    }

    fn with_filter(
        &mut self,
        a: &Args,
        then: impl FnOnce(&mut Context, &Args, Option<Program>) -> Result<Output, CliError> + 'static,
    ) -> Result<Output, CliError> {
        filter::with_filter(self, a, then)
    }

    fn create_file(
        &mut self,
        a: &Args,
        name: &'static str,
        path: &Path,
        allows: impl FnOnce(&Path) -> io::Result<()> + Send + 'static,
        then: impl FnOnce(&mut Context, &Args, File) -> Result<Output, CliError> + 'static,
    ) -> Result<Output, CliError> {
        later::create_file(a, name, path, allows, then)
    }
}

impl Values for Context {
    fn values(&self, kind: &str) -> Vec<String> {
        match kind {
            "interface" => self.system.router.interfaces().map(|i| i.name.clone()).collect(),
            "table" => {
                let ids = self.system.router.vrfs().from(0).map(|(table, _)| table.to_string());
                ids.chain(Table::names(self.store.tree())).collect()
            }
            "node" => self.system.router.graph().nodes().iter().map(|n| n.name.to_string()).collect(),
            "punt-reason" => self.system.abilities.punt_reasons().iter().map(|r| r.to_string()).collect(),
            _ => match self.system.abilities.catalog.kind(kind) {
                Some(kind) => self.store.tree().range(kind.all()).filter_map(|(key, _)| key.name()).collect(),
                None => constant(kind),
            },
        }
    }

    fn has(&self, kind: &str, name: &str) -> bool {
        match kind {
            "interface" => self.system.router.interface_named(name).is_some(),
            "log-level" => Level::parse(name).is_some(),
            _ => match self.system.abilities.catalog.kind(kind) {
                Some(kind) => self.store.get(&kind.named(name)).is_some(),
                None => self.values(kind).iter().any(|value| value == name),
            },
        }
    }

    fn number(&self, kind: &str, name: &str) -> Option<u32> {
        if kind == "table" { Table::named(name, &self.store.snapshot().view()) } else { None }
    }

    fn notice(&mut self) -> Option<String> {
        self.notice.take()
    }

    fn acts_for(&mut self, origin: Origin) {
        self.origin = origin;
    }
}

/// Returns all names of a kind whose names are the same in every router; empty for other kinds.
fn constant(kind: &str) -> Vec<String> {
    match kind {
        "log-class" => classes().iter().map(|class| class.name.to_string()).collect(),
        "log-level" => Level::names().map(str::to_string).collect(),
        _ => Vec::new(),
    }
}

/// The names that commands can use when they are checked without a running router. Every possible name of an interface or object is
/// accepted.
pub struct Names {
    nodes: Vec<String>,
    punt_reasons: Vec<String>,
    catalog: Arc<Catalog>,
}

impl Names {
    /// Returns the names for a router with the same nodes and punt reasons as `router`, and with the objects of this catalog.
    pub fn of(router: &Router, catalog: Arc<Catalog>) -> Names {
        let graph = router.graph();
        Names {
            nodes: graph.nodes().iter().map(|node| node.name.to_string()).collect(),
            punt_reasons: graph.punt_reasons().iter().map(|reason| reason.name.to_string()).collect(),
            catalog,
        }
    }
}

impl Values for Names {
    fn values(&self, kind: &str) -> Vec<String> {
        match kind {
            "node" => self.nodes.clone(),
            "punt-reason" => self.punt_reasons.clone(),
            _ => constant(kind),
        }
    }

    fn has(&self, kind: &str, name: &str) -> bool {
        match kind {
            "interface" => can_be_name(name, &self.catalog),
            "log-level" => Level::parse(name).is_some(),
            _ => self.catalog.kind(kind).is_some() || self.values(kind).iter().any(|value| value == name),
        }
    }

    fn number(&self, kind: &str, name: &str) -> Option<u32> {
        // Any number will do.
        (kind == "table" && Table::can_be_name(name)).then_some(0)
    }
}

/// Returns the commands of every router, without those of features.
pub(crate) fn own() -> Registry<Context> {
    let mut r = Registry::new();
    crate::cli::exec(&mut r);
    interface::register(&mut r);
    route::register(&mut r);
    load::register(&mut r);
    nd::register(&mut r);
    neighbor::register(&mut r);
    show::register(&mut r);
    trace::register(&mut r);
    config::register(&mut r);
    history::register(&mut r);
    ping::register(&mut r);
    monitor::register(&mut r);
    logging::register(&mut r);
    workers::register(&mut r);
    buffers::register(&mut r);
    scripts::register(&mut r);
    foreign::register(&mut r);
    r
}

/// The longest interval of a command, in seconds.
const LONGEST_INTERVAL: f64 = 3600.0;

/// Returns the argument `name` as an interval. Its value is in seconds, such as 0.2, and must be at least `least`. The default is one
/// second.
fn interval(args: &Args, name: &str, least: f64) -> Result<Duration, CliError> {
    let Some(word) = args.get::<String>(name) else { return Ok(Duration::from_secs(1)) };
    let seconds = word.parse::<f64>().ok().filter(|s| (least..=LONGEST_INTERVAL).contains(s));
    let fault = || args.fault(name, format!("an interval must be {least} to {LONGEST_INTERVAL} seconds"));
    seconds.map(Duration::from_secs_f64).ok_or_else(fault)
}

/// Returns the VRF given by an argument; the default is 0.
fn table(args: &Args, name: &str) -> u32 {
    args.get(name).unwrap_or(0)
}

#[cfg(test)]
mod config_tests;
#[cfg(test)]
mod history_tests;
#[cfg(test)]
mod ip6_tests;
#[cfg(test)]
mod list_tests;
#[cfg(test)]
mod removal_tests;
#[cfg(test)]
mod rollback_tests;
#[cfg(test)]
mod route_tests;
#[cfg(test)]
mod save_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
pub(crate) mod tests;
