//! The declarations of features, for configuration files, validation and metrics.

use std::net::IpAddr;

use buf::bpf::Program;
use model::key::{Key, Kind, KindInfo};
use model::metrics::{Lines, Metric};
use model::object::{Object, Tree, Value, World};
use model::schema::{Described, Form, Named, Row, Valued};
use model::yaml::{At, Fields, Node, Reader, Text};
use serde_json::json;

use super::attached::{self, Attached, Configured, Part, kind};
use super::backing::{Backed, Interfaces};
use super::vpp::{Foreign, VppReason};
use crate::router::{InterfaceInfo, Router, RouterError};

/// A configuration file that is being read. Collects the objects that the file configures.
pub trait Objects<W> {
    /// Returns the reader, which collects errors.
    fn reader(&mut self) -> &mut Reader;

    /// Adds an object to the collection. `at` is its place in the file, for error messages.
    fn ask(&mut self, at: At, key: Key, value: Value<W>);
}

/// A section of the configuration file.
pub struct Section<W> {
    /// Name of the section.
    pub name: &'static str,
    /// True if the section comes before the interfaces in a written file, because they depend on its objects.
    pub first: bool,
    /// The kind of the section's objects.
    pub kind: &'static KindInfo,
    /// Reads the section.
    pub read: fn(&mut dyn Objects<W>, &Node),
    /// Writes one object.
    pub write: fn(&mut Text<'_>, &Key, &Value<W>),
    /// Returns the table rows for an object's fields in the reference documentation.
    pub rows: fn() -> Vec<Row>,
    /// Returns the JSON Schema of an object that is a single value without fields. The schema of any other object follows from its `rows`.
    pub json: fn() -> serde_json::Value,
    /// Returns valid objects for tests.
    pub examples: fn() -> Vec<(Key, Value<W>)>,
}

impl<W: World> Section<W> {
    /// Returns a section with objects of the type `T`. In the file, each object is a name with the object's fields below it.
    pub fn of<T: Described + Kind<Key = String> + Object<W>>(name: &'static str) -> Section<W> {
        Section {
            name,
            first: false,
            kind: T::INFO,
            read: |file: &mut dyn Objects<W>, node: &Node| {
                for (name, at, node) in file.reader().entries(node) {
                    if let Some(value) = T::schema().read(file.reader(), at, node) {
                        file.ask(at, Key::with::<T>(name), value.into());
                    }
                }
            },
            write: |t, key, value| {
                if let (Some(name), Some(value)) = (key.get::<T>(), value.get::<T>()) {
                    t.object(&name, |t| T::schema().write(t, value));
                }
            },
            rows: || T::schema().rows(""),
            json: serde_json::Value::default,
            examples: || {
                let names = ["one", "two"].into_iter().cycle();
                names
                    .zip(T::schema().examples())
                    .map(|(name, value)| (Key::with::<T>(name), value.into()))
                    .collect()
            },
        }
    }

    /// Returns a section as [`of`](Self::of), whose names are more than texts: numbers, or interfaces.
    pub fn named<T: Named + Object<W>>(name: &'static str) -> Section<W> {
        Section {
            name,
            first: false,
            kind: T::INFO,
            read: |file: &mut dyn Objects<W>, node: &Node| {
                for (name, at, node) in file.reader().entries(node) {
                    let name = T::names().name(file.reader(), at, name);
                    if let (Some(name), Some(value)) = (name, T::schema().read(file.reader(), at, node)) {
                        file.ask(at, Key::of::<T>(&name), value.into());
                    }
                }
            },
            write: |t, key, value| {
                if let (Some(name), Some(value)) = (key.get::<T>(), value.get::<T>()) {
                    t.object(&T::names().line(&name), |t| T::schema().write(t, value));
                }
            },
            rows: || T::schema().rows(""),
            json: serde_json::Value::default,
            examples: || {
                let names = T::names().examples().into_iter().cycle();
                let values = T::schema().examples().into_iter();
                names.zip(values).map(|(name, value)| (Key::of::<T>(&name), value.into())).collect()
            },
        }
    }

