//! Description of a router in a campaign.

use std::fmt;
use std::path::PathBuf;

use ipnet::Ipv4Net;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::testbed;

/// A router of a campaign, given by the name of its kind or by a table of keys.
///
/// Missing keys take the kind's defaults; [`check`](Spec::check) rejects keys that the kind does not support.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "Table")]
pub struct Spec(Table);

/// A router as written in a campaign's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Table {
    /// Kind of router.
    pub kind: Kind,
    /// Name in reports; the kind's name by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of cores that the router uses. One by default, but unknown for `linux` and `command` on another machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// `linux`: kernel settings of the router. `testpmd`: how it changes frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// `linux`: true to masquerade packets that leave through the second link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat: Option<bool>,
    /// `linux`: addresses of translated packets; by default the address of the second link's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat_pool: Option<Ipv4Net>,
    /// `linux`, `volley`, `vpp`: the router's machine, as an argument of `ssh`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `volley` and `vpp` on another machine: cores of the workers. For `vpp`, the main thread's core follows them. By default
    /// cores near the first port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Vec<usize>>,
    /// `volley`, and `vpp` on another machine: driver for the links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    /// `vpp`: path of VPP's program, with `vppctl` in the same directory; the installed programs by default. `volley` on another
    /// machine: path of Volley's program there; by default this machine's program is copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
    /// `command`: starts the router.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// `command`: text that `start` prints when the router is ready; `start` then stays in the foreground.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// `command`: runs after the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configure: Option<String>,
    /// `command`: restarts the router. Must not end before the router is configured to forward again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<String>,
    /// `command`: runs before the router is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// `command`: prints the router's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `command`: prints the router's counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<String>,
    /// `command`: deletes all connections that the router tracks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forget: Option<String>,
    /// `command`: changes routes, which it reads from its standard input in the format of `ip -batch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<String>,
    /// `command`: true for a router that forwards by Ethernet addresses, like a switch, without routing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<bool>,
    /// `command`: number of routers on the way, each of which lowers the time to live by one; 1 by default, 0 for a bridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u8>,
}

/// Kind of router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", try_from = "String")]
pub enum Kind {
    /// Forwarding of the Linux kernel.
    Linux,
    /// Volley.
    Volley,
    /// FD.io VPP.
    Vpp,
    /// DPDK's testpmd, which forwards without routing.
    Testpmd,
    /// Any router that shell commands start.
    Command,
    /// A cable in place of a router.
    None,
}

/// Kernel settings of `linux`, or how `testpmd` changes frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Linux as after boot.
    Default,
    /// Linux with the settings of a dedicated router.
    Tuned,
    /// Linux with a thread for each queue (threaded NAPI).
    Threaded,
    /// testpmd that forwards frames unchanged.
    Io,
    /// testpmd that swaps the Ethernet addresses.
    Macswap,
}

/// Driver of Volley or VPP for the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// Packet sockets.
    AfPacket,
    /// AF_XDP sockets.
    AfXdp,
    /// Shared memory (memif).
    Memif,
}

impl Kind {
    /// All kinds, with a description.
    pub const ALL: [(Kind, &'static str); 6] = [
        (Kind::Linux, "the Linux kernel's forwarding; on another machine with host = \"user@machine\""),
        (Kind::Volley, "Volley, from the tester's directory or as installed"),
        (Kind::Vpp, "FD.io VPP, as installed, or with program = \"/path/of/vpp\""),
        (Kind::Testpmd, "DPDK's testpmd, which forwards without routing (memif)"),
        (Kind::Command, "any router that shell commands start"),
        (Kind::None, "a cable in place of a router"),
    ];

    /// Returns the name used in campaign files.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Linux => "linux",
            Kind::Volley => "volley",
            Kind::Vpp => "vpp",
            Kind::Testpmd => "testpmd",
            Kind::Command => "command",
            Kind::None => "none",
        }
    }

    /// Returns the supported keys, besides `kind` and `name`.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Kind::Linux => &["workers", "mode", "nat", "nat-pool", "host"],
            Kind::Volley | Kind::Vpp => &["workers", "driver", "program", "host", "cores"],
            Kind::Testpmd => &["workers", "mode"],
            Kind::Command => &[
                "workers",
                "start",
                "ready",
                "configure",
                "restart",
                "stop",
                "version",
                "counters",
                "forget",
                "routes",
                "bridge",
                "hops",
            ],
            Kind::None => &[],
        }
    }

    /// Returns the supported testbeds.
    fn beds(self) -> &'static [testbed::Kind] {
        use testbed::Kind::{Memif, Physical, Tap, Veth};
        match self {
            Kind::Linux => &[Veth, Tap, Physical],
            Kind::Volley | Kind::Vpp => &[Veth, Tap, Memif, Physical],
            Kind::Testpmd => &[Memif],
            Kind::Command => &[Veth, Tap, Memif, Physical],
            Kind::None => &[Veth, Memif, Physical],
        }
    }
}

