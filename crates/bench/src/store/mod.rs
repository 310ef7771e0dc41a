//! The store: results of campaigns, trial by trial, in one SQLite file.
//!
//! A file holds any number of campaigns. Each trial and each result is a separate transaction, and is on disk before the next trial begins.
//! Whatever ends the tester, all earlier measurements are stored. The store uses a rollback journal instead of a write-ahead log. It is
//! therefore a single file that can be copied, and that is readable on a full disk.

mod error;
mod format;
mod operand;
mod read;
mod recorder;
mod writer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::trial::Failure;

pub use operand::{load, open};
pub use read::Entry;
pub(crate) use read::UNFINISHED;
pub use recorder::Recorder;

/// Maximum wait for another program's lock on the file.
const PATIENCE: Duration = Duration::from_secs(10);

/// A store file.
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens a store, and creates it if it does not exist.
    ///
    /// # Errors
    /// If opening fails, or the file belongs to another program or to a later version of the tester. The error names the file and
    /// what to do.
    pub fn open(path: &Path) -> Result<Store, Failure> {
        Store::with(path, OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// Opens an existing store.
    ///
    /// # Errors
    /// As [`open`](Self::open), or if the file does not exist.
    pub fn existing(path: &Path) -> Result<Store, Failure> {
        // SQLite reports the same error for all files that it cannot open.
        std::fs::metadata(path).map_err(|e| Failure(format!("{}: {e}", path.display())))?;
        Store::with(path, OpenFlags::empty())
    }

    fn with(path: &Path, more: OpenFlags) -> Result<Store, Failure> {
        // Reading needs write access, too: it rolls back what a killed tester left half written.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
        let connection = Connection::open_with_flags(path, flags).map_err(|e| error::said(path, &e))?;
        let store = Store { connection, path: path.to_owned() };
        store.said(store.connection.busy_timeout(PATIENCE))?;
        format::prepare(&store)?;
        Ok(store)
    }

    /// Converts an error of SQLite into a message.
    fn said<T>(&self, result: rusqlite::Result<T>) -> Result<T, Failure> {
        result.map_err(|e| error::said(&self.path, &e))
    }
}

#[cfg(test)]
mod tests;
