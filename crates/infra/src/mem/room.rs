//! The amount of memory that is still available.
//!
//! The kernel overcommits memory: it kills a process only later, when memory is touched that does not exist. So large allocations first
//! check how much is available.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use super::{HUGE, Promise, trial};

/// The machine's initial cgroup namespace, for which the kernel has a fixed number.
const FIRST_NAMESPACE: &str = "cgroup:[4026531835]";

/// Bytes that are always left free for other processes.
const SPARE: u64 = 32 << 20;
/// Number of bytes, in addition to `SPARE`, that must stay free after an allocation whose size others determine (peers, neighbors,
/// filters of read-only clients). They are kept for clients of the CLI and for routes.
pub(super) const LEFT: u64 = 64 << 20;

/// The amount of memory that can still be allocated in ordinary pages, and its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Available bytes, without those that are [promised](Promise).
    pub bytes: u64,
    /// Bytes that are promised.
    pub promised: u64,
    /// Name of the tightest limit: a field of `/proc/meminfo`, or a file of a control group.
    pub bound: String,
    /// Huge pages of the hugetlb pool that are free and not reserved; `None` if the pool has no pages at all.
    pub huge: Option<u64>,
}

impl Room {
    /// Returns the memory that the machine and the control groups of this process have left, without [promised](Promise) memory. `bytes` is
    /// `u64::MAX` if the kernel does not report any limit.
    pub fn now() -> Room {
        let room = Room::under(Path::new("/"));
        let promised = Promise::total();
        let bytes = match room.bytes {
            u64::MAX => u64::MAX,
            bytes => bytes.saturating_sub(promised),
        };
        Room { bytes, promised, ..room }
    }

    /// As [`now`](Room::now), but reads the files below `root`, and does not subtract promised memory.
    fn under(root: &Path) -> Room {
        let meminfo = read(&root.join("proc/meminfo"));
        let field = |name: &str| value(&meminfo, name);
        let available = field("MemAvailable:").map_or(u64::MAX, |kib| kib.saturating_mul(1024));
        let huge = field("HugePages_Total:").filter(|&total| total > 0).and_then(|_| {
            Some(field("HugePages_Free:")?.saturating_sub(field("HugePages_Rsvd:").unwrap_or(0)))
        });
        let whole =
            Room { bytes: available, promised: 0, bound: "MemAvailable of /proc/meminfo".into(), huge };
        let groups = groups(root).into_iter().filter_map(|(kind, group)| kind.room(root, &group));
        groups.fold(
            whole,
            |room, (bytes, bound)| if bytes < room.bytes { Room { bytes, bound, ..room } } else { room },
        )
    }

    /// True if every control group that may limit this process is visible: the process is in no container, and its groups are readable.
    pub fn sees_all() -> bool {
        Room::sees_all_under(Path::new("/"))
    }

    fn sees_all_under(root: &Path) -> bool {
        let (own, mounts) = (read(&root.join("proc/self/cgroup")), read(&root.join("proc/self/mountinfo")));
        let namespace = fs::read_link(root.join("proc/self/ns/cgroup")).unwrap_or_default();
        let seen = |kind| mounts.lines().filter_map(|line| mount(line, kind)).any(|(_, from)| from == "/");
        namespace == Path::new(FIRST_NAMESPACE) && own.lines().filter_map(kind).all(|(kind, _)| seen(kind))
    }

    /// Returns how many bytes can be allocated so that `SPARE` bytes stay free; `None` if there is no limit.
    pub fn spare(&self) -> Option<u64> {
        (self.bytes < u64::MAX).then(|| self.bytes.saturating_sub(SPARE))
    }

    /// Checks that `bytes` can be allocated on behalf of a peer or a read-only client: another 64 MiB must stay free.
    ///
    /// # Errors
    /// As [`must_have`](Room::must_have).
    pub fn must_have_for_stranger(&self, bytes: u64) -> io::Result<()> {
        self.must_have(bytes.saturating_add(LEFT))
    }

    /// Checks that `bytes` can be allocated.
    ///
    /// # Errors
    /// `OutOfMemory`, with the free memory and its limit in the message.
    pub fn must_have(&self, bytes: u64) -> io::Result<()> {
        if self.spare().is_none_or(|spare| bytes <= spare) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::OutOfMemory, format!("{} of memory needed, {self}", Size(bytes))))
    }

    /// If not every memory limit is [visible](Room::sees_all), tests in a child process whether `bytes` bytes can really be filled.
    /// This takes as long as the kernel needs to provide the memory.
    ///
    /// # Errors
    /// `OutOfMemory` if the kernel killed the child or refused to give it the memory.
    pub fn try_unseen(bytes: u64) -> io::Result<()> {
        // Miri has no processes.
        if cfg!(miri) || Room::sees_all() { Ok(()) } else { trial::fill(bytes as usize, 0) }
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (free, kept) = (self.spare().unwrap_or(u64::MAX), SPARE + self.promised);
        write!(f, "{} free and {} reserved ({}", Size(free), Size(kept), self.bound)?;
        match self.huge {
            Some(pages) => write!(f, "; {} in free huge pages)", Size(pages.saturating_mul(HUGE as u64))),
            None => f.write_str(")"),
        }
    }
}

