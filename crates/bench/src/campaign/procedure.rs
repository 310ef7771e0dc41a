//! What can be measured.

use serde::{Deserialize, Serialize};

/// A procedure of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Procedure {
    /// What the tester itself can do, over a cable without a router. Runs before all others, always.
    SelfTest,
    /// What comes before the first trial that counts with a router.
    WarmUp,
    /// RFC 2544 section 26.1.
    Throughput,
    /// RFC 8219 section 7.2, RFC 2544 section 26.2.
    Latency,
    /// RFC 8219 section 7.3.
    Variation,
    /// RFC 2544 section 26.3.
    LossRate,
    /// RFC 2544 section 26.4, RFC 9004.
    BackToBack,
    /// MLRsearch, RFC 9971.
    NdrPdr,
    /// RFC 2285 section 3.6.2.
    MaximumReceiveRate,
    /// Given loads, as in the theses.
    Loads,
    /// One load for long.
    Soak,
    /// RFC 2544 section 26.5.
    Recovery,
    /// RFC 2544 section 26.6, RFC 6201.
    Reset,
    /// RFC 9693 sections 4.5 and 4.6.
    SessionRate,
    /// RFC 9693 section 4.9.
    SessionCapacity,
    /// RFC 9693 section 4.8.
    SessionTeardown,
}

impl Procedure {
    /// All that a campaign may ask for, each with what it is.
    pub const ALL: [(Procedure, &str); 14] = [
        (Procedure::Throughput, "the largest load of which no frame is lost (RFC 2544 section 26.1)"),
        (Procedure::Latency, "delays at shares of the throughput (RFC 8219 section 7.2)"),
        (Procedure::Variation, "PDV and IPDV at the throughput (RFC 8219 section 7.3)"),
        (Procedure::LossRate, "what is lost, from the largest load down (RFC 2544 section 26.3)"),
        (
            Procedure::BackToBack,
            "the longest burst of which no frame is lost (RFC 2544 section 26.4, RFC 9004)",
        ),
        (Procedure::NdrPdr, "non-drop and partial-drop rate by MLRsearch (RFC 9971)"),
        (
            Procedure::MaximumReceiveRate,
            "what comes back of the most that can be sent (RFC 2285 section 3.6.2)",
        ),
        (Procedure::Loads, "loss and delays at given loads, as the theses have them"),
        (Procedure::Soak, "what is lost at one load over a long time"),
        (Procedure::Recovery, "how long the router takes to recover from overload (RFC 2544 section 26.5)"),
        (Procedure::Reset, "how long a restart of the router stops forwarding (RFC 6201)"),
        (
            Procedure::SessionRate,
            "how fast a stateful router establishes connections (RFC 9693 sections 4.5 and 4.6)",
        ),
        (Procedure::SessionCapacity, "how many connections it can have (RFC 9693 section 4.9)"),
        (Procedure::SessionTeardown, "how fast it deletes all of them (RFC 9693 section 4.8)"),
    ];

    /// Its name in campaigns.
    pub fn name(self) -> &'static str {
        match self {
            Procedure::SelfTest => "self-test",
            Procedure::WarmUp => "warm-up",
            Procedure::Throughput => "throughput",
            Procedure::Latency => "latency",
            Procedure::Variation => "variation",
            Procedure::LossRate => "loss-rate",
            Procedure::BackToBack => "back-to-back",
            Procedure::NdrPdr => "ndr-pdr",
            Procedure::MaximumReceiveRate => "maximum-receive-rate",
            Procedure::Loads => "loads",
            Procedure::Soak => "soak",
            Procedure::Recovery => "recovery",
            Procedure::Reset => "reset",
            Procedure::SessionRate => "session-rate",
            Procedure::SessionCapacity => "session-capacity",
            Procedure::SessionTeardown => "session-teardown",
        }
    }

    /// Whether it is about the connections of a stateful router.
    pub fn needs_sessions(self) -> bool {
        use Procedure::{SessionCapacity, SessionRate, SessionTeardown};
        matches!(self, SessionRate | SessionCapacity | SessionTeardown)
    }

    /// Whether it begins with the throughput, which is searched before then.
    pub fn needs_throughput(self) -> bool {
        use Procedure::{BackToBack, Latency, Recovery, Reset, Soak, Variation};
        matches!(self, Latency | Variation | BackToBack | Soak | Recovery | Reset)
    }
}
