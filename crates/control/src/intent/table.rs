//! VRFs.

use super::{Refused, refuse};
use crate::system::System;

pub(super) fn validate(table: u16) -> Result<(), Refused> {
    match table {
        0 => refuse("table 0 is always there"),
        _ => Ok(()),
    }
}

pub(super) fn apply(table: u16, system: &mut System) -> Result<(), Refused> {
    Ok(system.router.add_table(table)?)
}

pub(super) fn withdraw(table: u16, system: &mut System) -> Result<(), Refused> {
    Ok(system.router.remove_table(table)?)
}
