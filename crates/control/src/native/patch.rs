//! Merge patches of the configuration (RFC 7396).

use std::sync::Arc;

use hyper::StatusCode;
use infra::mem::Room;
use serde_json::Value;

use super::problem::{Problem, bad};

/// Bytes of memory for each byte of a configuration that is patched: a value of a list has 2 bytes or more.
const PER_BYTE: u64 = 16;
/// Bytes of memory for each map, however few members it has.
const PER_MAP: u64 = 700;
/// Maximum number of maps in a patch.
const MOST_MAPS: usize = 100_000;

/// Returns a configuration after a merge patch, both as JSON.
///
/// # Errors
/// If the patch is not a JSON object, or too large, or if there is not enough memory.
pub(super) fn merged(now: &str, patch: &[u8]) -> Result<Arc<[u8]>, Problem> {
    let no_memory = |e| Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("no memory for a patch: {e}"));
    // Braces in strings are counted, too: there are few.
    let maps = |text: &[u8]| text.iter().filter(|byte| **byte == b'{').count();
    let (of_patch, of_all) = (maps(patch), maps(now.as_bytes()));
    if of_patch > MOST_MAPS {
        let why =
            format!("a patch may have {MOST_MAPS} maps, this one has {of_patch}: send the whole document");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    let bytes = PER_BYTE * (now.len() + patch.len()) as u64 + PER_MAP * (of_patch + of_all) as u64;
    Room::now().must_have(bytes).map_err(no_memory)?;
    let patch: Value =
        serde_json::from_slice(patch).map_err(|e| bad(format!("the patch is not JSON: {e}")))?;
    if !patch.is_object() {
        return Err(bad("the patch is not a JSON object"));
    }
    let internal = |e| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("internal error: the configuration is not JSON: {e}"),
        )
    };
    let mut all: Value = serde_json::from_str(now).map_err(internal)?;
    merge(&mut all, patch);
    // Not indented: deep lists would become a hundred times as long.
    Ok(all.to_string().into_bytes().into())
}

/// Applies a merge patch (RFC 7396 section 2).
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(members) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(all) = target else { return };
    for (name, value) in members {
        match value {
            Value::Null => drop(all.remove(&name)),
            value => merge(all.entry(name).or_insert(Value::Null), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_merged_patch_is_no_longer_than_its_parts() {
        let deep = format!("{{\"x\":{}{}{}}}", "[".repeat(100), "0,".repeat(10_000) + "0", "]".repeat(100));
        assert!(merged("{}", deep.as_bytes()).unwrap().len() <= deep.len());
        let many = format!("{{\"x\":[{}0]}}", "{\"\":0},".repeat(MOST_MAPS));
        assert_eq!(merged("{}", many.as_bytes()).unwrap_err().status, StatusCode::PAYLOAD_TOO_LARGE);
    }

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn patches_are_merged_as_the_rfc_says() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (mut target, patch, result) in cases {
            merge(&mut target, patch);
            assert_eq!(target, result);
        }
    }
}
