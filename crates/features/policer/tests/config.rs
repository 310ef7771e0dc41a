//! Tests policers in the configuration file, and compares sequences of changes with a simple model.

use std::collections::BTreeMap;

use control::check::Checker;
use control::intent::{Change, Interface, Key};
use control::testing::{Cli, system};
use net::router::Sizes;
use policer::{Action, Kind, Params, PolicedBy, Policers, Policing, Round, Unit};
use proptest::prelude::*;

fn cli() -> Cli {
    Cli::with(&[&policer::Feature])
}

const FILE: &str = "\
interfaces:
  pg0:
    state: down
    policer: { input: gold, output: \"a silver one\" }
  pg1:
    policer: { output: gold }
    sub-interfaces:
      100:
        policer: { input: gold }
policers:
  \"a silver one\":
    rate: pps
    cir: 7
    cb: 100
  gold:
    type: \"2r3c-4115\"
    color-aware: true
    cir: 1000
    eir: 500
    cb: 10000
    eb: 5000
    round: up
    conform-action: \"mark-and-transmit AF11\"
    exceed-action: \"mark-and-transmit 3\"
    violate-action: transmit
";

#[test]
fn a_file_defines_and_uses_policers_in_any_order() {
    let mut cli = cli();
    // The sections `interfaces` and `policers` in both orders.
    let (interfaces, policers) = FILE.split_at(FILE.find("policers:").unwrap());
    for text in [FILE.to_string(), format!("{policers}{interfaces}")] {
        cli.apply(&text).unwrap();
        assert_eq!(cli.yaml(), FILE);
        cli.apply("{}").unwrap();
        assert_eq!(cli.yaml(), "{}\n");
    }
    cli.apply(FILE).unwrap();
    // One change replaces a policer that interfaces use by another.
    let renamed = FILE.replace("gold", "lead");
    cli.apply(&renamed).unwrap();
    let users = cli.json("show policer name lead")[0]["used_by"].as_array().map(Vec::len);
    assert_eq!((users, cli.yaml().contains("gold")), (Some(3), false));
    cli.ok("config rollback");
    assert_eq!(cli.yaml(), FILE);
}

#[test]
fn every_fault_of_a_file_is_reported_with_its_place() {
    let mut cli = cli();
    let text = "\
interfaces:
  pg0: { policer: { input: none, output: bad, inward: gold } }
  pg1: { policer: { input: bad } }
policers:
  gold: { cir: 7, cb: 1000 }
  silver: { type: 3r, rate: bps, cir: 8, cb: 1000, colour-aware: true }
  lead: { cir: 8, cb: 1000, exceed-action: pass, violate-action: mark-and-transmit AF9 }
  tin: { cir: 8 }
  iron: { type: 1r3c, cir: 8, cb: 1, eb: 1, eir: 9 }
  bad: { cir: no, cb: 1000 }
";
    let faults = cli.apply(text).unwrap_err();
    for fault in [
        "f:2:47: unknown field \"inward\"",
        "f:5:16: cir 7 is out of range: use 8 to 400000000 kbps",
        "f:6:19: unexpected \"3r\"",
        "f:6:29: unexpected \"bps\"",
        "f:6:52: unknown field \"colour-aware\"",
        "f:7:44: unknown action \"pass\": use drop, transmit, or \"mark-and-transmit AF12\"",
        "f:7:66: unknown DSCP \"AF9\"",
        "f:8:3: cb is missing or 0: use 1 to",
        "f:9:50: eir 9 is not used by type 1r3c",
        "f:10:15: \"no\" is not a number",
    ] {
        assert!(faults.contains(fault), "{fault} is not in\n{faults}");
    }
    // An interface that names an unreadable policer is not a second error.
    assert_eq!(faults.lines().count(), 10, "{faults}");
    let faults = cli.apply("interfaces: { pg0: { policer: { input: none } } }\n").unwrap_err();
    assert!(faults.starts_with("f:1:15: there is no policer none: add it first"), "{faults}");
    let long = "n".repeat(policer::MAX_NAME + 1);
    let faults = cli.apply(&format!("policers: {{ {long}: {{ cir: 8, cb: 9 }} }}\n")).unwrap_err();
    assert!(faults.contains("1 to 63 bytes, not 64"), "{faults}");
}

#[test]
fn files_are_checked_without_a_router() {
    let sizes = Sizes { buffers: 64, workers: 1 };
    let router = system(&[&policer::Feature], &sizes, false).router;
    let checker = Checker::new(&router, &[&policer::Feature]);
    let directory = tempfile::tempdir().unwrap();
    let faults = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        checker.check(&path).faults
    };
    let commands = "policer add name gold cir 8 cb 1514\npolicer input name gold host-eth0\n";
    assert_eq!(faults("f.cli", commands), [""; 0]);
    assert_eq!(faults("f.cli", &commands.replace("cir 8", "cir x")).len(), 1);
    assert_eq!(faults("f.yaml", FILE), [""; 0]);
    assert_eq!(faults("f.yaml", &FILE.replace("cir: 7", "cir: 0")).len(), 1);
    let path = directory.path().join("f.yaml");
    std::fs::write(&path, FILE.replace("eb: 5000", "eb: 500")).unwrap();
    let warnings = checker.check(&path).warnings;
    let told = "f.yaml:15:3: eb 500 is less than a frame of 1514 bytes: such frames never exceed; use a larger burst";
    assert!(warnings.len() == 1 && warnings[0].ends_with(told), "{warnings:?}");
}

