//! Routers under test, one file for each kind.

mod command;
mod commands;
mod cores;
mod linux;
mod process;
mod queues;
mod remote;
mod runtime;
mod shell;
mod spec;
mod testpmd;
mod volley;
mod vpp;

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use commands::Router;
pub use cores::check as check_cores;
pub use runtime::lookup_share;
pub use spec::{Driver, Kind, Mode, Spec, Table, check};

use crate::testbed::{self, Bed};
use crate::traffic::{Family, networks};
use crate::trial::Failure;

/// A router that runs between the links of a testbed. Dropping it ends the router and restores the links.
pub trait Dut {
    /// Returns the router's name, version and setup.
    fn facts(&self) -> &Facts;

    /// Returns the processor time that the router has used so far, in seconds; its [facts](Facts::processor_time) describe how it is
    /// measured. `None` if unknown.
    fn cpu_seconds(&self) -> Option<f64> {
        None
    }

    /// Returns the router's cores on this machine; none for a router on another machine.
    fn cores(&self) -> &[usize] {
        &[]
    }

    /// Returns the router's current processes, whose processor time is measured thread by thread. Empty if the router is the kernel, or its
    /// processes are unknown.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Returns a function that restarts the router. It is called on another thread during a trial, and returns when the router is
    /// configured to forward again. `None` if the tester cannot restart the router.
    fn restarter(&self) -> Option<Box<dyn FnOnce() -> Result<(), Failure> + Send>> {
        None
    }

    /// Adds routes to the `wanted` networks and removes those of the previous call.
    ///
    /// # Errors
    /// Returns an error if the router cannot have routes, or the tester cannot add them.
    fn set_networks(&mut self, wanted: &[Networks], _bed: &Bed) -> Result<(), Failure> {
        // A router set up by commands has its own routes for the traffic, and a bridge needs none.
        match wanted.iter().all(Networks::is_own) {
            true => Ok(()),
            false => Err(Failure(
                "the tester cannot add routes to this router: remove routes from the test".into(),
            )),
        }
    }

    /// Deletes all connections that the router tracks. `None` if the router tracks none, or the tester cannot delete them.
    fn forget_sessions(&self) -> Option<Result<(), Failure>> {
        None
    }

    /// Returns the number of connections that the router tracks, if known.
    fn sessions(&self) -> Option<u64> {
        None
    }

    /// Runs the campaign's `stop` command, if there is one. Processes of the router that still run after it end when the router is dropped.
    ///
    /// # Errors
    /// Returns an error if the command fails: the router may still run.
    fn end(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Returns the last lines of the router's output; empty if it prints nothing.
    fn said(&self) -> String {
        String::new()
    }

    /// Returns the router's counters as names and values.
    fn counters(&self) -> Vec<(String, String)>;
}

/// Networks of an address family behind a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Networks {
    /// Number of the link.
    pub link: usize,
    /// Address family.
    pub family: Family,
    /// Selection of the networks.
    pub which: Which,
}

/// Selection of networks behind a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The first n of [`networks`].
    First(u32),
    /// A single network: the destination of frames with fixed addresses.
    Own(IpNet),
}

impl Networks {
    /// Iterates over the networks.
    pub fn iter(&self) -> impl Iterator<Item = IpNet> + use<> {
        let (first, own) = match self.which {
            Which::First(count) => (count, None),
            Which::Own(net) => (0, Some(net)),
        };
        // Frames of the first direction leave through the second link.
        networks(self.family, self.link == 0, first).chain(own)
    }

    /// Returns the next hop of the networks: the tester's host on the link.
    pub fn host(&self, bed: &Bed) -> IpAddr {
        let [v4, v6] = bed.links[self.link.min(1)].hosts();
        if self.family == Family::Ipv4 { v4 } else { v6 }
    }

    fn is_own(&self) -> bool {
        matches!(self.which, Which::Own(_))
    }
}

/// Description of a router for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Name in the campaign.
    pub name: String,
    /// Version.
    pub version: String,
    /// Setup, line by line.
    pub configuration: Vec<String>,
    /// Method that measures the router's processor time; empty if it is not measured.
    #[serde(default)]
    pub processor_time: String,
}

/// A router that was started.
pub struct Started {
    /// The router.
    pub dut: Box<dyn Dut>,
    /// Description of the router, for reports.
    pub facts: Facts,
}

/// Starts a router on its cores, and makes it forward between the links.
///
/// # Errors
/// Returns an error if the testbed has too few cores, or the router does not start. In the second case the
/// error includes the router's output.
pub fn start(spec: &Spec, bed: &mut Bed) -> Result<Started, Failure> {
    (bed.bridged, bed.hops) = (spec.is_bridge(), spec.hops());
    let cores = cores::of(spec, bed.kind(), &bed.cores)?;
    bed.steer(&cores)?;
    let is_remote = bed.kind() == testbed::Kind::Physical;
    let dut: Box<dyn Dut> = match spec.kind {
        Kind::Linux => Box::new(linux::Linux::start(spec, bed, &cores)?),
        Kind::Volley if is_remote => Box::new(remote::Remote::start(spec, bed, Router::Volley)?),
        Kind::Vpp if is_remote => Box::new(remote::Remote::start(spec, bed, Router::Vpp)?),
        Kind::Volley => Box::new(volley::Volley::start(spec, bed, &cores)?),
        Kind::Vpp => Box::new(vpp::Vpp::start(spec, bed, &cores)?),
        Kind::Testpmd => Box::new(testpmd::Testpmd::start(spec, bed, &cores)?),
        Kind::Command => Box::new(command::Shell::start(spec, bed, &cores)?),
        Kind::None => Box::new(Nothing(Facts {
            name: spec.name().into(),
            version: "none".into(),
            configuration: vec!["a cable between the tester's ports".into()],
            processor_time: String::new(),
        })),
    };
    if spec.kind != Kind::None {
        // Add the router's output to the error: it may have the reason, such as a missing plugin.
        bed.wait().map_err(|e| match dut.said() {
            said if said.is_empty() => e,
            said => Failure(format!("{e}; its last output:\n{said}")),
        })?;
        bed.resolve()?;
    }
    let mut facts = dut.facts().clone();
    // The directory differs in each campaign: replace its name, so that equal setups have equal texts.
    let directory = bed.directory().display().to_string();
    facts.configuration.iter_mut().for_each(|line| *line = line.replace(&directory, "$BENCH_DIR"));
    Ok(Started { dut, facts })
}

/// No router: a testbed [without a router](Bed::without_router).
struct Nothing(Facts);

impl Dut for Nothing {
    fn facts(&self) -> &Facts {
        &self.0
    }

    fn counters(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}
