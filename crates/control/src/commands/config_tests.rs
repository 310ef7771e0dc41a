//! The whole configuration: apply, save, show.

use std::net::Ipv4Addr;

use crate::app::{Context, Go, Terms, Work};
use crate::cli::{Call, Job, Role, Step};
use crate::intent::random_tests::state;
use crate::testing::Cli;

/// Creates a file in a folder of its own. Dropping the folder removes both.
pub(crate) fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path.display().to_string())
}

pub(super) const TWO_PORTS: &str =
    "interfaces:\n  pg0: { addresses: [ 10.0.0.1/24 ] }\n  pg1: { mtu: 1400 }\n";

#[test]
fn control_characters_are_refused() {
    let mut cli = Cli::new();
    for word in ["\x1b[31mred", "\u{9b}2J", "\u{202e}x", "\u{2066}x", "a\tb"] {
        for line in [
            format!("create memif socket id 7 filename \"/run/{word}\""),
            format!("create pcap interface pcap0 tx \"/tmp/{word}\""),
            format!("nonsense \"{word}\""),
        ] {
            let refused = cli.run(&line).unwrap_err().render();
            assert!(!refused.replace(['\n', '\t'], "").contains(model::visible::is_hidden), "{refused:?}");
            assert!(refused.contains("cannot be part of a word"), "{refused}");
        }
        let escaped: String = word.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        for yaml in [
            format!("memif-sockets: {{ 7: \"/run/{escaped}\" }}\n"),
            format!("interfaces: {{ \"{escaped}\": {{ mtu: 1400 }} }}\n"),
            format!("\"{escaped}\": 1\ninterfaces: {{}}\n"),
        ] {
            let (_folder, path) = file("x.yaml", &yaml);
            let refused = cli.run(&format!("config apply {path}")).unwrap_err().render();
            assert!(!refused.replace(['\n', '\t'], "").contains(model::visible::is_hidden), "{refused:?}");
            assert!(refused.contains("cannot be part of a word"), "{refused}");
        }
    }
    // In an error, such a file name is escaped.
    let (_folder, path) = file("\u{202e}x.yaml", "interfaces: { nothing: {} }\n");
    assert!(cli.run(&format!("config apply {path}")).unwrap_err().render().contains("U+202E"));
}

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
    // Errors of syntax and of meaning have their places.
    let (_folder, path) = file("b.yaml", "interfaces:\n  pg0: { mtu: x }\n  pg9: { adresses: [] }\n");
    let told = cli.run(&format!("config apply {path}")).unwrap_err().to_string();
    assert!(told.contains("b.yaml:2:15: ") && told.contains("b.yaml:3:10: "), "{told}");
    let (_folder, path) = file(
        "c.yaml",
        "interfaces:\n  pg0: { addresses: [ 10.0.0.1/24 ] }\n  pg1: { addresses: [ 10.0.0.2/24 ] }\n",
    );
    let told = cli.run(&format!("config apply {path}")).unwrap_err().to_string();
    assert!(
        told.contains("c.yaml:2:21: ") && told.contains("c.yaml:3:21: ") && told.contains("no changes made"),
        "{told}"
    );
    assert!(cli.run("config apply /no/such/file.yaml").is_err());
    assert!(cli.ok("show config").contains("mtu 1400 pg1"));
}

impl Cli {
    /// Lets the deadline of the unconfirmed configuration (for the confirmation, or for the next attempt to roll back) pass, and waits for
    /// the rollback to end.
    pub(super) fn expire(&mut self) {
        self.context.expire_confirmation();
        self.look_at_confirmation();
    }
}

/// The header of a pcap file without packets.
pub(super) const NO_PACKETS: [u8; 24] =
    [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];

