//! No two features share a name that an operator sees: it would be ambiguous.

use std::collections::BTreeMap;

use volley::features::{ALL, declared};

/// Fails if a name occurs twice.
fn each_once(what: &str, names: impl IntoIterator<Item = impl Into<String>>) {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    names.into_iter().for_each(|name| *found.entry(name.into()).or_default() += 1);
    found.retain(|_, times| *times > 1);
    assert!(found.is_empty(), "{what} with the same name, and how many: {found:?}");
}

#[test]
fn features_do_not_share_names() {
    let (_, catalog) = declared();
    each_once("features", ALL.iter().map(|feature| feature.name()));
    each_once("log classes", ALL.iter().filter_map(|feature| feature.log_class()).map(|class| class.name));
    let of_interfaces = catalog.interfaces().iter().filter_map(|kind| kind.section);
    each_once("sections", catalog.sections().iter().map(|section| section.name).chain(of_interfaces));
    each_once("kinds of objects", catalog.sections().iter().map(|section| section.kind.name));
    each_once("entries of settings", catalog.entries().iter().map(|entry| entry.name));
    each_once("settings", catalog.setting_names());
    let fields = catalog.setting_rows().into_iter().map(|row| row.name).filter(|name| !name.contains('.'));
    let of_kinds = catalog.interfaces().iter().filter_map(|kind| kind.field).map(str::to_string);
    each_once("fields of interfaces", fields.chain(of_kinds));
    each_once("metrics", catalog.all_metrics().iter().map(|metric| metric.name));
}

#[test]
fn interface_names_identify_their_backing() {
    let (_, catalog) = declared();
    for kind in catalog.interfaces() {
        let examples = (kind.examples)();
        assert!(!examples.is_empty(), "{} has no examples", kind.what);
        for (name, backed) in examples {
            let by_name = catalog.interfaces().iter().filter(|other| (other.names)(&name).is_some());
            assert_eq!(by_name.map(|other| other.what).collect::<Vec<_>>(), [kind.what], "{name}");
            let by_backing = catalog.interfaces().iter().filter(|other| (other.is)(&backed));
            assert_eq!(by_backing.map(|other| other.what).collect::<Vec<_>>(), [kind.what], "{name}");
        }
    }
}
