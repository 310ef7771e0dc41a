//! VRFs.

use super::{Refused, refuse};
use crate::system::System;

pub(super) fn apply(table: u16, system: &mut System) -> Result<(), Refused> {
    Ok(system.router.add_table(table)?)
}

pub(super) fn withdraw(table: u16, _: &mut System) -> Result<(), Refused> {
    refuse(format!("table {table} cannot be removed while the router runs"))
}
