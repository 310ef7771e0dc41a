//! VRFs. Table 0 always exists.

use std::sync::LazyLock;

use model::key::{Kind, Need};
use model::object::Fact;
use model::schema::{Schema, optional, parsed};
use model::yaml::quoted;
use net::objects;

use super::{Get, Key, Object, Reason, Refused, Tree, View, index, refuse, refuse_as};
use crate::system::{Abilities, System};

/// Maximum length of a name in characters.
const LONGEST: usize = 63;

/// A VRF of both families. Its key is its number, which the router maps to an index of the data plane.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The name, unique among VRFs.
    pub name: Option<String>,
}

impl Kind for Table {
    type Key = u32;
    const NAME: &'static str = "table";
    const PHASE: u16 = 10;
    /// Removed last, so that interfaces can move to another VRF without being recreated.
    const LAST: bool = true;

    fn title(table: &u32) -> String {
        format!("table {table}")
    }

    fn role(table: &u32) -> Option<Need> {
        objects::table(*table)
    }
}

impl Object<System> for Table {
    fn validate(&self, table: &u32, view: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        if *table == 0 {
            return refuse("table 0 always exists: leave it out");
        }
        let Some(name) = &self.name else { return Ok(()) };
        check(name).map_err(Refused::new)?;
        match index::tables_named(view, name).find(|other| other != table) {
            Some(other) => refuse_as(Reason::There, format!("table {other} has the name {name} already")),
            None => Ok(()),
        }
    }

    /// Adds the VRF to the router. A changed name has no effect on the router, because only commands use it.
    fn apply(&self, table: &u32, _: Option<&Table>, system: &mut System) -> Result<(), Refused> {
        system.router.add_table(*table)?;
        Ok(())
    }

    fn withdraw(&self, table: &u32, system: &mut System) -> Result<(), Refused> {
        Ok(system.router.remove_table(*table)?)
    }

    fn dump(&self, table: &u32, _: bool) -> Vec<String> {
        let name = self.name.as_ref().map(|name| format!(" name {name}")).unwrap_or_default();
        vec![format!("ip table add {table}{name}")]
    }

    fn facts(&self, table: &u32, _: Get<'_>, to: &mut dyn FnMut(Fact)) {
        if let Some(name) = &self.name {
            to(Fact::new(index::TABLE_NAMES, (name, table)));
        }
    }
}

/// Checks that a VRF exists.
///
/// # Errors
/// If the VRF does not exist.
pub(super) fn must_have(table: u32, view: &View<'_>) -> Result<(), Refused> {
    if table == 0 || view.get(&Table::key(table)).is_some() {
        return Ok(());
    }
    let why = format!(
        "there is no table {table}: add it with \"ip table add {table}\", or in a YAML file with \"tables: [ {table} ]\""
    );
    refuse_as(Reason::NoTable, why)
}

/// Checks that a VRF may have this name: a letter, then letters, digits, `-`, `_` or `.`, at most [`LONGEST`] characters. So it looks
/// neither like a number nor like an option.
fn check(name: &str) -> Result<(), String> {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let rest = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    match begins && rest && name.len() <= LONGEST {
        true => Ok(()),
        false => Err(format!(
            "\"{name}\" cannot be the name of a table: it needs a letter, then letters, digits, '-', '_' or '.', at most \
             {LONGEST} in total"
        )),
    }
}

impl Table {
    /// Returns the key of a VRF.
    pub fn key(table: u32) -> Key {
        Key::of::<Table>(&table)
    }

    /// True if a VRF may have this name.
    pub fn can_be_name(name: &str) -> bool {
        check(name).is_ok()
    }

    /// Returns the VRF with this name.
    pub fn named(name: &str, view: &View<'_>) -> Option<u32> {
        index::tables_named(view, name).next()
    }

    /// Returns the name of a VRF, if it has one.
    pub fn name_of(table: u32, tree: &Tree) -> Option<&str> {
        tree.get(&Table::key(table))?.get::<Table>()?.name.as_deref()
    }

    /// Returns the names of all VRFs that have a name, in order of the VRF's number.
    pub fn names(tree: &Tree) -> impl Iterator<Item = String> {
        let all = tree.range(Key::all::<Table>());
        all.filter_map(|(_, value)| value.get::<Table>()?.name.clone())
    }

    /// Returns the fields of a VRF in a file.
    pub fn schema() -> &'static Schema<Table> {
        static SCHEMA: LazyLock<Schema<Table>> = LazyLock::new(|| {
            let read = |text: &str| check(text).map(|()| text.to_string());
            let name =
                parsed("a letter, then letters, digits, `-`, `_`, `.`", &["blue", "no"], read, |n| quoted(n));
            Schema::new(Table::default()).field(
                "name",
                optional(name),
                |table| table.name.clone(),
                |table, name| table.name = name,
                "The name, for commands in place of the number.",
            )
        });
        &SCHEMA
    }
}
