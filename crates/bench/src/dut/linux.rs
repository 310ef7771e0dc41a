//! The kernel's own forwarding, as it is after boot.

use super::{Dut, Facts};
use crate::testbed::Bed;
use crate::testbed::lab::{self, sh};
use crate::trial::Failure;

/// The kernel of this machine, in a namespace.
pub struct Linux {
    facts: Facts,
    undo: Vec<String>,
    interfaces: Vec<String>,
}

const NS: &str = "ip netns exec dut";

impl Linux {
    /// Gives the links addresses and the networks behind them routes, and switches forwarding on.
    ///
    /// # Errors
    /// When a command fails.
    pub fn start(bed: &Bed) -> Result<Linux, Failure> {
        let mut linux = Linux {
            facts: Facts {
                name: "linux".into(),
                version: sh("uname -r")?.trim().into(),
                configuration: Vec::new(),
            },
            undo: Vec::new(),
            interfaces: bed.links.iter().map(|l| l.router.clone()).collect(),
        };
        for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            linux.set(&format!("{NS} sysctl -qw {key}=1"), &format!("{NS} sysctl -qw {key}=0"))?;
        }
        for link in &bed.links {
            let device = &link.router;
            let nets = [link.ipv4, link.ipv6];
            for ((own, behind), host) in nets.into_iter().zip(link.hosts()) {
                linux.set(
                    &format!("ip -n dut address add {own} dev {device}"),
                    &format!("ip -n dut address del {own} dev {device}"),
                )?;
                linux.set(
                    &format!("ip -n dut route add {behind} via {host} dev {device}"),
                    &format!("ip -n dut route del {behind} via {host} dev {device}"),
                )?;
            }
        }
        Ok(linux)
    }

    fn set(&mut self, command: &str, undo: &str) -> Result<(), Failure> {
        sh(command)?;
        self.facts.configuration.push(command.into());
        self.undo.push(undo.into());
        Ok(())
    }
}

impl Dut for Linux {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The kernel's own counts of the interfaces.
    fn counters(&self) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for interface in &self.interfaces {
            let read = format!("grep -H . /sys/class/net/{interface}/statistics/[rt]x_[pd][ar]*");
            let text = lab::run(&["ip", "netns", "exec", "dut", "sh", "-c", &read]).unwrap_or_default();
            all.extend(text.lines().filter_map(|line| {
                let (path, value) = line.split_once(':')?;
                Some((format!("{interface} {}", path.rsplit('/').next()?), value.to_owned()))
            }));
        }
        all
    }
}

impl Drop for Linux {
    fn drop(&mut self) {
        // A route goes with its address: what is gone already is no fault.
        self.undo.iter().rev().for_each(|undo| drop(sh(undo)));
    }
}
