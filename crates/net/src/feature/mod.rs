//! Features. Each is one folder of code, and one line in the program's list of features.
//!
//! A [`Feature`] adds its nodes to the graph while the graph is built. It registers its commands, interface settings, configuration
//! sections and metrics. No other code names a feature.

mod attached;
mod backing;
mod catalog;
pub mod message;
mod show;
mod vpp;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use buf::bpf::Program;
use graph::{Builder, GraphError};
use model::cli::{Args, CliError, Declared, Output, Registry, Values};
use model::key::Key;
use model::metrics::Metric;
use model::object::Change;
use model::store::Store;

use crate::Tables;
use crate::ip::{Address, IpPrefix};
use crate::objects::Host;
use crate::router::{Hooks, Router};

pub use attached::{Attached, Configured, Counter, Part};
pub use backing::{
    AnyBacking, Backed, Backing, Begun, Interfaces, Opened, Prepared, Unopened, Unready, is_numbered,
    number_of, numbered,
};
pub use catalog::{Catalog, Decisions, Entry, Exercise, Objects, Page, Section, Variation};
pub use show::{Shown, no_ip6, show, show_counted};
pub use vpp::{Foreign, Instead, NodeReason, VppReason};

/// The state of a program with a router, for the commands of features.
pub trait App: Values + Sized + 'static {
    /// The running router that the objects configure, or a substitute in tests.
    type World: Host;

    /// Returns the router.
    fn router(&self) -> &Router;

    /// Returns the router for actions that are not configuration, such as clearing counters.
    fn router_mut(&mut self) -> &mut Router;

    /// Returns the store of the operator's configuration.
    fn store(&self) -> &Store<Self::World>;

    /// Changes the operator's configuration: makes all changes or none.
    ///
    /// # Errors
    /// If the change is refused.
    fn transact(&mut self, changes: Vec<Change<Self::World>>) -> Result<(), CliError>;

    /// Returns a setting of an interface, as it is configured.
    ///
    /// # Errors
    /// If there is no such interface.
    fn configured<T: Configured>(&self, interface: &str) -> Result<T, CliError>;

    /// Changes a setting of an interface.
    ///
    /// # Errors
    /// If the change is refused.
    fn change_setting<T: Configured>(
        &mut self,
        interface: &str,
        change: impl FnOnce(&mut T),
    ) -> Result<(), CliError>;

    /// Enables or disables a feature of an arc on an interface, as `set interface feature` does.
    ///
    /// # Errors
    /// If the change is refused.
    fn switch_feature(&mut self, interface: &str, arc: &str, feature: &str, on: bool)
    -> Result<(), CliError>;

    /// Makes an interface called `name`, and outputs the name. The command's arguments `mac` and `index`, if given, are the Ethernet
    /// address and the index of the interface. Errors refer to the argument or word `about`.
    ///
    /// # Errors
    /// If the interface is refused.
    fn create_interface(
        &mut self,
        a: &Args,
        about: &str,
        name: &str,
        backing: impl Backing<Self::World>,
    ) -> Result<Output<Self>, CliError>;

    /// Removes the interface called `name`, with all objects that depend on it. Fails if the interface's backing is not a `T`: the
    /// operator has then probably mistyped the name. Errors refer to the argument `about`.
    ///
    /// # Errors
    /// If the removal is refused.
    fn delete_interface<T: Backing<Self::World>>(
        &mut self,
        a: &Args,
        about: &str,
        name: &str,
    ) -> Result<Output<Self>, CliError>;

    /// Returns the time in nanoseconds of the monotonic clock, which is also the workers' clock.
    fn now(&self) -> u64;

    /// Runs a command whose syntax has `[filter <filter:word>]`, a tcpdump expression. Calls `then` with the filter after it is compiled;
    /// without an expression, calls `then` at once with `None`.
    ///
    /// # Errors
    /// Without an expression, the errors of `then`. The job in the returned [`Output`] reports errors in the expression.
    fn with_filter(
        &mut self,
        a: &Args,
        then: impl FnOnce(&mut Self, &Args, Option<Program>) -> Result<Output<Self>, CliError> + 'static,
    ) -> Result<Output<Self>, CliError>;

    /// Creates or replaces the file `path`, and makes it readable for its owner and group. Errors refer to the command's argument `name`.
    /// Only a regular file is replaced, and links are not followed. A separate thread calls `allows` and then creates the file. This thread
    /// may block, while the main thread continues with other work. After the file is created, the main thread calls `then`.
    ///
    /// # Errors
    /// If the thread cannot be started. The job in the returned [`Output`] reports all other errors.
    fn create_file(
        &mut self,
        a: &Args,
        name: &'static str,
        path: &Path,
        allows: impl FnOnce(&Path) -> io::Result<()> + Send + 'static,
        then: impl FnOnce(&mut Self, &Args, File) -> Result<Output<Self>, CliError> + 'static,
    ) -> Result<Output<Self>, CliError>;
}