/// A relative path becomes absolute. A configuration file accepts no relative path, and the meaning of a relative path in a file of
/// commands would depend on the directory in which the router was started.
#[test]
fn a_file_without_a_folder_is_one_of_the_routers_own_folder() {
    let mut cli = Cli::new();
    cli.ok("create pcap interface pcap0 tx relative-of-a-test.pcap");
    let here = std::env::current_dir().unwrap().join("relative-of-a-test.pcap");
    std::fs::remove_file(&here).unwrap();
    assert!(cli.ok("show config").contains(&format!("pcap0 tx {} ", here.display())));
    let yaml = cli.ok("show config yaml");
    let wanted = crate::config::read(&yaml, "f", &crate::testing::catalog());
    let faults = wanted.faults(&cli.context.system.abilities);
    assert!(faults.is_empty(), "{faults:#?}");
    // A folder's name can have characters that no line of a file can.
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("a\nb");
    std::fs::create_dir(&directory).unwrap();
    let call = Call { directory, ..Call::default() };
    let mut job = cli
        .registry
        .run(&mut cli.context, "create pcap interface pcap1 tx b.pcap", call)
        .unwrap()
        .job
        .unwrap();
    let told = loop {
        match job.step(&mut cli.context, &mut String::new()) {
            Step::Failed(e) => break e.to_string(),
            Step::Done => panic!("accepted"),
            _ => {}
        }
    };
    assert!(told.contains("cannot be saved"), "{told}");
}

#[test]
fn two_devices_do_not_record_to_one_file() {
    let mut cli = Cli::new();
    let folder = tempfile::tempdir().unwrap();
    let to = |name: &str| format!("tx {}", folder.path().join(name).display());
    cli.ok(&format!("create pcap interface pcap0 {}", to("a.pcap")));
    let line = format!("create pcap interface pcap1 {}", to("./a.pcap"));
    assert!(cli.run(&line).unwrap_err().to_string().starts_with("pcap0 already records to "));
    cli.ok(&format!("create pcap interface pcap1 {}", to("b.pcap")));
    cli.ok("delete pcap interface pcap0");
    cli.ok(&format!("create pcap interface pcap2 {}", to("a.pcap")));
}

/// A file to replay is read only once: the device uses what another thread has read, even if the file is gone by then.
#[test]
fn a_replayed_file_is_read_by_another_thread() {
    let mut cli = Cli::new();
    let (folder, path) = file("a.yaml", "interfaces:\n  pcap0: { pcap: { rx: FILE } }\n");
    let replayed = folder.path().join("replayed.pcap");
    let text = std::fs::read_to_string(&path).unwrap().replace("FILE", &replayed.display().to_string());
    std::fs::write(&path, text).unwrap();
    let told = cli.run(&format!("config apply {path}")).unwrap_err().to_string();
    assert!(told.starts_with(&format!("{path}:2:3: ")) && told.contains("cannot replay"), "{told}");
    let line = format!("create pcap interface pcap0 rx {}", replayed.display());
    assert!(cli.refused(&line, &replayed.display().to_string()).contains("cannot replay"));

    for line in [line, format!("config apply {path}")] {
        std::fs::write(&replayed, NO_PACKETS).unwrap();
        let mut job = run_until(&mut cli, &line, |_| true);
        // The device uses the data that was read: the file is removed meanwhile.
        let mut gone = false;
        loop {
            match job.step(&mut cli.context, &mut String::new()) {
                Step::Done => break,
                Step::Failed(e) => panic!("{e}"),
                _ => {}
            }
            if !gone && !cli.context.system.prepared.is_empty() {
                std::fs::remove_file(&replayed).unwrap();
                gone = true;
            }
        }
        assert!(cli.ok("show config").contains("create pcap interface pcap0"));
        assert!(cli.context.system.prepared.is_empty());
        cli.ok("config rollback");
    }
}

