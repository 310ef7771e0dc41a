//! Tests of the whole command line with a toy router: input lines, and their answers.

use super::args::{Taken, Value};
use super::grammar::{self, Item, Kind, Leaf};
use super::lex::{Line, quote};
use super::parse::{self, State};
use super::*;
use crate::family::Family;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::rc::Rc;

/// A toy router with two interfaces and a node. It logs what the handlers did.
#[derive(Default)]
struct Toy {
    log: Vec<String>,
}

impl Values for Toy {
    fn values(&self, kind: &str) -> Vec<String> {
        let names: &[&str] = match kind {
            "interface" => &["host-eth0", "host-eth1", "count"],
            "node" => &["ip4-lookup"],
            "table" => &["0", "11", "blue"],
            _ => &[],
        };
        names.iter().map(ToString::to_string).collect()
    }

    fn number(&self, kind: &str, name: &str) -> Option<u32> {
        (kind == "table" && name == "blue").then_some(11)
    }
}

const COMMANDS: &[&str] = &[
    "show interface [<interface:interface>]",
    "show interface addr",
    "show ip fib [table <table:table>]",
    "show version",
    "set interface state <interface:interface> {up | down}",
    "set interface ip address [del] <interface:interface> <address:address>",
    "set interface mtu <mtu:68..9216> <interface:interface>",
    "ip route add <prefix:prefix> [table <table:u32>] [{via <next-hop:ip> [<interface:interface>] | \
     via <out:interface> | [via] drop | unreachable}...] [count <n:u32>]",
    "create tap [id <id:u32>] [hw-addr <mac:mac>] [host-if-name <name:word>] [gso]",
    "packet-generator new <what:text>",
    "pcap trace [max <n:u64>] file <file:path>",
    "trace add <node:node> <n:u32>",
    "show {ip neighbors/neighbor/arp | arp} [<interface:interface>]",
    "create sub-interfaces <interface:interface> <ids:range>",
];

fn registry() -> Rc<Registry<Toy>> {
    let mut registry = Registry::<Toy>::new();
    for syntax in COMMANDS {
        registry.add(syntax, "A command.", |toy, args| {
            let words: Vec<String> = args.taken.iter().map(|t| format!("{}={:?}", t.name, t.value)).collect();
            toy.log.push(words.join(" "));
            Ok(Output::show(words.len(), "did it"))
        });
    }
    registry.add("fail <n:u32>", "Fails.", |_, args| Err(args.fault("n", "not that number")));
    Rc::new(registry)
}

/// Returns the words as the parser read them, or the full error.
fn run(line: &str) -> Result<String, String> {
    let mut toy = Toy::default();
    registry().run(&mut toy, line, Call::default()).map_err(|error| error.render())?;
    Ok(toy.log.join("\n").replace("=Keyword", ""))
}

fn complete(line: &str) -> Vec<String> {
    registry().complete(&Toy::default(), line, Role::Admin).candidates.into_iter().map(|c| c.text).collect()
}

#[test]
fn words_can_be_abbreviated() {
    assert_eq!(run("sh int"), Ok("show interface".into()));
    assert_eq!(run("sh ip f"), Ok("show ip fib".into()));
    assert_eq!(
        run("set int st host-eth0 up"),
        Ok("set interface state interface=Text(\"host-eth0\") up".into())
    );
}

#[test]
fn the_case_of_keywords_does_not_matter() {
    assert_eq!(run("SHOW Version"), Ok("show version".into()));
    assert_eq!(run("Sh INT"), Ok("show interface".into()));
    // Names are case-sensitive.
    assert!(run("show interface HOST-eth0").unwrap_err().contains("there is no interface 'HOST-eth0'"));
    assert_eq!(complete("SH"), ["show"]);
}

