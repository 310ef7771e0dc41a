//! Captures: copies of packets for tcpdump and Wireshark, into a file (`pcap trace`) or to a client (`volley
//! capture`).
//!
//! Three features copy received (`device-input`), transmitted (`interface-output`) and dropped packets
//! (`drop`) into rings of each worker; the main thread takes the copies from there ([`rings`]). The features
//! are enabled only on the interfaces of a running capture, including interfaces made while it runs, and cost
//! nothing otherwise. If a ring is full, copies are lost, but never packets.
//!
//! There is one capture at a time ([`capture`]), whose packets go into a [file](mod@file) or a [`stream`].

#![forbid(unsafe_code)]

mod capture;
mod destination;
mod exercise;
mod file;
mod node;
mod request;
mod rings;
mod stream;
#[cfg(test)]
mod tests;

use graph::{Builder, GraphError};
use net::Tables;
use net::feature::{self, App, LogClass, Registrar};
use net::router::Hooks;

use capture::Captures;

/// The feature.
pub struct Feature;

impl<C: App> feature::Feature<C> for Feature {
    fn name(&self) -> &'static str {
        "captures"
    }

    fn about(&self) -> &'static str {
        "Copies of packets for tcpdump and Wireshark, into a file or to a client."
    }

    fn log_class(&self) -> Option<LogClass> {
        Some(LogClass { name: "capture", modules: &[module_path!()] })
    }

    fn install(&self, b: &mut Builder, _: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        let captures = hooks.state(|domain| Ok(Captures::new(domain)))?;
        node::install(b, &captures.rings);
        hooks.on_interface(capture::follow);
        hooks.on_turn(capture::turn);
        Ok(())
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        file::register(r);
        stream::register(r);
        r.exercise(exercise::EXERCISE);
    }
}