#[test]
fn a_dry_run_shows_new_indices_and_interrupted_interfaces() {
    let mut cli = Cli::new();
    cli.ok("create sub-interfaces pg1 7");
    let with = |pg1: &str, more: &str| {
        let text =
            format!("interfaces:\n  pg0: {{}}\n  pg1: {{ {pg1} sub-interfaces: {{ 7: {{}} }} }}\n{more}");
        file("a.yaml", &text)
    };
    let (_folder, path) = with("", "loopbacks:\n  loop3: { index: 42 }\n  loop4: {}\n");
    let would = cli.ok(&format!("config apply {path} dry-run"));
    assert!(
        would.contains("+ create loopback interface instance 3 index 42\n")
            && would.contains("+ create loopback interface instance 4\n")
            && !would.contains('!'),
        "{would}"
    );
    let (_folder, path) = with("index: 9,", "");
    let would = cli.ok(&format!("config apply {path} dry-run"));
    assert!(
        would.contains("+ create packet-generator interface pg1 index 9\n")
            && would.contains("! pg1 is recreated: its traffic stops\n")
            && would.contains("! pg1.7 is recreated: its traffic stops\n")
            && !would.contains("! pg0"),
        "{would}"
    );
}

/// Returns a router with a device that replays `old.pcap`, the file's folder, the path of the empty `a.yaml` in it, and a function for
/// paths of other files there.
fn replaying() -> (Cli, tempfile::TempDir, String, impl Fn(&str) -> String) {
    let mut cli = Cli::new();
    let (folder, path) = file("a.yaml", "");
    let place = folder.path().to_owned();
    let named = move |name: &str| place.join(name).display().to_string();
    for name in ["old.pcap", "new.pcap"] {
        std::fs::write(named(name), NO_PACKETS).unwrap();
    }
    cli.ok(&format!("create pcap interface pcap0 rx {}", named("old.pcap")));
    (cli, folder, path, named)
}

#[test]
fn an_undone_change_does_not_use_its_prepared_device() {
    let (mut cli, _folder, path, named) = replaying();
    std::fs::remove_file(named("old.pcap")).unwrap();
    let text = format!(
        "interfaces:\n  pcap0: {{ pcap: {{ rx: {}, full-speed: true }} }}\n  host-nosuch: {{}}\n",
        named("new.pcap")
    );
    std::fs::write(&path, text).unwrap();
    cli.run(&format!("config apply {path}")).unwrap_err();
    assert!(cli.ok("show config").contains("old.pcap"));
    let device = cli.context.system.router.interface_named("pcap0").unwrap();
    assert!(device.is_absent(), "its file was removed");
}

#[test]
fn a_refused_command_keeps_prepared_devices_of_an_apply() {
    let (mut cli, _folder, path, named) = replaying();
    let text = format!("interfaces:\n  pcap1: {{ pcap: {{ rx: {} }} }}\n", named("new.pcap"));
    std::fs::write(&path, text).unwrap();
    let mut job =
        run_until(&mut cli, &format!("config apply {path}"), |cli| !cli.context.system.prepared.is_empty());
    let told = cli.run(&format!("create pcap interface pcap1 rx {}", named("new.pcap"))).unwrap_err();
    assert!(told.to_string().contains("an apply is running"), "{told}");
    assert!(cli.context.system.prepared.contains_key("pcap1"));
    while !matches!(job.step(&mut cli.context, &mut String::new()), Step::Done) {}
    assert!(cli.ok("show config").contains("create pcap interface pcap1"));
}

#[test]
fn apply_reports_the_interruption_of_recreated_interfaces() {
    let mut cli = Cli::new();
    let apply = |cli: &mut Cli, pg1: &str| {
        let (_folder, path) = file("a.yaml", &format!("interfaces:\n  pg0: {{}}\n  pg1: {{ {pg1} }}\n"));
        cli.ok(&format!("config apply {path}"))
    };
    let interrupted = "pg1 was recreated: traffic was interrupted for ";
    let said = apply(&mut cli, "index: 9");
    assert!(said.contains(interrupted) && !said.contains("pg0 was"), "{said}");
    // No report for an interface that was down, or that was removed for good.
    apply(&mut cli, "index: 9, state: down");
    let said = apply(&mut cli, "index: 7, state: down");
    assert!(
        said.contains("! pg1 is recreated: its traffic stops\n") && !said.contains(interrupted),
        "{said}"
    );
    apply(&mut cli, "index: 7");
    let (_folder, path) = file("a.yaml", "interfaces:\n  pg0: {}\n");
    let said = cli.ok(&format!("config apply {path}"));
    assert!(
        said.contains("- create packet-generator interface pg1") && !said.contains("was recreated"),
        "{said}"
    );
}

