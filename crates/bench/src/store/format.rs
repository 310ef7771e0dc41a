//! The format of the file, and its version.

use rusqlite::{Transaction, TransactionBehavior};

use super::Store;
use crate::trial::Failure;

/// What marks a file as a store of the tester's: "Voll".
const APPLICATION: i32 = 0x566f_6c6c;
/// What makes each version of the tables of the one before. A change of the documents in them that older files do not have as well is a
/// new version, too.
const TABLES: [&str; 2] = [include_str!("schema.sql"), include_str!("schema-2.sql")];
const VERSION: i32 = TABLES.len() as i32;

/// Makes the tables in an empty file, and refuses what is not this tester's. An older one is left as it is: it may be on a disk that is
/// full, or read by an older tester.
pub(super) fn prepare(store: &Store) -> Result<(), Failure> {
    // A commit is on the disk when it returns, the removal of its journal included: a trial a second is slow enough for that.
    store.said(store.connection.execute_batch("PRAGMA synchronous = EXTRA; PRAGMA foreign_keys = ON;"))?;
    match version(store)? {
        0 => upgrade(store),
        _ => Ok(()),
    }
}

/// Makes the tables of this version, in a file that is empty or older.
pub(super) fn upgrade(store: &Store) -> Result<(), Failure> {
    if version(store)? == VERSION {
        return Ok(());
    }
    let begin = Transaction::new_unchecked(&store.connection, TransactionBehavior::Immediate);
    let transaction = store.said(begin)?;
    // Another tester may have made them meanwhile.
    for tables in TABLES.iter().skip(version(store)? as usize) {
        store.said(transaction.execute_batch(tables))?;
    }
    let marks = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};");
    store.said(transaction.execute_batch(&marks))?;
    store.said(transaction.commit())
}

/// The version of the tables, from 1 on; 0 of an empty file.
///
/// # Errors
/// When it is another program's, or a later version's.
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
            "the store is of version {newer}, and this tester knows those up to {VERSION}: use the later one, or name another file"
        )),
        _ => refuse("this is another program's database: name another file".into()),
    }
}
