//! Rollbacks: by command, without confirmation, and failed ones.

use super::config_tests::*;
use crate::app::{Confirmation, Go, Work};
use crate::cli::{Call, Step};
use crate::testing::Cli;

#[test]
fn changes_are_rolled_back() {
    let mut cli = Cli::new();
    let before = cli.ok("show config");
    cli.ok("ip route add 10.9.0.0/16 via 10.0.0.2");
    cli.ok("delete packet-generator interface pg1");
    cli.ok("set interface mtu 1300 pg0");
    let history = cli.ok("show config history");
    assert!(
        history.contains("interface pg1") && history.contains("route 10.9.0.0/16 in table 0"),
        "{history}"
    );
    let without_mtu = cli.ok("config rollback");
    assert_eq!(without_mtu, "- set interface mtu 1300 pg0\n");
    // The next rollback goes further back, not forward again. A preview shows its changes.
    let would = cli.ok("config diff rollback 2");
    assert!(
        would.contains("- ip route add 10.9.0.0/16") && would.contains("+ create packet-generator"),
        "{would}"
    );
    assert_eq!(cli.ok("config rollback 2"), would);
    assert_eq!(cli.ok("show config"), before);
    cli.refused("config rollback 0", "0");
    assert!(cli.refused("config rollback 99", "99").contains("must be 1 to 5"));
    let history = cli.json("show config history 3");
    assert_eq!(history.as_array().unwrap().len(), 3);
    assert_eq!(history[0]["changed"], "rollback of changes 7, 6");
    assert_eq!((&history[0]["kind"], &history[0]["back"]), (&"rollback".into(), &serde_json::Value::Null));
    assert_eq!(history[2]["taken_back_by"], 9);
    assert_eq!(history[2]["command"], "set interface mtu 1300 pg0");
    // Many routes by one command are one change. Too many routes cannot be rolled back.
    let before = cli.ok("show config");
    cli.ok("ip route add 10.9.0.0/16 via drop count 3");
    let back = cli.ok("config rollback");
    assert!(
        back.contains("- ip route add 10.11.0.0/16 via drop\n") && cli.ok("show config") == before,
        "{back}"
    );
    cli.ok("ip route add 20.0.0.0/24 via drop count 300000");
    let told = cli.run("config rollback 1").unwrap_err().to_string();
    assert!(told.contains("cannot be rolled back: the old values of its 300000 objects"), "{told}");
    assert_eq!(cli.json("show config history 1")[0]["added"], 300_000);
}

#[test]
fn an_unconfirmed_configuration_is_rolled_back() {
    let mut cli = Cli::new();
    let before = cli.ok("show config");
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    assert!(cli.run("config confirm").is_err());
    let said = cli.ok(&format!("config apply {path} confirm 1"));
    assert!(said.contains("rolls back in 1 minute unless confirmed"), "{said}");
    cli.ok("ip route add 10.9.0.0/16 via 10.0.0.2");
    assert!(
        cli.run(&format!("config apply {path}")).unwrap_err().to_string().contains("awaits confirmation")
    );
    // An unconfirmed configuration is not saved: a restart would apply it.
    let saved = std::path::Path::new(&path).with_file_name("saved.yaml");
    let told = cli.run(&format!("config save {}", saved.display())).unwrap_err().to_string();
    assert!(told.contains("config confirm or config rollback") && !saved.exists(), "{told}");
    cli.look_at_confirmation();
    assert_ne!(cli.ok("show config"), before, "the time has not expired");
    cli.expire();
    assert_eq!(cli.ok("show config"), before);
    // A confirmed configuration stays. A rollback without a number rolls back the unconfirmed one.
    cli.ok(&format!("config apply {path} confirm 1"));
    let applied = cli.context.journal.generation();
    // A late confirmation of another configuration.
    let late = cli.run(&format!("config confirm generation {}", applied - 1)).unwrap_err().to_string();
    assert!(late.contains(&format!("was applied as generation {applied}, not")), "{late}");
    cli.ok(&format!("config confirm generation {applied}"));
    cli.look_at_confirmation();
    assert_ne!(cli.ok("show config"), before);
    cli.ok("config rollback");
    cli.ok(&format!("config apply {path} confirm 1"));
    cli.ok("ip route add 10.9.0.0/16 via 10.0.0.2");
    cli.ok("config rollback");
    assert_eq!(cli.ok("show config"), before);
    assert!(cli.run("config confirm").is_err());
    cli.refused(&format!("config apply {path} confirm 0"), "0");
    // After a rollback of only a later change, the configuration still awaits confirmation.
    cli.ok(&format!("config apply {path} confirm 1"));
    cli.ok("create loopback interface");
    cli.ok("config rollback 1");
    cli.expire();
    assert_eq!(cli.ok("show config"), before);
}

