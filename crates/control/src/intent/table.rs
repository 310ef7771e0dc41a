//! VRFs. Table 0 always exists.

use model::key::{Kind, Need};
use net::objects;

use super::{Abilities, Object, Refused, View, refuse};
use crate::system::System;

/// A VRF of both families.
#[derive(Clone, Debug, PartialEq)]
pub struct Table;

impl Kind for Table {
    type Key = u16;
    const NAME: &'static str = "table";
    const PHASE: u16 = 10;
    /// Interfaces may leave it without being created again.
    const LAST: bool = true;

    fn title(table: &u16) -> String {
        format!("table {table}")
    }

    fn role(table: &u16) -> Option<Need> {
        objects::table(*table)
    }
}

impl Object<System> for Table {
    fn validate(&self, table: &u16, _: &View<'_>, _: &Abilities) -> Result<(), Refused> {
        match table {
            0 => refuse("table 0 is always there"),
            _ => Ok(()),
        }
    }

    fn apply(&self, table: &u16, _: Option<&Table>, system: &mut System) -> Result<(), Refused> {
        Ok(system.router.add_table(*table)?)
    }

    fn withdraw(&self, table: &u16, system: &mut System) -> Result<(), Refused> {
        Ok(system.router.remove_table(*table)?)
    }

    fn dump(&self, table: &u16, _: bool) -> Vec<String> {
        vec![format!("ip table add {table}")]
    }
}

/// Checks that a VRF exists.
///
/// # Errors
/// If it does not.
pub(super) fn must_have(table: u16, view: &View<'_>) -> Result<(), Refused> {
    if table == 0 || view.get(&Table::key(table)).is_some() {
        return Ok(());
    }
    refuse(format!(
        "there is no table {table}: add it with \"ip table add {table}\", in a YAML file with \"tables: [ {table} ]\""
    ))
}

impl Table {
    /// Returns the key of a VRF.
    pub fn key(table: u16) -> super::Key {
        super::Key::of::<Table>(&table)
    }
}
