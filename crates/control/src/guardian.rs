//! Starts the guardians: processes that return interfaces to the kernel if this process is killed ([`drivers::guardian`]). The guardians
//! start before the router takes an interface. A guardian that ends is restarted.

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use drivers::Guardian;
use drivers::guardian::GUARDIANS;
use tokio::time::{Instant, sleep};

/// The subcommand of the program that calls [`drivers::guardian::watch`].
pub const COMMAND: &str = "guardian";

/// The shortest and the longest pause before a guardian is restarted that ends again and again. Each pause is twice as long as the one
/// before. There is no pause after the first end, or after a guardian has run for at least the longest pause.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Starts the guardians. Restarts them for as long as the executor runs.
pub fn start() -> Guardian {
    let guardian = Guardian::default();
    for number in 0..GUARDIANS {
        let ends = guardian.start(number, command());
        tokio::task::spawn_local(keep(guardian.clone(), number, ends));
    }
    guardian
}

/// Returns the command `volley guardian`, with this process's executable.
fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    // Without this, the service manager would take the guardian's notifications for the router's.
    command.arg0("volley").arg(COMMAND).env_remove("NOTIFY_SOCKET");
    command
}

/// Restarts the guardian with this number whenever it ends.
async fn keep(guardian: Guardian, number: usize, mut ends: io::Result<UnixStream>) {
    let mut pause = Pause(Duration::ZERO);
    loop {
        let begun = Instant::now();
        let why = match ended(ends).await {
            Ok(()) => "has ended".into(),
            Err(e) => format!("cannot be started: {e}"),
        };
        let wait = pause.after(begun.elapsed());
        // Only the first two ends of a guardian that keeps ending are logged.
        if wait.is_zero() {
            tracing::warn!(event = "guardian", "guardian {number} {why}; it is restarted");
        } else if wait == WAITS.0 {
            tracing::warn!(
                event = "guardian",
                "guardian {number} {why} again: it is restarted after waits that grow to {} seconds. Without \
                 guardians, interfaces stay up and MTUs stay raised if this process is killed",
                WAITS.1.as_secs()
            );
        }
        sleep(wait).await;
        ends = guardian.start(number, command());
    }
}

/// Waits until the guardian has ended. A guardian sends nothing while it runs.
async fn ended(ends: io::Result<UnixStream>) -> io::Result<()> {
    tokio::net::UnixStream::from_std(ends?)?.readable().await
}

/// The pause before the next restart of a guardian.
struct Pause(Duration);

impl Pause {
    /// Returns the pause before the next restart, after a guardian has run for the time `lived`.
    fn after(&mut self, lived: Duration) -> Duration {
        if lived >= WAITS.1 {
            self.0 = Duration::ZERO;
        }
        let wait = self.0;
        self.0 = (wait * 2).clamp(WAITS.0, WAITS.1);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_while_a_guardian_keeps_ending() {
        let mut pause = Pause(Duration::ZERO);
        let mut after = |milliseconds| pause.after(Duration::from_millis(milliseconds)).as_millis();
        assert_eq!([after(1), after(1), after(500), after(9_000)], [0, 100, 200, 400]);
        let waits: Vec<_> = (0..10).map(|_| after(0)).collect();
        assert_eq!(waits.last(), Some(&10_000));
        assert_eq!([after(10_000), after(0), after(0)], [0, 100, 200], "it was healthy for a while");
    }
}
