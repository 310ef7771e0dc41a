//! What a feature is: a folder with all of it, and one line in the list of a program's features.
//!
//! A [`Feature`] adds its nodes to the graph while that is built, and registers what an operator sees of it: commands, settings of
//! interfaces, sections of the configuration, metrics. Nothing else names a feature.

mod attached;
mod backing;
mod catalog;
mod show;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use buf::bpf::Program;
use graph::{Builder, GraphError};
use model::cli::{Args, CliError, Output, Registry, Values};
use model::key::Key;
use model::metrics::Metric;
use model::store::{Change, Store};

use crate::Tables;
use crate::objects::Host;
use crate::router::{Hooks, Router};

pub use attached::{Attached, Configured};
pub use backing::{
    AnyBacking, Backed, Backing, Begun, Interfaces, Opened, Prepared, Unopened, Unready, is_numbered,
    number_of, numbered,
};
pub use catalog::{Catalog, Entry, Exercise, Objects, Page, Section, Variation};
pub use show::{Shown, show, show_counted};

/// What commands of features work on: the state of a program with a router.
pub trait App: Values + Sized + 'static {
    /// What objects are applied to.
    type World: Host;

    /// The router.
    fn router(&self) -> &Router;

    /// The router, for what is no configuration: to clear counters, for example.
    fn router_mut(&mut self) -> &mut Router;

    /// What the operator asked for.
    fn store(&self) -> &Store<Self::World>;

    /// Changes what the operator asked for, all or nothing.
    ///
    /// # Errors
    /// Why it was refused.
    fn transact(&mut self, changes: Vec<Change<Self::World>>) -> Result<(), CliError>;

    /// Changes a setting of an interface.
    ///
    /// # Errors
    /// Why it was refused.
    fn change_setting<T: Configured>(
        &mut self,
        interface: &str,
        change: impl FnOnce(&mut T),
    ) -> Result<(), CliError>;

    /// Makes an interface of this name, and says that. The arguments `mac` and `index` of the command are its Ethernet address and its index,
    /// where they are given; a refusal is about the argument or word `about`.
    ///
    /// # Errors
    /// Why it was refused.
    fn create_interface(
        &mut self,
        a: &Args,
        about: &str,
        name: &str,
        backing: impl Backing<Self::World>,
    ) -> Result<Output<Self>, CliError>;

    /// Removes the interface of this name with all that depends on it. One that is not made of a `T` stays: its name was a slip. A refusal
    /// is about the argument `about`.
    ///
    /// # Errors
    /// Why it was refused.
    fn delete_interface<T: Backing<Self::World>>(
        &mut self,
        a: &Args,
        about: &str,
        name: &str,
    ) -> Result<Output<Self>, CliError>;

    /// Nanoseconds of the monotonic clock, which is the workers' clock.
    fn now(&self) -> u64;

    /// Carries out a command whose syntax has `[filter <filter:word>]`, an expression of tcpdump's. `then` goes on with the program that
    /// takes such packets; without an expression at once.
    ///
    /// # Errors
    /// Those of `then` where there is no expression. What is wrong with one, the output's job says.
    fn with_filter(
        &mut self,
        a: &Args,
        then: impl FnOnce(&mut Self, &Args, Option<Program>) -> Result<Output<Self>, CliError> + 'static,
    ) -> Result<Output<Self>, CliError>;

    /// Makes a file anew, for its owner and group, as a command asks for by its argument `name`. What is there already is replaced if it
    /// is an ordinary file; links are not followed. Others have their turn until the file system has answered; then `then` goes on.
    /// `allows` is asked before anything is made or replaced, on a thread that may wait and has no other files.
    ///
    /// # Errors
    /// When there can be no thread. What else goes wrong, the output's job says.
    fn create_file(
        &mut self,
        a: &Args,
        name: &'static str,
        path: &Path,
        allows: impl FnOnce(&Path) -> io::Result<()> + Send + 'static,
        then: impl FnOnce(&mut Self, &Args, File) -> Result<Output<Self>, CliError> + 'static,
    ) -> Result<Output<Self>, CliError>;
}

/// State of a router: the directory in which sockets are whose names are relative. A program that has one declares it before its
/// features ask for it; otherwise it is the directory for temporary files.
pub struct RuntimeDir(pub PathBuf);

impl Default for RuntimeDir {
    fn default() -> RuntimeDir {
        RuntimeDir(std::env::temp_dir())
    }
}

