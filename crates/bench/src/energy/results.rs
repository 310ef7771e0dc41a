//! Energy and processor time of a trial, in relation to its packets.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{CpuReading, Energy, Reading, Resolution};
use crate::stats::efficiency;

/// Traffic delivered in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Work {
    /// Frames that were delivered, without lost frames.
    pub frames: u64,
    /// Bytes of the delivered frames, with frame check sequence.
    pub bytes: u64,
}

/// Figures derived from a reading. A figure is missing if it cannot be computed, for example because no frame was delivered, or there is no
/// reading without traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Results {
    /// Figures of an energy meter.
    Energy {
        /// Energy in watt-hours from the first reading to the last, including idle power.
        watt_hours: f64,
        /// Possible error due to the meter's resolution, as a share of the energy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step_share: Option<f64>,
        /// Average power in watts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        average_watts: Option<f64>,
        /// Packets per watt-hour (PPWh).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        packets_per_watt_hour: Option<f64>,
        /// Bytes per watt-hour (BPWh).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes_per_watt_hour: Option<f64>,
        /// Average power without traffic, in watts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idle_watts: Option<f64>,
    },
    /// Figures of processor time, which is not energy.
    CpuTime {
        /// Processor time in seconds.
        cpu_seconds: f64,
        /// Processor time in seconds for a million packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpu_seconds_per_million_packets: Option<f64>,
        /// Mean number of busy processors without traffic.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idle_cpus: Option<f64>,
    },
}

impl Results {
    /// Computes the figures from `reading`, the reading of a trial, and `idle`, the reading of the same meter without traffic.
    pub fn of(reading: &Reading, idle: Option<&Reading>, work: Work) -> Results {
        match reading {
            Reading::Energy(energy) => {
                let idle = idle.and_then(|r| if let Reading::Energy(e) = r { watts(e) } else { None });
                of_energy(energy, idle, work)
            }
            Reading::CpuTime(cpu) => {
                let idle = idle.and_then(|r| if let Reading::CpuTime(c) = r { cpus(c) } else { None });
                let time = Duration::try_from_secs_f64(cpu.total).ok();
                let each =
                    time.and_then(|t| efficiency::cpu_seconds_per_million_packets(t, work.frames).ok());
                Results::CpuTime {
                    cpu_seconds: cpu.total,
                    cpu_seconds_per_million_packets: each,
                    idle_cpus: idle,
                }
            }
        }
    }
}

/// Joules in a watt-hour.
const WATT_HOUR: f64 = 3600.0;

fn of_energy(energy: &Energy, idle_watts: Option<f64>, work: Work) -> Results {
    let watt_hours = energy.joules / WATT_HOUR;
    let step = match energy.resolution {
        Resolution::Joules(joules) => Some(joules),
        Resolution::Watts(watts) => Some(watts * energy.seconds),
        Resolution::Seconds(_) => None,
    };
    Results::Energy {
        watt_hours,
        step_share: step.filter(|_| energy.joules > 0.0).map(|s| s / energy.joules),
        average_watts: watts(energy),
        packets_per_watt_hour: efficiency::packets_per_watt_hour(work.frames, watt_hours).ok(),
        bytes_per_watt_hour: efficiency::bytes_per_watt_hour(work.bytes, watt_hours).ok(),
        idle_watts,
    }
}

fn watts(energy: &Energy) -> Option<f64> {
    let time = Duration::try_from_secs_f64(energy.seconds).ok()?;
    efficiency::average_watts(energy.joules / WATT_HOUR, time).ok()
}

fn cpus(cpu: &CpuReading) -> Option<f64> {
    (cpu.seconds > 0.0).then(|| cpu.total / cpu.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::Whose;

    fn energy(seconds: f64, joules: f64) -> Reading {
        let resolution = Resolution::Joules(3600.0);
        Reading::Energy(Energy {
            seconds,
            joules,
            resolution,
            readings: 2,
            longest_gap: seconds,
            parts: vec![],
        })
    }

    fn cpu(seconds: f64, total: f64) -> Reading {
        let (cores, threads) = (vec![], vec![]);
        Reading::CpuTime(CpuReading { seconds, total, whose: Whose::Cores, cores, threads, cgroup: None })
    }

    const WORK: Work = Work { frames: 60_000_000, bytes: 3_840_000_000 };

    /// Two trials of two minutes in Slavík 2025: 5 Wh without traffic, and 6 Wh with half a million frames per second.
    #[test]
    fn the_figures_of_the_thesis_are_reproduced() {
        let results = Results::of(&energy(120.0, 21_600.0), Some(&energy(120.0, 18_000.0)), WORK);
        let want = Results::Energy {
            watt_hours: 6.0,
            step_share: Some(1.0 / 6.0),
            average_watts: Some(180.0),
            packets_per_watt_hour: Some(10_000_000.0),
            bytes_per_watt_hour: Some(640_000_000.0),
            idle_watts: Some(150.0),
        };
        assert_eq!(results, want);
        let text = serde_json::to_string(&results).unwrap();
        assert!(text.contains("\"packets-per-watt-hour\":10000000.0"), "{text}");
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), want);
    }

    #[test]
    fn cpu_time_has_its_own_figures_without_energy() {
        // The idle reading of another kind of meter is ignored.
        let results = Results::of(&cpu(10.0, 30.0), Some(&energy(1.0, 1.0)), WORK);
        let each = Some(0.5);
        let want =
            Results::CpuTime { cpu_seconds: 30.0, cpu_seconds_per_million_packets: each, idle_cpus: None };
        assert_eq!(results, want);
        let text = serde_json::to_string(&results).unwrap();
        assert!(!text.contains("watt") && text.contains("cpu-time"), "{text}");
        let Results::CpuTime { idle_cpus, .. } = Results::of(&cpu(10.0, 30.0), Some(&cpu(4.0, 1.0)), WORK)
        else {
            panic!("no processor time")
        };
        assert_eq!(idle_cpus, Some(0.25));
    }

    #[test]
    fn undefined_figures_are_absent() {
        let Results::Energy { watt_hours, average_watts, packets_per_watt_hour, step_share, .. } =
            Results::of(&energy(1.0, 0.0), None, WORK)
        else {
            panic!("no energy")
        };
        assert_eq!((watt_hours, average_watts, packets_per_watt_hour, step_share), (0.0, None, None, None));
        let nothing = Results::of(&cpu(1.0, 1.0), None, Work { frames: 0, bytes: 0 });
        let want =
            Results::CpuTime { cpu_seconds: 1.0, cpu_seconds_per_million_packets: None, idle_cpus: None };
        assert_eq!(nothing, want);
    }
}
