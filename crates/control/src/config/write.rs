//! Writes the tree as YAML.

use std::ops::Bound;
use std::sync::Arc;

use model::yaml::{Json, Text};
use net::feature;

use super::beside::{BEHIND_SETTINGS, LENDER};
use super::body::body;
use super::encapsulation::encapsulation;
use super::{route, settings};
use crate::intent::{Interface, Key, Route, Tree, Value, in_order, numbered};
use crate::system::{Catalog, Spec, System};

/// Returns the configuration in the format of [`read`](super::read).
pub fn write(tree: &Tree, catalog: &Arc<Catalog>) -> String {
    let (mut writer, mut text) = (Writer::new(tree, catalog), String::new());
    while writer.page(tree, &mut text) {}
    text
}

/// The sections of the file, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Section {
    /// A feature's section that is written before all others. The number is its index in the catalog.
    First(usize),
    /// A section for interfaces of one type. The number is the type's index in the catalog.
    Made(usize),
    Interfaces,
    Loopbacks,
    Tables,
    Routes,
    Settings,
    /// Any other section of a feature. The number is its index in the catalog.
    Feature(usize),
    End,
}

impl Default for Section {
    fn default() -> Section {
        Section::First(0)
    }
}

/// Maximum number of objects visited for a page.
const PAGE: usize = 64;

/// Writes a tree page by page. Between pages, the writer keeps its position, but not the tree. If the tree changes between two pages, the
/// text mixes both states.
#[derive(Default)]
pub struct Writer {
    section: Section,
    /// The last object written in the section; `None` at its beginning.
    last: Option<Key>,
    /// The key of the last written sub-interface of the interface `last`, or a key just before its first one. `None` if the interface has
    /// no more sub-interfaces to write.
    last_sub: Option<Key>,
    /// True if the section's heading has been written.
    headed: bool,
    /// True if anything has been written.
    begun: bool,
    /// True to write indices.
    indices: bool,
    /// True to hide secrets.
    hides: bool,
    /// The features' sections.
    catalog: Arc<Catalog>,
    /// The state of the conversion to JSON; `None` if YAML is written, and at the end.
    json: Option<Json>,
}

impl Writer {
    /// Returns a writer at the beginning of this tree. `catalog` has the sections of the features.
    pub fn new(tree: &Tree, catalog: &Arc<Catalog>) -> Writer {
        Writer { indices: !in_order(tree), catalog: Arc::clone(catalog), ..Writer::default() }
    }

    /// Writes the index of every interface, even if the router would assign the same indices without them.
    pub fn with_indices(self) -> Writer {
        Writer { indices: true, ..self }
    }

    /// Writes a placeholder instead of secrets, for readers who may not know them.
    pub fn hiding_secrets(self) -> Writer {
        Writer { hides: true, ..self }
    }

    /// Writes JSON instead of YAML.
    pub fn in_json(self) -> Writer {
        Writer { json: Some(Json::default()), ..self }
    }

    /// Writes the next page. Returns true if there may be more.
    pub fn page(&mut self, tree: &Tree, out: &mut String) -> bool {
        let Some(mut json) = self.json.take() else { return self.yaml(tree, out) };
        let mut yaml = String::new();
        let more = self.yaml(tree, &mut yaml);
        json.lines(&yaml, out);
        if more {
            self.json = Some(json);
        } else {
            json.end(out);
        }
        more
    }

