//! Routines over whole frames that benefit from wide instructions. Each routine has a plain version, with
//! which tests compare the other versions.
//!
//! Nodes are compiled once, for the baseline. Only this crate is compiled for each CPU level: a table of
//! function pointers ([`Kernels`]) is chosen at the start and passed in every node's context. Tests can force
//! a table.
//!
//! Functions called inside a `#[target_feature]` function must be `#[inline(always)]`: without inlining, the
//! compiler silently falls back to baseline code.

mod split;

use std::sync::OnceLock;

use infra::cpu::{self, Level};

pub use split::{CodeBytes, Codes, Target};

/// The routines of one CPU level.
pub struct Kernels {
    /// The CPU level for which the routines are compiled.
    pub level: Level,
    pub(crate) equal: split::EqualFn,
    pub(crate) pick: split::PickFn,
}

static V2: Kernels = Kernels { level: Level::V2, equal: split::equal_v2, pick: split::pick_v2 };
#[cfg(target_arch = "x86_64")]
static V3: Kernels = Kernels { level: Level::V3, equal: split::x86::equal_v3, pick: split::x86::pick_v3 };
#[cfg(target_arch = "x86_64")]
static V4: Kernels = Kernels { level: Level::V4, equal: split::x86::equal_v4, pick: split::x86::pick_v3 };

/// Returns the best table for this CPU.
pub fn best() -> &'static Kernels {
    static BEST: OnceLock<&'static Kernels> = OnceLock::new();
    BEST.get_or_init(|| at_most(cpu::level()))
}

/// Returns the function table of the highest level that this CPU supports, but none above `level`. This is for tests, and to
/// compare levels.
pub fn at_most(level: Level) -> &'static Kernels {
    #[cfg(target_arch = "x86_64")]
    match level.min(cpu::level()) {
        Level::V4 => &V4,
        Level::V3 => &V3,
        _ => &V2,
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = level;
        &V2
    }
}
