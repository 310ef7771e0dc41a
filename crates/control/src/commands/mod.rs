//! The operator's commands, in VPP's grammar. Each file declares the commands of one area, and implements them.

mod api;
mod buffers;
mod config;
mod filter;
pub mod foreign;
mod history;
mod interface;
mod later;
mod load;
mod logging;
mod long;
mod monitor;
mod neighbor;
mod route;
mod scripts;
pub(crate) mod show;
mod trace;
mod workers;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use buf::bpf::Program;
use model::origin::Origin;
use net::feature::{App, Backing, Configured};
use net::objects::Ability;
use net::router::Router;

use crate::app::{Context, Done, Output};
use crate::cli::{Args, CliError, Registry, Values};
use crate::intent::{Change, FeatureOn, Store, Table, can_be_name};
use crate::logging::{Level, classes};
use crate::system::{Backed, Catalog, System};

impl App for Context {
    type World = System;

    fn router(&self) -> &Router {
        &self.system.router
    }

    fn router_mut(&mut self) -> &mut Router {
        &mut self.system.router
    }

    fn store(&self) -> &Store {
        &self.store
    }

    fn transact(&mut self, changes: Vec<Change>) -> Result<(), CliError> {
        Ok(self.transact(changes)?)
    }

    fn configured<T: Configured>(&self, interface: &str) -> Result<T, CliError> {
        Ok(interface::find(self, interface)?.1.attached.get())
    }

    fn change_setting<T: Configured>(
        &mut self,
        interface: &str,
        change: impl FnOnce(&mut T),
    ) -> Result<(), CliError> {
        let (key, mut interface) = interface::find(self, interface)?;
        let mut value = interface.attached.get::<T>();
        change(&mut value);
        interface.attached.put(value);
        Ok(self.transact(vec![Change::set(key, interface)])?)
    }

    fn switch_feature(
        &mut self,
        interface: &str,
        arc: &str,
        feature: &str,
        on: bool,
    ) -> Result<(), CliError> {
        let key = FeatureOn::key(interface, arc, feature);
        let is_on = self.store.get(&key).is_some();
        let changes = (is_on != on).then(|| Change { key, value: on.then(|| FeatureOn.into()) });
        Ok(self.transact(changes.into_iter().collect())?)
    }

    fn create_interface(&mut self, a: &Args, about: &str, name: &str, backing: impl Backing<System>) -> Done {
        interface::create_backed(self, a, about, name, Backed::by(backing))
    }

    fn delete_interface<T: Backing<System>>(&mut self, a: &Args, about: &str, name: &str) -> Done {
        interface::delete(self, a, about, name, |spec| spec.get::<T>().is_some())
    }

    fn now(&self) -> u64 {
        self.now()
    }

    fn with_filter(
        &mut self,
        a: &Args,
        then: impl FnOnce(&mut Context, &Args, Option<Program>) -> Result<Output, CliError> + 'static,
    ) -> Result<Output, CliError> {
        filter::with_filter(self, a, then)
    }

    fn create_file(
        &mut self,
        a: &Args,
        name: &'static str,
        path: &Path,
        allows: impl FnOnce(&Path) -> io::Result<()> + Send + 'static,
        then: impl FnOnce(&mut Context, &Args, File) -> Result<Output, CliError> + 'static,
    ) -> Result<Output, CliError> {
        later::create_file(a, name, path, allows, then)
    }
}

impl Values for Context {
    fn values(&self, kind: &str) -> Vec<String> {
        match kind {
            "interface" => self.system.router.interfaces().map(|i| i.name.clone()).collect(),
            "table" => {
                let ids = self.system.router.vrfs().from(0).map(|(table, _)| table.to_string());
                ids.chain(Table::names(self.store.tree())).collect()
            }
            "node" => self.system.router.graph().nodes().iter().map(|n| n.name.to_string()).collect(),
            "punt-reason" => self.system.abilities.punt_reasons().iter().map(|r| r.to_string()).collect(),
            _ => match self.system.abilities.catalog.kind(kind) {
                Some(kind) => self.store.tree().range(kind.all()).filter_map(|(key, _)| key.name()).collect(),
                None => constant(kind),
            },
        }
    }