#[test]
fn a_line_has_a_limited_number_of_words() {
    let line = |words: usize| format!("ip route add 10.0.0.0/8{}", " drop".repeat(words - 4));
    assert!(run(&line(4096)).is_ok());
    // More words would exceed the stack of a thread.
    for words in [4097, 52_000] {
        assert!(run(&line(words)).unwrap_err().contains("at most 4096 words"));
        assert!(complete(&format!("{} ", line(words))).is_empty());
    }
}

#[test]
fn synonyms_are_one_keyword() {
    for line in ["show ip arp", "show ip neighbor", "show ip neighbors", "show ip neighb", "show ip n"] {
        assert_eq!(run(line), Ok("show ip neighbors".into()), "{line}");
    }
    assert_eq!(run("show arp host-eth0"), Ok("show arp interface=Text(\"host-eth0\")".into()));
    assert_eq!(complete("show ip n"), ["neighbors"]);
    assert_eq!(complete("show ip a"), ["arp"]);
}

#[test]
fn a_range_is_two_numbers_in_order() {
    let head = "create sub-interfaces interface=Text(\"host-eth0\")";
    assert_eq!(run("create sub host-eth0 20-22"), Ok(format!("{head} ids=Range(20, 22)")));
    for range in ["22-20", "20", "20-", "-20", "1-4294967296", "1-2-3"] {
        let error = run(&format!("create sub host-eth0 {range}")).unwrap_err();
        assert!(error.contains("a range of numbers (such as 20-22)"), "{error}");
    }
}

#[test]
fn refused_beginnings_give_their_reason() {
    let mut registry = Rc::into_inner(registry()).unwrap();
    for (beginning, why) in [
        ("show bridge-domain", "not yet"),
        ("bridge", "none"),
        ("show ip fib table <table:u32> mtrie", "other"),
        ("ping", "a"),
        ("pint", "b"),
        ("set interface ipsec", "c"),
    ] {
        registry.refuse(beginning, why.into());
    }
    let registry = Rc::new(registry);
    let refused =
        |line: &str| registry.run(&mut Toy::default(), line, Call::default()).err().unwrap().to_string();
    for line in ["show bridge-domain", "sh BRIDGE", "show bridge-domain 7 {x", "show bridge-domain 1 detail"]
    {
        assert_eq!(refused(line), "not yet", "{line}");
    }
    assert_eq!(refused("br 1"), "none");
    assert_eq!(refused("show ip fib table 7 mtrie 0"), "other");
    // An incomplete or ambiguous beginning is an unknown command.
    assert!(refused("show ip fib table x").contains("there is no table"));
    assert!(refused("pin 1").contains("there is no command 'pin'"));
    assert!(refused("show b7").contains("unexpected '"));
    // A beginning must match more words than an existing command does.
    assert!(refused("set interface ip address host-eth7 1.1.1.1/8").contains("no interface 'host-eth7'"));
    // Existing commands take precedence.
    assert!(registry.run(&mut Toy::default(), "show ip fib table 7", Call::default()).is_ok());
}

#[test]
fn optional_groups_come_in_any_order() {
    let mac = "mac=Mac(02:00:00:00:00:01)";
    for line in
        ["create tap id 7 hw-addr 02:00:00:00:00:01 gso", "create tap gso hw-addr 02:00:00:00:00:01 id 7"]
    {
        let words = run(line).unwrap();
        assert!(["id", "id=Number(7)", "gso", mac].iter().all(|w| words.contains(w)), "{words}");
    }
    assert!(run("create tap gso gso").is_err());
}

#[test]
fn alternatives_share_their_beginning() {
    let head = "ip route add prefix=Prefix(10.0.0.1, 8)";
    assert_eq!(run("ip route add 10.0.0.1/8 via drop"), Ok(format!("{head} via drop")));
    assert_eq!(
        run("ip route add 10.0.0.1/8 via host-eth1"),
        Ok(format!("{head} via out=Text(\"host-eth1\")"))
    );
    let words = run("ip route add 10.0.0.1/8 via 1.2.3.4 host-eth1 count 3").unwrap();
    assert_eq!(
        words,
        format!("{head} via next-hop=Ip(1.2.3.4) interface=Text(\"host-eth1\") count n=Number(3)")
    );
}

