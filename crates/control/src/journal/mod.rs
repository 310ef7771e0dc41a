//! The text forms of changes in the [journal](crate::intent::Journal): as commands for operators, and as configuration
//! files, with which a later run of the router can undo them.

mod file;
mod keeper;
mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::origin::Origin;
use model::store::{Edits, Written};
use net::objects;

use crate::config::{self, Writer};
pub use file::Found;
pub use keeper::Keeper;

use crate::intent::{Edit, Interface, Key, Note, Refused, Route, Tree, Value};
use crate::system::Catalog;

/// Returns what the journal records about a change. `get` looks up an object in the configuration after the change.
pub fn note<'t>(origin: Origin, edits: Vec<Edit>, get: impl Fn(&Key) -> Option<&'t Value>) -> Note {
    let hosts = hosts(&edits, get);
    Note::new(origin, edits, hosts)
}

/// Returns the unchanged interfaces that a configuration file with the changed objects must contain. These are the interfaces that the
/// objects need, such as the interface of an address, and the interfaces that these need in turn, such as the parent of a sub-interface.
fn hosts<'t>(edits: &[Edit], get: impl Fn(&Key) -> Option<&'t Value>) -> Vec<(Key, Value)> {
    let mut names = Vec::new();
    // Routes are skipped: there may be very many, and no interface contains them.
    for edit in edits.iter().filter(|edit| !edit.key.is::<Route>()) {
        for value in [&edit.old, &edit.new].into_iter().flatten() {
            interfaces(&edit.key, value, &mut names);
        }
    }
    if names.is_empty() {
        return Vec::new();
    }
    let changed: BTreeSet<&Key> =
        edits.iter().map(|edit| &edit.key).filter(|key| key.is::<Interface>()).collect();
    let mut hosts = BTreeMap::new();
    while let Some(name) = names.pop() {
        for key in [Interface::key(&name), Interface::sub_key(&name)] {
            if let Some(value) = get(&key).filter(|_| !changed.contains(&key) && !hosts.contains_key(&key)) {
                interfaces(&key, value, &mut names);
                hosts.insert(key, value.clone());
            }
        }
    }
    hosts.into_iter().collect()
}

/// Adds the names of the interfaces that an object needs.
fn interfaces(key: &Key, value: &Value, names: &mut Vec<String>) {
    value.needs(key, &mut |need| {
        if need.is(&objects::INTERFACE) {
            names.extend(need.id().get::<String>());
        }
    });
}

/// Returns the difference of a changed object for operators: the removed and the added commands or, if these are the same, a line about
/// their order. If `numbered`, a new interface is shown with its index, because the operator set it.
pub fn difference(key: &Key, old: Option<&Value>, new: Option<&Value>, numbered: bool) -> String {
    let index = |value: Option<&Value>| value?.get::<Interface>()?.index;
    let (was, is) = (index(old), index(new));
    let indices = if old.is_none() { numbered } else { is.is_some() && was != is };
    let of = |value: Option<&Value>| value.map(|v| v.dump(key, indices)).unwrap_or_default();
    let (old, new) = (of(old), of(new));
    let mut text = String::new();
    old.iter().filter(|line| !new.contains(line)).for_each(|line| text += &format!("- {line}\n"));
    new.iter().filter(|line| !old.contains(line)).for_each(|line| text += &format!("+ {line}\n"));
    if text.is_empty() {
        text = format!("~ the order of {key}\n");
    }
    text
}

/// Returns the difference of a changed object without secrets.
pub fn public_difference(edit: &Edit) -> String {
    let public = |value: &Option<Value>| value.as_ref().map(Value::without_secrets);
    match (public(&edit.old), public(&edit.new)) {
        (old, new) if old == new => format!("~ the secret of {}\n", edit.key),
        (old, new) => difference(&edit.key, old.as_ref(), new.as_ref(), false),
    }
}

