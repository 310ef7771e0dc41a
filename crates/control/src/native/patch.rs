//! Patches of the configuration: merge patches (RFC 7396) and lists of operations (RFC 6902).

use std::sync::Arc;

use hyper::StatusCode;
use infra::mem::Room;
use json_patch::jsonptr::Pointer;
use json_patch::{Patch, PatchErrorKind, PatchOperation, patch_unsafe};
use serde_json::Value;

use super::problem::{Problem, bad};

/// Estimated bytes of memory for each byte of the configuration and of its patch. The estimate is for the worst case: a list of values that
/// take 2 bytes each.
const PER_BYTE: u64 = 16;
/// Bytes of memory for each map, however few members it has.
const PER_MAP: u64 = 700;
/// Maximum number of maps in a patch.
const MOST_MAPS: usize = 100_000;
/// Maximum number of operations in a patch. An operation on a list takes time in proportion to the list.
const MOST_OPERATIONS: usize = 10_000;
/// Maximum number of list items that operations move to make or close gaps.
const MOST_MOVED: usize = 50_000_000;
/// Maximum length of all values that operations copy, in bytes of JSON.
const LONGEST_COPIES: usize = 4 << 20;
/// Maximum number of times that the nesting levels of the whole configuration are counted for one patch.
const MOST_MEASURED: usize = 100;
/// Maximum number of nesting levels in a configuration while operations change it. Deep values use up the stack.
const DEEPEST: usize = 256;

/// The kind of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A merge patch (RFC 7396).
    Merge,
    /// A list of operations (RFC 6902).
    Operations,
}

