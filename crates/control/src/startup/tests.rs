//! Tests from text to [`Startup`].

use super::{
    lex::{Source, lex},
    parameters::{Effect, SECTIONS},
    tree::{Block, Item, Section, Word, parse as parse_tree},
    *,
};
use infra::cpu::Policy;
use proptest::prelude::*;
use std::net::SocketAddr;

/// The startup.conf of VPP's packages, with shorter comments.
const PACKAGED: &str = r#"
unix {
  nodaemon
  log /var/log/vpp/vpp.log
  full-coredump
  cli-listen /run/vpp/cli.sock
  gid vpp

  ## run vpp in the interactive mode
  # interactive
}

api-trace {
## This stanza controls binary API tracing.
  on
}

api-segment {
  gid vpp
}

socksvr {
  default
}

cpu {
	## Set logical CPU core where main thread runs
	# main-core 1
	# corelist-workers 2-3,18-19
	# scheduler-policy fifo
}

# buffers {
	# buffers-per-numa 128000
	# default data-size 2048
# }

# plugins {
	# plugin default { disable }
# }

statseg {
    size 32M
    per-node-counters on
}
"#;

/// Returns the faults of `text`, one per line.
fn faults(text: &str) -> String {
    let faults = Startup::parse(text, "f").expect_err(text);
    faults.iter().map(|fault| format!("{fault}\n")).collect()
}

/// Removes places, warnings and the text.
fn bare(startup: Startup) -> Startup {
    Startup { warnings: Vec::new(), places: Default::default(), text: String::new(), ..startup }
}

fn parse(text: &str) -> Startup {
    Startup::parse(text, "f").unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
}

fn args(text: &str) -> Vec<String> {
    text.split('|').map(str::to_owned).collect()
}

#[test]
fn empty_file_gives_the_defaults() {
    let startup = parse(" # only a comment");
    assert_eq!(startup.text, " # only a comment");
    assert_eq!(bare(startup.clone()), Startup::default());
    assert_eq!(startup.unix.cli_listen, Listen::Socket("/run/volley/cli.sock".into()));
    assert!(startup.warnings.is_empty());
}

#[test]
fn the_packaged_file_of_vpp_is_accepted_with_warnings_only() {
    let startup = parse(PACKAGED);
    let unix = Unix {
        log: Some("/var/log/vpp/vpp.log".into()),
        full_coredump: true,
        cli_listen: Listen::Socket("/run/vpp/cli.sock".into()),
        groups: BTreeMap::from([(Role::Admin, Group::Name("vpp".into()))]),
        state_dir: None,
        ..Startup::default().unix
    };
    assert_eq!(startup.unix, unix);
    assert_eq!(startup.api.sockets.get(&Role::Admin), Some(&"/run/vpp/api.sock".into()));
    let statistics = Statistics { asked: true, size: 32 << 20, per_node: true, ..Statistics::default() };
    let socket = Some("/run/vpp/stats.sock".into());
    assert_eq!(startup.statistics, Statistics { socket, ..statistics });
    assert_eq!(startup.warnings, ["f:18:1: section 'api-segment' is not used by this version",]);
}

#[test]
fn a_list_of_cores_may_have_spaces() {
    let cores = |text| parse(text).cpu;
    assert_eq!(
        cores("cpu { corelist-workers 4, 6 main-core 1 }"),
        cores("cpu { corelist-workers 4,6 main-core 1 }")
    );
    assert_eq!(cores("cpu { corelist-workers 2-3 ,5 , 7 }"), cores("cpu { corelist-workers 2-3,5,7 }"));
}

