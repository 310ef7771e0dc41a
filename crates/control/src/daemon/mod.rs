//! The router as a process: its start, its work on the main thread, and its end.
//!
//! One executor on one thread owns all changeable state. It serves the clients of the CLI and the APIs ([`doors`]), and between requests
//! does the main thread's work for the router ([`turns()`]).

mod doors;
mod stop;
mod turns;

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use buf::Pool;
use drivers::Patience;
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

use crate::app::{self, Context, Failure, Feature, Go, Reading, Report, Terms, Work, joined};
use crate::cli::{self, CliError, Registry, client};
use crate::config::Format;
use crate::features::{self, Selected};
use crate::guardian;
use crate::journal::{Found, Keeper};
use crate::logging::Log;
use crate::process::{self, PidFile, Terminal};
use crate::service;
use crate::startup::{Listen, Placement, Startup, Workers};
use crate::system::{Absence, Catalog, System};
use doors::{Doors, where_listening};
use stop::Stop;
use turns::{Bell, turns, watch};

/// While the router starts: interval at which it polls for results of other threads.
const LOOK: Duration = Duration::from_millis(2);

/// The reason that the router did not start, or ended with an error.
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

/// Runs the router with these features until it is stopped; `log` is the log of the process. If the start configuration has a fault, the
/// function fails before it serves clients.
///
/// # Errors
/// Returns the fault as a text for the operator.
pub fn run(startup: &Startup, features: &[&Feature], log: Arc<Log>) -> Result<(), DaemonError> {
    for warning in &startup.warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, main_thread(startup, features, log))
}

async fn main_thread(startup: &Startup, features: &[&Feature], log: Arc<Log>) -> Result<(), DaemonError> {
    // From here on, a signal to stop ends the router cleanly, even while the file of commands runs.
    let terminal = startup.unix.interactive.then(Terminal::remember);
    let mut stop = Stop::new(startup, terminal.as_ref(), log.clone())?;
    process::allow_open_files();
    process::core_dumps(startup.unix.full_coredump, startup.unix.coredump_size)
        .map_err(|(at, e)| failed(startup.about(&[at], e)))?;
    // First, so that a second instance ends here before it changes anything.
    let doors = Doors::open(startup)?;
    // The guardians must run before the router takes resources from the kernel, and before this thread is pinned.
    let guardian = guardian::start();
    features::unknown_plugins(features, startup).iter().for_each(|warning| tracing::warn!("{warning}"));
    let features = Selected::by(features, &startup.plugins);
    let (registry, catalog) = features.declared();
    let files = Files::begin(startup, &catalog)?;
    let placement = place(startup, &log)?;
    let _pidfile = pidfile(startup)?;
    let pool = tokio::select! {
        pool = buffers(startup) => pool?,
        why = stop.told() => {
            tracing::info!("{why} before the buffers were allocated");
            service::stopping(why);
            return Ok(());
        }
    };
    let mut router = router(startup, &features, pool, &placement)?;
    let (bell, links) = bells(&router)?;
    let watched = router.take_watched();
    let mut context = state(startup, System::new(router, catalog, guardian), log, &placement);
    if let Some(keeper) = files.keeper {
        let found = found(&keeper, files.asked).await;
        context.go_on_with(keeper, found);
    }
    let file = startup.unix.startup_config.as_ref().map(|file| file.display().to_string());
    let origin = Origin::new(FrontEnd::Start, Peer::Own, &file.unwrap_or_default());
    context.begin_start(origin.clone());
    let context = Rc::new(RefCell::new(context));
    let registry = Rc::new(registry);
    let messages = Rc::new(features.messages());
    context.borrow_mut().definitions = messages.clone();
    let turns = tokio::task::spawn_local(turns(context.clone(), bell, links));
    for (file, stirred) in watched {
        tokio::task::spawn_local(watch(context.clone(), Bell::new(file)?, stirred));
    }
    tokio::task::spawn_local(app::sample(context.clone()));
    if let Some(file) = &startup.unix.startup_config {
        let done = tokio::select! {
            done = configure(&registry, &context, file, files.configuration) => done,
            why = stop.told() => {
                tracing::info!("{why} before the configuration was complete");
                service::stopping(why);
                context.borrow_mut().shut_down();
                return Ok(());
            }
        };
        // The error begins on a new line, so that its mark is exactly below the marked word.
        let refused = |e: CliError| format!("it failed:\n{}", e.render());
        done.map_err(|e| failed(startup.about(&["startup-config | exec"], refused(e))))?;
    }
    end_start(&context, origin).await;
    let (address, _statistics) = doors.serve(startup, registry, messages, &context)?;
    announce(startup, &context);
    let left = terminal.is_some().then(|| console(startup, address)).transpose()?;
    let why = tokio::select! {
        why = stop.told() => why,
        () = left_by(left) => "the CLI on standard input has ended",
        // The turns end only with an error.
        ended = turns => return Err(failed(format!("the router's main loop ended: {ended:?}"))),
    };
    tracing::info!("{why}");
    service::stopping(why);
    context.borrow_mut().shut_down();
    Ok(())
}

