//! The resolution of searches in a campaign's file.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::load::Load;
use crate::search::throughput::Resolution;

/// Smallest and largest resolution in percent of the upper bound. The width of MLRsearch's goals has the same limits.
const PERCENT: [f64; 2] = [0.0001, 50.0];
/// Smallest and largest resolution in frames per second.
const FPS: [f64; 2] = [1.0, 1e6];

/// A resolution of searches: `"0.05 %"` of the upper bound, or `"1 kfps"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResolutionSpec(Load);

impl ResolutionSpec {
    /// Returns the resolution as searches use it.
    pub fn resolution(self) -> Resolution {
        match self.0 {
            Load::Percent(percent) => Resolution::Relative(percent / 100.0),
            Load::Frames(fps) | Load::Bits(fps) => Resolution::Absolute(fps),
        }
    }

    /// Parses a resolution. `None` if the text is not a resolution, or the resolution is out of bounds.
    fn parse(text: &str) -> Option<ResolutionSpec> {
        let within = |value: f64, [least, most]: [f64; 2]| (least..=most).contains(&value);
        let load = Load::parse(text).filter(|load| match *load {
            Load::Percent(percent) => within(percent, PERCENT),
            Load::Frames(fps) => within(fps, FPS),
            Load::Bits(_) => false,
        })?;
        Some(ResolutionSpec(load))
    }
}

impl fmt::Display for ResolutionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ResolutionSpec {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ResolutionSpec {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ResolutionSpec, D::Error> {
        let text = String::deserialize(d)?;
        let expected = format!(
            "a resolution from \"{} %\" to \"{} %\" of the upper bound, or from \"{} fps\" to \"{} Mfps\"",
            PERCENT[0],
            PERCENT[1],
            FPS[0],
            FPS[1] / 1e6
        );
        let wrong = || de::Error::invalid_value(de::Unexpected::Str(&text), &expected.as_str());
        ResolutionSpec::parse(&text).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Campaign;
    use crate::search::throughput::Resolution;

    fn campaign(keys: &str) -> Result<Campaign, String> {
        let text =
            format!("name = 'a'\nduts = ['linux']\n{keys}\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n");
        Campaign::parse(&text).map_err(|e| e.0)
    }

    #[test]
    fn a_resolution_replaces_that_of_the_profile() -> Result<(), String> {
        let of = |keys: &str| campaign(keys).map(|c| c.profile());
        assert_eq!(of("")?.resolution, Resolution::Relative(0.01));
        let fine = of("resolution = '0.05 %'")?;
        assert_eq!(fine.resolution, Resolution::Relative(0.0005));
        assert!(fine.goals.iter().all(|goal| goal.width == 0.0005), "{:?}", fine.goals);
        assert_eq!(of("resolution = '2 kfps'")?.resolution, Resolution::Absolute(2000.0));
        // The campaign's own goals have their own widths.
        let own = "resolution = '0.05 %'\nprocedures = ['ndr-pdr']\ngoal = [{ name = 'own', width = 0.02 }]";
        assert_eq!(of(own)?.goals[0].width, 0.02);
        Ok(())
    }

    #[test]
    fn a_stored_resolution_is_the_same() -> Result<(), Box<dyn std::error::Error>> {
        for text in ["0.05 %", "1 fps", "2.5 kfps"] {
            let asked = campaign(&format!("resolution = '{text}'"))?;
            let again: Campaign = serde_json::from_str(&serde_json::to_string(&asked)?)?;
            assert_eq!((&again, asked.resolution.map(|r| r.to_string())), (&asked, Some(text.to_owned())));
        }
        Ok(())
    }

    #[test]
    fn an_impossible_resolution_is_refused_with_its_line_and_its_bounds() {
        for wrong in ["'0 %'", "'60 %'", "'0.00001 %'", "'0.5 fps'", "'2 Mfps'", "'1 Gbit/s'", "'fine'"] {
            let said = campaign(&format!("resolution = {wrong}")).err().unwrap_or_default();
            let bounds = "from \"0.0001 %\" to \"50 %\" of the upper bound, or from \"1 fps\" to \"1 Mfps\"";
            assert!(said.contains("line 3") && said.contains(bounds), "{wrong}: {said}");
        }
    }
}