/// Returns a change in the form of configuration files.
fn write(edits: &Edits<crate::system::System>, catalog: &Arc<Catalog>) -> Written {
    let text = |value: fn(&Edit) -> &Option<Value>| {
        let mut tree: Tree = edits.hosts.iter().cloned().collect();
        tree.extend(edits.all.iter().filter_map(|edit| Some((edit.key.clone(), value(edit).clone()?))));
        let (mut writer, mut text) = (Writer::new(&tree, catalog).with_indices(), String::new());
        while writer.page(&tree, &mut text) {}
        text
    };
    let (before, after) = (text(|edit| &edit.old), text(|edit| &edit.new));
    Written { before, after, difference: edits.all.iter().map(public_difference).collect() }
}

/// Returns the changed objects of a written change.
///
/// # Errors
/// If this version of the router cannot read it.
pub fn read(written: &Written, catalog: &Catalog) -> Result<Vec<Edit>, Refused> {
    let part = |text: &str| {
        let part = config::read_part(text, catalog);
        part.map_err(|fault| {
            Refused::new(format!("this version of the router cannot read the record of this change: {fault}"))
        })
    };
    let (mut before, after) = (part(&written.before)?, part(&written.after)?);
    let mut edits = Vec::new();
    for (key, new) in after {
        let old = before.remove(&key);
        if old.as_ref() != Some(&new) {
            edits.push(Edit { key, old, new: Some(new) });
        }
    }
    edits.extend(before.into_iter().map(|(key, old)| Edit { key, old: Some(old), new: None }));
    Ok(edits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::{Snapshot, random};
    use crate::system::Spec;
    use crate::testing::catalog;
    use model::store::Detail;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// A change that is written and read again has exactly the same changed objects.
        #[test]
        fn written_change_is_read_again(
            before in random::tree_of_any_objects(),
            after in random::tree_of_any_objects(),
            kept in any::<u64>(),
        ) {
            // Some objects stay unchanged, with the interfaces that they need.
            let mut after = after;
            let some = before.iter().zip(0..).filter(|(_, n)| kept >> (n % 64) & 1 != 0);
            let mut kept: Tree = some.map(|((key, value), _)| (key.clone(), value.clone())).collect();
            let edit = |(key, value): (&Key, &Value)| Edit { key: key.clone(), old: Some(value.clone()), new: None };
            kept.extend(hosts(&kept.iter().map(edit).collect::<Vec<_>>(), |key| before.get(key)));
            after.extend(kept);
            let all = after.clone();
            for value in after.values_mut() {
                if let Some(i) = value.get_mut::<Interface>()
                    && let Spec::Sub { parent, .. } = &i.spec
                {
                    i.up &= all.get(&Interface::key(parent)).and_then(|v| v.get()).is_some_and(|i: &Interface| i.up);
                }
            }
            let changes = Snapshot::of(before.clone()).diff(&after);
            let edit = |key: Key| Edit { old: before.get(&key).cloned(), new: after.get(&key).cloned(), key };
            let edits: Vec<Edit> = changes.into_iter().map(|change| edit(change.key)).collect();
            let note = note(Origin::default(), edits.clone(), |key| after.get(key));
            let mut journal = crate::intent::Journal::default();
            let Some(noted) = journal.note(note) else { return Ok(()) };
            let Detail::Edits(detail) = noted.entry.detail else { panic!("no details") };
            let written = write(&detail, &catalog());
            let sorted = |mut edits: Vec<Edit>| {
                edits.sort_by(|one, other| one.key.cmp(&other.key));
                edits.into_iter().map(|edit| (edit.key, edit.old, edit.new)).collect::<Vec<_>>()
            };
            let again = read(&written, &catalog()).map_err(|e| TestCaseError::fail(e.to_string()))?;
            let (again, edits) = (sorted(again), sorted(edits));
            let other = again.iter().find(|one| !edits.contains(one));
            let missing = edits.iter().find(|one| !again.contains(one));
            prop_assert!(other == missing, "{other:?}\n{missing:?}\n{}\n{}", written.before, written.after);
        }
    }
}
