//! Cores: which there are, where their memory is, what they can do, and how to stay on one.

use std::sync::OnceLock;
use std::{fmt, fs, io, path::Path};

/// Binds the calling thread to `core`.
///
/// # Errors
/// The kernel's error when the core does not exist, is offline, or is not for this process to use.
pub fn pin_current(core: usize) -> io::Result<()> {
    pin(0, &[core])
}

/// The kernel's number of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: plain system call.
    unsafe { libc::gettid() }
}

/// Binds a thread, by its [number](thread_id), to some cores.
///
/// # Errors
/// The kernel's error when none of the cores exists, is online, and is for this process to use.
pub fn pin(thread: i32, cores: &[usize]) -> io::Result<()> {
    own_cores();
    // SAFETY: all zero bytes are a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if cores.iter().any(|core| *core >= 8 * size_of::<libc::cpu_set_t>()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the cores lie inside of the set; the call reads the set only.
    let rc = unsafe {
        cores.iter().for_each(|core| libc::CPU_SET(*core, &mut set));
        libc::sched_setaffinity(thread, size_of_val(&set), &set)
    };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The cores that this process was started on, in order: those that are online, or fewer if whoever started it said so
/// (`taskset`, systemd's `CPUAffinity`, a cpuset). Looked up before the first thread is bound to a core.
pub fn own_cores() -> &'static [usize] {
    static OWN: OnceLock<Vec<usize>> = OnceLock::new();
    OWN.get_or_init(|| {
        // SAFETY: all zero bytes are a valid, empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the call writes to the set only, and knows its size.
        let rc = unsafe { libc::sched_getaffinity(libc::getpid(), size_of_val(&set), &mut set) };
        if rc != 0 {
            return online_cores();
        }
        // SAFETY: the cores lie inside of the set, which is read only.
        (0..8 * size_of_val(&set)).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect()
    })
}

/// The kernel's ways to schedule threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The usual one.
    Other,
    /// The usual one, for threads that nobody waits for.
    Batch,
    /// Only when no other thread wants the core.
    Idle,
    /// Before all others, until the thread sleeps.
    Fifo,
    /// Before all others, in turns with those of the same priority.
    RoundRobin,
}

/// How a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    policy: libc::c_int,
    priority: libc::c_int,
}

impl Schedule {
    /// By this policy; the priority, 1 to 99, is for those of real time only.
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

    /// How the calling thread is scheduled.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn current() -> io::Result<Schedule> {
        let mut param = libc::sched_param { sched_priority: 0 };
        // SAFETY: both calls are about the calling thread; the second one writes to `param` only.
        let (policy, rc) = unsafe { (libc::sched_getscheduler(0), libc::sched_getparam(0, &mut param)) };
        if policy < 0 || rc != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Schedule { policy, priority: param.sched_priority })
    }

    /// Has the calling thread, and those that it starts from then on, scheduled this way.
    ///
    /// # Errors
    /// The kernel's error, such as that the process may not have threads of real time.
    pub fn apply(self) -> io::Result<()> {
        let param = libc::sched_param { sched_priority: self.priority };
        // SAFETY: the call is about the calling thread, and reads `param` only.
        let rc = unsafe { libc::sched_setscheduler(0, self.policy, &param) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The cores that are online, in order.
pub fn online_cores() -> Vec<usize> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cores = parse_list(&list);
    if cores.is_empty() { vec![0] } else { cores }
}

/// Reads the kernel's list format, as `0-3,8`. What is no number is left out.
pub fn parse_list(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse::<usize>().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// The NUMA node of `core`; `None` when the kernel names none.
pub fn numa_node_of(core: usize) -> Option<u32> {
    numa_node_in(&Path::new("/sys/devices/system/cpu").join(format!("cpu{core}")))
}

fn numa_node_in(directory: &Path) -> Option<u32> {
    let entries = fs::read_dir(directory).ok()?;
    entries.flatten().find_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok())
}

/// The levels of the x86-64 instruction set for which kernels exist. On other processors everything is `V2`,
/// the portable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The baseline: SSE4.2 and POPCNT.
    V2,
    /// AVX2, BMI, FMA.
    V3,
    /// AVX-512 F, BW, CD, DQ, VL.
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

/// The highest level that this processor and kernel support.
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
    fn a_thread_is_scheduled_as_the_one_that_started_it() {
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
    fn finds_the_node_among_a_cores_entries() {
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
