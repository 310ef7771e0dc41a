//! A router between two virtual links.
//!
//! ```text
//!   tester                            namespace "dut"
//!   t0 198.18.0.2, 2001:2::2 ──────── d0 198.18.0.1, 2001:2::1
//!   t1 198.19.0.2, 2001:2:0:8000::2 ─ d1 198.19.0.1, 2001:2:0:8000::1
//! ```
//!
//! The networks behind the tester's hosts are those of RFC 2544 (198.18.0.0/15, halved) and RFC 5180 (2001:2::/48, halved).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use drivers::af_packet;
use drivers::device::DeviceControl;
use ipnet::IpNet;
use wire::Mac;

use super::lab::sh;
use crate::engine::host::Hosts;
use crate::engine::run::Port;
use crate::traffic::Ends;
use crate::trial::Failure;

/// The namespace of what is tested.
pub const NAMESPACE: &str = "dut";

/// One link between the tester and what is tested.
#[derive(Clone, Debug)]
pub struct Link {
    /// The tester's interface, and its address.
    pub tester: String,
    /// Its Ethernet address.
    pub tester_mac: Mac,
    /// The router's interface, in its namespace.
    pub router: String,
    /// Its Ethernet address.
    pub router_mac: Mac,
    /// The router's address and the network on the link, and what lies behind the tester's host there.
    pub ipv4: (IpNet, IpNet),
    /// The same of IPv6.
    pub ipv6: (IpNet, IpNet),
}

impl Link {
    fn new(n: u8) -> Link {
        let half = u16::from(n) << 15;
        let v4 = |c, len| IpNet::new_assert(Ipv4Addr::new(198, 18 + n, 0, c).into(), len);
        let v6 = |host, len| IpNet::new_assert(Ipv6Addr::new(0x2001, 2, 0, half, 0, 0, 0, host).into(), len);
        Link {
            tester: format!("t{n}"),
            tester_mac: Mac([2, 0x54, 0, 0, 0, n]),
            router: format!("d{n}"),
            router_mac: Mac([2, 0x44, 0, 0, 0, n]),
            ipv4: (v4(1, 24), v4(0, 16)),
            ipv6: (v6(1, 64), v6(0, 49)),
        }
    }

    /// The tester's host on the link, of both families: the next hop to what lies behind it.
    pub fn hosts(&self) -> [IpAddr; 2] {
        [self.ipv4.0, self.ipv6.0].map(|net| match net.addr() {
            IpAddr::V4(a) => Ipv4Addr::from_bits(a.to_bits() + 1).into(),
            IpAddr::V6(a) => IpAddr::from(Ipv6Addr::from_bits(a.to_bits() + 1)),
        })
    }

    /// What the tester has on this link.
    ///
    /// # Errors
    /// When its interface cannot be had.
    fn open(&self) -> Result<(Port, Box<dyn DeviceControl>), Failure> {
        let config = af_packet::Config { rx_ring: 4096, ..af_packet::Config::new(&self.tester) };
        let mut device = af_packet::open(&config).map_err(|e| Failure(format!("{}: {e}", self.tester)))?;
        let none = || Failure(format!("{} has no queues", self.tester));
        let (rx, tx) = (device.rx.pop().ok_or_else(none)?, device.tx.pop().ok_or_else(none)?);
        let hosts = Hosts {
            mac: self.tester_mac,
            networks: vec![self.ipv4.0.trunc(), self.ipv6.0.trunc()],
            except: vec![self.ipv4.0.addr(), self.ipv6.0.addr()],
        };
        Ok((Port { tx, rx, hosts: Some(hosts) }, device.control))
    }
}

/// Two links, up, and the namespace between them.
pub struct Bed {
    /// The links.
    pub links: [Link; 2],
    /// What keeps the tester's interfaces its own.
    controls: Vec<Box<dyn DeviceControl>>,
    /// Whether the links are one, and go with this.
    cable: bool,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.controls.clear();
        if self.cable {
            // All others go with the tester's namespaces.
            let _ = sh(&format!("ip link del {}", self.links[0].tester));
        }
    }
}

impl Bed {
    /// Makes the namespace and the links. What is tested gets steering of packets to these cores (RPS), a mask as
    /// `/sys/class/net/*/queues/*/rps_cpus` has it: without, the sender's core would do the kernel's forwarding.
    ///
    /// # Errors
    /// When the machine does not let it, with the command that failed.
    pub fn new(rps: u64) -> Result<Bed, Failure> {
        let links = [0, 1].map(Link::new);
        // The tester's side is silent: no address, no IPv6 of the kernel's.
        sh("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")?;
        sh(&format!("ip netns add {NAMESPACE}"))?;
        for key in ["accept_dad=0", "accept_ra=0", "router_solicitations=0"] {
            sh(&format!("ip netns exec {NAMESPACE} sysctl -qw net.ipv6.conf.default.{key}"))?;
        }
        sh(&format!("ip -n {NAMESPACE} link set lo up"))?;
        for Link { tester, tester_mac, router, router_mac, .. } in &links {
            sh(&format!(
                "ip link add {tester} address {tester_mac} numrxqueues 1 numtxqueues 1 type veth peer name {router} address \
                 {router_mac} numrxqueues 1 numtxqueues 1 netns {NAMESPACE}"
            ))?;
            sh(&format!("ip link set {tester} up"))?;
            sh(&format!("ip -n {NAMESPACE} link set {router} up"))?;
            let steer = format!("echo {rps:x} > /sys/class/net/{router}/queues/rx-0/rps_cpus");
            super::lab::run(&["ip", "netns", "exec", NAMESPACE, "sh", "-c", &steer])?;
        }
        Ok(Bed { links, controls: Vec::new(), cable: false })
    }

    /// A cable between two of the tester's ports, and no router: for the self-test. It goes with the value.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn cable() -> Result<Bed, Failure> {
        sh("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")?;
        let mut links = [0, 1].map(Link::new);
        for (n, link) in links.iter_mut().enumerate() {
            link.tester = format!("c{n}");
        }
        // The other end takes what is sent to a router.
        let [a, b] = &mut links;
        (a.router_mac, b.router_mac) = (b.tester_mac, a.tester_mac);
        let name = |l: &Link| format!("{} address {} numrxqueues 1 numtxqueues 1", l.tester, l.tester_mac);
        sh(&format!("ip link add {} type veth peer name {}", name(a), name(b)))?;
        for link in &links {
            sh(&format!("ip link set {} up", link.tester))?;
        }
        Ok(Bed { links, controls: Vec::new(), cable: true })
    }

    /// The tester's ports.
    ///
    /// # Errors
    /// When an interface cannot be had.
    pub fn ports(&mut self) -> Result<Vec<Port>, Failure> {
        // Those of a trial before are given back first.
        self.controls.clear();
        let mut ports = Vec::new();
        for link in &self.links {
            let (port, control) = link.open()?;
            ports.push(port);
            self.controls.push(control);
        }
        Ok(ports)
    }

    /// The ends of the direction that begins at this port.
    pub fn ends(&self, from: usize) -> Ends {
        let link = &self.links[from.min(1)];
        Ends::rfc(link.tester_mac, link.router_mac, from == 1)
    }
}
