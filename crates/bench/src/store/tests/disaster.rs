//! Killed testers, full disks, concurrent testers, and files that are not stores.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use rusqlite::Connection;
use testkit::skip::skipped;

use super::*;

/// Environment variable with the file to which a child process writes trials until it is stopped.
const WRITE_TO: &str = "VOLLEY_TEST_WRITE_TO";

/// Writes trials until a write fails, and prints the number of each stored trial.
fn write_for_ever(path: &str) {
    let store = Store::open(Path::new(path)).unwrap();
    let recorder = store.begin(&asked("a")).unwrap();
    recorder.cell(&cell(key("linux", 64), 1e6)).unwrap();
    recorder.measurement(&key("linux", 64), &measurement(Procedure::Loads)).unwrap();
    for n in 1.. {
        match recorder.trial(&trial(key("linux", 64), n)) {
            Ok(()) => {
                println!("kept {n}");
                // Gives other processes time to use the store, as during a trial.
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(e) => {
                println!("ended: {e}");
                // The store is still readable on the full disk.
                println!("there are {}", trials(&store, recorder.id()).len());
                return;
            }
        }
    }
}

/// Returns a command that runs this test as a writer. `around` is a command that takes the test program as
/// its last arguments; it may be empty.
fn writer(test: &str, path: &Path, around: &[&str]) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut words = around.iter().map(std::ffi::OsStr::new).chain([this.as_os_str()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(["--exact", &format!("store::tests::disaster::{test}"), "--nocapture"]);
    command.env(WRITE_TO, path).stdout(Stdio::piped());
    command
}

/// Returns the number in a line such as "kept 12" or "there are 12".
fn number(line: &str, of: &str) -> Option<u64> {
    line.split_once(of)?.1.trim().parse().ok()
}

fn is_sound(path: &Path) {
    let sound: String =
        Connection::open(path).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
}

#[test]
fn a_killed_tester_loses_no_stored_trial() {
    if let Ok(path) = std::env::var(WRITE_TO) {
        return write_for_ever(&path);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut child = writer("a_killed_tester_loses_no_stored_trial", &path, &[]).spawn().unwrap();
    let mut kept = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        kept = number(&line, "kept ").unwrap_or(kept);
        if kept == 20 {
            // No other tester resumes a campaign that is still running.
            let store = Store::existing(&path).unwrap();
            let why = store.resume(&asked("a")).err().unwrap().to_string();
            assert!(why.contains("campaign 1 is still being measured by another tester"), "{why}");
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(kept >= 20, "{kept}");
    let store = Store::existing(&path).unwrap();
    let recorder = store.resume(&asked("a")).unwrap().unwrap();
    let there = trials(&store, recorder.id());
    // The last trial may be stored, but not yet printed.
    assert!((kept..=kept + 1).contains(&(there.len() as u64)), "{} of {kept}", there.len());
    assert!(there.iter().zip(1..).all(|(t, n)| t.outcome.received == n));
    assert_eq!(recorder.known(&key("linux", 64), Procedure::Loads), Some(measurement(Procedure::Loads)));
    recorder.trial(&trial(key("linux", 64), 0)).unwrap();
    is_sound(&path);
}

#[test]
fn a_full_disk_loses_no_stored_trial() {
    if let Ok(path) = std::env::var(WRITE_TO) {
        return write_for_ever(&path);
    }
    let directory = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=256k full {} && exec \"$@\"", directory.path().display());
    let mut around = vec!["unshare", "--mount", "--", "sh", "-c", &mount, "sh"];
    if !rustix::process::geteuid().is_root() {
        around.splice(1..1, ["--user", "--map-root-user"]);
    }
    let path = directory.path().join("store.db");
    let out = match writer("a_full_disk_loses_no_stored_trial", &path, &around).output() {
        Ok(out) if String::from_utf8_lossy(&out.stdout).contains("ended") => out,
        other => {
            skipped(&format!("needs to mount a small disk: {other:?}"));
            return;
        }
    };
    let said = String::from_utf8_lossy(&out.stdout);
    let kept = said.lines().filter_map(|line| number(line, "kept ")).next_back().unwrap();
    assert!(kept > 20, "{said}");
    assert_eq!(said.lines().find_map(|line| number(line, "there are ")), Some(kept), "{said}");
    assert!(said.contains("store.db: the disk is full") && said.contains("--resume"), "{said}");
}

#[test]
fn a_campaign_on_a_full_store_can_be_resumed() {
    let (_directory, store) = store();
    let recorder = store.begin(&asked("a")).unwrap();
    let grow = |pages: u32| store.connection.execute_batch(&format!("PRAGMA max_page_count = {pages}"));
    grow(1).unwrap();
    let (mut kept, mut why) = (0, None);
    while why.is_none() && kept < 1_000 {
        match recorder.trial(&trial(key("linux", 64), kept)) {
            Ok(()) => kept += 1,
            Err(e) => why = Some(e),
        }
    }
    let why = why.unwrap();
    assert!(why.to_string().contains("store.db: the disk is full. All results so far are stored"));
    grow(1 << 20).unwrap();
    // A trial is missing: the campaign must not count as complete, and must not continue.
    assert_eq!(recorder.failure("linux, rfc2544, 64 bytes, loads: the disk was full"), Err(why.clone()));
    assert_eq!(recorder.finish(), Err(why));
    assert_eq!(trials(&store, recorder.id()).len() as u64, kept);
    let id = recorder.id();
    let recorder = store.resume(&asked("a")).unwrap().unwrap();
    recorder.trial(&trial(key("linux", 64), kept)).unwrap();
    assert_eq!((recorder.id(), trials(&store, id).len() as u64), (id, kept + 1));
    recorder.finish().unwrap();
}

#[test]
fn a_locked_store_leaves_a_campaign_unfinished() {
    let (directory, store) = store();
    store.connection.busy_timeout(Duration::from_millis(1)).unwrap();
    let recorder = store.begin(&asked("a")).unwrap();
    let other = Connection::open(directory.path().join("store.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let why = recorder.trial(&trial(key("linux", 64), 1)).unwrap_err();
    assert!(why.to_string().contains("continue with --resume"), "{why}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(recorder.finish(), Err(why));
    assert_eq!(store.campaigns().unwrap()[0].finished, None);
}

#[test]
fn two_testers_write_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let write = |name: &str| {
        let store = Store::open(&path).unwrap();
        let recorder = store.begin(&asked(name)).unwrap();
        (0..30).for_each(|n| recorder.trial(&trial(key(name, 64), n)).unwrap());
        recorder.id()
    };
    std::thread::scope(|s| {
        let both = ["a", "b"].map(|name| s.spawn(move || (name, write(name))));
        for (name, id) in both.map(|thread| thread.join().unwrap()) {
            let own = trials(&Store::existing(&path).unwrap(), id);
            assert!(own.len() == 30 && own.iter().all(|t| t.key.dut == name), "{name}: {}", own.len());
        }
    });
    is_sound(&path);
}

#[test]
fn other_files_are_refused_and_stay_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("text"), "x".repeat(5000)).unwrap();
    let made = |name: &str, sql: &str| Connection::open(at(name)).unwrap().execute_batch(sql).unwrap();
    made("other", "CREATE TABLE t (x)");
    drop(Store::open(&at("later")).unwrap());
    made("later", "PRAGMA user_version = 99");
    for (name, why) in [
        ("text", "text: not a store of volley bench: name another file"),
        ("other", "other: the file is another program's database: name another file"),
        (
            "later",
            "later: the store has version 99, but this tester supports versions up to 3: use a newer tester",
        ),
        ("no/where", "no/where: cannot open the store: check that its directory exists"),
    ] {
        let before = std::fs::read(at(name)).ok();
        let said = Store::open(&at(name)).err().unwrap().to_string();
        assert!(said.contains(why), "{said}");
        assert_eq!(std::fs::read(at(name)).ok(), before, "{name}");
    }
    let said = Store::existing(&at("none")).err().unwrap().to_string();
    assert!(said.contains("none: No such file") && !at("none").exists(), "{said}");
}
