//! Every section and parameter that VPP's configuration reference has for the sections used here, in one table:
//! what it takes, what it does, and how it is read. `docs/reference/startup-conf.md` is checked against it.

use super::{
    Startup, Workers,
    unused::is_log_class,
    value::{Cursor, LAST_CORE},
};
use crate::logging::{ClassSettings, MOST_MESSAGES, class_name, classes};
use infra::cpu::Policy;
use model::place::{Fault, hint};
use std::time::Duration;

/// What becomes of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It sets something.
    Sets,
    /// It asks for what is so anyway; accepted in silence.
    Granted,
    /// It has no effect; accepted with one warning.
    Ignored,
}

type Read = fn(&mut Startup, &mut Cursor<'_>) -> Result<(), Fault>;

/// A parameter of a section.
pub struct Parameter {
    /// Its name; spellings that mean the same are separated by ` | `.
    pub name: &'static str,
    /// The values that follow the name.
    pub values: &'static str,
    /// What holds when it is not given; empty for switches that are off then.
    pub default: &'static str,
    /// What it does, or why it has no effect.
    pub help: &'static str,
    /// What becomes of it.
    pub effect: Effect,
    /// Whether it may be given several times.
    pub repeats: bool,
    /// Reads the values, and sets what they set.
    pub read: Read,
}

impl Parameter {
    const fn new(effect: Effect, name: &'static str, values: &'static str, read: Read) -> Self {
        Self { name, values, default: "", help: "", effect, repeats: false, read }
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

    /// The spellings of the name.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + Clone + use<> {
        self.name.split(" | ")
    }

    /// The spelling that comes next at `cursor`, if one does.
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
}

/// The sections that are used, with their parameters.
pub const SECTIONS: [(&str, &[Parameter]); 7] = [
    ("unix", UNIX),
    ("cpu", CPU),
    ("buffers", BUFFERS),
    ("routes", ROUTES),
    ("logging", LOGGING),
    ("metrics", METRICS),
    ("plugins", PLUGINS),
];

const UNIX: &[Parameter] = &[
    Parameter::granted("nodaemon", "", |_, _| Ok(()))
        .help("Stay in the foreground. Volley always does; a service manager keeps it in the background."),
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
    .help("Run the CLI commands in this file at the start."),
    Parameter::sets("interactive", "", |s, _| {
        s.unix.interactive = true;
        Ok(())
    })
    .help(
        "The CLI on the terminal that the router was started from as well; to leave it ends the router. Without a terminal, \
         commands are read to the end of standard input. Give `log`, too, or messages get between the lines.",
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
        "Where the CLI listens: a UNIX socket, or TCP on a loopback address, for `volley ctl`, `nc` and `telnet`. A relative path \
         lies in `runtime-dir`.",
    ),
    Parameter::sets("cli-listen-read-only", "<path>", |s, c| {
        s.unix.cli_listen_read_only = Some(c.path()?);
        Ok(())
    })
    .default("none")
    .help(
        "A second UNIX socket of the CLI, for those who may look and change nothing: `show`, `monitor` and `help` are carried out there, and \
         nothing else. A relative path lies in `runtime-dir`.",
    ),
    Parameter::sets("cli-allow-remote", "", |s, _| {
        s.unix.cli_allow_remote = true;
        Ok(())
    })
    .help(
        "Let `cli-listen` have an address that is no loopback address: everybody who reaches it may do everything, \
         without a password.",
    ),
    Parameter::sets("cli-idle-timeout", "<seconds>", |s, c| {
        s.unix.cli_idle_timeout = Duration::from_secs(c.number(0..=86_400)? as u64);
        Ok(())
    })
    .default("60")
    .help(
        "Each socket of the CLI serves 64 clients at once, and 8 more if these are root's: who may only read keeps nobody out \
         who may change things, and nobody keeps root out, whose clients come by a socket of their own, with `.root` at the end of its \
         name. When there is no room for another, one that never said a whole line gives \
         way, or else the one that was idle for the longest time, if that is at least so long. `volley ctl` connects again by \
         itself. A user who is not root may open 64 connections at \
         once, and 400 a second: others wait, at most 256 of a user.",
    ),
    Parameter::sets("cli-prompt", "<text>", |s, c| {
        s.unix.cli_prompt = c.text("the prompt's text")?;
        Ok(())
    })
    .default("`volley# `")
    .help("The CLI's prompt; a blank follows it."),
    Parameter::sets("gid", "<number> | <name>", |s, c| {
        s.unix.gid = Some(c.group()?);
        Ok(())
    })
    .default("the group of the process")
    .help("The group that may use the CLI's socket."),
    Parameter::sets("gid-read-only", "<number> | <name>", |s, c| {
        s.unix.gid_read_only = Some(c.group()?);
        Ok(())
    })
    .default("the group of the process")
    .help("The group that may use the socket of `cli-listen-read-only`."),
    Parameter::sets("pidfile", "<file>", |s, c| {
        s.unix.pidfile = Some(c.path()?);
        Ok(())
    })
    .default("none")
    .help("Write the process number to this file. A relative path lies in `runtime-dir`."),
    Parameter::sets("runtime-dir", "<directory>", |s, c| {
        s.unix.runtime_dir = c.path()?;
        Ok(())
    })
    .default("/run/volley")
    .help("Where relative paths of sockets and the pidfile lie. It is made if need be; beside it and `state-dir`, no directory is."),
    Parameter::sets("state-dir", "<directory>", |s, c| {
        s.unix.state_dir = Some(c.path()?);
        Ok(())
    })
    .default("/var/lib/volley, or none")
    .help(
        "Where the journal of changes is kept across restarts (`show config history`), in a file that only its owner can read. It is made if need be. The \
         default holds for a router whose `cli-listen` lies in /run/volley; any other keeps none, unless it has a directory of its own.",
    ),
    Parameter::sets("use-current-dir", "", |s, _| {
        s.unix.runtime_dir = ".".into();
        Ok(())
    })
    .help("The same as `runtime-dir .`: sockets and the pidfile lie in the directory that the router is started in."),
    Parameter::granted("cli-no-banner | nobanner", "", |_, _| Ok(()))
        .help("Do not greet when the CLI starts. It never does."),
    Parameter::sets("full-coredump", "", |s, _| {
        s.unix.full_coredump = true;
        Ok(())
    })
    .help("Have a core dump hold all memory, as large as the process may make it."),
    Parameter::sets("coredump-size", "unlimited | <size>", |s, c| {
        s.unix.coredump_size = Some(match c.peek() {
            Some(word) if word.text == "unlimited" => c.text("unlimited").map(|_| u64::MAX)?,
            _ => c.size()?,
        });
        Ok(())
    })
    .default("what the process was given")
    .help("The largest core dump in bytes."),
    Parameter::ignored("poll-sleep-usec", "<n>", |_, c| c.number(0..=1_000_000_000).map(|_| ()))
        .help("Workers that have nothing to do sleep by themselves."),
    Parameter::ignored("cli-history-limit", "<n>", |_, c| c.number(0..=1_000_000_000).map(|_| ()))
        .help("The client keeps the history."),
    Parameter::granted("cli-no-pager", "", |_, _| Ok(()))
        .help("Do not page long output. Volley's CLI never does; pipe it into a pager."),
    Parameter::ignored("cli-pager-buffer-limit", "<n>", |_, c| c.number(0..=1_000_000_000).map(|_| ()))
        .help("The CLI has no pager of its own."),
    Parameter::granted("nocolor", "", |_, _| Ok(()))
        .help("No colours in the CLI's output. There are none; the client colours its prompt at most."),
];

const CPU: &[Parameter] = &[
    Parameter::sets("main-core", "<core>", |s, c| {
        s.cpu.main_core = Some(c.number(0..=LAST_CORE)?);
        Ok(())
    })
    .default("the first core after those skipped, once this section sets anything")
    .help("The core of the main thread."),
    Parameter::sets("corelist-workers", "<cores>", |s, c| {
        s.cpu.workers = Workers::Cores(c.cores()?);
        Ok(())
    })
    .default("none")
    .help("The cores of the workers, as 2-3,18-19; one worker on each."),
    Parameter::sets("coremask-workers", "<mask>", |s, c| {
        s.cpu.workers = Workers::Cores(c.core_mask()?);
        Ok(())
    })
    .default("none")
    .help("The same as a hexadecimal mask."),
    Parameter::sets("workers", "<n>", |s, c| {
        s.cpu.workers = Workers::Count(c.number(0..=LAST_CORE)?);
        Ok(())
    })
    .default("1")
    .help("How many workers there are; each on a core of its own, after the main thread's. 0 counts as 1."),
    Parameter::sets("skip-cores", "<n>", |s, c| {
        s.cpu.skip_cores = c.number(0..=LAST_CORE)?;
        Ok(())
    })
    .default("0")
    .help("How many of the first cores to leave alone when cores are chosen."),
    Parameter::ignored("relative", "", |_, _| Ok(()))
        .help("Cores have the machine's numbers, whatever the process is confined to."),
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
    .default("what the process was given")
    .help("How the kernel schedules the workers. Real-time ones (fifo, rr) that always find packets leave others nothing."),
    Parameter::sets("scheduler-priority", "<n>", |s, c| {
        s.cpu.priority = Some(c.number(1..=99)? as u8);
        Ok(())
    })
    .default("1")
    .help("The priority of the workers under fifo and rr, 1 to 99."),
    Parameter::ignored("numa-heap-size", "<size>", |_, c| c.size().map(|_| ()))
        .help("There is no heap of a fixed size."),
    Parameter::ignored("use-pthreads", "", |_, _| Ok(())).help("Threads are always the system's."),
    Parameter::ignored("thread-prefix", "<text>", |_, c| c.text("the prefix").map(|_| ()))
        .help("Threads are named after the router and what they do: `volley_wk_0`."),
];

/// As many buffers as 16 million: 40 GiB.
pub const MOST_BUFFERS: usize = 1 << 24;

const BUFFERS: &[Parameter] = &[
    Parameter::sets("buffers-per-numa", "<n>", |s, c| {
        s.buffers.per_numa = c.number(1024..=MOST_BUFFERS)?;
        Ok(())
    })
    .default("16384")
    .help(
        "How many packet buffers there are in all, 2624 bytes each. The router does not start if the machine, or its control \
         group, has less memory than that. `set buffers` adds some while the router forwards, for all but what AF_XDP and \
         trusted memif fill by themselves: they have those of the start.",
    ),
    Parameter::ignored("default data-size", "<n>", |_, c| c.number(1..=65_536).map(|_| ()))
        .help("A buffer always holds 2112 bytes; longer packets take several."),
    Parameter::ignored("layout", "natural | packed", |_, c| c.choice(&["natural", "packed"]).map(|_| ()))
        .help("The distance between buffers is chosen for the cache."),
    Parameter::ignored("page-size", "<size> | default | default-hugepage", |_, c| match c.peek() {
        Some(word) if word.text.starts_with("default") => {
            c.choice(&["default", "default-hugepage"]).map(|_| ())
        }
        _ => c.size().map(|_| ()),
    })
    .help("Huge pages are used when the kernel has them, and transparent ones otherwise."),
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
.default("half of what is free")
.help(
    "Memory that routes may take, such as 2G: lookup tables, routes, and their configuration. The default is half of the memory that is \
     free at the start. A new route is refused at this limit, and when the machine or a control group has less than 32 MiB left (`show ip \
     route-memory`). Set it where a control group around a container limits memory: that limit cannot be read from inside. A router takes \
     another 50 MiB, its buffers, and 2 KiB for each neighbour (`set ip neighbor-config`).",
)];

const LOGGING: &[Parameter] = &[
    Parameter::sets("default-log-level", "<level>", |s, c| {
        s.logging.default.level = c.level()?;
        Ok(())
    })
    .default("info")
    .help(
        "Which messages are remembered, for `show logging`: those of this level and of graver ones. Levels are emerg, alert, crit, \
         error, warn, notice, info, debug, trace and disabled, as VPP has them; here the first four are one, and so are notice \
         and info.",
    ),
    Parameter::sets("default-syslog-log-level", "<level>", |s, c| {
        s.logging.default.syslog_level = c.level()?;
        Ok(())
    })
    .default("info")
    .help("Which messages are written to standard error, the journal, or the file that `unix { log }` names."),
    Parameter::sets("size", "<n>", |s, c| {
        s.logging.size = c.number(1..=MOST_MESSAGES)?;
        Ok(())
    })
    .default("512")
    .help("How many messages are remembered."),
    Parameter::sets("unthrottle-time", "<seconds>", |s, c| {
        s.logging.unthrottle_time = c.number(1..=3600)? as u32;
        Ok(())
    })
    .default("3")
    .help("How long a place in the program that had too much to say is silent."),
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
            // VPP's files have VPP's classes.
            None if is_log_class(&name.text) => {
                s.warnings.push(format!("{}: the class '{}' of VPP's is not used", name.place, name.text));
            }
            None => {
                let hint = hint(&name.text, classes().iter().map(|class| class.name));
                return Err(Fault::new(&name.place, format!("no class is called '{}': {hint}", name.text)));
            }
        }
        Ok(())
    })
    .repeats()
    .help(
        "The same for one class of messages; `rate-limit` is how many messages a second each place in the program has, 50 \
         unless it is said. `show logging configuration` lists the classes.",
    ),
    Parameter::ignored("add-to-elog", "", |_, _| Ok(()))
        .help("What happens is in the event log anyway (`show event-logger`)."),
];

