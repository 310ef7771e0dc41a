use super::super::TEMPLATE;
use super::*;
use crate::stats::fewest_runs;

const GOOD: &str = "name = 'a'\nduts = ['linux']\n[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\n";

#[test]
fn faults_of_own_traffic_are_reported_with_their_line() {
    let own = "[[traffic]]\nname = 'own'\n[[traffic.flows]]\nname = 'a'\nframes = [\n  { family = 'ipv4' },\n  { family = 'ipv4', size = 9 },\n]\n";
    let said = |text: String| Campaign::parse(&text).map_or_else(|e| e.0, |_| "nothing".into());
    let why = "line 12: traffic 1 (own): flows 1 (a): frames 2: frame size 9 is out of range";
    assert!(said(format!("{GOOD}{own}")).starts_with(why), "{}", said(format!("{GOOD}{own}")));
    let good = GOOD.replace("rfc2544", "own").replace("[64]", "[64, 63]");
    let why = "line 5: test 1 (own): sizes 2: flows 1 (a): frames 1: frame size 63";
    let own = own.replace("size = 9", "size = 90");
    assert!(said(format!("{good}{own}")).starts_with(why), "{}", said(format!("{good}{own}")));
}

#[test]
fn outages_need_frames_with_numbers() {
    let of = |procedures: &str, mark: &str| {
        let own = format!(
            "[[traffic]]\nname = 'own'\n[[traffic.flows]]\nname = 'a'\nmark = '{mark}'\nframes = [{{ family = 'ipv4' }}]\n"
        );
        let good = GOOD.replace("rfc2544", "own").replace("linux", "volley");
        let head = format!("procedures = ['throughput', {procedures}]\n{good}");
        Campaign::parse(&(head + &own))
    };
    for procedure in ["'recovery'", "'reset'"] {
        let fault = of(procedure, "flood").expect_err("a flood");
        assert!(fault.0.contains("test 1 (own)") && fault.0.contains("stamped"), "{fault}");
        assert!(of(procedure, "stamped").is_ok(), "{:?}", of(procedure, "stamped"));
    }
    assert!(of("'latency'", "flood").is_ok());
}

#[test]
fn routers_with_a_restart_command_can_be_reset() {
    let duts = "procedures = ['throughput', 'reset']\nduts = ['volley', { kind = 'command', start = 'x', restart = 'y' }]";
    let parsed = Campaign::parse(&GOOD.replace("duts = ['linux']", duts));
    assert!(parsed.is_ok(), "{parsed:?}");
}

#[test]
fn the_template_of_init_is_a_valid_campaign() -> Result<(), Fault> {
    let campaign = Campaign::parse(TEMPLATE)?;
    assert_eq!((campaign.duts.len(), campaign.cells().count()), (2, 2));
    // There are enough repetitions for a verdict, and the campaign ends within ten minutes.
    assert!(campaign.profile().repetitions >= fewest_runs(0.95) as u32);
    assert!(campaign.most_minutes.is_some_and(|minutes| minutes <= 9.0));
    // The template states the right number of runs for comparisons.
    let needed = fewest_runs(0.95);
    assert!(TEMPLATE.contains(&format!("from {needed} on")), "{needed}");
    Ok(())
}

#[test]
fn the_commented_part_of_the_template_is_valid_too() -> Result<(), Fault> {
    let (before, example) = TEMPLATE.split_once("# [[traffic]]").ok_or_else(|| Fault("none".into()))?;
    let lines = example.lines().map(|line| line.strip_prefix("# ").unwrap_or(line));
    let text = format!("{before}[[traffic]]{}", lines.collect::<Vec<_>>().join("\n"));
    let campaign = Campaign::parse(&text)?;
    assert_eq!((campaign.traffics.len(), campaign.tests.len()), (1, 3));
    Ok(())
}

#[test]
fn an_impossible_limit_of_time_is_refused() {
    for wrong in ["0", "-1", "1e9", "nan"] {
        let said = Campaign::parse(&format!("most-minutes = {wrong}\n{GOOD}"))
            .map_or_else(|e| e.0, |_| "nothing".into());
        assert!(
            said.contains("line 1") && said.contains("most-minutes: must be from 0.01 to 1000000"),
            "{wrong}: {said}"
        );
    }
}

