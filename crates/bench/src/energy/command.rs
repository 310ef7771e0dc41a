//! Meters that are shell commands, which print joules or watts.

use std::process::Command;
use std::time::Duration;

use super::Fault;
use super::counter::{Counters, Unit};
use super::power::Power;
use crate::program;

/// Maximum time that a program may take for a reading.
const PATIENCE: Duration = Duration::from_secs(10);
/// Upper limit for the power of a router, in watts.
const MOST_WATTS: f64 = 100_000.0;

/// Runs a program to its end and returns its output.
fn output(mut command: Command) -> Result<String, Fault> {
    let shown = format!("{command:?}");
    let failed = |why: &dyn std::fmt::Display| Fault(format!("{shown}: {why}"));
    let said = program::output(&mut command, PATIENCE).map_err(|e| failed(&e))?;
    if !said.status.success() {
        return Err(failed(&format!("it failed with {}", said.status)));
    }
    String::from_utf8(said.stdout).map_err(|e| failed(&e))
}

/// A shell command that prints one figure.
pub(super) struct Shell {
    line: String,
    /// Description of the only counter, which counts microjoules.
    units: [Unit; 1],
}

impl Shell {
    /// Runs the command once, to check it and to find the resolution of the figure that it prints.
    ///
    /// # Errors
    /// Returns an error if the command prints no figure.
    pub fn open(line: &str) -> Result<Shell, Fault> {
        let text = Shell::ask(line)?;
        figure(line, &text)?;
        // The printed digits give the resolution: 12.50 has steps of 0.01.
        let places = text.trim().split_once('.').map_or(0, |(_, behind)| behind.len());
        let step = 10f64.powi(-(places.min(6) as i32));
        let unit = Unit { name: "command".into(), joules: 1e-6, step, values: 1 << 64, counted: true };
        Ok(Shell { line: line.into(), units: [unit] })
    }

    fn ask(line: &str) -> Result<String, Fault> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", line]);
        output(command)
    }
}

/// Parses the printed figure, which must be from 0 to 10¹².
fn figure(line: &str, text: &str) -> Result<f64, Fault> {
    let value = text.trim().parse().ok().filter(|v: &f64| (0.0..=1e12).contains(v));
    let shown: String = text.trim().chars().take(60).collect();
    value.ok_or_else(|| {
        Fault(format!("command {line:?}: it printed {shown:?}, not one figure from 0 to 1e12"))
    })
}

impl Counters for Shell {
    fn units(&self) -> &[Unit] {
        &self.units
    }

    fn read(&mut self) -> Result<Vec<u64>, Fault> {
        let joules = figure(&self.line, &Shell::ask(&self.line)?)?;
        Ok(vec![(joules * 1e6).round() as u64])
    }

    fn most_watts(&self) -> f64 {
        MOST_WATTS
    }
}

impl Power for Shell {
    fn watts(&mut self) -> Result<f64, Fault> {
        figure(&self.line, &Shell::ask(&self.line)?)
    }

    fn step(&self) -> f64 {
        self.units[0].step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::counter::Counting;
    use crate::energy::power::Powered;
    use crate::energy::{Meter, Reading, Resolution};

    #[test]
    fn joules_of_a_shell_command_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("joules");
        std::fs::write(&file, "1000.50\n").unwrap();
        let shell = Shell::open(&format!("cat {}", file.display())).unwrap();
        let mut meter = Counting::new(shell);
        meter.begin().unwrap();
        std::fs::write(&file, "1360.75\n").unwrap();
        let Reading::Energy(energy) = meter.end().unwrap() else { panic!("no energy") };
        assert!((energy.joules - 360.25).abs() < 1e-6, "{energy:?}");
        assert_eq!(energy.resolution, Resolution::Joules(0.01));
        // A counter that was reset gives no reading.
        meter.begin().unwrap();
        std::fs::write(&file, "0\n").unwrap();
        assert!(meter.end().is_err_and(|f| f.to_string().contains("reset")));
    }

    #[test]
    fn watts_of_a_shell_command_are_integrated() {
        let mut meter = Powered::new(Shell::open("echo 150").unwrap(), Duration::from_millis(20));
        meter.begin().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let Reading::Energy(energy) = meter.end().unwrap() else { panic!("no energy") };
        assert!((energy.joules - 150.0 * energy.seconds).abs() < 1e-6 && energy.readings >= 2, "{energy:?}");
        assert_eq!(energy.resolution, Resolution::Watts(1.0));
    }

    #[test]
    fn output_without_a_figure_is_refused() {
        for (line, why) in [
            ("echo much", "it printed \"much\""),
            ("echo 1 2", "one figure"),
            ("echo -1", "one figure"),
            ("echo NaN", "one figure"),
            ("true", "it printed \"\""),
            ("echo 5; exit 3", "exit status: 3"),
        ] {
            let said = Shell::open(line).map_or_else(|f| f.to_string(), |_| "nothing".into());
            assert!(said.contains(why), "{line}: {said}");
        }
    }
}
