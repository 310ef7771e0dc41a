//! What features have said of themselves, for configuration files, validation and metrics.

use buf::bpf::Program;
use model::key::{Key, Kind, KindInfo};
use model::metrics::{Lines, Metric};
use model::object::{Object, Value, World};
use model::schema::{Described, Row};
use model::store::Tree;
use model::yaml::{At, Fields, Node, Reader, Text};

use super::attached::{self, Attached, Configured, kind};
use super::backing::{Backed, Interfaces};
use crate::router::{InterfaceInfo, Router, RouterError};

/// A file being read: where objects go that it asks for.
pub trait Objects<W> {
    /// Reads, and collects what is wrong.
    fn reader(&mut self) -> &mut Reader;

    /// An object that the file asks for at this place.
    fn ask(&mut self, at: At, key: Key, value: Value<W>);
}

/// A section of the configuration's file.
pub struct Section<W> {
    /// Its name.
    pub name: &'static str,
    /// Whether it stands at the beginning, before interfaces, which are made by what it says.
    pub first: bool,
    /// The kind of the objects in it.
    pub kind: &'static KindInfo,
    /// Reads the section.
    pub read: fn(&mut dyn Objects<W>, &Node),
    /// Writes one object of it.
    pub write: fn(&mut Text<'_>, &Key, &Value<W>),
    /// The fields of an object.
    pub rows: fn() -> Vec<Row>,
}

impl<W: World> Section<W> {
    /// Objects of type `T` by their names, each with its fields.
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
        }
    }
}

