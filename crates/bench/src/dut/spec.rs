//! What a campaign says of a router.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::testbed;

/// A router of a campaign: a kind with its defaults, or a table.
///
/// What is left out is as the kind has it; [`check`](Spec::check) says what does not go with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "Table")]
pub struct Spec(Table);

/// The same as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Table {
    /// What it is.
    pub kind: Kind,
    /// Its name in reports; the kind's if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How many of the testbed's cores it uses; one if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// The clock of its cores, in MHz; what the machine does by itself if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_mhz: Option<u32>,
    /// How it is set up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Of `linux`: whether it masquerades what leaves by the second link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nat: Option<bool>,
    /// Of `linux`: the machine that it is, as `ssh` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Of `volley`: how it takes the links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<Driver>,
    /// Of `command`: starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Of `command`: what `start`, which then stays in the foreground, prints when it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Of `command`: is run when it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configure: Option<String>,
    /// Of `command`: restarts it, and comes back when it is told to forward again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<String>,
    /// Of `command`: is run before it is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Of `command`: prints its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Of `command`: prints what the router says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<String>,
    /// Of `command`: has the router forget all connections that it tracks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forget: Option<String>,
    /// Of `command`: it forwards frames as a switch does, by Ethernet addresses, and does not route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bridge: Option<bool>,
}

/// What a router is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", try_from = "String")]
pub enum Kind {
    /// The kernel's own forwarding.
    Linux,
    /// This very program.
    Volley,
    /// FD.io VPP.
    Vpp,
    /// DPDK's testpmd, which forwards and does not route.
    Testpmd,
    /// Whatever can be started by a command.
    Command,
    /// A cable.
    None,
}

/// How a router is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Linux as it is after boot.
    Default,
    /// Linux as an operator sets a router up.
    Tuned,
    /// Linux with a thread for each queue (threaded NAPI).
    Threaded,
    /// testpmd that changes nothing.
    Io,
    /// testpmd that exchanges the Ethernet addresses.
    Macswap,
}

/// How Volley takes a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// By packet sockets.
    AfPacket,
    /// By AF_XDP sockets.
    AfXdp,
    /// By shared memory.
    Memif,
}

impl Kind {
    /// All kinds, each with a line of what it is.
    pub const ALL: [(Kind, &'static str); 6] = [
        (Kind::Linux, "the kernel's own forwarding; with host = \"user@machine\" that of another machine"),
        (Kind::Volley, "the router beside the tester's program"),
        (Kind::Vpp, "FD.io VPP, if it is installed"),
        (Kind::Testpmd, "DPDK's testpmd, which forwards without routing (memif)"),
        (Kind::Command, "whatever shell commands start"),
        (Kind::None, "a cable in place of a router"),
    ];

    /// As a campaign has it.
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

    /// The keys that it can have beside `kind` and `name`.
    fn keys(self) -> &'static [&'static str] {
        match self {
            Kind::Linux => &["workers", "clock-mhz", "mode", "nat", "host"],
            Kind::Volley => &["workers", "clock-mhz", "driver"],
            Kind::Vpp => &["workers", "clock-mhz"],
            Kind::Testpmd => &["workers", "clock-mhz", "mode"],
            Kind::Command => &[
                "workers",
                "clock-mhz",
                "start",
                "ready",
                "configure",
                "restart",
                "stop",
                "version",
                "counters",
                "forget",
                "bridge",
            ],
            Kind::None => &[],
        }
    }

    /// The testbeds that it can be between.
    fn beds(self) -> &'static [testbed::Kind] {
        use testbed::Kind::{Memif, Physical, Tap, Veth};
        match self {
            Kind::Linux => &[Veth, Tap, Physical],
            Kind::Volley | Kind::Vpp => &[Veth, Tap, Memif],
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
        kind.ok_or_else(|| format!("there is no router {name:?}: one of {all}"))
    }
}