impl TryFrom<String> for Kind {
    type Error = String;

    fn try_from(name: String) -> Result<Kind, String> {
        let kind = Kind::ALL.iter().map(|(kind, _)| *kind).find(|kind| kind.name() == name);
        let all = Kind::ALL.map(|(kind, _)| kind.name()).join(", ");
        kind.ok_or_else(|| format!("unknown router {name:?}: use one of {all}"))
    }
}

impl From<Kind> for Spec {
    fn from(kind: Kind) -> Spec {
        Spec(Table {
            kind,
            name: None,
            workers: None,
            mode: None,
            nat: None,
            nat_pool: None,
            host: None,
            cores: None,
            driver: None,
            program: None,
            start: None,
            ready: None,
            configure: None,
            restart: None,
            stop: None,
            version: None,
            counters: None,
            forget: None,
            routes: None,
            bridge: None,
            hops: None,
        })
    }
}

impl From<Spec> for Table {
    fn from(spec: Spec) -> Table {
        spec.0
    }
}

impl std::ops::Deref for Spec {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Spec, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Spec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the kind of a router, or a table with its kind")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Spec, E> {
                Kind::try_from(name.to_owned()).map(Spec::from).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Spec, A::Error> {
                Table::deserialize(MapAccessDeserializer::new(map)).map(Spec)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl Spec {
    /// Returns the name in reports.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.kind.name())
    }

    /// Returns the same router with another name in reports.
    pub(crate) fn named(&self, name: String) -> Spec {
        Spec(Table { name: Some(name), ..self.0.clone() })
    }

    /// Formats a fault of this router, which is number `n`, from 0 on, in the campaign.
    pub fn fault(&self, n: usize, why: &str) -> String {
        format!("router {} ({}): {why}", n + 1, self.name())
    }

    /// Returns the number of cores that the router uses.
    pub fn workers(&self) -> usize {
        self.workers.unwrap_or(1)
    }

    /// Returns the number of cores that the router uses on this kind of testbed. `None` if the number is unknown: the campaign does not
    /// give it, and the router is on another machine, where the tester does not assign cores to a router of this kind.
    pub fn workers_on(&self, bed: testbed::Kind) -> Option<usize> {
        let is_set = bed != testbed::Kind::Physical || matches!(self.kind, Kind::Volley | Kind::Vpp);
        self.workers.or(is_set.then_some(1))
    }

    /// True if the router forwards frames without routing, by their Ethernet addresses or regardless of them.
    pub fn is_bridge(&self) -> bool {
        self.kind == Kind::Testpmd || self.bridge == Some(true)
    }

    /// Returns the number of routers on the way, each of which lowers the time to live by one.
    pub fn hops(&self) -> u8 {
        self.hops.unwrap_or(u8::from(!self.is_bridge() && self.kind != Kind::None))
    }

    /// True if the tester can restart the router in a trial.
    pub fn can_restart(&self) -> bool {
        (self.kind == Kind::Volley && self.host.is_none()) || self.restart.is_some()
    }

    /// Checks that the testbed supports this router with these keys.
    ///
    /// # Errors
    /// Returns the first faulty key and the remedy.
    fn check(&self, bed: &testbed::Spec) -> Result<(), String> {
        let kind = self.kind;
        if let Some(key) = self.written().find(|key| !kind.keys().contains(key)) {
            let all = kind.keys().join(", ");
            let has =
                if all.is_empty() { "its only key is name".into() } else { format!("its keys are {all}") };
            return Err(format!("{key} is not supported by the kind {}: {has}", kind.name()));
        }
        if !kind.beds().contains(&bed.kind) {
            let all: Vec<_> = kind.beds().iter().map(|k| k.name()).collect();
            let here = bed.kind.name();
            return Err(format!("not supported on the testbed {here:?}, only on {}", all.join(" or ")));
        }
        let physical = bed.kind == testbed::Kind::Physical;
        let memif = bed.kind == testbed::Kind::Memif;
        let kernel = [None, Some(Mode::Default), Some(Mode::Tuned), Some(Mode::Threaded)];
        let remote = matches!(kind, Kind::Linux | Kind::Volley | Kind::Vpp);
        let why = match (kind, self.mode, self.driver) {
            _ if self.workers == Some(0) => "workers: must be at least 1",
            _ if self.name.as_deref() == Some("") => "name: must not be empty",
            // The router's programs start in another directory.
            _ if self.program.as_ref().is_some_and(|path| !path.is_absolute()) => {
                "program: must be an absolute path"
            }
            (Kind::Linux, ..) if self.nat_pool.is_some() && self.nat != Some(true) => {
                "nat-pool needs nat = true"
            }
            (Kind::Linux, mode, _) if !kernel.contains(&mode) => "mode: use default, tuned or threaded",
            (Kind::Linux, Some(Mode::Threaded), _) if bed.kind == testbed::Kind::Tap => {
                "mode: threaded is not supported on taps, which have no NAPI threads: use default or tuned"
            }
            (Kind::Testpmd, mode, _) if mode.is_some() && kernel.contains(&mode) => "mode: use io or macswap",
            _ if remote && physical && self.host.is_none() => {
                "the testbed \"physical\" needs host = \"user@machine\", which ssh must reach without a password"
            }
            (Kind::Linux, Some(Mode::Threaded), _) if physical && self.workers.is_some() => {
                "workers: not supported with mode = \"threaded\" on the testbed \"physical\", where workers are the cores of the ports' \
                 interrupts: remove workers"
            }
            _ if !physical && self.host.is_some() => "host is only supported on the testbed \"physical\"",
            _ if !physical && self.cores.is_some() => {
                "a router's cores are only supported on the testbed \"physical\": set \"cores\" in [testbed] instead"
            }
            _ if self.cores.as_ref().is_some_and(|cores| cores.len() < self.workers()) => {
                "cores: each worker needs a core: add cores, or lower workers"
            }
            // ssh would parse a leading '-' as an option.
            _ if self.host.as_ref().is_some_and(|h| h.is_empty() || h.starts_with('-')) => {
                "host: must be user@machine"
            }
            _ if remote && physical && bed.router_ports.is_none() => {
                "the testbed needs router-ports: the names of the router's ports"
            }
            (Kind::Vpp, _, Some(_)) if !physical => "driver: only supported on the testbed \"physical\"",
            (Kind::Volley, ..) if !physical && self.program.is_some() => {
                "program: only supported on the testbed \"physical\""
            }
            (Kind::Volley | Kind::Vpp, _, Some(Driver::Memif)) if !memif => {
                "driver: memif is only supported on the testbed \"memif\""
            }
            (Kind::Volley, _, Some(Driver::AfPacket | Driver::AfXdp)) if memif => {
                "driver: must be memif on the testbed \"memif\""
            }
            (Kind::Command, ..) if self.start.is_none() && self.configure.is_none() => {
                "start or configure is needed: a shell command"
            }
            (Kind::Command, ..) if self.ready.is_some() && self.start.is_none() => {
                "\"ready\" needs \"start\": a command that prints the text of \"ready\""
            }
            _ => return Ok(()),
        };
        Err(why.into())
    }

    /// Returns the keys that are set, besides `kind` and `name`.
    fn written(&self) -> impl Iterator<Item = &'static str> {
        [
            ("workers", self.workers.is_some()),
            ("mode", self.mode.is_some()),
            ("nat", self.nat.is_some()),
            ("nat-pool", self.nat_pool.is_some()),
            ("host", self.host.is_some()),
            ("cores", self.cores.is_some()),
            ("driver", self.driver.is_some()),
            ("program", self.program.is_some()),
            ("start", self.start.is_some()),
            ("ready", self.ready.is_some()),
            ("configure", self.configure.is_some()),
            ("restart", self.restart.is_some()),
            ("stop", self.stop.is_some()),
            ("version", self.version.is_some()),
            ("counters", self.counters.is_some()),
            ("forget", self.forget.is_some()),
            ("routes", self.routes.is_some()),
            ("bridge", self.bridge.is_some()),
            ("hops", self.hops.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, set)| set.then_some(key))
    }
}

/// Checks the routers and the testbed of a campaign.
///
/// # Errors
/// Returns the first fault.
pub fn check(duts: &[Spec], bed: &testbed::Spec) -> Result<(), String> {
    bed.check().map_err(|why| format!("testbed: {why}"))?;
    for (n, dut) in duts.iter().enumerate() {
        dut.check(bed).map_err(|why| dut.fault(n, &why))?;
        if duts[..n].iter().any(|other| other.name() == dut.name()) {
            return Err(dut.fault(n, "name: already taken by another router: set a different name"));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
