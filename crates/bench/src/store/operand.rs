//! Results named on the command line.

use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::Store;
use super::read::unreadable;
use crate::campaign::Results;
use crate::trial::Failure;

/// Start of every SQLite file (sqlite.org/fileformat, section 1.3.1).
const SQLITE: &[u8] = b"SQLite format 3\0";

/// The keys that results of every version have.
#[derive(Deserialize)]
struct Written {
    provenance: Value,
    #[serde(rename = "campaign")]
    _campaign: Value,
}

/// Loads results from an operand: a JSON file written by a campaign, a store (its last campaign), or STORE#WHICH (a campaign by number or
/// name).
///
/// # Errors
/// If reading fails; the error names the file.
pub fn load(operand: &Path) -> Result<Results, Failure> {
    let (path, which) = split(operand);
    if is_store(path).map_err(|e| Failure(format!("{}: {e}", path.display())))? {
        let store = Store::existing(path)?;
        return store.results(store.find(which)?);
    }
    let named = |e: &dyn std::fmt::Display| Failure(format!("{}: {e}", path.display()));
    if which.is_some() {
        return Err(named(&"not a store, so no campaign can be selected: remove the part after the #"));
    }
    let text = std::fs::read(path).map_err(|e| named(&e))?;
    serde_json::from_slice(&text).map_err(|e| match serde_json::from_slice(&text) {
        Ok(Written { provenance, .. }) if provenance.is_object() => {
            Failure(unreadable(&path.display().to_string(), &e, &provenance.to_string()))
        }
        _ => named(&format!("neither results of volley bench nor a store: {e}")),
    })
}

/// Opens the store of an operand, and returns the number of the selected campaign.
///
/// # Errors
/// Same as [`load`].
pub fn open(operand: &Path) -> Result<(Store, i64), Failure> {
    let (path, which) = split(operand);
    let store = Store::existing(path)?;
    let id = store.find(which)?;
    Ok((store, id))
}

/// Splits an operand into the file and the part after the last #. An operand that is the name of an existing file is not split.
fn split(operand: &Path) -> (&Path, Option<&str>) {
    let cut = operand.to_str().filter(|_| !operand.exists()).and_then(|text| text.rsplit_once('#'));
    cut.map_or((operand, None), |(path, which)| (Path::new(path), Some(which)))
}

fn is_store(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    std::fs::File::open(path)?.take(SQLITE.len() as u64).read_to_end(&mut start)?;
    Ok(start == SQLITE)
}