/// Returns the configuration `now` after a patch. Both configurations are JSON.
///
/// # Errors
/// If the patch is not JSON of its form, if an operation fails, if the patch is too large, or if there is not enough memory.
pub(super) fn patched(form: Form, now: &str, patch: &[u8]) -> Result<Arc<[u8]>, Problem> {
    // Braces in strings are counted, too: there are few.
    let maps = |text: &[u8]| text.iter().filter(|byte| **byte == b'{').count();
    let (of_patch, of_all) = (maps(patch), maps(now.as_bytes()));
    if of_patch > MOST_MAPS {
        let why =
            format!("a patch may have {MOST_MAPS} maps, this one has {of_patch}: send the whole document");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    // Operations keep their values until the end, beside the configuration.
    let times = if form == Form::Operations { 2 } else { 1 };
    must_have(now.len() + times * patch.len(), times * of_patch + of_all)?;
    let internal = |e| {
        let why = format!("internal error: the configuration is not JSON: {e}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    };
    let whole = || serde_json::from_str::<Value>(now).map_err(internal);
    let all = match form {
        Form::Merge => {
            let patch: Value =
                serde_json::from_slice(patch).map_err(|e| bad(format!("the patch is not JSON: {e}")))?;
            if !patch.is_object() {
                return Err(bad("the patch is not a JSON object"));
            }
            let mut all = whole()?;
            merge(&mut all, patch);
            all
        }
        Form::Operations => {
            let wrong = |e| bad(format!("the patch is not a list of operations (RFC 6902): {e}"));
            let Patch(operations) = serde_json::from_slice(patch).map_err(wrong)?;
            let mut all = whole()?;
            operate(&mut all, &operations)?;
            all
        }
    };
    // Not indented: deep lists would become a hundred times as long.
    Ok(all.to_string().into_bytes().into())
}

/// Checks that enough memory is free for a patch, without reserving it. `bytes` is the length of the text to be parsed, and `maps` the
/// number of maps in it.
fn must_have(bytes: usize, maps: usize) -> Result<(), Problem> {
    let no_memory = |e| Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("no memory for a patch: {e}"));
    Room::now().must_have(PER_BYTE * bytes as u64 + PER_MAP * maps as u64).map_err(no_memory)
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

/// Applies operations (RFC 6902), one after the other.
fn operate(all: &mut Value, operations: &[PatchOperation]) -> Result<(), Problem> {
    if operations.len() > MOST_OPERATIONS {
        let why = format!(
            "a patch may have {MOST_OPERATIONS} operations, this one has {}: send the whole document",
            operations.len()
        );
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    let (mut copied, mut moved, mut deepest, mut measured) = (0, 0, depth(all), 0);
    for (n, operation) in operations.iter().enumerate() {
        let place = || format!("operation {} of the patch, at '{}'", n + 1, operation.path());
        let refuse = |status, why: &str| Err(Problem::new(status, format!("{}: {why}", place())));
        let mut after = levels(deepest, operation, None);
        if after > DEEPEST && measured < MOST_MEASURED {
            // The bound grows with each value that is moved to a deeper place, although the configuration may not.
            measured += 1;
            after = levels(depth(all), operation, Some(all));
        }
        deepest = after;
        if deepest > DEEPEST {
            return refuse(
                StatusCode::UNPROCESSABLE_ENTITY,
                &format!("the configuration would have more than {DEEPEST} levels"),
            );
        }
        if let PatchOperation::Copy(copy) = operation
            && let Some(source) = all.pointer(copy.from.as_str())
        {
            let text = source.to_string();
            copied += text.len();
            if copied > LONGEST_COPIES {
                let why = format!("a patch may copy {LONGEST_COPIES} bytes in all: send the whole document");
                return refuse(StatusCode::PAYLOAD_TOO_LARGE, &why);
            }
            must_have(text.len(), text.matches('{').count())?;
        }
        moved += shifted(all, operation);
        if moved > MOST_MOVED {
            let why =
                format!("the patch moves more than {MOST_MOVED} items of lists: send the whole document");
            return refuse(StatusCode::PAYLOAD_TOO_LARGE, &why);
        }
        if let Err(error) = patch_unsafe(all, std::slice::from_ref(operation)) {
            return match error.kind {
                _ if matches!(operation, PatchOperation::Test(_)) => {
                    refuse(StatusCode::CONFLICT, "the test failed: the configuration has another value")
                }
                PatchErrorKind::InvalidPointer => {
                    refuse(StatusCode::UNPROCESSABLE_ENTITY, "the configuration has no such place")
                }
                PatchErrorKind::InvalidFromPointer => refuse(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "the configuration has nothing at the place in \"from\"",
                ),
                kind => refuse(StatusCode::UNPROCESSABLE_ENTITY, &kind.to_string()),
            };
        }
    }
    Ok(())
}

/// Returns how many items of lists an operation moves: those behind the place where it adds or removes one.
fn shifted(all: &Value, operation: &PatchOperation) -> usize {
    let behind = |place: &Pointer| {
        let (list, index) = place.as_str().rsplit_once('/')?;
        all.pointer(list)?.as_array()?.len().checked_sub(index.parse().ok()?)
    };
    let places = match operation {
        PatchOperation::Add(add) => [Some(&add.path), None],
        PatchOperation::Copy(copy) => [Some(&copy.path), None],
        PatchOperation::Remove(remove) => [Some(&remove.path), None],
        PatchOperation::Move(moves) => [Some(&moves.from), Some(&moves.path)],
        PatchOperation::Replace(_) | PatchOperation::Test(_) => return 0,
    };
    places.into_iter().flatten().filter_map(|place| behind(place)).sum()
}

/// Returns an upper bound for the nesting levels of a configuration after an operation. `now` is an upper bound before it. With the
/// configuration `all`, counts the levels of a value that is moved or copied. Without `all`, which is faster, the bound may be too high.
fn levels(now: usize, operation: &PatchOperation, all: Option<&Value>) -> usize {
    let source = |from: &Pointer| match all {
        None => now.saturating_sub(from.count()),
        Some(all) => all.pointer(from.as_str()).map_or(0, depth),
    };
    let value = match operation {
        PatchOperation::Add(add) => depth(&add.value),
        PatchOperation::Replace(replace) => depth(&replace.value),
        PatchOperation::Move(moves) => source(&moves.from),
        PatchOperation::Copy(copy) => source(&copy.from),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return now,
    };
    now.max(operation.path().count() + value)
}

/// Returns the number of nesting levels of a value; 0 if it is neither a list nor a map.
fn depth(value: &Value) -> usize {
    let deepest = match value {
        Value::Array(values) => values.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        _ => return 0,
    };
    1 + deepest.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_merged_patch_is_no_longer_than_its_parts() {
        let deep = format!("{{\"x\":{}{}{}}}", "[".repeat(100), "0,".repeat(10_000) + "0", "]".repeat(100));
        assert!(patched(Form::Merge, "{}", deep.as_bytes()).unwrap().len() <= deep.len());
        let many = format!("{{\"x\":[{}0]}}", "{\"\":0},".repeat(MOST_MAPS));
        assert_eq!(
            patched(Form::Merge, "{}", many.as_bytes()).unwrap_err().status,
            StatusCode::PAYLOAD_TOO_LARGE
        );
    }

    #[test]
    fn a_patch_moves_a_limited_number_of_items() {
        let zeros = format!("[{}0]", "0,".repeat(99_999));
        let moves = |n: usize| {
            let one = r#",{"op":"move","from":"/x/0","path":"/x/0"}"#;
            format!("[{{\"op\":\"add\",\"path\":\"/x\",\"value\":{zeros}}}{}]", one.repeat(n))
        };
        let patch = |n| patched(Form::Operations, "{}", moves(n).as_bytes());
        assert!(patch(100).is_ok());
        assert_eq!(patch(1000).unwrap_err().status, StatusCode::PAYLOAD_TOO_LARGE);
        // At the end of a list, nothing moves.
        let appends = format!(
            "[{}{{\"op\":\"add\",\"path\":\"/x/-\",\"value\":1}}]",
            "{\"op\":\"add\",\"path\":\"/x/-\",\"value\":1},".repeat(5000)
        );
        assert!(patched(Form::Operations, &format!("{{\"x\":{zeros}}}"), appends.as_bytes()).is_ok());
    }

    fn operated(all: Value, operations: &Value) -> Result<Value, Problem> {
        let done = patched(Form::Operations, &all.to_string(), operations.to_string().as_bytes())?;
        Ok(serde_json::from_slice(&done).unwrap())
    }

    /// Some examples of RFC 6902, appendix A, and operations on a configuration.
    #[test]
    fn operations_change_what_they_name() {
        let cases = [
            (
                json!({"a": ["b"]}),
                json!([{"op": "add", "path": "/a/1", "value": "c"}]),
                json!({"a": ["b", "c"]}),
            ),
            (json!({"a": 1, "b": 2}), json!([{"op": "remove", "path": "/a"}]), json!({"b": 2})),
            (
                json!({"a": [1, 2]}),
                json!([{"op": "move", "from": "/a/1", "path": "/a/0"}]),
                json!({"a": [2, 1]}),
            ),
            (json!({"/": 9}), json!([{"op": "test", "path": "/~1", "value": 9}]), json!({"/": 9})),
            (
                json!({"routes": [{"prefix": "10.0.0.0/8"}]}),
                json!([
                    {"op": "test", "path": "/routes/0/prefix", "value": "10.0.0.0/8"},
                    {"op": "add", "path": "/routes/-", "value": {"prefix": "::/0"}},
                    {"op": "copy", "from": "/routes/1", "path": "/routes/0"},
                    {"op": "replace", "path": "/routes/1/prefix", "value": "11.0.0.0/8"},
                ]),
                json!({"routes": [{"prefix": "::/0"}, {"prefix": "11.0.0.0/8"}, {"prefix": "::/0"}]}),
            ),
        ];
        for (all, operations, result) in cases {
            assert_eq!(operated(all, &operations).unwrap(), result);
        }
    }

    #[test]
    fn a_refused_operation_is_named() {
        let refused = |operations: Value| {
            let problem = operated(json!({"a": [1], "b": {"c": 1}}), &operations).unwrap_err();
            (problem.status.as_u16(), problem.detail)
        };
        let test = json!({"op": "test", "path": "/a/0", "value": 1});
        let (status, why) = refused(json!([test, {"op": "test", "path": "/a/0", "value": 2}]));
        assert!(
            status == 409 && why.starts_with("operation 2 of the patch, at '/a/0': the test failed"),
            "{why}"
        );
        assert_eq!(refused(json!([{"op": "test", "path": "/nowhere", "value": 2}])).0, 409);
        let (status, why) = refused(json!([{"op": "remove", "path": "/x"}]));
        assert!(status == 422 && why.contains("'/x': the configuration has no such place"), "{why}");
        let (status, why) = refused(json!([{"op": "move", "from": "/x", "path": "/a/0"}]));
        assert!(status == 422 && why.contains("nothing at the place in \"from\""), "{why}");
        assert_eq!(refused(json!([{"op": "move", "from": "/b", "path": "/b/c"}])).0, 422);
        assert_eq!(refused(json!([{"op": "add", "path": "/a/7", "value": 1}])).0, 422);
        assert_eq!(refused(json!({"a": 1})).0, 400);
        assert_eq!(refused(json!([{"op": "increment", "path": "/a"}])).0, 400);
    }

    /// A patch is refused if it nests values ever deeper, copies too much, or has too many operations.
    #[test]
    fn operations_cannot_multiply_the_configuration() {
        let deeper = json!({"op": "copy", "from": "", "path": "/x"});
        let problem = operated(json!({"a": 1}), &vec![deeper; 300].into()).unwrap_err();
        assert!(problem.detail.contains("more than 256 levels"), "{}", problem.detail);
        let append = json!([{"op": "copy", "from": "/a", "path": "/a/-"}]);
        let wide = json!({"op": "copy", "from": "/a", "path": "/b"});
        assert!(operated(json!({"a": []}), &append).is_ok());
        let long = json!({"a": vec!["x".repeat(1000); 1000]});
        assert_eq!(operated(long.clone(), &vec![wide.clone(); 5].into()).unwrap_err().status.as_u16(), 413);
        assert!(operated(long, &vec![wide; 3].into()).is_ok());
        let deeper = json!([{"op": "add", "path": "/b", "value": {"b": {}}}, {"op": "move", "from": "/a", "path": "/b/b/a"},
            {"op": "move", "from": "/b", "path": "/a"}]);
        let deeper: Vec<Value> =
            vec![deeper; 400].into_iter().flat_map(|all| all.as_array().cloned().unwrap()).collect();
        let problem = operated(json!({"a": 1}), &deeper.into()).unwrap_err();
        assert!(problem.detail.contains("more than 256 levels"), "{}", problem.detail);
        // Values that move to a deeper place again and again, without making the configuration deeper.
        let back = json!([{"op": "move", "from": "/a", "path": "/b/c/d"}, {"op": "move", "from": "/b/c/d", "path": "/a"}]);
        let back: Vec<Value> =
            vec![back; 500].into_iter().flat_map(|all| all.as_array().cloned().unwrap()).collect();
        assert!(operated(json!({"a": 1, "b": {"c": {}}}), &back.into()).is_ok());
        let many = vec![json!({"op": "remove", "path": "/a"}); MOST_OPERATIONS + 1];
        assert_eq!(operated(json!({}), &many.into()).unwrap_err().status.as_u16(), 413);
    }

    /// The examples of RFC 7396, appendix A, whose target and patch are both objects.
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
