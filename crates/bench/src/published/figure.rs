//! Printed figures.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A figure, and the number of digits with which it was printed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Value.
    pub value: f64,
    /// Digits after the decimal point.
    pub decimals: usize,
}

impl Figure {
    /// Parses a printed figure without thousands separators: digits, at most one point, and digits.
    pub fn read(printed: &str) -> Option<Self> {
        let (whole, decimals) = printed.split_once('.').map_or((printed, None), |(w, d)| (w, Some(d)));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !decimals.is_none_or(digits) {
            return None;
        }
        let value: f64 = printed.parse().ok()?;
        value.is_finite().then_some(Self { value, decimals: decimals.map_or(0, str::len) })
    }

    /// Formats a value with as many decimals as this figure, for comparison with it.
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
        /// Quantity of a figure. The file of published results has a column for each quantity. The column's name contains the unit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Metric {
            $($(#[$doc])+ #[serde(rename = $column)] $name),+
        }

        impl Metric {
            /// All metrics.
            pub const ALL: &[Metric] = &[$(Metric::$name),+];

            /// Returns the column's name.
            pub const fn column(self) -> &'static str {
                match self {
                    $(Metric::$name => $column),+
                }
            }
        }
    };
}

metrics! {
    /// Maximum packets received, in millions per second.
    ThroughputMpps = "throughput_mpps",
    /// Throughput in percent of the highest throughput in the table: at the highest clock (table 6.1), or of the fastest system (table
    /// 6.2).
    RelativePercent = "relative_percent",
    /// Median of the runs, in frames per second per direction.
    MedianFps = "median_fps",
    /// Minimum of the runs, in frames per second per direction.
    MinFps = "min_fps",
    /// Maximum of the runs, in frames per second per direction.
    MaxFps = "max_fps",
    /// Mean of the runs, in frames per second per direction.
    MeanFps = "mean_fps",
    /// Standard deviation of the runs, in frames per second per direction.
    SdFps = "sd_fps",
    /// (maximum − minimum) / median, in percent.
    DispersionPercent = "dispersion_percent",
    /// Ratio of the performance to the performance with half as many cores.
    RatioToHalf = "ratio_to_half_the_cores",
    /// Relative scale-up P(n) / P(1) / n.
    ScaleUp = "scale_up",
    /// Energy of the router in a trial of 120 s, in watt-hours.
    EnergyWh = "energy_wh",
    /// Lost packets, in percent.
    LossPercent = "loss_percent",
    /// Mean one-way latency, in microseconds.
    LatencyUs = "latency_us",
    /// Jitter as TRex computes it, in microseconds.
    JitterUs = "jitter_us",
    /// Sum of the energy readings in the drafts of Slavík 2025, without a meaningful unit.
    EnergyAsPrinted = "energy_as_printed",
    /// Packets divided by the sum of the energy readings in the drafts of Slavík 2025.
    PacketsPerEnergy = "packets_per_energy",
    /// Bytes divided by the sum of the energy readings in the drafts of Slavík 2025.
    BytesPerEnergy = "bytes_per_energy",
}

impl Metric {
    /// Returns the metric of a column; `None` if the column is not a metric.
    pub fn of_column(column: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|metric| metric.column() == column)
    }
}