/// Files that other threads read during the preparations.
struct Files {
    /// The journal, if it is kept on disk.
    keeper: Option<Keeper>,
    /// When the thread that reads the journal was started.
    asked: std::time::Instant,
    /// The start configuration, if it is a YAML or JSON file.
    configuration: Option<Reading>,
}

impl Files {
    /// Starts the thread that reads the journal. If the start configuration is a YAML or JSON file, also starts a thread that reads this
    /// file.
    fn begin(startup: &Startup, catalog: &Arc<Catalog>) -> Result<Files, DaemonError> {
        let asked = std::time::Instant::now();
        let keeper = startup.unix.state_dir.as_deref().map(|state| Keeper::begin(state, catalog.clone()));
        let long = startup.unix.startup_config.clone();
        let long = long.filter(|file| Format::of(file) != Format::Commands);
        let begun = long.map(|file| Reading::begin(file, Patience::for_ever(), catalog.clone())).transpose();
        Ok(Files { keeper, asked, configuration: begun.map_err(failed)? })
    }
}

/// Returns the files ([`Bell`]) whose events wake the main thread: the router's own file, and the kernel's file for link changes. If the
/// kernel reports no link changes, returns `None` for its file; then links are polled once per second.
fn bells(router: &Router) -> io::Result<(Bell, Option<Bell>)> {
    let bell = Bell::new(router.doorbell().as_fd().try_clone_to_owned()?)?;
    let links = drivers::link_events().and_then(Bell::new);
    let links = links.inspect_err(|e| {
        tracing::warn!("the kernel does not report link changes ({e}): links are polled once per second")
    });
    Ok((bell, links.ok()))
}

/// Returns the state of the application, before a configuration is applied.
fn state(startup: &Startup, system: System, log: Arc<Log>, placement: &Placement) -> Context {
    let mut context = Context::new(system);
    context.log = log;
    context.startup = startup.text.clone();
    context.messages.received = startup.api.is_recorded;
    context.main_core = placement.main;
    context.startup_config = startup.unix.startup_config.clone();
    // The first turn sets the router's time, from which the ages of configured objects count.
    let now = context.now();
    context.system.router.poll(now);
    context
}

/// Reports that the router forwards: on standard error, to the service manager, and in the log.
fn announce(startup: &Startup, context: &Rc<RefCell<Context>>) {
    // Scripts wait for this line, and the service manager for its notification.
    // Standard error may be a full disk, or a pipe that nobody reads.
    let _ = writeln!(io::stderr(), "volley: ready");
    service::ready(&context.borrow());
    tokio::task::spawn_local(service::watch(context.clone()));
    tracing::info!(event = "router", "forwarding; the CLI listens on {}", where_listening(startup));
}