    /// Writes the next page as YAML. Returns true if there may be more.
    fn yaml(&mut self, tree: &Tree, out: &mut String) -> bool {
        let before = out.len();
        let mut t = Text::new(out, self.indices, self.hides);
        let (next, more) = match self.section {
            Section::First(n) => match self.catalog.clone().sections().get(n) {
                Some(section) if section.first => {
                    (Section::First(n + 1), self.feature(tree, &mut t, section))
                }
                Some(_) => (Section::First(n + 1), false),
                None => (Section::Made(0), false),
            },
            Section::Made(n) => match self.catalog.clone().interfaces().get(n) {
                Some(kind) => (Section::Made(n + 1), self.made(tree, &mut t, kind)),
                None => (Section::Interfaces, false),
            },
            Section::Interfaces => {
                let catalog = Arc::clone(&self.catalog);
                let one = |t: &mut Text<'_>, name: &str, i: &Interface| interface(t, tree, &catalog, name, i);
                let more = self.subs(tree, &mut t) || self.devices(tree, &mut t, "interfaces", one);
                (Section::Loopbacks, more)
            }
            Section::Loopbacks => {
                let one = |t: &mut Text<'_>, name: &str, i: &Interface| loopback(t, tree, name, i);
                (Section::Tables, self.devices(tree, &mut t, "loopbacks", one))
            }
            Section::Tables => {
                route::write_tables(&mut t, tree);
                (Section::Routes, false)
            }
            Section::Routes => (Section::Settings, self.routes(tree, &mut t)),
            Section::Settings => {
                t.map("settings", |t| settings::write(t, tree, &self.catalog));
                (Section::Feature(0), false)
            }
            Section::Feature(n) => match self.catalog.clone().sections().get(n) {
                Some(section) if section.first => (Section::Feature(n + 1), false),
                Some(section) => (Section::Feature(n + 1), self.feature(tree, &mut t, section)),
                None => (Section::End, false),
            },
            Section::End => return false,
        };
        self.begun |= out.len() > before;
        if !more {
            *self = Writer {
                section: next,
                last: None,
                last_sub: None,
                headed: false,
                begun: self.begun,
                indices: self.indices,
                hides: self.hides,
                catalog: Arc::clone(&self.catalog),
                json: None,
            };
        }
        if self.section == Section::End && !self.begun {
            out.push_str("{}\n");
        }
        self.section != Section::End
    }

    /// Returns the next objects to write, at most [`PAGE`]: those after the last written object, or from `first` on if none was written in
    /// the section.
    fn rest<'t>(&self, tree: &'t Tree, first: Key) -> impl Iterator<Item = (&'t Key, &'t Value)> + use<'t> {
        let from = self.last.clone().map_or(Bound::Included(first), Bound::Excluded);
        tree.range((from, Bound::Unbounded)).take(PAGE)
    }

    /// Calls `one` to write an entry of the section. Writes the heading before the first entry, but not if `one` writes
    /// nothing.
    fn entry(&mut self, t: &mut Text<'_>, name: &str, one: impl FnOnce(&mut Text<'_>)) {
        let before = t.len();
        if !self.headed {
            t.line(format_args!("{name}:"));
        }
        let empty = t.len();
        t.indented(1, one);
        self.headed |= t.len() > empty;
        if !self.headed {
            t.truncate(before);
        }
    }

    /// Writes the next devices of a section, each with `one`. Returns true if there may be more.
    fn devices(
        &mut self,
        tree: &Tree,
        t: &mut Text<'_>,
        section: &str,
        one: impl Fn(&mut Text<'_>, &str, &Interface),
    ) -> bool {
        let mut more = false;
        for (key, value) in self.rest(tree, Interface::key("")) {
            let Some((name, i)) = Interface::device_in(key).zip(value.get::<Interface>()) else {
                return false;
            };
            let begun = t.len();
            self.entry(t, section, |t| one(t, &name, i));
            (self.last, more) = (Some(key.clone()), true);
            if section == "interfaces" && t.len() > begun && subs_of(tree, &name, None).next().is_some() {
                self.last_sub = Some(first_sub(&name));
                return true;
            }
        }
        more
    }

    /// Writes the next interfaces of a type, if the type has its own section. Returns true if there may be more.
    fn made(&mut self, tree: &Tree, t: &mut Text<'_>, kind: &feature::Interfaces<System>) -> bool {
        let Some(section) = kind.section else { return false };
        self.devices(tree, t, section, |t, name, i| {
            if let Some(backed) = i.spec.backed().filter(|backed| (kind.is)(backed)) {
                t.object(name, |t| (kind.write)(t, backed));
            }
        })
    }

    /// Writes the next sub-interfaces of the last device. Returns true if it has written at least one: there may be more.
    fn subs(&mut self, tree: &Tree, t: &mut Text<'_>) -> bool {
        let (Some(device), Some(last)) = (&self.last, &self.last_sub) else { return false };
        let Some(parent) = Interface::device_in(device) else { return false };
        let Some(over) = tree.get(device).and_then(|value| value.get::<Interface>()) else { return false };
        let mut now = None;
        t.indented(3, |t| {
            for (key, id, i) in subs_of(tree, &parent, Some(last)).take(PAGE) {
                if let Some(name) = Interface::name_in(key) {
                    sub_interface(t, tree, &name, id, i, over.up);
                }
                now = Some(key.clone());
            }
        });
        self.last_sub = now;
        self.last_sub.is_some()
    }

    fn feature(&mut self, tree: &Tree, t: &mut Text<'_>, section: &feature::Section<System>) -> bool {
        let (first, end) = section.kind.all();
        let from = self.last.clone().map_or(first, Bound::Excluded);
        let mut more = false;
        for (key, value) in tree.range((from, end)).take(PAGE) {
            self.entry(t, section.name, |t| (section.write)(t, key, value));
            (self.last, more) = (Some(key.clone()), true);
        }
        more
    }

    fn routes(&mut self, tree: &Tree, t: &mut Text<'_>) -> bool {
        let mut more = false;
        for (key, value) in self.rest(tree, Key::with::<Route>(())) {
            let Some(((table, prefix), r)) = key.get::<Route>().zip(value.get()) else { return false };
            self.entry(t, "routes", |t| route::write(t, table, prefix, r));
            (self.last, more) = (Some(key.clone()), true);
        }
        more
    }
}

