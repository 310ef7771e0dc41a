//! Taps between the tester and this machine's own stack; the router uses the kernel's ends.

use std::path::Path;

use buf::Pool;
use drivers::tap::{self, Config};
use wire::Mac;

use super::lab::sh;
use super::lasting::Lasting;
use super::link::Link;
use super::near::Near;
use super::veth::NAMESPACE;
use crate::engine::run::Port;
use crate::trial::Failure;

/// The bridge between the kernel's ends of the self-test's taps.
const BRIDGE: &str = "cable";

/// Makes two taps, and joins the kernel's ends of both by a bridge. The bridge connects the tester's ends like a cable.
///
/// # Errors
/// If the machine does not permit it.
pub(super) fn cable(links: &mut [Link; 2]) -> Result<Joined, Failure> {
    for (n, link) in links.iter_mut().enumerate() {
        link.router = format!("c{n}");
    }
    // A frame to the other end must not be addressed to the kernel's end.
    let ends = [0, 1].map(|n| Mac([2, 0x43, 0, 0, 0, n]));
    let mut crossed = links.clone();
    crossed.iter_mut().zip(ends).for_each(|(link, mac)| link.router_mac = mac);
    let ports = make(&mut crossed)?;
    links.iter_mut().zip(&crossed).for_each(|(link, made)| link.tester.clone_from(&made.tester));
    sh(&format!("ip -n {NAMESPACE} link add {BRIDGE} type bridge mcast_snooping 0"))?;
    let joined = Joined { ports };
    for link in &*links {
        sh(&format!("ip -n {NAMESPACE} link set {} master {BRIDGE}", link.router))?;
    }
    sh(&format!("ip -n {NAMESPACE} link set {BRIDGE} up"))?;
    Ok(joined)
}

/// The tester's ends of taps that are joined by a bridge, which is removed on drop.
pub(super) struct Joined {
    ports: Lasting,
}

impl Near for Joined {
    fn open(&mut self, links: &[Link; 2], pool: &Pool) -> Result<Vec<Port>, Failure> {
        self.ports.open(links, pool)
    }

    fn is_connected(&mut self) -> bool {
        self.ports.is_connected()
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let _ = sh(&format!("ip -n {NAMESPACE} link del {BRIDGE}"));
    }
}

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
