//! Runs `volley bench` in a lab and reads its results.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testkit::netns::{Host, Lab};
use testkit::process::Process;
use testkit::router::binary;
use testkit::skip::skipped;

/// Time limit of a campaign, which takes some seconds for each router.
pub const LONG: Duration = Duration::from_secs(120);

/// Returns the search path of programs: the directory's `bin` first.
fn path(dir: &Path) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}:/usr/local/sbin:/usr/sbin:/sbin", dir.join("bin").display())
}

/// The end of a campaign's file: limits so wide that trials are valid even while other tests run. Loss, order and counts do not depend on
/// when frames leave.
pub const PATIENT: &str = "[validity]\nlate-us = 1000000\naway-us = 1000000\nburst-frames = 1000000\nwaited-percent = 100\n\
                           stolen-percent = 100\n";

/// A campaign in the directory of a lab.
#[derive(Debug)]
pub struct Campaign<'a> {
    lab: &'a Lab,
    file: PathBuf,
    json: PathBuf,
    store: PathBuf,
}

impl<'a> Campaign<'a> {
    /// Writes the campaign's file. `head` has the keys and the tests of the campaign, `duts` the routers, and `testbed` the keys of the
    /// testbed.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn write(lab: &'a Lab, head: &str, duts: &str, testbed: &str) -> Campaign<'a> {
        let file = |name| lab.dir().join(name);
        let (keys, tests) = head.split_once("[[test]]").expect("a test");
        let validity = if keys.contains("validity") { "" } else { PATIENT };
        let text = format!("{keys}duts = [\n{duts}\n]\n[[test]]{tests}[testbed]\n{testbed}\n{validity}");
        std::fs::write(file("campaign.toml"), text).expect("a file");
        Campaign { lab, file: file("campaign.toml"), json: file("results.json"), store: file("store.db") }
    }

    /// Returns the arguments of `volley` that run the campaign.
    pub fn words(&self) -> Vec<String> {
        let [file, json, store] = [&self.file, &self.json, &self.store].map(|f| f.display().to_string());
        ["bench", "run", &file, "--json", &json, "--store", &store].map(str::to_owned).to_vec()
    }

    /// Runs the campaign and returns its results.
    ///
    /// # Panics
    /// When it fails, with the tester's message.
    pub fn run(&self) -> Value {
        let mut command = Command::new(binary());
        command.args(self.words()).current_dir(self.lab.dir()).env("PATH", path(self.lab.dir()));
        let out = command.output().expect("the binary runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        self.results()
    }

    /// Starts the campaign on a host, with these words before the command. Campaigns with physical ports run in the host's namespace,
    /// because the tester makes no namespaces for them.
    pub fn spawn(&self, on: &Host, before: &[&str]) -> Process {
        let (path, temporary) = (path(self.lab.dir()), self.lab.dir().display());
        let set = ["env".to_owned(), format!("PATH={path}"), format!("TMPDIR={temporary}")];
        let before = before.iter().map(|word| (*word).to_owned());
        let program = [binary().display().to_string()];
        on.spawn_args(set.into_iter().chain(before).chain(program).chain(self.words()))
    }

    /// Returns the results of the campaign.
    ///
    /// # Panics
    /// When the campaign has not ended.
    pub fn results(&self) -> Value {
        serde_json::from_slice(&std::fs::read(&self.json).expect("results")).expect("JSON")
    }

    /// Returns all trials of the last run with routers, including warm-up trials and invalid ones.
    ///
    /// # Panics
    /// When the tester prints invalid JSON.
    pub fn trials(&self) -> Trials {
        let mut command = Command::new(binary());
        let out = command.args(["bench", "trials"]).arg(&self.store).output().expect("the binary runs");
        let text = String::from_utf8_lossy(&out.stdout);
        let all = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        Trials(all.filter(|trial| trial["procedure"] != "self-test").collect())
    }
}

/// Trials from the tester's store.
#[derive(Debug)]
pub struct Trials(pub Vec<Value>);

impl Trials {
    /// Returns the trials without the warm-up trials. The counters of procedures cover the same trials.
    #[must_use]
    pub fn of_procedures(mut self) -> Trials {
        self.0.retain(|trial| trial["procedure"] != "warm-up");
        self
    }

    /// Returns the sum of a count over the flows that start at this port.
    ///
    /// # Panics
    /// When there is no such count.
    pub fn sum(&self, from: u64, what: &str) -> u64 {
        let flows = self.0.iter().flat_map(|trial| trial["flows"].as_array().expect("flows"));
        let counts = flows.filter(|flow| flow["direction"] == from).map(|flow| count(flow, what));
        counts.sum()
    }

    /// Returns the number of received frames that belonged to no running trial, such as frames that arrived after the end of
    /// their trial.
    ///
    /// # Panics
    /// When a trial has no such count.
    pub fn foreign(&self) -> u64 {
        self.0.iter().map(|trial| count(trial, "foreign")).sum()
    }
}

/// Returns a number from a JSON object.
///
/// # Panics
/// When it has no such number.
pub fn count(of: &Value, what: &str) -> u64 {
    of[what].as_u64().unwrap_or_else(|| panic!("no {what}: {of}"))
}

/// Returns the results of the procedure `loads` with a router.
///
/// # Panics
/// When it has no results.
pub fn loads<'a>(results: &'a Value, dut: &str) -> &'a Vec<Value> {
    let cell = results["cells"].as_array().and_then(|all| all.iter().find(|c| c["dut"] == dut));
    let measured =
        cell.and_then(|c| c["measurements"].as_array()?.iter().find(|m| m["found"]["procedure"] == "loads"));
    let found = measured.and_then(|m| m["found"]["result"].as_array());
    found.unwrap_or_else(|| panic!("no results of {dut}: {:#}", results["failures"]))
}

/// Returns the sum of a counter of the first router over all procedures.
///
/// # Panics
/// When it has no counter of this name.
pub fn counter(results: &Value, name: &str) -> u64 {
    let all = results["cells"][0]["measurements"].as_array().expect("measurements");
    let counted = |m: &Value| {
        let mut counters = m["counters"].as_array()?.iter();
        counters.find(|pair| pair[0] == name)?[1].as_str()?.parse::<u64>().ok()
    };
    all.iter().map(|m| counted(m).unwrap_or_else(|| panic!("no {name}: {m}"))).sum()
}

/// Writes a program into the tester's search path.
///
/// # Panics
/// When it cannot be written.
pub fn program(dir: &Path, name: &str, script: &str) {
    let file = dir.join("bin").join(name);
    std::fs::create_dir_all(dir.join("bin")).expect("a directory");
    std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("the test owns the file");
}

/// Returns FD.io VPP's program, if `VOLLEY_VPP` has its path. Tests use a stand-in otherwise, which shows only what the tester writes.
///
/// # Panics
/// When there is no such file.
pub fn vpp() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("VOLLEY_VPP")?);
    assert!(path.is_file(), "VOLLEY_VPP={}: no such file", path.display());
    Some(path)
}

/// True if DPDK's testpmd is installed. Otherwise reports that the test is skipped.
pub fn has_testpmd() -> bool {
    let there = Command::new("dpdk-testpmd").arg("-v").output().is_ok_and(|o| !o.stderr.is_empty());
    if !there {
        skipped("needs dpdk-testpmd");
    }
    there
}
