//! The store: what campaigns found, trial by trial, in one SQLite file.
//!
//! A file holds any number of campaigns. Each trial and each result is a transaction of its own, and is on the disk before the next
//! trial begins: whatever ends the tester, what was measured until then is there. A rollback journal is used and no write-ahead log: the
//! store is one file that can be copied, and can be read on a disk that is full.

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
pub use recorder::Recorder;

/// How long another tester may hold the file.
const PATIENCE: Duration = Duration::from_secs(10);

/// A file of campaigns.
pub struct Store {
    connection: Connection,
    path: PathBuf,
}

impl Store {
    /// Opens a store, and makes it if there is none.
    ///
    /// # Errors
    /// When that is impossible, the file is something else, or a later version's; with the file, and what to do.
    pub fn open(path: &Path) -> Result<Store, Failure> {
        Store::with(path, OpenFlags::SQLITE_OPEN_CREATE)
    }

    /// Opens a store that is there.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when there is none.
    pub fn existing(path: &Path) -> Result<Store, Failure> {
        // SQLite says of all that it cannot open the same.
        std::fs::metadata(path).map_err(|e| Failure(format!("{}: {e}", path.display())))?;
        Store::with(path, OpenFlags::empty())
    }

    fn with(path: &Path, more: OpenFlags) -> Result<Store, Failure> {
        // What is only read must be writable, too: what a killed tester left half written is taken back.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
        let connection = Connection::open_with_flags(path, flags).map_err(|e| error::said(path, &e))?;
        let store = Store { connection, path: path.to_owned() };
        store.said(store.connection.busy_timeout(PATIENCE))?;
        format::prepare(&store)?;
        Ok(store)
    }

    /// A result of SQLite's, with words for what went wrong.
    fn said<T>(&self, result: rusqlite::Result<T>) -> Result<T, Failure> {
        result.map_err(|e| error::said(&self.path, &e))
    }
}

#[cfg(test)]
mod tests;
