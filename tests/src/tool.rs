//! Third-party programs that scenarios use.

use std::path::PathBuf;

use testkit::skip::skipped;

/// Returns the path of a program in the environment for Python that `scripts/setup.sh` makes. If it is not installed, reports the test
/// as skipped and returns `None`.
pub fn of_python(program: &str) -> Option<PathBuf> {
    let found = environment().map(|bin| bin.join(program)).filter(|path| path.exists());
    if found.is_none() {
        skipped(&format!("needs {program} in the environment for Python: run make setup"));
    }
    found
}

/// Returns the directory of the programs in the environment for Python, if there is one.
pub fn environment() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    test.ancestors().map(|directory| directory.join("python/bin")).find(|bin| bin.exists())
}
