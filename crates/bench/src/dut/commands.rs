//! Commands for Volley and VPP, whose CLIs use the same words.

use std::fmt::Write as _;

use super::spec::Driver;
use super::{Networks, Which, cores};
use crate::testbed::lab::{program, said_by};
use crate::testbed::{Bed, Kind, Link};
use crate::trial::Failure;

/// A router that understands these commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Router {
    /// Volley.
    Volley,
    /// FD.io VPP, whose defaults do not fit the tester's links.
    Vpp,
}

/// Maximum packet length in bytes on the links: that of Ethernet.
const MTU: u32 = 1500;

/// Returns the commands that set a router up to forward between the links.
///
/// VPP needs more settings than Volley. Without `hw-addr`, it invents an Ethernet address for a Linux interface and drops all frames.
/// Without `cksum-gso-disable`, it leaves checksums to an interface that does not compute them. A packet larger than the link's MTU stalls
/// the ring of VPP's interface. By default VPP lends its memory to a memif peer, and the tester refuses such memory.
pub fn forward(links: &[Link; 2], driver: Driver, of: Router) -> Vec<String> {
    let mut all = Vec::new();
    for (n, link) in (1..).zip(links) {
        let Link { router, router_mac, .. } = link;
        let name = match driver {
            Driver::AfPacket => {
                let more = match of {
                    Router::Volley => String::new(),
                    Router::Vpp => format!(" hw-addr {router_mac} cksum-gso-disable"),
                };
                all.push(format!("create host-interface name {router}{more}"));
                format!("host-{router}")
            }
            Driver::AfXdp => {
                let more = match of {
                    Router::Volley => String::new(),
                    Router::Vpp => format!(" num-rx-queues all name xdp-{router}"),
                };
                all.push(format!("create interface af_xdp host-if {router}{more}"));
                format!("xdp-{router}")
            }
            Driver::Memif => {
                all.push(format!("create memif socket id {n} filename {router}"));
                let more = if of == Router::Vpp { " no-zero-copy" } else { "" };
                all.push(format!(
                    "create interface memif id 0 socket-id {n} slave hw-addr {router_mac}{more}"
                ));
                format!("memif{n}/0")
            }
        };
        if of == Router::Vpp {
            all.push(format!("set interface mtu packet {MTU} {name}"));
        }
        all.push(format!("set interface state {name} up"));
        for (own, behind, host) in link.families() {
            all.push(format!("set interface ip address {name} {own}"));
            all.push(format!("ip route add {behind} via {host} {name}"));
        }
    }
    all
}

/// Returns the default driver on a testbed.
pub fn usual(bed: &Bed) -> Driver {
    if bed.kind() == Kind::Memif { Driver::Memif } else { Driver::AfPacket }
}

/// Writes a file for a router and returns its path.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write(bed: &Bed, name: &str, text: &str) -> Result<String, Failure> {
    let path = bed.directory().join(name);
    std::fs::write(&path, text).map_err(|e| Failure(format!("{}: {e}", path.display())))?;
    Ok(path.display().to_string())
}

/// Returns a command that runs a program in the router's namespace, on the cores `of` only, so that the program does not use the tester's
/// core.
pub fn on_cores(bed: &Bed, of: &[usize]) -> std::process::Command {
    let mut command = bed.command();
    command.args(["taskset", "--cpu-list", &cores::list(of)]);
    command
}

/// Checks that a program is installed.
///
/// # Errors
/// Returns an error with the packages that provide the program, if the program is missing.
pub fn installed(name: &str, packages: &str) -> Result<(), Failure> {
    let there = said_by(program("sh").args(["-c", &format!("command -v {name}")]), name);
    there.map(drop).map_err(|_| Failure(format!("program {name} not found: install the packages {packages}")))
}

/// Returns the commands that add or remove routes to networks; `verb` is "add" or "del".
pub(super) fn routes(networks: &[Networks], bed: &Bed, verb: &str) -> Vec<String> {
    let line = |n: &Networks| {
        let (first, host) = (n.iter().next()?, n.host(bed));
        Some(match n.which {
            Which::First(count) => format!("ip route {verb} {first} count {count} via {host}"),
            Which::Own(_) => format!("ip route {verb} {first} via {host}"),
        })
    };
    networks.iter().filter_map(line).collect()
}

/// Returns the input of `ip -batch` that adds or removes routes to networks, one line for each route. `verb` is "add" or "del".
/// Each line ends with `more`.
pub(super) fn batch(networks: &[Networks], bed: &Bed, verb: &str, more: &str) -> String {
    let mut text = String::new();
    for of in networks {
        let (host, link) = (of.host(bed), &bed.links[of.link.min(1)]);
        // The interface's name is chosen by the router on memif, and unknown on physical ports without router-ports.
        let is_named = bed.kind() != Kind::Memif && !link.router.is_empty();
        let device = if is_named { format!(" dev {}", link.router) } else { String::new() };
        for network in of.iter() {
            let _ = writeln!(text, "route {verb} {network} via {host}{device}{more}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_use_the_names_of_each_driver() {
        let links = crate::testbed::links();
        let first = |driver| forward(&links, driver, Router::Volley)[..3].join("\n");
        assert_eq!(
            first(Driver::AfPacket),
            "create host-interface name d0\nset interface state host-d0 up\nset interface ip address host-d0 198.18.0.1/24"
        );
        assert_eq!(
            first(Driver::AfXdp),
            "create interface af_xdp host-if d0\nset interface state xdp-d0 up\nset interface ip address xdp-d0 198.18.0.1/24"
        );
        assert_eq!(
            first(Driver::Memif),
            "create memif socket id 1 filename d0\ncreate interface memif id 0 socket-id 1 slave hw-addr 02:44:00:00:00:00\n\
             set interface state memif1/0 up"
        );
        let all = forward(&links, Driver::Memif, Router::Volley);
        assert_eq!(
            all.last().map(String::as_str),
            Some("ip route add 2001:2:0:8000::/49 via 2001:2:0:8000::2 memif2/0")
        );
    }

    #[test]
    fn vpp_gets_what_its_defaults_lack() {
        let links = crate::testbed::links();
        let first = |driver, n| forward(&links, driver, Router::Vpp)[..n].join("\n");
        assert_eq!(
            first(Driver::AfPacket, 3),
            "create host-interface name d0 hw-addr 02:44:00:00:00:00 cksum-gso-disable\nset interface mtu packet 1500 host-d0\n\
             set interface state host-d0 up"
        );
        assert_eq!(
            first(Driver::Memif, 4),
            "create memif socket id 1 filename d0\n\
             create interface memif id 0 socket-id 1 slave hw-addr 02:44:00:00:00:00 no-zero-copy\n\
             set interface mtu packet 1500 memif1/0\nset interface state memif1/0 up"
        );
    }
}