#[test]
fn only_ordinary_files_are_read() {
    let mut cli = Cli::new();
    for path in ["/dev/zero", "/dev/null", "/"] {
        let told = cli.run(&format!("config apply {path}")).unwrap_err().to_string();
        assert!(told.contains("it is not an ordinary file"), "{told}");
    }
    let (folder, path) = file("a.yaml", "old\n");
    cli.ok(&format!("config save {path}"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn an_apply_with_an_old_generation_is_refused() {
    let mut cli = Cli::new();
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    let yaml = cli.ok("show config yaml");
    let generation: u64 = yaml.split_whitespace().nth(2).unwrap().parse().unwrap();
    cli.ok("set interface mtu 1200 pg0");
    let told = cli.run(&format!("config apply {path} generation {generation}")).unwrap_err().to_string();
    assert!(told.contains("it was changed"), "{told}");
    cli.ok(&format!("config apply {path} generation {}", generation + 1));
}

/// Creates a file with two ports and `n` routes.
pub(super) fn many_routes(n: u32) -> (tempfile::TempDir, String) {
    let mut text = TWO_PORTS.to_owned() + "routes:\n";
    for n in 0..n {
        text += &format!("  - {{ prefix: 20.{}.{}.0/24, via: 10.0.0.2 }}\n", n / 256, n % 256);
    }
    file("many.yaml", &text)
}

/// Runs slices of a command until `until` returns true. Returns the unfinished job.
pub(super) fn run_until(cli: &mut Cli, line: &str, until: impl Fn(&Cli) -> bool) -> Box<dyn Job<Context>> {
    let answer = cli.registry.run(&mut cli.context, line, Call::default()).unwrap();
    let mut job = answer.job.expect("it takes long");
    while !until(cli) {
        let step = job.step(&mut cli.context, &mut String::new());
        assert!(matches!(step, Step::Again | Step::After(_)), "{step:?}");
    }
    job
}

/// Returns the number of routes in the forwarding table.
fn routes_there(cli: &Cli) -> usize {
    cli.context.system.router.routes::<Ipv4Addr>().iter(0).count()
}

#[test]
fn nothing_is_changed_while_an_apply_runs() {
    let mut cli = Cli::new();
    let (_folder, path) = many_routes(20_000);
    let before = cli.ok("show config");
    let mut job = run_until(&mut cli, &format!("config apply {path}"), |cli| routes_there(cli) > 5000);
    for line in [
        "set interface mtu 1200 pg0",
        "ip route add 30.0.0.0/24 via 10.0.0.2",
        "ip route add 30.0.0.0/24 via 10.0.0.2 count 1000",
        "delete packet-generator interface pg1",
    ] {
        let told = cli.run(line).unwrap_err().to_string();
        assert!(
            told.starts_with("an apply is running (") && told.ends_with("again when it is done"),
            "{told}"
        );
        assert!(!told.contains("(0 %)"), "{told}");
    }
    // Other clients see the old configuration.
    assert_eq!(cli.ok("show config"), before);
    let (_other_folder, other) = file("other.yaml", TWO_PORTS);
    let line = format!("config apply {other} generation 4");
    let mut second = cli.registry.run(&mut cli.context, &line, Call::default()).unwrap().job.unwrap();
    // The file is read, then the second apply waits.
    for _ in 0..1000 {
        let step = second.step(&mut cli.context, &mut String::new());
        assert!(matches!(step, Step::After(_) | Step::Again), "{step:?}");
    }
    let mut said = String::new();
    let end = loop {
        match job.step(&mut cli.context, &mut said) {
            Step::Again | Step::After(_) => {}
            end => break end,
        }
    };
    assert!(matches!(end, Step::Done), "{end:?}");
    assert!(
        said.contains("# ") && said.contains("+ ip route add 20.0.0.0/24 via 10.0.0.2\n"),
        "it reports its progress"
    );
    assert_eq!(cli.ok("show config").matches("ip route").count(), 20_000);
    // The second apply runs after the first one, and expects the earlier generation.
    let told = loop {
        match second.step(&mut cli.context, &mut String::new()) {
            Step::Failed(e) => break e.to_string(),
            Step::Done => panic!("it ignored the generation"),
            _ => {}
        }
    };
    assert!(told.contains("it was changed"), "{told}");
    cli.ok("set interface mtu 1200 pg0");
}

#[test]
fn an_apply_is_rolled_back_if_its_client_disconnects() {
    let mut cli = Cli::new();
    let (_folder, path) = many_routes(20_000);
    let (before, state) = (cli.ok("show config"), state(&mut cli.context.system));
    let job = run_until(&mut cli, &format!("config apply {path}"), |cli| routes_there(cli) > 15_000);
    drop(job);
    let told = cli.run("set interface mtu 1200 pg0").unwrap_err().to_string();
    assert!(told.contains("is running ("), "{told}");
    assert!(cli.context.tidy().is_some());
    let told = cli.run("set interface mtu 1200 pg0").unwrap_err().to_string();
    assert!(told.starts_with("the rollback of an apply is running ("), "{told}");
    while cli.context.tidy().is_some() {}
    assert_eq!(cli.ok("show config"), before);
    assert_eq!(crate::intent::random_tests::state(&mut cli.context.system), state);
    // An apply that is interrupted before or soon after its first step changes nothing.
    for stage in 0..3 {
        let answer = cli.registry.run(&mut cli.context, &format!("config apply {path}"), Call::default());
        let mut job = answer.unwrap().job.unwrap();
        let mut again = 0;
        while again < stage {
            again += u32::from(matches!(job.step(&mut cli.context, &mut String::new()), Step::Again));
        }
        drop(job);
        while cli.context.tidy().is_some() {}
        assert_eq!(cli.ok("show config"), before);
        cli.ok("set interface mtu 1200 pg0");
        cli.ok("config rollback");
    }
}

#[test]
fn an_apply_waits_for_a_count_of_routes() {
    let mut cli = Cli::new();
    let (_folder, path) = file("a.yaml", TWO_PORTS);
    let answer = cli.registry.run(
        &mut cli.context,
        "ip route add 30.0.0.0/24 via 10.0.0.2 count 20000",
        Call::default(),
    );
    let mut routes = answer.unwrap().job.unwrap();
    let answer = cli.registry.run(&mut cli.context, &format!("config apply {path}"), Call::default());
    let mut apply = answer.unwrap().job.unwrap();
    let (mut routes_done, mut apply_done) = (false, false);
    while !apply_done {
        if !routes_done {
            routes_done = matches!(routes.step(&mut cli.context, &mut String::new()), Step::Done);
            if routes_done {
                assert_eq!(routes_there(&cli), 20_000 + routes_of_ports());
            }
        }
        apply_done = match apply.step(&mut cli.context, &mut String::new()) {
            Step::Done => true,
            Step::Failed(e) => panic!("{e}"),
            _ => false,
        };
        assert!(routes_done || !apply_done, "the apply did not wait");
    }
    assert!(!cli.ok("show config").contains("ip route"));
    cli.ok("config rollback");
    assert_eq!(cli.ok("show config").matches("ip route").count(), 20_000);
}

/// Returns the number of routes for the addresses of the ports.
fn routes_of_ports() -> usize {
    routes_there(&Cli::new())
}

/// An error of `config apply` that occurs only when a step is executed, here for a missing device, names the place in the file.
#[test]
fn errors_of_an_apply_have_their_place() {
    let mut cli = Cli::new();
    let before = cli.ok("show config");
    let text = format!("{TWO_PORTS}  host-nosuchport:\n    mtu: 1400\n");
    let (_folder, path) = file("a.yaml", &text);
    let told = cli.run(&format!("config apply {path}")).unwrap_err().to_string();
    assert!(
        told.starts_with(&format!("{path}:4:3: "))
            && told.contains("nosuchport")
            && told.contains("no changes made"),
        "{told}"
    );
    assert_eq!(cli.ok("show config"), before);
}

/// Errors show no content of files that are not configurations: the router can read files that its clients cannot.
#[test]
fn the_content_of_other_files_is_not_shown() {
    let mut cli = Cli::new();
    for text in [
        "root:$6$secret:19000:0:99999:7:::\ndaemon:*:19000:0:99999:7:::\n",
        "network:\n  wifis: { secret: { password: secret } }\n",
        "secret: 1\nsecret: 2\n",
        "- secret\n",
        "secret",
        "user: secret\n\tpassword: secret\n",
    ] {
        let (_folder, path) = file("x", text);
        let said = cli.run(&format!("config apply {path}")).unwrap_err().render();
        assert!(said.contains(&path) && !said.contains("secret"), "{text}\n{said}");
    }
    // The errors of a configuration are shown.
    let (_folder, path) = file("x", "interfaces: { pg9: {} }\nnothing: 1\n");
    let said = cli.run(&format!("config apply {path}")).unwrap_err().to_string();
    assert!(said.contains("unknown field \"nothing\""), "{said}");
}

/// All commands that create interfaces take an index, so that the interface keeps its index after a restart.
#[test]
fn all_commands_that_create_interfaces_take_an_index() {
    let registry = crate::testing::registry();
    let all = registry.declarations();
    // A range has no index: "show config" has a line for each of its interfaces.
    let others = ["create memif socket", "create sub-interfaces <interface:interface> <ids:range>"];
    let is_other = |syntax: &str| others.iter().any(|other| syntax.starts_with(other));
    let makes = |syntax: &str| syntax.starts_with("create ") && !is_other(syntax);
    let makes: Vec<_> = all.iter().filter(|(syntax, _)| makes(syntax)).collect();
    assert!(makes.len() > 4);
    for (syntax, _) in makes {
        assert!(syntax.ends_with(" [index <index:u32>]"), "{syntax}");
    }
}

#[test]
fn read_only_clients_see_no_secrets() {
    let mut cli = Cli::new();
    let yaml = "interfaces:\n  memif0/3:\n    state: down\n    memif: { role: slave, secret: hunter2 }\n";
    let (_folder, path) = file("a.yaml", yaml);
    cli.ok(&format!("config apply {path}"));
    for line in ["show config", "show config yaml", "show tech-support"] {
        let call = Call { role: Role::Viewer, ..Call::default() };
        let answer = cli.registry.run(&mut cli.context, line, call).unwrap();
        let (mut text, mut job) = (answer.text, answer.job);
        while let Some(running) = &mut job {
            if matches!(running.step(&mut cli.context, &mut text), Step::Done | Step::Failed(_)) {
                job = None;
            }
        }
        assert!(text.contains("<hidden>") && !text.contains("hunter2"), "{line}: {text}");
        let told = cli.ok(line);
        assert_eq!(told.contains("hunter2"), line != "show tech-support", "{told}");
    }
}

/// Commands may lead to states that a file must not ask for. The router still accepts its own configuration.
#[test]
fn a_router_accepts_its_own_configuration_in_every_state() {
    let up = ["create sub-interfaces pg0 5", "set interface state pg0 up", "set interface state pg0.5 up"];
    let two_tags =
        ["create sub-interfaces pg0 5", "create sub-interfaces pg0 6 dot1q 5 inner-dot1q 6 exact-match"];
    for (before, broken, told) in [
        (&up[..], &["set interface state pg0 down"][..], "pg0.5 cannot be up while pg0 is down"),
        (
            &up[..1],
            &["set interface mtu packet 1500 pg0.5", "set interface mtu packet 1400 pg0"],
            "pg0.5 has MTU 1500, but pg0, which carries it, has only 1400",
        ),
        (
            &two_tags[..],
            &["set interface mtu packet 1300 pg0.5", "set interface mtu packet 1400 pg0.6"],
            "pg0.6 has MTU 1400, but the sub-interface of VLAN 5, which carries it, has only 1300",
        ),
    ] {
        let mut cli = Cli::new();
        for line in before {
            cli.ok(line);
        }
        let (_folder, good) = file("good.yaml", &cli.ok("show config yaml"));
        for line in broken {
            cli.ok(line);
        }
        let (_folder, own) = file("own.yaml", &cli.ok("show config yaml"));
        let said = cli.ok(&format!("config apply {own}"));
        assert!(said.starts_with("! ") && said.contains(told), "{said}");
        // A router that does not break the rule refuses a file that does.
        cli.ok(&format!("config apply {good}"));
        let refused = cli.run(&format!("config apply {own}")).unwrap_err().render();
        assert!(refused.contains(told), "{refused}");
        // A start accepts its file.
        let terms = Terms { quiet: true, ..Default::default() };
        let mut start = cli.context.apply(own.into(), terms).unwrap();
        while start.step(&mut cli.context, &mut Vec::new()).unwrap() != Go::Done {}
    }
}

/// A document causes a warning for a next hop outside all connected networks. The networks of devices and of sub-interfaces both count.
#[test]
fn a_document_warns_of_next_hops_that_nothing_covers() {
    let mut cli = Cli::new();
    let yaml = "interfaces:\n  pg0: { addresses: [ 10.0.0.1/24 ] }\n  pg1: { sub-interfaces: { 7: { addresses: [ 10.7.0.1/24 ] } } }\nroutes:\n\
                - { prefix: 10.9.0.0/16, via: 10.0.0.2 }\n- { prefix: 10.10.0.0/16, via: 10.7.0.2 }\n\
                - { prefix: 10.11.0.0/16, via: 10.8.0.2 }\n";
    let (_folder, path) = file("a.yaml", yaml);
    let would = cli.ok(&format!("config apply {path} dry-run"));
    let warned: Vec<&str> = would.lines().filter(|line| line.contains("unreachable")).collect();
    assert_eq!(warned.len(), 1, "{would}");
    assert!(warned[0].contains("10.8.0.2, the next hop of 10.11.0.0/16"), "{would}");
}

/// A save that has to wait for an apply does not write its unconfirmed configuration.
#[test]
fn a_save_that_waits_writes_no_unconfirmed_configuration() {
    let mut cli = Cli::new();
    let (folder, path) = many_routes(20_000);
    let saved = folder.path().join("saved.yaml");
    let mut apply =
        run_until(&mut cli, &format!("config apply {path} confirm 60s"), |cli| routes_there(cli) > 10_000);
    let line = format!("config save {}", saved.display());
    let mut save = cli.registry.run(&mut cli.context, &line, Call::default()).unwrap().job.unwrap();
    assert!(matches!(save.step(&mut cli.context, &mut String::new()), Step::After(_)), "it waits");
    while !matches!(apply.step(&mut cli.context, &mut String::new()), Step::Done) {}
    drop(apply);
    let told = loop {
        match save.step(&mut cli.context, &mut String::new()) {
            Step::Failed(e) => break e.to_string(),
            Step::Done => panic!("it saved a configuration that may be rolled back"),
            _ => {}
        }
    };
    assert!(told.contains("the applied configuration is not confirmed") && !saved.exists(), "{told}");
}
