//! The router as a process: what happens from its start to its end, on the main thread.
//!
//! One executor on one thread owns everything that changes. It serves the CLI, and between commands gives the router its
//! turns: when a worker rings, when something is due, when the kernel says that a link has changed, and once a second to
//! look after the devices.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
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
use net::router::{Hooks, Parts, Router};
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::cli::{self, CliError, Listener, Registry, Service, client};
use crate::commands::rates;
use crate::commands::whole::{Reading, Terms, Whole, joined};
use crate::commands::{self, Context, Feature};
use crate::features;
use crate::guardian;
use crate::journal::Keeper;
use crate::logging::Log;
use crate::metrics;
use crate::process::{self, PidFile, Terminal};
use crate::service;
use crate::startup::{Group, Listen, Startup, Workers};
use crate::system::{Absence, System};

/// How often devices are looked after without word from the kernel.
const DEVICES: Duration = Duration::from_secs(1);
/// How often the start asks for what another thread reads.
const LOOK: Duration = Duration::from_millis(2);
/// The longest time between two turns of the router.
const LONGEST_TURN: Duration = Duration::from_millis(100);

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
    let ignores_hangups = process::ignores_hangups();
    // From here on a signal to stop is an orderly end, also while the file of commands is being run.
    let mut stop = Stop::new()?;
    let terminal = startup.unix.interactive.then(Terminal::remember);
    let at_terminal = terminal.as_ref().is_some_and(Terminal::is_there);
    // Where commands are edited, the key that sends this signal ends a command.
    stop.interrupts = !at_terminal || startup.unix.cli_line_mode;
    stop.hangs_up = at_terminal && !ignores_hangups;
    process::allow_open_files();
    process::core_dumps(startup.unix.full_coredump, startup.unix.coredump_size)
        .map_err(|(at, e)| failed(startup.about(&[at], e)))?;
    // First of all: a second instance ends here, before it touches anything.
    let listener = listen(startup)?;
    let reading = startup.unix.cli_listen_read_only.as_deref().map(|path| {
        let group = group(startup, "gid-read-only", &startup.unix.gid_read_only)?;
        Listener::unix(path, group).map_err(|e| failed(startup.about(&["cli-listen-read-only"], e)))
    });
    let reading = reading.transpose()?;
    let metrics = startup.metrics.listen.map(|address| {
        let taken =
            |e| failed(startup.about(&["listen"], format_args!("metrics cannot be shown on {address}: {e}")));
        metrics::listen(address).map_err(taken)
    });
    let metrics = metrics.transpose()?;
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
    let placement = startup.cpu.place(infra::cpu::own_cores());
    let placement = placement.map_err(|(at, e)| failed(startup.about(at, format_args!("cpu: {e}"))))?;
    if let Some(core) = placement.main {
        infra::cpu::pin_current(core)?;
        // Its thread was there before, and may run on a worker's core.
        log.pin(core);
    }
    let workers = match &startup.cpu.workers {
        Workers::Default => 1,
        Workers::Count(n) => (*n).max(1),
        Workers::Cores(cores) => cores.len().max(1),
    };
    let pidfile = startup.unix.pidfile.as_deref().map(PidFile::write).transpose();
    let _pidfile = pidfile.map_err(|e| {
        let path = startup.unix.pidfile.as_deref().unwrap_or(Path::new("")).display();
        failed(startup.about(&["pidfile"], format_args!("the pidfile {path} cannot be written: {e}")))
    })?;
    let pool = tokio::select! {
        pool = buffers(startup.buffers.per_numa) => pool,
        why = stop.told() => {
            tracing::info!("{why} before the buffers were there");
            service::stopping(why);
            return Ok(());
        }
    };
    let pool = pool.map_err(|e| {
        let what = format_args!("there cannot be {} buffers: {e}", startup.buffers.per_numa);
        failed(startup.about(&["buffers-per-numa"], what))
    })?;
    let install = |b: &mut Builder, t: &Tables, hooks: &mut Hooks| features::install(&features, b, t, hooks);
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
    let bell = Bell::new(router.doorbell().as_fd().try_clone_to_owned()?)?;
    if let Some(schedule) = schedule(startup)? {
        router.schedule_workers(schedule);
    }
    router.start(workers, &placement.workers).map_err(failed)?;
    // Without it links are looked at as often as devices.
    let links = drivers::link_events().and_then(Bell::new);
    let links = links.map_err(|e| tracing::warn!("the kernel does not say when links change: {e}")).ok();

    let system = System::new(router, catalog, guardian, &startup.unix.runtime_dir)?;
    let memif = Bell::new(system.memif.as_fd().try_clone_to_owned()?)?;
    let mut context = Context::new(system);
    context.log = log;
    context.startup = startup.text.clone();
    context.main_core = placement.main;
    // The first turn tells the router the time, from which the ages of what is configured count.
    let now = context.now();
    context.system.router.poll(now);
    context.startup_config = startup.unix.startup_config.clone();
    let file =
        startup.unix.startup_config.as_deref().map_or_else(String::new, |file| file.display().to_string());
    let origin = Origin::new(FrontEnd::Start, Peer::Own, &file);
    if let Some(keeper) = keeper {
        let found = loop {
            match keeper.found(asked) {
                Some(found) => break found,
                None => tokio::time::sleep(LOOK).await,
            }
        };
        context.go_on_with(keeper, found);
    }
    context.begin_start(origin.clone());
    let context = Rc::new(RefCell::new(context));
    let registry = Rc::new(registry);
    let turns = tokio::task::spawn_local(turns(context.clone(), bell, links, memif));
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
    let prompt = format!("{} ", startup.unix.cli_prompt.trim_end());
    let service = Service { prompt, idle: startup.unix.cli_idle_timeout, ..Service::default() };
    let address = listener.address();
    if let Some(listener) = reading {
        let service = Service { read_only: true, ..service.clone() };
        tokio::task::spawn_local(cli::serve(listener, registry.clone(), context.clone(), service));
    }
    tokio::task::spawn_local(cli::serve(listener, registry, context.clone(), service));
    if let Some(listener) = metrics {
        metrics::start(listener, &context)?;
    }
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

