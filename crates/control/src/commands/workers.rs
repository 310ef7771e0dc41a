//! Workers, and the distribution of receive queues and flows over them.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use graph::RxMode;
use infra::mem::Room;
use net::handoff::SHARDS;
use net::interface::Handoff;
use net::router::MAX_WORKERS;
use serde::Serialize;

use super::interface::change;
use super::later::later;
use crate::app::{Context, Output, joined, on_a_thread};
use crate::cli::{Args, CliError, Registry, Table};
use crate::intent::{HANDOFFS, Interface, MODES, handoff_word};
use crate::startup::not_there;

type Done = Result<Output, CliError>;

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        &format!("set workers <count:1..{MAX_WORKERS}> [cores <cores:word>]"),
        "Set the number of workers, and their cores (such as 2-4,7), until the router stops. Traffic continues.",
        set_workers,
    );
    r.add(
        "set worker <worker:u32> core {<core:u32> | any}",
        "Pin a worker to a core, or let it run on any, until the router stops. Traffic continues.",
        set_core,
    );
    r.add(
        "set interface rx-mode <interface:interface> [queue <queue:u32>] {polling | interrupt | adaptive}",
        "Set when receive queues are polled: always (polling), after an interrupt of the device (interrupt), or depending on \
         the load (adaptive).",
        rx_mode,
    );
    r.add(
        "set interface rx-placement <interface:interface> [queue <queue:u32>] {worker <worker:u32> | auto | main}",
        "Assign a receive queue (default 0) to a worker, or let the router choose one.",
        rx_placement,
    );
    r.add(
        "set interface handoff <interface:interface> {auto | on | off}",
        "Distribute the flows of an interface over all workers: when its worker is overloaded (auto), always (on), or never (off).",
        handoff,
    );
    r.add(
        "set handoff shards <shards:word> worker <worker:u32>",
        "Assign shards of flows (0 to 1023, such as 0-511,600) to a worker, until the router stops.",
        set_shards,
    );
    r.add("show handoff", "Show the distribution of flows over the workers.", |c, _| Ok(show(c)));
}

/// Returns the output of a command: `what`, followed by the time for which the command paused receive queues, if it did.
fn stood(c: &mut Context, what: &str) -> Output {
    match c.system.router.stood_still() {
        Duration::ZERO if what.is_empty() => Output::none(),
        Duration::ZERO => Output::text(format!("{what}\n")),
        time => {
            let what = if what.is_empty() { String::new() } else { format!("{what}\n") };
            Output::text(format!("{what}the affected queues were paused for {} µs\n", time.as_micros()))
        }
    }
}

/// Returns the numbers of an argument in the notation of startup.conf, such as `2-4,7`; `None` if the argument is missing. The numbers must
/// be less than `below`.
fn numbers(a: &Args, name: &str, below: usize) -> Result<Option<Vec<usize>>, CliError> {
    let Some(word) = a.get::<String>(name) else { return Ok(None) };
    let range = |part: &str| -> Option<Range<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse().ok()?, last.parse::<usize>().ok()?);
        (first <= last && last < below).then_some(first..last + 1)
    };
    let all: Option<Vec<Range<usize>>> = word.split(',').map(range).collect();
    let fault = || a.fault(name, format!("expected numbers from 0 to {}, such as 2-4,7", below - 1));
    Ok(Some(all.ok_or_else(fault)?.into_iter().flatten().collect()))
}

/// Bytes of memory for a worker's stack, frames and counters. 8.6 MB were measured.
const WORKER: u64 = 9 << 20;