#[test]
fn a_repeated_choice_keeps_all_arguments() {
    let words =
        run("ip route add 10.0.0.0/8 via 1.1.1.1 host-eth0 via 2.2.2.2 v host-eth1 drop count 2").unwrap();
    let tail = "via next-hop=Ip(1.1.1.1) interface=Text(\"host-eth0\") via next-hop=Ip(2.2.2.2) via out=Text(\"host-eth1\") \
                drop count n=Number(2)";
    assert!(words.ends_with(tail), "{words}");
    let mut registry = Registry::<Toy>::new();
    registry.add("go [{north <n:u16> | south}...] [fast]", "Goes.", |toy, args| {
        let rounds = args.rounds();
        toy.log = rounds.iter().map(|a| format!("{:?} {}", a.get::<u16>("n"), a.has("south"))).collect();
        match rounds.get(2) {
            Some(third) => Err(third.fault("n", "too far")),
            None => Ok(Output::none()),
        }
    });
    let (registry, mut toy) = (Rc::new(registry), Toy::default());
    registry.run(&mut toy, "go south north 7 fast", Call::default()).unwrap();
    assert_eq!(toy.log, ["None true", "Some(7) false"]);
    registry.run(&mut toy, "go fast", Call::default()).unwrap();
    assert_eq!(toy.log, [""; 0]);
    // An error in a round marks the word in that round.
    let error = registry.run(&mut toy, "go north 7 south north 7", Call::default()).map(|_| ()).unwrap_err();
    assert_eq!(error.render(), format!("go north 7 south north 7\n{}^\ntoo far", " ".repeat(23)));
    let next: Vec<String> =
        registry.complete(&toy, "go south ", Role::Admin).candidates.into_iter().map(|c| c.text).collect();
    assert_eq!(next, ["north", "south", "fast", "<enter>"]);
    let error = registry.run(&mut toy, "go fast north", Call::default()).map(|_| ()).unwrap_err();
    assert!(error.render().contains("not complete"), "{}", error.render());
}

#[test]
fn full_keywords_have_priority_and_quoted_words_are_values() {
    // There is an interface called `count`.
    let head = "ip route add prefix=Prefix(10.0.0.0, 8) via";
    assert!(run("ip route add 10.0.0.0/8 via 1.1.1.1 count").unwrap_err().contains("not complete"));
    assert_eq!(
        run("ip route add 10.0.0.0/8 via 1.1.1.1 'count' count 2"),
        Ok(format!("{head} next-hop=Ip(1.1.1.1) interface=Text(\"count\") count n=Number(2)"))
    );
    assert_eq!(run("show interface addr"), Ok("show interface addr".into()));
}

#[test]
fn an_address_alone_is_a_prefix_but_no_interface_address() {
    let words = run("ip route add 10.0.0.1 count 3 via 1.2.3.4").unwrap();
    assert_eq!(words, "ip route add prefix=Prefix(10.0.0.1, 32) count n=Number(3) via next-hop=Ip(1.2.3.4)");
    let error = run("set interface ip address host-eth0 10.0.0.1").unwrap_err();
    let mark = " ".repeat(35) + "^^^^^^^^\n";
    assert!(error.contains(&mark) && error.contains("192.0.2.1/24, 192.0.2.1/32"), "{error}");
}

#[test]
fn a_text_is_the_rest_of_the_line() {
    assert_eq!(
        run("packet-generator new { name x  'y z' } # no"),
        Ok("packet-generator new what=Text(\"{ name x  'y z' }\")".into())
    );
}

#[test]
fn empty_lines_do_nothing() {
    for line in ["  # nothing", "// it's nothing", "comment { it's nothing }", "COMMENT"] {
        assert_eq!(run(line), Ok(String::new()), "{line}");
    }
}

