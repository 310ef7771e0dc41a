//! A feature with objects of its own: their section of the file, in every way that a configuration takes.

use model::key::Kind;
use model::object::World;
use model::yaml::{Node, Text, quoted};
use net::feature::{self, App, Objects, Registrar, Section};
use net::objects::Host;

use super::{read, write};
use crate::commands::{Feature, declared};
use crate::intent::{Key, Object, Refused, Store, View, refuse};
use crate::testing::{Cli, system};

/// A note, by its name. One that says "no" is refused.
#[derive(Clone, Debug, PartialEq)]
struct Note(String);

impl Kind for Note {
    type Key = String;
    const NAME: &'static str = "note";
    const PHASE: u16 = 50;

    fn title(name: &String) -> String {
        format!("note {name}")
    }
}

impl<W: Host> Object<W> for Note {
    fn validate(
        &self,
        _: &String,
        _: &model::store::View<'_, W>,
        _: &<W as World>::Abilities,
    ) -> Result<(), Refused> {
        if self.0 == "no" { refuse("a note cannot say no") } else { Ok(()) }
    }

    fn apply(&self, _: &String, _: Option<&Self>, _: &mut W) -> Result<(), Refused> {
        Ok(())
    }

    fn withdraw(&self, _: &String, _: &mut W) -> Result<(), Refused> {
        Ok(())
    }

    fn dump(&self, name: &String, _: bool) -> Vec<String> {
        vec![format!("note {name} {}", self.0)]
    }
}

struct Notes;

impl<C: App> feature::Feature<C> for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    fn about(&self) -> &'static str {
        "Keeps notes."
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        r.section(Section {
            name: "notes",
            kind: Note::INFO,
            read: |file: &mut dyn Objects<C::World>, node: &Node| {
                for (name, at, node) in file.reader().entries(node) {
                    if let Some(text) = file.reader().text(node).map(str::to_string) {
                        file.ask(at, Key::with::<Note>(name), Note(text).into());
                    }
                }
            },
            write: |t: &mut Text<'_>, key, value| {
                if let (Some(name), Some(Note(text))) = (key.get::<Note>(), value.get()) {
                    t.field(&name, Some(quoted(text)));
                }
            },
        });
    }
}

const FEATURES: &[&Feature] = &[&Notes];

#[test]
fn a_section_of_a_feature_is_read_applied_and_written_page_by_page() {
    let (_, catalog) = declared(FEATURES);
    // More than a page has.
    let notes: String = (100..300).map(|n| format!("  n{n}: text\n")).collect();
    let text = format!("tables: [ 7 ]\nnotes:\n{notes}");
    let wanted = read(&text, "f", &catalog);
    let mut system = system(FEATURES, &net::router::Sizes { buffers: 64, workers: 1 }, false);
    assert!(wanted.faults(&system.abilities).is_empty());
    let mut store = Store::default();
    store.transact(&mut system, store.diff(wanted.tree.tree())).unwrap();
    assert_eq!(store.tree().range(Key::all::<Note>()).count(), 200);
    assert_eq!(write(store.tree(), &catalog), text);
    let taken = |view: &View<'_>| view.get(&Key::with::<Note>("n100")).is_some();
    assert!(taken(&store.snapshot().view()));
}

#[test]
fn faults_in_a_section_of_a_feature_have_their_places() {
    let (_, catalog) = declared(FEATURES);
    let system = system(FEATURES, &net::router::Sizes { buffers: 64, workers: 1 }, false);
    let faults = |text: &str| {
        let all = read(text, "f", &catalog).faults(&system.abilities);
        all.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(faults("notes:\n  a: text\n  b: no\n").len(), 1);
    assert!(faults("notes:\n  a: text\n  b: no\n")[0].starts_with("f:3:3: a note cannot say no"));
    assert_eq!(faults("notes:\n  a: [ 1 ]\n  b: no\n").len(), 2);
    // A program without the feature has no such section.
    let without = read("notes: { a: text }\n", "f", &declared(&[]).1);
    assert!(without.is_foreign() && !without.faults(&system.abilities).is_empty());
}

#[test]
fn features_are_listed_and_what_they_keep_is_shown_as_commands() {
    let mut cli = Cli::with(FEATURES);
    assert_eq!(cli.json("show plugins"), serde_json::json!([{ "name": "notes", "about": "Keeps notes." }]));
    assert!(cli.ok("show plugins").contains("notes   Keeps notes."), "{}", cli.ok("show plugins"));
    let change = crate::intent::Change::set(Key::with::<Note>("a"), Note("text".into()));
    cli.context.transact(vec![change]).unwrap();
    assert!(cli.ok("show config").starts_with("note a text\n"));
    assert!(cli.ok("show config yaml").contains("notes:\n  a: text\n"));
}