/// Waits until the thread that reads the journal has read the entries of earlier runs, and returns them. If this takes too long, returns no
/// entries. `asked` is when the thread was started.
async fn found(keeper: &Keeper, asked: std::time::Instant) -> Found {
    loop {
        match keeper.found(asked) {
            Some(found) => return found,
            None => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Chooses the cores of all threads, and pins this thread to its core.
fn place(startup: &Startup, log: &Log) -> Result<Placement, DaemonError> {
    let placement = startup.cpu.place(infra::cpu::own_cores());
    let placement = placement.map_err(|(at, e)| failed(startup.about(at, format_args!("cpu: {e}"))))?;
    if let Some(core) = placement.main {
        infra::cpu::pin_current(core)?;
        // The log's thread started earlier, and may run on a worker's core.
        log.pin(core);
    }
    Ok(placement)
}

fn pidfile(startup: &Startup) -> Result<Option<PidFile<'_>>, DaemonError> {
    let Some(path) = startup.unix.pidfile.as_deref() else { return Ok(None) };
    PidFile::write(path).map(Some).map_err(|e| {
        let what = format_args!("cannot write the pidfile {}: {e}", path.display());
        failed(startup.about(&["pidfile"], what))
    })
}

/// Returns the router, with its workers running.
fn router(
    startup: &Startup,
    features: &Selected<'_>,
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
        features.install(b, t, hooks)
    };
    let Parts { mut router, workers } = Router::with_pool(install, pool, workers).map_err(failed)?;
    if router.pool().stats().window.page == PageSize::Small {
        tracing::warn!("the buffers use pages of 4 KiB: set vm.nr_hugepages for speed");
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

/// Allocates the buffers on a separate thread: this may take long, and a signal must be able to end the router meanwhile. The end of the
/// process also ends the thread.
async fn buffers(startup: &Startup) -> Result<Pool, DaemonError> {
    let number = startup.buffers.per_numa;
    let (done, filled) = oneshot::channel();
    let filling = std::thread::Builder::new().name("volley_buffers".into()).spawn(move || {
        // The receiver is gone if the router has ended.
        let _ = done.send(Pool::new(number));
    });
    let ended = |_| Err(io::Error::other("internal error: the thread that allocates the buffers died"));
    let pool = match filling {
        Ok(_) => filled.await.unwrap_or_else(ended),
        Err(e) => Err(e),
    };
    pool.map_err(|e| {
        let what = format_args!("cannot allocate {number} buffers: {e}");
        failed(startup.about(&["buffers-per-numa"], what))
    })
}

/// Returns the scheduling of the workers, if set.
///
/// # Errors
/// If the kernel refuses this scheduling for a temporary thread.
fn schedule(startup: &Startup) -> Result<Option<Schedule>, DaemonError> {
    let Some(policy) = startup.cpu.policy else { return Ok(None) };
    let schedule = Schedule::new(policy, startup.cpu.priority.unwrap_or(1));
    let tried = std::thread::spawn(move || schedule.apply()).join();
    let tried = tried.unwrap_or_else(|_| {
        Err(io::Error::other("internal error: the thread that tests the scheduling policy died"))
    });
    tried.map(|()| Some(schedule)).map_err(|e| {
        failed(startup.about(
            &["scheduler-policy"],
            format_args!(
                "the kernel refuses this policy for the workers: {e}; real-time policies need CAP_SYS_NICE, or \
                 LimitRTPRIO= in the service manager's unit"
            ),
        ))
    })
}

/// Starts a thread that offers the CLI on standard input. The thread is an ordinary client of the router's CLI. The receiver gets a message
/// when the operator leaves the CLI.
fn console(startup: &Startup, address: Option<SocketAddr>) -> Result<oneshot::Receiver<()>, DaemonError> {
    let (done, left) = oneshot::channel();
    let socket = match (&startup.unix.cli_listen, address) {
        (Listen::Socket(path), _) => path.clone(),
        (Listen::Tcp(address), own) => own.unwrap_or(*address).to_string().into(),
    };
    let line_mode = startup.unix.cli_line_mode;
    std::thread::Builder::new().name("volley_console".into()).spawn(move || {
        client::console(socket, line_mode);
        // The receiver is gone if the router ends for another reason.
        let _ = done.send(());
    })?;
    Ok(left)
}

/// Waits until the operator leaves the console. Without a console, waits for ever.
async fn left_by(console: Option<oneshot::Receiver<()>>) {
    match console {
        Some(left) => drop(left.await),
        None => std::future::pending().await,
    }
}

/// Runs the operator's file of commands, or applies the configuration in a YAML or JSON file. A fault in the file stops the start of the
/// router.
async fn configure(
    registry: &Rc<Registry<Context>>,
    context: &Rc<RefCell<Context>>,
    file: &Path,
    reading: Option<Reading>,
) -> Result<(), CliError> {
    // A missing device must not keep the router from starting.
    context.borrow_mut().system.absence = Absence::Missing;
    let say = |text: &str| text.lines().for_each(|line| tracing::debug!("{}: {line}", file.display()));
    if let Some(reading) = reading {
        let terms = Terms { quiet: true, ..Terms::default() };
        let work = context.borrow().apply_read(reading, terms)?;
        to_its_end(work, context, |report| say(&report.to_string())).await?;
    } else {
        cli::run_file(registry, context, file, say).await?;
    }
    context.borrow_mut().system.absence = Absence::Refused;
    Ok(())
}

/// Runs long work to its end.
///
/// # Errors
/// If the work fails.
async fn to_its_end(
    mut work: impl Work,
    context: &RefCell<Context>,
    say: impl Fn(&Report),
) -> Result<(), Failure> {
    loop {
        let mut reports = Vec::new();
        let went = work.step(&mut context.borrow_mut(), &mut reports);
        reports.iter().for_each(&say);
        match went? {
            Go::Again => tokio::task::yield_now().await,
            Go::After(time) => tokio::time::sleep(time).await,
            Go::Done => return Ok(()),
        }
    }
}

/// Completes the start configuration. Tells the journal which changes of earlier runs are in effect.
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
    // If the search fails, all changes count as in effect. A rollback checks the state of each object anyway.
    let known = known.unwrap_or_else(|_| context.journal.generation());
    context.end_start(origin, known);
}