impl From<Kind> for Spec {
    fn from(kind: Kind) -> Spec {
        Spec(Table {
            kind,
            name: None,
            workers: None,
            clock_mhz: None,
            mode: None,
            nat: None,
            host: None,
            driver: None,
            start: None,
            ready: None,
            configure: None,
            restart: None,
            stop: None,
            version: None,
            counters: None,
            forget: None,
            bridge: None,
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
    /// Its name in reports.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.kind.name())
    }

    /// What is wrong with it as the one of this number, from 0 on, among the routers of a campaign.
    pub fn fault(&self, n: usize, why: &str) -> String {
        format!("router {} ({}): {why}", n + 1, self.name())
    }

    /// How many cores it uses.
    pub fn workers(&self) -> usize {
        self.workers.unwrap_or(1)
    }

    /// The same on a testbed, if that is known: of another machine only where the campaign says it.
    pub fn workers_on(&self, bed: testbed::Kind) -> Option<usize> {
        self.workers.or((bed != testbed::Kind::Physical).then_some(1))
    }

    /// Whether it hands frames on by their Ethernet addresses, or to whom they may be, and does not route.
    pub fn is_bridge(&self) -> bool {
        self.kind == Kind::Testpmd || self.bridge == Some(true)
    }

    /// Whether the tester can restart it in a trial.
    pub fn can_restart(&self) -> bool {
        self.kind == Kind::Volley || self.restart.is_some()
    }

    /// Checks whether there can be such a router on such a testbed.
    ///
    /// # Errors
    /// The first fault, which names the key, and what would do.
    fn check(&self, bed: &testbed::Spec) -> Result<(), String> {
        let kind = self.kind;
        if let Some(key) = self.written().find(|key| !kind.keys().contains(key)) {
            let all = kind.keys().join(", ");
            let has = if all.is_empty() { "it has no keys but name".into() } else { format!("it has {all}") };
            return Err(format!("{key} does not go with the kind {}: {has}", kind.name()));
        }
        if !kind.beds().contains(&bed.kind) {
            let all: Vec<_> = kind.beds().iter().map(|k| k.name()).collect();
            let here = bed.kind.name();
            return Err(format!("it cannot be on the testbed {here:?}, only on {}", all.join(" or ")));
        }
        let physical = bed.kind == testbed::Kind::Physical;
        let memif = bed.kind == testbed::Kind::Memif;
        let kernel = [None, Some(Mode::Default), Some(Mode::Tuned), Some(Mode::Threaded)];
        let why = match (kind, self.mode, self.driver) {
            _ if self.workers == Some(0) => "workers: one at least",
            _ if self.name.as_deref() == Some("") => "its name is empty",
            _ if self.clock_mhz.is_some() && physical => {
                "clock-mhz is for routers on this machine: on the testbed \"physical\" they are others"
            }
            (Kind::Linux, mode, _) if !kernel.contains(&mode) => "mode: one of default, tuned, threaded",
            (Kind::Linux, Some(Mode::Threaded), _) if bed.kind == testbed::Kind::Tap => {
                "mode: default or tuned: a tap is not polled by the kernel (NAPI), so that it has no threads"
            }
            (Kind::Testpmd, mode, _) if mode.is_some() && kernel.contains(&mode) => "mode: io or macswap",
            (Kind::Linux, ..) if physical && self.host.is_none() => {
                "on the testbed \"physical\" it needs host = \"user@machine\", which ssh reaches without a password"
            }
            (Kind::Linux, Some(Mode::Threaded), _) if physical && self.workers.is_some() => {
                "workers: on the testbed \"physical\" they are the cores of the ports' interrupts, and threads (mode) keep to none: leave \
                 workers away"
            }
            (Kind::Linux, ..) if !physical && self.host.is_some() => "host is for the testbed \"physical\"",
            // ssh would take it for an option.
            (Kind::Linux, ..) if self.host.as_ref().is_some_and(|h| h.is_empty() || h.starts_with('-')) => {
                "host: user@machine"
            }
            (Kind::Linux, ..) if physical && bed.router_ports.is_none() => {
                "the testbed needs router-ports, the names of its ports on that machine"
            }
            (Kind::Volley, _, Some(Driver::Memif)) if !memif => {
                "the driver memif is for the testbed \"memif\""
            }
            (Kind::Volley, _, Some(Driver::AfPacket | Driver::AfXdp)) if memif => {
                "on the testbed \"memif\" its driver is memif"
            }
            (Kind::Command, ..) if self.start.is_none() && self.configure.is_none() => {
                "it needs start or configure, a shell command"
            }
            (Kind::Command, ..) if self.ready.is_some() && self.start.is_none() => {
                "ready is what start prints, and there is no start"
            }
            _ => return Ok(()),
        };
        Err(why.into())
    }

    /// The keys that are written, but `kind` and `name`.
    fn written(&self) -> impl Iterator<Item = &'static str> {
        [
            ("workers", self.workers.is_some()),
            ("clock-mhz", self.clock_mhz.is_some()),
            ("mode", self.mode.is_some()),
            ("nat", self.nat.is_some()),
            ("host", self.host.is_some()),
            ("driver", self.driver.is_some()),
            ("start", self.start.is_some()),
            ("ready", self.ready.is_some()),
            ("configure", self.configure.is_some()),
            ("restart", self.restart.is_some()),
            ("stop", self.stop.is_some()),
            ("version", self.version.is_some()),
            ("counters", self.counters.is_some()),
            ("forget", self.forget.is_some()),
            ("bridge", self.bridge.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, set)| set.then_some(key))
    }
}

/// Checks the routers of a campaign, and its testbed.
///
/// # Errors
/// The first fault.
pub fn check(duts: &[Spec], bed: &testbed::Spec) -> Result<(), String> {
    bed.check().map_err(|why| format!("testbed: {why}"))?;
    for (n, dut) in duts.iter().enumerate() {
        dut.check(bed).map_err(|why| dut.fault(n, &why))?;
        if duts[..n].iter().any(|other| other.name() == dut.name()) {
            return Err(dut.fault(n, "another one is called so: give it a name"));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
