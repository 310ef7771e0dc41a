//! What a campaign says of its testbed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wire::Mac;

use crate::trial::link::Link;

/// The testbed of a campaign, as it is written: what is left out is as the kind has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Spec {
    /// What the links are.
    pub kind: Kind,
    /// Cores that routers may use; all but the tester's if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<Vec<usize>>,
    /// The core that the tester polls on; the last one if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tester_core: Option<usize>,
    /// Of `veth` and `tap`: whether the kernel takes frames to the router on the router's cores (RPS); it does if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rps: Option<bool>,
    /// Of `physical`: the tester's two ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<[String; 2]>,
    /// Of `veth` and `physical`: how the tester drives its ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    /// Of `physical`: the names of the ports at the other ends, as the router knows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_ports: Option<[String; 2]>,
    /// Of `physical`: the Ethernet addresses of those; the tester asks for them (ARP) if they are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_macs: Option<[String; 2]>,
    /// Of `physical`: the links' rate, in 10⁹ bits a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gbit: Option<f64>,
    /// A directory in which the first frames that the tester's ports send and receive are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
}

/// What the links of a testbed are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Two virtual links of the kernel, in namespaces of the tester's own.
    #[default]
    Veth,
    /// Two cables between the tester and this machine's own stack, in namespaces of the tester's own.
    Tap,
    /// Shared memory with a program on this machine.
    Memif,
    /// Two ports of this machine, cabled to a router that is another machine.
    Physical,
}

/// How the tester drives a port that is an interface of the kernel.
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
    /// The longest frame that its links carry, in bytes with frame check sequence and without a VLAN's tag; `None` where only the port
    /// knows.
    pub fn most_bytes(self) -> Option<usize> {
        match self {
            Kind::Veth | Kind::Tap => Some(1518),
            Kind::Memif | Kind::Physical => None,
        }
    }

    /// All kinds, each with a line of what it is.
    pub const ALL: [(Kind, &'static str); 4] = [
        (Kind::Veth, "two virtual links of the kernel, in namespaces of their own; nothing to configure"),
        (
            Kind::Tap,
            "as veth, by a system call for each frame: the tester has the cable's end, the router an interface",
        ),
        (Kind::Memif, "shared memory with a program on this machine"),
        (Kind::Physical, "two ports of this machine, cabled to a router that is another machine"),
    ];

    /// As a campaign has it.
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
    /// Checks what can be checked before anything is touched.
    ///
    /// # Errors
    /// The first fault, which names the key and what would do.
    pub fn check(&self) -> Result<(), String> {
        let kind = self.kind.name();
        let keys = [
            ("rps", self.rps.is_some(), &[Kind::Veth, Kind::Tap][..]),
            ("driver", self.driver.is_some(), &[Kind::Veth, Kind::Physical]),
            ("ports", self.ports.is_some(), &[Kind::Physical]),
            ("router-ports", self.router_ports.is_some(), &[Kind::Physical]),
            ("router-macs", self.router_macs.is_some(), &[Kind::Physical]),
            ("gbit", self.gbit.is_some(), &[Kind::Physical]),
        ];
        if let Some((key, _, of)) = keys.iter().find(|(_, set, of)| *set && !of.contains(&self.kind)) {
            let of = of.iter().map(|kind| format!("{:?}", kind.name())).collect::<Vec<_>>();
            return Err(format!("{key} is for kind = {}, and this is {kind:?}", of.join(" or ")));
        }
        if self.kind == Kind::Physical {
            if self.ports.is_none() {
                return Err("a physical one needs ports = [\"eth1\", \"eth2\"]".into());
            }
            for (key, two) in [("ports", &self.ports), ("router-ports", &self.router_ports)] {
                let twice = two.as_ref().filter(|[a, b]| a == b);
                twice.map_or(Ok(()), |[a, _]| Err(format!("{key}: {a} stands there twice")))?;
            }
            if self.gbit.is_none_or(|g| !(0.001..=10_000.0).contains(&g)) {
                return Err("a physical one needs gbit, its links' rate, such as gbit = 10".into());
            }
        }
        self.macs()?;
        let cores = self.cores.as_deref();
        if cores.is_some_and(<[usize]>::is_empty) {
            return Err("cores: the router needs one at least".into());
        }
        match self.tester_core {
            Some(core) if cores.is_some_and(|all| all.contains(&core)) => {
                Err(format!("core {core} cannot be the tester's and the router's"))
            }
            _ => Ok(()),
        }
    }

    /// What each of the links carries; `None` of virtual ones, which have no rate.
    pub fn link(&self) -> Option<Link> {
        self.gbit.filter(|_| self.kind == Kind::Physical).map(Link::gigabit)
    }

    /// The Ethernet addresses of the router, where they are given.
    ///
    /// # Errors
    /// When one is none, or both are the same.
    pub fn macs(&self) -> Result<Option<[Mac; 2]>, String> {
        let Some([a, b]) = &self.router_macs else { return Ok(None) };
        let mac = |text: &String| text.parse::<Mac>().map_err(|e| format!("router-macs: {text:?}: {e}"));
        match [mac(a)?, mac(b)?] {
            [a, b] if a == b => Err(format!("router-macs: {a} stands there twice")),
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
    fn what_is_right_is_taken() {
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
    fn faults_name_the_key_and_what_would_do() {
        let physical = "kind = 'physical'\nports = ['eth1', 'eth2']\n";
        let cases = [
            ("colour = 1".to_owned(), "line 1"),
            ("rps = true\nkind = 'token-ring'".into(), "line 2"),
            (
                "kind = 'memif'\nrps = true".into(),
                "rps is for kind = \"veth\" or \"tap\", and this is \"memif\"",
            ),
            (
                "kind = 'tap'\ndriver = 'af-xdp'".into(),
                "driver is for kind = \"veth\" or \"physical\", and this",
            ),
            ("gbit = 10".into(), "gbit is for kind = \"physical\""),
            ("kind = 'physical'\ngbit = 10".into(), "needs ports"),
            (physical.into(), "needs gbit"),
            (format!("{physical}gbit = 0"), "needs gbit"),
            ("kind = 'physical'\nports = ['a', 'a']\ngbit = 1".into(), "a stands there twice"),
            ("kind = 'physical'\nports = ['a']\ngbit = 1".into(), "line 2"),
            (format!("{physical}gbit = 1\nrouter-macs = ['02:00:00:00:00:01', 'x']"), "router-macs: \"x\""),
            (
                format!("{physical}gbit = 1\nrouter-macs = ['02:00:00:00:00:0a', '02:00:00:00:00:0A']"),
                "router-macs: 02:00:00:00:00:0a stands there twice",
            ),
            (format!("{physical}gbit = 1\nrouter-ports = ['c', 'c']"), "router-ports: c stands there twice"),
            ("cores = []".into(), "cores: the router needs one"),
            ("cores = [1]\ntester-core = 1".into(), "core 1 cannot be"),
        ];
        for (text, why) in cases {
            assert!(said(&text).contains(why), "{text}\n{}\nand not: {why}", said(&text));
        }
    }
}