fn set_workers(c: &mut Context, a: &Args) -> Done {
    let count = a.need::<u32>("count")? as usize;
    let r = &mut c.system.router;
    let cores: Vec<Option<usize>> = match numbers(a, "cores", 1024)? {
        Some(cores) if cores.len() != count => {
            return Err(
                a.fault("cores", format!("{count} workers need {count} cores, {} given", cores.len()))
            );
        }
        Some(cores) if cores.iter().collect::<BTreeSet<_>>().len() < count => {
            return Err(a.fault("cores", "a core is given twice"));
        }
        Some(cores) => {
            cores.iter().try_for_each(|core| usable(a, "cores", *core))?;
            cores.into_iter().map(Some).collect()
        }
        None => r.cores().iter().copied().chain(std::iter::repeat(None)).take(count).collect(),
    };
    let more = count.saturating_sub(r.cores().len()) as u64;
    let no_memory = move |e| CliError::new(format!("not enough memory for {more} more workers: {e}"));
    Room::now().must_have(more * WORKER).map_err(|e| a.about("count", no_memory(e)))?;
    if more == 0 || Room::sees_all() {
        return have_workers(c, a, &cores);
    }
    // A child process tries to get the memory, which takes a while for many workers.
    let mut trying = Some(on_a_thread(move || Room::try_unseen(more * WORKER).map_err(no_memory))?);
    let look = move |a: &Args| {
        let tried = trying.take_if(|trying| trying.is_finished())?;
        Some(joined(tried).map_err(|e| a.about("count", e)))
    };
    Ok(later(a, look, move |c, a, ()| have_workers(c, a, &cores)))
}

/// Sets the workers: one on each of these cores. `None` is any core.
fn have_workers(c: &mut Context, a: &Args, cores: &[Option<usize>]) -> Done {
    let count = cores.len();
    c.system.router.set_workers(cores).map_err(|e| a.about("count", e))?;
    let now =
        if count == 1 { "there is 1 worker now".into() } else { format!("there are {count} workers now") };
    tracing::info!(event = "workers", "{now}");
    let mut now =
        format!("{now}, until the router stops{}", for_longer(c.system.router.cores(), c.main_core));
    now.extend(too_few_cores(count, infra::cpu::own_cores().len()).map(|why| format!("\n! {why}")));
    Ok(stood(c, &now))
}

/// Returns a warning if there are more workers than cores that the router may use.
fn too_few_cores(workers: usize, cores: usize) -> Option<String> {
    let more = workers > cores;
    more.then(|| format!("more workers than cores: {workers} workers share {cores} cores, and packets wait while their worker has no core"))
}

/// Refuses a core that the router may not use.
fn usable(a: &Args, name: &str, core: usize) -> Result<(), CliError> {
    let there = infra::cpu::own_cores();
    there.contains(&core).then_some(()).ok_or_else(|| a.fault(name, not_there(core, there)))
}

/// Returns a hint how to set these workers in startup.conf. The hint is empty if startup.conf cannot express them: a worker shares the main
/// thread's core, or there are too few cores to give each thread its own.
fn for_longer(cores: &[Option<usize>], main: Option<usize>) -> String {
    if main.is_some() && cores.contains(&main) {
        return String::new();
    }
    let pinned: Option<Vec<String>> = cores.iter().map(|core| core.map(|core| core.to_string())).collect();
    // With a number of workers in startup.conf, each has a core of its own, and so has the main thread.
    let count = (cores.len() < infra::cpu::own_cores().len()).then(|| format!("workers {}", cores.len()));
    let words = pinned.map(|cores| format!("corelist-workers {}", cores.join(","))).or(count);
    words.map_or(String::new(), |words| format!("; to keep this, set cpu {{ {words} }} in startup.conf"))
}

fn set_core(c: &mut Context, a: &Args) -> Done {
    let (worker, core) = (a.need::<u32>("worker")? as usize, a.get::<u32>("core").map(|core| core as usize));
    let about = if core.is_some() { "core" } else { "worker" };
    let about = if worker < c.system.router.workers() { about } else { "worker" };
    if let (Some(core), "core") = (core, about) {
        usable(a, about, core)?;
    }
    let done = c.system.router.pin_worker(worker, core);
    done.map_err(|e| a.about(about, e))?;
    Ok(Output::none())
}