/// The directory of sockets whose names are relative paths. The program declares the directory as a state of the router, before any feature
/// requests it. The default is the directory for temporary files.
pub struct RuntimeDir(pub PathBuf);

impl Default for RuntimeDir {
    fn default() -> RuntimeDir {
        RuntimeDir(std::env::temp_dir())
    }
}

/// A class of log messages, which are enabled and disabled together.
#[derive(Clone, Copy, Debug)]
pub struct LogClass {
    /// Name of the class.
    pub name: &'static str,
    /// Modules of the class. All their submodules belong to the class, too.
    pub modules: &'static [&'static str],
}

/// A feature of a program with a router.
pub trait Feature<C: App>: Sync {
    /// Returns the feature's unique name: one word in lower case.
    fn name(&self) -> &'static str;

    /// Returns the feature's description, in one sentence.
    fn about(&self) -> &'static str;

    /// Returns the name of the corresponding VPP plugin in `startup.conf`; `None` if VPP has no plugin for this.
    fn plugin(&self) -> Option<&'static str> {
        None
    }

    /// Returns the feature's class of log messages (`set logging class`). The default class is `router`.
    fn log_class(&self) -> Option<LogClass> {
        None
    }

    /// Adds the feature's nodes, and the state that the nodes share with the main thread.
    ///
    /// # Errors
    /// Fails if the graph refuses a node, or a connection to another node.
    fn install(&self, _: &mut Builder, _: &Tables, _: &mut Hooks) -> Result<(), GraphError> {
        Ok(())
    }

    /// Registers the feature's commands, settings, configuration and metrics.
    fn register(&self, _: &mut Registrar<'_, C>) {}

    /// Adds the feature's messages of VPP's binary API.
    fn messages(&self, _: &mut vapi::Table<C>) {}
}

/// Collects the declarations of features. Those in `left_out` are disabled: their commands and fields are refused, with
/// the reason.
pub fn declare<C: App>(
    features: &[&dyn Feature<C>],
    left_out: &[&dyn Feature<C>],
    commands: &mut Registry<C>,
) -> Catalog<C::World> {
    let mut catalog = Catalog::default();
    for feature in features {
        feature.register(&mut Registrar { commands, catalog: &mut catalog });
    }
    for feature in left_out {
        let (mut refused, mut unused) = (Registry::new(), Catalog::default());
        feature.register(&mut Registrar { commands: &mut refused, catalog: &mut unused });
        let name = feature.name();
        let why = format!(
            "feature {name} is disabled: to enable it, write plugins {{ plugin {name} {{ enable }} }} in startup.conf and restart"
        );
        commands.leave_out(refused, why.clone());
        catalog.left_out.push((unused, format!("is not available: {why}")));
    }
    catalog
}

/// Receives the declarations of a feature.
pub struct Registrar<'r, C: App> {
    commands: &'r mut Registry<C>,
    catalog: &'r mut Catalog<C::World>,
}