#[test]
fn an_unknown_word_is_marked() {
    let error = run("set interface state host-eth0 upp").unwrap_err();
    let expected = "set interface state host-eth0 upp\n                              ^^^\n\
                    unexpected 'upp'\nexpected one of: up, down\ndid you mean 'up'?";
    assert_eq!(error, expected);
}

#[test]
fn an_unknown_name_gets_existing_ones_as_suggestion() {
    let error = run("set interface state host-eth9 up").unwrap_err();
    assert!(error.contains("there is no interface 'host-eth9'"), "{error}");
    assert!(error.contains("did you mean 'host-eth0'?"), "{error}");
    assert!(run("shwo version").unwrap_err().contains("there is no command 'shwo'"));
}

#[test]
fn an_unknown_name_is_reported_beside_possible_keywords() {
    let error = run("show interface host-eth7").unwrap_err();
    let expected = "there is no interface 'host-eth7'\nexpected one of: <interface> the name of an interface, addr\n\
                    there are: host-eth0, host-eth1, count\ndid you mean 'host-eth0'?";
    assert!(error.ends_with(expected), "{error}");
    assert!(run("show interface adr").unwrap_err().contains("unexpected 'adr'"), "a slip in a keyword");
    assert!(run("ip route add 10.0.0.0/8 via 10.0.0.300").unwrap_err().contains("unexpected '"));
}

#[test]
fn a_table_has_a_number_or_a_name() {
    for (word, number) in [("7", 7), ("0x10", 16), ("4294967295", u64::from(u32::MAX)), ("blue", 11)] {
        let told = run(&format!("show ip fib table {word}")).unwrap();
        assert!(told.contains(&format!("table=Number({number})")), "{told}");
    }
    for word in ["4294967296", "green", "-1"] {
        let error = run(&format!("show ip fib table {word}")).unwrap_err();
        assert!(
            error.contains(&format!(
                "there is no table '{word}'\nexpected: <table> the number or name of a table"
            )),
            "{error}"
        );
        assert!(error.contains("there are: 0, 11, blue"), "{error}");
    }
    assert_eq!(complete("show ip fib table b"), ["blue"]);
}

#[test]
fn viewers_are_offered_only_reading_commands() {
    let call = || Call { role: Role::Viewer, ..Call::default() };
    let help = |line: &str| registry().run(&mut Toy::default(), line, call()).map(|answer| answer.text);
    let all = help("help").unwrap();
    assert!(all.contains("show version") && all.contains("help [") && !all.contains("create tap"), "{all}");
    assert!(!all.contains("exec"), "{all}");
    assert!(
        help("help create")
            .unwrap()
            .ends_with("\n    This socket is read-only: the command is not allowed here.\n")
    );
    assert!(!help("?").unwrap().contains("create"));
    let offered = registry().complete(&Toy::default(), "", Role::Viewer).candidates;
    assert_eq!(offered.iter().map(|c| c.text.as_str()).collect::<Vec<_>>(), ["help", "show"]);
}

#[test]
fn viewers_may_run_commands_declared_for_them() {
    let mut registry = Registry::<Toy>::new();
    registry.add("show version", "S.", |_, _| Ok(Output::none()));
    registry.add("trace on", "T.", |_, _| Ok(Output::none()));
    for syntax in ["probe <n:u32>", "probe all"] {
        registry.add(syntax, "P.", |_, _| Ok(Output::text("probed"))).for_viewers();
    }
    let registry = Rc::new(registry);
    let run = |line: &str| {
        let call = Call { role: Role::Viewer, ..Call::default() };
        registry.run(&mut Toy::default(), line, call).map(|answer| answer.text)
    };
    assert_eq!(run("probe 7").unwrap(), "probed\n");
    let refused = run("trace on").unwrap_err().to_string();
    assert!(refused.contains("Allowed are show, probe and help;"), "{refused}");
    let offered = registry.complete(&Toy::default(), "", Role::Viewer).candidates;
    assert_eq!(offered.iter().map(|c| c.text.as_str()).collect::<Vec<_>>(), ["help", "show", "probe"]);
}

