//! The features of a program that runs a router: the common ones, and a list that the program adds.

use std::sync::Arc;

use graph::{Builder, GraphError};
use net::Tables;
use net::feature;
use net::router::Hooks;

use crate::api;
use crate::app::{Context, Feature};
use crate::cli::Registry;
use crate::commands::{self, show};
use crate::dad;
use crate::logging;
use crate::neighbors;
use crate::ports;
use crate::startup::{Plugins, Startup};
use crate::system::Catalog;

/// The features of every program, besides the drivers.
const OWN: &[&Feature] = &[&neighbors::Feature, &dad::Feature];

/// Returns the features of every program, then `features`.
fn with_own<'f>(features: &[&'f Feature]) -> Vec<&'f Feature> {
    OWN.iter().chain(ports::ALL).chain(features).copied().collect()
}

/// The selected features of a program, including those that every program has.
pub struct Selected<'f> {
    wanted: Vec<&'f Feature>,
    left_out: Vec<&'f Feature>,
}

impl<'f> Selected<'f> {
    /// Selects from `features`, and from those of every program, the features that `plugins` of a startup.conf enables.
    pub fn by(features: &[&'f Feature], plugins: &Plugins) -> Selected<'f> {
        let wanted = |feature: &&Feature| plugins.want(feature.name(), feature.plugin());
        let (wanted, left_out) = with_own(features).into_iter().partition(wanted);
        Selected { wanted, left_out }
    }

    /// Selects `features` and the features of every program. `left_out` are further features, which are disabled.
    pub fn without(features: &[&'f Feature], left_out: &[&'f Feature]) -> Selected<'f> {
        Selected { wanted: with_own(features), left_out: left_out.to_vec() }
    }

    /// Adds the nodes of the router's core, and those of the features.
    ///
    /// # Errors
    /// If the nodes do not form a valid graph.
    pub fn install(&self, b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        net::install(b, t, hooks)?;
        self.wanted.iter().try_for_each(|feature| feature.install(b, t, hooks))
    }

    /// Returns the registry of all commands, which includes those of the features, and the features' catalog.
    pub fn declared(&self) -> (Registry<Context>, Arc<Catalog>) {
        let mut registry = commands::own();
        let catalog = feature::declare(&self.wanted, &self.left_out, &mut registry);
        show::plugins(&mut registry, &self.wanted, &self.left_out);
        (registry, Arc::new(catalog))
    }

    /// Returns the messages of the binary API, including those of the features.
    pub fn messages(&self) -> vapi::Table<Context> {
        let mut table = api::own();
        self.wanted.iter().for_each(|feature| feature.messages(&mut table));
        table
    }
}

/// Declares the log classes of all features. To be called first, before a start configuration is read.
pub fn declare_log_classes(features: &[&Feature]) {
    logging::declare(with_own(features).iter().filter_map(|feature| feature.log_class()));
}

/// Adds the nodes of the router's core, and those of all these features.
///
/// # Errors
/// If the nodes do not form a valid graph.
pub fn install(
    features: &[&Feature],
    b: &mut Builder,
    t: &Tables,
    hooks: &mut Hooks,
) -> Result<(), GraphError> {
    Selected::without(features, &[]).install(b, t, hooks)
}

/// Returns the registry of all commands, which includes those of `features`, and the features' catalog.
pub fn declared(features: &[&Feature]) -> (Registry<Context>, Arc<Catalog>) {
    Selected::without(features, &[]).declared()
}

/// Returns the messages of the binary API, including those of all these features.
pub fn messages(features: &[&Feature]) -> vapi::Table<Context> {
    Selected::without(features, &[]).messages()
}

/// Returns a warning for each plugin in a startup.conf that is not a feature and has no name like those of VPP's plugins
/// (`NAME_plugin.so`).
pub fn unknown_plugins(features: &[&Feature], startup: &Startup) -> Vec<String> {
    let all = with_own(features);
    let known = |name: &str| name.ends_with("_plugin.so") || all.iter().any(|f| f.name() == name);
    let names = startup.plugins.named.iter().map(|(name, _)| name).filter(|name| !known(name));
    let list = || all.iter().map(|feature| feature.name()).collect::<Vec<_>>().join(", ");
    let warning = |name| format!("unknown plugin '{name}': features are {}", list());
    names.map(|name| startup.about(&["plugin"], warning(name))).collect()
}
