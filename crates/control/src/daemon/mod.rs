//! The router as a process: what happens from its start to its end, on the main thread.
//!
//! One executor on one thread owns everything that changes. It serves the CLI ([`doors`]), and between commands gives the router
//! its turns ([`turns()`]).

mod doors;
mod stop;
mod turns;

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use buf::Pool;
use graph::Builder;
use infra::cpu::Schedule;
use infra::mem::{PageSize, Room};
use model::origin::{FrontEnd, Origin, Peer};
use model::visible::visible;
use net::Tables;
use net::feature::RuntimeDir;
use net::router::{Hooks, Parts, Router};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::cli::{self, CliError, Registry, client};
use crate::commands::rates;
use crate::commands::whole::{Reading, Terms, Whole, joined};
use crate::commands::{self, Context, Feature};
use crate::features;
use crate::guardian;
use crate::journal::{Found, Keeper};
use crate::logging::Log;
use crate::process::{self, PidFile, Terminal};
use crate::service;
use crate::startup::{Listen, Placement, Startup, Workers};
use crate::system::{Absence, System};
use doors::{Doors, where_listening};
use stop::Stop;
use turns::{Bell, turns, watch};

/// How often the start asks for what another thread reads.
const LOOK: Duration = Duration::from_millis(2);

/// Why the router did not start, or could not go on.
#[derive(Debug)]
pub struct DaemonError(String);

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for DaemonError {}

impl From<io::Error> for DaemonError {
    fn from(e: io::Error) -> Self {
        DaemonError(e.to_string())
    }
}

fn failed(what: impl fmt::Display) -> DaemonError {
    DaemonError(visible(&what.to_string()).into_owned())
}

/// Runs the router until it is told to stop. The router does not start half-configured: whatever is wrong with its
/// configuration ends it before it forwards a packet. It has these features; `log` is the process's.
///
/// # Errors
/// What is wrong, for the operator.
pub fn run(startup: &Startup, features: &[&Feature], log: Arc<Log>) -> Result<(), DaemonError> {
    for warning in &startup.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, main_thread(startup, features, log))
}

async fn main_thread(startup: &Startup, features: &[&Feature], log: Arc<Log>) -> Result<(), DaemonError> {
    // From here on a signal to stop is an orderly end, also while the file of commands is being run.
    let terminal = startup.unix.interactive.then(Terminal::remember);
    let mut stop = Stop::new(startup, terminal.as_ref())?;
    process::allow_open_files();
    process::core_dumps(startup.unix.full_coredump, startup.unix.coredump_size)
        .map_err(|(at, e)| failed(startup.about(&[at], e)))?;
    // First of all: a second instance ends here, before it touches anything.
    let doors = Doors::open(startup)?;
    // Before anything is taken from the kernel, and before this thread has its core.
    let guardian = guardian::start();
    features::unknown_plugins(features, startup).iter().for_each(|warning| tracing::warn!("{warning}"));
    let (features, left_out) = features::selected_features(features, &startup.plugins);
    let (registry, catalog) = features::declared_without(&features, &left_out);
    // Both are read while all else is prepared.
    let asked = std::time::Instant::now();
    let keeper = startup.unix.state_dir.as_deref().map(|state| Keeper::begin(state, catalog.clone()));
    let long = startup.unix.startup_config.clone().filter(|file| commands::config::is_yaml(file));
    let begun = long.map(|file| Reading::begin(file, catalog.clone())).transpose().map_err(failed)?;
    let placement = place(startup, &log)?;
    let _pidfile = pidfile(startup)?;
    let pool = tokio::select! {
        pool = buffers(startup) => pool?,
        why = stop.told() => {
            tracing::info!("{why} before the buffers were there");
            service::stopping(why);
            return Ok(());
        }
    };
    let mut router = router(startup, &features, pool, &placement)?;
    let bell = Bell::new(router.doorbell().as_fd().try_clone_to_owned()?)?;
    // Without it links are looked at as often as devices.
    let links = drivers::link_events().and_then(Bell::new);
    let links = links.map_err(|e| tracing::warn!("the kernel does not say when links change: {e}")).ok();

    let watched = router.take_watched();
    let mut context = Context::new(System::new(router, catalog, guardian));
    context.log = log;
    context.startup = startup.text.clone();
    context.main_core = placement.main;
    context.startup_config = startup.unix.startup_config.clone();
    // The first turn tells the router the time, from which the ages of what is configured count.
    let now = context.now();
    context.system.router.poll(now);
    if let Some(keeper) = keeper {
        let found = found(&keeper, asked).await;
        context.go_on_with(keeper, found);
    }
    let file = startup.unix.startup_config.as_ref().map(|file| file.display().to_string());
    let origin = Origin::new(FrontEnd::Start, Peer::Own, &file.unwrap_or_default());
    context.begin_start(origin.clone());
    let context = Rc::new(RefCell::new(context));
    let registry = Rc::new(registry);
    let turns = tokio::task::spawn_local(turns(context.clone(), bell, links));
    for (file, stirred) in watched {
        tokio::task::spawn_local(watch(context.clone(), Bell::new(file)?, stirred));
    }
    tokio::task::spawn_local(rates::sample(context.clone()));
    if let Some(file) = &startup.unix.startup_config {
        let done = tokio::select! {
            done = configure(&registry, &context, file, begun) => done,
            why = stop.told() => {
                tracing::info!("{why} before the configuration was complete");
                service::stopping(why);
                context.borrow_mut().shut_down();
                return Ok(());
            }
        };
        // On lines of its own, so that the mark stands under its word.
        let refused = |e: CliError| format!("it could not be carried out:\n{}", e.render());
        done.map_err(|e| failed(startup.about(&["startup-config | exec"], refused(e))))?;
    }
    end_start(&context, origin).await;
    let address = doors.serve(startup, registry, &context)?;
    // Scripts wait for this line, and the service manager for its own.
    eprintln!("volley: ready");
    service::ready(&context.borrow());
    tokio::task::spawn_local(service::watch(context.clone()));
    tracing::info!(event = "router", "forwarding; the CLI listens on {}", where_listening(startup));

    let left = terminal.is_some().then(|| console(startup, address)).transpose()?;
    let why = tokio::select! {
        why = stop.told() => why,
        () = left_by(left) => "the CLI on standard input was left",
        // The turns end only when the router can no longer be turned.
        ended = turns => return Err(failed(format!("the router's turns ended: {ended:?}"))),
    };
    tracing::info!("{why}");
    service::stopping(why);
    context.borrow_mut().shut_down();
    Ok(())
}

