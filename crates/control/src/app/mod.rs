//! The state of the application. Its front ends are the CLI, the APIs, the configuration files, the metrics and the service manager. They
//! make typed requests of the application, and each formats the answers in its own way.
//!
//! A request that changes the configuration is a method of [`Context`]. It is validated, journaled with its [`Origin`], and can be rolled
//! back, whichever front end made it. A request that takes long returns [`Work`], which runs in slices.

mod batch;
mod buffers;
mod clients;
mod confirmation;
mod difference;
mod events;
mod failure;
mod history;
mod load;
mod messages;
mod rates;
mod save;
mod statistics;
mod thread;
mod transition;
mod trouble;
mod warnings;
mod work;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use infra::clock::Clock;
use model::origin::Origin;

use crate::cli::{CliError, Sessions};
use crate::intent::{Change, Journal, Store};
use crate::journal::Keeper;
use crate::logging::Log;
use crate::system::System;

pub(crate) use batch::Batch;
pub use buffers::Adding;
pub(crate) use clients::{Again, Halves, Replacing, Seen};
pub use confirmation::Confirmation;
pub(crate) use events::NeighborWatch;
pub use events::{Events, Queue};
pub use failure::Failure;
pub use history::Past;
pub(crate) use load::Loading;
pub use messages::{MessageTrace, Recorded};
pub use rates::{Rate, Rates, Sample, sample};
pub(crate) use save::header;
pub use statistics::Statistics;
pub(crate) use thread::{FileThread, Thread, joined, let_go, on_a_thread};
pub(crate) use transition::{AT_ONCE, Removal};
pub use transition::{Reading, Terms, Transition};
pub use trouble::Trouble;
pub(crate) use warnings::unreachable_paths;
pub(crate) use work::Scope;
pub use work::{Abandoned, Go, Report, Unattended, Work};
pub(crate) use work::{Attended, Changes, LOOK, Lasting, SLICE, Slice};

/// The answer to a command.
pub type Output = crate::cli::Output<Context>;

/// The result of a command.
pub(crate) type Done = Result<Output, CliError>;

/// A feature of this program.
pub type Feature = dyn net::feature::Feature<Context>;

/// The state of the application.
pub struct Context {
    /// The file of the configuration that the router starts from, if any.
    pub startup_config: Option<PathBuf>,
    /// The router and its devices.
    pub system: System,
    /// The origin of the running command. Long work has its own copy of its command's origin.
    pub origin: Origin,
    /// The operator's configuration.
    pub store: Store,
    /// Past changes of the configuration.
    pub journal: Journal,
    /// Writes the journal to disk.
    pub(crate) keeper: Option<Keeper>,
    /// True while the router starts and applies its start configuration. The journal gets one entry for all these changes.
    starting: bool,
    /// The state of long changes. At most one change of the whole configuration runs at a time, and none while loads run.
    pub(crate) changes: Changes,
    /// A change of many objects that the running API request has begun. The request's connection completes the change before it
    /// answers.
    pub(crate) begun: Option<Transition>,
    /// The changes of consecutive API requests, which are made together. Empty whenever other tasks run.
    pub(crate) batch: Batch,
    /// The permission to add buffers, for one request at a time.
    growing: buffers::Growing,
    /// The applied configuration awaiting confirmation.
    confirmation: Option<Confirmation>,
    /// Packet and bit rates of the interfaces.
    pub rates: Rates,
    /// Detection of hanging workers and of resource shortages.
    pub trouble: Trouble,
    /// A warning about the last change, in one line, for its client.
    pub(crate) warning: Option<String>,
    /// True if the configuration in the start file was rolled back, and the router has neither saved nor applied this file since.
    start_is_stale: bool,
    /// Long work whose client has disconnected, and which must still run to its end.
    pub abandoned: Abandoned,
    /// True if the work whose slice ran last waits for something, such as the end of a load.
    abandoned_waits: bool,
    /// The text of startup.conf, or the command-line arguments given instead of it.
    pub startup: String,
    /// When this instance started.
    pub started: Instant,
    /// The clients of the CLI and of the APIs.
    pub sessions: Sessions,
    /// The clients of the binary API, and the events that they want.
    pub events: Events,
    /// The families in which API clients see the VRFs that they have added or removed.
    pub(crate) halves: Halves,
    /// The replacements of many objects by API clients.
    pub(crate) replacing: Replacing,
    /// The trace of messages of API clients.
    pub messages: MessageTrace,
    /// The definitions of all messages of the binary API.
    pub definitions: Rc<vapi::Table<Context>>,
    /// The state of the statistics segment: how fresh its values are.
    pub statistics: Statistics,
    /// The value of `System::interfaces_changed` when `note_interfaces` last requested fresh values in the statistics segment.
    known_interfaces: u64,
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
            changes: Changes::default(),
            begun: None,
            batch: Batch::default(),
            growing: buffers::Growing::default(),
            confirmation: None,
            start_is_stale: false,
            warning: None,
            rates: Rates::new(clock.now_ns()),
            trouble: Trouble::default(),
            abandoned: Abandoned::default(),
            abandoned_waits: false,
            startup: String::new(),
            started: Instant::now(),
            sessions: Sessions::default(),
            events: Events::default(),
            halves: Halves::default(),
            replacing: Replacing::default(),
            messages: MessageTrace::default(),
            definitions: Rc::default(),
            statistics: Statistics::default(),
            known_interfaces: 0,
            log: Log::silent(),
            clock,
            main_core: None,
        }
    }

    /// Returns the time in nanoseconds of the monotonic clock.
    pub fn now(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Returns the start file if its configuration was rolled back unconfirmed, and the router has neither saved nor applied the file
    /// since.
    pub fn stale_start(&self) -> Option<&Path> {
        self.startup_config.as_deref().filter(|_| self.start_is_stale)
    }

    /// Prepares the end of the process: lets features send their last packets, gives every device back to the kernel, and waits until the
    /// journal is written.
    pub fn shut_down(&mut self) {
        self.system.router.prepare_to_stop();
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
    pub fn transact(&mut self, changes: Vec<Change>) -> Result<(), Failure> {
        self.changes.must_be_free()?;
        let origin = self.origin.clone();
        self.finish_abandoned()?;
        let before = Journal::before(&self.store, &changes);
        self.change(changes)?;
        let edits = Journal::edits(before, &self.store);
        self.note(origin, edits);
        self.warning = self.goes_back_too();
        Ok(())
    }

    /// Changes the configuration as part of long work, without an entry in the journal. The long work adds one entry for all its
    /// changes when it is done.
    ///
    /// # Errors
    /// If the change is refused.
    pub(crate) fn change(&mut self, changes: Vec<Change>) -> Result<(), Failure> {
        self.changes.must_be_free()?;
        Ok(self.store.transact(&mut self.system, changes)?)
    }
}