/// Changes the settings of an interface's receive queues. The output reports a named queue or worker that does not exist. This is no error,
/// because the queue or worker may exist later.
fn attend(c: &mut Context, a: &Args, f: impl FnOnce(&mut Interface)) -> Done {
    // Forget earlier pauses: this command did not cause them.
    let _ = c.system.router.stood_still();
    change(c, a, "interface", f)?;
    let name = a.need::<String>("interface")?;
    let workers = c.system.router.workers();
    if let Some(worker) = a.get::<u32>("worker").filter(|w| *w as usize >= workers) {
        let said =
            format!("worker {worker} does not exist now: until it does, another worker polls the queue\n");
        return Ok(Output::text(said));
    }
    let index = c.system.index(&name).map_err(|e| CliError::new(e.to_string()))?;
    let slots = c.system.router.tables().placement.slots();
    let queues = slots.iter().filter(|s| s.interface == index).count();
    match a.get::<u32>("queue").filter(|q| *q as usize >= queues) {
        Some(queue) => Ok(Output::text(format!("{name} has no queue {queue} now\n"))),
        None => Ok(stood(c, "")),
    }
}

fn rx_mode(c: &mut Context, a: &Args) -> Done {
    let mode = MODES.iter().find(|(_, word)| a.has(word)).map_or(RxMode::Adaptive, |(mode, _)| *mode);
    match a.get::<u32>("queue") {
        Some(queue) => {
            attend(c, a, |i| i.receive.queues.entry(queue as usize).or_default().mode = Some(mode))
        }
        None => attend(c, a, |i| {
            i.receive.mode = mode;
            // This replaces the modes of single queues.
            i.receive.queues.values_mut().for_each(|q| q.mode = None);
            i.receive.queues.retain(|_, q| *q != Default::default());
        }),
    }
}

fn rx_placement(c: &mut Context, a: &Args) -> Done {
    if a.has("main") {
        return Err(a.fault("main", "the main thread never forwards packets: name a worker"));
    }
    let queue = a.get::<u32>("queue").unwrap_or(0);
    let worker = a.get::<u32>("worker").map(|worker| worker as usize);
    attend(c, a, |i| {
        i.receive.queues.entry(queue as usize).or_default().worker = worker;
        i.receive.queues.retain(|_, q| *q != Default::default());
    })
}

fn handoff(c: &mut Context, a: &Args) -> Done {
    let said = HANDOFFS.iter().find(|(_, word)| a.has(word)).map_or(Handoff::Auto, |(said, _)| *said);
    attend(c, a, |i| i.receive.handoff = said)
}

fn set_shards(c: &mut Context, a: &Args) -> Done {
    let shards = numbers(a, "shards", SHARDS)?.unwrap_or_default();
    let worker = a.need::<u32>("worker")? as usize;
    let done = c.system.router.give_shards(&shards, worker);
    done.map_err(|e| a.about("worker", e))?;
    Ok(stood(c, ""))
}

#[derive(Serialize)]
struct Shown {
    /// True if the operator has assigned shards to workers. Then the router does not move shards by itself.
    chosen: bool,
    workers: Vec<Share>,
    interfaces: Vec<Spread>,
}

#[derive(Serialize)]
struct Share {
    worker: usize,
    shards: usize,
    /// First and last shard of each range of consecutive shards of the worker.
    ranges: Vec<(usize, usize)>,
}

#[derive(Serialize)]
struct Spread {
    interface: String,
    queue: usize,
    handoff: &'static str,
    shared_out: bool,
}