/// Waits for what a keeper finds of earlier runs.
async fn found(keeper: &Keeper, asked: std::time::Instant) -> Found {
    loop {
        match keeper.found(asked) {
            Some(found) => return found,
            None => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Says where threads run, and pins this one.
fn place(startup: &Startup, log: &Log) -> Result<Placement, DaemonError> {
    let placement = startup.cpu.place(infra::cpu::own_cores());
    let placement = placement.map_err(|(at, e)| failed(startup.about(at, format_args!("cpu: {e}"))))?;
    if let Some(core) = placement.main {
        infra::cpu::pin_current(core)?;
        // Its thread was there before, and may run on a worker's core.
        log.pin(core);
    }
    Ok(placement)
}

fn pidfile(startup: &Startup) -> Result<Option<PidFile<'_>>, DaemonError> {
    let Some(path) = startup.unix.pidfile.as_deref() else { return Ok(None) };
    PidFile::write(path).map(Some).map_err(|e| {
        let what = format_args!("the pidfile {} cannot be written: {e}", path.display());
        failed(startup.about(&["pidfile"], what))
    })
}

/// The router, with its workers running.
fn router(
    startup: &Startup,
    features: &[&Feature],
    pool: Pool,
    placement: &Placement,
) -> Result<Router, DaemonError> {
    let workers = match &startup.cpu.workers {
        Workers::Default => 1,
        Workers::Count(n) => (*n).max(1),
        Workers::Cores(cores) => cores.len().max(1),
    };
    let install = |b: &mut Builder, t: &Tables, hooks: &mut Hooks| {
        hooks.state(|_| Ok(RuntimeDir(startup.unix.runtime_dir.clone())))?;
        features::install(features, b, t, hooks)
    };
    let Parts { mut router, workers } = Router::with_pool(install, pool, workers).map_err(failed)?;
    if router.pool().stats().window.page == PageSize::Small {
        tracing::warn!("buffers lie in pages of 4 KiB: set vm.nr_hugepages for speed");
    }
    if let Some(limit) = startup.route_memory {
        router.set_route_memory(limit);
    } else if !Room::sees_all() {
        tracing::info!(
            "a control group around this container may limit memory, but its limit cannot be read: set routes {{ memory }} in startup.conf"
        );
    }
    if let Some(schedule) = schedule(startup)? {
        router.schedule_workers(schedule);
    }
    router.start(workers, &placement.workers).map_err(failed)?;
    Ok(router)
}

/// Fills a pool on a thread of its own: of much memory that takes a while, and a signal must end the router meanwhile.
/// The thread of a router that ends goes with the process.
async fn buffers(startup: &Startup) -> Result<Pool, DaemonError> {
    let number = startup.buffers.per_numa;
    let (done, filled) = oneshot::channel();
    let filling = std::thread::Builder::new().name("volley_buffers".into()).spawn(move || {
        // Nobody waits for it when the router ends.
        let _ = done.send(Pool::new(number));
    });
    let ended = |_| Err(io::Error::other("the thread that makes them has ended"));
    let pool = match filling {
        Ok(_) => filled.await.unwrap_or_else(ended),
        Err(e) => Err(e),
    };
    pool.map_err(|e| {
        let what = format_args!("there cannot be {number} buffers: {e}");
        failed(startup.about(&["buffers-per-numa"], what))
    })
}

/// How the workers are to be scheduled, if that is said.
///
/// # Errors
/// When the kernel does not let them: a thread tries it.
fn schedule(startup: &Startup) -> Result<Option<Schedule>, DaemonError> {
    let Some(policy) = startup.cpu.policy else { return Ok(None) };
    let schedule = Schedule::new(policy, startup.cpu.priority.unwrap_or(1));
    let tried = std::thread::spawn(move || schedule.apply()).join();
    let tried = tried.unwrap_or_else(|_| Err(io::Error::other("the thread that tries it has ended")));
    tried.map(|()| Some(schedule)).map_err(|e| {
        failed(startup.about(
            &["scheduler-policy"],
            format_args!(
                "the kernel does not let the workers be scheduled this way: {e}; real-time policies need CAP_SYS_NICE, or \
                 LimitRTPRIO= in the service manager's unit"
            ),
        ))
    })
}

/// Offers the CLI on standard input, on a thread of its own, which is a client like others. Says when it was left.
fn console(startup: &Startup, address: Option<SocketAddr>) -> Result<oneshot::Receiver<()>, DaemonError> {
    let (done, left) = oneshot::channel();
    let socket = match (&startup.unix.cli_listen, address) {
        (Listen::Socket(path), _) => path.clone(),
        (Listen::Tcp(address), own) => own.unwrap_or(*address).to_string().into(),
    };
    let line_mode = startup.unix.cli_line_mode;
    std::thread::Builder::new().name("volley_console".into()).spawn(move || {
        client::console(socket, line_mode);
        // Nobody waits for it when the router ends for another reason.
        let _ = done.send(());
    })?;
    Ok(left)
}

/// Waits until the console is left that may not be there.
async fn left_by(console: Option<oneshot::Receiver<()>>) {
    match console {
        Some(left) => drop(left.await),
        None => std::future::pending().await,
    }
}

/// Runs the operator's file of commands, or applies the configuration in a YAML file. A fault ends the start.
async fn configure(
    registry: &Rc<Registry<Context>>,
    context: &Rc<RefCell<Context>>,
    file: &Path,
    reading: Option<Reading>,
) -> Result<(), CliError> {
    // One device less is no reason to forward nothing.
    context.borrow_mut().system.absence = Absence::Missing;
    let say = |text: &str| text.lines().for_each(|line| tracing::debug!("{}: {line}", file.display()));
    if let Some(reading) = reading {
        let terms = Terms { quiet: true, ..Terms::default() };
        let mut job = Whole::read(reading, terms, &context.borrow())?;
        cli::run_job(&mut job, context, say).await?;
    } else {
        cli::run_file(registry, context, file, say).await?;
    }
    context.borrow_mut().system.absence = Absence::Refused;
    Ok(())
}

/// The configuration of the start is made: the journal hears of it, and which changes of earlier runs are in effect.
async fn end_start(context: &RefCell<Context>, origin: Origin) {
    let finder = context.borrow().find_last_in_effect();
    let known = match finder {
        Ok(finder) => {
            while !finder.is_finished() {
                tokio::time::sleep(LOOK).await;
            }
            joined(finder)
        }
        Err(e) => Err(e),
    };
    let mut context = context.borrow_mut();
    // A rollback finds it out, if it is not known now.
    let known = known.unwrap_or_else(|_| context.journal.generation());
    context.end_start(origin, known);
}
