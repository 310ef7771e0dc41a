//! Clock of a router's cores, set through the kernel's frequency bounds (Linux, `Documentation/admin-guide/pm/cpufreq.rst`).

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Spec;
use super::shell::Shell;
use crate::testbed;
use crate::trial::Failure;

/// Sysfs directory of the processors.
pub const CPUS: &str = "/sys/devices/system/cpu";

/// Maximum time until the kernel shows a new clock.
const SETTLE: Duration = Duration::from_secs(1);

/// Files of a core's lower and upper clock bound, in kHz.
const LOW: &str = "scaling_min_freq";
const HIGH: &str = "scaling_max_freq";
/// Files of the hardware's limits, in kHz.
const LEAST: &str = "cpuinfo_min_freq";
const MOST: &str = "cpuinfo_max_freq";

/// Checks that the cores support the clocks of a campaign's routers. Changes nothing.
///
/// # Errors
/// Returns the first unsupported clock, and the remedy.
pub fn check(duts: &[Spec], bed: &testbed::Spec, cpus: &Path) -> Result<(), String> {
    for (n, dut, mhz) in duts.iter().enumerate().filter_map(|(n, dut)| Some((n, dut, dut.clock_mhz?))) {
        let (tester, cores) = testbed::cores_of(bed).map_err(|e| e.0)?;
        let named = |why| dut.fault(n, &format!("clock-mhz = {mhz}: {why}"));
        let mut own = cores.iter().take(dut.workers());
        own.try_for_each(|core| Core::new(cpus, *core).check(mhz, tester)).map_err(named)?;
    }
    Ok(())
}

/// A clock that is set on cores for the lifetime of this value. The cores get their old bounds back when the value is dropped, or when the
/// tester ends, even if it is killed.
pub struct Clock {
    shell: Option<Shell>,
    /// Old bounds of the cores.
    before: Vec<(Core, Bounds)>,
    /// Settings made, for reports.
    pub lines: Vec<String>,
}

impl Clock {
    /// Sets the clock of these cores to `mhz`. `cpus` is the sysfs directory of the processors.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses the clock, or sets another one.
    pub fn set(mhz: u32, cores: &[usize], cpus: &Path) -> Result<Clock, Failure> {
        let mut clock = Clock { shell: None, before: Vec::new(), lines: Vec::new() };
        // Declared after `clock`, so that on an error the shell is dropped first and undoes the settings.
        let mut shell = Shell::here()?;
        let wanted = (khz(mhz), khz(mhz));
        for &n in cores {
            let core = Core::new(cpus, n);
            let before = core.bounds()?;
            shell.set(&core.set(wanted)?, &core.set(before)?)?;
            let now = settled(|| core.bounds(), wanted)?;
            if !near(now, wanted) {
                return Err(Failure(format!(
                    "core {n} has bounds of {} to {} MHz after {mhz} MHz was set: the machine does not support this clock",
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
        // Wait, since the next router's clock starts from the bounds read then.
        for (core, before) in &self.before {
            let _ = settled(|| core.bounds(), *before);
        }
    }
}

/// Lower and upper bound of a clock, in kHz.
type Bounds = (u64, u64);

/// True if bounds are within 1 % of the wanted ones. The processor sets clocks only in steps.
fn near(now: Bounds, wanted: Bounds) -> bool {
    let near = |now: u64, wanted: u64| now.abs_diff(wanted) * 100 <= wanted;
    near(now.0, wanted.0) && near(now.1, wanted.1)
}

/// Returns the bounds as soon as they are near the wanted ones, or after [`SETTLE`]. The kernel applies new bounds asynchronously.
///
/// # Errors
/// Returns an error if the bounds cannot be read.
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

/// A core and its cpufreq directory.
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
            .map_err(|_| Failure(format!("{}/{name}: {text:?} is not a number", self.1.display())))
    }

    fn bounds(&self) -> Result<Bounds, Failure> {
        Ok((self.number(LOW)?, self.number(HIGH)?))
    }

    /// Returns a line of shell that sets both bounds. At no time does the line set the lower bound above the upper one, which the kernel
    /// would refuse.
    fn set(&self, (low, high): Bounds) -> Result<String, Failure> {
        let (least, place) = (self.number(LEAST)?, self.1.display());
        let set = |khz: u64, name: &str| format!("echo {khz} > '{place}/{name}'");
        Ok([set(least, LOW), set(high, HIGH), set(low, LOW)].join(" && "))
    }

    fn check(&self, mhz: u32, tester: usize) -> Result<(), String> {
        let Core(n, place) = self;
        if !place.is_dir() {
            let why = "this machine does not support setting clocks, like most virtual machines";
            return Err(format!("core {n} has no {}: {why}", place.display()));
        }
        for name in [LOW, HIGH] {
            // Only opened, not written.
            let opened = OpenOptions::new().write(true).open(place.join(name));
            opened.map_err(|e| format!("{}/{name}: {e}: only root may set clocks", place.display()))?;
        }
        let bounds = (self.number(LEAST).map_err(|e| e.0)?, self.number(MOST).map_err(|e| e.0)?);
        if !(bounds.0..=bounds.1).contains(&khz(mhz)) {
            return Err(format!("core {n} supports {} to {} MHz", bounds.0 / 1000, bounds.1 / 1000));
        }
        // Some drivers support any clock in this range and list none.
        let text = self.text("scaling_available_frequencies").unwrap_or_default();
        let known: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        if !known.is_empty() && !known.contains(&khz(mhz)) {
            let all: Vec<_> = known.iter().map(|khz| (khz / 1000).to_string()).collect();
            return Err(format!("core {n} supports only {} MHz", all.join(", ")));
        }
        let together = self.text("affected_cpus").unwrap_or_default();
        if together.split_whitespace().any(|other| other.parse() == Ok(tester)) {
            return Err(format!(
                "core {n} shares its clock with the tester's core {tester}: change tester-core of the testbed"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
