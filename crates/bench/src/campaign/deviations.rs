//! Deviations of a campaign from the RFCs, which RFC 2544 section 23 requires in the report.

use super::load::percent;
use super::{Campaign, Procedure};
use crate::search::profile::{Deviation, Part};

impl Campaign {
    /// Returns the deviations that are known before any measurement: of times, repetitions and procedures.
    pub(super) fn deviations(&self) -> Vec<Deviation> {
        let has = |procedure| self.procedures.contains(&procedure);
        let matters = |of: Part| match of {
            Part::All => true,
            Part::Trials => has(Procedure::Throughput) || has(Procedure::LossRate),
            Part::Latency => has(Procedure::Latency),
            Part::Variation => has(Procedure::Variation),
            Part::LossRate => has(Procedure::LossRate),
            Part::BackToBack => has(Procedure::BackToBack),
            Part::Recovery => has(Procedure::Recovery),
        };
        let mut all = self.profile().deviations();
        all.retain(|deviation| matters(deviation.of));
        let mut differs = |source, what: String| all.push(Deviation { source, of: Part::All, what });
        differs(
            "RFC 2544 section 23 a and b",
            "neighbor discovery and warm-up run once, before the first trial of each traffic and frame size, not before each trial".into(),
        );
        if has(Procedure::Latency) {
            let source = "RFC 2544 section 26.2, RFC 8219 section 7.2";
            differs(
                source,
                "no single frame is tagged: latency covers all time-stamped frames, from the first one on"
                    .into(),
            );
            if !self.latency_at.contains(&1.0) {
                let shares: Vec<_> = self.latency_at.iter().map(|share| percent(*share)).collect();
                differs(
                    source,
                    format!(
                        "latency is measured at {} of the throughput, not at the full throughput",
                        shares.join(", ")
                    ),
                );
            }
        }
        if has(Procedure::Reset) {
            let source = "RFC 2544 section 26.6, RFC 6201 section 4";
            differs(
                source,
                "only the router's program is restarted, unless the router's restart command also resets its hardware or power".into(),
            );
            differs(source, "the load is half the throughput, not the full throughput".into());
        }
        all
    }

    /// Returns the deviation of a tester that is slower than the link. `cases` names each traffic and frame size for which the tester
    /// cannot fill the link. `None` if `cases` is empty, or the campaign runs no procedure that needs a full link.
    pub(super) fn slower_than_the_link(&self, cases: &[String]) -> Option<Deviation> {
        let parts = [
            (Procedure::LossRate, "the largest load of the frame loss rate"),
            (Procedure::BackToBack, "the rate of bursts"),
            (Procedure::Recovery, "the largest overload"),
        ];
        let concerned = parts.into_iter().filter(|(procedure, _)| self.procedures.contains(procedure));
        let concerned: Vec<_> = concerned.map(|(_, what)| what).collect();
        if concerned.is_empty() || cases.is_empty() {
            return None;
        }
        let (what, with) = (concerned.join(", "), cases.join("; "));
        let what = format!(
            "the tester cannot fill the link: the tester's own maximum rate limits {what} with {with}"
        );
        Some(Deviation { source: "RFC 2544 sections 26.3 to 26.5", of: Part::All, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(profile: &str, procedures: &str, more: &str) -> Vec<String> {
        let text = format!(
            "name = 'a'\nprofile = '{profile}'\nprocedures = [{procedures}]\n{more}\nduts = ['volley']\n[[test]]\ntraffic = 'rfc2544'\n\
             sizes = [64, 128, 256, 512, 1024, 1280, 1518]\n"
        );
        Campaign::parse(&text).unwrap().deviations().iter().map(Deviation::to_string).collect()
    }

    #[test]
    fn deviations_are_listed_for_the_procedures_of_a_campaign() {
        let once = "RFC 2544 section 23 a and b: neighbor discovery and warm-up run once, before the first trial of each traffic and \
                    frame size, not before each trial";
        assert_eq!(told("strict", "'throughput', 'loss-rate', 'back-to-back', 'recovery'", ""), [once]);
        let latency = told("strict", "'throughput', 'latency'", "latency-at = [0.07, 0.9]");
        let at = "RFC 2544 section 26.2, RFC 8219 section 7.2: latency is measured at 7 %, 90 % of the throughput, not at the full throughput";
        assert!(
            latency.len() == 3 && latency[1].contains("no single frame is tagged") && latency[2] == at,
            "{latency:?}"
        );
        assert_eq!(told("strict", "'throughput', 'latency'", "latency-at = [0.5, 1.0]").len(), 2);
        let reset = told("strict", "'throughput', 'reset'", "");
        assert!(reset.len() == 3 && reset[1].contains("also resets its hardware or power"), "{reset:?}");
        // Shorter times are a deviation, too, but the report leaves out the times of procedures that the campaign does not list.
        let quick = told("quick", "'throughput', 'reset'", "").join("\n");
        assert!(
            quick.contains("section 24: trials of throughput") && quick.contains("section 23 e"),
            "{quick}"
        );
        for other in ["26.2:", "26.3:", "26.4:", "26.5:", "7.3.1:"] {
            assert!(!quick.contains(other), "{other} {quick}");
        }
        let all = told(
            "quick",
            "'throughput', 'latency', 'variation', 'back-to-back', 'recovery', 'loss-rate'",
            "",
        );
        for part in ["26.2:", "26.4:", "26.5:", "7.3.1:"] {
            assert!(all.iter().any(|line| line.contains(part)), "{part} {all:?}");
        }
    }

    #[test]
    fn a_slow_tester_is_reported_for_affected_procedures() {
        let text = |procedures: &str| {
            format!(
                "name = 'a'\nprocedures = [{procedures}]\nduts = ['linux']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n"
            )
        };
        let told = |procedures: &str, cases: &[String]| {
            Campaign::parse(&text(procedures)).unwrap().slower_than_the_link(cases).map(|d| d.to_string())
        };
        let slow = ["rfc2544, 64 bytes".to_owned()];
        let expected = "RFC 2544 sections 26.3 to 26.5: the tester cannot fill the link: the tester's own maximum rate limits the largest load of the \
                        frame loss rate, the rate of bursts with rfc2544, 64 bytes";
        assert_eq!(told("'throughput', 'loss-rate', 'back-to-back'", &slow).as_deref(), Some(expected));
        assert_eq!((told("'throughput', 'loss-rate'", &[]), told("'throughput'", &slow)), (None, None));
    }
}
