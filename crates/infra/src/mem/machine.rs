//! How much memory there is to be had.

use std::fs;
use std::path::Path;

/// Bytes of memory that this process may use: those of the machine, or fewer if a control group that it is in has a limit.
/// `None` when the system does not say.
pub fn available() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limits(&groups, |file| fs::read_to_string(file).ok());
    total(&meminfo).into_iter().chain(limits).min()
}

/// What `/proc/meminfo` says of the whole machine.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The limits of the control group and of those around it (cgroup v2, or the memory controller of v1).
fn limits(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Vec<u64> {
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            c if c.split(',').any(|c| c == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        Some((root, path.trim_start_matches('/').to_string(), file))
    };
    let mut limits = Vec::new();
    for (root, path, file) in groups.lines().filter_map(group) {
        for part in Path::new(&path).ancestors() {
            let said = read(&Path::new(root).join(part).join(file));
            limits.extend(said.and_then(|text| text.trim().parse::<u64>().ok()));
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_counts() {
        assert_eq!(total("MemFree: 5 kB\nMemTotal:       24576 kB\n"), Some(24 << 20));
        assert_eq!((total("MemTotal: many kB"), total("")), (None, None));
        let read = |file: &Path| {
            let text = match file.to_str()? {
                "/sys/fs/cgroup/system.slice/volley.service/memory.max" => "max\n",
                "/sys/fs/cgroup/system.slice/memory.max" => "1073741824\n",
                "/sys/fs/cgroup/memory/jail/memory.limit_in_bytes" => "2048\n",
                _ => return None,
            };
            Some(text.to_string())
        };
        assert_eq!(limits("0::/system.slice/volley.service\n", read), [1 << 30]);
        assert_eq!(limits("5:cpu,cpuacct:/jail\n4:memory:/jail\n", read), [2048]);
        assert_eq!(limits("nonsense\n", read), []);
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