const METRICS: &[Parameter] = &[
    Parameter::sets("listen", "<address:port>", |s, c| {
        s.metrics.listen = Some(c.address()?);
        Ok(())
    })
    .help(
        "Where Prometheus finds the [metrics](metrics.md), on a loopback address, as `127.0.0.1:9482`; `/health` is there, \
         too.",
    ),
    Parameter::sets("allow-remote", "", |s, _| {
        s.metrics.allow_remote = true;
        Ok(())
    })
    .help("Let `listen` have an address that is no loopback address: everybody who reaches it may read the metrics."),
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
        "Enables or disables a feature, by its name in `show plugins` or by VPP's plugin of it, such as `urpf_plugin.so`. The last line \
         with a name counts, and wins over `default`, which holds for features that are plugins in VPP. Other plugins of VPP have no \
         effect. A feature costs nothing until it is configured.",
    ),
];

/// The parameter that the next words at `cursor` name; the words are taken.
pub fn find<'p>(parameters: &'p [Parameter], cursor: &mut Cursor<'_>) -> Option<&'p Parameter> {
    let (parameter, name) = parameters.iter().find_map(|p| Some((p, p.next_name(cursor)?)))?;
    for _ in name.split(' ') {
        cursor.take();
    }
    Some(parameter)
}
