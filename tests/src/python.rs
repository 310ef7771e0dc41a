//! Python with the packages that scripts/setup.sh installs.

use std::path::PathBuf;

use testkit::skip::skipped;

/// Returns the path of a Python interpreter that has `package`. `None` if it is not installed (reported as skipped).
///
/// # Panics
/// If the path of the running program is unknown.
pub fn python(package: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().expect("the path of the test");
    let found =
        program.ancestors().map(|directory| directory.join("python/bin/python3")).find(|p| p.exists());
    if found.is_none() {
        skipped(&format!("{package} is not installed: run make setup"));
    }
    found
}
