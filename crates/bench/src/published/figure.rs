//! Printed figures.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A figure with the digits it was printed with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its value.
    pub value: f64,
    /// Digits after the point.
    pub decimals: usize,
}

impl Figure {
    /// Reads a figure as printed, without separators of thousands: digits, at most one point, and digits.
    pub fn read(printed: &str) -> Option<Self> {
        let (whole, decimals) = printed.split_once('.').map_or((printed, None), |(w, d)| (w, Some(d)));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !decimals.is_none_or(digits) {
            return None;
        }
        let value: f64 = printed.parse().ok()?;
        value.is_finite().then_some(Self { value, decimals: decimals.map_or(0, str::len) })
    }

    /// Another value with as many digits, to be compared with this one as it is printed.
    pub fn print_like(&self, value: f64) -> String {
        format!("{value:.*}", self.decimals)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print_like(self.value))
    }
}

macro_rules! metrics {
    ($($(#[$doc:meta])+ $name:ident = $column:literal),+ $(,)?) => {
        /// What a figure is of. Each is a column of the file, with its unit in the name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Metric {
            $($(#[$doc])+ #[serde(rename = $column)] $name),+
        }

        impl Metric {
            /// All of them.
            pub const ALL: &[Metric] = &[$(Metric::$name),+];

            /// The column's name.
            pub const fn column(self) -> &'static str {
                match self {
                    $(Metric::$name => $column),+
                }
            }
        }
    };
}

metrics! {
    /// The most packets that came out, in millions a second.
    ThroughputMpps = "throughput_mpps",
    /// The throughput in percent of the table's highest: at the highest clock (6.1), of the fastest system (6.2).
    RelativePercent = "relative_percent",
    /// The median of the runs, in frames a second in each direction.
    MedianFps = "median_fps",
    /// The least of the runs, in frames a second in each direction.
    MinFps = "min_fps",
    /// The greatest of the runs, in frames a second in each direction.
    MaxFps = "max_fps",
    /// The mean of the runs, in frames a second in each direction.
    MeanFps = "mean_fps",
    /// The standard deviation of the runs, in frames a second in each direction.
    SdFps = "sd_fps",
    /// (maximum − minimum) / median, in percent.
    DispersionPercent = "dispersion_percent",
    /// The performance over that of half as many cores.
    RatioToHalf = "ratio_to_half_the_cores",
    /// The relative scale-up P(n) / P(1) / n.
    ScaleUp = "scale_up",
    /// What the router used in a trial of 120 s, in watt-hours.
    EnergyWh = "energy_wh",
    /// Lost packets, in percent.
    LossPercent = "loss_percent",
    /// The mean one-way latency, in microseconds.
    LatencyUs = "latency_us",
    /// The jitter as TRex computes it, in microseconds.
    JitterUs = "jitter_us",
    /// The drafts' sum of readings of energy, in no unit that makes sense.
    EnergyAsPrinted = "energy_as_printed",
    /// Packets over the drafts' sum of readings.
    PacketsPerEnergy = "packets_per_energy",
    /// Bytes over the drafts' sum of readings.
    BytesPerEnergy = "bytes_per_energy",
}

impl Metric {
    /// The metric of a column.
    pub fn of_column(column: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|metric| metric.column() == column)
    }
}
