//! Cores: their numbers, memory and capabilities, and binding threads to them.

use std::sync::OnceLock;
use std::{fmt, fs, io, path::Path};

/// Binds the calling thread to `core`.
///
/// # Errors
/// Returns the kernel's error if the core does not exist, is offline, or is not allowed for this process.
pub fn pin_current(core: usize) -> io::Result<()> {
    pin(0, &[core])
}

/// Returns the kernel's ID of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: plain system call.
    unsafe { libc::gettid() }
}

/// Binds the thread with the [ID](thread_id) `thread` to some cores.
///
/// # Errors
/// Returns the kernel's error if none of the cores is online and allowed for this process. Returns `InvalidInput` if a core's number is
/// 1,024 or greater.
pub fn pin(thread: i32, cores: &[usize]) -> io::Result<()> {
    own_cores();
    // SAFETY: all zero bytes are a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cores.iter().any(|core| *core >= 8 * size_of::<libc::cpu_set_t>()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the cores are inside the set; the call only reads the set.
    let rc = unsafe {
        cores.iter().for_each(|core| libc::CPU_SET(*core, &mut set));
        libc::sched_setaffinity(thread, size_of_val(&set), &set)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the cores that this process could use at its start, in order: all online cores, or fewer if the process was started with a
/// restriction (`taskset`, systemd's `CPUAffinity`, a cpuset). The list is determined before the first thread is bound to a core.
pub fn own_cores() -> &'static [usize] {
    static OWN: OnceLock<Vec<usize>> = OnceLock::new();
    OWN.get_or_init(|| {
        // SAFETY: all zero bytes are a valid, empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the call writes only to the set and knows its size.
        let rc = unsafe { libc::sched_getaffinity(libc::getpid(), size_of_val(&set), &mut set) };
        if rc != 0 {
            return online_cores();
        }
        // SAFETY: the cores are inside the set, which is only read.
        (0..8 * size_of_val(&set)).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect()
    })
}

/// The kernel's scheduling policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The default time-sharing policy (`SCHED_OTHER`).
    Other,
    /// Time sharing for threads without latency requirements (`SCHED_BATCH`).
    Batch,
    /// Time sharing: the thread runs only if no other thread wants the core.
    Idle,
    /// Real time: the thread runs before all threads with time sharing or a lower priority, until it sleeps.
    Fifo,
    /// Like [`Fifo`](Self::Fifo), but the thread takes turns with threads of the same priority.
    RoundRobin,
}

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    policy: libc::c_int,
    priority: libc::c_int,
}

impl Schedule {
    /// Returns a schedule with this policy. The priority (1 to 99) matters only for real-time policies.
    pub fn new(policy: Policy, priority: u8) -> Schedule {
        let (policy, real_time) = match policy {
            Policy::Other => (libc::SCHED_OTHER, false),
            Policy::Batch => (libc::SCHED_BATCH, false),
            Policy::Idle => (libc::SCHED_IDLE, false),
            Policy::Fifo => (libc::SCHED_FIFO, true),
            Policy::RoundRobin => (libc::SCHED_RR, true),
        };
        Schedule { policy, priority: if real_time { priority.into() } else { 0 } }
    }

    /// Returns the schedule of the calling thread.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn current() -> io::Result<Schedule> {
        let mut param = libc::sched_param { sched_priority: 0 };
        // SAFETY: both calls concern the calling thread; the second one writes only to `param`.
        let (policy, rc) = unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &mut param)) };
        if policy < 0 || rc != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Schedule { policy, priority: param.sched_priority })
    }

    /// Applies the schedule to the calling thread, and to the threads that it starts from then on.
    ///
    /// # Errors
    /// Returns the kernel's error, for example if the process may not have real-time threads.
    pub fn apply(self) -> io::Result<()> {
        let param = libc::sched_param { sched_priority: self.priority };
        // SAFETY: the call concerns the calling thread, and only reads `param`.
        let rc = unsafe { libc::sched_setscheduler(0, self.policy, &param) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Returns the online cores, in order; only core 0 if the kernel does not list them.
pub fn online_cores() -> Vec<usize> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cores = parse_list(&list);
    if cores.is_empty() { vec![0] } else { cores }
}

/// Parses a list in the kernel's format, for example `0-3,8`. Words that are not numbers are skipped.
pub fn parse_list(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse::<usize>().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Returns the NUMA node of `core`; `None` if the kernel reports none.
pub fn numa_node_of(core: usize) -> Option<u32> {
    numa_node_in(&Path::new("/sys/devices/system/cpu").join(format!("cpu{core}")))
}

fn numa_node_in(directory: &Path) -> Option<u32> {
    let entries = fs::read_dir(directory).ok()?;
    entries.flatten().find_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok())
}

/// Levels of the x86-64 instruction set for which the packet routines have separate versions. On other
/// processors the level is always `V2`, which stands for the portable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The baseline: SSE4.2 and POPCNT.
    V2,
    /// AVX2, BMI1, BMI2, F16C, FMA, LZCNT and MOVBE, in addition to V2.
    V3,
    /// AVX-512 F, BW, CD, DQ and VL, in addition to V3.
    V4,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V2 => "v2",
            Self::V3 => "v3",
            Self::V4 => "v4",
        })
    }
}

/// Returns the highest level supported by this processor and kernel.
pub fn level() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        let v3 = has!("avx2")
            && has!("bmi1")
            && has!("bmi2")
            && has!("f16c")
            && has!("fma")
            && has!("lzcnt")
            && has!("movbe");
        let v4 =
            has!("avx512f") && has!("avx512bw") && has!("avx512cd") && has!("avx512dq") && has!("avx512vl");
        if v3 && v4 {
            return Level::V4;
        }
        if v3 {
            return Level::V3;
        }
    }
    Level::V2
}

#[cfg(all(test, not(any(feature = "loom", miri))))]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_lists() {
        assert_eq!(parse_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_list("0"), [0]);
        assert!(parse_list("").is_empty() && parse_list("x,-1").is_empty());
        assert!(!online_cores().is_empty());
    }

    #[test]
    fn a_thread_inherits_its_scheduling() {
        std::thread::spawn(|| {
            let usual = Schedule::current().unwrap();
            let batch = Schedule::new(Policy::Batch, 7);
            batch.apply().unwrap();
            let inherited = std::thread::spawn(|| Schedule::current().unwrap());
            assert_eq!(inherited.join().unwrap(), batch);
            usual.apply().unwrap();
            assert_eq!(Schedule::current().unwrap(), usual);
            assert!(Schedule::new(Policy::Fifo, 100).apply().is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn pins_to_cores_that_exist() {
        std::thread::spawn(|| {
            let core = *online_cores().last().unwrap();
            pin_current(core).unwrap();
            // SAFETY: plain system call.
            assert_eq!(unsafe { libc::sched_getcpu() }, core as i32);
            assert!(pin_current(1023).is_err() && pin_current(usize::MAX).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn finds_the_numa_node_of_a_core() {
        let directory = std::env::temp_dir().join(format!("volley-numa-{}", std::process::id()));
        for name in ["cache", "node", "node3", "topology"] {
            fs::create_dir_all(directory.join(name)).unwrap();
        }
        assert_eq!(numa_node_in(&directory), Some(3));
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(numa_node_in(&directory), None);
    }

    #[test]
    fn levels_are_ordered() {
        assert!(Level::V2 < Level::V3 && Level::V3 < Level::V4 && level() >= Level::V2);
        assert_eq!(Level::V4.to_string(), "v4");
    }
}