/// Returns a key just before the sub-interfaces of a device.
fn first_sub(parent: &str) -> Key {
    Interface::sub_key(&format!("{parent}."))
}

/// Returns the sub-interfaces of a device with their numbers, starting after `behind` if it is given.
fn subs_of<'t>(
    tree: &'t Tree,
    parent: &'t str,
    behind: Option<&Key>,
) -> impl Iterator<Item = (&'t Key, u32, &'t Interface)> + use<'t> {
    let from = Bound::Excluded(behind.cloned().unwrap_or_else(|| first_sub(parent)));
    let all = tree.range((from, Bound::Unbounded));
    // In the tree, sub-interfaces of another device may follow in between: of one whose name starts with `parent` and a point.
    let begins = move |name: &str| name.strip_prefix(parent).is_some_and(|rest| rest.starts_with('.'));
    let near = all.take_while(move |(key, _)| Interface::name_in(key).is_some_and(|name| begins(&name)));
    near.filter_map(move |(key, value)| {
        let i = value.get::<Interface>()?;
        match &i.spec {
            Spec::Sub { parent: p, id, .. } if p == parent => Some((key, *id, i)),
            _ => None,
        }
    })
}

fn interface(t: &mut Text<'_>, tree: &Tree, catalog: &Catalog, name: &str, i: &Interface) {
    let Some(backed) = i.spec.backed() else { return };
    t.object(name, |t| {
        if let Some(kind) = catalog.interfaces_by(backed).filter(|kind| kind.section.is_none()) {
            (kind.write)(t, backed);
        }
        write_body(t, tree, name, i, true);
        if subs_of(tree, name, None).next().is_some() {
            t.line("sub-interfaces:");
        }
    });
}

fn loopback(t: &mut Text<'_>, tree: &Tree, name: &str, i: &Interface) {
    if matches!(i.spec, Spec::Loopback(_)) {
        t.object(name, |t| write_body(t, tree, name, i, true));
    }
}

/// Writes the common fields of an interface. `up` is the default of the administrative state: the state is written only if it differs from
/// the default.
fn write_body(t: &mut Text<'_>, tree: &Tree, name: &str, i: &Interface, up: bool) {
    body().write_over(t, i, &Interface { up, ..Interface::new(i.spec.clone()) });
    (LENDER.write)(t, tree, name);
    i.attached.write(t);
    BEHIND_SETTINGS.iter().for_each(|beside| (beside.write)(t, tree, name));
}

/// Writes a sub-interface. `usual` is the default of its administrative state: the state of its device.
fn sub_interface(t: &mut Text<'_>, tree: &Tree, name: &str, id: u32, i: &Interface, usual: bool) {
    let Spec::Sub { takes, .. } = &i.spec else { return };
    t.object(&id.to_string(), |t| {
        if numbered(id) != Some(*takes) {
            t.map("encapsulation", |t| encapsulation().write(t, &(*takes).into()));
        }
        write_body(t, tree, name, i, usual);
    });
}
