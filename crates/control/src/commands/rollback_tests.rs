//! What is taken back: by hand, because nobody confirmed it, and when that fails.

use super::config_tests::*;
use crate::testing::Cli;

#[test]
fn changes_are_taken_back() {
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
    // The next one goes further back, not forward again. What it would do is shown.
    let would = cli.ok("config diff rollback 2");
    assert!(
        would.contains("- ip route add 10.9.0.0/16") && would.contains("+ create packet-generator"),
        "{would}"
    );
    assert_eq!(cli.ok("config rollback 2"), would);
    assert_eq!(cli.ok("show config"), before);
    cli.refused("config rollback 0", "0");
    assert!(cli.refused("config rollback 99", "99").contains("the last 1 to 5 changes"));
    let history = cli.json("show config history 3");
    assert_eq!(history.as_array().unwrap().len(), 3);
    assert_eq!(history[0]["changed"], "rollback of changes 7, 6");
    assert_eq!((&history[0]["kind"], &history[0]["back"]), (&"rollback".into(), &serde_json::Value::Null));
    assert_eq!(history[2]["taken_back_by"], 9);
    assert_eq!(history[2]["command"], "set interface mtu 1300 pg0");
    // Many routes by one command are one change; of too many only that there was one is known.
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
fn what_is_not_confirmed_goes_back() {
    let mut cli = Cli::new();
    let before = cli.ok("show config");
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    assert!(cli.run("config confirm").is_err());
    let said = cli.ok(&format!("config apply {path} confirm 1"));
    assert!(said.contains("goes back in 1 minute unless confirmed"), "{said}");
    cli.ok("ip route add 10.9.0.0/16 via 10.0.0.2");
    assert!(
        cli.run(&format!("config apply {path}")).unwrap_err().to_string().contains("waits to be confirmed")
    );
    // What goes back by itself is not saved: a restart would bring it back.
    let saved = std::path::Path::new(&path).with_file_name("saved.yaml");
    let told = cli.run(&format!("config save {}", saved.display())).unwrap_err().to_string();
    assert!(told.contains("config confirm, or config rollback") && !saved.exists(), "{told}");
    cli.look_at_confirmation();
    assert_ne!(cli.ok("show config"), before, "there is time");
    cli.expire();
    assert_eq!(cli.ok("show config"), before);
    // Confirmed, it stays; and without a number what waits is what goes back.
    cli.ok(&format!("config apply {path} confirm 1"));
    cli.ok("config confirm");
    cli.look_at_confirmation();
    assert_ne!(cli.ok("show config"), before);
    cli.ok("config rollback");
    cli.ok(&format!("config apply {path} confirm 1"));
    cli.ok("ip route add 10.9.0.0/16 via 10.0.0.2");
    cli.ok("config rollback");
    assert_eq!(cli.ok("show config"), before);
    assert!(cli.run("config confirm").is_err());
    cli.refused(&format!("config apply {path} confirm 0"), "0");
    // To take back a change that was made since leaves it to be confirmed.
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
            said.ends_with(&format!("goes back in {words} unless confirmed: config confirm\n")),
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

/// A device whose file is gone stands for every device that cannot be opened.
#[test]
fn the_way_back_does_not_end_at_a_device_that_is_gone() {
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
    assert!(cli.ok("show interface pcap0").contains("down, no device"));
    assert_eq!(cli.context.degraded(), ["pcap0 is without its device"]);
    // An operator who goes back hears of it; what goes forward is refused as ever, and so is a copy of it.
    cli.ok(&format!("config apply {path}"));
    assert!(cli.ok("config rollback").ends_with("! pcap0 is without its device: it waits for that\n"));
    assert!(cli.run(&format!("create pcap interface pcap1 rx {}", replayed.display())).is_err());
    let saved = folder.path().join("saved.yaml");
    assert!(cli.ok(&format!("config save {}", saved.display())).contains("! pcap0 is without its device"));
    std::fs::write(&replayed, NO_PACKETS).unwrap();
    cli.context.system.reopen_devices();
    assert_eq!(absent(&mut cli), false);
    assert_eq!(cli.json("show interface pcap0")[0]["mtu_bytes"], 9000, "the device's own");
    assert!(cli.context.degraded().is_empty());
}

/// Also one whose change is made by a job, after the command itself.
#[test]
fn who_changes_something_meanwhile_is_told_that_it_goes_back_and_nobody_else() {
    let mut cli = Cli::new();
    let (folder, path) = file("a.yaml", TWO_PORTS);
    let replayed = folder.path().join("replayed.pcap");
    std::fs::write(&replayed, NO_PACKETS).unwrap();
    cli.ok(&format!("config apply {path} confirm 1"));
    for line in
        ["create loopback interface".into(), format!("create pcap interface pcap0 rx {}", replayed.display())]
    {
        let said = cli.ok(&line);
        assert!(said.contains("this goes back with it in"), "{line}: {said}");
        assert!(!cli.ok("show version").contains("goes back"), "{line}");
    }
}

/// A router whose configuration should have gone back, which an interface that nobody knows of keeps from it.
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

/// What is in the way of [`stuck`] goes.
fn unstick(cli: &mut Cli) {
    let index = cli.context.system.index("pg1").unwrap();
    cli.context.system.router.remove_interface(index).unwrap();
}

#[test]
fn what_cannot_be_taken_back_is_tried_again_until_it_can() {
    let (mut cli, _folder, before) = stuck();
    let history = cli.ok("show config history");
    assert!(
        history.contains("should have gone back to generation 5 unless confirmed; attempt 1 failed")
            && history.contains("there is an interface pg1 already"),
        "{history}"
    );
    assert!(cli.context.degraded()[0].contains("could not be taken back: there is an interface pg1"));
    cli.expire();
    assert_eq!(cli.context.vain_ways_back().0, 2);
    // Not before its time.
    unstick(&mut cli);
    cli.look_at_confirmation();
    assert_ne!(cli.ok("show config"), before);
    cli.expire();
    assert_eq!(cli.ok("show config"), before);
    assert!(cli.context.degraded().is_empty() && !cli.context.awaits_confirmation());
}

#[test]
fn what_cannot_be_taken_back_stays_if_an_operator_says_so() {
    let (mut cli, _folder, before) = stuck();
    let now = cli.ok("show config");
    cli.ok("config confirm");
    unstick(&mut cli);
    cli.look_at_confirmation();
    assert_eq!(cli.ok("show config"), now);
    assert!(!cli.context.awaits_confirmation());
    cli.ok("config rollback");
    assert_eq!(cli.ok("show config"), before);

    // Another one takes its place; one that is refused does not.
    let (mut cli, _folder, before) = stuck();
    let (_other_folder, other) = file("b.yaml", "interfaces:\n  pg0: { mtu: 1300 }\n");
    let (_wrong_folder, wrong) = file("c.yaml", "interfaces:\n  host-nosuchport: {}\n");
    assert!(cli.run(&format!("config apply {wrong} confirm 1")).is_err());
    assert_eq!(cli.context.vain_ways_back().0, 1);
    cli.ok(&format!("config apply {other} confirm 1"));
    let another = cli.ok("show config");
    assert_eq!(cli.context.vain_ways_back().0, 0);
    cli.expire();
    let back = cli.ok("show config");
    assert!(
        back != another && back != before && !back.contains("pg1"),
        "to what could not be taken back: {back}"
    );
    assert!(!cli.context.awaits_confirmation());
}

/// Nothing is left to take back: so nothing waits any more.
#[test]
fn what_was_taken_back_by_hand_needs_no_confirmation_when_its_time_is_over() {
    let mut cli = Cli::new();
    cli.ok("set interface mtu 1300 pg1");
    let before = cli.ok("show config");
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    cli.ok(&format!("config apply {path} confirm 1"));
    cli.ok("set interface state pg1 up");
    cli.ok("set interface mtu 1300 pg1");
    assert_eq!(cli.ok("show config"), before);
    cli.expire();
    assert!(!cli.context.awaits_confirmation());
}

#[test]
fn however_much_was_changed_it_goes_back() {
    let mut cli = Cli::new();
    cli.ok("ip route add 20.0.0.0/24 via drop count 260000");
    let before = cli.ok("show config");
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    cli.ok(&format!("config apply {path} confirm 1"));
    cli.expire();
    assert!(cli.ok("show config") == before, "the routes are there again");
}

#[test]
fn who_changes_what_waits_to_be_confirmed_is_told() {
    let mut cli = Cli::new();
    let (_folder, path) =
        file("a.yaml", "interfaces:\n  pg0: { addresses: [ 10.0.0.1/24 ] }\n  pg1: { mtu: 1300 }\n");
    cli.ok(&format!("config apply {path} confirm 5"));
    let told = cli.ok("ip route add 10.9.0.0/16 via 10.0.0.2");
    assert!(told.starts_with("! what was applied before waits to be confirmed"), "{told}");
    assert_eq!(cli.ok("show version"), cli.ok("show version"), "it is told once");
    cli.ok("config confirm");
    assert_eq!(cli.ok("ip route del 10.9.0.0/16 via 10.0.0.2"), "");
}

#[test]
fn a_start_that_nobody_confirmed_is_told_of_until_it_is_mended() {
    let mut cli = Cli::new();
    let (_folder, path) = file("start.yaml", TWO_PORTS);
    cli.context.startup_config = Some(path.clone().into());
    let said = cli.ok(&format!("config apply {path} confirm 5"));
    assert!(said.contains("! the router starts from this file"), "{said}");
    assert!(cli.context.degraded().is_empty());
    cli.context.unconfirmed.as_mut().unwrap().expire();
    cli.look_at_confirmation();
    let degraded = cli.context.degraded();
    assert!(
        degraded[0].starts_with("the router starts from ") && degraded[0].contains("start.yaml"),
        "{degraded:?}"
    );
    // Another file says nothing about this one.
    let (_folder, other) = file("other.yaml", TWO_PORTS);
    cli.ok(&format!("config save {other}"));
    assert_eq!(cli.context.degraded().len(), 1);
    cli.ok("config save");
    assert!(cli.context.degraded().is_empty());
}
