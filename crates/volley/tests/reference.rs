//! `docs/cli.md` ends with the list of all commands, made from their declarations. `VOLLEY_BLESS=1` writes it anew.

use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use control::cli::Call;
use control::commands::Context;
use control::intent::Catalog;
use control::system::System;
use net::router::{Router, Sizes};

/// The heading behind which the list begins.
const LIST: &str = "## All commands\n";

/// A router without features: help asks it for nothing.
fn context(catalog: Arc<Catalog>) -> Context {
    let parts =
        Router::build(|_: &mut _, _: &_, _: &mut _| Ok(()), &Sizes { buffers: 64, workers: 1 }).unwrap();
    let guardian = drivers::Guardian::default();
    Context::new(System::new(parts.router, catalog, guardian, &std::env::temp_dir()).unwrap())
}

/// The list as Markdown, grouped by the first word.
fn list() -> String {
    let call = Call { json: true, ..Call::default() };
    let (registry, catalog) = volley::features::declared();
    let answer = Rc::new(registry).run(&mut context(catalog), "help", call).unwrap();
    let commands: serde_json::Value = serde_json::from_str(&answer.text).unwrap();
    let (mut text, mut group) = (LIST.to_owned(), String::new());
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

#[test]
fn the_reference_lists_the_commands_that_there_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let old = fs::read_to_string(&path).unwrap();
    let (introduction, _) = old.split_once(LIST).expect("docs/cli.md has a heading for the list");
    let new = introduction.to_owned() + &list();
    if std::env::var_os("VOLLEY_BLESS").is_some() {
        fs::write(&path, new).unwrap();
    } else {
        assert!(
            old == new,
            "docs/cli.md does not list the commands that there are: run this with VOLLEY_BLESS=1"
        );
    }
}
