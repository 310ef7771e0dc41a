use super::*;

#[derive(Debug, Deserialize)]
struct File {
    duts: Vec<Spec>,
    #[serde(default)]
    testbed: testbed::Spec,
}

fn said(text: &str) -> String {
    match toml::from_str::<File>(text) {
        Ok(file) => check(&file.duts, &file.testbed).err().unwrap_or_else(|| "nothing".into()),
        Err(e) => e.to_string(),
    }
}

#[test]
fn a_router_is_a_word_or_a_table() -> Result<(), toml::de::Error> {
    let text = "duts = ['linux', { kind = 'volley', name = 'two', workers = 2, driver = 'af-xdp' }]";
    let file: File = toml::from_str(text)?;
    let names: Vec<_> = file.duts.iter().map(|d| (d.kind, d.name(), d.workers(), d.driver)).collect();
    assert_eq!(names, [(Kind::Linux, "linux", 1, None), (Kind::Volley, "two", 2, Some(Driver::AfXdp))]);
    Ok(())
}

#[test]
fn routers_are_read_back_from_json() -> Result<(), Box<dyn std::error::Error>> {
    let text =
        "duts = ['none', { kind = 'command', start = 'x', ready = 'y', restart = 'z', bridge = true }]";
    let file: File = toml::from_str(text)?;
    let json = serde_json::to_string(&file.duts)?;
    assert_eq!(
        json,
        r#"[{"kind":"none"},{"kind":"command","start":"x","ready":"y","restart":"z","bridge":true}]"#
    );
    assert_eq!(serde_json::from_str::<Vec<Spec>>(&json)?, file.duts);
    Ok(())
}

