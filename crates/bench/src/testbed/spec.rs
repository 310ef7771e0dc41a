//! The testbed of a campaign.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wire::Mac;

use crate::trial::link::Link;

/// The testbed as written in a campaign. Omitted keys have the kind's defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Spec {
    /// Kind of the links.
    pub kind: Kind,
    /// Cores that routers may use; by default all except the tester's core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<Vec<usize>>,
    /// Core on which the tester polls; by default the last one that is not in `cores`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tester_core: Option<usize>,
    /// For `veth` and `physical`: number of threads of each port that only send, by default 0. With such threads, the tester's core
    /// receives, and sends only the stamped frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub senders: Option<usize>,
    /// Cores for the threads that only send; each thread gets the next core of the list. By default all cores that neither the tester nor
    /// routers on this machine use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_cores: Option<Vec<usize>>,
    /// For `veth` and `tap`: whether the kernel processes frames to the router on the router's cores (RPS); by default it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rps: Option<bool>,
    /// For `physical`: the tester's two ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<[String; 2]>,
    /// For `veth` and `physical`: the driver of the tester's ports; by default packet sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    /// For `physical`: the router's names for the ports at the other ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_ports: Option<[String; 2]>,
    /// For `physical`: the Ethernet addresses of the router's ports; by default the tester resolves them by ARP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_macs: Option<[String; 2]>,
    /// For `physical`: the rate of the links, in 10⁹ bits per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gbit: Option<f64>,
    /// Directory for recordings of the first frames that the tester's ports send and receive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
}

/// Maximum number of threads of a port that only send.
const MOST_SENDERS: usize = 15;

/// Kind of a testbed's links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Two virtual links of the kernel, in the tester's own namespaces.
    #[default]
    Veth,
    /// Two taps between the tester and this machine's own stack, in the tester's own namespaces.
    Tap,
    /// Shared memory with a program on this machine.
    Memif,
    /// Two ports of this machine, cabled to a router on another machine.
    Physical,
}

/// The tester's driver for a kernel interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// Packet sockets.
    #[default]
    AfPacket,
    /// AF_XDP sockets.
    AfXdp,
}

impl Kind {
    /// Returns the length of the longest frame on the links, in bytes with frame check sequence and without VLAN tag; `None` if the kind
    /// sets no limit.
    pub fn most_bytes(self) -> Option<usize> {
        match self {
            Kind::Veth | Kind::Tap => Some(1518),
            Kind::Memif | Kind::Physical => None,
        }
    }

    /// All kinds, each with a one-line description.
    pub const ALL: [(Kind, &'static str); 4] = [
        (
            Kind::Veth,
            "two virtual links of the kernel, in the tester's own namespaces; no configuration needed",
        ),
        (
            Kind::Tap,
            "like veth, but with taps: the tester makes one system call for each frame, and the router uses the kernel's interfaces",
        ),
        (Kind::Memif, "shared memory with a program on this machine"),
        (Kind::Physical, "two ports of this machine, cabled to a router on another machine"),
    ];

    /// Returns the name in a campaign.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Veth => "veth",
            Kind::Tap => "tap",
            Kind::Memif => "memif",
            Kind::Physical => "physical",
        }
    }
}

