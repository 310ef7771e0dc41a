//! Output files for results. An unsuitable file is reported before any measurement.

use std::fs::{File, Metadata};
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use bench::trial::Failure;

/// First bytes of a store's file (SQLite's file format, section 1.2).
const STORE: &[u8; 16] = b"SQLite format 3\0";

/// A file that is open for results. It keeps its old contents until results are written.
pub struct Output<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Output<'a> {
    /// Opens the file, or creates it. `read` are the other files of the command, which the results must not overwrite.
    ///
    /// # Errors
    /// Returns an error if the file is one of `read`, is a store, cannot be written, or if standard output or standard error is redirected
    /// to it.
    pub fn new(path: &'a Path, read: &[&Path]) -> Result<Output<'a>, Failure> {
        let fault =
            |why: &str| Failure(format!("{}: {why}: choose another file for the results", path.display()));
        let open = File::options().write(true).create(true).truncate(false).open(path);
        let file = open.map_err(|e| Failure(format!("{}: {e}", path.display())))?;
        let Some(own) = identity(file.metadata()) else { return Ok(Output { path, file }) };
        if let Some(other) = read.iter().find(|other| identity(other.metadata()) == Some(own)) {
            return Err(fault(&format!("it is the same file as {} of this command", other.display())));
        }
        let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
        for (stream, name) in [(stdout.as_fd(), "standard output"), (stderr.as_fd(), "standard error")] {
            let stream = stream.try_clone_to_owned().map(File::from);
            if stream.is_ok_and(|stream| identity(stream.metadata()) == Some(own)) {
                return Err(fault(&format!("{name} is redirected to it")));
            }
        }
        let mut first = Vec::new();
        _ = File::open(path).and_then(|file| file.take(STORE.len() as u64).read_to_end(&mut first));
        if first == STORE { Err(fault("it is a store")) } else { Ok(Output { path, file }) }
    }

    /// Replaces the contents of the file with `text`.
    ///
    /// # Errors
    /// Returns an error if the file was removed or replaced meanwhile, or cannot be written. After a failed write the old contents may be
    /// lost.
    pub fn write(mut self, text: &str) -> Result<(), Failure> {
        let named = |what: &dyn std::fmt::Display| Failure(format!("{}: {what}", self.path.display()));
        let own = identity(self.file.metadata());
        if own != identity(self.path.metadata()) {
            return Err(named(&"the file was removed or replaced meanwhile"));
        }
        let written = if own.is_some() { self.file.set_len(0) } else { Ok(()) };
        written.and_then(|()| self.file.write_all(text.as_bytes())).map_err(|e| named(&e))
    }
}

/// Returns the device and inode number that identify a regular file. `None` for terminals, pipes and other files that may be given to a
/// command several times.
fn identity(of: std::io::Result<Metadata>) -> Option<(u64, u64)> {
    of.ok().filter(Metadata::is_file).map(|m| (m.dev(), m.ino()))
}
