//! A load in a campaign's file.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Campaign, Fault};
use crate::trial::link::Link;

/// A load per direction: `"10 %"` of the link, `"1 Gbit/s"` (with preamble and gap, as links are rated), `"250
/// kfps"`, or a number of frames per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Percentage of the link's rate: above 0 and at most 100.
    Percent(f64),
    /// Bits per second on the wire.
    Bits(f64),
    /// Frames per second.
    Frames(f64),
}

/// Units of a load. Each has a name, a flag that is true for bits and false for frames, and a factor to bits or frames per second.
const UNITS: [(&str, bool, f64); 7] = [
    ("Gbit/s", true, 1e9),
    ("Mbit/s", true, 1e6),
    ("kbit/s", true, 1e3),
    ("bit/s", true, 1.0),
    ("Mfps", false, 1e6),
    ("kfps", false, 1e3),
    ("fps", false, 1.0),
];

impl Load {
    /// Returns the load in frames per second, for frames of `size` bytes on a link with a maximum rate of `link_fps`.
    pub fn fps(self, size: usize, link_fps: f64) -> f64 {
        match self {
            Load::Percent(percent) => percent / 100.0 * link_fps,
            Load::Bits(bits) => Link { bits_per_second: bits }.max_fps(size as u32),
            Load::Frames(fps) => fps,
        }
    }

    /// Parses a load with a unit. `None` if the text is no such load, or the load is not above 0, or is above 100 %.
    pub(super) fn parse(text: &str) -> Option<Load> {
        let positive = |number: &str| number.trim().parse::<f64>().ok().filter(|n| *n > 0.0 && n.is_finite());
        if let Some(percent) = text.strip_suffix('%') {
            return positive(percent).filter(|p| *p <= 100.0).map(Load::Percent);
        }
        let (unit, bits, by) = UNITS.into_iter().find(|(unit, ..)| text.ends_with(unit))?;
        let value = positive(text.strip_suffix(unit)?)? * by;
        Some(if bits { Load::Bits(value) } else { Load::Frames(value) })
    }
}

impl Campaign {
    /// True if the links carry a load of frames of `size` bytes. Virtual links have no rate and carry any load.
    pub(super) fn carries(&self, load: Load, size: usize) -> bool {
        let most = self.testbed.link().map(|link| link.max_fps(size as u32));
        // Allow for rounding of binary fractions.
        most.is_none_or(|most| load.fps(size, most) <= most * (1.0 + 1e-9))
    }

    /// Checks that the links can carry each load, at least with one traffic and size of the campaign.
    ///
    /// # Errors
    /// Returns the first load that the links cannot carry, and the remedy.
    pub(super) fn check_loads(&self) -> Result<(), Fault> {
        for (n, load) in self.loads.iter().enumerate() {
            if !self.cells().any(|(_, size)| self.carries(*load, size)) {
                let gbit = self.testbed.gbit.unwrap_or_default();
                let why = "more than the links can carry, whatever the traffic and the frame size";
                return Err(Fault(format!(
                    "loads {}: {load} is {why} (testbed, gbit = {gbit}): remove it",
                    n + 1
                )));
            }
        }
        Ok(())
    }

    /// Returns a text that lists the loads above the links' rate for frames of `size` bytes; `None` if there is no such load.
    pub(super) fn left_out(&self, size: usize) -> Option<String> {
        let all = self.loads.iter().filter(|load| !self.carries(**load, size));
        let all: Vec<_> = all.map(Load::to_string).collect();
        (!all.is_empty())
            .then(|| format!("loads: {}: skipped, because the links cannot carry them", all.join(", ")))
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, bits) = match *self {
            Load::Percent(percent) => return write!(f, "{percent} %"),
            Load::Bits(value) => (value, true),
            Load::Frames(value) => (value, false),
        };
        // Choose a unit in which the text parses to exactly the same value.
        let exact = |by: f64| value >= by && value / by * by == value;
        let fits = |(_, of_bits, by): &(&str, bool, f64)| *of_bits == bits && exact(*by);
        match UNITS.into_iter().find(fits) {
            Some((unit, _, by)) => write!(f, "{} {unit}", value / by),
            None => write!(f, "{value} {}", if bits { "bit/s" } else { "fps" }),
        }
    }
}

