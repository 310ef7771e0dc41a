//! Virtual links of the kernel.

use super::lab::{self, sh};
use super::link::Link;
use super::near::{Interfaces, Near};
use super::spec::Driver;
use crate::engine::run::Port;
use crate::trial::Failure;

/// The router's namespace.
pub const NAMESPACE: &str = "dut";

/// Makes the links to the router's namespace.
///
/// # Errors
/// If a command fails; the error names the command.
pub(super) fn make(links: &[Link; 2]) -> Result<(), Failure> {
    silence()?;
    for Link { tester, tester_mac, router, router_mac, .. } in links {
        sh(&format!(
            "ip link add {tester} address {tester_mac} numrxqueues 1 numtxqueues 1 type veth peer name {router} address \
             {router_mac} numrxqueues 1 numtxqueues 1 netns {NAMESPACE}"
        ))?;
        sh(&format!("ip link set {tester} up"))?;
        sh(&format!("ip -n {NAMESPACE} link set {router} up"))?;
    }
    Ok(())
}

/// Makes the router's namespace.
///
/// # Errors
/// If a command fails; the error names the command.
pub(super) fn namespace() -> Result<(), Failure> {
    sh(&format!("ip netns add {NAMESPACE}"))?;
    for key in ["accept_dad=0", "accept_ra=0", "router_solicitations=0"] {
        sh(&format!("ip netns exec {NAMESPACE} sysctl -qw net.ipv6.conf.default.{key}"))?;
    }
    sh(&format!("ip -n {NAMESPACE} link set lo up")).map(drop)
}

/// Disables IPv6 in the tester's namespace, so that the kernel itself sends nothing on the tester's ends of the links.
fn silence() -> Result<(), Failure> {
    sh("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1").map(drop)
}

/// Makes the kernel process frames arriving at the router's ends on these cores (RPS). Without RPS, or with no cores, the sender's core
/// does the router's work.
///
/// # Errors
/// If a command fails.
pub(super) fn steer(links: &[Link; 2], cores: &[usize]) -> Result<(), Failure> {
    for Link { router, .. } in links {
        let steer = format!("echo {} > /sys/class/net/{router}/queues/rx-0/rps_cpus", mask(cores));
        lab::run(&["ip", "netns", "exec", NAMESPACE, "sh", "-c", &steer])?;
    }
    Ok(())
}

/// Formats a set of cores for the kernel: words of 32 bits in hexadecimal, the highest first.
fn mask(cores: &[usize]) -> String {
    let words = cores.iter().max().map_or(0, |most| most / 32);
    let word = |n: usize| cores.iter().filter(|c| *c / 32 == n).fold(0u32, |all, c| all | 1 << (c % 32));
    let all: Vec<_> = (0..=words).rev().map(|n| format!("{:08x}", word(n))).collect();
    all.join(",")
}

/// A virtual link with both ends on the tester; removed on drop.
pub(super) struct Cable {
    near: Interfaces,
    name: String,
}

impl Cable {
    /// Makes a cable (a veth) for this driver, and stores the names of the cable's ends in `links`. The cable may be in the
    /// machine's own network namespace.
    pub fn make(links: &mut [Link; 2], driver: Driver, senders: usize) -> Result<Cable, Failure> {
        for (n, link) in links.iter_mut().enumerate() {
            // Another tester may have a cable in the same namespace.
            link.tester = format!("vb{}c{n}", std::process::id());
        }
        let [a, b] = &*links;
        // Each end of a veth needs as many receive queues as the other one has send queues.
        let n = if driver == Driver::AfXdp { senders + 1 } else { 1 };
        let name =
            |l: &Link| format!("{} address {} numrxqueues {n} numtxqueues {n}", l.tester, l.tester_mac);
        sh(&format!("ip link add {} type veth peer name {}", name(a), name(b)))?;
        let made = Cable { near: Interfaces::new(driver, senders), name: a.tester.clone() };
        for link in &*links {
            // Keeps the ends silent: no IPv6 of the kernel. A kernel without IPv6 has no such key.
            let _ = sh(&format!("sysctl -qw net.ipv6.conf.{}.disable_ipv6=1", link.tester));
            sh(&format!("ip link set {} up", link.tester))?;
        }
        Ok(made)
    }
}

impl Near for Cable {
    fn open(&mut self, links: &[Link; 2], pool: &buf::Pool) -> Result<Vec<Port>, Failure> {
        self.near.open(links, pool)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.near = Interfaces::default();
        // All other links are removed with the tester's namespaces.
        let _ = sh(&format!("ip link del {}", self.name));
    }
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn core_masks_are_written_in_words_of_32_bits() {
        assert_eq!(mask(&[]), "00000000");
        assert_eq!(mask(&[0, 2]), "00000005");
        assert_eq!(mask(&[1, 32, 65]), "00000002,00000001,00000002");
    }
}
