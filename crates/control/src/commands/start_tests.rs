//! Starts of the router while capture files are missing, or while other files are in their place.

use super::config_tests::NO_PACKETS;
use crate::app::{Go, Reading, Terms, Work};
use crate::system::Absence;
use crate::testing::Cli;

/// Runs work to its end.
fn finish(cli: &mut Cli, mut work: impl Work) {
    while work.step(&mut cli.context, &mut Vec::new()).map_err(|e| e.to_string()).unwrap() != Go::Done {}
}

/// At the start, interfaces wait for their capture files, even if a text file, a folder, a pipe or a symbolic link is in their place. The
/// router does not follow the link, and replaces no file.
#[test]
fn a_start_does_not_depend_on_capture_files() {
    for way in ["no folder", "text", "folder", "pipe", "link"] {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (path, victim, shared) = (at("start.yaml"), at("victim"), at("shared"));
        std::fs::write(&victim, NO_PACKETS).unwrap();
        let files = ["shared/sent.pcap", "shared/replayed.pcap"].map(at);
        if way != "no folder" {
            std::fs::create_dir(&shared).unwrap();
        }
        for file in &files {
            match way {
                "text" => std::fs::write(file, "precious").unwrap(),
                "folder" => std::fs::create_dir(file).unwrap(),
                "pipe" => nix::unistd::mkfifo(file, nix::sys::stat::Mode::S_IRWXU).unwrap(),
                "link" => std::os::unix::fs::symlink(at("none"), file).unwrap(),
                _ => {}
            }
        }
        let [sent, replayed] = files.each_ref().map(|file| file.display().to_string());
        let pcap = format!("pcap0: {{ pcap: {{ tx: {sent} }} }}\n  pcap1: {{ pcap: {{ rx: {replayed} }} }}");
        std::fs::write(&path, format!("interfaces:\n  {pcap}\n  pg0: {{}}\n")).unwrap();
        for by_file in [true, false] {
            let mut cli = Cli::new();
            cli.context.system.absence = Absence::Missing;
            if by_file {
                let catalog = cli.context.system.abilities.catalog.clone();
                let reading = Reading::begin(path.clone(), drivers::Patience::for_ever(), catalog).unwrap();
                let terms = Terms { quiet: true, ..Terms::default() };
                let work = cli.context.apply_read(reading, terms).map_err(|e| e.to_string()).unwrap();
                finish(&mut cli, work);
            } else {
                cli.ok(&format!("create pcap interface pcap0 tx {sent}"));
                cli.ok(&format!("create pcap interface pcap1 rx {replayed}"));
            }
            cli.context.system.absence = Absence::Refused;
            let told = cli.context.degraded();
            assert_eq!(told.len(), 2, "{way}: {told:?}");
            assert!(told[0].starts_with(&format!("pcap0 has no device: cannot write {sent}: ")), "{told:?}");
            assert!(
                told[1].starts_with(&format!("pcap1 has no device: cannot replay {replayed}: ")),
                "{told:?}"
            );
            assert_eq!(cli.json("show interface pcap0")[0]["absent"], true);
            // An operator's command is refused.
            assert!(cli.run(&format!("create pcap interface pcap2 rx {replayed}")).is_err());
            if way == "no folder" && !by_file {
                std::fs::create_dir(&shared).unwrap();
                std::fs::write(&files[1], NO_PACKETS).unwrap();
                let begun = std::time::Instant::now();
                while !cli.context.degraded().is_empty() {
                    assert!(
                        begun.elapsed() < std::time::Duration::from_secs(20),
                        "{:?}",
                        cli.context.degraded()
                    );
                    cli.context.system.reopen_devices();
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                assert!(files[0].is_file());
            }
        }
        assert_eq!(std::fs::read(&victim).unwrap(), NO_PACKETS);
        assert!(way != "text" || std::fs::read(&files[0]).unwrap() == b"precious");
        assert!(way != "link" || (files[0].is_symlink() && !at("none").exists()));
    }
}