#[test]
fn all_values_are_read() {
    let startup = parse(
        "unix{interactive cli-line-mode cli-idle-timeout 5 coredump-size 2M log l exec x cli-prompt \"a \\\"b\\\" # \" nobanner gid 7 gid-read-only 8 cli-listen-read-only ro pidfile p runtime-dir /r state-dir /s full-coredump}
         cpu { main-core 1 corelist-workers 4,2-3 skip-cores 1 scheduler-policy rr scheduler-priority 9 }
         buffers { buffers-per-numa 32768 }
         plugins { plugin default { disable } plugin acl_plugin.so enable }
         unix { cli-listen cli }",
    );
    let unix = Unix {
        interactive: true,
        cli_line_mode: true,
        log: Some("l".into()),
        startup_config: Some("x".into()),
        cli_listen: Listen::Socket("/r/cli".into()),
        cli_listen_for: BTreeMap::from([(Role::Viewer, "/r/ro".into())]),
        cli_allow_remote: false,
        cli_idle_timeout: Duration::from_secs(5),
        cli_prompt: "a \"b\" # ".into(),
        groups: BTreeMap::from([(Role::Admin, Group::Id(7)), (Role::Viewer, Group::Id(8))]),
        pidfile: Some("/r/p".into()),
        runtime_dir: "/r".into(),
        state_dir: Some("/s".into()),
        full_coredump: true,
        coredump_size: Some(2 << 20),
    };
    assert_eq!(startup.unix, unix);
    let cpu = Cpu {
        main_core: Some(1),
        workers: Workers::Cores(vec![4, 2, 3]),
        skip_cores: 1,
        policy: Some(Policy::RoundRobin),
        priority: Some(9),
    };
    assert_eq!(startup.cpu, cpu);
    assert_eq!(startup.buffers, Buffers { per_numa: 32768 });
    let plugins = Plugins { default_enabled: false, named: vec![("acl_plugin.so".into(), true)] };
    assert_eq!(startup.plugins, plugins);
    assert!(plugins.want("acl", Some("acl_plugin.so")) && !plugins.want("nat", Some("nat_plugin.so")));
    assert!(plugins.want("policer", None), "no plugin in VPP");
    assert!(Plugins::default().want("acl", Some("acl_plugin.so")));
    let named = |name: &str, enabled| (name.to_owned(), enabled);
    let named = vec![named("acl", false), named("policer", false), named("acl_plugin.so", true)];
    let plugins = Plugins { default_enabled: true, named };
    assert!(plugins.want("acl", Some("acl_plugin.so")) && !plugins.want("policer", None));
}

#[test]
fn every_parameter_is_accepted_and_ineffective_ones_warn() {
    let value = |values: &str| match values {
        "" => "",
        "<file>" | "<path>" | "<path> | <address:port>" | "<directory>" | "<text>" | "<number> | <name>" => {
            "/name"
        }
        "<core>" | "<cores>" | "<mask>" => "1",
        "<n>" => "2048",
        "<seconds>" => "5",
        "<address:port>" => "127.0.0.1:9482",
        "<name> { [level <level>] [syslog-level <level>] [rate-limit <n>] }" => "ip { rate-limit 9 }",
        "<size>" | "unlimited | <size>" | "<size> | default | default-hugepage" => "2M",
        "other | batch | idle | fifo | rr" => "fifo",
        "natural | packed" => "packed",
        "on | off" => "on",
        "<node> { buffers <n> }" => "1 { buffers 64000 }",
        "<name> | default { enable | disable }" => "default { disable skip-version-check }",
        other => panic!("what fits '{other}'?"),
    };
    for (section, parameters) in SECTIONS {
        for p in parameters {
            let value = if p.values == "<level>" {
                "crit"
            } else if matches!(p.name, "workers" | "skip-cores" | "scheduler-priority") {
                "2"
            } else {
                value(p.values)
            };
            let with = if p.name == "scheduler-priority" { "scheduler-policy rr" } else { "" };
            for name in p.names() {
                let startup = parse(&format!("{section} {{ {with} {name} {value} }}"));
                let changed = bare(startup.clone()) != Startup::default();
                assert_eq!(startup.warnings.len(), usize::from(p.effect == Effect::Ignored), "{name}");
                assert!(changed || p.effect != Effect::Sets, "{name} sets nothing");
            }
        }
    }
}