    fn has(&self, kind: &str, name: &str) -> bool {
        match kind {
            "interface" => self.system.router.interface_named(name).is_some(),
            "log-level" => Level::parse(name).is_some(),
            _ => match self.system.abilities.catalog.kind(kind) {
                Some(kind) => self.store.get(&kind.named(name)).is_some(),
                None => self.values(kind).iter().any(|value| value == name),
            },
        }
    }

    fn number(&self, kind: &str, name: &str) -> Option<u32> {
        if kind == "table" { Table::named(name, &self.store.snapshot().view()) } else { None }
    }

    fn notice(&mut self) -> Option<String> {
        self.warning.take().map(|why| format!("! {why}\n"))
    }

    fn acts_for(&mut self, origin: Origin) {
        self.origin = origin;
    }
}

/// Returns the names of a kind, such as log levels, if they are the same in every router. Otherwise returns an empty list.
fn constant(kind: &str) -> Vec<String> {
    match kind {
        "log-class" => classes().iter().map(|class| class.name.to_string()).collect(),
        "log-level" => Level::names().map(str::to_string).collect(),
        _ => Vec::new(),
    }
}

/// Names for checking commands without a running router. Any name that an interface or object could have is accepted.
pub struct Names {
    nodes: Vec<String>,
    punt_reasons: Vec<String>,
    catalog: Arc<Catalog>,
}

impl Names {
    /// Returns the names for a check. The nodes and punt reasons are those of `router`, and the kinds of objects are those of
    /// `catalog`.
    pub fn of(router: &Router, catalog: Arc<Catalog>) -> Names {
        let graph = router.graph();
        Names {
            nodes: graph.nodes().iter().map(|node| node.name.to_string()).collect(),
            punt_reasons: graph.punt_reasons().iter().map(|reason| reason.name.to_string()).collect(),
            catalog,
        }
    }
}

impl Values for Names {
    fn values(&self, kind: &str) -> Vec<String> {
        match kind {
            "node" => self.nodes.clone(),
            "punt-reason" => self.punt_reasons.clone(),
            _ => constant(kind),
        }
    }

    fn has(&self, kind: &str, name: &str) -> bool {
        match kind {
            "interface" => can_be_name(name, &self.catalog),
            "log-level" => Level::parse(name).is_some(),
            _ => self.catalog.kind(kind).is_some() || self.values(kind).iter().any(|value| value == name),
        }
    }

    fn number(&self, kind: &str, name: &str) -> Option<u32> {
        // Any number will do.
        (kind == "table" && Table::can_be_name(name)).then_some(0)
    }
}

/// Returns the commands of the router's core, without those of features.
pub(crate) fn own() -> Registry<Context> {
    let mut r = Registry::new();
    crate::cli::exec(&mut r);
    interface::register(&mut r);
    route::register(&mut r);
    load::register(&mut r);
    neighbor::register(&mut r);
    show::register(&mut r);
    trace::register(&mut r);
    config::register(&mut r);
    history::register(&mut r);
    monitor::register(&mut r);
    logging::register(&mut r);
    workers::register(&mut r);
    buffers::register(&mut r);
    scripts::register(&mut r);
    api::register(&mut r);
    foreign::register(&mut r);
    r
}

/// Returns the VRF given by an argument; the default is 0.
fn table(args: &Args, name: &str) -> u32 {
    args.get(name).unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod config_tests;
#[cfg(test)]
mod history_tests;
#[cfg(test)]
mod ip6_tests;
#[cfg(test)]
mod list_tests;
#[cfg(test)]
mod removal_tests;
#[cfg(test)]
mod rollback_tests;
#[cfg(test)]
mod route_tests;
#[cfg(test)]
mod save_tests;
#[cfg(test)]
mod start_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
pub(crate) mod tests;
