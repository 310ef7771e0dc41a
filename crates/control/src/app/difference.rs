//! The changes of a plan, as text for the operator.

use std::collections::BTreeSet;

use super::{Report, warnings};
use crate::intent::{Edit, Interface, Key, Plan, Snapshot, recreated, reopened};
use crate::journal;

/// Returns the keys of the interfaces with a configured index.
pub(super) fn numbered(at: &Snapshot) -> BTreeSet<Key> {
    let interfaces = at.tree().range(Key::all::<Interface>());
    let numbered = interfaces.filter(|(_, v)| v.get::<Interface>().is_some_and(|i| i.index.is_some()));
    numbered.map(|(key, _)| key.clone()).collect()
}

/// Returns the changes of a plan as commands removed (-) and added (+), with warnings, also about interfaces whose traffic stops or is
/// interrupted. `numbered` are the keys of the interfaces with a configured index.
pub(super) fn difference(plan: &Plan, numbered: &BTreeSet<Key>) -> Vec<Report> {
    let mut text = String::new();
    for Edit { key, old, new } in &plan.edits {
        text += &journal::difference(key, old.as_ref(), new.as_ref(), numbered.contains(key));
    }
    let mut warnings = Vec::new();
    for Edit { key, new, .. } in &plan.edits {
        if let Some(new) = new {
            new.warnings(&mut |why| warnings.push(format!("{key}: {why}")));
        }
    }
    warnings.extend(warnings::unreachable_next_hops(plan));
    warnings.extend(recreated(plan).map(|name| format!("{name} is recreated: its traffic stops")));
    warnings.extend(reopened(plan).map(|name| format!("{name} is reopened: its traffic is interrupted")));
    let text = (!text.is_empty()).then_some(Report::Difference(text));
    text.into_iter().chain(warnings.into_iter().map(Report::Warning)).collect()
}
