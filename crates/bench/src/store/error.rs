//! Messages for errors of a store, with what to do.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::trial::Failure;

/// Converts an error of SQLite into a message that names the file.
pub(super) fn said(path: &Path, e: &rusqlite::Error) -> Failure {
    let what = match e.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            "the disk is full. All results so far are stored: free disk space, and continue with --resume".into()
        }
        Some(ErrorCode::NotADatabase) => "not a store of volley bench: name another file".into(),
        Some(ErrorCode::DatabaseCorrupt) => format!("the store is damaged ({e}): name another file"),
        Some(ErrorCode::CannotOpen) => {
            "cannot open the store: check that its directory exists and is writable".into()
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            "cannot write the store: check that the file and its directory are writable".into()
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program has locked the store for 10 seconds: end it and continue with --resume, or name another file".into()
        }
        _ => format!("the store: {e}"),
    };
    Failure(format!("{}: {what}", path.display()))
}
