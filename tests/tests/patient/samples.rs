//! Runs the samples of the README and the user guide without changes. The label of a code block is its kind:
//! - `cli`: commands of the CLI. `console`: the same, after `$ volley ctl`. A page's blocks run in one router, in order.
//! - `yaml` and `startup`: configurations and startup.conf. They are checked.
//! - `python`, `go` or another kind, and a file name: a file for the commands below it.
//! - `bash`: commands that are run, in a folder with these files, and with the project in `volley`.
//! - `sh` and `text`: commands that change the machine, and output. They are not run.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use scenarios::tool;
use testkit::netns::{Host, LIMIT, Lab};
use testkit::router::{Router, binary};
use testkit::skip::skipped;

/// Time limit of a block with commands. They may compile a program.
const LONG: Duration = Duration::from_secs(180);

/// Interfaces for pages that take them as given.
const TWO_PORTS: &str = "create host-interface name eth1
create host-interface name eth2
set interface state host-eth1 up
set interface state host-eth2 up
";

/// A code block.
struct Block {
    label: String,
    /// Line number of the block's first line in the page, from 1.
    line: usize,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(label) = line.trim_start().strip_prefix("```") else { continue };
        let text =
            lines.by_ref().map(|(_, line)| line).take_while(|line| !line.trim_start().starts_with("```"));
        let text = text.fold(String::new(), |text, line| text + line + "\n");
        blocks.push(Block { label: label.to_string(), line: number + 2, text });
    }
    blocks
}

/// Returns the command of a line in a block of this kind, if it has one.
fn command<'l>(label: &str, line: &'l str) -> Option<&'l str> {
    let line = if label == "console" { line.strip_prefix("$ volley ctl ")? } else { line };
    // A comment alone is no command: `$ volley ctl` starts the prompt.
    Some(line).filter(|line| !line.trim_start().is_empty() && !line.trim_start().starts_with('#'))
}

/// Programs that may be missing. Each entry has the beginning of a command that needs the program, and a command that succeeds if the
/// program is installed.
const PROGRAMS: [(&str, &str); 4] = [
    ("ansible-playbook", "command -v ansible-playbook"),
    ("go", "command -v go"),
    ("python3 -m grpc_tools", "python3 -c 'import grpc_tools'"),
    ("vppcfg", "command -v vppcfg"),
];

/// Returns the first program of [`PROGRAMS`] that these commands need and that is not installed here; `None` if no program is missing.
fn missing(host: &Host, commands: &str) -> Option<&'static str> {
    let begins = |line: &str, program| {
        line.strip_prefix(program).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    let lacks = |test: &str| {
        let test = format!("export PATH={}; {test}", path());
        !host.spawn_args(["sh", "-c", &test]).finish(LIMIT).ok()
    };
    let mut needed =
        PROGRAMS.iter().filter(|(program, _)| commands.lines().any(|line| begins(line, program)));
    needed.find(|(_, test)| lacks(test)).map(|(program, _)| *program)
}

/// Returns the directories of programs: the environment for Python, the router's, and those of the system.
fn path() -> String {
    let python = tool::environment().unwrap_or_default();
    let router = binary().parent().unwrap_or(Path::new("/"));
    format!("{}:{}:$PATH", python.display(), router.display())
}