#[test]
fn valid_routers_are_accepted() {
    let physical = "[testbed]\nkind = 'physical'\nports = ['a', 'b']\ngbit = 10\nrouter-ports = ['c', 'd']";
    for good in [
        "duts = ['linux', 'volley', 'vpp', 'none']".to_owned(),
        "duts = [{kind = 'linux', mode = 'tuned', nat = true}, {kind = 'linux', name = 'b', mode = 'threaded'}]".into(),
        "duts = ['volley', 'vpp', 'testpmd']\n[testbed]\nkind = 'memif'".into(),
        "duts = [{kind = 'testpmd', mode = 'macswap'}]\n[testbed]\nkind = 'memif'".into(),
        format!("duts = [{{kind = 'linux', host = 'root@router'}}, 'none']\n{physical}"),
        format!("duts = [{{kind = 'linux', host = 'root@router', workers = 4, mode = 'tuned'}}]\n{physical}"),
        "duts = [{kind = 'command', configure = 'true', hops = 2, routes = 'ip -batch -'}]".into(),
        "duts = [{kind = 'vpp', program = '/opt/vpp/bin/vpp'}]".into(),
    ] {
        assert_eq!(said(&good), "nothing", "{good}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn faults_name_router_key_and_valid_values() {
    let physical = "[testbed]\nkind = 'physical'\nports = ['a', 'b']\ngbit = 10\n";
    let memif = "[testbed]\nkind = 'memif'\n";
    let cases = [
        ("duts = ['linus']".to_owned(), "line 1"),
        ("duts = [\n'linux',\n'linus']".into(), "line 3"),
        ("duts = ['linus']".into(), "unknown router \"linus\": use one of linux, volley, vpp, "),
        ("duts = [\n{kind = 'linux', color = 1}]".into(), "line 2"),
        ("duts = [\n{kind = 'linux', color = 1}]".into(), "color"),
        ("duts = [\n{kind = 'volley', workers = 'two'}]".into(), "line 2"),
        ("duts = [{name = 'x'}]".into(), "missing field `kind`"),
        ("duts = [7]".into(), "the kind of a router, or a table"),
        ("duts = ['linux', 'linux']".into(), "router 2 (linux): name: already taken"),
        (
            "duts = [{kind = 'linux', driver = 'af-xdp'}]".into(),
            "router 1 (linux): driver is not supported by the kind linux: its keys are workers, mode, nat, nat-pool, host",
        ),
        ("duts = [{kind = 'none', workers = 1}]".into(), "its only key is name"),
        (
            "duts = [{kind = 'volley', name = 'v', nat = true}]".into(),
            "router 1 (v): nat is not supported by the kind volley",
        ),
        ("duts = ['testpmd']".into(), "not supported on the testbed \"veth\", only on memif"),
        (format!("duts = ['linux']\n{memif}"), "on the testbed \"memif\", only on veth or tap or physical"),
        (format!("duts = [{{kind = 'testpmd', mode = 'tuned'}}]\n{memif}"), "mode: use io or macswap"),
        ("duts = [{kind = 'linux', mode = 'io'}]".into(), "mode: use default, tuned or threaded"),
        ("duts = [{kind = 'linux', mode = 'fast'}]".into(), "unknown variant `fast`"),
        (format!("duts = ['linux']\n{physical}"), "the testbed \"physical\" needs host"),
        (
            "duts = [{kind = 'linux', host = 'a'}]".into(),
            "host is only supported on the testbed \"physical\"",
        ),
        (format!("duts = [{{kind = 'linux', host = 'a'}}]\n{physical}"), "needs router-ports"),
        (
            format!("duts = [{{kind = 'linux', host = '-oProxyCommand=x'}}]\n{physical}"),
            "host: must be user@machine",
        ),
        (
            format!(
                "duts = [{{kind = 'linux', host = 'a', mode = 'threaded', workers = 2}}]\n{physical}router-ports = ['c', 'd']\n"
            ),
            "workers: not supported with mode = \"threaded\"",
        ),
        (format!("duts = ['volley']\n{physical}"), "the testbed \"physical\" needs host"),
        (format!("duts = [{{kind = 'vpp', host = 'a'}}]\n{physical}"), "needs router-ports"),
        (
            format!(
                "duts = [{{kind = 'vpp', host = 'a', workers = 2, cores = [1]}}]\n{physical}router-ports = ['c', 'd']\n"
            ),
            "cores: each worker needs a core",
        ),
        (
            "duts = [{kind = 'volley', cores = [1]}]".into(),
            "a router's cores are only supported on the testbed \"physical\"",
        ),
        (
            "duts = [{kind = 'vpp', driver = 'af-xdp'}]".into(),
            "driver: only supported on the testbed \"physical\"",
        ),
        ("duts = [{kind = 'linux', nat-pool = '203.0.113.0/24'}]".into(), "nat-pool needs nat = true"),
        ("duts = [{kind = 'linux', nat = true, nat-pool = 'x'}]".into(), "line 1"),
        (
            "duts = [{kind = 'volley', driver = 'memif'}]".into(),
            "memif is only supported on the testbed \"memif\"",
        ),
        (format!("duts = [{{kind = 'volley', driver = 'af-xdp'}}]\n{memif}"), "driver: must be memif"),
        ("duts = [{kind = 'volley', workers = 0}]".into(), "workers: must be at least 1"),
        ("duts = ['none']\n[testbed]\nkind = 'tap'".into(), "only on veth or memif or physical"),
        (
            "duts = [{kind = 'linux', mode = 'threaded'}]\n[testbed]\nkind = 'tap'".into(),
            "mode: threaded is not supported on taps",
        ),
        ("duts = [{kind = 'volley', restart = 'x'}]".into(), "restart is not supported by the kind volley"),
        ("duts = ['command']".into(), "start or configure is needed"),
        ("duts = [{kind = 'linux', routes = 'x'}]".into(), "routes is not supported by the kind linux"),
        ("duts = [{kind = 'linux', hops = 2}]".into(), "hops is not supported by the kind linux"),
        (
            "duts = [{kind = 'vpp', program = 'vpp'}]".into(),
            "router 1 (vpp): program: must be an absolute path",
        ),
        (
            "duts = [{kind = 'volley', program = '/x'}]".into(),
            "program: only supported on the testbed \"physical\"",
        ),
        ("duts = [{kind = 'command', configure = 'x', ready = 'y'}]".into(), "\"ready\" needs \"start\""),
        ("duts = ['linux']\n[testbed]\ngbit = 1".into(), "testbed: gbit requires kind"),
    ];
    for (text, why) in cases {
        assert!(said(&text).contains(why), "{text}\n{}\nand not: {why}", said(&text));
    }
}
