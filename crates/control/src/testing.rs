//! Shared by tests of features: a router with packet generators as devices, and typed commands.

use std::rc::Rc;
use std::time::Duration;

use drivers::Guardian;
use graph::Builder;
use net::Tables;
use net::router::{Hooks, Parts, Router, Sizes};
use vapi::table::{Serve, encoded};
use vapi::wire::Reader;
use vapi::{Caller, Code, Dump, Message, Request};

use crate::api::change::refused;
use crate::app::{Context, Feature, Go, Work as _};
use crate::cli::{Call, CliError, Registry, Step};
use crate::config;
use crate::features;
use crate::metrics::{Collection, Format};
use crate::system::System;

/// Returns a router with these features. Its workers run on threads if `turning`.
pub fn system(features: &[&Feature], sizes: &Sizes, turning: bool) -> System {
    let install = |b: &mut Builder, t: &Tables, hooks: &mut Hooks| features::install(features, b, t, hooks);
    let Parts { mut router, workers } = Router::build(install, sizes).expect("a router");
    if turning {
        router.start(workers, &[]).expect("workers");
    }
    let (_, catalog) = features::declared(features);
    System::new(router, catalog, Guardian::default())
}

/// Number of the client that sends messages of the binary API.
const CLIENT: u64 = 1;

/// A router and its commands.
pub struct Cli {
    /// The commands.
    pub registry: Rc<Registry<Context>>,
    /// The router.
    pub context: Context,
}

impl Cli {
    /// Returns a router with these features, and pg0 (10.0.0.1/24) and pg1, both up.
    pub fn with(features: &[&Feature]) -> Cli {
        let system = system(features, &Sizes { buffers: 64, workers: 1 }, false);
        let (registry, _) = features::declared(features);
        let mut cli = Cli { registry: Rc::new(registry), context: Context::new(system) };
        cli.context.definitions = Rc::new(features::messages(features));
        for n in 0..2 {
            cli.ok(&format!("create packet-generator interface pg{n}"));
            cli.ok(&format!("set interface state pg{n} up"));
        }
        cli.ok("set interface ip address pg0 10.0.0.1/24");
        cli
    }

    /// Runs a command to its end. Returns its output.
    pub fn run(&mut self, line: &str) -> Result<String, CliError> {
        let answer = self.registry.run(&mut self.context, line, Call::default())?;
        let (mut text, mut job) = (answer.text, answer.job);
        while let Some(running) = &mut job {
            match running.step(&mut self.context, &mut text) {
                Step::Again | Step::After(_) | Step::Data { .. } => {}
                Step::Done => job = None,
                Step::Failed(error) => return Err(error),
            }
        }
        Ok(text)
    }

    /// Starts the rollback of an unconfirmed configuration if it is due, and runs all abandoned jobs to their end.
    pub fn look_at_confirmation(&mut self) {
        self.context.look_at_confirmation();
        while self.context.tidy().is_some() {}
    }

    /// Sends a request of the binary API. Returns its reply, or its return value if it is refused.
    ///
    /// # Errors
    /// If the request is refused.
    pub fn ask<Q: Request>(&mut self, request: &Q) -> Result<Q::Reply, Code> {
        let table = self.context.definitions.clone();
        let entry = table.id(&Q::info().name).and_then(|id| table.get(id)).expect("a message of this router");
        let Serve::Request { answer, .. } = &entry.serve else { panic!("not a request with one reply") };
        let bytes = encoded(request);
        let caller = Caller { client: CLIENT, context: 0 };
        let reply = answer(&mut self.context, &caller, &mut Reader::new(&bytes)).expect("a whole request");
        if let Some(mut change) = self.context.begun.take() {
            while change.step(&mut self.context, &mut Vec::new()).map_err(refused)? != Go::Done {}
        }
        match reply.retval {
            0 => Ok(Q::Reply::take(&mut Reader::new(&reply.body)).expect("a whole reply")),
            code => Err(Code(code)),
        }
    }