#[test]
fn values_out_of_range_are_refused() {
    for line in [
        "set interface mtu 65536 host-eth0",
        "set interface mtu +1 host-eth0",
        "set interface mtu -1 host-eth0",
        "ip route add 10.0.0.0/33 drop",
        "set interface ip address host-eth0 10.0.0.1",
        "ip route add 10.0.0.256/8 drop",
        "create tap hw-addr 02:00:00:00:00",
        "show ip fib table 4294967296",
    ] {
        assert!(run(line).unwrap_err().contains("expected"), "{line}");
    }
    let told = run("set interface mtu 65536 host-eth0").unwrap_err();
    assert!(told.contains("65536 is not a number from 68 to 9216\n"), "{told}");
    assert_eq!(run("show ip fib table 0x10"), Ok("show ip fib table table=Number(16)".into()));
}

#[test]
fn missing_arguments_are_named() {
    let error = run("set interface state").unwrap_err();
    let expected = "set interface state\n                    ^\nthe command is not complete\n\
                    expected: <interface> the name of an interface";
    assert_eq!(error, expected);
    assert!(run("show version now").unwrap_err().contains("the command ends here"));
}

#[test]
fn ambiguous_commands_are_refused() {
    assert_eq!(run("sh i"), Ok("show interface".into()), "no other command that is like this is complete");
    let mut registry = Registry::<Toy>::new();
    registry.add("clear counters", "A.", |_, _| Ok(Output::none()));
    registry.add("clear config", "B.", |_, _| Ok(Output::none()));
    let error = Rc::new(registry).run(&mut Toy::default(), "cl co", Call::default()).err().unwrap().render();
    assert_eq!(
        error,
        "cl co\n   ^^\nambiguous command; type more letters of one of these:\n  clear counters\n  clear config"
    );
}

#[test]
fn a_handler_marks_its_argument() {
    assert_eq!(run("fail 17"), Err("fail 17\n     ^^\nnot that number".into()));
}

#[test]
fn json_is_requested_at_the_end() {
    let json = |line: &str| registry().run(&mut Toy::default(), line, Call::default()).unwrap().text;
    assert_eq!(json("show version --json"), "2\n");
    assert_eq!(json("show version -j"), "2\n");
    assert_eq!(json("show version"), "did it\n");
    assert!(run("--json show version").is_err());
}

#[test]
fn paths_are_relative_to_the_client() {
    let mut registry = Registry::<Toy>::new();
    registry.add("write <file:path>", "W.", |toy, args| {
        toy.log.push(args.need::<PathBuf>("file")?.display().to_string());
        Ok(Output::none())
    });
    let (registry, mut toy) = (Rc::new(registry), Toy::default());
    let call = Call { directory: "/home/op".into(), ..Call::default() };
    registry.run(&mut toy, "write a/b", call.clone()).unwrap();
    registry.run(&mut toy, "write /c", call.clone()).unwrap();
    let refused = registry.run(&mut toy, "write ''", call).map(|_| ()).unwrap_err().render();
    assert!(refused.contains("expected: <file> a file name"), "{refused}");
    assert_eq!(toy.log, ["/home/op/a/b", "/c"]);
}

#[test]
fn arguments_have_one_type() {
    let mut registry = Registry::<Toy>::new();
    registry.add("do <via:ip> [{via <n:u32> | drop}]", "D.", |_, args| {
        assert_eq!(args.get::<IpAddr>("via"), Some(IpAddr::from([1, 2, 3, 4])));
        assert_eq!(args.get::<u32>("via"), None);
        assert_eq!(args.need::<u64>("n")?, 70_000);
        assert_eq!(args.get::<u16>("n"), None, "it does not fit");
        assert!(args.has("via") && !args.has("drop") && args.need::<u32>("x").is_err());
        Ok(Output::none())
    });
    Rc::new(registry).run(&mut Toy::default(), "do 1.2.3.4 via 70000", Call::default()).unwrap();
}