type ReadEntry<W> = Box<dyn Fn(&mut dyn Objects<W>, &Node) + Send + Sync>;
type WriteEntry<W> = Box<dyn Fn(&mut Text<'_>, &Tree<W>) + Send + Sync>;
type EntryExamples<W> = Box<dyn Fn() -> Vec<(Key, Value<W>)> + Send + Sync>;

/// An entry of the section `settings` of the configuration's file: what holds for all of the router.
pub struct Entry<W> {
    /// Its name.
    pub name: &'static str,
    /// Reads it.
    pub read: ReadEntry<W>,
    /// Writes it, if the tree has it.
    pub write: WriteEntry<W>,
    /// Its lines of the reference.
    pub rows: Vec<Row>,
    /// Objects for tests, all of them right.
    pub examples: EntryExamples<W>,
}

impl<W: World> Entry<W> {
    /// The object of this key, with its fields. One that says nothing is not there.
    pub fn one<T: Described + Kind + Object<W>>(
        name: &'static str,
        help: &'static str,
        key: Key,
    ) -> Entry<W> {
        let (read, written) = (key.clone(), key.clone());
        let map = Row { name: name.into(), values: "a map".into(), usual: String::new(), help: help.into() };
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

/// Adds a page of a feature's samples, from a cursor on, which is 0 at first. Returns the cursor of the next page, if there is one. Others
/// have their turn between two pages: a page takes 100 µs or less, and 500 µs at most (measured: 64,000 policers).
pub type Page = fn(&Router, u32, &mut Lines) -> Option<u32>;

/// What the fuzzer of the whole graph does with a feature, beside trying its settings.
#[derive(Clone, Copy)]
pub struct Exercise {
    /// Begins what no setting switches on, anew if it has begun; if there is a filter, for packets that it takes.
    pub begin: fn(&mut Router, Option<Program>),
    /// Looks at what came of it, after each turn of a worker.
    ///
    /// # Errors
    /// What is wrong with it.
    pub look: fn(&mut Router) -> Result<(), String>,
}

/// Something of a feature's, beside its settings, that tests of the whole router change between packets.
#[derive(Clone, Copy)]
pub struct Variation {
    /// Changes it by a number, any but 0; 0: it is as at the start.
    ///
    /// # Errors
    /// When it cannot be so.
    pub vary: fn(&mut Router, u64) -> Result<(), RouterError>,
    /// How it is, for tests to compare.
    pub state: fn(&Router) -> String,
}

/// What features have said of themselves.
pub struct Catalog<W: World> {
    settings: Vec<&'static dyn attached::Kind>,
    pub(super) interfaces: Vec<Interfaces<W>>,
    pub(super) sections: Vec<Section<W>>,
    pub(super) entries: Vec<Entry<W>>,
    metrics: Vec<&'static Metric>,
    pages: Vec<Page>,
    pub(super) exercises: Vec<Exercise>,
    pub(super) variations: Vec<Variation>,
    /// What disabled features would say, and why it is [refused](Fields::refuse).
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
            left_out: Vec::new(),
        }
    }
}

impl<W: World> Catalog<W> {
    pub(super) fn setting<T: Configured>(&mut self) {
        self.settings.push(kind::<T>());
        self.metrics.extend(T::METRICS);
    }

    pub(super) fn metrics(&mut self, metrics: &[&'static Metric], page: Page) {
        self.metrics.extend(metrics);
        self.pages.push(page);
    }

    /// Sections of the configuration's file.
    pub fn sections(&self) -> &[Section<W>] {
        &self.sections
    }

    /// Names of the sections of disabled features, and why they are [refused](Fields::refuse).
    pub fn sections_left_out(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.left_out.iter().flat_map(|(other, why)| {
            let of_interfaces = other.interfaces.iter().filter_map(|kind| kind.section);
            let names = other.sections.iter().map(|s| s.name).chain(of_interfaces);
            names.map(|name| (name, why.as_str()))
        })
    }

    /// Every type of interfaces, beside loopbacks and VLANs.
    pub fn interfaces(&self) -> &[Interfaces<W>] {
        &self.interfaces
    }

    /// The type of interfaces that are made of this.
    pub fn interfaces_by(&self, backed: &Backed<W>) -> Option<&Interfaces<W>> {
        self.interfaces.iter().find(|kind| (kind.is)(backed))
    }

    /// The type of interfaces with names such as this one.
    pub fn interfaces_named(&self, name: &str) -> Option<&Interfaces<W>> {
        self.interfaces.iter().find(|kind| (kind.names)(name).is_some())
    }

    /// Why there are no interfaces with names such as this one, if a disabled feature has them.
    pub fn interfaces_left_out(&self, name: &str) -> Option<&str> {
        let (_, why) = self.left_out.iter().find(|(other, _)| other.interfaces_named(name).is_some())?;
        Some(why)
    }

    /// Entries of the section `settings` of the configuration's file.
    pub fn entries(&self) -> &[Entry<W>] {
        &self.entries
    }

    /// Names of the entries of disabled features, and why they are [refused](Fields::refuse).
    pub fn entries_left_out(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.left_out.iter().flat_map(|(other, why)| other.entries.iter().map(|e| (e.name, why.as_str())))
    }

    /// The kind of objects of this name, if a section has them.
    pub fn kind(&self, name: &str) -> Option<&'static KindInfo> {
        self.sections.iter().map(|section| section.kind).find(|kind| kind.name == name)
    }

    /// What collects the samples of features that are not of interfaces.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// What tests of the whole router change between packets.
    pub fn variations(&self) -> &[Variation] {
        &self.variations
    }

    /// What the fuzzer of the whole graph does with features, beside trying their settings.
    pub fn exercises(&self) -> &[Exercise] {
        &self.exercises
    }

    /// Every metric of a feature.
    pub fn all_metrics(&self) -> &[&'static Metric] {
        &self.metrics
    }

    /// Adds what the metrics of settings are of an interface.
    pub fn collect(&self, router: &Router, interface: &InterfaceInfo, lines: &mut Lines) {
        self.settings.iter().for_each(|kind| kind.collect(router, interface, lines));
    }

    /// The fields of settings in the map of an interface, for the reference.
    pub fn setting_rows(&self) -> Vec<Row> {
        self.settings.iter().flat_map(|kind| kind.rows()).collect()
    }

    /// Reads all settings from the fields of an interface in a file.
    pub fn read(&self, r: &mut Reader, fields: &mut Fields<'_>) -> Attached {
        let mut attached = Attached::default();
        self.settings.iter().for_each(|kind| kind.read(r, fields, &mut attached));
        for (other, why) in &self.left_out {
            fields.refuse_all(r, why, |fields| _ = other.read(&mut Reader::new(""), fields));
        }
        attached
    }

    /// How it is said that a feature of an arc is on, if a setting switches it.
    pub fn way(&self, feature: &str, interface: &str) -> Option<String> {
        self.settings.iter().find_map(|kind| kind.way(feature, interface))
    }

    /// What a router has of all settings of an interface, for tests to compare.
    pub fn shown(&self, router: &Router, index: u32) -> Vec<String> {
        self.settings.iter().map(|kind| kind.shown(router, index)).collect()
    }

    /// Makes in a router what the [examples](Self::examples) name.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make_examples(&self, router: &mut Router) -> Result<(), RouterError> {
        self.settings.iter().try_for_each(|kind| kind.make_examples(router))
    }

    /// Some values of each setting, each with all that it can say, for tests.
    pub fn examples(&self) -> Vec<Vec<Attached>> {
        self.settings.iter().map(|kind| kind.examples()).collect()
    }
}