/// A part of the program, whose messages are wanted or not together.
#[derive(Clone, Copy, Debug)]
pub struct LogClass {
    /// Its name.
    pub name: &'static str,
    /// The modules that it is made of: these, and what is in them.
    pub modules: &'static [&'static str],
}

/// Something that a program with a router may do.
pub trait Feature<C: App>: Sync {
    /// Its name, which no other feature has: a word in small letters.
    fn name(&self) -> &'static str;

    /// What it does, in one sentence.
    fn about(&self) -> &'static str;

    /// The plugin that has it in VPP, by the name that startup.conf gives it there; `None` if it is no plugin there.
    fn plugin(&self) -> Option<&'static str> {
        None
    }

    /// The class of its messages (`set logging class`); of those of a feature without one, the class is `router`.
    fn log_class(&self) -> Option<LogClass> {
        None
    }

    /// Adds its nodes, and what they share with the main thread.
    ///
    /// # Errors
    /// When they do not fit to the rest.
    fn install(&self, _: &mut Builder, _: &Tables, _: &mut Hooks) -> Result<(), GraphError> {
        Ok(())
    }

    /// Declares what an operator sees of it.
    fn register(&self, r: &mut Registrar<'_, C>);
}

/// Declares what features say of themselves, in a program that has these and leaves out those.
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

/// Takes what features say of themselves.
pub struct Registrar<'r, C: App> {
    commands: &'r mut Registry<C>,
    catalog: &'r mut Catalog<C::World>,
}

impl<'r, C: App> Registrar<'r, C> {
    /// Declares a command by its grammar, what it does in a sentence or two, and the function that runs it.
    pub fn command(
        &mut self,
        syntax: &str,
        help: &str,
        run: impl Fn(&mut C, &Args) -> Result<Output<C>, CliError> + 'static,
    ) {
        self.commands.add(syntax, help, run);
    }

    /// Declares a setting of interfaces.
    pub fn setting<T: Configured>(&mut self) {
        self.catalog.setting::<T>();
    }

    /// Declares interfaces that are made of something.
    pub fn interfaces(&mut self, interfaces: Interfaces<C::World>) {
        self.catalog.interfaces.push(interfaces);
    }

    /// Declares a section of the configuration's file, and the kind of the objects in it. From then on the kind's name is a type of
    /// arguments: the name of such an object.
    pub fn section(&mut self, section: Section<C::World>) {
        self.commands.objects(section.kind.name);
        self.catalog.sections.push(section);
    }

    /// Declares an entry of the section `settings` of the configuration's file.
    pub fn entry(&mut self, entry: Entry<C::World>) {
        self.catalog.entries.push(entry);
    }

    /// Adds a command that changes nothing to `show tech-support`.
    pub fn supports(&mut self, command: String) {
        self.commands.supports(command);
    }

    /// Declares metrics that are not of interfaces, and what collects their samples page by page.
    pub fn metrics(&mut self, metrics: &[&'static Metric], page: Page) {
        self.catalog.metrics(metrics, page);
    }

    /// Declares something beside settings that tests of the whole router change between packets.
    pub fn variation(&mut self, variation: Variation) {
        self.catalog.variations.push(variation);
    }

    /// Declares what the fuzzer of the whole graph does with the feature, beside trying its settings.
    pub fn exercise(&mut self, exercise: Exercise) {
        self.catalog.exercises.push(exercise);
    }
}

/// The lowest number that no interface of a name with this prefix has.
pub fn free_number<C: App>(c: &C, prefix: &str) -> u32 {
    let taken = |n: &u32| c.router().interface_named(&format!("{prefix}{n}")).is_some();
    (0..).find(|n| !taken(n)).unwrap_or(u32::MAX)
}

/// Takes back what the operator asked for under a key, if there was anything.
///
/// # Errors
/// Why it was refused.
pub fn unset<C: App>(c: &mut C, key: Key) -> Result<Output<C>, CliError> {
    let had = c.store().get(&key).is_some();
    c.transact(had.then(|| Change::remove(key)).into_iter().collect())?;
    Ok(Output::none())
}

/// Changes a setting of the interface that a command names; a refusal is about that.
///
/// # Errors
/// Why it was refused.
pub fn set<C: App, T: Configured>(
    c: &mut C,
    a: &Args,
    change: impl FnOnce(&mut T),
) -> Result<Output<C>, CliError> {
    let interface = a.need::<String>("interface")?;
    c.change_setting(&interface, change).map_err(|e| a.about("interface", e))?;
    Ok(Output::none())
}
