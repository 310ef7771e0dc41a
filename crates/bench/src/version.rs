//! The version of a program, with its build.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::OnceLock;

/// Returns this program's version and build: "0.1.0 (build 0123456789abcdef)". Two builds of one version count as different routers, and as
/// different testers.
pub fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    let number = env!("CARGO_PKG_VERSION");
    // `/proc/self/exe` is the running file, even if it was replaced after the start.
    VERSION.get_or_init(|| with_build(number, Path::new("/proc/self/exe")))
}

/// Returns version and build of another program, the file `program`, which reports version `number`. Returns only `number` if the file
/// cannot be read.
pub fn with_build(number: &str, program: &Path) -> String {
    match build(program) {
        Ok(build) => format!("{number} (build {build:016x})"),
        Err(_) => number.into(),
    }
}

/// Hashes the program's file. The hash function may change between Rust releases, but then the file changes, too.
fn build(program: &Path) -> io::Result<u64> {
    let mut file = File::open(program)?;
    let (mut hasher, mut piece) = (DefaultHasher::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(hasher.finish()),
            n => hasher.write(&piece[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Environment variable for this test run as a child process: if it is set, the test prints its version.
    const ASKED: &str = "VOLLEY_TEST_VERSION";

    #[test]
    fn another_build_has_another_version() {
        if std::env::var_os(ASKED).is_some() {
            return println!("it is {};", version());
        }
        let directory = tempfile::tempdir().unwrap();
        let said = |program: &std::path::Path| {
            let mut command = Command::new(program);
            command.args(["--exact", "version::tests::another_build_has_another_version", "--nocapture"]);
            let out = command.env(ASKED, "1").output().unwrap();
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            let version = text.split_once("it is ").and_then(|(_, rest)| rest.split_once(';'));
            version.unwrap_or_else(|| panic!("{text}")).0.to_owned()
        };
        let this = std::env::current_exe().unwrap();
        let (same, other) = (directory.path().join("same"), directory.path().join("other"));
        for copy in [&same, &other] {
            std::fs::copy(&this, copy).unwrap();
        }
        // One more byte makes a different program with the same behavior.
        io::Write::write_all(&mut File::options().append(true).open(&other).unwrap(), b"x").unwrap();
        assert!(version().contains(" (build "), "{}", version());
        assert_eq!(said(&same), version());
        assert_ne!(said(&other), version());
    }
}
