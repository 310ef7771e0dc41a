//! Description of a meter in a campaign.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::command::Shell;
use super::counter::Counting;
use super::cpu::Cpu;
use super::power::Powered;
use super::rapl::{self, Rapl};
use super::snmp::{Snmp, What};
use super::{Fault, Kind, Meter};

/// A meter of a campaign: `[[meter]]` with its `kind` and that kind's keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields, rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Spec {
    /// The energy counters of this machine's processor (RAPL).
    Rapl {},
    /// An energy counter of a power distribution unit, over SNMP.
    Snmp {
        /// Host, or host and port.
        address: String,
        /// Community (SNMPv2c), sent in plain text.
        #[serde(default = "public")]
        community: String,
        /// Outlet of a Raritan PX3, from 1 on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outlet: Option<u32>,
        /// Number of the power distribution unit, from 1 on, if several units share the address.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pdu: Option<u32>,
        /// Object identifier to read instead of an outlet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        oid: Option<String>,
        /// Energy of one count of the object, in joules.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        joules_per_unit: Option<f64>,
    },
    /// A shell command that prints the energy so far in joules, or the power in watts.
    Command {
        /// The line of shell.
        command: String,
        /// True if the command prints watts, not joules.
        #[serde(default)]
        watts: bool,
        /// Seconds between two samples of the power; 1 by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interval_seconds: Option<f64>,
    },
    /// Processor time, which is not energy.
    Cpu {
        /// Cores to measure; the router's cores by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cores: Option<Vec<usize>>,
        /// Directory of the router's control group (cgroups v2).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cgroup: Option<PathBuf>,
    },
}

fn public() -> String {
    "public".into()
}

impl Spec {
    /// Default meter: the router's processor time.
    pub const CPU: Spec = Spec::Cpu { cores: None, cgroup: None };

    /// Checks the keys without reading the meter.
    ///
    /// # Errors
    /// Returns the first faulty key and the remedy.
    pub fn check(&self) -> Result<(), Fault> {
        let fault = |text: &str| Err(Fault(text.into()));
        match self {
            Spec::Rapl {} => Ok(()),
            Spec::Snmp { address, .. } if address.is_empty() => {
                fault("address: must be the PDU's host, or host:port")
            }
            Spec::Snmp { .. } => self.object().map(|_| ()),
            Spec::Command { command, .. } if command.trim().is_empty() => {
                fault("command: must be a shell command that prints a figure")
            }
            Spec::Command { watts: false, interval_seconds: Some(_), .. } => {
                fault("interval-seconds: only supported with watts = true")
            }
            Spec::Command { interval_seconds, .. } => interval(interval_seconds.unwrap_or(1.0)).map(|_| ()),
            Spec::Cpu { cores: Some(cores), .. } if cores.is_empty() => {
                fault("cores: list at least one core, or remove the key")
            }
            Spec::Cpu { cgroup: Some(path), .. } if !path.is_absolute() => {
                fault("cgroup: must be an absolute path, such as /sys/fs/cgroup/router")
            }
            Spec::Cpu { .. } => Ok(()),
        }
    }

    /// Returns the name in reports.
    pub fn name(&self) -> String {
        match self {
            Spec::Rapl {} => "rapl".into(),
            Spec::Snmp { address, outlet, oid, .. } => {
                let which = outlet.map_or_else(|| oid.clone().unwrap_or_default(), |n| format!("outlet {n}"));
                format!("snmp {address} {which}")
            }
            Spec::Command { command, .. } => format!("command {command:?}"),
            Spec::Cpu { .. } => "cpu".into(),
        }
    }

    /// Returns the quantity that the meter measures.
    pub fn kind(&self) -> Kind {
        if matches!(self, Spec::Cpu { .. }) { Kind::CpuTime } else { Kind::Energy }
    }

    /// True if the meter is read over the network.
    pub fn is_remote(&self) -> bool {
        matches!(self, Spec::Snmp { .. })
    }