    /// Sends a dump request of the binary API. Returns the objects of the answer.
    pub fn dump<Q: Dump>(&self, request: &Q) -> Vec<Q::Details> {
        let table = &self.context.definitions;
        let entry = table.id(&Q::info().name).and_then(|id| table.get(id)).expect("a message of this router");
        let Serve::Dump { begin, .. } = &entry.serve else { panic!("not a request for all objects") };
        let bytes = encoded(request);
        let mut next = begin(&self.context, &mut Reader::new(&bytes)).expect("a whole request");
        let objects = std::iter::from_fn(|| next(&self.context));
        objects.map(|object| Q::Details::take(&mut Reader::new(&object)).expect("a whole object")).collect()
    }

    /// Returns the samples of all metrics.
    pub fn metrics(&self) -> String {
        let mut collection = Collection::new(Duration::ZERO);
        while collection.slice(&self.context) {}
        let samples = collection.samples();
        let pieces = Format::Prometheus.write(&samples);
        pieces.map(|piece| String::from_utf8_lossy(&piece).into_owned()).collect()
    }

    /// Returns the output of a command that must be accepted.
    pub fn ok(&mut self, line: &str) -> String {
        self.run(line).unwrap_or_else(|e| panic!("{}", e.render()))
    }

    /// Returns the configuration as a file, without its heading, which has the number of the last change.
    pub fn yaml(&mut self) -> String {
        let text = self.ok("show config yaml");
        text.split_once('\n').expect("a heading").1.to_string()
    }

    /// Applies a file, as `config apply` does.
    ///
    /// # Errors
    /// The faults of the file, one per line, or the reason that the router refuses it. Nothing has changed then.
    pub fn apply(&mut self, text: &str) -> Result<(), String> {
        let wanted = config::read(text, "f", &self.context.system.abilities.catalog);
        let faults = wanted.faults(&self.context.system.abilities);
        if !faults.is_empty() {
            return Err(faults.iter().map(|fault| format!("{fault}\n")).collect());
        }
        let changes = self.context.store.diff(wanted.tree.tree());
        self.context.transact(changes).map_err(|e| e.to_string())
    }

    /// Returns the output of a command as JSON.
    pub fn json(&mut self, line: &str) -> serde_json::Value {
        let text = self.ok(&format!("{line} --json"));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{line}: {e}\n{text}"))
    }

    /// Runs a command that must be refused. Checks that it changes nothing, and that the error marks the last occurrence of `place`
    /// in `line`. Returns the message.
    pub fn refused(&mut self, line: &str, place: &str) -> String {
        let before = self.ok("show config");
        let Err(error) = self.run(line) else { panic!("{line} was accepted") };
        assert_eq!(self.ok("show config"), before, "{line}");
        let at = line.rfind(place).unwrap();
        let marked = format!("{line}\n{}{}\n", " ".repeat(at), "^".repeat(place.len()));
        let text = error.render();
        assert!(text.starts_with(&marked), "expected\n{marked}got\n{text}");
        error.to_string()
    }
}

#[cfg(test)]
pub(crate) use own::*;

#[cfg(test)]
mod own {
    use std::sync::Arc;

    use super::*;
    use crate::system::Catalog;

    /// The features in the tests of this crate.
    pub(crate) const FEATURES: &[&Feature] = &[
        &advertise::Feature,
        &count::Feature,
        &mss::Feature,
        &punt::Feature,
        &reassembly::Feature,
        &urpf::Feature,
    ];

    impl Cli {
        /// Returns a router with [`FEATURES`].
        pub(crate) fn new() -> Cli {
            Cli::with(FEATURES)
        }
    }

    /// Returns the commands of [`FEATURES`], and the router's own.
    pub(crate) fn registry() -> Registry<Context> {
        features::declared(FEATURES).0
    }

    /// Returns the catalog of [`FEATURES`].
    pub(crate) fn catalog() -> Arc<Catalog> {
        features::declared(FEATURES).1
    }
}
