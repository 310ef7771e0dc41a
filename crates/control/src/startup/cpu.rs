//! The `cpu` section, and the cores of the threads.

use infra::cpu::Policy;
use std::fmt::Write;

/// The number of workers, or their cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// One worker, because nothing is set.
    #[default]
    Default,
    /// This number of workers; 0 counts as 1, because the main thread never forwards packets.
    Count(usize),
    /// One worker on each of these cores.
    Cores(Vec<usize>),
}

/// The `cpu` section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The main thread's core.
    pub main_core: Option<usize>,
    /// The number of workers, or their cores.
    pub workers: Workers,
    /// Number of cores to skip, from the lowest one.
    pub skip_cores: usize,
    /// The kernel's scheduling policy of the workers; `None` leaves them the policy of the process.
    pub policy: Option<Policy>,
    /// The workers' priority, for real-time policies only.
    pub priority: Option<u8>,
}

/// The cores of the threads. `None` instead of a core leaves the choice to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The main thread's core.
    pub main: Option<usize>,
    /// The workers' cores, in order of the workers; never empty.
    pub workers: Vec<Option<usize>>,
}

impl Cpu {
    /// Places the threads on the `usable` cores, which are in ascending order. Without settings, no thread is bound
    /// to a core.
    ///
    /// # Errors
    /// If a named core is not usable, or there are too few cores. Returns the parameters at fault, and a message for the operator.
    pub fn place(&self, usable: &[usize]) -> Result<Placement, (&'static [&'static str], String)> {
        if *self == Self::default() {
            return Ok(Placement { main: None, workers: vec![None] });
        }
        let named = match &self.workers {
            Workers::Cores(cores) => cores.as_slice(),
            _ => &[],
        };
        let absent = |core: &&usize| !usable.contains(core);
        if let Some(core) = self.main_core.iter().find(absent) {
            return Err((&["main-core"], not_there(*core, usable)));
        }
        if let Some(core) = named.iter().find(absent) {
            return Err((&["corelist-workers", "coremask-workers"], not_there(*core, usable)));
        }
        let mut free = usable.iter().copied().skip(self.skip_cores).filter(|core| !named.contains(core));
        let main = self.main_core.or_else(|| free.next());
        let workers: Vec<_> = match &self.workers {
            Workers::Cores(cores) => cores.clone(),
            Workers::Default => free.filter(|core| Some(*core) != main).take(1).collect(),
            Workers::Count(n) => free.filter(|core| Some(*core) != main).take((*n).max(1)).collect(),
        };
        let wanted = match self.workers {
            Workers::Count(n) => n.max(1),
            _ => 1,
        };
        if workers.len() < wanted {
            let message = format!(
                "workers {wanted} with skip-cores {} need {} cores, {} available ({}): lower one of them, \
                 or place the workers with corelist-workers",
                self.skip_cores,
                self.skip_cores + wanted + 1,
                usable.len(),
                core_ranges(usable)
            );
            return Err((&["workers", "skip-cores", "main-core"], message));
        }
        Ok(Placement { main, workers: workers.into_iter().map(Some).collect() })
    }
}

/// Returns the message for a core that is not usable.
pub(crate) fn not_there(core: usize, usable: &[usize]) -> String {
    format!("core {core} is not available: use cores out of {}", core_ranges(usable))
}

/// Returns ascending cores in the notation of `corelist-workers`.
fn core_ranges(cores: &[usize]) -> String {
    let mut text = String::new();
    for run in cores.chunk_by(|a, b| a + 1 == *b) {
        let separator = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = match run {
            [first, .., last] => write!(text, "{separator}{first}-{last}"),
            [one] => write!(text, "{separator}{one}"),
            [] => Ok(()),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_set_binds_no_thread() {
        let placement = Placement { main: None, workers: vec![None] };
        assert_eq!(Cpu::default().place(&[0, 1]), Ok(placement));
    }

    #[test]
    fn threads_take_the_next_free_cores() {
        let place = |main_core, workers, skip_cores| {
            let placement =
                Cpu { main_core, workers, skip_cores, ..Cpu::default() }.place(&[0, 1, 2, 5, 6, 7]).unwrap();
            (placement.main.unwrap(), placement.workers.into_iter().flatten().collect::<Vec<_>>())
        };
        assert_eq!(place(None, Workers::Count(2), 0), (0, vec![1, 2]));
        assert_eq!(place(Some(1), Workers::Count(2), 0), (1, vec![0, 2]));
        assert_eq!(place(None, Workers::Count(2), 2), (2, vec![5, 6]));
        assert_eq!(place(Some(0), Workers::Count(0), 1), (0, vec![1]));
        assert_eq!(place(Some(2), Workers::Default, 0), (2, vec![0]));
        assert_eq!(place(None, Workers::Cores(vec![7, 0]), 0), (1, vec![7, 0]));
    }

    #[test]
    fn cores_all_taken_by_workers_leave_the_main_thread_unbound() {
        let cpu = Cpu { workers: Workers::Cores(vec![0, 1]), ..Cpu::default() };
        assert_eq!(cpu.place(&[0, 1]), Ok(Placement { main: None, workers: vec![Some(0), Some(1)] }));
    }

    #[test]
    fn impossible_placements_are_explained() {
        let (at, message) = Cpu { main_core: Some(9), ..Cpu::default() }.place(&[0, 1, 2, 5]).unwrap_err();
        assert_eq!((at, &*message), (&["main-core"][..], "core 9 is not available: use cores out of 0-2,5"));
        let cpu = Cpu { workers: Workers::Count(2), skip_cores: 1, ..Cpu::default() };
        let (_, message) = cpu.place(&[0, 1]).unwrap_err();
        assert!(
            message.starts_with("workers 2 with skip-cores 1 need 4 cores, 2 available (0-1)"),
            "{message}"
        );
    }

    proptest! {
        #[test]
        fn each_thread_has_a_usable_core_of_its_own(
            usable in prop::collection::btree_set(0..20_usize, 1..12),
            main_core in prop::option::of(0..20_usize),
            wanted in 0..12_usize,
            skip_cores in 0..4_usize,
        ) {
            let usable: Vec<_> = usable.into_iter().collect();
            let cpu = Cpu { main_core, workers: Workers::Count(wanted), skip_cores, ..Cpu::default() };
            let free = usable.get(skip_cores..).unwrap_or_default();
            let taken = main_core.map_or(1, |core| usize::from(free.contains(&core)));
            let fits = main_core.is_none_or(|core| usable.contains(&core)) && free.len() >= taken + wanted.max(1);
            match cpu.place(&usable) {
                Ok(placement) => {
                    prop_assert!(fits);
                    prop_assert_eq!(placement.workers.len(), wanted.max(1));
                    let mut cores: Vec<_> = placement.workers.iter().flatten().copied().collect();
                    prop_assert!(cores.iter().all(|core| free.contains(core)));
                    cores.extend(placement.main);
                    cores.sort_unstable();
                    cores.dedup();
                    prop_assert_eq!(cores.len(), wanted.max(1) + 1);
                }
                Err(_) => prop_assert!(!fits),
            }
        }
    }
}
