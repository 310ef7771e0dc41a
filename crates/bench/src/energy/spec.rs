//! What a campaign says of its meters.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::command::{Ipmi, Shell};
use super::counter::Counting;
use super::cpu::Cpu;
use super::power::Powered;
use super::rapl::{self, Rapl};
use super::snmp::{Snmp, What};
use super::{Fault, Kind, Meter};

/// A meter of a campaign: `[[meter]]` with its `kind`, and the keys of that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields, rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Spec {
    /// The processor's own counters (RAPL), of the machine that the tester runs on.
    Rapl {},
    /// A counter of a power distribution unit.
    Snmp {
        /// Host, or host and port.
        address: String,
        /// The community (SNMPv2c), which is no secret on the wire.
        #[serde(default = "public")]
        community: String,
        /// The outlet of a Raritan PX3.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outlet: Option<u32>,
        /// Which of the units that share the address: 1 is the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pdu: Option<u32>,
        /// The object in place of an outlet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        oid: Option<String>,
        /// Joules of one step of the object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        joules_per_unit: Option<f64>,
    },
    /// The power that the board's controller measures (DCMI).
    Ipmi {
        /// Arguments of `ipmitool` that say which controller; none for the machine's own.
        #[serde(default)]
        arguments: Vec<String>,
        /// Seconds between samples.
        #[serde(default = "second")]
        interval_seconds: f64,
    },
    /// A shell command that prints joules so far, or the power.
    Command {
        /// What the shell is given.
        command: String,
        /// It prints watts, not joules.
        #[serde(default)]
        watts: bool,
        /// Seconds between samples of watts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interval_seconds: Option<f64>,
    },
    /// Processor time: no energy.
    Cpu {
        /// The cores that are listed; those that the router was given where it is not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cores: Option<Vec<usize>>,
        /// The directory of the router's control group (cgroups v2).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cgroup: Option<PathBuf>,
    },
}

fn public() -> String {
    "public".into()
}

fn second() -> f64 {
    1.0
}

impl Spec {
    /// What there is without any: the router's processor time.
    pub const CPU: Spec = Spec::Cpu { cores: None, cgroup: None };

    /// Checks what can be checked before anything is asked.
    ///
    /// # Errors
    /// With the key at fault, and what it should be.
    pub fn check(&self) -> Result<(), Fault> {
        let fault = |text: &str| Err(Fault(text.into()));
        match self {
            Spec::Rapl {} => Ok(()),
            Spec::Snmp { address, .. } if address.is_empty() => {
                fault("address: the unit's host, or host:port")
            }
            Spec::Snmp { .. } => self.object().map(|_| ()),
            Spec::Ipmi { interval_seconds, .. } => interval(*interval_seconds).map(|_| ()),
            Spec::Command { command, .. } if command.trim().is_empty() => {
                fault("command: a shell command that prints a figure")
            }
            Spec::Command { watts: false, interval_seconds: Some(_), .. } => {
                fault("interval-seconds: only a power is sampled: with watts = true")
            }
            Spec::Command { interval_seconds, .. } => interval(interval_seconds.unwrap_or(1.0)).map(|_| ()),
            Spec::Cpu { cores: Some(cores), .. } if cores.is_empty() => {
                fault("cores: one at least, or none of the key")
            }
            Spec::Cpu { cgroup: Some(path), .. } if !path.is_absolute() => {
                fault("cgroup: the whole path of a directory, as /sys/fs/cgroup/router")
            }
            Spec::Cpu { .. } => Ok(()),
        }
    }

    /// Its name in reports.
    pub fn name(&self) -> String {
        match self {
            Spec::Rapl {} => "rapl".into(),
            Spec::Snmp { address, outlet, oid, .. } => {
                let which = outlet.map_or_else(|| oid.clone().unwrap_or_default(), |n| format!("outlet {n}"));
                format!("snmp {address} {which}")
            }
            Spec::Ipmi { .. } => "ipmi".into(),
            Spec::Command { command, .. } => format!("command {command:?}"),
            Spec::Cpu { .. } => "cpu".into(),
        }
    }

    /// What it measures.
    pub fn kind(&self) -> Kind {
        if matches!(self, Spec::Cpu { .. }) { Kind::CpuTime } else { Kind::Energy }
    }

    /// Whether it is asked over the network.
    pub fn is_remote(&self) -> bool {
        match self {
            Spec::Snmp { .. } => true,
            // Without arguments it is the machine's own controller.
            Spec::Ipmi { arguments, .. } => !arguments.is_empty(),
            _ => false,
        }
    }

    /// What is read over SNMP.
    fn object(&self) -> Result<What, Fault> {
        let fault = |text: String| Err(Fault(text));
        let Spec::Snmp { outlet, pdu, oid, joules_per_unit, .. } = self else {
            return fault("kind: this is no snmp".into());
        };
        match (outlet, oid, joules_per_unit) {
            (Some(0), None, None) => fault("outlet: the first one is 1".into()),
            (Some(outlet), None, None) => Ok(What::Outlet { pdu: pdu.unwrap_or(1), outlet: *outlet }),
            (Some(_), ..) => fault("outlet: either it, or oid with joules-per-unit".into()),
            (None, None, _) => fault("outlet: which one? Or oid with joules-per-unit".into()),
            (None, Some(_), _) if pdu.is_some() => fault("pdu: only with outlet".into()),
            (None, Some(_), None) => fault("joules-per-unit: how much is one step of the object?".into()),
            (None, Some(text), Some(joules)) => {
                if !(1e-9..=1e12).contains(joules) {
                    return fault(format!("joules-per-unit: {joules} is not from 1e-9 to 1e12"));
                }
                let numbers: Option<Vec<u64>> = text
                    .strip_prefix('.')
                    .unwrap_or(text)
                    .split('.')
                    .map(|n| Some(n.parse::<u32>().ok()?.into()))
                    .collect();
                match numbers {
                    Some(oid) if oid.len() > 2 && oid[0] <= 2 && oid[1] < 40 => {
                        Ok(What::Object { oid, joules: *joules })
                    }
                    _ => fault(format!("oid: {text:?} is no object identifier as 1.3.6.1.4.1.13742.6")),
                }
            }
        }
    }