/// A number of bytes, displayed in MiB or GiB.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >> 30 > 0 => write!(f, "{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
            bytes => write!(f, "{} MiB", bytes >> 20),
        }
    }
}

/// The two versions of control groups.
#[derive(Clone, Copy)]
enum Kind {
    /// Version 2: one hierarchy for all controllers.
    Unified,
    /// Version 1: the hierarchy of the memory controller.
    Memory,
}

impl Kind {
    /// Returns how many bytes the control group `group` may still use, and the path of the file with its limit; `None` if the group has no
    /// limit, or if it cannot be read.
    fn room(self, root: &Path, group: &Path) -> Option<(u64, String)> {
        let (limit, usage, cached) = match self {
            Kind::Unified => ("memory.max", "memory.current", ["inactive_file", "active_file"]),
            Kind::Memory => (
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                ["total_inactive_file", "total_active_file"],
            ),
        };
        let file = |name: &str| read(&under(root, group).join(name));
        // "max" means no limit; in version 1, it is a number larger than the memory of any machine.
        let most: u64 = file(limit).trim().parse().ok()?;
        let used: u64 = file(usage).trim().parse().ok()?;
        // The kernel drops files from the page cache when memory is needed.
        let stat = file("memory.stat");
        let cache: u64 = cached.iter().filter_map(|name| value(&stat, name)).sum();
        let bytes = most.saturating_sub(used.saturating_sub(cache));
        Some((bytes, group.join(limit).display().to_string()))
    }
}

/// Returns the directories of this process's control groups, and of the groups above them.
fn groups(root: &Path) -> Vec<(Kind, PathBuf)> {
    let (own, mounts) = (read(&root.join("proc/self/cgroup")), read(&root.join("proc/self/mountinfo")));
    let mut all = Vec::new();
    for (kind, path) in own.lines().filter_map(kind) {
        let Some((mounted, from)) = mounts.lines().find_map(|line| mount(line, kind)) else { continue };
        // In a container the mount may begin at a group in the middle; the groups above it are not visible.
        let below = path.strip_prefix(from.trim_end_matches('/')).unwrap_or("");
        let mut group = PathBuf::from(mounted);
        all.push((kind, group.clone()));
        for part in below.split('/').filter(|part| !part.is_empty() && *part != "..") {
            group.push(part);
            all.push((kind, group.clone()));
        }
    }
    all
}

/// Returns the kind and the path of the control group in a line of `/proc/self/cgroup`; `None` if the group does not limit memory.
fn kind(line: &str) -> Option<(Kind, &str)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    match controllers {
        "" => Some((Kind::Unified, path)),
        _ if controllers.split(',').any(|c| c == "memory") => Some((Kind::Memory, path)),
        _ => None,
    }
}

/// Parses a line of `/proc/self/mountinfo`. If the line mounts control groups of this kind, returns the mount point, and the path of the
/// topmost group in the mount; otherwise `None`.
fn mount(line: &str, kind: Kind) -> Option<(&str, &str)> {
    let (place, system) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (from, mounted) = (place.next()?, place.next()?);
    let mut system = system.split(' ');
    let (name, options) = (system.next()?, system.nth(1).unwrap_or_default());
    let fits = match kind {
        Kind::Unified => name == "cgroup2",
        Kind::Memory => name == "cgroup" && options.split(',').any(|option| option == "memory"),
    };
    fits.then_some((mounted, from))
}

/// Finds the line of `text` that starts with `name`, and returns the number after the name; `None` if there is no such line or number.
fn value(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.split_whitespace().next()?.parse().ok()
}

fn under(root: &Path, absolute: &Path) -> PathBuf {
    root.join(absolute.strip_prefix("/").unwrap_or(absolute))
}

/// Reads a file's text; empty if it cannot be read.
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(all(test, not(feature = "loom"), not(miri)))]
mod tests {
    use super::*;

