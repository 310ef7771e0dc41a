//! Reference pages end with lists made from declarations: commands, messages, metrics, parameters of startup.conf. `VOLLEY_BLESS=1` writes
//! them again, and the types of the configuration for Python.

mod python;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use control::app::Context;
use control::cli::Call;
use control::metrics::declared;
use control::startup;
use control::system::{Catalog, System};
use net::router::{Router, Sizes};
use testkit::skip::skipped;
use vapi::shape::Head;

/// Returns a router without features: `help` does not use it.
fn context(catalog: Arc<Catalog>) -> Context {
    let parts =
        Router::build(|_: &mut _, _: &_, _: &mut _| Ok(()), &Sizes { buffers: 64, workers: 1 }).unwrap();
    let guardian = drivers::Guardian::default();
    Context::new(System::new(parts.router, catalog, guardian))
}

/// Returns the commands as Markdown, grouped by the first word.
fn list() -> String {
    let call = Call { json: true, ..Call::default() };
    let (registry, catalog) = volley::features::declared();
    let answer = Rc::new(registry).run(&mut context(catalog), "help", call).unwrap();
    let commands: serde_json::Value = serde_json::from_str(&answer.text).unwrap();
    let (mut text, mut group) = ("## All commands\n".to_owned(), String::new());
    for command in commands.as_array().unwrap() {
        let (syntax, help) = (command["syntax"].as_str().unwrap(), command["help"].as_str().unwrap());
        let first = syntax.split(' ').next().unwrap();
        if first != group {
            group = first.to_owned();
            text += &format!("\n### {group}\n\n");
        }
        let syntax = syntax.split_whitespace().collect::<Vec<_>>().join(" ");
        text += &format!("- `{syntax}`<br>{help}\n");
    }
    text
}

/// Returns the requests and events of the binary API as Markdown, by module.
fn messages() -> String {
    let table = volley::features::messages();
    let mut text = "## All messages\n".to_owned();
    for module in table.modules() {
        text += &format!("\n`{}` {}: ", module.name, module.version.map(|n| n.to_string()).join("."));
        let listed = table.entries_of(module).filter(|e| e.service.is_some() || e.info.head == Head::Event);
        let names: Vec<String> = listed.map(|e| format!("`{}`", e.info.name)).collect();
        text += &format!("{}\n", names.join(", "));
    }
    text
}

/// The checksums in the names are those of VPP 26.06, and all messages have different names.
#[test]
fn messages_have_the_names_of_vpp() {
    let known = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/vpp-api/messages.csv");
    let Ok(known) = fs::read_to_string(&known) else {
        skipped("the list of VPP's messages is absent (../shared/data/vpp-api/messages.csv)");
        return;
    };
    let line = |line: &str| {
        let mut fields = line.split(',').map(str::to_owned);
        Some((fields.next()?, (fields.next()?, fields.next()?)))
    };
    let known: BTreeMap<String, (String, String)> = known.lines().filter_map(line).collect();
    let table = volley::features::messages();
    for module in table.modules() {
        for entry in table.entries_of(module) {
            let of_vpp =
                known.get(&entry.info.name).unwrap_or_else(|| panic!("VPP has no {}", entry.info.name));
            assert_eq!(
                (format!("0x{:08x}", entry.crc), module.name.to_owned()),
                *of_vpp,
                "{}",
                entry.info.name
            );
            assert!(entry.wire_name().len() < 64);
        }
    }
    let names: BTreeSet<&str> = table.entries().iter().map(|e| e.info.name.as_str()).collect();
    assert_eq!(names.len(), table.entries().len());
    // Clients know these numbers.
    let id = |name: &str| table.id(name).unwrap();
    assert_eq!(
        (id("sockclnt_create"), id("sockclnt_delete"), id("control_ping"), id("get_api_json")),
        (15, 17, 23, 27)
    );
}

/// Fails unless a page ends with this reference, whose first line is a heading.
fn is_at_the_end_of(name: &str, reference: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    let old = fs::read_to_string(&path).unwrap();
    let heading = reference.lines().next().unwrap();
    let (introduction, _) =
        old.split_once(&format!("{heading}\n")).expect("the page has the first heading of its reference");
    is_current(&path, &(introduction.to_owned() + reference));
}

/// Fails unless a file has this content.
fn is_current(path: &Path, new: &str) {
    if std::env::var_os("VOLLEY_BLESS").is_some() {
        fs::write(path, new).unwrap();
    } else {
        let is_current = fs::read_to_string(path).is_ok_and(|old| old == new);
        assert!(is_current, "{} is not up to date: run this with VOLLEY_BLESS=1", path.display());
    }
}

#[test]
fn types_for_python_are_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python/volley/document.py");
    is_current(&path, &python::module(&control::config::schema(&volley::features::declared().1)));
}

#[test]
fn pages_end_with_the_current_lists() {
    is_at_the_end_of("cli.md", &list());
    is_at_the_end_of(
        "vpp-commands.md",
        &control::commands::foreign::reference(&volley::features::declared().1),
    );
    is_at_the_end_of("startup-conf.md", &startup::reference());
    let fields = control::config::reference(&volley::features::declared().1);
    is_at_the_end_of("configuration-fields.md", &fields);
    let metrics = declared::reference(&volley::features::declared().1);
    is_at_the_end_of("binary-api.md", &messages());
    is_at_the_end_of("native-api.md", &format!("## All operations\n\n{}", control::native::markdown()));
    is_at_the_end_of("metrics.md", &format!("## All metrics\n\n{metrics}"));
}
