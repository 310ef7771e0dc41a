//! All meters of a campaign together.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Fault, Kind, Meter, Reading, Spec};

/// One meter's reading for a trial, or the error that prevented the reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Measured {
    /// The meter's name.
    pub meter: String,
    /// Quantity that the meter measures.
    pub kind: Kind,
    /// Reading. A failed meter does not invalidate the trial.
    pub reading: Result<Reading, Fault>,
}

/// The meters of a campaign.
pub struct Meters(Vec<One>);

/// A meter with its state.
struct One {
    /// Number in the campaign, from 1 on.
    number: usize,
    name: String,
    kind: Kind,
    /// The meter, or an error if it is not available.
    meter: Result<Box<dyn Meter>, Fault>,
    /// Result of starting the meter.
    begun: Result<(), Fault>,
}

impl Meters {
    /// Opens all meters. If the campaign has none, opens a meter of the router's processor time. `cores` and `processes` are those
    /// of the router. If `cores` is empty, leaves out `cpu` meters that name neither cores nor a control group. An unavailable
    /// meter has no readings.
    pub fn open(specs: &[Spec], cores: &[usize], processes: &[u32]) -> Meters {
        let specs = if specs.is_empty() { &[Spec::CPU] } else { specs };
        let here = specs.iter().enumerate().filter(|(_, spec)| **spec != Spec::CPU || !cores.is_empty());
        let open = |(n, spec): (usize, &Spec)| One {
            number: n + 1,
            name: spec.name(),
            kind: spec.kind(),
            meter: spec.open(cores, processes),
            begun: Ok(()),
        };
        Meters(here.map(open).collect())
    }

    /// Returns the unavailable meters, with their number in the campaign and the reason.
    pub fn missing(&self) -> impl Iterator<Item = String> {
        let why =
            |one: &One| Some(format!("meter {} ({}): {}", one.number, one.name, one.meter.as_ref().err()?));
        self.0.iter().filter_map(why)
    }

    /// Sets the router's processes, which change when the router is restarted.
    pub fn watch(&mut self, processes: &[u32]) {
        self.0.iter_mut().filter_map(|one| one.meter.as_mut().ok()).for_each(|meter| meter.watch(processes));
    }

    /// Starts all meters, right before a trial.
    pub fn begin(&mut self) {
        for one in &mut self.0 {
            one.begun = one.meter.as_mut().map_err(|why| why.clone()).and_then(|meter| meter.begin());
        }
    }

    /// Ends the measurement of all meters, right after a trial. Returns the readings in the campaign's order.
    pub fn end(&mut self) -> Vec<Measured> {
        let measure = |one: &mut One| {
            let begun = std::mem::replace(&mut one.begun, Ok(()));
            let meter = begun.and_then(|()| one.meter.as_mut().map_err(|why| why.clone()));
            Measured { meter: one.name.clone(), kind: one.kind, reading: meter.and_then(|meter| meter.end()) }
        };
        self.0.iter_mut().map(measure).collect()
    }

    /// Measures for `time` without traffic and returns the readings.
    pub fn idle(&mut self, time: Duration) -> Vec<Measured> {
        self.begin();
        std::thread::sleep(time);
        self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::Whose;

    fn command(command: &str, watts: bool) -> Spec {
        Spec::Command { command: command.into(), watts, interval_seconds: None }
    }

    #[test]
    fn a_failing_meter_does_not_affect_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("joules");
        std::fs::write(&file, "5").unwrap();
        let specs =
            [command(&format!("cat {}", file.display()), false), command("echo 100", true), Spec::CPU];
        let mut meters = Meters::open(&specs, &[0], &[]);
        let failed = |meters: &[Measured]| meters.iter().map(|m| m.reading.is_err()).collect::<Vec<_>>();
        meters.begin();
        std::fs::remove_file(&file).unwrap();
        let measured = meters.end();
        assert_eq!(failed(&measured), [true, false, false]);
        assert_eq!(
            measured.iter().map(|m| m.kind).collect::<Vec<_>>(),
            [Kind::Energy, Kind::Energy, Kind::CpuTime]
        );
        let text = serde_json::to_string(&measured).unwrap();
        let again: Vec<Measured> = serde_json::from_str(&text).unwrap();
        assert_eq!(failed(&again), failed(&measured));
        // The meter fails at the start, too, with the reason, and recovers when its command works again.
        meters.begin();
        let why = meters.end()[0].reading.clone().map_err(|f| f.to_string());
        assert!(why.is_err_and(|w| w.contains("exit status")), "the reason is lost");
        std::fs::write(&file, "5").unwrap();
        assert_eq!(failed(&meters.idle(Duration::from_millis(1))), [false; 3]);
    }

    #[test]
    fn without_a_meter_cpu_time_is_measured() {
        let idle = |specs: &[Spec], cores: &[usize], processes: &[u32]| {
            Meters::open(specs, cores, processes).idle(Duration::from_millis(1))
        };
        // A meter without cores measures the router's cores, not the tester's.
        for specs in [&[][..], &[Spec::CPU]] {
            let measured = idle(specs, &[0], &[]);
            let kinds: Vec<_> = measured.iter().map(|m| (m.kind, m.meter.as_str())).collect();
            assert_eq!(kinds, [(Kind::CpuTime, "cpu")]);
            let Ok(Reading::CpuTime(cpu)) = &measured[0].reading else { panic!("{measured:?}") };
            assert_eq!((cpu.whose, cpu.cores.len(), cpu.cores[0].core), (Whose::Cores, 1, 0));
            // Processor time of a program is measured thread by thread.
            let measured = idle(specs, &[0], &[std::process::id()]);
            let Ok(Reading::CpuTime(cpu)) = &measured[0].reading else { panic!("{measured:?}") };
            assert!(cpu.whose == Whose::Processes && !cpu.threads.is_empty(), "{cpu:?}");
            // A router on another machine has no processor time here.
            assert_eq!(idle(specs, &[], &[]), []);
        }
        let named = Spec::Cpu { cores: Some(vec![0]), cgroup: None };
        assert_eq!(idle(&[Spec::CPU, named], &[], &[]).len(), 1);
    }

    #[test]
    fn a_missing_meter_loses_only_its_own_readings() {
        let mut meters =
            Meters::open(&[command("echo 5", false), command("false", false), Spec::CPU], &[0], &[]);
        let missing: Vec<_> = meters.missing().collect();
        assert!(missing.len() == 1 && missing[0].starts_with("meter 2 (command \"false\"): "), "{missing:?}");
        for _ in 0..2 {
            let measured = meters.idle(Duration::from_millis(1));
            let of: Vec<_> = measured.iter().map(|m| (m.kind, m.reading.is_ok())).collect();
            assert_eq!(of, [(Kind::Energy, true), (Kind::Energy, false), (Kind::CpuTime, true)]);
            let why = measured[1].reading.clone().map_err(|f| f.0).err().unwrap_or_default();
            assert!(!why.is_empty() && missing[0].ends_with(&why), "{why}");
        }
    }
}
