//! Taps between the tester and this machine's own stack; the router uses the kernel's ends.

use std::path::Path;

use drivers::tap::{self, Config};

use super::lab::sh;
use super::lasting::Lasting;
use super::link::Link;
use super::veth::NAMESPACE;
use crate::trial::Failure;

/// Makes a tap for each link, with the kernel's end in the router's namespace.
///
/// # Errors
/// If the machine does not permit it.
pub(super) fn make(links: &mut [Link; 2]) -> Result<Lasting, Failure> {
    let mut devices = Vec::new();
    for link in links.iter_mut() {
        let config = Config {
            host_namespace: Some(Path::new(NAMESPACE).to_owned()),
            host_mac: Some(link.router_mac.0),
            mac: Some(link.tester_mac.0),
            // The tester counts single frames, so the kernel must not join them.
            gso: false,
            ..Config::new(&link.router)
        };
        devices.push(tap::open(&config).map_err(|e| Failure(format!("tap: {e}")))?);
        // The tester's end has no name of its own.
        link.tester = format!("tap of {}", link.router);
        sh(&format!("ip -n {NAMESPACE} link set {} up", link.router))?;
    }
    Lasting::new(devices, links)
}