/// Fills a pool on a thread of its own: of much memory that takes a while, and a signal must end the router meanwhile.
/// The thread of a router that ends goes with the process.
async fn buffers(number: usize) -> io::Result<Pool> {
    let (done, filled) = oneshot::channel();
    std::thread::Builder::new().name("volley_buffers".into()).spawn(move || {
        // Nobody waits for it when the router ends.
        let _ = done.send(Pool::new(number));
    })?;
    filled.await.unwrap_or_else(|_| Err(io::Error::other("the thread that makes them has ended")))
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

/// The signals that end the router.
struct Stop {
    signals: [(Signal, &'static str); 3],
    /// Whether the second one does.
    interrupts: bool,
    /// Whether the third one does. Others send it to have a program read its configuration anew.
    hangs_up: bool,
}

impl Stop {
    fn new() -> io::Result<Stop> {
        let of = |kind, why| Ok::<_, io::Error>((signal(kind)?, why));
        let signals = [
            of(SignalKind::terminate(), "told to stop")?,
            of(SignalKind::interrupt(), "interrupted")?,
            of(SignalKind::hangup(), "its terminal hung up")?,
        ];
        Ok(Stop { signals, interrupts: true, hangs_up: false })
    }

    /// Waits for one of them, and says which.
    async fn told(&mut self) -> &'static str {
        let [(term, terminated), (int, interrupted), (hup, hung_up)] = &mut self.signals;
        loop {
            tokio::select! {
                _ = term.recv() => return terminated,
                _ = int.recv() => if self.interrupts { return interrupted },
                _ = hup.recv() => {
                    if self.hangs_up {
                        return hung_up;
                    }
                    tracing::info!("a hangup signal: nothing is done, and nothing is read again");
                }
            }
        }
    }
}

fn listen(startup: &Startup) -> Result<Listener, DaemonError> {
    make_runtime_dir(startup)?;
    let listener = match &startup.unix.cli_listen {
        Listen::Socket(path) => Listener::unix(path, group(startup, "gid", &startup.unix.gid)?),
        Listen::Tcp(address) => {
            if !address.ip().is_loopback() {
                tracing::warn!(
                    "whoever reaches {address} may configure this router: the CLI asks for no password"
                );
            }
            Listener::tcp(*address)
        }
    };
    listener.map_err(|e| failed(startup.about(&["cli-listen"], e)))
}

/// Makes the run-time directory if something is to lie in it. No other is made: its name may be a slip of the finger.
fn make_runtime_dir(startup: &Startup) -> Result<(), DaemonError> {
    let directory = &startup.unix.runtime_dir;
    let socket = match &startup.unix.cli_listen {
        Listen::Socket(path) => Some(path),
        Listen::Tcp(_) => None,
    };
    let others = [&startup.unix.cli_listen_read_only, &startup.unix.pidfile].into_iter().flatten();
    if !socket.into_iter().chain(others).any(|path| path.starts_with(directory)) {
        return Ok(());
    }
    process::make_directory(directory).map_err(|e| {
        let what = format_args!("the directory {} cannot be made: {e}", directory.display());
        failed(startup.about(&["runtime-dir"], what))
    })
}

/// The number of the group that may use a socket of the CLI.
fn group(startup: &Startup, parameter: &str, given: &Option<Group>) -> Result<Option<u32>, DaemonError> {
    let Some(group) = given else { return Ok(None) };
    let id = group.id().map_err(|e| failed(startup.about(&[parameter], e)))?;
    if id.is_none() {
        let what = format_args!("this machine has no such group: the socket keeps the process's");
        tracing::warn!("{}", startup.about(&[parameter], what));
    }
    Ok(id)
}

fn where_listening(startup: &Startup) -> String {
    match &startup.unix.cli_listen {
        Listen::Socket(path) => path.display().to_string(),
        Listen::Tcp(address) => address.to_string(),
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

/// A file that can be read when something has happened; what is read says nothing.
struct Bell(pipe::Receiver);

impl Bell {
    fn new(file: OwnedFd) -> io::Result<Bell> {
        // Any file whose readiness the executor can watch will do; a pipe's end is one that takes a file as it is.
        pipe::Receiver::from_owned_fd_unchecked(file).map(Bell)
    }

    /// Waits until something has happened.
    async fn rung(&self) -> io::Result<()> {
        self.0.readable().await?;
        // Read until there is nothing, so that the executor waits for the next ring.
        while self.0.try_read(&mut [0; 8]).is_ok() {}
        Ok(())
    }

    /// Waits until something has happened to a file that is not to be read. It waits for what happens after this: so
    /// whoever is told looks at everything.
    async fn stirred(&self) -> io::Result<()> {
        self.0.readable().await?;
        let _ = self.0.try_io(|| Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        Ok(())
    }
}

/// Waits until a bell is rung that may not be there.
async fn rung(bell: &Option<Bell>) -> io::Result<()> {
    match bell {
        Some(bell) => bell.rung().await,
        None => std::future::pending().await,
    }
}

/// Gives the router its turns.
async fn turns(
    context: Rc<RefCell<Context>>,
    bell: Bell,
    links: Option<Bell>,
    memif: Bell,
) -> io::Result<()> {
    let mut devices = interval(DEVICES);
    devices.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let (more, next) = {
            let mut c = context.borrow_mut();
            let now = c.now();
            let tidy = c.tidy();
            let more = c.system.router.poll(now) | (tidy == Some(Duration::ZERO));
            let longest = tidy.map_or(LONGEST_TURN, |time| time.min(LONGEST_TURN));
            let next =
                [c.system.router.next_timeout(), c.system.memif.next_timeout()].into_iter().flatten().min();
            if c.system.memif.next_timeout().is_some_and(|t| t <= now) {
                c.system.turn_memif(now);
            }
            let next = next.map(|t| Duration::from_nanos(t.saturating_sub(now)));
            (more, next.map_or(longest, |d| d.min(longest)))
        };
        if more {
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            rung = bell.rung() => rung?,
            () = sleep_until(Instant::now() + next) => {}
            changed = rung(&links) => {
                changed?;
                context.borrow_mut().system.look_at_links();
            }
            stirred = memif.stirred() => {
                stirred?;
                let mut context = context.borrow_mut();
                let now = context.now();
                context.system.turn_memif(now);
            }
            _ = devices.tick() => {
                let mut context = context.borrow_mut();
                context.system.look_at_links();
                context.system.reopen_devices();
                context.look_at_confirmation();
                context.look_around();
                if let Some(keeper) = &mut context.keeper {
                    keeper.look();
                }
                context.log.flush();
            }
        }
    }
}