#[test]
fn an_apply_warns_of_too_small_bursts() {
    let mut cli = cli();
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(&file, "policers: { gold: { cir: 8, cb: 100 }, lead: { cir: 8, cb: 2000 } }\n").unwrap();
    let path = file.path().display();
    let told = "! policer gold: cb 100 is less than a frame of 1514 bytes: such frames never conform; use a larger burst\n";
    for command in [format!("config apply {path} dry-run"), format!("config apply {path}")] {
        let text = cli.ok(&command);
        assert!(text.contains(told) && text.matches("! ").count() == 1, "{text}");
    }
}

/// Generates valid parameters, and a few invalid ones.
fn params() -> impl Strategy<Value = Params> {
    let action = prop_oneof![Just(Action::Drop), Just(Action::Transmit), (0u8..64).prop_map(Action::Mark)];
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let unit = prop::sample::select(Unit::ALL.to_vec());
    let round = prop::sample::select(Round::ALL.to_vec());
    let numbers = (prop_oneof![9 => 8u64..5000, 1 => 0u64..8], 0u64..5000, 1u64..5000, 1u64..5000);
    (kind, unit, round, any::<bool>(), numbers, [action.clone(), action.clone(), action]).prop_map(
        |(kind, unit, round, aware, (cir, more, cb, eb), [conform, exceed, violate])| {
            let (eir, eb) = match kind {
                Kind::OneRateTwoColors => (0, 0),
                Kind::OneRateThreeColors => (0, eb),
                Kind::TwoRates2698 | Kind::TwoRates4115 => (cir + more, eb),
            };
            Params { kind, unit, cir, eir, cb, eb, aware, round, conform, exceed, violate }
        },
    )
}

const NAMES: [&str; 4] = ["gold", "a silver one", "lead", "?"];
const INTERFACES: [&str; 3] = ["pg0", "pg1", "pg1.100"];

fn key(interface: &str) -> Key {
    if interface.contains('.') { Interface::sub_key(interface) } else { Interface::key(interface) }
}

/// One change in a transaction.
#[derive(Clone, Debug)]
enum One {
    Policer(&'static str, Option<Params>),
    Interface(&'static str, PolicedBy),
}

/// A transaction, and whether the router is rolled back after it.
#[derive(Clone, Debug)]
struct Turn(Vec<One>, bool);

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let name = || prop::sample::select(NAMES.to_vec());
    let by = || prop::option::of(name().prop_map(str::to_string));
    let one = prop_oneof![
        3 => (name(), prop::option::weighted(0.7, params())).prop_map(|(name, p)| One::Policer(name, p)),
        3 => (prop::sample::select(INTERFACES.to_vec()), by(), by())
            .prop_map(|(interface, input, output)| One::Interface(interface, PolicedBy { input, output })),
    ];
    let turn = (prop::collection::vec(one, 1..5), prop::bool::weighted(0.2));
    prop::collection::vec(turn.prop_map(|(changes, back)| Turn(changes, back)), 1..12)
}

/// The expected state.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    policers: BTreeMap<&'static str, Params>,
    interfaces: BTreeMap<&'static str, PolicedBy>,
}

