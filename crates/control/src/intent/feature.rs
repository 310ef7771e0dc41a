//! Features of arcs that are on for an interface.

use super::{Abilities, Refused, View, refuse};
use crate::features::KINDS;
use crate::system::System;

pub(super) fn validate(
    interface: &str,
    arc: &str,
    feature: &str,
    view: &View<'_>,
    abilities: &Abilities,
) -> Result<(), Refused> {
    view.must_have_interface(interface)?;
    abilities.check_feature(arc, feature).map_err(|e| Refused(e.to_string()))?;
    // Two that switch it on would not know of each other.
    match KINDS.iter().find_map(|kind| kind.way(feature, interface)) {
        Some(way) => refuse(way),
        None => Ok(()),
    }
}

/// Switches it on or off.
pub(super) fn apply(
    interface: &str,
    arc: &str,
    feature: &str,
    on: bool,
    system: &mut System,
) -> Result<(), Refused> {
    let index = system.index(interface)?;
    system.router.arcs().enable(arc, feature, index, on).map_err(|e| Refused(e.to_string()))
}

pub(super) fn dump(interface: &str, arc: &str, feature: &str) -> String {
    format!("set interface feature {interface} {feature} arc {arc}")
}