    /// A directory of files, which is deleted on drop.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Tree {
            let tree = Tree(std::env::temp_dir().join(format!("volley-room-{name}-{}", std::process::id())));
            for (path, text) in files {
                let path = tree.0.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            tree
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    const MEMINFO: &str = "MemTotal:  25000000 kB\nMemAvailable:   20971520 kB\nHugePages_Total:       0\n";

    #[test]
    fn without_a_group_limit_the_machine_limits_memory() {
        let meminfo = "MemAvailable:   2097152 kB\nHugePages_Total:   100\nHugePages_Free:   60\nHugePages_Rsvd:   10\n";
        let tree = Tree::new(
            "machine",
            &[
                ("proc/meminfo", meminfo),
                ("proc/self/cgroup", "0::/user/a\n"),
                ("proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"),
                ("sys/fs/cgroup/user/a/memory.max", "max\n"),
                ("sys/fs/cgroup/user/a/memory.current", "1000\n"),
            ],
        );
        let room = Room::under(&tree.0);
        assert_eq!((room.bytes, room.huge), (2 << 30, Some(50)));
        room.must_have((2 << 30) - SPARE).unwrap();
        let error = room.must_have(3 << 30).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(
            error.to_string(),
            "3.0 GiB of memory needed, 2.0 GiB free and 32 MiB reserved (MemAvailable of /proc/meminfo; 100 MiB in free \
             huge pages)"
        );
    }

    #[test]
    fn the_tightest_group_limits_memory_without_its_page_cache() {
        let tree = Tree::new(
            "unified",
            &[
                ("proc/meminfo", MEMINFO),
                ("proc/self/cgroup", "0::/machine/c1/router\n"),
                // The mount of a container that begins at the group machine.
                ("proc/self/mountinfo", "30 20 0:26 /machine /sys/fs/cgroup rw shared:4 - cgroup2 none rw\n"),
                ("sys/fs/cgroup/c1/memory.max", "1073741824\n"),
                ("sys/fs/cgroup/c1/memory.current", "536870912\n"),
                (
                    "sys/fs/cgroup/c1/memory.stat",
                    "anon 1\ninactive_file 134217728\nactive_file 134217728\nfile 9\n",
                ),
                ("sys/fs/cgroup/c1/router/memory.max", "4294967296\n"),
                ("sys/fs/cgroup/c1/router/memory.current", "0\n"),
            ],
        );
        let room = Room::under(&tree.0);
        assert_eq!((room.bytes, room.huge), (768 << 20, None));
        assert_eq!(room.bound, "/sys/fs/cgroup/c1/memory.max");
    }

    #[test]
    fn cgroup_v1_limits_count_too() {
        let tree = Tree::new(
            "memory",
            &[
                ("proc/meminfo", MEMINFO),
                ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/a:b\n0::/\n"),
                (
                    "proc/self/mountinfo",
                    "31 20 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                 32 20 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
                ),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "123\n"),
                ("sys/fs/cgroup/memory/a:b/memory.limit_in_bytes", "100000000\n"),
                ("sys/fs/cgroup/memory/a:b/memory.usage_in_bytes", "40000000\n"),
                ("sys/fs/cgroup/memory/a:b/memory.stat", "cache 5\ntotal_inactive_file 10000000\n"),
            ],
        );
        let room = Room::under(&tree.0);
        assert_eq!(room.bytes, 70_000_000);
        assert_eq!(room.bound, "/sys/fs/cgroup/memory/a:b/memory.limit_in_bytes");
    }

    #[test]
    fn limits_above_a_container_are_unknown() {
        let mounts =
            |from: &str| format!("30 20 0:26 {from} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n");
        for (name, namespace, mounts, all) in [
            ("first", FIRST_NAMESPACE, mounts("/"), true),
            ("namespace", "cgroup:[4026532000]", mounts("/"), false),
            ("middle", FIRST_NAMESPACE, mounts("/machine"), false),
            ("unmounted", FIRST_NAMESPACE, String::new(), false),
        ] {
            let tree = Tree::new(
                name,
                &[
                    ("proc/self/cgroup", "5:cpu:/x\n0::/machine/c1\n"),
                    ("proc/self/mountinfo", &mounts),
                    ("proc/self/ns/none", ""),
                ],
            );
            std::os::unix::fs::symlink(namespace, tree.0.join("proc/self/ns/cgroup")).unwrap();
            assert_eq!(Room::sees_all_under(&tree.0), all, "{name}");
        }
    }

    #[test]
    fn without_any_information_memory_is_unlimited() {
        let tree = Tree::new("nothing", &[("proc/none", "")]);
        Room::under(&tree.0).must_have(1 << 50).unwrap();
        assert!(Room::now().bytes < u64::MAX, "the kernel must report the free memory");
    }
}
