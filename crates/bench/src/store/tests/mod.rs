mod disaster;
mod documents;

use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::campaign::{
    Campaign, Cell, DelayRun, DelaysAt, Disorder, Found, Keeper as _, Key, Measurement, Procedure,
    Provenance, Results, Trial, Usage, head,
};
use crate::dut::Facts;
use crate::engine::limits::Absence;
use crate::engine::receiver::Damaged;
use crate::trial::{Outcome, Request};

const ASKED: &str = "name = 'a'\nduts = ['linux', 'volley']\nprocedures = ['throughput', 'loads']\nloads = ['1 %']\n\
                     [[test]]\ntraffic = 'rfc2544'\nsizes = [64, 512]\n";

/// Returns the head of a campaign with this name.
fn asked(name: &str) -> Results {
    head(&Campaign::parse(&ASKED.replace("'a'", &format!("'{name}'"))).unwrap())
}

fn key(dut: &str, size: usize) -> Key {
    Key {
        dut: dut.into(),
        traffic: "rfc2544".into(),
        size,
        bidirectional: false,
        routes: 0,
        sessions: 0,
        flows: 0,
    }
}

fn cell(key: Key, tester_fps: f64) -> Cell {
    Cell { key, tester_fps, tester_delays: None, link_fps: 1e7, idle: Vec::new(), measurements: Vec::new() }
}

fn outcome(received: u64) -> Outcome {
    let request = Request { load_fps: 1e5 / 3.0, duration: Duration::from_millis(100) };
    Outcome {
        request,
        intended: 3333,
        sent: 3333,
        received,
        took: Duration::from_millis(300),
        invalid: Vec::new(),
    }
}

fn trial(key: Key, received: u64) -> Trial {
    Trial {
        key,
        procedure: Procedure::Loads,
        repetition: 1,
        at: "2026-01-01T00:00:00.000Z".into(),
        outcome: outcome(received),
        flows: Vec::new(),
        astray: 0,
        foreign: 0,
        asked: vec![1, 2],
        absence: None,
        delays: None,
        usage: Usage::default(),
    }
}

fn measurement(procedure: Procedure) -> Measurement {
    let run = DelayRun { outcome: outcome(3000), delays: None, usage: Usage::default() };
    let found = match procedure {
        Procedure::Loads => Found::Loads(vec![DelaysAt {
            name: "1 %".into(),
            load_fps: 1e5 / 3.0,
            limited_by_tester: Some(false),
            runs: vec![run],
        }]),
        _ => Found::Throughput(Vec::new()),
    };
    Measurement {
        found,
        limited_by_tester: false,
        repeated: 2,
        disorder: Disorder {
            received: 7000,
            duplicated: 1,
            reordered: 2,
            damaged: Damaged { length: 4, checksum: 0, ttl: 5, payload: 6 },
            astray: 3,
        },
        absence: Some(Absence { behind: 0.001, away: 0.0005, waited: Some(0.01) }),
        counters: vec![("dropped".into(), "333".into())],
    }
}

fn facts(name: &str) -> Facts {
    Facts { name: name.into(), version: "1".into(), configuration: vec!["up".into()], ..Facts::default() }
}

fn store() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("store.db")).unwrap();
    (directory, store)
}

/// Returns all trials of a campaign in a store.
fn trials(store: &Store, id: i64) -> Vec<Trial> {
    let mut all = Vec::new();
    let mut each = |text: &str| {
        all.push(serde_json::from_str(text).unwrap());
        Ok(())
    };
    store.trials(id, &mut each).unwrap();
    all
}

