//! The format of the file, and its version.

use rusqlite::{Transaction, TransactionBehavior};

use super::Store;
use crate::trial::Failure;

/// What marks a file as a store of the tester's: "Voll".
const APPLICATION: i32 = 0x566f_6c6c;
/// The version of the tables. A change of the documents in them that older files do not have as well is a new version, too.
const VERSION: i32 = 1;
const TABLES: &str = include_str!("schema.sql");

/// Makes the tables in an empty file, and refuses what is not this tester's.
pub(super) fn prepare(store: &Store) -> Result<(), Failure> {
    // A commit is on the disk when it returns, the removal of its journal included: a trial a second is slow enough for that.
    store.said(store.connection.execute_batch("PRAGMA synchronous = EXTRA; PRAGMA foreign_keys = ON;"))?;
    if is_ours(store)? {
        return Ok(());
    }
    let begin = Transaction::new_unchecked(&store.connection, TransactionBehavior::Immediate);
    let transaction = store.said(begin)?;
    // Another tester may have made them meanwhile.
    if !is_ours(store)? {
        let marks = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};");
        store.said(transaction.execute_batch(TABLES).and_then(|()| transaction.execute_batch(&marks)))?;
    }
    store.said(transaction.commit())
}

/// Whether the tables are there; not in an empty file.
fn is_ours(store: &Store) -> Result<bool, Failure> {
    let number = |name: &str| -> Result<i32, Failure> {
        store.said(store.connection.pragma_query_value(None, name, |row| row.get(0)))
    };
    let refuse = |why: String| Err(Failure(format!("{}: {why}", store.path.display())));
    let (application, version, schema) =
        (number("application_id")?, number("user_version")?, number("schema_version")?);
    match (application, version) {
        (0, 0) if schema == 0 => Ok(false),
        (APPLICATION, VERSION) => Ok(true),
        (APPLICATION, newer) if newer > VERSION => refuse(format!(
            "the store is of version {newer}, and this tester knows those up to {VERSION}: use the later one, or name another file"
        )),
        _ => refuse("this is another program's database: name another file".into()),
    }
}
