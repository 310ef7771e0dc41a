//! The signals to the router.

use std::io;
use std::sync::Arc;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::logging::Log;
use crate::process::{self, Terminal};
use crate::startup::Startup;

/// Signals that the router does not use, and whose default action would end it. A script that rotates logs, or a mistyped `kill`, must not
/// stop forwarding. SIGQUIT and the signals of faults still end it, with a core dump.
const IGNORED: [SignalKind; 5] = [
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
    SignalKind::alarm(),
    SignalKind::io(),
    SignalKind::pipe(),
];
/// Other signals to ignore, by number, because [`SignalKind`] has no names for them: SIGSTKFLT, SIGXFSZ, SIGVTALRM, SIGPROF and SIGPWR.
const IGNORED_TOO: [i32; 5] = [16, 25, 26, 27, 30];

/// The signals that can end the router, SIGTERM, SIGINT and SIGHUP, and what they do.
pub(super) struct Stop {
    signals: [(Signal, &'static str); 3],
    /// True if SIGINT ends the router.
    interrupts: bool,
    /// True if SIGHUP ends the router. If false, the router opens its log file again on SIGHUP.
    hangs_up: bool,
    log: Arc<Log>,
}

impl Stop {
    /// Starts the handling of signals. The reactions to SIGINT and SIGHUP depend on three conditions: whether the router has a terminal,
    /// the options in `startup`, and whether the router was started with SIGHUP ignored.
    pub(super) fn new(startup: &Startup, terminal: Option<&Terminal>, log: Arc<Log>) -> io::Result<Stop> {
        let ignores_hangups = process::ignores_hangups();
        let at_terminal = terminal.is_some_and(Terminal::is_there);
        let of = |kind, why| Ok::<_, io::Error>((signal(kind)?, why));
        let signals = [
            of(SignalKind::terminate(), "stopped by SIGTERM")?,
            of(SignalKind::interrupt(), "stopped by SIGINT")?,
            of(SignalKind::hangup(), "stopped by SIGHUP (the terminal hung up)")?,
        ];
        // A handler stays installed after its stream is dropped.
        for kind in IGNORED.into_iter().chain(IGNORED_TOO.map(SignalKind::from_raw)) {
            drop(signal(kind)?);
        }
        // While the operator edits commands, Ctrl-C ends a command and not the router.
        let interrupts = !at_terminal || startup.unix.cli_line_mode;
        Ok(Stop { signals, interrupts, hangs_up: at_terminal && !ignores_hangups, log })
    }

    /// Handles signals until one of them ends the router. Returns the reason for this end.
    pub(super) async fn told(&mut self) -> &'static str {
        let [(term, terminated), (int, interrupted), (hup, hung_up)] = &mut self.signals;
        loop {
            tokio::select! {
                _ = term.recv() => return terminated,
                _ = int.recv() => if self.interrupts { return interrupted },
                _ = hup.recv() => {
                    if self.hangs_up {
                        return hung_up;
                    }
                    if !self.log.reopen() {
                        tracing::info!(
                            "hangup signal ignored (SIGHUP): the log is not a file, and the router does not reread its configuration"
                        );
                    }
                }
            }
        }
    }
}
