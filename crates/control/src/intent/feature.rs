//! Enabled features of arcs on an interface.

use model::key::{Kind, Need};
use net::objects;

use super::index::Find;
use super::{Key, Object, Refused, View, refuse};
use crate::cli::quote;
use crate::system::{Abilities, System};

/// Enables a feature of an arc on an interface.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureOn;

impl Kind for FeatureOn {
    /// Interface, arc, feature.
    type Key = (String, String, String);
    const NAME: &'static str = "feature";
    const PHASE: u16 = 110;

    fn title((interface, arc, feature): &Self::Key) -> String {
        format!("feature {feature} of {arc} on {interface}")
    }
}

impl FeatureOn {
    /// Returns the key of a feature of an arc on an interface.
    pub fn key(interface: &str, arc: &str, feature: &str) -> Key {
        Key::with::<FeatureOn>((interface, arc, feature))
    }
}

impl Object<System> for FeatureOn {
    fn validate(&self, key: &Self::Key, view: &View<'_>, abilities: &Abilities) -> Result<(), Refused> {
        let (interface, arc, feature) = key;
        view.must_have_interface(interface)?;
        abilities.check_feature(arc, feature).map_err(|e| Refused::new(e.to_string()))?;
        // Refuses a feature that another command enables: each of the two commands would ignore the other.
        match abilities.catalog.way(feature, interface) {
            Some(way) => refuse(way),
            None => Ok(()),
        }
    }

    fn apply(&self, key: &Self::Key, _: Option<&Self>, system: &mut System) -> Result<(), Refused> {
        switch(key, true, system)
    }

    fn withdraw(&self, key: &Self::Key, system: &mut System) -> Result<(), Refused> {
        switch(key, false, system)
    }

    fn dump(&self, (interface, arc, feature): &Self::Key, _: bool) -> Vec<String> {
        vec![format!("set interface feature {} {feature} arc {arc}", quote(interface))]
    }

    fn needs(&self, (interface, ..): &Self::Key, to: &mut dyn FnMut(Need)) {
        to(objects::interface(interface));
    }
}

fn switch(
    (interface, arc, feature): &(String, String, String),
    on: bool,
    system: &mut System,
) -> Result<(), Refused> {
    let index = system.index(interface)?;
    system.router.arcs().enable(arc, feature, index, on).map_err(|e| Refused::new(e.to_string()))
}
