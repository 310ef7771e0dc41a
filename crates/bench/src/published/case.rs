//! What was measured where.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::figure::{Figure, Metric};

/// A paper with published results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Paper {
    /// M. Kosák and G. Lencse: IP Packet Forwarding Performance Comparison of the FD.io VPP and the Linux Kernel, 2025.
    /// Frames a second that were forwarded without loss, in each of two directions; 20 runs.
    #[serde(rename = "kosak-lencse-2025")]
    KosakLencse2025,
    /// P. Okelmann: Performance Analysis of VPP, bachelor's thesis, Technical University of Munich, 2019. The most
    /// packets a second that came out, in one direction; 6 runs.
    #[serde(rename = "okelmann-2019")]
    Okelmann2019,
    /// O. Slavík: Efficiency and Utilization of Vector Packet Processing in High-Speed Networks, bachelor's thesis,
    /// Czech Technical University in Prague, 2025. What fixed loads lead to in 120 s; the mean of 20 runs.
    #[serde(rename = "slavik-2025")]
    Slavik2025,
    /// Drafts of the same thesis, with readings of energy summed over 30 runs of five minutes. What they call watts is
    /// neither power nor watt-hours: for comparisons among themselves only.
    #[serde(rename = "slavik-2025-draft")]
    Slavik2025Draft,
}

impl Paper {
    /// How a report cites it.
    pub const fn citation(self) -> &'static str {
        match self {
            Paper::KosakLencse2025 => "Kosák and Lencse 2025",
            Paper::Okelmann2019 => "Okelmann 2019",
            Paper::Slavik2025 => "Slavík 2025",
            Paper::Slavik2025Draft => "Slavík 2025 (draft)",
        }
    }
}

/// What the router does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Path {
    /// Forwards IPv4.
    Ip4,
    /// Forwards IPv6.
    Ip6,
    /// Forwards IPv4 and translates the source.
    Ip4Nat,
    /// Connects two interfaces on layer 2.
    L2Xconnect,
    /// Bridges, without learning.
    L2Bridge,
    /// Bridges, learns addresses and forgets them.
    L2BridgeLearn,
    /// Puts frames into VXLAN.
    VxlanEncap,
}

/// Which way traffic goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// In one direction.
    OneWay,
    /// In both, at the same rate.
    Bidirectional,
}

impl Traffic {
    /// How many directions there are.
    pub const fn directions(self) -> u32 {
        match self {
            Traffic::OneWay => 1,
            Traffic::Bidirectional => 2,
        }
    }
}

/// One published case: what was measured, and its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Which paper.
    pub paper: Paper,
    /// Which of its tables.
    pub table: String,
    /// The processor; `None` when the paper does not say.
    pub machine: Option<String>,
    /// Its clock in MHz: fixed, or nominal where the paper says no more.
    pub clock_mhz: Option<u32>,
    /// What was measured.
    pub system: String,
    /// Workers of VPP without its main thread, or cores that Linux had.
    pub cores: u32,
    /// Which cores; `None` where it was not varied.
    pub placement: Option<String>,
    /// What was done to packets.
    pub path: Path,
    /// Routes in the table; `None` where the paper does not say or nothing is routed.
    pub routes: Option<u64>,
    /// Which way traffic went.
    pub traffic: Traffic,
    /// The offered load in Gbit/s in each direction; `None` where the load was searched for.
    pub offered_gbps: Option<f64>,
    /// The frame's size in bytes, with FCS.
    pub frame_bytes: u32,
    /// What the table has.
    pub figures: BTreeMap<Metric, Figure>,
    /// Where the paper contradicts itself, or what else must be known.
    pub remark: Option<String>,
}

impl Case {
    /// The value of a figure, if the table has it.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.figures.get(&metric).map(|figure| figure.value)
    }

    /// Packets a second that were forwarded in all directions together. `None` for tables of fixed loads: the thesis
    /// does not say whether its Gbit/s are of frames or of the line.
    pub fn forwarded_pps(&self) -> Option<f64> {
        let directions = f64::from(self.traffic.directions());
        let each_way = self.value(Metric::MedianFps).map(|fps| fps * directions);
        each_way.or_else(|| self.value(Metric::ThroughputMpps).map(|mpps| mpps * 1e6))
    }

    /// Clocks of all cores for one forwarded packet: what is left of throughput when machines differ in clock and
    /// cores. `None` where throughput or clock are not known.
    pub fn clocks_per_packet(&self) -> Option<f64> {
        Some(f64::from(self.clock_mhz?) * 1e6 * f64::from(self.cores) / self.forwarded_pps()?)
    }
}
