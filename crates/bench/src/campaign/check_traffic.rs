//! Checks a campaign's traffic: names, frames, links and routers.

use wire::Mac;

use super::{Campaign, Fault, Test};
use crate::dut;
use crate::traffic::{BUILTIN, Ends, Traffic};

/// A frame size in bytes that every kind of frame can have.
const USUAL: usize = 1518;
/// Length of a VLAN tag in bytes. Tagged frames may exceed the maximum frame size by this length (IEEE 802.1Q).
const TAG: usize = 4;

/// Returns placeholder addresses for both ends of a direction, for checks before the testbed exists.
pub(super) fn ends() -> Ends {
    Ends::rfc(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]), false)
}

impl Campaign {
    /// Checks the campaign's own traffic.
    ///
    /// # Errors
    /// Returns the first fault and its remedy.
    pub(super) fn check_traffics(&self) -> Result<(), Fault> {
        for (n, traffic) in self.traffics.iter().enumerate() {
            let named = |why: String| Fault(format!("traffic {} ({}): {why}", n + 1, traffic.name));
            let is_builtin = BUILTIN.iter().any(|(name, _)| *name == traffic.name);
            if is_builtin || self.traffics[..n].iter().any(|other| other.name == traffic.name) {
                return Err(named("name: already taken by another traffic: choose another name".into()));
            }
            // A frame without a size of its own takes the test's size, which is checked with the test.
            let usual = traffic.sized(USUAL);
            usual.flows(&ends()).map_err(|e| named(e.to_string()))?;
            self.check_links(&usual).map_err(|(place, why)| named(format!("{place}: {why}")))?;
        }
        Ok(())
    }

    /// Checks that no frame is too long for the links.
    ///
    /// # Errors
    /// Returns the place of the first frame that is too long, as keys of the traffic's description, and an error text.
    pub(super) fn check_links(&self, traffic: &Traffic) -> Result<(), (String, String)> {
        let Some(most) = self.testbed.kind.most_bytes() else { return Ok(()) };
        for (f, flow) in traffic.flows.iter().enumerate() {
            for (k, kind) in flow.frames.iter().enumerate() {
                let most = if kind.vlan.is_some() { most + TAG } else { most };
                if kind.size > most {
                    let why = format!(
                        "a frame of {} bytes is too long: the links carry at most {most} bytes",
                        kind.size
                    );
                    return Err((format!("flows {}: frames {}: size", f + 1, k + 1), why));
                }
            }
        }
        Ok(())
    }

    /// Checks that the routers accept the VLAN tags of a test's frames. Routers that the tester configures have no VLAN interfaces and
    /// accept no tagged frames.
    ///
    /// # Errors
    /// Returns the first router that does not accept the frames, and the remedy.
    pub(super) fn check_vlans(&self, test: &Test) -> Result<(), Fault> {
        let traffic = self.traffic(&test.traffic, USUAL);
        let tagged =
            traffic.is_some_and(|t| t.flows.iter().flat_map(|f| &f.frames).any(|k| k.vlan.is_some()));
        let without = |kind| matches!(kind, dut::Kind::Linux | dut::Kind::Volley | dut::Kind::Vpp);
        match self.duts.iter().find(|dut| without(dut.kind)) {
            Some(dut) if tagged => Err(Fault(format!(
                "traffic: frames have a VLAN tag, but {} is set up without VLANs: use a router of kind \"command\", or remove \"vlan\"",
                dut.name()
            ))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(bed: &str, dut: &str, sizes: &str, kind: &str) -> String {
        let text = format!(
            "name = 'a'\nduts = ['{dut}']\n[testbed]\nkind = '{bed}'\n[[test]]\ntraffic = 'own'\n{sizes}\n\
             [[traffic]]\nname = 'own'\n[[traffic.flows]]\nname = 'x'\n[[traffic.flows.frames]]\nfamily = 'ipv4'\n{kind}\n"
        );
        Campaign::parse(&text).map_or_else(|e| e.0, |_| "nothing".into())
    }

    #[test]
    fn frames_above_the_links_maximum_are_refused() {
        let too_long =
            |size| format!("a frame of {size} bytes is too long: the links carry at most 1518 bytes");
        for bed in ["veth", "tap"] {
            let said = |sizes: &str, kind: &str| said(bed, "linux", sizes, kind);
            assert_eq!(said("sizes = [64, 1518]", ""), "nothing");
            let why = format!("line 7: test 1 (own): sizes 2: {}", too_long(1519));
            assert_eq!(said("sizes = [64, 1519]", ""), why);
            let why = format!("line 14: traffic 1 (own): flows 1: frames 1: size: {}", too_long(1600));
            assert_eq!(said("", "size = 1600"), why);
        }
        // The length limit does not count the VLAN tag, and memif has no such limit.
        assert_eq!(said("veth", "none", "", "size = 1522\nvlan = 7"), "nothing");
        assert!(said("veth", "none", "", "size = 1523\nvlan = 7").contains("at most 1522 bytes"));
        assert_eq!(said("memif", "none", "sizes = [1600]", ""), "nothing");
    }

    #[test]
    fn vlan_traffic_is_refused_for_routers_without_vlans() {
        for dut in ["linux", "volley", "vpp"] {
            let said = said("veth", dut, "sizes = [128]", "vlan = 7");
            assert!(
                said.starts_with(&format!(
                    "line 6: test 1 (own): traffic: frames have a VLAN tag, but {dut} is"
                )),
                "{said}"
            );
        }
        assert_eq!(said("veth", "none", "sizes = [128]", "vlan = 7"), "nothing");
    }

    #[test]
    fn names_of_traffic_must_be_unique() {
        let named = |names: [&str; 2]| {
            let of = |name: &str| {
                format!(
                    "[[traffic]]\nname = '{name}'\n[[traffic.flows]]\nname = 'x'\nframes = [{{ family = 'ipv4' }}]\n"
                )
            };
            let text = format!(
                "name = 'a'\nduts = ['linux']\n[[test]]\ntraffic = 'a'\nsizes = [64]\n{}{}",
                of(names[0]),
                of(names[1])
            );
            Campaign::parse(&text).map_or_else(|e| e.0, |_| "nothing".into())
        };
        assert_eq!(named(["a", "b"]), "nothing");
        assert!(
            named(["a", "a"]).starts_with("line 12: traffic 2 (a): name: already"),
            "{}",
            named(["a", "a"])
        );
        assert!(
            named(["a", "imix"]).starts_with("line 12: traffic 2 (imix): name: "),
            "{}",
            named(["a", "imix"])
        );
    }
}
