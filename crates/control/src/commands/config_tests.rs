//! The configuration as a whole: applied, confirmed, taken back, saved.

use super::tests::Cli;

/// A file in a folder of its own, which goes with the folder.
fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path.display().to_string())
}

const TWO_PORTS: &str = "interfaces:\n  pg0: { addresses: [ 10.0.0.1/24 ] }\n  pg1: { mtu: 1400 }\n";

#[test]
fn a_file_is_applied_whole_or_not_at_all() {
    let mut cli = Cli::new();
    cli.ok("ip route add 10.9.0.0/16 via 10.0.0.2");
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    let before = cli.ok("show config");
    let would = cli.ok(&format!("config apply {path} dry-run"));
    assert_eq!(would, "- ip route add 10.9.0.0/16 via 10.0.0.2\n+ set interface mtu 1400 pg1\n");
    assert_eq!(cli.ok("show config"), before);
    assert_eq!(cli.ok(&format!("config apply {path}")), would);
    assert_eq!(cli.ok(&format!("config apply {path} dry-run")), "nothing would change\n");
    assert!(cli.ok("show config yaml").contains("  pg1:\n    mtu: 1400\n"));
    // What is wrong with its form, and with what it means, both with the place.
    let (_folder, path) = file("b.yaml", "interfaces:\n  pg0: { mtu: x }\n  pg9: { adresses: [] }\n");
    let told = cli.run(&format!("config apply {path}")).unwrap_err().to_string();
    assert!(told.contains("b.yaml:2:15: ") && told.contains("b.yaml:3:10: "), "{told}");
    let (_folder, path) = file(
        "c.yaml",
        "interfaces:\n  pg0: { addresses: [ 10.0.0.1/24 ] }\n  pg1: { addresses: [ 10.0.0.2/24 ] }\n",
    );
    let told = cli.run(&format!("config apply {path}")).unwrap_err().to_string();
    assert!(
        told.contains("c.yaml:2:21: ")
            && told.contains("c.yaml:3:21: ")
            && told.contains("nothing was changed"),
        "{told}"
    );
    assert!(cli.run("config apply /no/such/file.yaml").is_err());
    assert!(cli.ok("show config").contains("mtu 1400 pg1"));
}

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
    // The rollback is a change as well.
    cli.ok("config rollback 4");
    assert_eq!(cli.ok("show config"), before);
    cli.refused("config rollback 0", "0");
    cli.refused("config rollback 99", "99");
    cli.ok("config rollback");
    assert!(cli.ok("show config").contains("10.9.0.0/16") && !cli.ok("show config").contains("pg1"));
    // Many routes by one command are one change; of too many only that there was one is known.
    let before = cli.ok("show config");
    cli.ok("ip route add 10.9.0.0/16 via drop count 3");
    let back = cli.ok("config rollback");
    assert!(
        back.contains("- ip route add 10.11.0.0/16 via drop\n") && cli.ok("show config") == before,
        "{back}"
    );
    cli.ok("ip route add 20.0.0.0/24 via drop count 300000");
    assert!(cli.refused("config rollback 1", "1").contains("no change is remembered"));
}

#[test]
fn what_is_not_confirmed_goes_back() {
    let mut cli = Cli::new();
    let before = cli.ok("show config");
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    assert!(cli.run("config confirm").is_err());
    let said = cli.ok(&format!("config apply {path} confirm 1"));
    assert!(said.contains("goes back in 1 minutes unless confirmed"), "{said}");
    cli.ok("ip route add 10.9.0.0/16 via 10.0.0.2");
    assert!(
        cli.run(&format!("config apply {path}")).unwrap_err().to_string().contains("waits to be confirmed")
    );
    cli.context.look_at_confirmation();
    assert_ne!(cli.ok("show config"), before, "there is time");
    cli.context.unconfirmed.as_mut().unwrap().expire();
    cli.context.look_at_confirmation();
    assert_eq!(cli.ok("show config"), before);
    // Confirmed, it stays; and without a number what waits is what goes back.
    cli.ok(&format!("config apply {path} confirm 1"));
    cli.ok("config confirm");
    cli.context.look_at_confirmation();
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
    cli.context.unconfirmed.as_mut().unwrap().expire();
    cli.context.look_at_confirmation();
    assert_eq!(cli.ok("show config"), before);
}

#[test]
fn however_much_was_changed_it_goes_back() {
    let mut cli = Cli::new();
    cli.ok("ip route add 20.0.0.0/24 via drop count 260000");
    let before = cli.ok("show config");
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    cli.ok(&format!("config apply {path} confirm 1"));
    cli.context.unconfirmed.as_mut().unwrap().expire();
    cli.context.look_at_confirmation();
    assert!(cli.ok("show config") == before, "the routes are there again");
}

#[test]
fn only_ordinary_files_are_read_and_no_link_is_written_through() {
    let mut cli = Cli::new();
    for path in ["/dev/zero", "/dev/null", "/"] {
        let told = cli.run(&format!("config apply {path}")).unwrap_err().to_string();
        assert!(told.contains("no ordinary file"), "{told}");
    }
    let (folder, path) = file("a.yaml", "old\n");
    cli.ok(&format!("config save {path}"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing lies about");
}

#[test]
fn the_loser_of_a_conflict_is_told() {
    let mut cli = Cli::new();
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    let yaml = cli.ok("show config yaml");
    let generation: u64 = yaml.split_whitespace().nth(2).unwrap().parse().unwrap();
    cli.ok("set interface mtu 1200 pg0");
    let told = cli.run(&format!("config apply {path} generation {generation}")).unwrap_err().to_string();
    assert!(told.contains("somebody has changed it"), "{told}");
    cli.ok(&format!("config apply {path} generation {}", generation + 1));
}

#[test]
fn what_is_saved_makes_the_same_again() {
    let mut cli = Cli::new();
    cli.ok("create sub-interfaces pg0 100 dot1ad 7 inner-dot1q 8");
    cli.ok("ip route add 10.9.0.0/16 via 10.0.0.2 pg0");
    let config = cli.ok("show config");
    let (folder, yaml) = file("a.yaml", "old\n");
    std::fs::set_permissions(&yaml, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    cli.ok(&format!("config save {yaml}"));
    let commands = folder.path().join("a.conf").display().to_string();
    cli.ok(&format!("config save {commands}"));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&yaml).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o640, "the permissions stay");
    let saved = std::fs::read_to_string(&commands).unwrap();
    assert!(saved.starts_with('#') && saved.ends_with(&config), "{saved}");
    let mut again = Cli::new();
    again.ok("delete packet-generator interface pg0");
    again.ok(&format!("config apply {yaml}"));
    assert_eq!(again.ok("show config"), config);
    // A file that cannot be written is as it was, and nothing lies about.
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let before = files();
    cli.refused("config save /dev/full/x.yaml", "/dev/full/x.yaml");
    assert_eq!(files(), before);
}
