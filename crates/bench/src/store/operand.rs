//! Results that are named on a command line.

use std::io::Read as _;
use std::path::Path;

use super::Store;
use crate::campaign::Results;
use crate::trial::Failure;

/// How every SQLite file begins (sqlite.org/fileformat, section 1.3.1).
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Results of a file: the JSON that a campaign wrote, or the last campaign of a store, or FILE#WHICH, that of this number or name.
///
/// # Errors
/// When they cannot be read, with the file.
pub fn load(operand: &Path) -> Result<Results, Failure> {
    let (path, which) = split(operand);
    if is_store(path).map_err(|e| Failure(format!("{}: {e}", path.display())))? {
        let store = Store::existing(path)?;
        return store.results(store.find(which)?);
    }
    let named = |e: &dyn std::fmt::Display| Failure(format!("{}: {e}", path.display()));
    if which.is_some() {
        return Err(named(&"this is no store, which has campaigns to choose from"));
    }
    let text = std::fs::read(path).map_err(|e| named(&e))?;
    let no = |e| named(&format!("these are no results of volley bench, nor a store of them: {e}"));
    serde_json::from_slice(&text).map_err(no)
}

/// Opens the store of an operand, with the number of the campaign that it names.
///
/// # Errors
/// As [`load`].
pub fn open(operand: &Path) -> Result<(Store, i64), Failure> {
    let (path, which) = split(operand);
    let store = Store::existing(path)?;
    let id = store.find(which)?;
    Ok((store, id))
}

/// The file, and what is behind a # when no file is called so.
fn split(operand: &Path) -> (&Path, Option<&str>) {
    let cut = operand.to_str().filter(|_| !operand.exists()).and_then(|text| text.rsplit_once('#'));
    cut.map_or((operand, None), |(path, which)| (Path::new(path), Some(which)))
}

fn is_store(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    std::fs::File::open(path)?.take(SQLITE.len() as u64).read_to_end(&mut start)?;
    Ok(start == SQLITE)
}