#[test]
fn a_mix_has_sizes_of_its_own() -> Result<(), Fault> {
    let campaign = Campaign::parse(&GOOD.replace("'rfc2544'\nsizes = [64]", "'imix'"))?;
    let sizes: Vec<_> = campaign.cells().map(|(_, size)| size).collect();
    // The mean frame size of the mix: (28 · 64 + 16 · 570 + 4 · 1518) / 48.
    assert_eq!(sizes, [354]);
    Ok(())
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn faults_name_their_place_and_valid_values() {
    assert!(Campaign::parse(GOOD).is_ok());
    let with = |line: &str| format!("name = 'a'\n{line}\n");
    let cases = [
        ("duts = ['linux']", "duts = ['linux']\ncolor = 'red'".to_owned(), "line 3"),
        ("'rfc2544'", "'rfc2545'".into(), "line 4: test 1 (rfc2545): traffic: unknown: use one of rfc2544, "),
        ("'linux'", "'linus'".into(), "unknown router \"linus\": use one of linux, volley, vpp"),
        ("[64]", "[63]".into(), "frame size 63 is out of range: this kind of frame has 64 to 2116 bytes"),
        ("[64]", "[\n64,\n63]".into(), "line 7: test 1 (rfc2544): sizes 2: "),
        ("'rfc2544'\nsizes = [64]", "'rfc5180'\nsizes = [64]".into(), "this kind of frame has 84 to 2116 bytes"),
        ("[64]", "[]".into(), "line 5: test 1 (rfc2544): sizes: at least one"),
        ("[64]", "[64, 512, 64]".into(), "line 3: test 1 (rfc2544): duplicate measurement with 64 bytes"),
        (
            "[[test]]",
            "[[test]]\ntraffic = 'rfc2544'\nsizes = [64]\nbidirectional = true\n[[test]]\ntraffic = 'rfc2544'\nsizes = [512, 64]\n[[test]]".into(),
            "line 10: test 3 (rfc2544): duplicate measurement with 64 bytes",
        ),
        ("'rfc2544'\nsizes = [64]", "'imix'\n[[test]]\ntraffic = 'imix'".into(), "test 2 (imix): duplicate measurement with 354"),
        ("'rfc2544'", "'imix'".into(), "line 5: test 1 (imix): sizes: this traffic sets"),
        ("name = 'a'\n", with("profile = 'slow'"), "line 2"),
        ("name = 'a'\n", with("trial-seconds = 0"), "line 2: trial-seconds: must be from 0.01 to"),
        ("name = 'a'\n", with("repetitions = 0"), "repetitions: must be from 1 to 10000"),
        ("name = 'a'\n", with("repetitions = 10001"), "repetitions: must be from 1 to 10000"),
        ("name = 'a'\n", with("validity = { late-us = 0 }"), "validity: late-us: must be from 1 to 1000000"),
        ("name = 'a'\n", with("procedures = []"), "procedures: at least one"),
        ("name = 'a'\n", with("procedures = ['speed']"), "line 2"),
        ("name = 'a'\n", with("procedures = [\n'latency']"), "line 3: procedures 1: \"latency\" needs the throughput: put \"throughput\" before it"),
        ("name = 'a'\n", with("procedures = ['ndr-pdr', 'ndr-pdr']"), "is listed twice"),
        ("name = 'a'\n", with("procedures = ['loads']"), "needs loads"),
        ("name = 'a'\n", with("loads = ['10 %']"), "loads: needs the procedure"),
        ("name = 'a'\n", with("procedures = ['loads']\nloads = ['10 m']"), "line 3"),
        ("[[test]]", "[[goal]]\nname = 'x'\n[[test]]".into(), "goal: needs the procedure \"ndr-pdr\""),
        (
            "[[test]]",
            "procedures = ['ndr-pdr']\n[[goal]]\nname = 'x'\nwidth = 2\n[[test]]".into(),
            "line 6: goal 1: width must be from",
        ),
        ("[[test]]", "[[goal]]\nname = 'x'\nfinal-seconds = -1\n[[test]]".into(), "line 5"),
        ("[64]", "[64]\nroutes = 5000000".into(), "line 6: test 1 (rfc2544): routes: must be at most 4194304"),
        ("[64]", "[64]\nsessions = 5000000".into(), "test 1 (rfc2544): sessions: must be at most 4194304"),
        ("[64]", "[64]\nflows = 5000000".into(), "test 1 (rfc2544): flows: must be at most 4194304"),
        ("[64]", "[64]\nflows = 5\nroutes = 7".into(), "flows: cannot be combined with routes or sessions"),
        (
            "'rfc2544'\nsizes",
            "'rfc2544-256'\nflows = 5\nsizes".into(),
            "flows: fields other than the ports vary",
        ),
        (
            "[64]",
            "[64]\nsessions = 5\nroutes = 5".into(),
            "sessions: cannot be combined with routes",
        ),
        (
            "'rfc2544'\nsizes = [64]",
            "'imix'\nsessions = 5".into(),
            "one flow of one kind of frame: UDP",
        ),
        (
            "name = 'a'\n",
            with("procedures = ['session-rate']"),
            "sessions: the procedure \"session-rate\" needs",
        ),
        (
            "'linux']\n[[test]]",
            "'volley']\nprocedures = ['throughput', 'reset']\n[[test]]\nsessions = 5".into(),
            "sessions: a restarted router loses its sessions",
        ),
        (
            "duts = ['linux']",
            "procedures = ['throughput', 'reset']\nduts = [\n'volley',\n'linux']".into(),
            "line 5: router 2 (linux): the procedure \"reset\" cannot restart this router",
        ),
        (
            "duts = ['linux']",
            "procedures = ['throughput', 'reset']\nduts = ['volley',\n{ kind = 'command', start = 'x' }]".into(),
            "line 4: router 2 (command): the procedure \"reset\" cannot restart this router",
        ),
        (
            "'linux']",
            "'none']\n[testbed]\nkind = 'physical'\nports = ['a', 'b']\ngbit = 1\n[[meter]]\nkind = 'cpu'".into(),
            "meter 1: cores: the router runs on another machine",
        ),
        ("['linux']", "[\n'linux',\n{ kind = 'linux',\n mode = 'tuned' }]".into(), "line 4: router 2 (linux): name: already"),
        ("['linux']", "[]".into(), "line 2: duts: at least one router"),
        ("name = 'a'\n", with("latency-at = [1.1]"), "latency-at: needs shares"),
        ("name = 'a'\n", with("soak = { seconds = 1, each = 2 }"), "soak: \"each\" must be"),
        ("name = 'a'\n", with("soak = { share = 0 }"), "soak: share"),
    ];
    for (from, to, why) in cases {
        let text = GOOD.replacen(from, &to, 1);
        let said = Campaign::parse(&text).map_or_else(|e| e.to_string(), |_| "nothing".into());
        assert!(said.contains(why), "{said}\nand not: {why}");
    }
}