#[test]
fn a_campaign_is_read_as_it_was_written() {
    let (directory, store) = store();
    let mut expected = asked("a");
    let recorder = store.begin(&expected).unwrap();
    expected.conditions.insert(0, "the links are of string".into());
    recorder.conditions(&expected.conditions).unwrap();
    for name in ["linux", "volley"] {
        recorder.dut(&facts(name)).unwrap();
        expected.duts.push(facts(name));
        for size in [64, 512] {
            let key = key(name, size);
            recorder.cell(&cell(key.clone(), 1e6 / 3.0)).unwrap();
            recorder.trial(&trial(key.clone(), size as u64)).unwrap();
            // The results are stored in another order than the campaign's.
            let both = [Procedure::Throughput, Procedure::Loads].map(measurement);
            both.iter().rev().for_each(|m| recorder.measurement(&key, m).unwrap());
            expected.cells.push(Cell { measurements: both.into(), ..cell(key, 1e6 / 3.0) });
        }
    }
    recorder.failure("volley, rfc2544, 64 bytes: broken").unwrap();
    expected.failures.push("volley, rfc2544, 64 bytes: broken".into());
    for (dut, what) in
        [("volley", "it may still run"), ("", "a meter is gone"), ("volley", "it may still run")]
    {
        recorder.caveat(dut, what).unwrap();
    }
    expected.caveats = vec!["it may still run".into(), "a meter is gone".into()];
    let id = recorder.id();
    let unfinished = store.results(id).unwrap();
    assert!(unfinished.conditions[0].contains("not finished"), "{:?}", unfinished.conditions);
    recorder.finish().unwrap();
    drop(store);
    let store = Store::existing(&directory.path().join("store.db")).unwrap();
    assert_eq!(store.results(id).unwrap(), expected);
    let sizes: Vec<u64> = trials(&store, id).iter().map(|t| t.outcome.received).collect();
    assert_eq!(sizes, [64, 512, 64, 512]);
    // Only one file; no journal is left.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn an_interrupted_campaign_is_resumed() {
    let (_directory, store) = store();
    let asked_a = asked("a");
    assert!(store.resume(&asked_a).unwrap().is_none());
    let recorder = store.begin(&asked_a).unwrap();
    recorder.cell(&cell(key("linux", 64), 5e5)).unwrap();
    recorder.measurement(&key("linux", 64), &measurement(Procedure::Loads)).unwrap();
    recorder.failure("linux, rfc2544, 64 bytes, throughput: no").unwrap();
    recorder.caveat("linux", "linux: it was not stopped").unwrap();
    recorder.conditions(&["The machine was not idle".to_owned()]).unwrap();
    assert_eq!(recorder.conditions_before(), None);
    let id = recorder.id();
    drop(recorder);
    // A campaign with other contents is not resumed, even if it is newer.
    store.begin(&asked("b")).unwrap();
    let recorder = store.resume(&asked_a).unwrap().unwrap();
    assert_eq!((recorder.id(), recorder.known_before()), (id, 1));
    let before = recorder.conditions_before().unwrap();
    assert!(before.contains(&"The machine was not idle".to_owned()), "{before:?}");
    let known = |dut, procedure| recorder.known(&key(dut, 64), procedure);
    assert_eq!(known("linux", Procedure::Loads), Some(measurement(Procedure::Loads)));
    assert_eq!((known("linux", Procedure::Throughput), known("volley", Procedure::Loads)), (None, None));
    // The failed measurement is tried again, and its failure is removed.
    assert_eq!(store.results(id).unwrap().failures, [""; 0]);
    // Existing results keep their caveats.
    assert_eq!(store.results(id).unwrap().caveats, ["linux: it was not stopped"]);
    recorder.cell(&cell(key("linux", 64), 6e5)).unwrap();
    recorder.finish().unwrap();
    assert_eq!(store.results(id).unwrap().cells[0].tester_fps, 6e5);
    assert!(store.resume(&asked_a).unwrap().is_none());
}

#[test]
fn a_changed_router_is_measured_again() {
    let (_directory, store) = store();
    let recorder = store.begin(&asked("a")).unwrap();
    let id = recorder.id();
    for name in ["linux", "volley"] {
        assert_eq!(recorder.dut(&facts(name)), Ok(0));
        for size in [64, 512] {
            recorder.cell(&cell(key(name, size), 1e6)).unwrap();
            recorder.measurement(&key(name, size), &measurement(Procedure::Loads)).unwrap();
        }
        recorder.caveat(name, name).unwrap();
    }
    recorder.caveat("", "both").unwrap();
    let again = || store.resume(&asked("a")).unwrap().unwrap();
    let others = [
        Facts { version: "2".into(), ..facts("linux") },
        Facts { version: "2".into(), configuration: vec!["up".into(), "tuned".into()], ..facts("linux") },
    ];
    for other in others {
        let recorder = again();
        let known = |dut| recorder.known(&key(dut, 64), Procedure::Loads).is_some();
        assert_eq!((recorder.dut(&facts("volley")), known("volley")), (Ok(0), true));
        assert_eq!((recorder.dut(&other), known("linux"), known("volley")), (Ok(2), false, true));
        // All results of the changed router are gone.
        let results = store.results(id).unwrap();
        assert!(results.duts.contains(&other) && results.cells.iter().all(|c| c.key.dut == "volley"));
        assert_eq!(results.caveats, ["volley", "both"]);
        // The store now has the description of the changed router, and takes its results.
        for size in [64, 512] {
            recorder.cell(&cell(key("linux", size), 1e6)).unwrap();
            recorder.measurement(&key("linux", size), &measurement(Procedure::Loads)).unwrap();
        }
        assert_eq!((again().dut(&other), again().known_before()), (Ok(0), 4));
    }
}