    /// Returns the object to read over SNMP.
    fn object(&self) -> Result<What, Fault> {
        let fault = |text: String| Err(Fault(text));
        let Spec::Snmp { outlet, pdu, oid, joules_per_unit, .. } = self else {
            return fault("kind: must be snmp".into());
        };
        match (outlet, oid, joules_per_unit) {
            (Some(0), None, None) => fault("outlet: must be at least 1".into()),
            (Some(outlet), None, None) => Ok(What::Outlet { pdu: pdu.unwrap_or(1), outlet: *outlet }),
            (Some(_), ..) => fault("outlet: set outlet, or oid with joules-per-unit, not both".into()),
            (None, None, _) => fault("outlet: missing: set outlet, or oid with joules-per-unit".into()),
            (None, Some(_), _) if pdu.is_some() => fault("pdu: only supported with outlet".into()),
            (None, Some(_), None) => {
                fault("joules-per-unit: missing: set the energy of one count of the object, in joules".into())
            }
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
                    _ => fault(format!(
                        "oid: {text:?} is not an object identifier such as 1.3.6.1.4.1.13742.6"
                    )),
                }
            }
        }
    }

    /// Opens the meter and reads it once. `cores` and `processes` are those of the router, for meters of
    /// processor time.
    ///
    /// # Errors
    /// Returns an error with the cause if the meter is not available.
    pub fn open(&self, cores: &[usize], processes: &[u32]) -> Result<Box<dyn Meter>, Fault> {
        self.check()?;
        Ok(match self {
            Spec::Rapl {} => Box::new(Counting::new(Rapl::open(Path::new(rapl::ROOT))?)),
            Spec::Snmp { address, community, .. } => {
                Box::new(Counting::new(Snmp::open(address, community, &self.object()?)?))
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

    /// The meters of a campaign.
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
            ("kind = 'rapl'\ncolor = 'red'".into(), "color"),
            ("kind = 'cpu'\nouter = 1".into(), "outer"),
            ("kind = 'snmp'\noutlet = 1".into(), "address"),
            ("kind = 'snmp'\naddress = ''\noutlet = 1".into(), "address: must be the PDU's host"),
            (snmp.to_string(), "outlet: missing"),
            (format!("{snmp}outlet = 0"), "outlet: must be at least 1"),
            (format!("{snmp}outlet = 1\noid = '1.3.6'"), "outlet: set outlet, or oid"),
            (format!("{snmp}oid = '1.3.6'"), "joules-per-unit: missing"),
            (format!("{snmp}oid = '1.3.6'\njoules-per-unit = 0"), "joules-per-unit: 0 is not"),
            (format!("{snmp}oid = '1.3.x'\njoules-per-unit = 1"), "oid: \"1.3.x\" is not"),
            (format!("{snmp}oid = '7.3.6'\njoules-per-unit = 1"), "oid: \"7.3.6\" is not"),
            (format!("{snmp}oid = '1.3.6'\njoules-per-unit = 1\npdu = 1"), "pdu: only supported with outlet"),
            ("kind = 'command'\ncommand = ' '".into(), "command: must be a shell command"),
            (
                "kind = 'command'\ncommand = 'a'\ninterval-seconds = 1".into(),
                "interval-seconds: only supported with watts",
            ),
            (
                "kind = 'command'\ncommand = 'a'\nwatts = true\ninterval-seconds = nan".into(),
                "interval-seconds: NaN",
            ),
            (
                "kind = 'command'\ncommand = 'a'\nwatts = true\ninterval-seconds = 0".into(),
                "interval-seconds: 0 is not",
            ),
            ("kind = 'cpu'\ncores = []".into(), "cores: list at least one"),
            ("kind = 'cpu'\ncgroup = 'router'".into(), "cgroup: must be an absolute path"),
        ];
        for (text, why) in cases {
            let said = parse(&text).map_or_else(|e| e, |_| "nothing".into());
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