fn show(c: &Context) -> Output {
    let r = &c.system.router;
    let owners: Vec<usize> = r.shards().workers().collect();
    let mut workers: Vec<Share> =
        (0..r.workers()).map(|worker| Share { worker, shards: 0, ranges: Vec::new() }).collect();
    let mut at = 0;
    for run in owners.chunk_by(|a, b| a == b) {
        if let Some(share) = workers.get_mut(run[0]) {
            share.shards += run.len();
            share.ranges.push((at, at + run.len() - 1));
        }
        at += run.len();
    }
    let mut interfaces = Vec::new();
    for slot in r.tables().placement.slots() {
        let (how, name) = (slot.attention(), r.interface(slot.interface).map(|i| i.name.clone()));
        let handoff = handoff_word(how.handoff);
        let interface = name.unwrap_or_default();
        interfaces.push(Spread { interface, queue: slot.number, handoff, shared_out: how.spread });
    }
    let mut t = Table::new(&["Worker", "Shards", "Which"]);
    for w in &workers {
        let some = w.ranges.iter().take(4).map(|(first, last)| format!("{first}-{last}"));
        let more = if w.ranges.len() > 4 { ", …" } else { "" };
        let which = some.collect::<Vec<_>>().join(", ") + more;
        t.row(vec![w.worker.to_string(), w.shards.to_string(), which]);
    }
    let mut text = t.to_string();
    let chosen = r.shards_chosen();
    if chosen {
        text += "Shards are not moved automatically: the operator has assigned some.\n";
    }
    let mut t = Table::new(&["Interface", "Queue", "Handoff", "Flows"]);
    for i in &interfaces {
        let flows = if i.shared_out { "shared out" } else { "one worker" };
        t.row(vec![i.interface.clone(), i.queue.to_string(), i.handoff.into(), flows.into()]);
    }
    text += &t.to_string();
    Output::show(&Shown { chosen, workers, interfaces }, text)
}

#[cfg(test)]
mod tests {
    use crate::testing::Cli;

    #[test]
    fn receive_queues_are_configured_and_shown() {
        let mut cli = Cli::new();
        cli.ok("set interface rx-mode pg0 polling");
        cli.ok("set interface rx-mode pg0 queue 0 interrupt");
        cli.ok("set interface rx-placement pg0 worker 0");
        cli.ok("set interface handoff pg0 on");
        let config = cli.ok("show config");
        for line in [
            "set interface rx-mode pg0 polling\n",
            "set interface rx-mode pg0 queue 0 interrupt\n",
            "set interface rx-placement pg0 queue 0 worker 0\n",
            "set interface handoff pg0 on\n",
        ] {
            assert!(config.contains(line), "{line}{config}");
        }
        let yaml = "    receive:\n      mode: polling\n      handoff: \"on\"\n      queues:\n        0:\n          \
                    mode: interrupt\n          worker: 0\n";
        let whole = cli.ok("show config yaml");
        assert!(whole.contains(yaml), "{whole}");
        let shown = cli.json("show interface rx-placement pg0");
        assert_eq!((&shown[0]["mode"], &shown[0]["chosen"]), (&"interrupt".into(), &true.into()));
        assert!(cli.ok("show interface rx-placement").contains("pg1 queue 0 (adaptive)"));
        cli.ok("set interface rx-mode pg0 adaptive");
        cli.ok("set interface rx-placement pg0 auto");
        cli.ok("set interface handoff pg0 auto");
        assert!(!cli.ok("show config").contains("rx-") && !cli.ok("show config yaml").contains("receive"));
    }

    #[test]
    fn a_command_without_effect_pauses_no_queue() {
        let mut cli = Cli::new();
        cli.ok("set workers 2");
        let place =
            |cli: &mut Cli, worker: u32| cli.ok(&format!("set interface rx-placement pg0 worker {worker}"));
        let first = place(&mut cli, 0) + &place(&mut cli, 1);
        assert!(first.contains("were paused for"), "{first}");
        assert_eq!(place(&mut cli, 1), "");
        assert_eq!(cli.ok("set interface handoff pg0 auto"), "");
    }

    #[test]
    fn no_startup_conf_hint_for_workers_on_the_main_core() {
        let pinned = [Some(0), Some(1)];
        assert_eq!(super::for_longer(&pinned, Some(0)), "");
        assert_eq!(
            super::for_longer(&pinned, Some(2)),
            "; to keep this, set cpu { corelist-workers 0,1 } in startup.conf"
        );
    }

