//! The table of parameters: the sections that Volley uses, each with every parameter in VPP's configuration reference. A row has the values
//! of a parameter, its effect, and how to read it. A test checks `docs/reference/startup-conf.md` against the table.

mod sockets;

use super::{
    Startup, Workers,
    unused::is_log_class,
    value::{Cursor, LAST_CORE},
};
use crate::cli::Role;
use crate::logging::{ClassSettings, MOST_MESSAGES, class_name, classes};
use infra::cpu::Policy;
use model::place::{Fault, hint};
use sockets::{API_TRACE, NATIVE_API, SOCKSVR, STATSEG};
use std::time::Duration;

/// The effect of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It changes a setting.
    Sets,
    /// It requests a behavior that Volley always has; accepted without a warning.
    Granted,
    /// It has no effect; accepted with one warning.
    Ignored,
}

type Read = fn(&mut Startup, &mut Cursor<'_>) -> Result<(), Fault>;

/// A parameter of a section.
pub struct Parameter {
    /// Its name; equivalent spellings are separated by ` | `.
    pub name: &'static str,
    /// Its key, unique among all sections: the name, or a longer text if another section has a parameter of this name.
    pub key: &'static str,
    /// The values that follow the name.
    pub values: &'static str,
    /// The default; empty for a switch that is off by default.
    pub default: &'static str,
    /// Its effect, or why it has none.
    pub help: &'static str,
    /// The kind of effect.
    pub effect: Effect,
    /// True if it may be given several times.
    pub repeats: bool,
    /// Reads and applies the values.
    pub read: Read,
}

impl Parameter {
    const fn new(effect: Effect, name: &'static str, values: &'static str, read: Read) -> Self {
        Self { name, key: name, values, default: "", help: "", effect, repeats: false, read }
    }

    const fn sets(name: &'static str, values: &'static str, read: Read) -> Self {
        Self::new(Effect::Sets, name, values, read)
    }

    const fn granted(name: &'static str, values: &'static str, read: Read) -> Self {
        Self::new(Effect::Granted, name, values, read)
    }

    const fn ignored(name: &'static str, values: &'static str, read: Read) -> Self {
        Self::new(Effect::Ignored, name, values, read)
    }

    /// Returns the spellings of the name.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.name.split(" | ")
    }

    /// Returns the spelling of the parameter's name that the next words at `cursor` match; `None` if they match no spelling.
    pub fn next_name(&self, cursor: &Cursor<'_>) -> Option<&'static str> {
        self.names().find(|name| cursor.starts_with(name))
    }

    const fn default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    const fn help(self, help: &'static str) -> Self {
        Self { help, ..self }
    }

    const fn repeats(self) -> Self {
        Self { repeats: true, ..self }
    }

    /// Sets the parameter's key. This is needed if another section has a parameter of the same name, because keys are unique.
    const fn key(self, key: &'static str) -> Self {
        Self { key, ..self }
    }
}

/// The used sections, with their parameters.
pub const SECTIONS: [(&str, &[Parameter]); 11] = [
    ("unix", UNIX),
    ("cpu", CPU),
    ("buffers", BUFFERS),
    ("routes", ROUTES),
    ("logging", LOGGING),
    ("metrics", METRICS),
    ("socksvr", SOCKSVR),
    ("api-trace", API_TRACE),
    ("native-api", NATIVE_API),
    ("statseg", STATSEG),
    ("plugins", PLUGINS),
];

const UNIX: &[Parameter] = &[
    Parameter::granted("nodaemon", "", |_, _| Ok(()))
        .help("Stay in the foreground. Volley always does: a service manager runs it in the background."),
    Parameter::granted("nosyslog", "", |_, _| Ok(()))
        .help("Log to standard error instead of syslog. Volley always does, unless `log` names a file."),
    Parameter::sets("log", "<file>", |s, c| {
        s.unix.log = Some(c.path()?);
        Ok(())
    })
    .default("standard error")
    .help("Append log messages to this file."),
    Parameter::sets("startup-config | exec", "<file>", |s, c| {
        s.unix.startup_config = Some(c.path()?);
        Ok(())
    })
    .default("none")
    .help("Apply this file at the start: a configuration in YAML or JSON, or CLI commands."),
    Parameter::sets("interactive", "", |s, _| {
        s.unix.interactive = true;
        Ok(())
    })
    .help(
        "Also offer the CLI on the router's terminal; leaving the CLI ends the router. Without a terminal, commands are read up to \
         the end of standard input. Set `log` as well: otherwise log messages are mixed with the CLI's output.",
    ),
    Parameter::sets("cli-line-mode", "", |s, _| {
        s.unix.cli_line_mode = true;
        Ok(())
    })
    .help("With `interactive`: read whole lines, without editing, history and completion."),
    Parameter::sets("cli-listen", "<path> | <address:port>", |s, c| {
        s.unix.cli_listen = c.listen()?;
        Ok(())
    })
    .default("cli.sock")
    .help(
        "The socket of the CLI for `volley ctl`, `nc` and `telnet`: a UNIX socket, or TCP on a loopback address. A relative path \
         is in `runtime-dir`.",
    ),
    Parameter::sets("cli-listen-read-only", "<path>", |s, c| {
        s.unix.cli_listen_for.insert(Role::Viewer, c.path()?);
        Ok(())
    })
    .default("none")
    .help(
        "A second, read-only UNIX socket of the CLI: it accepts only `show`, `monitor`, `ping`, `capture` and `help`. \
         A relative path is in `runtime-dir`.",
    ),
    Parameter::sets("cli-listen-operator", "<path>", |s, c| {
        s.unix.cli_listen_for.insert(Role::Operator, c.path()?);
        Ok(())
    })
    .default("none")
    .help(
        "Another UNIX socket of the CLI, for operators: it accepts what the read-only one does, and commands that reset counters or learned \
         neighbors or trace packets, but none that changes the configuration or names a file. A relative path is in `runtime-dir`.",
    ),
    Parameter::sets("cli-allow-remote", "", |s, _| {
        s.unix.cli_allow_remote = true;
        Ok(())
    })
    .help(
        "Accept an address for `cli-listen` that is not a loopback address. Everybody who reaches it may do everything, \
         without a password.",
    ),
    Parameter::sets("cli-idle-timeout", "<seconds>", |s, c| {
        s.unix.cli_idle_timeout = Duration::from_secs(c.number(0..=86_400)? as u64);
        Ok(())
    })
    .default("60")
    .help(
        "Idle time after which a client may be disconnected to make room for another. Beside each socket NAME, root has its own, \
         `NAME.root`, so that other users cannot lock root out. The two serve 64 clients together, and 8 more of root. The \
         sockets for reading and for operators have as many places of their own. When all places are taken, the first of these \
         clients that exists is disconnected: one that never sent a whole line; the one idle longest, if idle for at least this time; \
         one of another user who has more than half of the places. Without such a client, the new one is rejected. `volley ctl` \
         reconnects by itself. Any user but root may open a burst of 64 connections, then 400 per second. Further ones wait, at most \
         256 per user.",
    ),
    Parameter::sets("cli-prompt", "<text>", |s, c| {
        s.unix.cli_prompt = c.text("the prompt's text")?;
        Ok(())
    })
    .default("`volley# `")
    .help("The CLI's prompt; a blank follows it."),
    Parameter::sets("gid", "<number> | <name>", |s, c| {
        s.unix.groups.insert(Role::Admin, c.group()?);
        Ok(())
    })
    .default("the group of the process")
    .help("The group that may use the sockets of the CLI, of the APIs and of the statistics segment."),
    Parameter::sets("gid-read-only", "<number> | <name>", |s, c| {
        s.unix.groups.insert(Role::Viewer, c.group()?);
        Ok(())
    })
    .default("the group of the process")
    .help("The group that may use the read-only sockets of the CLI and of the APIs."),
    Parameter::sets("gid-operator", "<number> | <name>", |s, c| {
        s.unix.groups.insert(Role::Operator, c.group()?);
        Ok(())
    })
    .default("the group of the process")
    .help("The group that may use the operators' sockets of the CLI and of the APIs."),
    Parameter::sets("pidfile", "<file>", |s, c| {
        s.unix.pidfile = Some(c.path()?);
        Ok(())
    })
    .default("none")
    .help("Write the process ID to this file. A relative path is in `runtime-dir`."),
    Parameter::sets("runtime-dir", "<directory>", |s, c| {
        s.unix.runtime_dir = c.path()?;
        Ok(())
    })
    .default("/run/volley")
    .help("Directory of sockets and the pidfile, if their paths are relative. The router creates this directory and `state-dir` if missing, but no others."),
    Parameter::sets("state-dir", "<directory>", |s, c| {
        s.unix.state_dir = Some(c.path()?);
        Ok(())
    })
    .default("/var/lib/volley, or none")
    .help(
        "Directory of the journal of changes (`show config history`), which survives restarts. Only its owner can read the \
         journal. Created if missing. The default is for a router whose `cli-listen` is in /run/volley; any other router saves no journal unless `state-dir` is set.",
    ),
    Parameter::sets("use-current-dir", "", |s, _| {
        s.unix.runtime_dir = ".".into();
        Ok(())
    })
    .help("The same as `runtime-dir .`: sockets and the pidfile are in the directory where the router was started."),
    Parameter::granted("cli-no-banner | nobanner", "", |_, _| Ok(()))
        .help("Start the CLI without a banner. It never has one."),
    Parameter::sets("full-coredump", "", |s, _| {
        s.unix.full_coredump = true;
        Ok(())
    })
    .help("Include all memory in a core dump. Without `coredump-size`, the size limit of core dumps is raised to the process's hard limit."),
    Parameter::sets("coredump-size", "unlimited | <size>", |s, c| {
        s.unix.coredump_size = Some(match c.peek() {
            Some(word) if word.text == "unlimited" => c.text("unlimited").map(|_| u64::MAX)?,
            _ => c.size()?,
        });
        Ok(())
    })
    .default("the limit of the process")
    .help("The largest core dump in bytes."),
    Parameter::ignored("poll-sleep-usec", "<n>", |_, c| c.number(0..=1_000_000_000).map(|_| ()))
        .help("Idle workers sleep by themselves."),
    Parameter::ignored("cli-history-limit", "<n>", |_, c| c.number(0..=1_000_000_000).map(|_| ()))
        .help("The client keeps the history."),
    Parameter::granted("cli-no-pager", "", |_, _| Ok(()))
        .help("Do not page long output. Volley's CLI never does: pipe its output into a pager."),
    Parameter::ignored("cli-pager-buffer-limit", "<n>", |_, c| c.number(0..=1_000_000_000).map(|_| ()))
        .help("The CLI has no pager of its own."),
    Parameter::granted("nocolor", "", |_, _| Ok(()))
        .help("No colors in the CLI's output. There are none, except in the client's prompt."),
];

const CPU: &[Parameter] = &[
    Parameter::sets("main-core", "<core>", |s, c| {
        s.cpu.main_core = Some(c.number(0..=LAST_CORE)?);
        Ok(())
    })
    .default("the first core not skipped if this section sets anything, otherwise not pinned")
    .help("The core of the main thread."),
    Parameter::sets("corelist-workers", "<cores>", |s, c| {
        s.cpu.workers = Workers::Cores(c.cores()?);
        Ok(())
    })
    .default("none")
    .help("The cores of the workers, such as 2-3,18-19; one worker on each."),
    Parameter::sets("coremask-workers", "<mask>", |s, c| {
        s.cpu.workers = Workers::Cores(c.core_mask()?);
        Ok(())
    })
    .default("none")
    .help("The cores of the workers, as a hexadecimal mask."),
    Parameter::sets("workers", "<n>", |s, c| {
        s.cpu.workers = Workers::Count(c.number(0..=LAST_CORE)?);
        Ok(())
    })
    .default("1")
    .help("Number of workers. Each gets its own core, after the main thread's core. 0 counts as 1."),
    Parameter::sets("skip-cores", "<n>", |s, c| {
        s.cpu.skip_cores = c.number(0..=LAST_CORE)?;
        Ok(())
    })
    .default("0")
    .help("Number of first cores to skip when cores are chosen."),
    Parameter::ignored("relative", "", |_, _| Ok(()))
        .help("Core numbers are always the machine's, even if the process is confined to some cores."),
    Parameter::sets("scheduler-policy", "other | batch | idle | fifo | rr", |s, c| {
        s.cpu.policy = Some(match c.choice(&["other", "batch", "idle", "fifo", "rr"])? {
            "batch" => Policy::Batch,
            "idle" => Policy::Idle,
            "fifo" => Policy::Fifo,
            "rr" => Policy::RoundRobin,
            _ => Policy::Other,
        });
        Ok(())
    })
    .default("the policy of the process")
    .help("The kernel's scheduling policy of the workers. A busy worker with a real-time policy (fifo, rr) leaves no time for other threads on its core."),
    Parameter::sets("scheduler-priority", "<n>", |s, c| {
        s.cpu.priority = Some(c.number(1..=99)? as u8);
        Ok(())
    })
    .default("1")
    .help("The priority of the workers under fifo and rr, 1 to 99."),
    Parameter::ignored("numa-heap-size", "<size>", |_, c| c.size().map(|_| ()))
        .help("There is no heap of a fixed size."),
    Parameter::ignored("use-pthreads", "", |_, _| Ok(())).help("Threads are always pthreads."),
    Parameter::ignored("thread-prefix", "<text>", |_, c| c.text("the prefix").map(|_| ()))
        .help("Threads are named after the router and their task: `volley_wk_0`."),
];

/// Maximum number of buffers: 16 million, or 41 GiB.
pub const MOST_BUFFERS: usize = 1 << 24;

const BUFFERS: &[Parameter] = &[
    Parameter::sets("buffers-per-numa", "<n>", |s, c| {
        s.buffers.per_numa = c.number(1024..=MOST_BUFFERS)?;
        Ok(())
    })
    .default("16384")
    .help(
        "Total number of packet buffers, 2624 bytes each. The router does not start if the machine, or its control group, has too little \
         memory for them. `set buffers` adds buffers while the router forwards, but AF_XDP and trusted memif use only the buffers allocated at the \
          start.",
    ),
    Parameter::ignored("default data-size", "<n>", |_, c| c.number(1..=65_536).map(|_| ()))
        .help("A buffer always holds 2112 bytes; longer packets take several."),
    Parameter::ignored("layout", "natural | packed", |_, c| c.choice(&["natural", "packed"]).map(|_| ()))
        .help("Volley chooses the distance between buffers for the cache."),
    Parameter::ignored("page-size", "<size> | default | default-hugepage", |_, c| match c.peek() {
        Some(word) if word.text.starts_with("default") => {
            c.choice(&["default", "default-hugepage"]).map(|_| ())
        }
        _ => c.size().map(|_| ()),
    })
    .help("Huge pages are used if the kernel has them, and transparent ones otherwise."),
    Parameter::ignored("numa", "<node> { buffers <n> }", |_, c| {
        c.number(0..=1023)?;
        let mut body = c.body("'{ buffers <n> }'")?;
        body.choice(&["buffers"])?;
        body.number(0..=MOST_BUFFERS)?;
        body.finish()
    })
    .repeats()
    .help("There is one pool, of `buffers-per-numa` buffers."),
];

const ROUTES: &[Parameter] = &[Parameter::sets("memory", "<size>", |s, c| {
    s.route_memory = Some(c.size()?);
    Ok(())
})
.default("half of the free memory")
.help(
    "Limit on the memory for routes, lookup tables and the routes' configuration, such as 2G. The default is half of the memory that is \
     free at the start. A new route is refused at this limit, and when the machine or a control group has less than 32 MiB left (`show ip \
     route-memory`). Set `memory` where a control group around a container limits memory: the router cannot read that limit from inside. In addition, a router needs \
     50 MiB, its buffers, and 2 KiB for each neighbor (`set ip neighbor-config`).",
)];

const LOGGING: &[Parameter] = &[
    Parameter::sets("default-log-level", "<level>", |s, c| {
        s.logging.default.level = c.level()?;
        Ok(())
    })
    .default("info")
    .help(
        "Lowest severity of messages kept for `show logging`. Levels are emerg, alert, crit, error, warn, notice, info, debug, trace \
         and disabled, as in VPP; in Volley, the first four are the same level, and so are notice and info.",
    ),
    Parameter::sets("default-syslog-log-level", "<level>", |s, c| {
        s.logging.default.syslog_level = c.level()?;
        Ok(())
    })
    .default("info")
    .help("Lowest severity of messages written to standard error, the systemd journal, or the file in `unix { log }`."),
    Parameter::sets("size", "<n>", |s, c| {
        s.logging.size = c.number(1..=MOST_MESSAGES)?;
        Ok(())
    })
    .default("512")
    .help("Number of messages kept."),
    Parameter::sets("unthrottle-time", "<seconds>", |s, c| {
        s.logging.unthrottle_time = c.number(1..=3600)? as u32;
        Ok(())
    })
    .default("3")
    .help("Time for which messages of one kind are suppressed after they exceeded the rate limit."),
    Parameter::sets("class", "<name> { [level <level>] [syslog-level <level>] [rate-limit <n>] }", |s, c| {
        let name = c.word("a class")?;
        let mut body = c.body("'{ level info }'")?;
        let mut settings = ClassSettings::default();
        while !body.is_done() {
            match body.choice(&["level", "syslog-level", "rate-limit"])? {
                "level" => settings.level = Some(body.level()?),
                "syslog-level" => settings.syslog_level = Some(body.level()?),
                _ => settings.rate_limit = Some(body.number(1..=1_000_000)? as u32),
            }
        }
        match class_name(&name.text) {
            Some(class) => drop(s.logging.classes.insert(class, settings)),
            // A file written for VPP may name VPP's log classes, which do not exist here.
            None if is_log_class(&name.text) => {
                s.warnings.push(format!("{}: VPP's log class '{}' is not used", name.place, name.text));
            }
            None => {
                let hint = hint(&name.text, classes().iter().map(|class| class.name));
                return Err(Fault::new(&name.place, format!("unknown log class '{}': {hint}", name.text)));
            }
        }
        Ok(())
    })
    .repeats()
    .help(
        "The levels and the rate limit of one class of messages. `rate-limit` is the number of messages of each kind per second, 50 by default. `show logging configuration` lists the classes.",
    ),
    Parameter::ignored("add-to-elog", "", |_, _| Ok(()))
        .help("Events are always in the event log (`show event-logger`)."),
];

const METRICS: &[Parameter] = &[
    Parameter::sets("listen", "<address:port>", |s, c| {
        s.metrics.listen = Some(c.address()?);
        Ok(())
    })
    .help(
        "The address of the [metrics](metrics.md) for Prometheus, and of `/health`: a loopback address, such as `127.0.0.1:9482`.",
    ),
    Parameter::sets("allow-remote", "", |s, _| {
        s.metrics.allow_remote = true;
        Ok(())
    })
    .help("Accept an address for `listen` that is not a loopback address. Everybody who reaches it may read the metrics."),
];

const PLUGINS: &[Parameter] = &[
    Parameter::ignored("path | add-path | vat-path", "<directory>", |_, c| c.path().map(|_| ()))
        .repeats()
        .help("Every feature is built in: there is nothing to load."),
    Parameter::ignored("name-filter | vat-name-filter", "<text>", |_, c| {
        c.text("the filter's text").map(|_| ())
    })
    .repeats()
    .help("Every feature is built in: there is nothing to load."),
    Parameter::sets("plugin", "<name> | default { enable | disable }", |s, c| {
        let name = c.text("a plugin's name, or 'default'")?;
        let mut body = c.body("'{ enable }' or '{ disable }'")?;
        while !body.is_done() {
            let enabled = match body.choice(&["enable", "disable", "skip-version-check"])? {
                "enable" => true,
                "disable" => false,
                _ => continue,
            };
            match name.as_str() {
                "default" => s.plugins.default_enabled = enabled,
                _ => s.plugins.named.push((name.clone(), enabled)),
            }
        }
        Ok(())
    })
    .repeats()
    .default("enable")
    .help(
        "Enables or disables a feature or a driver, by its name in `show plugins` or its plugin in VPP, such as `urpf_plugin.so`. If several lines \
         have the same name, the last one counts. A name overrides `default`, which applies to features and drivers that are plugins in VPP. Other plugins of \
         VPP have no effect. A feature costs nothing until it is configured.",
    ),
];

/// Returns the parameter that the next words at `cursor` name, and moves past these words. Returns `None` if they name none of
/// `parameters`.
pub fn find<'p>(parameters: &'p [Parameter], cursor: &mut Cursor<'_>) -> Option<&'p Parameter> {
    let (parameter, name) = parameters.iter().find_map(|p| Some((p, p.next_name(cursor)?)))?;
    for _ in name.split(' ') {
        cursor.take();
    }
    Some(parameter)
}