impl<'r, C: App> Registrar<'r, C> {
    /// Declares a command: its syntax, a help text of one or two sentences, and its function. Viewers may run the command if its first word
    /// is `show`, otherwise only admins. A method of the result changes the required [role](model::cli::Role).
    pub fn command(
        &mut self,
        syntax: &str,
        help: &str,
        run: impl Fn(&mut C, &Args) -> Result<Output<C>, CliError> + 'static,
    ) -> Declared<'_> {
        self.commands.add(syntax, help, run)
    }

    /// Declares a setting of interfaces.
    pub fn setting<T: Configured>(&mut self) {
        self.catalog.setting::<T>();
    }

    /// Declares an interface type.
    pub fn interfaces(&mut self, interfaces: Interfaces<C::World>) {
        self.catalog.interfaces.push(interfaces);
    }

    /// Declares a section of the configuration file, with the kind of its objects. The kind's name becomes an argument type of
    /// commands: an argument of this type is the name of such an object.
    pub fn section(&mut self, section: Section<C::World>) {
        self.commands.objects(section.kind.name);
        self.catalog.sections.push(section);
    }

    /// Declares an entry of the section `settings` of the configuration file.
    pub fn entry(&mut self, entry: Entry<C::World>) {
        self.catalog.entries.push(entry);
    }

    /// Adds a read-only command to `show tech-support`.
    pub fn supports(&mut self, command: String) {
        self.commands.supports(command);
    }

    /// Declares metrics that are not per interface, and the function that adds their samples.
    pub fn metrics(&mut self, metrics: &[&'static Metric], page: Page) {
        self.catalog.metrics(metrics, page);
    }

    /// Declares a variation for whole-router tests.
    pub fn variation(&mut self, variation: Variation) {
        self.catalog.variations.push(variation);
    }

    /// Declares VPP commands that this feature replaces: Volley has another command with the same effect, or none yet.
    pub fn foreign(&mut self, commands: &[Foreign]) {
        commands.iter().for_each(|foreign| self.commands.refuse(foreign.beginning, foreign.refusal()));
        self.catalog.foreign.extend(commands);
    }

    /// Declares VPP's names for drop reasons that have other names in this feature.
    pub fn vpp_reasons(&mut self, reasons: &[VppReason]) {
        self.catalog.vpp_reasons.extend(reasons);
    }

    /// Declares the feature's actions in the whole-graph fuzzer.
    pub fn exercise(&mut self, exercise: Exercise) {
        self.catalog.exercises.push(exercise);
    }
}

/// Returns the lowest number that no interface name with this prefix has.
pub fn free_number<C: App>(c: &C, prefix: &str) -> u32 {
    let taken = |n: &u32| c.router().interface_named(&format!("{prefix}{n}")).is_some();
    (0..).find(|n| !taken(n)).unwrap_or(u32::MAX)
}

/// Returns the prefix in the argument `name`. Refuses set host bits: the operator has probably mistyped the address or the length.
///
/// # Errors
/// If the argument is missing, or host bits are set.
pub fn exact_prefix(a: &Args, name: &str) -> Result<IpPrefix, CliError> {
    let said: Address = a.need(name)?;
    let meant = said.network();
    match meant.address() == said.address {
        true => Ok(meant),
        false => Err(a.fault(name, format!("host bits are set: did you mean {meant}?"))),
    }
}

/// Removes the operator's object with this key, if it exists.
///
/// # Errors
/// If the removal is refused.
pub fn unset<C: App>(c: &mut C, key: Key) -> Result<Output<C>, CliError> {
    let had = c.store().get(&key).is_some();
    c.transact(had.then(|| Change::remove(key)).into_iter().collect())?;
    Ok(Output::none())
}

/// Changes a setting of the interface that is the command's argument `interface`. Errors refer to that argument.
///
/// # Errors
/// If the change is refused.
pub fn set<C: App, T: Configured>(
    c: &mut C,
    a: &Args,
    change: impl FnOnce(&mut T),
) -> Result<Output<C>, CliError> {
    let interface = a.need::<String>("interface")?;
    c.change_setting(&interface, change).map_err(|e| a.about("interface", e))?;
    Ok(Output::none())
}