    /// Returns a section with objects of the type `T`: a map from names to single values.
    pub fn values<T: Valued + Object<W>>(name: &'static str) -> Section<W> {
        Section {
            name,
            first: false,
            kind: T::INFO,
            read: read_values::<W, T>,
            write: write_value::<W, T>,
            rows: Vec::new,
            json: || T::form().json(),
            examples: value_examples::<W, T>,
        }
    }
}

/// Reads a map from names to values.
fn read_values<W: World, T: Valued + Object<W>>(file: &mut dyn Objects<W>, node: &Node) {
    let (names, form) = (T::names(), T::form());
    for (name, at, node) in file.reader().entries(node) {
        let name = names.name(file.reader(), at, name);
        let value = form.read(file.reader(), node);
        if let (Some(name), Some(value)) = (name, value) {
            file.ask(at, Key::of::<T>(&name), T::with(value).into());
        }
    }
}

/// Writes a name and its value.
fn write_value<W: World, T: Valued + Object<W>>(t: &mut Text<'_>, key: &Key, value: &Value<W>) {
    if let (Some(name), Some(value)) = (key.get::<T>(), value.get::<T>()) {
        T::form().write(t, &T::names().line(&name), &value.value());
    }
}

fn value_examples<W: World, T: Valued + Object<W>>() -> Vec<(Key, Value<W>)> {
    T::examples().into_iter().map(|(name, value)| (Key::of::<T>(&name), value.into())).collect()
}

type ReadEntry<W> = Box<dyn Fn(&mut dyn Objects<W>, &Node) + Send + Sync>;
type WriteEntry<W> = Box<dyn Fn(&mut Text<'_>, &Tree<W>) + Send + Sync>;
type EntryExamples<W> = Box<dyn Fn() -> Vec<(Key, Value<W>)> + Send + Sync>;

/// An entry of the section `settings` of the configuration file, for the whole router.
pub struct Entry<W> {
    /// Name of the entry.
    pub name: &'static str,
    /// Reads the entry.
    pub read: ReadEntry<W>,
    /// Writes the entry, if the tree contains its object.
    pub write: WriteEntry<W>,
    /// The table rows for the entry in the reference documentation.
    pub rows: Vec<Row>,
    /// Valid objects for tests.
    pub examples: EntryExamples<W>,
}

impl<W: World> Entry<W> {
    /// Returns an entry for a single object with this key. The entry contains the object's fields. If all fields have their default values,
    /// there is no object.
    pub fn one<T: Described + Kind + Object<W>>(
        name: &'static str,
        help: &'static str,
        key: Key,
    ) -> Entry<W> {
        let (read, written) = (key.clone(), key.clone());
        let map = Row::new(name, "a map", help, json!({ "type": "object" }));
        Entry {
            name,
            read: Box::new(move |file, node| {
                let value = T::schema().read(file.reader(), node.at, node);
                if let Some(value) = value.filter(|value| !T::schema().is_usual(value)) {
                    file.ask(node.at, read.clone(), value.into());
                }
            }),
            write: Box::new(move |t, tree| {
                if let Some(value) = tree.get(&written).and_then(|value| value.get::<T>()) {
                    t.map(name, |t| T::schema().write(t, value));
                }
            }),
            rows: std::iter::once(map).chain(T::schema().rows(&format!("{name}."))).collect(),
            examples: Box::new(move || {
                let all = T::schema().examples().into_iter();
                all.map(|value| (key.clone(), value.into())).collect()
            }),
        }
    }
}

impl<W: World> Entry<W> {
    /// Returns an entry with objects of the type `T`: a map from names to values. In the reference documentation, `title` stands for a
    /// name, for example `reason`.
    pub fn values<T: Valued + Object<W>>(
        name: &'static str,
        title: &'static str,
        help: &'static str,
    ) -> Entry<W> {
        Entry {
            name,
            read: Box::new(read_values::<W, T>),
            write: Box::new(move |t, tree| {
                t.map(name, |t| {
                    tree.range(Key::all::<T>()).for_each(|(key, value)| write_value::<W, T>(t, key, value));
                });
            }),
            rows: vec![Row::new(
                name,
                format!("by {title}, {}", T::form().values()),
                help,
                json!({ "type": "object", "additionalProperties": T::form().json() }),
            )],
            examples: Box::new(value_examples::<W, T>),
        }
    }
}

/// Adds one page of the samples of a feature's metrics. The second argument is a cursor, 0 at first; the result is the cursor of the next
/// page, if any. Other work runs between pages. A page usually takes 100 µs or less, and at most 500 µs (measured with 64,000 policers).
pub type Page = fn(&Router, u32, &mut Lines) -> Option<u32>;

/// The decisions of the whole-graph fuzzer.
pub trait Decisions {
    /// Returns a number below `n`. `n` must be 1 to 256.
    fn below(&mut self, n: usize) -> usize;
    /// Returns an IP address: of the router, of another station, or unused.
    fn address(&mut self) -> IpAddr;
    /// Returns the ID of a VRF, which may not exist.
    fn table(&mut self) -> u32;
}

/// The actions of the whole-graph fuzzer on a feature, apart from changes of its settings.
#[derive(Clone, Copy)]
pub struct Exercise {
    /// Starts or restarts work of the feature that no interface setting enables, such as a capture. The filter, if there is one,
    /// selects the packets for this work.
    pub begin: fn(&mut Router, Option<Program>),
    /// Performs an action that a command of the feature could perform, such as starting a ping. The fuzzer calls it between two
    /// packets.
    pub act: fn(&mut Router, &mut dyn Decisions),
    /// Checks the results of the work that [`begin`](Exercise::begin) started, after each iteration of a worker's loop.
    ///
    /// # Errors
    /// If the results are wrong.
    pub look: fn(&mut Router) -> Result<(), String>,
}

/// State of a feature apart from its settings. Whole-router tests change this state between packets.
#[derive(Clone, Copy)]
pub struct Variation {
    /// Changes the state to the variant with this number; the feature defines the variants. Variant 0 is the initial state.
    ///
    /// # Errors
    /// If the variant cannot be set.
    pub vary: fn(&mut Router, u64) -> Result<(), RouterError>,
    /// Returns the state, for tests to compare.
    pub state: fn(&Router) -> String,
}

/// The declarations of all features.
pub struct Catalog<W: World> {
    settings: Vec<&'static dyn attached::Kind>,
    pub(super) interfaces: Vec<Interfaces<W>>,
    pub(super) sections: Vec<Section<W>>,
    pub(super) entries: Vec<Entry<W>>,
    metrics: Vec<&'static Metric>,
    pages: Vec<Page>,
    pub(super) exercises: Vec<Exercise>,
    pub(super) variations: Vec<Variation>,
    pub(super) foreign: Vec<Foreign>,
    pub(super) vpp_reasons: Vec<VppReason>,
    /// The declarations of disabled features, each with the reason why its fields are [refused](Fields::refuse).
    pub(super) left_out: Vec<(Catalog<W>, String)>,
}

impl<W: World> Default for Catalog<W> {
    fn default() -> Catalog<W> {
        Catalog {
            settings: Vec::new(),
            interfaces: Vec::new(),
            sections: Vec::new(),
            entries: Vec::new(),
            metrics: Vec::new(),
            pages: Vec::new(),
            exercises: Vec::new(),
            variations: Vec::new(),
            foreign: Vec::new(),
            vpp_reasons: Vec::new(),
            left_out: Vec::new(),
        }
    }
}

impl<W: World> Catalog<W> {
    pub(super) fn setting<T: Configured>(&mut self) {
        self.settings.push(kind::<T>());
        for metric in T::COUNTERS.iter().map(|counter| counter.metric).chain(T::METRICS.iter().copied()) {
            if !self.metrics.iter().any(|known| std::ptr::eq(*known, metric)) {
                self.metrics.push(metric);
            }
        }
    }

    pub(super) fn metrics(&mut self, metrics: &[&'static Metric], page: Page) {
        self.metrics.extend(metrics);
        self.pages.push(page);
    }

    /// Returns the sections of the configuration file.
    pub fn sections(&self) -> &[Section<W>] {
        &self.sections
    }

    /// Returns the names of sections of disabled features, each with the reason why it is [refused](Fields::refuse).
    pub fn sections_left_out(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.left_out.iter().flat_map(|(other, why)| {
            let of_interfaces = other.interfaces.iter().filter_map(|kind| kind.section);
            let names = other.sections.iter().map(|s| s.name).chain(of_interfaces);
            names.map(|name| (name, why.as_str()))
        })
    }

    /// Returns every interface type other than loopbacks and VLANs.
    pub fn interfaces(&self) -> &[Interfaces<W>] {
        &self.interfaces
    }

    /// Returns the type of interfaces with this backing.
    pub fn interfaces_by(&self, backed: &Backed<W>) -> Option<&Interfaces<W>> {
        self.interfaces.iter().find(|kind| (kind.is)(backed))
    }

    /// Returns the type of interfaces with this name.
    pub fn interfaces_named(&self, name: &str) -> Option<&Interfaces<W>> {
        self.interfaces.iter().find(|kind| (kind.names)(name).is_some())
    }

    /// Returns why this interface name is not available, if it belongs to a disabled feature.
    pub fn interfaces_left_out(&self, name: &str) -> Option<&str> {
        let (_, why) = self.left_out.iter().find(|(other, _)| other.interfaces_named(name).is_some())?;
        Some(why)
    }

    /// Returns the entries of the section `settings` of the configuration file.
    pub fn entries(&self) -> &[Entry<W>] {
        &self.entries
    }

    /// Returns the names of entries of disabled features, each with the reason why it is [refused](Fields::refuse).
    pub fn entries_left_out(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.left_out.iter().flat_map(|(other, why)| other.entries.iter().map(|e| (e.name, why.as_str())))
    }

    /// Returns the kind of objects with the name `name`; `None` if no section contains objects of this kind.
    pub fn kind(&self, name: &str) -> Option<&'static KindInfo> {
        self.sections.iter().map(|section| section.kind).find(|kind| kind.name == name)
    }

    /// Returns the functions that add samples of metrics that are not per interface.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// Returns the VPP commands that Volley lacks or has in another form, each with Volley's replacement. Only commands that concern a
    /// feature of Volley, present or planned, are included.
    pub fn foreign(&self) -> &[Foreign] {
        &self.foreign
    }

    /// Returns VPP's names for drop reasons that have other names in Volley's features.
    pub fn vpp_reasons(&self) -> &[VppReason] {
        &self.vpp_reasons
    }

    /// Returns the variations for whole-router tests.
    pub fn variations(&self) -> &[Variation] {
        &self.variations
    }

    /// Returns the actions of the whole-graph fuzzer.
    pub fn exercises(&self) -> &[Exercise] {
        &self.exercises
    }

    /// Returns all metrics of features.
    pub fn all_metrics(&self) -> &[&'static Metric] {
        &self.metrics
    }

    /// Adds an interface's samples for the metrics of all settings.
    pub fn collect(&self, router: &Router, interface: &InterfaceInfo, lines: &mut Lines) {
        self.settings.iter().for_each(|kind| kind.collect(router, interface, lines));
    }

    /// Returns the settings' parts of the output of `show ip6 interface` for an interface with these settings.
    pub fn in_show_ip6(&self, of: &Attached, router: &Router, interface: &InterfaceInfo) -> Vec<Part> {
        self.settings.iter().filter_map(|kind| kind.in_show_ip6(of, router, interface)).collect()
    }

    /// Returns the names of all settings. An interface's settings have these names as keys.
    pub fn setting_names(&self) -> impl Iterator<Item = &'static str> {
        self.settings.iter().map(|kind| kind.name())
    }

    /// Returns the table rows for all settings, for the reference documentation of an interface's fields.
    pub fn setting_rows(&self) -> Vec<Row> {
        self.settings.iter().flat_map(|kind| kind.rows()).collect()
    }

    /// Reads all settings from an interface's fields in a file.
    pub fn read(&self, r: &mut Reader, fields: &mut Fields<'_>) -> Attached {
        let mut attached = Attached::default();
        self.settings.iter().for_each(|kind| kind.read(r, fields, &mut attached));
        for (other, why) in &self.left_out {
            fields.refuse_all(r, why, |fields| _ = other.read(&mut Reader::new(""), fields));
        }
        attached
    }

    /// Returns a hint for the operator: how to enable `feature`, a feature of an arc, on an interface. `None` if no setting enables
    /// it.
    pub fn way(&self, feature: &str, interface: &str) -> Option<String> {
        self.settings.iter().find_map(|kind| kind.way(feature, interface))
    }

    /// Enables or disables a feature of an arc by name, if an interface setting supports this. Returns false if no setting does.
    pub fn switch_by_name(&self, arc: &str, feature: &str, on: bool, to: &mut Attached) -> bool {
        self.settings.iter().any(|kind| kind.switch_by_name(arc, feature, on, to))
    }

    /// Returns the values of all settings of an interface as texts, for tests to compare.
    pub fn shown(&self, router: &Router, index: u32) -> Vec<String> {
        self.settings.iter().map(|kind| kind.shown(router, index)).collect()
    }

    /// Makes the objects that the [examples](Self::examples) name.
    ///
    /// # Errors
    /// If an object cannot be made.
    pub fn make_examples(&self, router: &mut Router) -> Result<(), RouterError> {
        self.settings.iter().try_for_each(|kind| kind.make_examples(router))
    }

    /// Returns examples of each setting, for tests. Together they cover every field.
    pub fn examples(&self) -> Vec<Vec<Attached>> {
        self.settings.iter().map(|kind| kind.examples()).collect()
    }
}