#[test]
fn completion_offers_words_names_and_hints() {
    assert_eq!(complete("sh"), ["show"]);
    assert_eq!(complete("show "), ["interface", "ip", "version", "arp"]);
    assert_eq!(complete("show i"), ["interface", "ip"]);
    assert_eq!(complete("set interface state host"), ["host-eth0", "host-eth1"]);
    assert_eq!(complete("set interface mtu "), ["<mtu>"]);
    assert_eq!(complete("show version "), ["<enter>"]);
    assert_eq!(complete("show version --"), ["--json"]);
    assert_eq!(complete("create tap gso "), ["id", "hw-addr", "host-if-name", "<enter>"]);
    assert_eq!(complete("help show v"), ["version"]);
    assert_eq!(complete("show nothing "), [""; 0]);
    assert_eq!(complete("show # "), [""; 0]);
    let found = registry().complete(&Toy::default(), "sh ver", Role::Admin);
    assert_eq!((found.from, found.candidates[0].help.as_str()), (3, "A command."));
    let group = |line| registry().complete(&Toy::default(), line, Role::Admin).candidates.remove(0).help;
    assert_eq!(group("sho"), "followed by interface, ip, version, arp");
    assert_eq!(group("set"), "followed by interface");
    assert_eq!(group("set inter"), "followed by state, ip, mtu");
    assert_eq!(group("show ip"), "followed by fib, neighbors");
}

#[test]
fn help_lists_commands_with_this_beginning() {
    let text = |line: &str| registry().run(&mut Toy::default(), line, Call::default()).unwrap().text;
    let all = text("help");
    assert_eq!(all.lines().filter(|line| !line.starts_with(' ')).count(), COMMANDS.len() + 2);
    assert_eq!(text("help show v"), "show version\n    A command.\n");
    assert!(text("show ?").contains("  interface"));
    assert!(run("help nonsense").is_err());
}