impl Model {
    /// Returns the model after a transaction; `None` if the router must refuse the transaction.
    fn after(&self, changes: &[One]) -> Option<Model> {
        let mut model = self.clone();
        // Of two changes of one object the last one counts.
        let last: BTreeMap<&str, &One> = changes
            .iter()
            .map(|one| match one {
                One::Policer(name, _) | One::Interface(name, _) => (*name, one),
            })
            .collect();
        for one in last.into_values() {
            match one {
                One::Policer(name, Some(params)) => {
                    params.check().ok()?;
                    model.policers.insert(name, *params);
                }
                One::Policer(name, None) => drop(model.policers.remove(name)?),
                One::Interface(name, by) => drop(model.interfaces.insert(name, by.clone())),
            }
        }
        let there = |name: &String| model.policers.contains_key(name.as_str());
        let whole =
            model.interfaces.values().all(|by| [&by.input, &by.output].into_iter().flatten().all(there));
        whole.then_some(model)
    }
}

/// Returns the policers of the router and the names of the policers of each interface.
fn found(cli: &Cli) -> Model {
    let router = &cli.context.system.router;
    let policers: &Policers = router.state().unwrap();
    let known = |name: &str| NAMES.into_iter().find(|known| *known == name).unwrap();
    let name = |index: u32| policers.name(index).unwrap().to_string();
    let by = |interface| {
        let index = router.interface_named(interface).expect("it is there").index;
        let Policing { input, output } = router.setting(index);
        (interface, PolicedBy { input: input.map(name), output: output.map(name) })
    };
    Model {
        policers: policers.iter().map(|(index, params)| (known(&name(index)), *params)).collect(),
        interfaces: INTERFACES.into_iter().map(by).collect(),
    }
}

fn changes(cli: &Cli, all: &[One]) -> Vec<Change> {
    let change = |one: &One| match one {
        One::Policer(name, Some(params)) => Change::set(Key::with::<Params>(*name), *params),
        One::Policer(name, None) => Change::remove(Key::with::<Params>(*name)),
        One::Interface(name, by) => {
            let mut interface =
                cli.context.store.get(&key(name)).unwrap().get::<Interface>().unwrap().clone();
            interface.attached.put(by.clone());
            Change::set(key(name), interface)
        }
    };
    all.iter().map(change).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_sequence_of_changes_gives_the_requested_state(turns in turns()) {
        let mut cli = cli();
        cli.ok("create sub-interfaces pg1 100");
        let mut model = found(&cli);
        for Turn(all, back) in turns {
            let done = cli.context.transact(changes(&cli, &all));
            let after = model.after(&all);
            prop_assert_eq!(done.is_ok(), after.is_some(), "{:?}: {:?}", all, done);
            let after = after.unwrap_or_else(|| model.clone());
            prop_assert_eq!(&found(&cli), &after);
            if back && done.is_ok() && after != model {
                cli.ok("config rollback");
                prop_assert_eq!(&found(&cli), &model);
            } else {
                model = after;
            }
            prop_assert!(cli.context.store.snapshot().is_consistent());
        }
        // The written configuration makes the same state again: as a file, and as commands.
        let text = cli.yaml();
        let mut again = self::cli();
        again.apply(&text).unwrap();
        prop_assert_eq!(&found(&again), &model);
        prop_assert_eq!(again.yaml(), text.clone());
        let lines = cli.ok("show config");
        let mut typed = self::cli();
        typed.apply("{}").unwrap();
        lines.lines().for_each(|line| drop(typed.ok(line)));
        prop_assert_eq!(typed.yaml(), text);
    }
}

#[test]
fn thousands_of_policers_are_shown_and_collected_in_slices() {
    let mut cli = cli();
    let n = 3000;
    let params = Params { cir: 8, cb: 1514, ..Params::default() };
    let all = (0..n).map(|i| Change::set(Key::with::<Params>(format!("p{i}")), params));
    cli.context.transact(all.collect()).unwrap();
    assert_eq!(cli.json("show policer").as_array().map(Vec::len), Some(n));
    assert_eq!(cli.ok("show policer").lines().count(), n + 1);
    let samples = cli.metrics();
    assert_eq!(
        samples.lines().filter(|line| line.starts_with("volley_policer_packets_total{")).count(),
        3 * n
    );
    let page = cli.context.system.abilities.catalog.pages()[0];
    let next = page(&cli.context.system.router, 0, &mut Default::default());
    assert!(next.is_some_and(|next| next <= 64), "{next:?}");
}