impl Spec {
    /// Checks everything that does not need the machine.
    ///
    /// # Errors
    /// The first fault. Most messages name the key and the valid values.
    pub fn check(&self) -> Result<(), String> {
        let kind = self.kind.name();
        let keys = [
            ("rps", self.rps.is_some(), &[Kind::Veth, Kind::Tap][..]),
            ("driver", self.driver.is_some(), &[Kind::Veth, Kind::Physical]),
            ("senders", self.senders.is_some(), &[Kind::Veth, Kind::Physical]),
            ("ports", self.ports.is_some(), &[Kind::Physical]),
            ("router-ports", self.router_ports.is_some(), &[Kind::Physical]),
            ("router-macs", self.router_macs.is_some(), &[Kind::Physical]),
            ("gbit", self.gbit.is_some(), &[Kind::Physical]),
        ];
        if let Some((key, _, of)) = keys.iter().find(|(_, set, of)| *set && !of.contains(&self.kind)) {
            let of = of.iter().map(|kind| format!("{:?}", kind.name())).collect::<Vec<_>>();
            return Err(format!("{key} requires kind = {}, not {kind:?}", of.join(" or ")));
        }
        if self.kind == Kind::Physical {
            if self.ports.is_none() {
                return Err("kind = \"physical\" needs ports = [\"eth1\", \"eth2\"]".into());
            }
            for (key, two) in [("ports", &self.ports), ("router-ports", &self.router_ports)] {
                let twice = two.as_ref().filter(|[a, b]| a == b);
                twice.map_or(Ok(()), |[a, _]| Err(format!("{key}: {a} is given twice")))?;
            }
            if self.gbit.is_none_or(|g| !(0.001..=10_000.0).contains(&g)) {
                return Err("kind = \"physical\" needs gbit, the rate of its links, such as gbit = 10".into());
            }
        }
        if self.senders.is_some_and(|n| !(1..=MOST_SENDERS).contains(&n)) {
            return Err(format!("senders: 1 to {MOST_SENDERS} threads for each port are possible"));
        }
        if self.senders.is_some() && self.kind == Kind::Veth && self.driver == Some(Driver::AfXdp) {
            return Err("senders: on veth only supported with driver = \"af-packet\"".into());
        }
        if self.sender_cores.is_some() && self.senders.is_none() {
            return Err("sender-cores requires senders = N, the number of threads".into());
        }
        if self.sender_cores.as_ref().is_some_and(Vec::is_empty) {
            return Err("sender-cores: list at least one core".into());
        }
        self.macs()?;
        let cores = self.cores.as_deref();
        if cores.is_some_and(<[usize]>::is_empty) {
            return Err("cores: list at least one core for the router".into());
        }
        match self.tester_core {
            Some(core) if cores.is_some_and(|all| all.contains(&core)) => {
                Err(format!("core {core} is given to both the tester and the router"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of threads of each port that only send.
    pub fn senders(&self) -> usize {
        self.senders.unwrap_or(0)
    }

    /// Returns the capacity of each link; `None` for virtual links, which have no rate.
    pub fn link(&self) -> Option<Link> {
        self.gbit.filter(|_| self.kind == Kind::Physical).map(Link::gigabit)
    }

    /// Returns the router's Ethernet addresses, if given.
    ///
    /// # Errors
    /// If an address is invalid, or both are equal.
    pub fn macs(&self) -> Result<Option<[Mac; 2]>, String> {
        let Some([a, b]) = &self.router_macs else { return Ok(None) };
        let mac = |text: &String| text.parse::<Mac>().map_err(|e| format!("router-macs: {text:?}: {e}"));
        match [mac(a)?, mac(b)?] {
            [a, b] if a == b => Err(format!("router-macs: {a} is given twice")),
            both => Ok(Some(both)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        match toml::from_str::<Spec>(text) {
            Ok(spec) => spec.check().err().unwrap_or_else(|| "nothing".into()),
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn valid_testbeds_are_accepted() {
        let physical = "kind = 'physical'\nports = ['eth1', 'eth2']\ngbit = 10\nrouter-macs = \
                        ['02:00:00:00:00:01', '02:00:00:00:00:02']\ndriver = 'af-xdp'";
        for good in [
            "",
            "kind = 'veth'\nrps = false\ndriver = 'af-xdp'",
            "kind = 'tap'\nrps = true",
            "kind = 'memif'\ncores = [0, 1]\ntester-core = 2",
            physical,
        ] {
            assert_eq!(said(good), "nothing", "{good}");
        }
    }

    #[test]
    fn faults_name_the_key_and_valid_values() {
        let physical = "kind = 'physical'\nports = ['eth1', 'eth2']\n";
        let cases = [
            ("color = 1".to_owned(), "line 1"),
            ("rps = true\nkind = 'token-ring'".into(), "line 2"),
            ("kind = 'memif'\nrps = true".into(), "rps requires kind = \"veth\" or \"tap\", not \"memif\""),
            (
                "kind = 'tap'\ndriver = 'af-xdp'".into(),
                "driver requires kind = \"veth\" or \"physical\", not",
            ),
            ("gbit = 10".into(), "gbit requires kind = \"physical\""),
            ("kind = 'physical'\ngbit = 10".into(), "needs ports"),
            (physical.into(), "needs gbit"),
            (format!("{physical}gbit = 0"), "needs gbit"),
            ("kind = 'physical'\nports = ['a', 'a']\ngbit = 1".into(), "a is given twice"),
            ("kind = 'physical'\nports = ['a']\ngbit = 1".into(), "line 2"),
            (format!("{physical}gbit = 1\nrouter-macs = ['02:00:00:00:00:01', 'x']"), "router-macs: \"x\""),
            (
                format!("{physical}gbit = 1\nrouter-macs = ['02:00:00:00:00:0a', '02:00:00:00:00:0A']"),
                "router-macs: 02:00:00:00:00:0a is given twice",
            ),
            (format!("{physical}gbit = 1\nrouter-ports = ['c', 'c']"), "router-ports: c is given twice"),
            ("senders = 16".into(), "senders: 1 to 15 threads"),
            ("kind = 'tap'\nsenders = 1".into(), "senders requires kind = \"veth\" or \"physical\""),
            (
                "driver = 'af-xdp'\nsenders = 1".into(),
                "senders: on veth only supported with driver = \"af-packet\"",
            ),
            ("sender-cores = [1]".into(), "sender-cores requires senders"),
            ("cores = []".into(), "cores: list at least one core"),
            ("cores = [1]\ntester-core = 1".into(), "core 1 is given to both"),
        ];
        for (text, why) in cases {
            assert!(said(&text).contains(why), "{text}\n{}\nand not: {why}", said(&text));
        }
    }
}
