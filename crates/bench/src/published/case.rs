//! A published case: the setup and its figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figure::{Figure, Metric};

/// A paper with published results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Paper {
    /// M. Kosák and G. Lencse: IP Packet Forwarding Performance Comparison of the FD.io VPP and the Linux Kernel, 2025. The figures
    /// are frames per second forwarded without loss, in each of two directions; 20 runs.
    #[serde(rename = "kosak-lencse-2025")]
    KosakLencse2025,
    /// P. Okelmann: Performance Analysis of VPP, bachelor's thesis, Technical University of Munich, 2019. The figures are the
    /// maximum packets per second received, in one direction; 6 runs.
    #[serde(rename = "okelmann-2019")]
    Okelmann2019,
    /// O. Slavík: Efficiency and Utilization of Vector Packet Processing in High-Speed Networks, bachelor's thesis, Czech Technical
    /// University in Prague, 2025. The figures were measured at fixed loads over 120 s; the mean of 20 runs.
    #[serde(rename = "slavik-2025")]
    Slavik2025,
    /// Drafts of the same thesis, with energy readings summed over 30 runs of five minutes. The drafts call the unit watts, but the sums
    /// are neither power nor watt-hours, so these figures are comparable only with each other.
    #[serde(rename = "slavik-2025-draft")]
    Slavik2025Draft,
}

impl Paper {
    /// Returns the citation for reports.
    pub const fn citation(self) -> &'static str {
        match self {
            Paper::KosakLencse2025 => "Kosák and Lencse 2025",
            Paper::Okelmann2019 => "Okelmann 2019",
            Paper::Slavik2025 => "Slavík 2025",
            Paper::Slavik2025Draft => "Slavík 2025 (draft)",
        }
    }
}

/// Operation of the router on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// Forwards IPv4.
    Ip4,
    /// Forwards IPv6.
    Ip6,
    /// Forwards IPv4 and translates the source address.
    Ip4Nat,
    /// Connects two interfaces on layer 2.
    L2Xconnect,
    /// Bridges, without learning.
    L2Bridge,
    /// Bridges, learns addresses and ages them out.
    L2BridgeLearn,
    /// Encapsulates frames in VXLAN.
    VxlanEncap,
}

/// Directions of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// One direction.
    OneWay,
    /// Both directions, at the same rate.
    Bidirectional,
}

impl Traffic {
    /// Returns the number of directions.
    pub const fn directions(self) -> u32 {
        match self {
            Traffic::OneWay => 1,
            Traffic::Bidirectional => 2,
        }
    }
}

/// A published case: the setup and its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Paper.
    pub paper: Paper,
    /// Table in the paper.
    pub table: String,
    /// Processor; `None` if the paper does not name it.
    pub machine: Option<String>,
    /// Clock of the processor in MHz: the fixed clock, or the nominal one if the clock was not fixed.
    pub clock_mhz: Option<u32>,
    /// Measured system.
    pub system: String,
    /// VPP's workers without its main thread, or Linux's cores.
    pub cores: u32,
    /// Placement of the cores; `None` if the placement was not varied.
    pub placement: Option<String>,
    /// Operation on packets.
    pub path: Path,
    /// Routes in the table; `None` if the paper does not give them or nothing is routed.
    pub routes: Option<u64>,
    /// Directions of traffic.
    pub traffic: Traffic,
    /// Offered load in Gbit/s per direction; `None` if the load was searched for.
    pub offered_gbps: Option<f64>,
    /// Frame size in bytes, with FCS.
    pub frame_bytes: u32,
    /// Figures in the table.
    pub figures: BTreeMap<Metric, Figure>,
    /// Contradiction in the paper, or another remark; `None` if there is none.
    pub remark: Option<String>,
}

impl Case {
    /// Returns the value of a figure, if the table has it.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.figures.get(&metric).map(|figure| figure.value)
    }

    /// Returns the packets per second forwarded in all directions together. `None` for results at fixed loads: Slavík 2025 gives these
    /// loads in Gbit/s, and does not define whether the loads include the overhead on the wire.
    pub fn forwarded_pps(&self) -> Option<f64> {
        let directions = f64::from(self.traffic.directions());
        let each_way = self.value(Metric::MedianFps).map(|fps| fps * directions);
        each_way.or_else(|| self.value(Metric::ThroughputMpps).map(|mpps| mpps * 1e6))
    }

    /// Returns the clocks that all cores together spend per forwarded packet, which is comparable between machines with different clocks
    /// and numbers of cores. `None` if throughput or clock is unknown.
    pub fn clocks_per_packet(&self) -> Option<f64> {
        Some(f64::from(self.clock_mhz?) * 1e6 * f64::from(self.cores) / self.forwarded_pps()?)
    }
}
