//! The processes that give interfaces back when this one is killed ([`drivers::guardian`]): started before an interface is
//! taken, and replaced when they end.

use std::io;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use drivers::Guardian;
use drivers::guardian::GUARDIANS;
use tokio::time::{Instant, sleep};

/// The command, of the program that runs a router, that calls [`drivers::guardian::watch`].
pub const COMMAND: &str = "guardian";

/// The first wait before the start of a guardian that ends again and again, and the longest one. A guardian that lives for the
/// longest one is well.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Starts the guardians, and keeps them running for as long as the executor does.
pub fn start() -> Guardian {
    let guardian = Guardian::default();
    for number in 0..GUARDIANS {
        let ends = guardian.start(number, command());
        tokio::task::spawn_local(keep(guardian.clone(), number, ends));
    }
    guardian
}

/// `volley guardian`, of this very file.
fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    // What it would say to the service manager would be taken for the router's.
    command.arg0("volley").arg(COMMAND).env_remove("NOTIFY_SOCKET");
    command
}

/// Puts another guardian in the place of one that ends.
async fn keep(guardian: Guardian, number: usize, mut ends: io::Result<UnixStream>) {
    let mut pause = Pause(Duration::ZERO);
    loop {
        let begun = Instant::now();
        let why = match ended(ends).await {
            Ok(()) => "has ended".into(),
            Err(e) => format!("cannot be started: {e}"),
        };
        let wait = pause.after(begun.elapsed());
        // Of one that goes on ending, there is nothing new to say.
        if wait.is_zero() {
            tracing::warn!(
                event = "guardian",
                "guardian {number} {why}; another one is started in its place"
            );
        } else if wait == WAITS.0 {
            tracing::warn!(
                event = "guardian",
                "guardian {number} {why}, again and again: each wait before its next start is longer, up to {} seconds. Without \
                 guardians, interfaces stay up and MTUs raised when this process is killed",
                WAITS.1.as_secs()
            );
        }
        sleep(wait).await;
        ends = guardian.start(number, command());
    }
}

/// Waits until the guardian has ended, which says nothing as long as it lives.
async fn ended(ends: io::Result<UnixStream>) -> io::Result<()> {
    tokio::net::UnixStream::from_std(ends?)?.readable().await
}

/// How long to wait before the next start.
struct Pause(Duration);

impl Pause {
    /// Returns the wait after a guardian that lived for `lived`.
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
    fn one_that_ends_again_and_again_is_started_less_and_less_often() {
        let mut pause = Pause(Duration::ZERO);
        let mut after = |milliseconds| pause.after(Duration::from_millis(milliseconds)).as_millis();
        assert_eq!([after(1), after(1), after(500), after(9_000)], [0, 100, 200, 400]);
        let waits: Vec<_> = (0..10).map(|_| after(0)).collect();
        assert_eq!(waits.last(), Some(&10_000));
        assert_eq!([after(10_000), after(0), after(0)], [0, 100, 200], "it was well for a while");
    }
}
