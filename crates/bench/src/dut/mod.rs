//! Routers under test: one file for each kind.

mod clock;
mod command;
mod commands;
mod cores;
mod linux;
mod process;
mod queues;
mod runtime;
mod shell;
mod spec;
mod testpmd;
mod volley;
mod vpp;

use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use clock::Clock;
pub use cores::check as check_cores;
pub use runtime::lookup_share;
pub use spec::{Driver, Kind, Mode, Spec, Table, check};

use crate::testbed::{self, Bed};
use crate::traffic::{Family, networks};
use crate::trial::Failure;

/// A router that runs between the links of a testbed. Dropped, it ends, and leaves the links as they were.
pub trait Dut {
    /// Which one it is.
    fn facts(&self) -> &Facts;

    /// Processor time that it used so far, in seconds, found as its [facts](Facts::processor_time) say; `None` where that is not known.
    fn cpu_seconds(&self) -> Option<f64> {
        None
    }

    /// Cores of this machine that it was given; none of a router that is elsewhere.
    fn cores(&self) -> &[usize] {
        &[]
    }

    /// Its programs now, whose processor time is measured thread by thread; none of a router in the kernel, and of one whose programs are
    /// not known.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    /// What restarts it, on another thread while a trial runs, and comes back when it is told to forward again; `None` where the tester
    /// cannot.
    fn restarter(&self) -> Option<Box<dyn FnOnce() -> Result<(), Failure> + Send>> {
        None
    }

    /// Gives it a route to each of so many more networks, and takes those that it had before away.
    ///
    /// # Errors
    /// When it cannot have them, or the tester cannot give them to it.
    fn set_networks(&mut self, wanted: &[Networks], _bed: &Bed) -> Result<(), Failure> {
        // Who sets a router up himself knows where his traffic goes; and what hands frames on needs no routes.
        match wanted.iter().all(Networks::is_own) {
            true => Ok(()),
            false => Err(Failure("the tester cannot give this router routes: leave routes away".into())),
        }
    }

    /// Has it forget all connections that it tracks; `None` of a router that tracks none, or where the tester does not know how.
    fn forget_sessions(&self) -> Option<Result<(), Failure>> {
        None
    }

    /// Connections that it tracks now, if it says.
    fn sessions(&self) -> Option<u64> {
        None
    }

    /// Has it end, as far as that can fail; the rest is done when it is dropped.
    ///
    /// # Errors
    /// When what should end it fails: it may run on.
    fn end(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// The last lines that it printed; nothing of a router that prints nothing.
    fn said(&self) -> String {
        String::new()
    }

    /// What it says of itself after a trial, as names and values.
    fn counters(&self) -> Vec<(String, String)>;
}

/// Networks of a family behind a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Networks {
    /// The number of the link.
    pub link: usize,
    /// Their family.
    pub family: Family,
    /// Which.
    pub which: Which,
}

/// Which networks are behind a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The first so many of [`networks`].
    First(u32),
    /// The one that frames with addresses of their own go to.
    Own(IpNet),
}

impl Networks {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = IpNet> + use<> {
        let (first, own) = match self.which {
            Which::First(count) => (count, None),
            Which::Own(net) => (0, Some(net)),
        };
        // Frames of the first direction leave by the second link.
        networks(self.family, self.link == 0, first).chain(own)
    }

    /// The tester's host on the link, which they are behind.
    pub fn host(&self, bed: &Bed) -> IpAddr {
        let [v4, v6] = bed.links[self.link.min(1)].hosts();
        if self.family == Family::Ipv4 { v4 } else { v6 }
    }

    fn is_own(&self) -> bool {
        matches!(self.which, Which::Own(_))
    }
}

/// What a report says of a router.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Its name, as a campaign has it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How it was set up, line by line.
    pub configuration: Vec<String>,
    /// How its processor time is found; empty where it is not.
    #[serde(default)]
    pub processor_time: String,
}

/// Checks that this machine lets the clocks be set that routers are to have. Nothing is touched.
///
/// # Errors
/// The first that cannot be, with what would do.
pub fn check_clocks(duts: &[Spec], bed: &testbed::Spec) -> Result<(), String> {
    clock::check(duts, bed, Path::new(clock::CPUS))
}

/// A router that was started.
pub struct Started {
    /// The router, which ends before its cores have the clock that they had.
    pub dut: Box<dyn Dut>,
    /// What a report says of it and of its cores.
    pub facts: Facts,
    _clock: Option<Clock>,
}

/// Starts a router on cores with the clock that it is to have, and has it forward between the links.
///
/// # Errors
/// When it does not start, with what it said, or when it needs more cores than the testbed has for it, or a clock that these do not take.
pub fn start(spec: &Spec, bed: &mut Bed) -> Result<Started, Failure> {
    bed.bridged = spec.is_bridge();
    let cores = cores::of(spec, bed.kind(), &bed.cores)?;
    bed.steer(&cores)?;
    let clock = spec.clock_mhz.map(|mhz| Clock::set(mhz, &cores, Path::new(clock::CPUS))).transpose()?;
    let dut: Box<dyn Dut> = match spec.kind {
        Kind::Linux => Box::new(linux::Linux::start(spec, bed, &cores)?),
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
        bed.wait()?;
        bed.resolve()?;
    }
    let mut facts = dut.facts().clone();
    facts.configuration.extend(clock.iter().flat_map(|clock| clock.lines.iter().cloned()));
    // A router that is set up in the same way reads the same in each campaign: the directory is another one.
    let directory = bed.directory().display().to_string();
    facts.configuration.iter_mut().for_each(|line| *line = line.replace(&directory, "$BENCH_DIR"));
    Ok(Started { dut, facts, _clock: clock })
}

/// No router: the testbed is [without](Bed::without_router) one.
struct Nothing(Facts);

impl Dut for Nothing {
    fn facts(&self) -> &Facts {
        &self.0
    }

    fn counters(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}
