//! 294 commands of VPP's guides, as operators who know VPP type them, in the order in which they were pasted into
//! Volley. Each has an expected outcome.

use control::cli::CliError;
use control::commands::foreign::all;
use control::testing::Cli;
use net::feature::Instead;

/// One command per line: the expected outcome, whether it needs a Linux interface, and the command, separated by
/// tabs.
const TYPED: &str = include_str!("typed.tsv");
/// The interfaces in the commands of the list, each with the packet-generator interface that replaces it here.
const INTERFACES: [(&str, &str); 2] = [("host-eth1", "pg1"), ("host-eth2", "pg2")];

/// Returns the outcome of a command: `runs`, `form` (refused with Volley's form), `not yet`, or `refused` for another
/// reason.
fn outcome(result: &Result<String, CliError>) -> &'static str {
    match result.as_ref().map_err(ToString::to_string) {
        Ok(_) => "runs",
        Err(why) if why.starts_with("unknown command; ") => "form",
        Err(why) if why.contains("not supported yet") => "not yet",
        Err(_) => "refused",
    }
}

/// Returns a router with the interfaces of the list.
fn router() -> Cli {
    let mut cli = Cli::with(volley::features::ALL);
    // The list creates an interface with this name.
    cli.ok("delete packet-generator interface pg0");
    cli.ok("create packet-generator interface pg2");
    cli.ok("set interface state pg2 up");
    cli.ok("set interface ip address pg1 10.0.1.1/24");
    cli.ok("set interface ip address pg2 10.0.2.1/24");
    cli
}

#[test]
fn commands_of_vpp_guides_have_the_expected_outcome() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().display().to_string();
    let (mut cli, mut faults, mut count) = (router(), String::new(), 0);
    for line in TYPED.lines() {
        let [expected, needs, command] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        count += 1;
        assert!(["any", "linux"].contains(&needs), "{line}");
        if needs == "linux" {
            // Commands for Linux interfaces run in the scenario of VPP's guides, not here.
            continue;
        }
        let command = INTERFACES.iter().fold(command.to_owned(), |c, (of, here)| c.replace(of, here));
        let command =
            command.replace("/run/volley", &folder).replace("file x.pcap", &format!("file {folder}/x.pcap"));
        let result = cli.run(&command);
        let became = outcome(&result);
        if became != expected {
            let said = result.map_or_else(|error| error.to_string(), |text| text.lines().take(2).collect());
            faults += &format!("{count}\t{became}\t{command}\t({expected}) {said}\n");
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
    assert_eq!(count, 294);
}

/// Returns the beginning of a command, with a sample word in place of each argument.
fn sample(beginning: &str) -> String {
    let word = |word: &str| {
        match word.split_once(':').map(|(_, kind)| kind.trim_end_matches('>')) {
            Some("interface") => "pg1",
            Some("prefix") => "10.1.0.0/16",
            Some("ip") => "10.0.2.2",
            Some("mac") => "02:00:00:00:00:09",
            Some("word") => "eth2",
            Some(_) => "7",
            None => word.split('/').next().unwrap_or_default(),
        }
        .to_owned()
    };
    beginning.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// The table of VPP's missing commands contains no command that exists in Volley. Each entry of the table is found by its own words.
#[test]
fn table_of_foreign_commands_has_no_existing_command() {
    let (cli, mut faults) = (router(), String::new());
    for foreign in all(&cli.context.system.abilities.catalog) {
        let line = sample(foreign.beginning);
        for line in [format!("{line} something more {{ 7 }}"), line] {
            let answer = cli.registry.check(&line, &cli.context).map_err(|error| error.to_string());
            if answer != Err(foreign.refusal()) {
                faults += &format!("{line}: {answer:?}\n");
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

#[test]
fn suggested_commands_exist() {
    let mut cli = router();
    cli.ok("create loopback interface instance 0");
    for foreign in all(&cli.context.system.abilities.catalog) {
        let Instead::Command(form) = foreign.instead else { continue };
        let line = form.replace("INTERFACE", "pg1").replace("TAP", "loop0");
        let answer = cli.registry.check(&line, &cli.context);
        assert!(answer.is_ok(), "{form}: {}", answer.unwrap_err().render());
    }
}
