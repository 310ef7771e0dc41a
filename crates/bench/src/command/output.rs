//! Files for results beside the report: what they may not be is said before anything is measured.

use std::fs::{File, Metadata};
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use bench::trial::Failure;

/// What the file of a store begins with (SQLite's file format, section 1.2).
const STORE: &[u8; 16] = b"SQLite format 3\0";

/// A file that is open for results. What was in it stays there until there are some.
pub struct Output<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Output<'a> {
    /// Opens it. `read` are the other files of the command, which its results would overwrite; each of them exists by now.
    ///
    /// # Errors
    /// When it is one of those, a store, or what standard output goes to, or cannot be written.
    pub fn new(path: &'a Path, read: &[&Path]) -> Result<Output<'a>, Failure> {
        let fault =
            |why: &str| Failure(format!("{}: {why}: name another file for the results", path.display()));
        let open = File::options().write(true).create(true).truncate(false).open(path);
        let file = open.map_err(|e| Failure(format!("{}: {e}", path.display())))?;
        let Some(own) = identity(file.metadata()) else { return Ok(Output { path, file }) };
        if let Some(other) = read.iter().find(|other| identity(other.metadata()) == Some(own)) {
            return Err(fault(&format!("it is {} of the same command", other.display())));
        }
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        for (stream, name) in [(stdout.as_fd(), "standard output"), (stderr.as_fd(), "standard error")] {
            let stream = stream.try_clone_to_owned().map(File::from);
            if stream.is_ok_and(|stream| identity(stream.metadata()) == Some(own)) {
                return Err(fault(&format!("{name} goes there")));
            }
        }
        let mut first = Vec::new();
        _ = File::open(path).and_then(|file| file.take(STORE.len() as u64).read_to_end(&mut first));
        if first == STORE { Err(fault("it is a store")) } else { Ok(Output { path, file }) }
    }

    /// Writes them in place of what was in it.
    ///
    /// # Errors
    /// When they cannot be written; what was in it may be gone then.
    pub fn write(mut self, text: &str) -> Result<(), Failure> {
        let named = |what: &dyn std::fmt::Display| Failure(format!("{}: {what}", self.path.display()));
        let own = identity(self.file.metadata());
        if own != identity(self.path.metadata()) {
            return Err(named(&"somebody removed or replaced it meanwhile"));
        }
        let written = if own.is_some() { self.file.set_len(0) } else { Ok(()) };
        written.and_then(|()| self.file.write_all(text.as_bytes())).map_err(|e| named(&e))
    }
}

/// What tells a file from all others; a terminal, a pipe and the like can be written to by any number.
fn identity(of: std::io::Result<Metadata>) -> Option<(u64, u64)> {
    of.ok().filter(Metadata::is_file).map(|m| (m.dev(), m.ino()))
}