/// Runs the samples of a page in a router that has run `setup`. Returns the failures as text, each with its line in the page. `None` if
/// namespaces are not available.
fn failures(name: &str, setup: &str) -> Option<String> {
    let page = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(name);
    let page = fs::read_to_string(page).unwrap();
    let lab = Lab::new()?;
    let (a, b, r) = (lab.host("a"), lab.host("b"), lab.host("r"));
    lab.link((&a, "eth0"), (&r, "eth1"));
    lab.link((&b, "eth0"), (&r, "eth2"));
    a.run("ip addr add 10.0.1.2/24 dev eth0");
    // The router's other sockets are at their usual paths, in the lab's own /run.
    let router = Router::start_with(
        &r,
        "native-api { socket-name http.sock }\nsocksvr { socket-name api.sock }",
        setup,
    );
    r.run(&format!("ln -s {} /run/volley/cli.sock", router.socket().display()));
    r.run(&format!("ln -s {} {}/volley", concat!(env!("CARGO_MANIFEST_DIR"), "/.."), lab.dir().display()));
    let mut failures = String::new();
    let file = |name: &str, text: &str| {
        let file = lab.dir().join(name);
        fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let (folder, volley) = (lab.dir().display().to_string(), binary().display().to_string());
    for Block { label, line, text } in blocks(&page) {
        if let Some((_, name)) = label.split_once(' ') {
            file(name, &text);
            continue;
        }
        let shell = match label.as_str() {
            "cli" | "console" => {
                // One command a line, so that a failure names its line in the page.
                let commands = text.lines().map(|line| command(&label, line).unwrap_or_default());
                let script = file("sample", &commands.fold(String::new(), |all, line| all + line + "\n"));
                format!(
                    "cd {folder} && {volley} ctl -s {} --keep-going - < {script}",
                    router.socket().display()
                )
            }
            "yaml" => format!("{volley} check {}", file("sample.yaml", &text)),
            "startup" => format!("{volley} check {}", file("startup.conf", &text)),
            "bash" => match missing(&r, &text) {
                Some(program) => {
                    skipped(&format!("{name}:{line} needs {program}"));
                    continue;
                }
                None => format!("cd {folder}\nexport LC_ALL=C.UTF-8 PATH={}\n{text}", path()),
            },
            "sh" | "text" => continue,
            other => {
                let _ = writeln!(failures, "{name}:{line}: a code block has the label '{other}'");
                continue;
            }
        };
        let done = r.spawn_args(["sh", "-ec", &shell]).finish(LONG);
        if !done.ok() {
            let _ = writeln!(failures, "{name}:{line}: {}{}", done.stdout, done.stderr);
        }
    }
    router.stop();
    Some(failures)
}

#[test]
fn samples_of_the_readme_and_the_user_guide_run() {
    let with_address = format!("{TWO_PORTS}set interface ip address host-eth1 10.0.1.1/24\n");
    let pages = [
        ("README.md", ""),
        ("docs/guide/README.md", ""),
        ("docs/guide/automation.md", TWO_PORTS),
        ("docs/guide/configuration.md", ""),
        ("docs/guide/interfaces.md", ""),
        ("docs/guide/protection.md", TWO_PORTS),
        ("docs/guide/routing.md", TWO_PORTS),
        ("docs/guide/service.md", ""),
        ("docs/guide/switching.md", TWO_PORTS),
        ("docs/guide/troubleshooting.md", &with_address),
        ("docs/guide/workers.md", TWO_PORTS),
    ];
    let guide = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide")).unwrap();
    assert_eq!(guide.count() + 1, pages.len(), "every page of the user guide is listed here");
    let mut all = String::new();
    for (name, setup) in pages {
        let Some(failures) = failures(name, setup) else { return };
        all += &failures;
    }
    assert!(all.is_empty(), "{all}");
}

#[test]
fn blocks_and_commands_are_found() {
    let found = blocks("a\n```cli\nx\ny # z\n```\n\n```\nb\n```\n");
    let found: Vec<_> = found.iter().map(|b| (&*b.label, b.line, &*b.text)).collect();
    assert_eq!(found, [("cli", 3, "x\ny # z\n"), ("", 8, "b\n")]);
    assert_eq!(command("console", "$ volley ctl show errors  # why"), Some("show errors  # why"));
    assert_eq!(command("console", "$ volley ctl             # prompt"), None);
    assert_eq!(command("console", "$ volley top"), None);
    assert_eq!(command("cli", "x"), Some("x"));
}