    #[test]
    fn missing_queues_workers_and_cores_are_reported() {
        let mut cli = Cli::new();
        assert_eq!(cli.ok("set interface rx-mode pg0 queue 1 polling"), "pg0 has no queue 1 now\n");
        for number in ["1024", "4294967295"] {
            for what in ["rx-mode pg0 queue N polling", "rx-placement pg0 queue N worker 0"] {
                let command = format!("set interface {}", what.replace('N', number));
                assert!(cli.refused(&command, "pg0").contains("expected 0 to 1023"), "{command}");
            }
        }
        assert!(cli.ok("set interface rx-placement pg0 worker 7").contains("worker 7 does not exist now"));
        assert!(cli.refused("set interface rx-placement pg0 main", "main").contains("never forwards"));
        cli.ok("create loopback interface instance 0");
        assert!(cli.refused("set interface handoff loop0 on", "loop0").contains("no receive queues"));
        cli.ok("create sub-interfaces pg0 7");
        assert!(cli.refused("set interface rx-mode pg0.7 polling", "pg0.7").contains("set this on pg0"));
        assert!(cli.refused("set workers 0", "0").contains("1 to 256"));
        assert!(cli.refused("set workers 257", "257").contains("1 to 256"));
        assert!(cli.refused("set workers 2 cores 1", "1").contains("2 workers need 2 cores, 1 given"));
        assert!(cli.refused("set workers 2 cores 3-1", "3-1").contains("such as 2-4,7"));
        assert!(cli.refused("set workers 2 cores 0,0", "0,0").contains("a core is given twice"));
        for command in ["set workers 1 cores 1023", "set worker 0 core 1023"] {
            assert!(cli.refused(command, "1023").contains("core 1023 is not available: use cores out of"));
        }
        assert!(cli.refused("set worker 7 core 1023", "7").contains("no worker 7"));
        assert!(cli.refused("set worker 3 core any", "3").contains("no worker 3"));
        assert!(cli.refused("set handoff shards 0-1024 worker 0", "0-1024").contains("0 to 1023"));
        assert!(cli.refused("set handoff shards 0-1 worker 1", "1").contains("no worker 1"));
    }

    #[test]
    fn more_workers_than_cores_are_warned_of() {
        let cores = infra::cpu::own_cores().len();
        let mut cli = Cli::new();
        let fits = cli.ok(&format!("set workers {cores}"));
        assert!(!fits.contains('!'), "{fits}");
        let said = cli.ok(&format!("set workers {}", cores + 1));
        let warning = format!("\n! more workers than cores: {} workers share {cores} cores, ", cores + 1);
        assert!(said.contains(&warning), "{said}");
    }

    #[test]
    fn workers_and_shards_are_shown() {
        let mut cli = Cli::new();
        let said = cli.ok("set workers 4");
        assert!(said.starts_with("there are 4 workers now, until the router stops"), "{said}");
        let shown = cli.json("show handoff");
        let shards: Vec<_> =
            shown["workers"].as_array().unwrap().iter().map(|w| w["shards"].clone()).collect();
        assert_eq!(shards, [256; 4].map(serde_json::Value::from));
        cli.ok("set handoff shards 0-3,1023 worker 3");
        let shown = cli.json("show handoff");
        assert_eq!((&shown["workers"][3]["shards"], &shown["chosen"]), (&260.into(), &true.into()));
        assert!(cli.ok("show handoff").contains("the operator has assigned some"));
        assert!(cli.ok("show handoff").contains("one worker"));
        let threads = cli.json("show threads");
        assert_eq!(threads.as_array().map(Vec::len), Some(5));
        cli.ok("set workers 1");
        assert_eq!(cli.json("show handoff")["workers"][0]["shards"], 1024);
    }
}
