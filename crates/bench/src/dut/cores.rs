//! Processor time of cores, for routers that have no process of their own.

use crate::host::{TICKS, Times};

/// Cores as `taskset` and others take them: numbers with commas between them.
pub fn list(cores: &[usize]) -> String {
    cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Seconds that these cores worked so far, for whomever, interrupts included; `None` of none, and where the kernel does not say.
pub fn seconds(cores: &[usize]) -> Option<f64> {
    if cores.is_empty() {
        return None;
    }
    busy(&std::fs::read_to_string("/proc/stat").ok()?, cores)
}

/// In words, how [`seconds`] finds it; nothing of no cores.
pub fn how(cores: &[usize]) -> String {
    if cores.is_empty() {
        return String::new();
    }
    format!(
        "all work of core {} (user, system, interrupts: /proc/stat), whoever's it is; what the kernel does for the router on the tester's \
         core is not in it",
        list(cores)
    )
}

fn busy(stat: &str, cores: &[usize]) -> Option<f64> {
    let all = Times::cores(stat)?;
    let ticks = cores.iter().map(|core| Some(all.get(core)?.busy())).sum::<Option<u64>>()?;
    Some(ticks as f64 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_core_did_is_all_but_idling() {
        let stat = "cpu 9 9 9 9 9 9 9 9 9 9\ncpu0 100 1 20 5000 60 7 300 8 0 0\ncpu1 1 1 1 1 1 1 1 1\ncpu10 0 0 0 0 0 0 0 0\n";
        assert_eq!(busy(stat, &[0]), Some(4.28));
        assert_eq!(busy(stat, &[0, 1]), Some(4.33));
        assert_eq!(busy(stat, &[2]), None);
        assert_eq!((seconds(&[]), how(&[])), (None, String::new()));
    }
}
