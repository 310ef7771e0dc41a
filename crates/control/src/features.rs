//! What a program with a router can do: features, which it takes from a list, and what every such program has.

use std::sync::Arc;

use graph::{Builder, GraphError};
use net::Tables;
use net::feature;
use net::router::Hooks;

use crate::cli::Registry;
use crate::commands::{self, Context, Feature, show};
use crate::intent::Catalog;
use crate::logging;
use crate::neighbors;
use crate::ports;
use crate::startup::{Plugins, Startup};

/// What every program has, beside what interfaces are made of.
const OWN: &[&Feature] = &[&neighbors::Feature];

/// What every program has, and these.
fn with_own<'f>(features: &[&'f Feature]) -> Vec<&'f Feature> {
    OWN.iter().chain(ports::ALL).chain(features).copied().collect()
}

/// Declares the classes of what every program and these features say: first of all, before a start configuration is read.
pub fn declare_log_classes(features: &[&Feature]) {
    logging::declare(with_own(features).iter().filter_map(|feature| feature.log_class()));
}

/// Adds the nodes that every router has, and those of these features.
///
/// # Errors
/// When they do not fit together.
pub fn install(
    features: &[&Feature],
    b: &mut Builder,
    t: &Tables,
    hooks: &mut Hooks,
) -> Result<(), GraphError> {
    net::install(b, t, hooks)?;
    with_own(features).iter().try_for_each(|feature| feature.install(b, t, hooks))
}

/// The features that a startup.conf wants, and the others.
pub fn selected_features<'f>(
    features: &[&'f Feature],
    plugins: &Plugins,
) -> (Vec<&'f Feature>, Vec<&'f Feature>) {
    features.iter().partition(|feature| plugins.want(feature.name(), feature.plugin()))
}

/// Warns of each plugin in a startup.conf that is neither a feature nor one of VPP's.
pub fn unknown_plugins(features: &[&Feature], startup: &Startup) -> Vec<String> {
    let known = |name: &str| name.ends_with("_plugin.so") || features.iter().any(|f| f.name() == name);
    let names = startup.plugins.named.iter().map(|(name, _)| name).filter(|name| !known(name));
    let list = || features.iter().map(|feature| feature.name()).collect::<Vec<_>>().join(", ");
    let warning = |name| format!("there is no plugin '{name}'; features are {}", list());
    names.map(|name| startup.about(&["plugin"], warning(name))).collect()
}

/// Every command, those of these features included, and what they say besides.
pub fn declared(features: &[&Feature]) -> (Registry<Context>, Arc<Catalog>) {
    declared_without(features, &[])
}

/// The same in a program that leaves features out.
pub fn declared_without(features: &[&Feature], left_out: &[&Feature]) -> (Registry<Context>, Arc<Catalog>) {
    let mut registry = commands::own();
    let catalog = feature::declare(&with_own(features), left_out, &mut registry);
    show::plugins(&mut registry, features, left_out);
    (registry, Arc::new(catalog))
}
