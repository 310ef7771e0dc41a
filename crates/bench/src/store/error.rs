//! What is wrong with a store, and what to do about it.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::trial::Failure;

/// What SQLite says of a file, in words.
pub(super) fn said(path: &Path, e: &rusqlite::Error) -> Failure {
    let what = match e.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            "the disk is full. What was measured until now is kept: make room, and go on with --resume".into()
        }
        Some(ErrorCode::NotADatabase) => "this is no store of volley bench: name another file".into(),
        Some(ErrorCode::DatabaseCorrupt) => format!("the store is damaged ({e}): name another file"),
        Some(ErrorCode::CannotOpen) => {
            "the store cannot be opened: look whether its directory exists, and who may write there".into()
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            "the store cannot be written: look who may write the file and its directory".into()
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program has held the store for 10 seconds: let it end, and go on with --resume, or name another file".into()
        }
        _ => format!("the store: {e}"),
    };
    Failure(format!("{}: {what}", path.display()))
}
