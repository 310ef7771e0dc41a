//! In what a campaign is not as the RFCs have it: RFC 2544 section 23 has that reported.

use super::load::percent;
use super::{Campaign, Procedure};
use crate::search::profile::{Deviation, Part};

impl Campaign {
    /// All that is known before anything is measured: of its times and numbers, and of its procedures.
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
            "neighbours are found and tables are warm before the first trial with a traffic and size, not before each trial".into(),
        );
        if has(Procedure::Latency) {
            let source = "RFC 2544 section 26.2, RFC 8219 section 7.2";
            differs(
                source,
                "no frame is tagged: latency is of all frames that carry their time, from the first one on"
                    .into(),
            );
            if !self.latency_at.contains(&1.0) {
                let shares: Vec<_> = self.latency_at.iter().map(|share| percent(*share)).collect();
                differs(
                    source,
                    format!(
                        "latency is measured at {} of the throughput, not at all of it",
                        shares.join(", ")
                    ),
                );
            }
        }
        if has(Procedure::Reset) {
            let source = "RFC 2544 section 26.6, RFC 6201 section 4";
            differs(
                source,
                "the router's program is restarted; its hardware is not, nor is its power cut, unless its restart command does so".into(),
            );
            differs(source, "the load is half of the throughput, not all of it".into());
        }
        all
    }

    /// What differs with a traffic and size, told in words, where the tester cannot send as much as the link carries.
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
        let what =
            format!("what the tester can send is less than what the link carries, and is {what} with {with}");
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
    fn what_procedures_do_otherwise_is_told_where_they_are_run() {
        let once = "RFC 2544 section 23 a and b: neighbours are found and tables are warm before the first trial with a traffic and size, \
                    not before each trial";
        assert_eq!(told("strict", "'throughput', 'loss-rate', 'back-to-back', 'recovery'", ""), [once]);
        let latency = told("strict", "'throughput', 'latency'", "latency-at = [0.07, 0.9]");
        let at = "RFC 2544 section 26.2, RFC 8219 section 7.2: latency is measured at 7 %, 90 % of the throughput, not at all of it";
        assert!(
            latency.len() == 3 && latency[1].contains("no frame is tagged") && latency[2] == at,
            "{latency:?}"
        );
        assert_eq!(told("strict", "'throughput', 'latency'", "latency-at = [0.5, 1.0]").len(), 2);
        let reset = told("strict", "'throughput', 'reset'", "");
        assert!(reset.len() == 3 && reset[1].contains("nor is its power cut"), "{reset:?}");
        // In seconds, times are told as well: of what is run.
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
    fn a_slow_tester_is_told_where_it_matters() {
        let text = |procedures: &str| {
            format!(
                "name = 'a'\nprocedures = [{procedures}]\nduts = ['linux']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n"
            )
        };
        let told = |procedures: &str, cases: &[String]| {
            Campaign::parse(&text(procedures)).unwrap().slower_than_the_link(cases).map(|d| d.to_string())
        };
        let slow = ["rfc2544, 64 bytes".to_owned()];
        let expected = "RFC 2544 sections 26.3 to 26.5: what the tester can send is less than what the link carries, and is the largest \
                        load of the frame loss rate, the rate of bursts with rfc2544, 64 bytes";
        assert_eq!(told("'throughput', 'loss-rate', 'back-to-back'", &slow).as_deref(), Some(expected));
        assert_eq!((told("'throughput', 'loss-rate'", &[]), told("'throughput'", &slow)), (None, None));
    }
}