#[test]
fn other_spellings_of_values_are_accepted() {
    for all in ["unlimited", "64", "64K", "64kb", "2G"] {
        parse(&format!("unix {{ coredump-size {all} }}"));
    }
    for page in ["4K", "2M", "1G", "default", "default-hugepage"] {
        parse(&format!("buffers {{ page-size {page} }}"));
    }
    let listen = |text: &str| parse(&format!("unix {{ cli-listen {text} }}")).unix.cli_listen;
    let loopback: SocketAddr = "127.0.0.1:5002".parse().unwrap();
    assert_eq!(listen("localhost:5002"), Listen::Tcp(loopback));
    assert_eq!(listen("127.0.0.1:5002"), Listen::Tcp(loopback));
    assert_eq!(listen("[::1]:5002"), Listen::Tcp("[::1]:5002".parse().unwrap()));
    assert_eq!(listen("/a:b"), Listen::Socket("/a:b".into()));
    assert_eq!(listen("192.0.2.1:5002 cli-allow-remote"), Listen::Tcp("192.0.2.1:5002".parse().unwrap()));
    let metrics = |text: &str| parse(&format!("metrics {{ listen {text} }}")).metrics.listen;
    assert_eq!(metrics("localhost:5002"), Some(loopback));
    assert_eq!(metrics("192.0.2.1:5002 allow-remote"), Some("192.0.2.1:5002".parse().unwrap()));
    let workers = |text: &str| parse(&format!("cpu {{ {text} }}")).cpu.workers;
    assert_eq!(workers("coremask-workers 0x180c"), Workers::Cores(vec![2, 3, 11, 12]));
    assert_eq!(workers("workers 0"), Workers::Count(0));
    assert_eq!(parse("unix nodaemon heapsize 2G").warnings.len(), 1);
}

#[test]
fn faults_have_place_expectation_and_hint() {
    let text =
        "unix {\n  nodaemon\n  cli-lisen /run/x\n  log\n}\ncpu { main-core one\n\tworkers -1 }\nbufers { }\n";
    assert_eq!(
        faults(text),
        "f:3:3: section 'unix' has no parameter 'cli-lisen': did you mean 'cli-listen'?\n\
         f:5:1: expected a file's name, found the end of the section; usage: log <file>\n\
         f:6:17: expected a number from 0 to 1023, found 'one'; usage: main-core <core>\n\
         f:7:10: expected a number from 0 to 1023, found '-1'; usage: workers <n>\n\
         f:8:1: unknown section 'bufers': did you mean 'buffers'?\n"
    );
}

#[test]
fn values_of_unknown_parameters_are_skipped() {
    let known = ": expected one of main-core, corelist-workers, coremask-workers, workers, skip-cores, relative, \
                 scheduler-policy, scheduler-priority, numa-heap-size, use-pthreads, thread-prefix\n";
    assert_eq!(
        faults("cpu { turbo very fast { yes } worker 2 main-core 1 main-core no }"),
        format!(
            "f:1:7: section 'cpu' has no parameter 'turbo'{known}\
             f:1:31: section 'cpu' has no parameter 'worker': did you mean 'workers'?\n\
             f:1:62: expected a number from 0 to 1023, found 'no'; usage: main-core <core>\n"
        )
    );
}

#[test]
fn a_missing_value_does_not_swallow_the_next_parameter() {
    assert_eq!(
        faults("cpu { main-core workers 2 workers x }"),
        "f:1:17: expected a number from 0 to 1023, found 'workers'; usage: main-core <core>\n\
         f:1:35: expected a number from 0 to 1023, found 'x'; usage: workers <n>\n"
    );
}

#[test]
fn faults_of_braces_quotes_and_bodies_are_reported() {
    assert_eq!(faults("unix {\n log x\n"), "f:1:6: this '{' is not closed: expected a '}' for it\n");
    assert_eq!(faults("unix { } }"), "f:1:10: this '}' closes nothing: expected a '{' before it\n");
    assert_eq!(faults("{ }"), "f:1:1: expected the name of a section before this '{'\n");
    assert_eq!(faults("cpu { } unix"), "f:1:9: 'unix' has no body: expected '{' after a section's name\n");
    assert_eq!(
        faults("unix { cli-prompt \"a\n}"),
        "f:1:19: this quote is not closed: expected '\"' on the same line\n\
         f:2:1: expected the prompt's text, found the end of the section; usage: cli-prompt <text>\n"
    );
    assert_eq!(faults("unix { { log } }"), "f:1:8: expected a parameter of section 'unix', found '{'\n");
    assert!(faults(&"a {".repeat(100_000)).contains("f:1:27: braces are nested deeper than 8"));
    assert!(faults("unix { log a\u{7} }").starts_with("f:1:12: control character in a word"));
    assert!(
        faults("plugins { plugin a { enabel } }")
            .contains("1:22: unexpected 'enabel': did you mean 'enable'?")
    );
    assert!(faults("buffers { numa 0 { buffers 9 more } }").contains("f:1:30: expected '}' here"));
}

