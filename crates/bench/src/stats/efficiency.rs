//! Costs of forwarding, in energy and in processor time.
//!
//! Packets and bytes per watt-hour are defined as in Slavik 2025, section 2.2. Only delivered packets count. The energy is that of the
//! whole router during the trial, including its idle share. Bytes are those of frames with FCS, without preamble and gap.

use std::time::Duration;

use super::error::{Error, check_positive};

/// Returns packets per watt-hour (PPWh): delivered packets / energy.
///
/// # Errors
/// If the energy is not above 0.
pub fn packets_per_watt_hour(delivered: u64, watt_hours: f64) -> Result<f64, Error> {
    Ok(delivered as f64 / check_positive("the energy", watt_hours)?)
}

/// Returns bytes per watt-hour (BPWh): delivered bytes / energy.
///
/// # Errors
/// If the energy is not above 0.
pub fn bytes_per_watt_hour(delivered: u64, watt_hours: f64) -> Result<f64, Error> {
    packets_per_watt_hour(delivered, watt_hours)
}

/// Returns the average power in watts: energy / time.
///
/// # Errors
/// If the energy or the time is not above 0.
pub fn average_watts(watt_hours: f64, time: Duration) -> Result<f64, Error> {
    let hours = check_positive("the time", time.as_secs_f64())? / 3600.0;
    Ok(check_positive("the energy", watt_hours)? / hours)
}

/// Returns processor seconds per million packets: the processor time of all threads of a router / delivered packets.
///
/// # Errors
/// If no packet was delivered.
pub fn cpu_seconds_per_million_packets(cpu: Duration, delivered: u64) -> Result<f64, Error> {
    Ok(cpu.as_secs_f64() / (check_positive("the number of packets", delivered as f64)? / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efficiency_is_packets_or_bytes_per_watt_hour() {
        assert_eq!(packets_per_watt_hour(1_000_000, 5.0), Ok(200_000.0));
        assert_eq!(bytes_per_watt_hour(64_000_000, 5.0), Ok(12_800_000.0));
        assert_eq!(packets_per_watt_hour(0, 5.0), Ok(0.0));
        for energy in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(packets_per_watt_hour(1, energy).is_err(), "{energy}");
        }
    }

    /// The idle router of Slavík 2025: about 5 Wh in two minutes.
    #[test]
    fn five_watt_hours_in_two_minutes_are_150_watts() {
        assert!((average_watts(5.0, Duration::from_secs(120)).unwrap() - 150.0).abs() < 1e-9);
        assert!(average_watts(5.0, Duration::ZERO).is_err());
    }

    #[test]
    fn processor_time_is_per_million_packets() {
        assert_eq!(cpu_seconds_per_million_packets(Duration::from_secs(10), 20_000_000), Ok(0.5));
        assert!(cpu_seconds_per_million_packets(Duration::from_secs(10), 0).is_err());
    }
}