#[test]
fn a_time_to_confirm_has_a_unit_and_bounds() {
    let mut cli = Cli::new();
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    for (time, words) in
        [("90s", "90 seconds"), ("120s", "2 minutes"), ("1s", "1 second"), ("1440", "1440 minutes")]
    {
        let said = cli.ok(&format!("config apply {path} confirm {time}"));
        assert!(
            said.ends_with(&format!("rolls back in {words} unless confirmed: config confirm\n")),
            "{said}"
        );
        cli.ok("config rollback");
    }
    for time in ["0", "0s", "1441", "86401s", "s", "5h", "-1", "18446744073709551615"] {
        cli.refused(&format!("config apply {path} confirm {time}"), time);
    }
    let told = cli.refused(&format!("config apply {path} dry-run confirm 1"), "confirm");
    assert!(told.contains("nothing is applied"), "{told}");
}

/// A pcap device without its file stands for every missing device.
#[test]
fn a_missing_device_does_not_stop_a_rollback() {
    let mut cli = Cli::new();
    let (folder, path) = file("a.yaml", TWO_PORTS);
    let replayed = folder.path().join("replayed.pcap");
    std::fs::write(&replayed, NO_PACKETS).unwrap();
    cli.ok(&format!("create pcap interface pcap0 rx {}", replayed.display()));
    let before = cli.ok("show config");
    let absent = |cli: &mut Cli| cli.json("show interface pcap0")[0]["absent"].clone();
    assert_eq!(absent(&mut cli), false);
    cli.ok(&format!("config apply {path} confirm 1"));
    std::fs::remove_file(&replayed).unwrap();
    cli.expire();
    assert_eq!(cli.ok("show config"), before);
    assert_eq!(absent(&mut cli), true);
    let why = format!("no device: cannot replay {}: No such file", replayed.display());
    assert!(cli.ok("show interface pcap0").contains(&format!("down, {why}")));
    assert!(cli.context.degraded()[0].starts_with(&format!("pcap0 has {why}")));
    // A rollback by an operator warns of the missing device. A new interface with the missing file is refused.
    cli.ok(&format!("config apply {path}"));
    assert!(cli.ok("config rollback").ends_with("! pcap0 has no device: the interface waits for it\n"));
    assert!(cli.run(&format!("create pcap interface pcap1 rx {}", replayed.display())).is_err());
    let saved = folder.path().join("saved.yaml");
    assert!(cli.ok(&format!("config save {}", saved.display())).contains("! pcap0 has no device"));
    std::fs::write(&replayed, NO_PACKETS).unwrap();
    // The main thread tries once a second to open the device. Another thread reads the file.
    let begun = std::time::Instant::now();
    while absent(&mut cli) == true && begun.elapsed() < std::time::Duration::from_secs(10) {
        cli.context.system.reopen_devices();
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(absent(&mut cli), false);
    assert_eq!(cli.json("show interface pcap0")[0]["mtu_bytes"], 9000, "the device's own");
    assert!(cli.context.degraded().is_empty());
}

/// The warning that a rollback undoes the change, too, is also shown if a job makes the change after its command has returned.
#[test]
fn a_change_by_a_job_gets_the_confirmation_warning_too() {
    let mut cli = Cli::new();
    let (folder, path) = file("a.yaml", TWO_PORTS);
    let replayed = folder.path().join("replayed.pcap");
    std::fs::write(&replayed, NO_PACKETS).unwrap();
    cli.ok(&format!("config apply {path} confirm 1"));
    for line in
        ["create loopback interface".into(), format!("create pcap interface pcap0 rx {}", replayed.display())]
    {
        let said = cli.ok(&line);
        assert!(said.contains("both it and this change are rolled back in"), "{line}: {said}");
        assert!(!cli.ok("show version").contains("rolled back"), "{line}");
    }
}

/// Returns the number of failed attempts to roll back the unconfirmed configuration.
fn attempts(cli: &Cli) -> u64 {
    cli.context.confirmation().and_then(Confirmation::failed).map_or(0, |(times, _)| times)
}

/// Returns a router with a failed rollback of its unconfirmed configuration, blocked by the interface `pg1`, which the configuration does
/// not have.
fn stuck() -> (Cli, tempfile::TempDir, String) {
    let mut cli = Cli::new();
    let before = cli.ok("show config");
    let (folder, path) = file("a.yaml", "interfaces:\n  pg0: { addresses: [ 10.0.0.1/24 ] }\n");
    cli.ok(&format!("config apply {path} confirm 1"));
    cli.context.system.router.add_loopback("pg1", wire::Mac([2; 6])).unwrap();
    cli.expire();
    assert_ne!(cli.ok("show config"), before);
    (cli, folder, before)
}

/// Removes the interface that blocks the rollback of [`stuck`].
fn unstick(cli: &mut Cli) {
    let index = cli.context.system.index("pg1").unwrap();
    cli.context.system.router.remove_interface(index).unwrap();
}

#[test]
fn a_failed_rollback_is_repeated_until_it_succeeds() {
    let (mut cli, _folder, before) = stuck();
    let history = cli.ok("show config history");
    assert!(
        history.contains("overdue rollback to generation 5: attempt 1 failed")
            && history.contains("there is an interface pg1 already"),
        "{history}"
    );
    assert!(cli.context.degraded()[0].contains("could not be rolled back: there is an interface pg1"));
    cli.expire();
    assert_eq!(attempts(&cli), 2);
    // The next attempt is not due yet.
    unstick(&mut cli);
    cli.look_at_confirmation();
    assert_ne!(cli.ok("show config"), before);
    cli.expire();
    assert_eq!(cli.ok("show config"), before);
    assert!(cli.context.degraded().is_empty() && cli.context.confirmation().is_none());
}

#[test]
fn confirm_or_another_apply_ends_a_failed_rollback() {
    let (mut cli, _folder, before) = stuck();
    let now = cli.ok("show config");
    cli.ok("config confirm");
    unstick(&mut cli);
    cli.look_at_confirmation();
    assert_eq!(cli.ok("show config"), now);
    assert!(cli.context.confirmation().is_none());
    cli.ok("config rollback");
    assert_eq!(cli.ok("show config"), before);

    // Another applied configuration ends the attempts to roll back. A refused one does not.
    let (mut cli, _folder, before) = stuck();
    let (_other_folder, other) = file("b.yaml", "interfaces:\n  pg0: { mtu: 1300 }\n");
    let (_wrong_folder, wrong) = file("c.yaml", "interfaces:\n  host-nosuchport: {}\n");
    assert!(cli.run(&format!("config apply {wrong} confirm 1")).is_err());
    assert_eq!(attempts(&cli), 1);
    cli.ok(&format!("config apply {other} confirm 1"));
    let another = cli.ok("show config");
    assert_eq!(attempts(&cli), 0);
    cli.expire();
    let back = cli.ok("show config");
    assert!(
        back != another && back != before && !back.contains("pg1"),
        "back to the configuration whose rollback failed: {back}"
    );
    assert!(cli.context.confirmation().is_none());
}

/// If the operator has undone the unconfirmed configuration by hand, its rollback changes nothing, and ends the wait for confirmation.
#[test]
fn a_manually_undone_configuration_needs_no_rollback() {
    let mut cli = Cli::new();
    cli.ok("set interface mtu 1300 pg1");
    let before = cli.ok("show config");
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    cli.ok(&format!("config apply {path} confirm 1"));
    cli.ok("set interface state pg1 up");
    cli.ok("set interface mtu 1300 pg1");
    assert_eq!(cli.ok("show config"), before);
    cli.expire();
    assert!(cli.context.confirmation().is_none());
}

#[test]
fn large_unconfirmed_changes_are_rolled_back() {
    let mut cli = Cli::new();
    cli.ok("ip route add 20.0.0.0/24 via drop count 260000");
    let before = cli.ok("show config");
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    cli.ok(&format!("config apply {path} confirm 1"));
    cli.expire();
    assert!(cli.ok("show config") == before, "the routes are there again");
}

#[test]
fn a_change_before_the_confirmation_gets_one_warning() {
    let mut cli = Cli::new();
    let (_folder, path) =
        file("a.yaml", "interfaces:\n  pg0: { addresses: [ 10.0.0.1/24 ] }\n  pg1: { mtu: 1300 }\n");
    cli.ok(&format!("config apply {path} confirm 5"));
    let told = cli.ok("ip route add 10.9.0.0/16 via 10.0.0.2");
    assert!(told.starts_with("! the applied configuration awaits confirmation"), "{told}");
    assert_eq!(cli.ok("show version"), cli.ok("show version"), "the warning is given once");
    cli.ok("config confirm");
    assert_eq!(cli.ok("ip route del 10.9.0.0/16 via 10.0.0.2"), "");
}

#[test]
fn an_unconfirmed_start_file_is_reported_until_it_is_saved() {
    let mut cli = Cli::new();
    let (_folder, path) = file("start.yaml", TWO_PORTS);
    cli.context.startup_config = Some(path.clone().into());
    let said = cli.ok(&format!("config apply {path} confirm 5"));
    assert!(said.contains("! the router starts from this file"), "{said}");
    assert!(cli.context.degraded().is_empty());
    cli.context.expire_confirmation();
    cli.look_at_confirmation();
    let degraded = cli.context.degraded();
    assert!(degraded[0].contains("start.yaml still contains the unconfirmed configuration"), "{degraded:?}");
    // Saving to another file does not end the report.
    let (_folder, other) = file("other.yaml", TWO_PORTS);
    cli.ok(&format!("config save {other}"));
    assert_eq!(cli.context.degraded().len(), 1);
    cli.ok("config save");
    assert!(cli.context.degraded().is_empty());
}

/// A rollback of an unconfirmed configuration undoes later changes, too, but not those after the generation that its client names.
#[test]
fn a_rollback_with_a_generation_undoes_no_later_change() {
    let mut cli = Cli::new();
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    cli.ok(&format!("config apply {path} confirm 1"));
    let known = cli.context.journal.generation();
    let early = cli.context.roll_back(None, false, Some(known - 1)).err().map(|e| e.to_string());
    assert!(
        early.as_ref().is_some_and(|e| e.contains(&format!("has generation {known}, not {}", known - 1))),
        "{early:?}"
    );
    for (expected, undone) in [(Some(known), false), (None, true)] {
        let mut back = cli.context.roll_back(None, false, expected).unwrap_or_else(|e| panic!("{e}"));
        cli.ok("create loopback interface");
        let ended = loop {
            match back.step(&mut cli.context, &mut Vec::new()) {
                Ok(Go::Done) => break Ok(()),
                Err(e) => break Err(e.to_string()),
                Ok(_) => {}
            }
        };
        assert_eq!(ended.is_ok(), undone, "{ended:?}");
        assert_eq!(cli.ok("show config").contains("loopback"), !undone);
        assert_eq!(cli.context.confirmation().is_none(), undone);
    }
}

/// A rollback that has to wait does not undo changes that were made meanwhile.
#[test]
fn a_rollback_is_of_the_changes_that_its_client_knew() {
    let mut cli = Cli::new();
    cli.ok("ip route add 20.0.0.0/24 via 10.0.0.2");
    let begin = |cli: &mut Cli, line: &str| {
        cli.registry.run(&mut cli.context, line, Call::default()).unwrap().job.unwrap()
    };
    let mut routes = begin(&mut cli, "ip route add 30.0.0.0/24 via 10.0.0.2 count 20000");
    let mut rollback = begin(&mut cli, "config rollback");
    assert!(matches!(rollback.step(&mut cli.context, &mut String::new()), Step::After(_)), "it waits");
    while !matches!(routes.step(&mut cli.context, &mut String::new()), Step::Done) {}
    drop(routes);
    let told = loop {
        match rollback.step(&mut cli.context, &mut String::new()) {
            Step::Failed(e) => break e.to_string(),
            Step::Done => panic!("it rolled back another change"),
            _ => {}
        }
    };
    assert!(told.starts_with("nothing was rolled back: "), "{told}");
    assert_eq!(cli.ok("show config").matches("ip route add").count(), 20_001);
    cli.ok("config rollback");
    assert_eq!(cli.ok("show config").matches("ip route add").count(), 1);
}