/// Generates a sentence of a grammar, and how the parser must read its words. `pick` makes the choices: it
/// gets the number of alternatives and returns the index of one.
fn sentence(items: &[Item], pick: &mut dyn FnMut(usize) -> usize, out: &mut Vec<(String, Taken)>) {
    for item in items {
        match item {
            Item::Choice(ways) => sentence(&ways[pick(ways.len())], pick, out),
            Item::Rounds(ways) => {
                for round in 1.. {
                    let begin = out.len();
                    sentence(&ways[pick(ways.len())], pick, out);
                    out[begin..].iter_mut().for_each(|(_, taken)| taken.round = round);
                    if pick(2) == 0 {
                        break;
                    }
                }
            }
            Item::Optional(groups) => {
                let mut groups: Vec<_> = groups.iter().collect();
                while !groups.is_empty() && pick(3) > 0 {
                    let group = groups.remove(pick(groups.len()));
                    sentence(group, pick, out);
                }
            }
            Item::Leaf(Leaf::Keyword(word)) => {
                let spellings: Vec<_> = word.spellings().map(str::to_owned).collect();
                let spelling = spellings[pick(spellings.len())].clone();
                let spelling = if pick(2) == 0 { spelling } else { spelling.to_uppercase() };
                out.push(word_of(spelling, &word.name, Value::Keyword));
            }
            Item::Leaf(Leaf::Arg { name, kind }) => {
                let number = pick(60_000) as u64;
                let ip4 = IpAddr::from(Ipv4Addr::from_bits(number as u32 * 65_537));
                let ip6 = IpAddr::from(Ipv6Addr::from_bits(u128::from(number) << 100 | u128::from(number)));
                let address = |family: &Option<Family>, pick: &mut dyn FnMut(usize) -> usize| match family {
                    Some(Family::V4) => ip4,
                    Some(Family::V6) => ip6,
                    None => [ip4, ip6][pick(2)],
                };
                let (word, value) = match kind {
                    Kind::Word | Kind::Text | Kind::Path => {
                        let text = ["a b", "drop", "#x", "it's \\ \"q\""][pick(4)];
                        (quote_always(text), Value::Text(text.into()))
                    }
                    Kind::Numbered(_) if pick(2) == 0 => ("blue".into(), Value::Number(11)),
                    Kind::Number(range) => {
                        let number = number.clamp(*range.start(), *range.end());
                        (number.to_string(), Value::Number(number))
                    }
                    Kind::Numbered(_) => (number.to_string(), Value::Number(number)),
                    Kind::Range => {
                        let (first, last) = (number as u32, number as u32 + pick(9) as u32);
                        (format!("{first}-{last}"), Value::Range(first, last))
                    }
                    Kind::Ip => {
                        let address = address(&None, pick);
                        (address.to_string(), Value::Ip(address))
                    }
                    Kind::Prefix(family) if pick(4) == 0 => {
                        let address = address(family, pick);
                        let len = if address.is_ipv4() { 32 } else { 128 };
                        (address.to_string(), Value::Prefix(address, len))
                    }
                    Kind::Address(family) | Kind::Prefix(family) => {
                        let address = address(family, pick);
                        let most = if address.is_ipv4() { 32 } else { 128 };
                        let len = pick(most + 1) as u8;
                        (format!("{address}/{len}"), Value::Prefix(address, len))
                    }
                    Kind::Mac => {
                        let mac = wire::Mac::from_u64(number);
                        (mac.to_string(), Value::Mac(mac))
                    }
                    Kind::Name(kind) => {
                        let names = Toy::default().values(kind);
                        let text = names[pick(names.len())].clone();
                        (quote_always(&text), Value::Text(text))
                    }
                };
                out.push(word_of(word, name, value));
            }
        }
    }
}

fn word_of(word: String, name: &str, value: Value) -> (String, Taken) {
    (word, Taken { name: name.into(), value, span: 0..0, round: 0 })
}

fn quote_always(text: &str) -> String {
    match quote(text) {
        same if same == text => format!("'{text}'"),
        quoted => quoted.into_owned(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_generated_sentence_is_parsed_as_generated(command in 0..COMMANDS.len(), choices in prop::collection::vec(any::<u16>(), 40)) {
        let grammars: Vec<_> = COMMANDS.iter().map(|syntax| grammar::parse(syntax, &[]).unwrap()).collect();
        let mut choices = choices.into_iter();
        let mut pick = |ways: usize| usize::from(choices.next().unwrap_or(0)) % ways;
        let mut words = Vec::new();
        sentence(&grammars[command], &mut pick, &mut words);
        let mut line = String::new();
        let mut made = Vec::new();
        for (word, mut taken) in words {
            line.push(' ');
            taken.span = line.len()..line.len() + word.len();
            line += &word;
            made.push(taken);
        }
        let states = grammars.iter().enumerate().map(|(i, g)| State::start(i, g)).collect();
        let found = Line::whole(&line).unwrap();
        let parsed = parse::decide(states, &line, &found, &Toy::default(), |i| COMMANDS[i]);
        prop_assert_eq!(parsed.map_err(|e| e.render()), Ok((command, made)), "{}", line);
    }

    #[test]
    fn any_text_is_answered(line in "\\PC*|[a-z \"'\\\\#{}?-]{0,40}", cut in 0usize..40) {
        let _ = run(&line);
        let _ = complete(&line);
        let near = format!("ip route add 10.0.0.0/8 via 1.1.1.1 count 3 {line}");
        let cut: String = near.chars().take(cut).collect();
        let _ = run(&cut);
        let _ = complete(&cut);
        let _ = run(&near);
    }
}