/// A store of version 1, as written by older testers.
#[test]
fn an_older_store_is_read_and_resumed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let older = Connection::open(&path).unwrap();
    let marks = "PRAGMA application_id = 0x566f6c6c; PRAGMA user_version = 1;";
    older.execute_batch(&format!("{}{marks}", include_str!("../schema.sql"))).unwrap();
    let head = asked("a");
    let [asked_for, profile, provenance] = [
        serde_json::to_string(&head.campaign),
        serde_json::to_string(&head.profile),
        serde_json::to_string(&head.provenance),
    ]
    .map(Result::unwrap);
    let row = [&asked_for, &profile, &provenance];
    older.execute("INSERT INTO campaign VALUES (1, 'a', 'then', ?, ?, ?, '[]', NULL, NULL)", row).unwrap();
    older.execute("INSERT INTO failure VALUES (1, 1, 'no')", ()).unwrap();
    let version = || older.pragma_query_value(None, "user_version", |row| row.get::<_, i32>(0)).unwrap();
    let store = Store::existing(&path).unwrap();
    let results = store.results(1).unwrap();
    assert_eq!((results.failures, results.caveats, version()), (vec!["no".to_owned()], vec![], 1));
    let recorder = store.resume(&head).unwrap().unwrap();
    recorder.caveat("linux", "new").unwrap();
    assert_eq!((store.results(1).unwrap().caveats, version()), (vec!["new".to_owned()], 3));
    assert_eq!(store.begin(&head).unwrap().id(), 2);
}

#[test]
fn documents_of_another_version_are_refused_with_the_version_that_reads_them() {
    let (directory, store) = store();
    let head = asked("a");
    let id = store.begin(&head).unwrap().id();
    store
        .connection
        .execute("UPDATE campaign SET asked = json_set(asked, '$.duts[0].clock-mhz', 1800)", ())
        .unwrap();
    let tester = head.provenance.tester().unwrap();
    let why = store.results(id).unwrap_err().to_string();
    for needed in ["store.db: campaign 1: campaign: written by ", tester, "clock-mhz", "measure again"] {
        assert!(why.contains(needed), "{needed}: {why}");
    }
    let mut json = serde_json::to_value(&head).unwrap();
    json["campaign"]["testbed"]["clock-mhz"] = 1800.into();
    std::fs::write(directory.path().join("old.json"), json.to_string()).unwrap();
    let why = load(&directory.path().join("old.json")).unwrap_err().to_string();
    assert!(why.contains("old.json: written by ") && why.contains(tester), "{why}");
}

#[test]
fn a_campaign_of_other_conditions_is_not_resumed() {
    let (_directory, store) = store();
    let here = asked("a");
    let facts = vec![("kernel".into(), "2.4".into())];
    let there = Results { provenance: Provenance { facts, ..here.provenance.clone() }, ..here.clone() };
    store.begin(&there).unwrap();
    let why = store.resume(&here).err().unwrap().to_string();
    assert!(why.contains("begun under other conditions (kernel: 2.4, and "), "{why}");
    assert!(why.contains("store.db") && why.contains("without --resume"), "{why}");
}

#[test]
fn campaigns_are_found_by_number_and_name() {
    let (_directory, store) = store();
    let why = |which| store.find(which).unwrap_err().to_string();
    assert!(why(None).ends_with("the store has no campaign"), "{}", why(None));
    let ids = ["a", "b", "a"].map(|name| store.begin(&asked(name)).unwrap().id());
    assert_eq!(store.find(None).unwrap(), ids[2]);
    assert_eq!(store.find(Some("b")).unwrap(), ids[1]);
    assert_eq!(store.find(Some("a")).unwrap(), ids[2]);
    assert_eq!(store.find(Some(&ids[0].to_string())).unwrap(), ids[0]);
    assert!(why(Some("c")).contains("no such campaign: c; the store has 1 (a), 2 (b), 3 (a)"));
    assert!(store.results(99).unwrap_err().to_string().contains("no such campaign: 99"));
    let names: Vec<_> = store.campaigns().unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["a", "b", "a"]);
}

#[test]
fn results_are_named_by_file_and_campaign() {
    let (directory, store) = store();
    let at = |name: &str| directory.path().join(name);
    for name in ["a", "b"] {
        store.begin(&asked(name)).unwrap().finish().unwrap();
    }
    std::fs::write(at("results.json"), serde_json::to_string_pretty(&asked("c")).unwrap()).unwrap();
    let name = |operand: &str| load(&at(operand)).map(|r| r.campaign.name).map_err(|e| e.to_string());
    assert_eq!(name("store.db").as_deref(), Ok("b"));
    assert_eq!(name("store.db#1").as_deref(), Ok("a"));
    assert_eq!(name("store.db#a").as_deref(), Ok("a"));
    assert_eq!(name("results.json").as_deref(), Ok("c"));
    // A file's name may contain a #.
    std::fs::copy(at("results.json"), at("results#2")).unwrap();
    assert_eq!(name("results#2").as_deref(), Ok("c"));
    std::fs::write(at("bad.json"), "{\"campaign\": 1}").unwrap();
    for (operand, why) in [
        ("store.db#7", "store.db: no such campaign: 7; the store has 1 (a), 2 (b)"),
        ("results.json#1", "results.json: not a store"),
        ("bad.json", "bad.json: neither results of volley bench nor a store"),
        ("none.json", "none.json: No such file"),
    ] {
        let said = name(operand).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}
