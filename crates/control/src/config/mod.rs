//! The whole configuration as one YAML file: reads and writes the contents of [`Store`](crate::intent::Store).
//!
//! The format and its rules follow VPP's declarative configuration (`vppcfg`). VRFs, static routes, neighbors and
//! limits are Volley's own. `docs/guide/configuration.md` describes the file.
//!
//! ```yaml
//! interfaces:
//!   host-eth0:
//!     mtu: 1500
//!     addresses: [ 192.0.2.1/24 ]
//!     sub-interfaces:
//!       100: { addresses: [ 198.51.100.1/24 ] }
//! routes:
//!   - { prefix: 0.0.0.0/0, via: 192.0.2.254 }
//! ```
//!
//! All faults of a file are reported together, with line and column. A file with faults changes nothing.

#[cfg(test)]
mod backing_tests;
mod beside;
mod body;
mod doubt;
mod encapsulation;
mod interface;
#[cfg(test)]
mod interface_tests;
mod receive;
mod reference;
mod route;
mod schema;
#[cfg(test)]
mod section_tests;
mod settings;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vppcfg_tests;
mod write;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use infra::mem::Room;
use model::key::Need;
use net::feature::Objects;
use net::objects;

use crate::intent::{Interface, Key, Snapshot, Tree, Value};
use crate::startup::{Fault, Place};
use crate::system::{Abilities, Catalog, System};
#[cfg(test)]
pub(crate) use body::body;
pub(crate) use body::{Description, MTUS, address, mac};
pub use doubt::Doubt;
use model::yaml::{At, Content, MOST_FAULTS, NOT_YET, Node, Reader, join_surrogates};
pub use reference::reference;
#[cfg(test)]
pub(crate) use route::examples as routes;
pub use schema::schema;
pub use write::{Writer, write};

/// The configuration in a file.
#[derive(Debug, Default)]
pub struct Wanted {
    /// All objects, with the indexes to find them.
    pub tree: Snapshot,
    /// The place of each object in the file.
    places: BTreeMap<Key, Place>,
    /// The faults found while reading the file, up to a limit.
    faults: Vec<Fault>,
    /// Number of faults found while reading the file, including those beyond the limit.
    found: usize,
    /// The kinds of objects of which some could not be read.
    lost: Lost,
    /// Violations of rules that hold for files, but not for commands.
    doubts: Vec<(Fault, Doubt)>,
    /// True for a document without any section of a configuration.
    foreign: bool,
}

/// The kinds of objects of which some could not be read. Validation must not report an object of these kinds as missing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Lost {
    interfaces: bool,
    tables: bool,
    /// True if some objects of features could not be read.
    others: bool,
}

/// A file being read.
struct Reading<'c> {
    catalog: &'c Catalog,
    r: Reader,
    tree: Tree,
    places: BTreeMap<Key, Place>,
    lost: Lost,
    doubts: Vec<(Fault, Doubt)>,
}

impl Objects<System> for Reading<'_> {
    fn reader(&mut self) -> &mut Reader {
        &mut self.r
    }

    fn ask(&mut self, at: At, key: Key, value: Value) {
        self.set(at, key, value);
    }
}

impl Reading<'_> {
    /// Records the violation of a rule that holds for files, but not for commands.
    fn doubt(&mut self, at: At, doubt: Doubt, message: String) {
        // The same limit as for other faults.
        if self.doubts.len() < MOST_FAULTS {
            self.doubts.push((Fault::new(&self.r.place(at), message), doubt));
        }
    }

    /// Adds an object of the file.
    fn set(&mut self, at: At, key: Key, value: impl Into<Value>) {
        // An interface and a sub-interface cannot have the same name: a Linux interface may be named like a sub-interface of another one.
        let same_name = key.get::<Interface>().map(|(sub, name)| match sub {
            false => Interface::sub_key(&name),
            true => Interface::key(&name),
        });
        let other = same_name.and_then(|same| self.places.get(&same).cloned());
        // A single search, because there may be very many objects.
        let first = match self.places.entry(key.clone()) {
            Entry::Occupied(first) => Some(first.get().clone()),
            Entry::Vacant(free) if other.is_none() => {
                free.insert(self.r.place(at));
                None
            }
            Entry::Vacant(_) => other,
        };
        if let Some(Place::File { line, .. }) = first {
            let message = format!("{} is already on line {line}", key);
            self.r.fault(at, message);
            return;
        }
        self.tree.insert(key, value.into());
    }
}

