//! Tests with a fake `/proc` tree, and with a real thread whose time the kernel also reports.

use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::*;

fn read(meter: &mut Cpu) -> CpuReading {
    match meter.end().unwrap() {
        Reading::CpuTime(reading) => reading,
        Reading::Energy(energy) => panic!("processor time is no energy: {energy:?}"),
    }
}

/// Returns the line in which the kernel describes a task: user and system time in ticks, and start time.
fn line(id: u32, name: &str, user: u64, system: u64, started: u64) -> String {
    format!("{id} ({name}) S 1 1 1 0 -1 0 0 0 0 0 {user} {system} 0 0 20 0 1 0 {started} 0 0\n")
}

fn put(dir: &Path, file: &str, text: &str) {
    let file = dir.join(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

/// Returns a directory with fake `/proc` files, and a meter that reads core 0 and process 7 from them. The files are as before the trial:
/// cores 0 and 1, process 7 with threads 7 and 8, and a control group, which the meter does not read.
fn tree() -> (tempfile::TempDir, Cpu) {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "stat", "cpu  0 0 0 0 0 0 0 0\ncpu0 10 0 10 50 0 1 2 3\ncpu1 5 0 5 5 0 5 5 5\n");
    put(dir.path(), "7/stat", &line(7, "router", 100, 50, 1));
    put(dir.path(), "7/task/7/stat", &line(7, "router", 60, 30, 1));
    put(dir.path(), "7/task/8/stat", &line(8, "worker 0", 40, 20, 2));
    put(
        dir.path(),
        "group/cpu.stat",
        "usage_usec 5000000\nuser_usec 3000000\nsystem_usec 2000000\nnr_periods 0\n",
    );
    let cpu = Cpu { proc: dir.path().into(), cores: vec![0], processes: vec![7], cgroup: None, before: None };
    (dir, cpu)
}

#[test]
fn cpu_time_is_measured_per_core_and_thread() {
    let (dir, mut cpu) = tree();
    cpu.begin().unwrap();
    put(dir.path(), "stat", "cpu  0 0 0 0 0 0 0 0\ncpu0 110 20 40 90 0 5 302 13\ncpu1 500 0 5 5 0 5 5 5\n");
    put(dir.path(), "7/stat", &line(7, "router", 300, 150, 1));
    put(dir.path(), "7/task/7/stat", &line(7, "router", 70, 30, 1));
    // Thread ID 8 is a new thread now, which started at 0.
    put(dir.path(), "7/task/8/stat", &line(8, "worker 1", 90, 10, 900));
    let reading = read(&mut cpu);
    assert_eq!(
        reading.cores,
        [CoreTime { core: 0, user: 1.2, system: 0.3, irq: 0.04, softirq: 3.0, steal: 0.1 }]
    );
    let thread = |id, name: &str, user, system| ThreadTime { id, name: name.into(), user, system };
    assert_eq!(reading.threads, [thread(7, "router", 0.1, 0.0), thread(8, "worker 1", 0.9, 0.1)]);
    assert_eq!((reading.whose, reading.total), (Whose::Processes, 3.0));
}

#[test]
fn the_total_is_of_the_group_or_the_cores_without_a_process() {
    let (dir, mut cpu) = tree();
    cpu.processes.clear();
    cpu.begin().unwrap();
    put(dir.path(), "stat", "cpu  0 0 0 0 0 0 0 0\ncpu0 110 20 40 90 0 5 302 13\n");
    let reading = read(&mut cpu);
    assert_eq!(reading.whose, Whose::Cores);
    // Stolen time does not count: no program ran then.
    assert!((reading.total - 4.54).abs() < 1e-9, "{reading:?}");
    cpu.cgroup = Some(dir.path().join("group"));
    cpu.begin().unwrap();
    put(dir.path(), "group/cpu.stat", "usage_usec 5500000\nuser_usec 3100000\nsystem_usec 2400000\n");
    let reading = read(&mut cpu);
    assert_eq!((reading.whose, reading.total), (Whose::Cgroup, 0.5));
    assert_eq!(reading.cgroup, Some(GroupTime { total: 0.5, user: 0.1, system: 0.4 }));
}

#[test]
fn missing_and_vanished_sources_are_named() {
    let (dir, mut cpu) = tree();
    let said = |cpu: &mut Cpu| cpu.begin().map_or_else(|f| f.to_string(), |()| "nothing".into());
    cpu.cores = vec![0, 5];
    assert!(said(&mut cpu).contains("cores: core 5 is not online"));
    cpu.cores = vec![0];
    cpu.cgroup = Some(dir.path().join("7"));
    assert!(said(&mut cpu).contains("7/cpu.stat: No such file"));
    put(dir.path(), "7/cpu.stat", "nr_periods 0\n");
    assert!(said(&mut cpu).contains("usage_usec is missing: use a group of cgroups v2"));
    cpu.cgroup = None;
    cpu.begin().unwrap();
    put(dir.path(), "7/stat", &line(7, "router", 0, 0, 5000));
    assert!(cpu.end().is_err_and(|f| f.to_string().contains("process 7 (router) ended")));
    // Without a new start there is no reading.
    assert_eq!(cpu.end(), Err(not_begun()));
}

#[test]
fn a_restarted_router_is_a_new_process() {
    let (dir, mut cpu) = tree();
    fs::rename(dir.path().join("7"), dir.path().join("9")).unwrap();
    assert!(cpu.begin().is_err());
    cpu.watch(&[9]);
    cpu.begin().unwrap();
    put(dir.path(), "9/stat", &line(9, "router", 150, 50, 1));
    assert_eq!(read(&mut cpu).total, 0.5);
}

#[test]
fn cpu_time_of_a_spinning_thread_equals_its_own_clock() {
    let seconds = || {
        let own = clock_gettime(ClockId::ThreadCPUTime);
        own.tv_sec as f64 + own.tv_nsec as f64 / 1e9
    };
    let mut cpu = Cpu::open(&infra::cpu::online_cores(), &[std::process::id()], None).unwrap();
    cpu.begin().unwrap();
    let ((told, tell), (ended, end)) = (channel::<f64>(), channel::<()>());
    let spin = move || {
        while seconds() < 0.3 {}
        told.send(seconds()).unwrap();
        // The thread lives until it was read.
        let _ = end.recv_timeout(Duration::from_secs(60));
    };
    let thread = std::thread::Builder::new().name("spinner".into()).spawn(spin).unwrap();
    let spun = tell.recv().unwrap();
    let reading = read(&mut cpu);
    drop(ended);
    thread.join().unwrap();
    let found = reading.threads.iter().find(|t| t.name == "spinner").unwrap();
    let time = found.user + found.system;
    // Tolerance: two ticks of 10 ms each, and the time in which the spinning thread ends.
    assert!((time - spun).abs() < 0.05, "{time} and not {spun}");
    assert!(reading.total >= time - 0.05, "{reading:?}");
    assert!(reading.seconds >= 0.29 && !reading.cores.is_empty(), "{reading:?}");
}
