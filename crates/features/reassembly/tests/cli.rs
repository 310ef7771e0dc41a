//! Tests the limits of reassembly in commands and in configuration files.

use control::testing::Cli;

fn cli() -> Cli {
    Cli::with(&[&reassembly::Feature])
}

#[test]
fn limits_are_set_shown_and_saved() {
    let mut cli = cli();
    assert!(cli.ok("show ip4-sv-reassembly").contains("timeout 3 s, first fragments received: 0\n"));
    cli.ok("set ip4-sv-reassembly max-reassemblies 100 max-reassembly-length 9");
    let line = "set ip4-sv-reassembly max-reassemblies 100 max-reassembly-length 9\n";
    assert!(cli.ok("show config").contains(line));
    let saved = cli.ok("show config yaml");
    let entry = "settings:\n  ip4-sv-reassembly:\n    max-reassemblies: 100\n    max-reassembly-length: 9\n";
    assert!(saved.contains(entry), "{saved}");
    assert_eq!(cli.json("show ip4-sv-reassembly details")["max_datagrams"], 100);
    assert!(cli.ok("show tech-support").contains("=== show ip4-sv-reassembly\ndatagrams 0 of 100,"));
    cli.ok("set ip4-sv-reassembly default");
    assert!(!cli.ok("show config").contains("ip4-sv-reassembly"));
    let shown = cli.json("show ip4-sv-reassembly");
    // One in eight of 64 buffers.
    assert_eq!((&shown["max_datagrams"], &shown["max_buffers"]), (&8192.into(), &8.into()));
}

#[test]
fn limits_out_of_range_are_refused_with_their_place() {
    let mut cli = cli();
    for (line, place) in [
        ("set ip4-sv-reassembly max-reassembly-length 257 timeout 9", "257"),
        ("set ip4-sv-reassembly max-buffers 11", "11"),
        ("set ip4-sv-reassembly timeout 0", "0"),
    ] {
        let message = cli.refused(line, place);
        // The message names the limits of the command's grammar, or those of this router.
        assert!(message.contains(": 1 to ") || message.contains("from 1 to "), "{message}");
    }
}