#[test]
fn a_column_counts_characters() {
    assert!(faults("unix { log äöü gid }").starts_with("f:1:20: expected a group's number or name"));
}

#[test]
fn invalid_values_are_refused() {
    for (text, message) in [
        (
            "unix { cli-listen 0.0.0.0:5002 }",
            "f:1:8: the CLI has no password, and 0.0.0.0:5002 is not a loopback",
        ),
        ("unix { cli-listen 192.0.2.1:5002 }", "use 127.0.0.1:5002, or add cli-allow-remote if"),
        ("metrics { listen [::]:9482 }", "use 127.0.0.1:9482, or add allow-remote if"),
        ("metrics { listen /run/metrics.sock }", "expected an address with a port such as 127.0.0.1:9482"),
        ("unix { cli-idle-timeout soon }", "expected a number from 0 to 86400"),
        ("cpu { scheduler-priority 5 }", "f:1:7: scheduler-priority needs a real-time policy"),
        (
            "cpu { scheduler-policy batch scheduler-priority 5 }",
            "f:1:30: scheduler-priority needs a real-time policy",
        ),
        ("cpu { scheduler-policy fifo scheduler-priority 0 }", "expected a number from 1 to 99"),
        ("unix { cli-listen 127.0.0.1:0 }", "found '127.0.0.1:0'"),
        ("unix { cli-listen 5002 }", "found '5002'"),
        ("cpu { corelist-workers 3-2 }", "f:1:24: expected cores from 0 to 1023, each once"),
        ("cpu { corelist-workers 1,1 }", "found '1,1'"),
        ("cpu { corelist-workers 1, 1 }", "f:1:24: expected cores"),
        ("cpu { corelist-workers 1, main-core 2 }", "found '1,'"),
        ("cpu { corelist-workers 0-4000000000 }", "found '0-4000000000'"),
        ("cpu { coremask-workers 0 }", "found '0'"),
        ("buffers { buffers-per-numa 0 }", "expected a number from 1024 to"),
        (
            "cpu { workers 2 corelist-workers 1 }",
            "f:1:17: 'corelist-workers' and 'workers' exclude each other",
        ),
        ("cpu { main-core 1 corelist-workers 0-2 }", "f:1:7: core 1 is also a worker's"),
        ("unix { log \"\" }", "expected a file's name, found ''"),
        ("unix { coredump-size 99999999999G }", "expected a size"),
    ] {
        let faults = faults(text);
        assert!(faults.contains(message) && faults.lines().count() == 1, "{text}: {faults}");
    }
}

#[test]
fn logging_classes_are_read() {
    use crate::logging::{ClassSettings, Level};
    let startup = parse(
        "logging { size 64 unthrottle-time 9 default-log-level debug default-syslog-log-level crit \
         class ip { rate-limit 1000 level notice } class neighbor { syslog-level disabled } \
         class linux-cp/if { rate-limit 10000 level debug syslog-level debug } }",
    );
    let logging = &startup.logging;
    assert_eq!((logging.size, logging.unthrottle_time), (64, 9));
    assert_eq!((logging.default.level, logging.default.syslog_level), (Level::Debug, Level::Error));
    let ip = ClassSettings { level: Some(Level::Info), syslog_level: None, rate_limit: Some(1000) };
    let neighbor = ClassSettings { syslog_level: Some(Level::Disabled), ..ClassSettings::default() };
    assert_eq!(logging.classes, [("ip", ip), ("neighbor", neighbor)].into());
    let [warning] = startup.warnings.as_slice() else { panic!("{:?}", startup.warnings) };
    assert!(warning.contains("VPP's log class 'linux-cp/if' is not used"), "{warning}");
    assert_eq!(
        faults("logging { class neighbr { level info } }"),
        "f:1:17: unknown log class 'neighbr': did you mean 'neighbor'?; usage: class <name> { [level <level>] \
         [syslog-level <level>] [rate-limit <n>] }\n"
    );
    assert!(
        faults("logging { default-log-level loud }").starts_with("f:1:29: expected a level (emerg, alert,")
    );
    assert!(faults("logging { class ip { levl info } }").contains("did you mean 'level'?"));
    assert!(faults("logging { class ip { rate-limit 0 } }").contains("expected a number from 1 to"));
}

