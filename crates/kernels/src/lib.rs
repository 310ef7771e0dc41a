//! Routines over whole frames that gain from wide instructions, each with a plain oracle.
//!
//! Nodes are compiled once, for the baseline. Only what is in this crate is compiled per CPU level: a table of
//! function pointers ([`Kernels`]) is chosen at start, carried in every node's context, and forced by tests.
//!
//! Whatever is called inside a `#[target_feature]` function must be `#[inline(always)]`: what the compiler leaves out
//! of line falls back to baseline code without a warning.

mod split;

use std::sync::OnceLock;

use infra::cpu::{self, Level};

pub use split::{CodeBytes, Codes, Target};

/// The routines of one CPU level.
pub struct Kernels {
    /// Which level.
    pub level: Level,
    pub(crate) equal: split::EqualFn,
    pub(crate) pick: split::PickFn,
}

static V2: Kernels = Kernels { level: Level::V2, equal: split::equal_v2, pick: split::pick_v2 };
#[cfg(target_arch = "x86_64")]
static V3: Kernels = Kernels { level: Level::V3, equal: split::x86::equal_v3, pick: split::x86::pick_v3 };
#[cfg(target_arch = "x86_64")]
static V4: Kernels = Kernels { level: Level::V4, equal: split::x86::equal_v4, pick: split::x86::pick_v3 };

/// The best table for this CPU.
pub fn best() -> &'static Kernels {
    static BEST: OnceLock<&'static Kernels> = OnceLock::new();
    BEST.get_or_init(|| at_most(cpu::level()))
}

/// The best table for this CPU that is no higher than `level`: for tests, and for comparing levels.
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