/// Formats a share as a percentage such as "7 %", without the rounding errors of binary fractions.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", (share * 1e14).round() / 1e12)
}

impl Serialize for Load {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Load {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Load, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = Load;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a load above 0: \"10 %\" of the link, \"1 Gbit/s\", \"250 kfps\", or frames a second",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Load, E> {
                Load::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_f64<E: de::Error>(self, fps: f64) -> Result<Load, E> {
                let good = fps > 0.0 && fps.is_finite();
                good.then_some(Load::Frames(fps))
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Float(fps), &self))
            }

            fn visit_i64<E: de::Error>(self, fps: i64) -> Result<Load, E> {
                self.visit_f64(fps as f64)
            }

            fn visit_u64<E: de::Error>(self, fps: u64) -> Result<Load, E> {
                self.visit_f64(fps as f64)
            }
        }
        d.deserialize_any(Reads)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn loads_have_units() {
        let said = |text| Load::parse(text).map(|l| (l.to_string(), l.fps(64, 1e6)));
        assert_eq!(said("10 %"), Some(("10 %".into(), 1e5)));
        // In binary floating point, 0.07 · 100 is more than 7.
        assert_eq!(said("7 %"), Some(("7 %".into(), 0.07 * 1e6)));
        assert_eq!(said("1.344Gbit/s"), Some(("1.344 Gbit/s".into(), 2e6)));
        // The same value in Mbit/s, 64.160704, would differ in the last bit.
        assert_eq!(said("64160704 bit/s").map(|s| s.0).as_deref(), Some("64160.704 kbit/s"));
        assert_eq!(said("250 kfps"), Some(("250 kfps".into(), 2.5e5)));
        assert_eq!(said("0.5fps"), Some(("0.5 fps".into(), 0.5)));
        for bad in ["", "10", "0 %", "-1 kfps", "101 %", "1 Gbit", "nan fps", "inf fps", "%"] {
            assert_eq!(Load::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn loads_above_the_link_rate_are_refused() -> Result<(), Fault> {
        let on = |loads: &str, bed: &str| {
            Campaign::parse(&format!(
                "name = 'a'\nduts = ['none']\nprocedures = ['loads']\nloads = [{loads}]\n{bed}\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64, 1518]\n"
            ))
        };
        let bed = "testbed = { kind = 'physical', ports = ['a', 'b'], gbit = 10 }";
        let said =
            |loads: &str| Ok(on(loads, bed)?.check_loads().map_or_else(|e| e.0, |()| "nothing".into()));
        assert_eq!(said("'100 %', '10 Gbit/s', '812743 fps', '14.88 Mfps'")?, "nothing");
        let why = "loads 2: 10.1 Gbit/s is more than the links can carry, whatever the traffic and the frame size (testbed, gbit = 10): remove it";
        assert_eq!(said("'1 %', '10.1 Gbit/s'")?, why);
        assert!(said("'15 Mfps'")?.starts_with("loads 1: 15 Mfps is more"));
        let some = on("'1 %', '1 Mfps', '14 Mfps'", bed)?;
        let why = "loads: 1 Mfps, 14 Mfps: skipped, because the links cannot carry them";
        assert_eq!((some.left_out(64), some.left_out(1518).as_deref()), (None, Some(why)));
        // Virtual links have no rate.
        let any = on("'40 Gbit/s'", "")?;
        assert_eq!((any.check_loads(), any.left_out(64)), (Ok(()), None));
        Ok(())
    }

    #[test]
    fn percentages_are_printed_without_rounding_errors() {
        for percents in 1..=100 {
            assert_eq!(percent(f64::from(percents) / 100.0), format!("{percents} %"));
        }
        assert_eq!((percent(0.125), percent(0.0005)), ("12.5 %".into(), "0.05 %".into()));
    }

    proptest! {
        #[test]
        fn loads_are_read_back_exactly(n in 1u32..1_000_000_000, kind in 0..3) {
            let n = f64::from(n);
            let load = match kind {
                0 => Load::Percent(n / 1e7),
                1 => Load::Bits(n),
                _ => Load::Frames(n),
            };
            let again = serde_json::from_str::<Load>(&serde_json::to_string(&load).unwrap()).unwrap();
            // The store refuses values that do not survive a round trip bit by bit.
            prop_assert_eq!(again, load);
        }
    }
}
