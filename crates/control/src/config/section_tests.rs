//! Tests with a feature that has its own objects: their section of the file, and an interface setting that refers to
//! one.

use std::rc::Rc;
use std::sync::LazyLock;

use graph::{Builder, GraphError};
use infra::counters::CounterSet;
use model::cli::{Call, Output};
use model::key::{Kind, Need, Role};
use model::metrics::{Kind as MetricKind, Metric};
use model::object::World;
use model::schema::{Described, Schema, optional, text};
use net::Tables;
use net::feature::{self, App, Configured, Registrar, Section};
use net::objects::Host;
use net::router::{Hooks, Router, RouterError};
use net::setting::{Setting, Switch};

use super::{read, write};
use crate::app::{Context, Feature};
use crate::features::{Selected, declared};
use crate::intent::{Key, Object, Refused, Store, View, refuse};
use crate::testing::{Cli, system};

static NOTE: Role =
    Role { name: "note", title: |id| format!("note {}", id.get::<String>().unwrap_or_default()) };

/// A note, by its name. The text "no" is refused.
#[derive(Clone, Debug, PartialEq)]
struct Note(String);

impl Kind for Note {
    type Key = String;
    const NAME: &'static str = "note";
    const PHASE: u16 = 50;
    const LAST: bool = true;

    fn title(name: &String) -> String {
        format!("note {name}")
    }

    fn role(name: &String) -> Option<Need> {
        Some(Need::new(&NOTE, name))
    }
}

impl Described for Note {
    fn schema() -> &'static Schema<Self> {
        static SCHEMA: LazyLock<Schema<Note>> = LazyLock::new(|| {
            let says = text("a text", &["text"]);
            Schema::new(Note(String::new())).field(
                "says",
                says,
                |n| n.0.clone(),
                |n, text| n.0 = text,
                "What it says.",
            )
        });
        &SCHEMA
    }
}

impl<W: Host> Object<W> for Note {
    fn validate(
        &self,
        _: &String,
        _: &model::object::View<'_, W>,
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

/// The note on an interface.
#[derive(Clone, Debug, Default, PartialEq)]
struct Pinned(Option<String>);

/// Number of letters in the note's name.
#[derive(Clone, Debug, Default, PartialEq)]
struct Letters(usize);

impl Setting for Letters {
    type Counts = CounterSet<1>;
    const COUNTED: &'static str = "/feature/notes";

    fn switches(&self) -> Vec<Switch> {
        Vec::new()
    }
}

impl Described for Pinned {
    fn schema() -> &'static Schema<Self> {
        static SCHEMA: LazyLock<Schema<Pinned>> = LazyLock::new(|| {
            let name = optional(text("a note's name", &[]));
            Schema::new(Pinned::default()).field(
                "note",
                name,
                |p| p.0.clone(),
                |p, name| p.0 = name,
                "The note.",
            )
        });
        &SCHEMA
    }
}

impl Configured for Pinned {
    type Setting = Letters;

    fn resolve(&self, _: &Router) -> Result<Letters, RouterError> {
        Ok(Letters(self.0.as_ref().map_or(0, String::len)))
    }

    fn uses(&self, to: &mut dyn FnMut(Key)) {
        self.0.iter().for_each(|name| to(Key::of::<Note>(name)));
    }

    fn dump(&self, interface: &str) -> Vec<String> {
        self.0.iter().map(|name| format!("pin note {name} {interface}")).collect()
    }

    fn way(_: &str, _: &str) -> Option<String> {
        None
    }

    fn examples() -> Vec<Self> {
        Vec::new()
    }
}

static PAGES: Metric =
    Metric { name: "volley_notes", kind: MetricKind::Gauge, labels: &["page"], help: "A test's." };

struct Notes;

impl<C: App> feature::Feature<C> for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    fn about(&self) -> &'static str {
        "Keeps notes."
    }

    fn install(&self, _: &mut Builder, _: &Tables, hooks: &mut Hooks) -> Result<(), GraphError> {
        hooks.setting::<Letters>().map(drop)
    }

    fn register(&self, r: &mut Registrar<'_, C>) {
        r.setting::<Pinned>();
        r.metrics(&[&PAGES], |_, page, out| {
            out.add(&PAGES, &[&page.to_string()], 1);
            (page < 2).then_some(page + 1)
        });
        r.section(Section::of::<Note>("notes"));
        r.command("pin note <note:note> <interface:interface>", "Pin a note on an interface.", |c, a| {
            let name = a.need::<String>("note")?;
            feature::set(c, a, |Pinned(note)| *note = Some(name))
        });
        r.command("unpin note <interface:interface>", "Take it off.", |c, a| {
            feature::set(c, a, |Pinned(note)| *note = None).map(|_| Output::text("off"))
        });
    }
}

const FEATURES: &[&Feature] = &[&Notes];

