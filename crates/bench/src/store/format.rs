//! The file format and its version.

use rusqlite::{Transaction, TransactionBehavior};

use super::Store;
use crate::trial::Failure;

/// SQLite application ID of the tester's stores: "Voll".
const APPLICATION: i32 = 0x566f_6c6c;
/// For each version of the file format: the SQL statements that upgrade the tables from the version before. A new version is also
/// needed if a change adds required keys to a stored JSON document, or removes keys.
const TABLES: [&str; 3] =
    [include_str!("schema.sql"), include_str!("schema-2.sql"), include_str!("schema-3.sql")];
const VERSION: i32 = TABLES.len() as i32;

/// Makes the tables in an empty file, and rejects files of other programs and of later versions. An older store is not upgraded here: it
/// may be on a full disk, or in use by an older tester.
pub(super) fn prepare(store: &Store) -> Result<(), Failure> {
    // A commit is on disk when it returns, including the removal of its journal. This is fast enough for one trial per second.
    store.said(store.connection.execute_batch("PRAGMA synchronous = EXTRA; PRAGMA foreign_keys = ON;"))?;
    match version(store)? {
        0 => upgrade(store),
        _ => Ok(()),
    }
}

/// Makes or upgrades the tables to this version.
pub(super) fn upgrade(store: &Store) -> Result<(), Failure> {
    if version(store)? == VERSION {
        return Ok(());
    }
    let begin = Transaction::new_unchecked(&store.connection, TransactionBehavior::Immediate);
    let transaction = store.said(begin)?;
    // Another tester may have upgraded the tables in the meantime.
    for tables in TABLES.iter().skip(version(store)? as usize) {
        store.said(transaction.execute_batch(tables))?;
    }
    let marks = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};");
    store.said(transaction.execute_batch(&marks))?;
    store.said(transaction.commit())
}

/// Returns the version of the tables, from 1; 0 for an empty file.
///
/// # Errors
/// If the file belongs to another program, or has a later version than this tester supports.
pub(super) fn version(store: &Store) -> Result<i32, Failure> {
    let number = |name: &str| -> Result<i32, Failure> {
        store.said(store.connection.pragma_query_value(None, name, |row| row.get(0)))
    };
    let refuse = |why: String| Err(Failure(format!("{}: {why}", store.path.display())));
    let (application, version, schema) =
        (number("application_id")?, number("user_version")?, number("schema_version")?);
    match (application, version) {
        (0, 0) if schema == 0 => Ok(0),
        (APPLICATION, 1..=VERSION) => Ok(version),
        (APPLICATION, newer) if newer > VERSION => refuse(format!(
            "the store has version {newer}, but this tester supports versions up to {VERSION}: use a newer tester, or name another file"
        )),
        _ => refuse("the file is another program's database: name another file".into()),
    }
}
