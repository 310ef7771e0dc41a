//! Checks of files without a running router (`volley check`).
//!
//! The name of a file decides how it is read. YAML (`.yaml`, `.yml`) or JSON (`.json`) is a configuration. `.conf` is a startup.conf, which
//! is checked together with the configuration that it names. Any other file has commands, like the file that the router runs at its start.

use std::io::BufReader;
use std::path::Path;

use drivers::Patience;
use net::router::Router;

use crate::app::{Context, Feature};
use crate::cli::{Registry, check_commands};
use crate::commands::Names;
use crate::config::{self, Format};
use crate::features::{Selected, unknown_plugins};
use crate::files;
use crate::startup::{Fault, MOST_BUFFERS, Place, Plugins, Startup};
use crate::system::Abilities;

/// The results of checking files. Each text names the position in the file.
#[derive(Debug, Default)]
pub struct Found {
    /// Faults for which a router would refuse the file.
    pub faults: Vec<String>,
    /// Warnings that a router would log, and problems on this machine.
    pub warnings: Vec<String>,
}

/// Checks files against a router of this version, without interfaces.
pub struct Checker<'r> {
    router: &'r Router,
    features: &'r [&'r Feature],
    abilities: Abilities,
    names: Names,
    registry: Registry<Context>,
}

impl<'r> Checker<'r> {
    /// Returns a checker for routers like `router`, with these features.
    pub fn new(router: &'r Router, features: &'r [&'r Feature]) -> Checker<'r> {
        let mut checker = Checker::without(router, features, &Plugins::default());
        // The maximum, because the checked file does not set the number of buffers.
        checker.abilities = checker.abilities.with_buffers(MOST_BUFFERS);
        checker
    }

    /// Returns a checker without the features that a startup.conf disables.
    fn without(router: &'r Router, features: &'r [&'r Feature], plugins: &Plugins) -> Checker<'r> {
        let (registry, catalog) = Selected::by(features, plugins).declared();
        Checker {
            router,
            features,
            names: Names::of(router, catalog.clone()),
            abilities: Abilities::of(router, catalog),
            registry,
        }
    }

    /// Checks a file.
    pub fn check(&self, path: &Path) -> Found {
        let mut found = Found::default();
        if path.extension().is_some_and(|extension| extension == "conf") {
            self.startup(path, &mut found);
        } else {
            self.configuration(path, &mut found);
        }
        found
    }

    fn startup(&self, path: &Path, found: &mut Found) {
        match Startup::load(path) {
            Err(faults) => found.faults.extend(texts(&faults)),
            Ok(startup) => {
                found.warnings.extend(startup.warnings.iter().cloned());
                found.warnings.extend(startup.unknown_groups());
                found.warnings.extend(unknown_plugins(self.features, &startup));
                if let Err((at, e)) = startup.cpu.place(infra::cpu::own_cores()) {
                    found.warnings.push(startup.about(at, format_args!("on this machine: {e}")));
                }
                let folder = startup.unix.log.as_deref().and_then(Path::parent);
                if let Some(folder) = folder.filter(|f| !f.as_os_str().is_empty() && !f.is_dir()) {
                    let what = format!("no such directory on this machine: {}", folder.display());
                    found.warnings.push(startup.about(&["log"], what));
                }
                let configuration = startup.unix.startup_config.as_deref();
                match configuration.filter(|file| !file.exists()) {
                    Some(missing) => {
                        let message = format!("no such file on this machine: {}", missing.display());
                        found.warnings.push(startup.about(&["startup-config | exec"], message));
                    }
                    None => configuration.into_iter().for_each(|file| {
                        let mut checker = Checker::without(self.router, self.features, &startup.plugins);
                        checker.abilities = checker.abilities.with_buffers(startup.buffers.per_numa);
                        checker.configuration(file, found);
                    }),
                }
            }
        }
    }

    fn configuration(&self, path: &Path, found: &mut Found) {
        let (name, patience) = (path.display().to_string(), Patience::without_end());
        let unreadable = |e: std::io::Error| {
            Fault::new(&Place::Whole(name.as_str().into()), format!("cannot be read: {e}")).to_string()
        };
        if Format::of(path) == Format::Commands {
            match files::open(path, &patience) {
                Err(e) => found.faults.push(unreadable(e)),
                Ok(file) => {
                    let faults = check_commands(&self.registry, &self.names, BufReader::new(file), &name);
                    found.faults.extend(texts(&faults));
                }
            }
            return;
        }
        match files::read(path, &patience) {
            Err(e) => found.faults.push(unreadable(e)),
            Ok(text) => {
                let wanted = config::read(&text, &name, &self.abilities.catalog);
                found.faults.extend(texts(&wanted.faults(&self.abilities)));
                found.warnings.extend(texts(&wanted.warnings()));
            }
        }
    }
}

fn texts(faults: &[Fault]) -> impl Iterator<Item = String> {
    faults.iter().map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::tests::system;
    use std::fs;

    /// Writes all `files` into a directory, and checks the first one. Returns faults and warnings, without the directory's name.
    fn found(files: &[(&str, &str)]) -> (Vec<String>, Vec<String>) {
        let directory = tempfile::tempdir().unwrap();
        let here = format!("{}/", directory.path().display());
        for (name, text) in files {
            fs::write(directory.path().join(name), text.replace("HERE/", &here)).unwrap();
        }
        let found = Checker::new(&system().router, crate::testing::FEATURES)
            .check(&directory.path().join(files[0].0));
        let short = |texts: Vec<String>| texts.iter().map(|text| text.replace(&here, "")).collect();
        (short(found.faults), short(found.warnings))
    }

    #[test]
    fn every_fault_in_a_command_file_is_reported() {
        let (faults, warnings) = found(&[(
            "x.cli",
            "create host-interface name eth0\n\
             set interface state host-eth0 upp\n\
             set int st hots-eth0 up # no such name\n\
             ip route add 10.0.0.0/8 \\\n  vai 10.0.0.1\n\
             set interface ip address host-eth0.7 10.0.0.1/24\n\
             set interface state memif0/1 up\n\
             show version --json\n\
             say 'it\n\
             trace add ethernet-inptu 5\n",
        )]);
        assert_eq!(warnings, [""; 0]);
        for (fault, part) in faults.iter().zip([
            "x.cli:2:31: unexpected 'upp'; expected one of: up, down; did you mean 'up'?",
            "x.cli:3:12: there is no interface 'hots-eth0'",
            "x.cli:5:3: unexpected 'vai'",
            "x.cli:9:5: this quote is not closed",
            "x.cli:10:11: there is no node 'ethernet-inptu'",
        ]) {
            assert!(fault.starts_with(part), "{fault}\nexpected {part}");
        }
        assert_eq!(faults.len(), 5, "{faults:#?}");
    }

    #[test]
    fn missing_files_are_warnings() {
        let (faults, warnings) = found(&[(
            "x.yaml",
            "interfaces:\n  pcap0: { pcap: { rx: HERE/no.pcap } }\n  pcap1: { pcap: { rx: HERE/x.yaml, tx: HERE/no/y } }\n",
        )]);
        assert_eq!(faults, [""; 0]);
        for (warning, part) in warnings.iter().zip([
            "x.yaml:2:3: on this machine: cannot replay no.pcap: No such file",
            "x.yaml:3:3: on this machine: cannot replay x.yaml: ",
            "x.yaml:3:3: on this machine: cannot record: no such directory: no",
        ]) {
            assert!(warning.starts_with(part), "{warning}\nexpected {part}");
        }
        assert_eq!(warnings.len(), 3, "{warnings:#?}");
    }

    #[test]
    fn startup_conf_is_checked_with_its_files() {
        let conf = "unix { cli-lisen x }\n";
        assert!(found(&[("x.conf", conf)]).0[0].starts_with("x.conf:1:8: section 'unix' has no parameter"));
        let conf = "unix {\n  startup-config HERE/y.cli\n  gid nosuchgroup\n}\n";
        let (faults, warnings) = found(&[("x.conf", conf), ("y.cli", "show version\n\nnonsense\n")]);
        assert!(faults.len() == 1 && faults[0].starts_with("y.cli:3:1: there is no command"), "{faults:?}");
        assert!(warnings.len() == 1 && warnings[0].starts_with("x.conf:3:3: "), "{warnings:?}");
        let (faults, warnings) = found(&[("x.conf", "unix { exec HERE/no.yaml }\n")]);
        assert_eq!(faults, [""; 0]);
        assert_eq!(warnings, ["x.conf:1:8: no such file on this machine: no.yaml"]);
        assert!(found(&[("x.conf", "unix { exec HERE/no/../y.yaml }"), ("y.yaml", "a: [\n")]).1.len() == 1);
    }

    #[test]
    fn special_files_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["endless.yaml", "endless.cli"] {
            let path = directory.path().join(name);
            std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
            let found = Checker::new(&system().router, crate::testing::FEATURES).check(&path);
            assert!(
                found.faults.len() == 1 && found.faults[0].contains("cannot be read"),
                "{:?}",
                found.faults
            );
        }
    }
}
