//! The signals that end the router.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::process::{self, Terminal};
use crate::startup::Startup;

/// The signals that end the router.
pub(super) struct Stop {
    signals: [(Signal, &'static str); 3],
    /// True if SIGINT ends the router.
    interrupts: bool,
    /// True if SIGHUP ends the router. This signal is also used to make programs read their configuration
    /// again.
    hangs_up: bool,
}

impl Stop {
    /// Handles the signals of a router, which may have a terminal.
    pub(super) fn new(startup: &Startup, terminal: Option<&Terminal>) -> io::Result<Stop> {
        let ignores_hangups = process::ignores_hangups();
        let at_terminal = terminal.is_some_and(Terminal::is_there);
        let of = |kind, why| Ok::<_, io::Error>((signal(kind)?, why));
        let signals = [
            of(SignalKind::terminate(), "told to stop")?,
            of(SignalKind::interrupt(), "interrupted")?,
            of(SignalKind::hangup(), "its terminal hung up")?,
        ];
        // While commands are edited, the key for this signal ends a command instead.
        let interrupts = !at_terminal || startup.unix.cli_line_mode;
        Ok(Stop { signals, interrupts, hangs_up: at_terminal && !ignores_hangups })
    }

    /// Waits for a signal, and returns the reason for the end.
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
                    tracing::info!("hangup signal ignored (SIGHUP): the router does not reread its files");
                }
            }
        }
    }
}
