//! Every feature of this router, in one list. To add a feature, add its line.

use std::sync::Arc;

use control::app::{Context, Feature};
use control::cli::Registry;
use control::features;
use control::system::Catalog;
use graph::{Builder, GraphError};
use net::Tables;
use net::router::Hooks;

/// All features. Packets pass through the features of an arc in this order, unless a feature's `before` or
/// `after` requires another order.
pub const ALL: &[&Feature] = &[
    #[cfg(feature = "urpf")]
    &urpf::Feature,
    #[cfg(feature = "policer")]
    &policer::Feature,
    #[cfg(feature = "punt")]
    &punt::Feature,
    // Before all features that read ports.
    #[cfg(feature = "reassembly")]
    &reassembly::Feature,
    #[cfg(feature = "count")]
    &count::Feature,
    // Before all features that change packets: a redirect quotes the packet.
    #[cfg(feature = "redirect")]
    &redirect::Feature,
    #[cfg(feature = "mss")]
    &mss::Feature,
    #[cfg(feature = "l2")]
    &l2::Feature,
    #[cfg(feature = "advertise")]
    &advertise::Feature,
    #[cfg(feature = "balancer")]
    &balancer::Feature,
    #[cfg(feature = "unreachables")]
    &unreachables::Feature,
    #[cfg(feature = "ping")]
    &ping::Feature,
    // Last, to show packets as all others leave them.
    #[cfg(feature = "captures")]
    &captures::Feature,
];

/// Adds the nodes of every feature to the graph.
///
/// # Errors
/// If features conflict, for example because two of them register for the same protocol or port.
pub fn install(b: &mut Builder, t: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
    features::install(ALL, b, t, hooks)
}

/// Returns every command, and the catalog of the features.
pub fn declared() -> (Registry<Context>, Arc<Catalog>) {
    features::declared(ALL)
}

/// Returns the messages of the binary API.
pub fn messages() -> vapi::Table<Context> {
    features::messages(ALL)
}