    /// Opens it, and reads it once. Cores and processes are the router's, whose time is wanted.
    ///
    /// # Errors
    /// When it is not there, with what is missing.
    pub fn open(&self, cores: &[usize], processes: &[u32]) -> Result<Box<dyn Meter>, Fault> {
        self.check()?;
        Ok(match self {
            Spec::Rapl {} => Box::new(Counting::new(Rapl::open(Path::new(rapl::ROOT))?)),
            Spec::Snmp { address, community, .. } => {
                Box::new(Counting::new(Snmp::open(address, community, &self.object()?)?))
            }
            Spec::Ipmi { arguments, interval_seconds } => {
                Box::new(Powered::new(Ipmi::open(arguments)?, interval(*interval_seconds)?))
            }
            Spec::Command { command, watts, interval_seconds } => match Shell::open(command)? {
                shell if *watts => Box::new(Powered::new(shell, interval(interval_seconds.unwrap_or(1.0))?)),
                shell => Box::new(Counting::new(shell)),
            },
            Spec::Cpu { cores: own, cgroup } => {
                Box::new(Cpu::open(own.as_deref().unwrap_or(cores), processes, cgroup.as_deref())?)
            }
        })
    }
}

fn interval(seconds: f64) -> Result<Duration, Fault> {
    if (0.01..=3600.0).contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err(Fault(format!("interval-seconds: {seconds} is not from 0.01 to 3600")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A campaign, as far as its meters go.
    #[derive(Debug, Deserialize)]
    struct Meters {
        meter: Vec<Spec>,
    }

    fn parse(text: &str) -> Result<Spec, String> {
        let meters: Meters = toml::from_str(&format!("[[meter]]\n{text}")).map_err(|e| e.to_string())?;
        let spec = meters.meter.into_iter().next().ok_or("none")?;
        spec.check().map(|()| spec).map_err(|f| f.to_string())
    }

    #[test]
    fn every_kind_is_read_and_written() {
        for text in [
            "kind = 'rapl'",
            "kind = 'snmp'\naddress = 'pdu.example'\noutlet = 5",
            "kind = 'snmp'\naddress = 'pdu:1161'\ncommunity = 'c'\noid = '.1.3.6.1.4.1.1'\njoules-per-unit = 3600",
            "kind = 'ipmi'\narguments = ['-H', 'bmc']\ninterval-seconds = 0.5",
            "kind = 'command'\ncommand = 'joules'",
            "kind = 'command'\ncommand = 'power'\nwatts = true\ninterval-seconds = 2",
            "kind = 'cpu'\ncores = [0, 1]\ncgroup = '/sys/fs/cgroup/router'",
        ] {
            let spec = parse(text);
            let again =
                spec.as_ref().map(|s| serde_json::to_string(s).and_then(|t| serde_json::from_str(&t)));
            assert!(
                matches!(&again, Ok(Ok(again)) if Ok(again) == spec.as_ref()),
                "{text}: {spec:?}, {again:?}"
            );
        }
        assert_eq!(parse("kind = 'cpu'"), Ok(Spec::CPU));
    }

    #[test]
    fn faults_name_the_key() {
        let snmp = "kind = 'snmp'\naddress = 'pdu'\n";
        let cases = [
            ("kind = 'sun'".into(), "sun"),
            ("kind = 'rapl'\ncolour = 'red'".into(), "colour"),
            ("kind = 'cpu'\nouter = 1".into(), "outer"),
            ("kind = 'snmp'\noutlet = 1".into(), "address"),
            ("kind = 'snmp'\naddress = ''\noutlet = 1".into(), "address: the unit's host"),
            (snmp.to_string(), "outlet: which one?"),
            (format!("{snmp}outlet = 0"), "outlet: the first one is 1"),
            (format!("{snmp}outlet = 1\noid = '1.3.6'"), "outlet: either it"),
            (format!("{snmp}oid = '1.3.6'"), "joules-per-unit: how much"),
            (format!("{snmp}oid = '1.3.6'\njoules-per-unit = 0"), "joules-per-unit: 0 is not"),
            (format!("{snmp}oid = '1.3.x'\njoules-per-unit = 1"), "oid: \"1.3.x\" is no"),
            (format!("{snmp}oid = '7.3.6'\njoules-per-unit = 1"), "oid: \"7.3.6\" is no"),
            (format!("{snmp}oid = '1.3.6'\njoules-per-unit = 1\npdu = 1"), "pdu: only with outlet"),
            ("kind = 'ipmi'\ninterval-seconds = 0".into(), "interval-seconds: 0 is not"),
            ("kind = 'command'\ncommand = ' '".into(), "command: a shell command"),
            (
                "kind = 'command'\ncommand = 'a'\ninterval-seconds = 1".into(),
                "interval-seconds: only a power",
            ),
            (
                "kind = 'command'\ncommand = 'a'\nwatts = true\ninterval-seconds = nan".into(),
                "interval-seconds: NaN",
            ),
            ("kind = 'cpu'\ncores = []".into(), "cores: one at least"),
            ("kind = 'cpu'\ncgroup = 'router'".into(), "cgroup: the whole path"),
        ];
        for (text, why) in cases {
            let said = parse(&text).map_or_else(|e| e, |_| "nothing".into());
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