#[test]
fn last_of_repeated_parameters_counts_with_a_warning() {
    let startup = parse("unix { exec a }\nunix { startup-config b }");
    assert_eq!(startup.unix.startup_config, Some("b".into()));
    assert_eq!(startup.about(&["log", "startup-config | exec"], "lost"), "f:2:8: lost");
    assert_eq!(startup.about(&["pidfile"], "lost"), "lost");
    let warning = "f:2:8: 'startup-config | exec' was given before, at f:1:8: the last one counts";
    assert_eq!(startup.warnings, [warning]);
}

#[test]
fn arguments_are_read_like_a_file_and_counted() {
    let startup = Startup::from_args(&args("unix|{|interactive|cli-listen 127.0.0.1:5002|}")).unwrap();
    assert!(startup.unix.interactive);
    assert_eq!(startup.unix.cli_listen, Listen::Tcp("127.0.0.1:5002".parse().unwrap()));
    let faults = Startup::from_args(&args("unix|{|interactiv|}|cpu {|main-core x }")).unwrap_err();
    let faults: Vec<_> = faults.iter().map(Fault::to_string).collect();
    assert_eq!(
        faults,
        [
            "argument 3: section 'unix' has no parameter 'interactiv': did you mean 'interactive'?",
            "argument 6: expected a number from 0 to 1023, found 'x'; usage: main-core <core>",
        ]
    );
}

#[test]
fn unreadable_files_are_faults() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("startup.conf");
    let only = |path: &Path| Startup::load(path).unwrap_err().into_iter().next().unwrap().to_string();
    let name = path.display();
    assert!(only(&path).starts_with(&format!("{name}: cannot be read: No such file")));
    fs::write(&path, b"unix {\n \xc3\xa4 \xff }").unwrap();
    assert_eq!(only(&path), format!("{name}:2:4: expected text in UTF-8"));
    fs::write(&path, b"unix {\n\xff").unwrap();
    assert_eq!(only(&path), format!("{name}:2:1: expected text in UTF-8"));
    fs::write(&path, "unix { gid 3 }").unwrap();
    assert_eq!(Startup::load(&path).unwrap().unix.groups.get(&Role::Admin), Some(&Group::Id(3)));
}

#[test]
fn unknown_words_in_sections_of_vpp_are_errors() {
    let known = "dpdk { dev default { num-rx-queues 3 rss { ipv4 } } dev 0000:02:00.0 dev 0000:03:00.0 { name x tso on }
                 socket-mem 2048,2048 no-multi-seg }
                 acl-plugin { connection hash buckets 64 use tuple merge 1 } memory { main-heap-size 1G }
                 session { enable enable rt-backend sdl } ipsec { ip4 { num-buckets 7 } } nat { whatever }
                 crypto-engines { default { disable } openssl { enable } } heapsize 2G";
    assert_eq!(parse(known).warnings.len(), 8);
    assert_eq!(
        faults("statseg {\n  siz 32M\n  per-node-counters maybe\n  update-interval 0.001\n  default\n}"),
        "f:2:3: section 'statseg' has no parameter 'siz': did you mean 'size'?\n\
         f:3:21: unexpected 'maybe': expected one of on, off; usage: per-node-counters on | off\n\
         f:4:19: expected seconds from 0.01 to 3600, found '0.001'; usage: update-interval <seconds>\n"
    );
    assert_eq!(
        faults("dpdk { dev 0000:02:00.0 { num-rx-queue 2 name a } dev { } blacklist x uio-drivr y }"),
        "f:1:27: section 'dpdk { dev }' of VPP has no parameter 'num-rx-queue': did you mean 'num-rx-queues'?\n\
         f:1:51: 'dev' is not complete: expected dev <value> { … }, or dev <value>\n\
         f:1:71: section 'dpdk' of VPP has no parameter 'uio-drivr': did you mean 'uio-driver'?\n"
    );
}

