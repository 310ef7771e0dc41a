//! The features of a program that runs a router: the common ones, and a list that the program adds.

use std::sync::Arc;

use graph::{Builder, GraphError};
use net::Tables;
use net::feature;
use net::router::Hooks;

use crate::app::{Context, Feature};
use crate::cli::Registry;
use crate::commands::{self, show};
use crate::logging;
use crate::neighbors;
use crate::ports;
use crate::startup::{Plugins, Startup};
use crate::system::Catalog;

/// The features of every program, besides the drivers.
const OWN: &[&Feature] = &[&neighbors::Feature];

/// Returns the features of every program, then these.
fn with_own<'f>(features: &[&'f Feature]) -> Vec<&'f Feature> {
    OWN.iter().chain(ports::ALL).chain(features).copied().collect()
}

/// Declares the log classes of all features. To be called first, before a start configuration is read.
pub fn declare_log_classes(features: &[&Feature]) {
    logging::declare(with_own(features).iter().filter_map(|feature| feature.log_class()));
}

/// Adds the nodes of every router, and those of these features.
///
/// # Errors
/// If the nodes do not fit together.
pub fn install(
    features: &[&Feature],
    b: &mut Builder,
    t: &Tables,
    hooks: &mut Hooks,
) -> Result<(), GraphError> {
    net::install(b, t, hooks)?;
    with_own(features).iter().try_for_each(|feature| feature.install(b, t, hooks))
}

/// Returns the features that a startup.conf enables, and the others.
pub fn selected_features<'f>(
    features: &[&'f Feature],
    plugins: &Plugins,
) -> (Vec<&'f Feature>, Vec<&'f Feature>) {
    features.iter().partition(|feature| plugins.want(feature.name(), feature.plugin()))
}

/// Returns a warning for each plugin in a startup.conf that is neither a feature nor a plugin of VPP.
pub fn unknown_plugins(features: &[&Feature], startup: &Startup) -> Vec<String> {
    let known = |name: &str| name.ends_with("_plugin.so") || features.iter().any(|f| f.name() == name);
    let names = startup.plugins.named.iter().map(|(name, _)| name).filter(|name| !known(name));
    let list = || features.iter().map(|feature| feature.name()).collect::<Vec<_>>().join(", ");
    let warning = |name| format!("unknown plugin '{name}': features are {}", list());
    names.map(|name| startup.about(&["plugin"], warning(name))).collect()
}

/// Returns every command, including those of these features, and the catalog of the features.
pub fn declared(features: &[&Feature]) -> (Registry<Context>, Arc<Catalog>) {
    declared_without(features, &[])
}

/// Like [`declared`], but leaves out the features `left_out`.
pub fn declared_without(features: &[&Feature], left_out: &[&Feature]) -> (Registry<Context>, Arc<Catalog>) {
    let mut registry = commands::own();
    let catalog = feature::declare(&with_own(features), left_out, &mut registry);
    show::plugins(&mut registry, features, left_out);
    (registry, Arc::new(catalog))
}
