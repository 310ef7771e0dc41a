//! The procedures that a campaign can run.

use serde::{Deserialize, Serialize};

/// A procedure of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Procedure {
    /// Maximum rate of the tester over a cable without a router. Always runs first.
    SelfTest,
    /// Warm-up with a router, before the first trial that counts. Also the procedure in the records of trials that only establish
    /// connections for later trials.
    WarmUp,
    /// RFC 2544 section 26.1.
    Throughput,
    /// RFC 8219 section 7.2, RFC 2544 section 26.2.
    Latency,
    /// Delay variation: RFC 8219 section 7.3.
    Variation,
    /// RFC 2544 section 26.3.
    LossRate,
    /// RFC 2544 section 26.4, RFC 9004.
    BackToBack,
    /// MLRsearch, RFC 9971.
    NdrPdr,
    /// RFC 2285 section 3.6.2.
    MaximumReceiveRate,
    /// Loss and delays at the loads that the campaign lists.
    Loads,
    /// Loss at one load over a long time.
    Soak,
    /// Recovery from overload: RFC 2544 section 26.5.
    Recovery,
    /// Outage while the router restarts: RFC 2544 section 26.6, RFC 6201.
    Reset,
    /// Maximum connection establishment rate: RFC 9693 sections 4.5 and 4.6.
    SessionRate,
    /// Maximum number of connections: RFC 9693 section 4.9.
    SessionCapacity,
    /// Time to delete all connections: RFC 9693 section 4.8.
    SessionTeardown,
}

impl Procedure {
    /// Procedures that a campaign may list, with a description.
    pub const ALL: [(Procedure, &str); 14] = [
        (Procedure::Throughput, "the largest load without frame loss (RFC 2544 section 26.1)"),
        (Procedure::Latency, "latency at fractions of the throughput (RFC 8219 section 7.2)"),
        (Procedure::Variation, "PDV and IPDV at the throughput (RFC 8219 section 7.3)"),
        (Procedure::LossRate, "frame loss from the largest load down (RFC 2544 section 26.3)"),
        (Procedure::BackToBack, "the longest burst without frame loss (RFC 2544 section 26.4, RFC 9004)"),
        (Procedure::NdrPdr, "non-drop and partial-drop rate by MLRsearch (RFC 9971)"),
        (Procedure::MaximumReceiveRate, "frames received at the highest load (RFC 2285 section 3.6.2)"),
        (Procedure::Loads, "loss and delays at given loads (as in Slavík 2025)"),
        (Procedure::Soak, "frame loss at one load over a long time"),
        (Procedure::Recovery, "recovery time after overload (RFC 2544 section 26.5)"),
        (Procedure::Reset, "outage while the router restarts (RFC 6201)"),
        (
            Procedure::SessionRate,
            "connections a second that a stateful router establishes (RFC 9693 sections 4.5 and 4.6)",
        ),
        (Procedure::SessionCapacity, "maximum number of connections (RFC 9693 section 4.9)"),
        (Procedure::SessionTeardown, "time to delete all connections (RFC 9693 section 4.8)"),
    ];

    /// Returns the name used in campaign files.
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

    /// True if the procedure needs connections of a stateful router.
    pub fn needs_sessions(self) -> bool {
        use Procedure::{SessionCapacity, SessionRate, SessionTeardown};
        matches!(self, SessionRate | SessionCapacity | SessionTeardown)
    }

    /// True if the procedure needs the result of `throughput` first.
    pub fn needs_throughput(self) -> bool {
        use Procedure::{BackToBack, Latency, Recovery, Reset, Soak, Variation};
        matches!(self, Latency | Variation | BackToBack | Soak | Recovery | Reset)
    }
}
