//! The clock of a router's cores, by the bounds that the kernel keeps it within (its `Documentation/admin-guide/pm/cpufreq.rst`).

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Spec;
use super::shell::Shell;
use crate::testbed;
use crate::trial::Failure;

/// Where the kernel has its processors.
pub const CPUS: &str = "/sys/devices/system/cpu";

/// How long the kernel may take until it has a clock that was set.
const SETTLE: Duration = Duration::from_secs(1);

/// What bounds a core's clock, in kHz.
const LOW: &str = "scaling_min_freq";
const HIGH: &str = "scaling_max_freq";
/// What the hardware can do, in kHz.
const LEAST: &str = "cpuinfo_min_freq";
const MOST: &str = "cpuinfo_max_freq";

/// Checks that cores can have the clocks that the routers of a campaign are to have. Nothing is touched.
///
/// # Errors
/// The first that cannot, with what would do.
pub fn check(duts: &[Spec], bed: &testbed::Spec, cpus: &Path) -> Result<(), String> {
    for (n, dut, mhz) in duts.iter().enumerate().filter_map(|(n, dut)| Some((n, dut, dut.clock_mhz?))) {
        let (tester, cores) = testbed::cores_of(bed).map_err(|e| e.0)?;
        let named = |why| dut.fault(n, &format!("clock-mhz = {mhz}: {why}"));
        let mut own = cores.iter().take(dut.workers());
        own.try_for_each(|core| Core::new(cpus, *core).check(mhz, tester)).map_err(named)?;
    }
    Ok(())
}

/// Cores that have a clock for as long as this lives. What they had before comes back when the tester ends, also if it is killed.
pub struct Clock {
    shell: Option<Shell>,
    /// What the cores had before.
    before: Vec<(Core, Bounds)>,
    /// What was set, for reports.
    pub lines: Vec<String>,
}

impl Clock {
    /// Sets it.
    ///
    /// # Errors
    /// When the kernel refuses, or has another clock then.
    pub fn set(mhz: u32, cores: &[usize], cpus: &Path) -> Result<Clock, Failure> {
        let mut clock = Clock { shell: None, before: Vec::new(), lines: Vec::new() };
        // Behind it, so that what was set is undone first where something fails.
        let mut shell = Shell::here()?;
        let wanted = (khz(mhz), khz(mhz));
        for &n in cores {
            let core = Core::new(cpus, n);
            let before = core.bounds()?;
            shell.set(&core.set(wanted)?, &core.set(before)?)?;
            let now = settled(|| core.bounds(), wanted)?;
            if !near(now, wanted) {
                return Err(Failure(format!(
                    "core {n} has a clock of {} to {} MHz where {mhz} was set: the machine does not let it",
                    now.0 / 1000,
                    now.1 / 1000
                )));
            }
            let line = format!(
                "clock-mhz: core {n}: {LOW} {}, {HIGH} {}; before: {}, {}",
                now.0, now.1, before.0, before.1
            );
            clock.lines.push(line);
            clock.before.push((core, before));
        }
        clock.shell = Some(shell);
        Ok(clock)
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        drop(self.shell.take());
        // The next router's clock is set from what is read then.
        for (core, before) in &self.before {
            let _ = settled(|| core.bounds(), *before);
        }
    }
}

/// The lower and the upper bound of a clock, in kHz.
type Bounds = (u64, u64);

/// Whether bounds are those, give or take what a processor's steps are off.
fn near(now: Bounds, wanted: Bounds) -> bool {
    let near = |now: u64, wanted: u64| now.abs_diff(wanted) * 100 <= wanted;
    near(now.0, wanted.0) && near(now.1, wanted.1)
}

/// What the bounds are as soon as they are as wanted, or after [`SETTLE`]: the kernel takes new ones up behind who sets them.
///
/// # Errors
/// When they cannot be read.
fn settled(read: impl Fn() -> Result<Bounds, Failure>, wanted: Bounds) -> Result<Bounds, Failure> {
    let begin = Instant::now();
    loop {
        let now = read()?;
        if near(now, wanted) || begin.elapsed() > SETTLE {
            return Ok(now);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn khz(mhz: u32) -> u64 {
    u64::from(mhz) * 1000
}

/// A core and the directory of its clock.
struct Core(usize, PathBuf);

impl Core {
    fn new(cpus: &Path, n: usize) -> Core {
        Core(n, cpus.join(format!("cpu{n}/cpufreq")))
    }

    fn text(&self, name: &str) -> Result<String, Failure> {
        let file = self.1.join(name);
        fs::read_to_string(&file).map_err(|e| Failure(format!("{}: {e}", file.display())))
    }

    fn number(&self, name: &str) -> Result<u64, Failure> {
        let text = self.text(name)?;
        text.trim()
            .parse()
            .map_err(|_| Failure(format!("{}/{name}: {text:?} is no number", self.1.display())))
    }

    fn bounds(&self) -> Result<Bounds, Failure> {
        Ok((self.number(LOW)?, self.number(HIGH)?))
    }

    /// A line of shell that sets both bounds. The lower one is at no time above the upper one, which the kernel would refuse.
    fn set(&self, (low, high): Bounds) -> Result<String, Failure> {
        let (least, place) = (self.number(LEAST)?, self.1.display());
        let set = |khz: u64, name: &str| format!("echo {khz} > '{place}/{name}'");
        Ok([set(least, LOW), set(high, HIGH), set(low, LOW)].join(" && "))
    }

    fn check(&self, mhz: u32, tester: usize) -> Result<(), String> {
        let Core(n, place) = self;
        if !place.is_dir() {
            let why = "this machine does not let its clock be set, as most virtual machines do not";
            return Err(format!("core {n} has no {}: {why}", place.display()));
        }
        for name in [LOW, HIGH] {
            // Opened only: it is not written to.
            let opened = OpenOptions::new().write(true).open(place.join(name));
            opened.map_err(|e| format!("{}/{name}: {e}: root may set clocks", place.display()))?;
        }
        let bounds = (self.number(LEAST).map_err(|e| e.0)?, self.number(MOST).map_err(|e| e.0)?);
        if !(bounds.0..=bounds.1).contains(&khz(mhz)) {
            return Err(format!("core {n} has {} to {} MHz", bounds.0 / 1000, bounds.1 / 1000));
        }
        // Some drivers have any clock between these, and list none.
        let text = self.text("scaling_available_frequencies").unwrap_or_default();
        let known: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        if !known.is_empty() && !known.contains(&khz(mhz)) {
            let all: Vec<_> = known.iter().map(|khz| (khz / 1000).to_string()).collect();
            return Err(format!("core {n} has {} MHz", all.join(", ")));
        }
        let together = self.text("affected_cpus").unwrap_or_default();
        if together.split_whitespace().any(|other| other.parse() == Ok(tester)) {
            return Err(format!("core {n} and {tester}, the tester's, have one clock: testbed, tester-core"));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