#[test]
fn sockets_of_the_cli_must_differ() {
    assert_eq!(
        faults("unix { cli-listen /r/a runtime-dir /r cli-listen-read-only a }"),
        "f:1:39: a is already the socket of cli-listen: use another name for this socket\n"
    );
    assert!(faults("unix { cli-listen-read-only cli.sock }").contains("f:1:8: "), "the usual name");
    for (one, other) in [("a", "a.root"), ("a.root", "a")] {
        let both = format!("unix {{ cli-listen {one} cli-listen-read-only {other} }}");
        assert!(faults(&both).contains("conflicts with root's own socket"), "{both}");
    }
}

#[test]
fn groups_are_found_by_name() {
    assert_eq!(Group::Name("root".into()).id(), Ok(Some(0)));
    assert!(Group::Name("vpp".into()).id().is_ok(), "VPP's packaged file names it");
    assert!(Group::Name("no such group".into()).id().unwrap_err().contains("group 'no such group'"));
    assert_eq!(Group::Id(12).id(), Ok(Some(12)));
}

/// Writes the items of a section, with quoted words; `noise` selects the white space.
fn render(items: &[Item], noise: &mut impl Iterator<Item = u8>, text: &mut String) {
    for item in items {
        *text += [" ", "\n", "\t", " # a comment { \"\n"][usize::from(noise.next().unwrap_or(0) % 4)];
        match item {
            Item::Word(word) => {
                *text += &format!("\"{}\"", word.text.replace('\\', "\\\\").replace('"', "\\\""))
            }
            Item::Block(block) => {
                text.push('{');
                render(&block.items, noise, text);
                text.push('}');
            }
        }
    }
}

/// Returns items as text, without their places.
fn shape(items: &[Item]) -> String {
    let each = items.iter().map(|item| match item {
        Item::Word(word) => format!("{:?} ", word.text),
        Item::Block(block) => format!("{{{}}} ", shape(&block.items)),
    });
    each.collect()
}

fn nowhere() -> Place {
    Place::Argument(0)
}

fn word() -> impl Strategy<Value = Item> {
    "[ -~äß€]{0,8}".prop_map(|text| Item::Word(Word { text, place: nowhere() }))
}

fn block(items: Vec<Item>) -> Item {
    Item::Block(Block { items, open: nowhere(), close: nowhere() })
}

fn body() -> impl Strategy<Value = Vec<Item>> {
    let item = word().prop_recursive(4, 32, 5, |item| prop::collection::vec(item, 0..5).prop_map(block));
    prop::collection::vec(item, 0..6)
}

fn tree_of(text: &str) -> (Vec<Section>, Vec<Fault>) {
    let (tokens, mut faults) = lex(text, &Source::Argument(1));
    let (sections, wrong) = parse_tree(tokens);
    faults.extend(wrong);
    (sections, faults)
}

