//! Which program this is.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::OnceLock;

/// The version of this program and the build: "0.1.0 (build 0123456789abcdef)". Two builds of one version are not the same router, nor the
/// same tester.
pub fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    let number = env!("CARGO_PKG_VERSION");
    // Also of a file that was replaced since the program began.
    VERSION.get_or_init(|| with_build(number, Path::new("/proc/self/exe")))
}

/// The same of another program, which says of itself that it is `number`.
pub fn with_build(number: &str, program: &Path) -> String {
    match build(program) {
        Ok(build) => format!("{number} (build {build:016x})"),
        Err(_) => number.into(),
    }
}

/// A hash of the program's file. How it is made may differ from one release of Rust to the next, but the file does, too, then.
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

    /// Set where this very test runs again, to say which program it is.
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
        // A byte more is another program that does the same.
        io::Write::write_all(&mut File::options().append(true).open(&other).unwrap(), b"x").unwrap();
        assert!(version().contains(" (build "), "{}", version());
        assert_eq!(said(&same), version());
        assert_ne!(said(&other), version());
    }
}