/// A section of a file: its name, and the function that reads it.
type Section = (&'static str, fn(&mut Reading<'_>, &Node));

const SECTIONS: &[Section] = &[
    ("interfaces", interface::interfaces),
    ("loopbacks", interface::loopbacks),
    ("tables", route::tables),
    // The members of this section have already been read.
    ("routes", route::all),
    ("settings", settings::read),
];

/// Sections of `vppcfg` that are not supported yet.
const LATER: &[&str] = &["bondethernets", "bridgedomains", "vxlan_tunnels", "prefixlists", "acls", "sflow"];

/// Bytes of memory that must be free while a file is read.
const FREE: u64 = 32 << 20;

fn there_is_memory() -> Result<(), String> {
    Room::now().must_have(FREE).map_err(|e| format!("the file is too large for the free memory: {e}"))
}

/// The format of a file with the router's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Commands, as typed.
    Commands,
    /// YAML.
    Yaml,
    /// JSON. The YAML reader reads it, too, because JSON is almost a subset of YAML. The exception, pairs of escaped surrogates, is
    /// converted first.
    Json,
}

impl Format {
    /// Returns the format of a file with this name.
    pub fn of(file: &Path) -> Format {
        let extension = file.extension().and_then(OsStr::to_str).map(str::to_lowercase);
        match extension.as_deref() {
            Some("yaml" | "yml") => Format::Yaml,
            Some("json") => Format::Json,
            _ => Format::Commands,
        }
    }

    /// Returns the format's name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Commands => "commands",
            Format::Yaml => "YAML",
            Format::Json => "JSON",
        }
    }
}

/// Reads a configuration. Messages call the file `file`; `catalog` has the features' sections and settings.
/// [`faults`](Wanted::faults) returns the faults.
pub fn read(text: &str, file: &str, catalog: &Catalog) -> Wanted {
    let (tree, places) = (Tree::new(), BTreeMap::new());
    let mut reading = Reading {
        catalog,
        r: Reader::new(file).guarded_by(there_is_memory),
        tree,
        places,
        lost: Lost::default(),
        doubts: Vec::new(),
    };
    let (mut routes, mut foreign) = (Vec::new(), false);
    let text = &*join_surrogates(text);
    let document = reading.r.document(text, "routes", |r, node| {
        routes.extend(route::read(r, node).map(|(key, value)| (node.at, key, value)));
    });
    let nothing_is_meant =
        document.as_ref().is_some_and(|node| matches!(&node.content, Content::Map(map) if map.is_empty()));
    if let Some(document) = document {
        let before = reading.r.found();
        let mut fields = reading.r.fields(&document);
        let of_interfaces = catalog.interfaces().iter().filter_map(|kind| kind.section.as_ref());
        let of_features = catalog.sections().iter().map(|section| &section.name).chain(of_interfaces);
        let sections = SECTIONS.iter().map(|(name, _)| name).chain(LATER);
        let sections = sections.chain(of_features);
        foreign = !fields.has_any(sections) && !document.is_empty();
        let mut unread = reading.r.found() > before;
        let mut section = |name: &'static str| {
            let node = fields.take(name)?;
            unread |= matches!(&node.content, Content::Text(text) if !text.is_empty());
            Some(node)
        };
        // Sections that define interfaces are read before `interfaces`, which adds fields to these interfaces.
        for kind in catalog.interfaces() {
            if let Some(node) = kind.section.and_then(&mut section) {
                interface::made(&mut reading, kind, node);
            }
        }
        for (name, read) in SECTIONS {
            if let Some(node) = section(name) {
                read(&mut reading, node);
            }
        }
        for of_feature in catalog.sections() {
            if let Some(node) = section(of_feature.name) {
                let before = reading.r.found();
                (of_feature.read)(&mut reading, node);
                reading.lost.others |= reading.r.found() > before;
            }
        }
        routes.into_iter().for_each(|(at, key, value)| reading.set(at, key, value));
        let before = reading.r.found();
        for name in LATER {
            fields.refuse(&mut reading.r, name, NOT_YET);
        }
        for (name, why) in catalog.sections_left_out() {
            fields.refuse(&mut reading.r, name, why);
        }
        // The sections that were refused here may define interfaces, but no VRFs.
        reading.lost.interfaces |= reading.r.found() > before;
        let before = reading.r.found();
        fields.end(&mut reading.r);
        if unread || reading.r.found() > before {
            // A section that was not read may contain any kind of object.
            reading.lost = Lost { interfaces: true, tables: true, others: true };
        }
    }
    if reading.tree.is_empty() && reading.r.found() == 0 && !nothing_is_meant {
        // A truncated or wrong file must not remove everything.
        reading.r.fault(At::START, "the file configures nothing: to remove everything, write \"{}\"");
    }
    let Reading { r, tree, places, lost, doubts, .. } = reading;
    Wanted { tree: Snapshot::of(tree), places, found: r.found(), faults: r.faults, lost, doubts, foreign }
}

