//! The configuration is saved and restored.

use std::path::Path;

use crate::cli::{Call, Step};
use crate::testing::Cli;

use super::config_tests::{file, many_routes, run_until};

#[test]
fn only_ordinary_files_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, link) = (folder.path().join("pipe"), folder.path().join("link"));
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink(&pipe, &link).unwrap();
    let mut cli = Cli::new();
    for file in [&pipe, &link] {
        for command in ["config save", "create pcap interface pcap0 tx"] {
            let refused = cli.run(&format!("{command} {}", file.display())).unwrap_err().to_string();
            assert!(refused.contains("it is not an ordinary file"), "{command}: {refused}");
        }
    }
    let kind = |path: &Path| path.symlink_metadata().unwrap().file_type();
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&kind(&pipe)) && kind(&link).is_symlink());
}

#[test]
fn save_without_a_name_writes_the_start_file() {
    let mut cli = Cli::new();
    let told = cli.refused("config save", "save");
    assert!(told.contains("name the file"), "{told}");
    let (_folder, path) = file("startup.yaml", "{}\n");
    cli.context.startup_config = Some(path.clone().into());
    assert_eq!(cli.ok("config save"), format!("{path} written, as YAML\n"));
    assert!(std::fs::read_to_string(&path).unwrap().contains("10.0.0.1/24"));
    assert_eq!(cli.ok(&format!("config apply {path} dry-run")), "nothing would change\n");
}

/// A saved file equals the output of `show config yaml`. If the configuration changes while it is shown, the output says so.
#[test]
fn a_large_configuration_is_written_in_slices() {
    let mut cli = Cli::new();
    let (_folder, path) = many_routes(20_000);
    cli.ok(&format!("config apply {path}"));
    let answer = cli.registry.run(&mut cli.context, "show config yaml", Call::default()).unwrap();
    let (mut job, mut text, mut slices) = (answer.job.unwrap(), String::new(), 0);
    while matches!(job.step(&mut cli.context, &mut text), Step::Again) {
        slices += 1;
    }
    assert!(slices > 5, "{slices} slices");
    let (folder, saved) = file("saved.yaml", "");
    let line = format!("config save {saved}");
    let mut job = run_until(&mut cli, &line, |cli| cli.context.changes.must_be_free().is_err());
    let told = cli.run("set interface mtu 1200 pg0").unwrap_err().to_string();
    assert!(told.starts_with("config save is running"), "{told}");
    while !matches!(job.step(&mut cli.context, &mut String::new()), Step::Done) {}
    assert_eq!(std::fs::read_to_string(&saved).unwrap(), text);
    drop(folder);
    let answer = cli.registry.run(&mut cli.context, "show config yaml", Call::default()).unwrap();
    let (mut job, mut text) = (answer.job.unwrap(), String::new());
    job.step(&mut cli.context, &mut text);
    cli.ok("set interface mtu 1200 pg0");
    while matches!(job.step(&mut cli.context, &mut text), Step::Again) {}
    assert!(text.ends_with("this is a mixture of old and new parts\n"));
}

#[test]
fn a_saved_configuration_restores_the_same() {
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
    assert_eq!(mode & 0o777, 0o640, "the permissions are kept");
    let saved = std::fs::read_to_string(&commands).unwrap();
    assert!(saved.starts_with('#') && saved.ends_with(&config), "{saved}");
    let mut again = Cli::new();
    again.ok("delete packet-generator interface pg0");
    again.ok(&format!("config apply {yaml}"));
    assert_eq!(again.ok("show config"), config);
    // A failed save leaves no temporary file.
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    let before = files();
    cli.refused("config save /dev/full/x.yaml", "/dev/full/x.yaml");
    assert_eq!(files(), before);
}

#[test]
fn a_save_removes_files_of_killed_saves() {
    let mut cli = Cli::new();
    let (folder, path) = file("a.yaml", "");
    let other = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, "precious").unwrap();
        path
    };
    let left = [other(".volley-save-a1B2c3.tmp"), other(".volley-save-zzzzzz.tmp")];
    // Another process is writing this file.
    let written = other(".volley-save-d4E5f6.tmp");
    let writer = std::fs::File::open(&written).unwrap();
    writer.lock().unwrap();
    let others = [written, other(".volley-abcdef"), other("volley-save-1.tmp"), other(".volley-save-notes")];
    let link = folder.path().join(".volley-save-link00.tmp");
    std::os::unix::fs::symlink(&others[1], &link).unwrap();
    cli.ok(&format!("config save {path}"));
    assert!(left.iter().all(|path| !path.exists()));
    assert!(others.iter().chain([&link]).all(|path| path.exists()));
    drop(writer);
    cli.ok(&format!("config save {path}"));
    assert!(!others[0].exists() && others[1].exists());
}

/// Names and indices survive a restart: operators and monitoring identify interfaces by them.
#[test]
fn names_and_indices_survive_a_restart() {
    for form in ["saved.yaml", "saved.conf"] {
        let mut cli = Cli::new();
        for line in [
            "create loopback interface instance 5",
            "create sub-interfaces pg1 7",
            "create loopback interface instance 3",
            "delete loopback interface intfc loop5",
            "create sub-interfaces pg0 9",
            r#"set interface description pg0.9 "two words, a \"quote\"""#,
        ] {
            cli.ok(line);
        }
        let shown = cli.ok("show interface description");
        assert!(shown.contains(r#"two words, a "quote""#), "{shown}");
        let config = cli.ok("show config");
        let (_folder, path) = file(form, "");
        cli.ok(&format!("config save {path}"));
        let mut again = Cli::new();
        for n in 0..2 {
            again.ok(&format!("delete packet-generator interface pg{n}"));
        }
        again.ok(&format!("{} {path}", if form.ends_with("yaml") { "config apply" } else { "exec" }));
        assert_eq!(again.ok("show interface description"), shown);
        assert_eq!(again.ok("show config"), config);
        // A file without indices does not change them.
        let (_folder, path) = file("a.yaml", "interfaces: { pg0: { sub-interfaces: { 9: {} } } }\n");
        let index = |cli: &mut Cli| {
            let json = cli.ok("show interface description pg0.9 --json");
            serde_json::from_str::<serde_json::Value>(&json).unwrap()[0]["index"].clone()
        };
        let before = index(&mut again);
        again.ok(&format!("config apply {path}"));
        assert_eq!(index(&mut again), before);
    }
}
