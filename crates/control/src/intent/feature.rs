//! Features of arcs that are on for an interface.

use net::ip::{Mss, Urpf};

use super::{Abilities, Refused, View, refuse};
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
    if Urpf::has(feature) {
        return refuse(format!(
            "{feature} is set by its mode: \"set urpf ip4 rx {{strict | loose}} {interface}\", in a YAML file \"urpf\""
        ));
    }
    if let Some(family) = Mss::family_of(feature) {
        return refuse(format!(
            "{feature} is set with its size: \"set interface tcp-mss-clamp {interface} {family} enable {family}-mss 1400\", \
             in a YAML file \"tcp-mss-clamp\""
        ));
    }
    Ok(())
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