proptest! {
    #[test]
    fn a_tree_survives_writing_and_reading(
        bodies in prop::collection::vec(body(), 0..4),
        noise in prop::collection::vec(any::<u8>(), 64),
    ) {
        let mut noise = noise.into_iter().cycle();
        let mut text = String::new();
        for body in &bodies {
            text += "section";
            render(&[block(body.clone())], &mut noise, &mut text);
        }
        let (sections, faults) = tree_of(&text);
        prop_assert!(faults.is_empty(), "{:?} in {}", faults, text);
        let read: Vec<_> = sections.iter().map(|section| shape(&section.items)).collect();
        prop_assert_eq!(read, bodies.iter().map(|body| shape(body)).collect::<Vec<_>>());
    }

    #[test]
    fn values_survive_writing_and_reading(
        (interactive, full_coredump) in any::<(bool, bool)>(),
        log in prop::option::of("/[a-z/.]{1,12}"),
        prompt in "[ -~]{0,10}",
        gid in prop::option::of(any::<u32>()),
        main_core in prop::option::of(0..8_usize),
        cores in prop::collection::btree_set(8..1024_usize, 1..9),
        skip_cores in 0..9_usize,
        per_numa in 1024..(1 << 24) + 1_usize,
    ) {
        let mut wanted = Startup::default();
        let mut text = String::from("unix{");
        if interactive { text += " interactive"; }
        if full_coredump { text += " full-coredump"; }
        if let Some(log) = &log { text += &format!(" log {log}"); }
        if let Some(gid) = gid { text += &format!(" gid {gid}"); }
        text += &format!(" cli-prompt \"{}\"}}", prompt.replace('\\', "\\\\").replace('"', "\\\""));
        let list: Vec<_> = cores.iter().map(usize::to_string).collect();
        text += &format!("cpu{{skip-cores {skip_cores} corelist-workers {}", list.join(","));
        if let Some(core) = main_core { text += &format!(" main-core {core}"); }
        text += &format!("}}buffers{{buffers-per-numa {per_numa}}}");

        wanted.unix = Unix {
            interactive, full_coredump,
            log: log.map(PathBuf::from),
            cli_prompt: prompt,
            groups: gid.map(|gid| (Role::Admin, Group::Id(gid))).into_iter().collect(),
            ..wanted.unix
        };
        wanted.cpu = Cpu { main_core, workers: Workers::Cores(cores.into_iter().collect()), skip_cores, ..Cpu::default() };
        wanted.buffers = Buffers { per_numa };
        let read = Startup::parse(&text, "f").map(bare);
        prop_assert_eq!(read, Ok(wanted));
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = Startup::parse(&text, "f");
        let _ = Startup::from_args(&[text]);
    }

    #[test]
    fn known_words_never_panic_and_faults_have_places_in_the_text(
        words in prop::collection::vec(prop::sample::select(vec![
            "unix", "cpu", "buffers", "plugins", "{", "}", "log", "gid", "workers", "corelist-workers", "1-3", "numa",
            "plugin", "default", "data-size", "page-size", "enable", "\"", "#", "\n", "coredump-size", "coremask-workers",
        ]), 0..40),
    ) {
        let text = words.join(" ");
        let lines = text.split('\n').map(|line| line.chars().count()).collect::<Vec<_>>();
        for fault in Startup::parse(&text, "f").err().unwrap_or_default() {
            let Place::File { line, column, .. } = fault.place else { panic!("a place in a file") };
            prop_assert!((1..=lines.len()).contains(&line) && (1..=lines[line - 1]).contains(&column));
        }
    }
}

#[test]
fn the_api_listens_beside_the_cli_or_where_it_is_asked_to() {
    let api = |text| parse(text).api;
    let socket = |api: Api| api.sockets.get(&Role::Admin).cloned();
    assert_eq!(socket(api("")), Some("/run/volley/api.sock".into()));
    // With its CLI outside the run-time directory, a router has no default socket of the API: several such routers would share it.
    assert_eq!(socket(api("unix { cli-listen /tmp/a.sock }")), None);
    assert_eq!(socket(api("unix { runtime-dir /tmp/r }")), Some("/tmp/r/api.sock".into()));
    assert_eq!(socket(api("socksvr { default }")), Some("/run/vpp/api.sock".into()));
    let asked =
        api("socksvr { socket-name x.sock socket-name-read-only /tmp/ro.sock socket-name-operator o }");
    let sockets = ["/tmp/ro.sock", "/run/volley/o", "/run/volley/x.sock"].map(PathBuf::from);
    assert_eq!((asked.sockets, asked.asked), (Role::ALL.into_iter().zip(sockets).collect(), true));
    let is_recorded =
        ["", "api-trace { on }", "api-trace { nitems 5000 enable }"].map(|text| api(text).is_recorded);
    assert_eq!(is_recorded, [false, true, true]);
}