#[test]
fn feature_section_is_read_applied_and_written_page_by_page() {
    let (_, catalog) = declared(FEATURES);
    // More than fit on a page.
    let notes: String = (100..300).map(|n| format!("  n{n}:\n    says: text\n")).collect();
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
fn faults_of_feature_sections_have_places() {
    let (_, catalog) = declared(FEATURES);
    let system = system(FEATURES, &net::router::Sizes { buffers: 64, workers: 1 }, false);
    let faults = |text: &str| {
        let all = read(text, "f", &catalog).faults(&system.abilities);
        all.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(faults("notes:\n  a: { says: text }\n  b: { says: \"no\" }\n").len(), 1);
    assert!(
        faults("notes:\n  a: { says: text }\n  b: { says: \"no\" }\n")[0]
            .starts_with("f:3:3: a note cannot say no")
    );
    assert_eq!(faults("notes:\n  a: { says: [ 1 ] }\n  b: { says: \"no\" }\n").len(), 2);
    // A router without the feature does not know the section.
    let without = read("notes: { a: { says: text } }\n", "f", &declared(&[]).1);
    assert!(without.is_foreign() && !without.faults(&system.abilities).is_empty());
}

#[test]
fn features_are_listed_and_their_objects_shown_as_commands() {
    let mut cli = Cli::with(FEATURES);
    let listed = serde_json::json!({ "name": "notes", "enabled": true, "about": "Keeps notes." });
    // The drivers are listed before the feature.
    assert_eq!(cli.json("show plugins").as_array().and_then(|all| all.last()), Some(&listed));
    let text = cli.ok("show plugins");
    let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(row, ["notes", "enabled", "Keeps", "notes."], "{text}");
    let change = crate::intent::Change::set(Key::with::<Note>("a"), Note("text".into()));
    cli.context.transact(vec![change]).unwrap();
    assert!(cli.ok("show config").starts_with("note a text\n"));
    assert!(cli.ok("show config yaml").contains("notes:\n  a:\n    says: text\n"));
}

#[test]
fn disabled_feature_is_refused_with_the_way_to_enable_it() {
    let (registry, catalog) = Selected::without(&[], FEATURES).declared();
    let registry = Rc::new(registry);
    let mut context = Context::new(system(&[], &net::router::Sizes { buffers: 64, workers: 1 }, false));
    let way = "write plugins { plugin notes { enable } } in startup.conf";
    let mut run = |line: &str| registry.run(&mut context, line, Call::default()).map(|answer| answer.text);
    for line in ["pin note a pg0", "pin note", "unpin note pg0"] {
        assert!(run(line).unwrap_err().to_string().contains(way), "{line}");
    }
    for line in ["pim note a pg0", "show nothing"] {
        assert!(!run(line).unwrap_err().to_string().contains(way), "{line}");
    }
    assert!(!run("help").unwrap().contains("pin note"));
    let text = run("show plugins").unwrap();
    let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(row, ["notes", "disabled", "Keeps", "notes."], "{text}");
    let text = "interfaces:\n  pg0:\n    note: a\nnotes:\n  a:\n    says: text\n";
    let faults = read(text, "f", &catalog).faults(&context.system.abilities);
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(
        faults[0].starts_with("f:3:5: \"note\" is not available: feature notes is disabled: to enable it, "),
        "{faults:?}"
    );
    assert!(
        faults[1].starts_with("f:4:1: \"notes\" is not available") && faults[1].contains(way),
        "{faults:?}"
    );
}

fn note(name: &str) -> Key {
    Key::with::<Note>(name)
}

#[test]
fn setting_needs_its_object() {
    let mut cli = Cli::with(FEATURES);
    let told = cli.refused("pin note a pg0", "a");
    assert!(told.contains("there is no note 'a'"), "{told}");
    let change = |name: &str| crate::intent::Change::set(note(name), Note("text".into()));
    cli.context.transact(vec![change("a"), change("long")]).unwrap();
    cli.ok("pin note long pg0");
    let pg0 = cli.context.system.router.interface_named("pg0").unwrap().index;
    assert_eq!(cli.context.system.router.setting::<Letters>(pg0), Letters(4));
    assert_eq!(cli.ok("pin note ?").lines().count(), 2, "names are completed");
    let taken = || vec![crate::intent::Change::remove(note("long"))];
    let why = cli.context.transact(taken()).unwrap_err().to_string();
    assert_eq!(why, "note long cannot be removed: interface pg0 needs it");
    cli.ok("unpin note pg0");
    cli.context.transact(taken()).unwrap();
}

#[test]
fn file_may_use_an_object_before_its_definition() {
    let (_, catalog) = declared(FEATURES);
    let mut system = system(FEATURES, &net::router::Sizes { buffers: 64, workers: 1 }, false);
    let text = "interfaces:\n  pg0:\n    note: a\nnotes:\n  a:\n    says: text\n";
    let mut store = Store::default();
    for text in [text, "interfaces:\n  pg0: {}\n", text, "{}"] {
        let wanted = read(text, "f", &catalog);
        assert!(wanted.faults(&system.abilities).is_empty(), "{text}");
        store.transact(&mut system, store.diff(wanted.tree.tree())).unwrap();
        assert_eq!(write(store.tree(), &catalog), format!("{}\n", text.trim_end()));
    }
    let faults = |text: &str| read(text, "f", &catalog).faults(&system.abilities);
    let missing = faults("interfaces: { pg0: { note: b } }\nnotes: { a: { says: text } }\n");
    assert_eq!(missing.len(), 1);
    assert!(missing[0].to_string().contains("there is no note b: add it first"), "{}", missing[0]);
    // An object that could not be read is not reported as missing.
    assert_eq!(faults("interfaces: { pg0: { note: b } }\nnotes: { b: [ 1 ] }\n").len(), 1);
}

#[test]
fn feature_metrics_are_collected_page_by_page() {
    let cli = Cli::with(FEATURES);
    let text = cli.metrics();
    for page in 0..3 {
        assert!(text.contains(&format!("volley_notes{{page=\"{page}\"}} 1\n")), "{text}");
    }
}