/// Reads a part of a configuration in the format of a configuration file. The objects need not be a valid configuration by themselves.
///
/// # Errors
/// Returns the first fault in the format.
pub fn read_part(text: &str, catalog: &Catalog) -> Result<Tree, Fault> {
    let wanted = read(text, "the journal", catalog);
    match wanted.faults.into_iter().next() {
        Some(fault) => Err(fault),
        None => Ok(wanted.tree.tree().clone()),
    }
}

impl Wanted {
    /// Returns the faults found while reading the file, and those found by validating the part that could be read. Each has a line and a
    /// column. They are in the order of the file. If there are too many, an additional fault without a line precedes the others and says
    /// so.
    pub fn faults(&self, abilities: &Abilities) -> Vec<Fault> {
        let nowhere = Place::Argument(0);
        let tree = self.tree.tree();
        // The roles of the objects that were read; needed only if some objects could not be read.
        let there: BTreeSet<Need> = match self.lost == Lost::default() {
            true => BTreeSet::new(),
            false => tree.keys().filter_map(Key::role).collect(),
        };
        // An object that could not be read must not be reported as missing.
        let missing = |need: &Need| {
            let lost = if need.is(&objects::TABLE) {
                self.lost.tables
            } else {
                self.lost.interfaces || self.lost.others && !need.is(&objects::INTERFACE)
            };
            lost && !there.contains(need)
        };
        let doubtful = |key: &Key| tree.get(key).is_some_and(|value| value.needs_any(key, missing));
        let refused = self.tree.faults(abilities).filter(|(key, _)| !doubtful(key));
        let refused =
            refused.map(|(key, why)| Fault::new(self.places.get(key).unwrap_or(&nowhere), why.to_string()));
        let doubts = self.doubts.iter().map(|(fault, _)| fault);
        let mut faults: Vec<Fault> =
            self.faults.iter().chain(doubts).cloned().chain(refused).take(MOST_FAULTS + 1).collect();
        let more = faults.len() > MOST_FAULTS || self.found > self.faults.len();
        faults.truncate(MOST_FAULTS);
        faults.sort_by(|a, b| a.place.cmp(&b.place));
        if let (true, Some(Place::File { file, .. })) = (more, faults.first().map(|fault| &fault.place)) {
            let told = format!("more than {0} faults; {0} of them follow", faults.len());
            faults.insert(0, Fault::new(&Place::Whole(Arc::clone(file)), told));
        }
        faults
    }

    /// Removes and returns the violations of rules that hold for files, but not for commands. [`faults`](Self::faults) no longer includes
    /// them.
    pub fn take_doubts(&mut self) -> Vec<(Fault, Doubt)> {
        std::mem::take(&mut self.doubts)
    }

    /// True if the file is YAML without a section of a configuration: it may be an unrelated file.
    pub fn is_foreign(&self) -> bool {
        self.foreign
    }

    /// Returns warnings about valid values that are probably mistakes, and about capture files and directories that this machine does not
    /// have. These are no faults, because the file may be meant for another machine.
    pub fn warnings(&self) -> Vec<Fault> {
        let mut warnings = Vec::new();
        for (key, value) in self.tree.tree() {
            let Some(place) = self.places.get(key) else { continue };
            value.warnings(&mut |why| warnings.push(Fault::new(place, why)));
            let backed = value.get::<Interface>().and_then(|i| i.spec.backed());
            if let Some(backed) = backed {
                backed.lacks(&mut |why| warnings.push(Fault::new(place, format!("on this machine: {why}"))));
            }
        }
        warnings.sort_by(|a, b| a.place.cmp(&b.place));
        warnings
    }

    /// Returns the place of an object in the file.
    pub fn place(&self, key: &Key) -> Option<&Place> {
        self.places.get(key)
    }
}
