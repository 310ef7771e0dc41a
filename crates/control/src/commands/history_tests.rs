//! Changes, rollbacks and restarts, with the journal's file.

use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use model::origin::{FrontEnd, Origin, Peer};
use net::router::Sizes;
use proptest::prelude::*;

use crate::app::Context;
use crate::cli::{Call, Step};
use crate::journal::Keeper;
use crate::testing::{Cli, FEATURES, catalog, registry, system};

impl Cli {
    /// Starts a router from a YAML file, with its journal in a directory.
    fn started(state: &Path, yaml: &str) -> Cli {
        let system = system(FEATURES, &Sizes { buffers: 64, workers: 1 }, false);
        let mut cli = Cli { registry: Rc::new(registry()), context: Context::new(system) };
        let (keeper, begun) = (Keeper::begin(state, catalog()), Instant::now());
        let found = loop {
            if let Some(found) = keeper.found(begun) {
                break found;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        cli.context.go_on_with(keeper, found);
        let start = Origin::new(FrontEnd::Start, Peer::Own, "start.yaml");
        cli.context.begin_start(start.clone());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("start.yaml");
        std::fs::write(&file, yaml).unwrap();
        cli.ok(&format!("config apply {}", file.display()));
        let finder = cli.context.find_last_in_effect().unwrap();
        cli.context.end_start(start, crate::app::joined(finder).unwrap());
        cli
    }

    /// Restarts the router from a saved configuration.
    fn restarted(mut self, state: &Path, saved: &str) -> Cli {
        self.context.shut_down();
        Cli::started(state, saved)
    }

    fn saved(&mut self) -> String {
        self.ok("show config yaml")
    }

    /// Returns the configuration without the first line, which has the generation.
    fn configured(&mut self) -> String {
        self.saved().split_once('\n').unwrap().1.to_string()
    }
}

const TWO: &str = "interfaces:\n  pg0: { addresses: [ 10.0.0.1/24 ] }\n  pg1: {}\n";

#[test]
fn a_save_does_not_replace_the_journal() {
    let state = tempfile::tempdir().unwrap();
    let mut cli = Cli::started(state.path(), TWO);
    let journal = state.path().join("journal");
    let link = state.path().join("link.yaml");
    std::os::unix::fs::symlink(&journal, &link).unwrap();
    for path in [&journal, &link] {
        let told = cli.run(&format!("config save {}", path.display())).unwrap_err().to_string();
        assert!(told.contains("it is the router's journal: use another name"), "{told}");
    }
    cli.ok(&format!("config save {}", state.path().join("saved.yaml").display()));
}

/// A script makes changes faster than a disk can sync them one by one. After a successful `config save`, the journal on disk has all of
/// them, even if the router is then killed.
#[test]
fn a_save_has_the_journal_of_a_fast_script_on_the_disk() {
    let state = tempfile::tempdir().unwrap();
    let mut cli = Cli::started(state.path(), TWO);
    for n in 1..=700 {
        cli.ok(&format!("ip table add {n}"));
    }
    let saved = state.path().join("saved.yaml");
    cli.ok(&format!("config save {}", saved.display()));
    let journal = std::fs::read_to_string(state.path().join("journal")).unwrap();
    // The header, the start, and the changes.
    assert_eq!(journal.lines().count(), 702, "{:?}", cli.context.keeper.as_ref().unwrap().trouble());
    // The next run knows the last change.
    let text = std::fs::read_to_string(&saved).unwrap();
    let mut cli = cli.restarted(state.path(), &text);
    cli.ok("config rollback");
    let config = cli.ok("show config");
    assert!(config.contains("ip table add 699\n") && !config.contains("ip table add 700\n"));
}

#[derive(Clone, Debug)]
enum Happens {
    /// A command, which may be refused.
    Said(String),
    /// Rolls back this number of changes plus one.
    Back(usize),
    Restart,
}

fn happens() -> impl Strategy<Value = Happens> {
    let said = prop_oneof![
        (0u8..4, 0u8..3).prop_map(|(n, via)| format!("ip route add 20.0.{n}.0/24 via 10.0.0.{}", via + 2)),
        (0u8..4).prop_map(|n| format!("ip route del 20.0.{n}.0/24")),
        (0u8..2, 0u16..3).prop_map(|(n, mtu)| format!("set interface mtu {} pg{n}", 1300 + mtu)),
        (1u8..3, any::<bool>()).prop_map(|(n, up)| {
            format!("set interface state pg0.{n} {}", if up { "up" } else { "down" })
        }),
        (1u8..3).prop_map(|n| format!("create sub-interfaces pg0 {n}")),
        (1u8..3).prop_map(|n| format!("delete sub-interface pg0.{n}")),
        (1u8..3, 0u8..2).prop_map(|(n, host)| format!("set interface ip address pg0.{n} 10.{n}.{host}.1/24")),
        (0u8..2).prop_map(|n| format!("create loopback interface instance {n}")),
        (0u8..2).prop_map(|n| format!("delete loopback interface intfc loop{n}")),
        (0u8..3).prop_map(|n| format!("ip neighbor pg0 10.0.0.{} 02:00:00:00:00:0{n}", n + 7)),
        (1u8..3).prop_map(|n| format!("ip table add {n}")),
        (1u8..3).prop_map(|n| format!("set interface ip table loop0 {n}")),
    ];
    prop_oneof![12 => said.prop_map(Happens::Said), 4 => (0usize..4).prop_map(Happens::Back), 1 => Just(Happens::Restart)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Commands, rollbacks and restarts in any order: a rollback of n restores the configuration before the last n
    /// changes in effect. The model is a stack of configurations.
    #[test]
    fn a_rollback_restores_the_earlier_configuration(all in prop::collection::vec(happens(), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let mut cli = Cli::started(folder.path(), TWO);
        let mut below: Vec<String> = Vec::new();
        for one in all {
            let before = cli.configured();
            match one {
                Happens::Said(line) => {
                    let accepted = cli.run(&line).is_ok();
                    let after = cli.configured();
                    prop_assert!(accepted || after == before);
                    if after != before {
                        below.push(before);
                    }
                }
                Happens::Back(n) if n < below.len() => {
                    let would = cli.ok(&format!("config diff rollback {}", n + 1));
                    prop_assert_eq!(&cli.configured(), &before);
                    let done = cli.ok(&format!("config rollback {}", n + 1));
                    // Whether traffic is interrupted for a measurable time depends on the machine.
                    let done: String =
                        done.split_inclusive('\n').filter(|line| !line.contains("interrupted for")).collect();
                    prop_assert!(done == would || done == "nothing has changed\n", "{}{}", done, would);
                    let expected = below.drain(below.len() - n - 1..).next().unwrap();
                    prop_assert_eq!(cli.configured(), expected);
                }
                Happens::Back(n) => {
                    let refused = cli.run(&format!("config rollback {}", n + 1)).is_err();
                    prop_assert!(refused);
                }
                Happens::Restart => {
                    let saved = cli.saved();
                    cli = cli.restarted(folder.path(), &saved);
                    prop_assert_eq!(cli.configured(), before);
                }
            }
            prop_assert_eq!(cli.context.journal.changes().count(), below.len());
        }
    }
}

#[test]
fn the_journal_survives_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let mut cli = Cli::started(folder.path(), TWO);
    assert_eq!(cli.json("show config history")[0]["kind"], "start");
    assert!(cli.run("config rollback").unwrap_err().to_string().contains("no change to roll back"));
    for (user, name, line) in
        [(0, "root", "set interface mtu 1400 pg1"), (1000, "ann", "ip route add 20.0.0.0/24 via 10.0.0.2")]
    {
        let call = Call { peer: Peer::user(user, Some(name.into())), ..Call::default() };
        cli.registry.clone().run(&mut cli.context, line, call).unwrap();
    }
    let saved = cli.saved();
    cli.ok("ip route add 30.0.0.0/24 via 10.0.0.2");
    cli = cli.restarted(folder.path(), &saved);
    let history = cli.json("show config history");
    let of = |n: usize, what: &str| history[n][what].clone();
    assert_eq!(
        (of(0, "kind"), of(0, "generation"), of(0, "before_this_start")),
        ("start".into(), 5.into(), false.into())
    );
    assert_eq!((of(2, "user"), of(2, "uid"), of(2, "back")), ("ann".into(), 1000.into(), 1.into()));
    assert_eq!((of(3, "user"), of(3, "added"), of(3, "modified")), ("root".into(), 0.into(), 1.into()));
    assert_eq!(
        (of(3, "command"), of(3, "before_this_start")),
        ("set interface mtu 1400 pg1".into(), true.into())
    );
    assert!(cli.ok("show config change 3").ends_with("+ ip route add 20.0.0.0/24 via 10.0.0.2\n"));
    let shown = cli.ok("show config history 2");
    assert!(shown.contains("changes up to 4 were made before the router started"), "{shown}");
    // The last change was not saved: it is not in effect, and rollbacks continue with the one before.
    assert!(shown.contains("(not in effect since start 5)"), "{shown}");
    assert_eq!((of(1, "back"), of(1, "taken_back_by")), (serde_json::Value::Null, 5.into()));
    cli = cli.restarted(folder.path(), &saved);
    assert_eq!(cli.json("show config history")[2]["taken_back_by"], 5);
    // After a start with another configuration, nothing is rolled back.
    let mut cli = cli.restarted(folder.path(), &saved.replace("mtu: 1400", "mtu: 1500"));
    let now = cli.ok("show config");
    let told = cli.run("config rollback 2").unwrap_err().to_string();
    assert!(
        told.starts_with(
            "change 2 cannot be rolled back: interface pg1 has changed since: the router was restarted"
        ),
        "{told}"
    );
    assert_eq!(cli.ok("show config"), now);
    let mut cli = cli.restarted(folder.path(), &saved);
    cli.ok("ip route add 30.0.0.0/24 via 10.0.0.2");
    assert_eq!(cli.ok("config rollback"), "- ip route add 30.0.0.0/24 via 10.0.0.2\n");
    assert_eq!(cli.ok("config rollback"), "- ip route add 20.0.0.0/24 via 10.0.0.2\n");
    assert_eq!(cli.ok("config rollback"), "- set interface mtu 1400 pg1\n");
}

/// The journal has the right user of each change, also of a job with other commands between its slices.
#[test]
fn each_change_has_its_own_user() {
    let mut cli = Cli::new();
    let call = |user| Call { peer: Peer::user(user, None), ..Call::default() };
    let registry = cli.registry.clone();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, "interfaces:\n  pg0: { mtu: 1400 }\n").unwrap();
    let lines = [
        format!("create pcap interface pcap0 tx {}", folder.path().join("tx.pcap").display()),
        "ip route add 20.0.0.0/24 via drop count 300".into(),
        format!("config apply {}", file.display()),
    ];
    for (user, line) in (1..).zip(&lines) {
        let mut job = registry.run(&mut cli.context, line, call(user)).unwrap().job;
        // A command of another user in between.
        registry.run(&mut cli.context, "ip table add 0", call(99)).unwrap();
        while let Some(running) = &mut job {
            match running.step(&mut cli.context, &mut String::new()) {
                Step::Done => job = None,
                Step::Failed(e) => panic!("{line}: {e}"),
                _ => {}
            }
        }
        let newest = &cli.json("show config history 1")[0];
        assert_eq!((&newest["uid"], &newest["command"]), (&user.into(), &line.as_str().into()), "{line}");
    }
    assert_eq!(cli.json("show config history 1")[0]["front_end"], "file");
}

/// If the client disconnects during a load, the added routes stay and can be rolled back.
#[test]
fn an_interrupted_load_is_one_change() {
    let mut cli = Cli::new();
    let before = cli.ok("show config");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("routes");
    let text: String = (0..50_000).map(|n| format!("20.{}.{}.0/24 via drop\n", n >> 8, n & 255)).collect();
    std::fs::write(&file, text).unwrap();
    let line = format!("ip route load {}", file.display());
    let mut job = cli.registry.clone().run(&mut cli.context, &line, Call::default()).unwrap().job.unwrap();
    while cli.context.store.tree().len() < 300 {
        assert!(!matches!(job.step(&mut cli.context, &mut String::new()), Step::Done | Step::Failed(_)));
    }
    drop(job);
    while cli.context.tidy().is_some() {}
    let there = cli.context.store.tree().len();
    assert!((300..50_000).contains(&there), "{there}");
    assert_eq!(cli.json("show config history 1")[0]["command"], line);
    cli.ok("config rollback");
    assert_eq!(cli.ok("show config"), before);
}

#[test]
fn secrets_are_stored_but_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let mut cli = Cli::started(folder.path(), TWO);
    cli.ok("create interface memif id 3 slave secret classified");
    cli.ok("delete interface memif memif0/3");
    let saved = cli.saved();
    cli = cli.restarted(folder.path(), &saved);
    for line in
        ["show config history", "show config history --json", "show config change 2", "show config change 3"]
    {
        let shown = cli.ok(line);
        assert!(!shown.contains("classified") && shown.contains("<hidden>"), "{line}: {shown}");
    }
    // The rollback restores the secret.
    cli.ok("config rollback");
    assert!(cli.ok("show config").contains("secret classified"));
}

#[test]
fn a_router_runs_without_a_journal_and_reports_it() {
    let folder = tempfile::tempdir().unwrap();
    let no_directory = folder.path().join("file");
    std::fs::write(&no_directory, "precious").unwrap();
    let mut cli = Cli::started(&no_directory, TWO);
    cli.ok("set interface mtu 1400 pg1");
    let shown = cli.ok("show config history");
    assert!(shown.contains("! changes are not kept in ") && shown.contains("file/journal: "), "{shown}");
    let degraded = cli.context.degraded().join("\n");
    assert!(
        degraded.starts_with("changes are not kept in ") && degraded.contains("file/journal: "),
        "{degraded}"
    );
    cli.ok("config rollback");
    cli.context.shut_down();
    assert_eq!(std::fs::read(&no_directory).unwrap(), b"precious");
}
