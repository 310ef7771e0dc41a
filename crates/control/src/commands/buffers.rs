//! Adding packet buffers while the router forwards.
//!
//! The kernel takes some time to allocate hundreds of megabytes, so a thread adds the buffers. Only the command that started the thread
//! waits for it. The thread completes its work even if the client disconnects.

use std::io;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::{Context, Output};
use crate::cli::{Args, CliError, Job, Registry, Step};
use crate::startup::MOST_BUFFERS;

/// The polling interval for the thread's result.
const LOOK: Duration = Duration::from_millis(2);

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "set buffers <total:u32>",
        "Set the total number of packet buffers, until the router stops. Traffic continues. Buffers cannot be removed.",
        set_buffers,
    );
}

/// The permission to add buffers, which at most one thread holds.
#[derive(Default)]
pub(super) struct Growing(Weak<()>);

impl Growing {
    /// Returns the permission, which ends when the returned value is dropped; `None` while another thread holds it.
    fn begin(&mut self) -> Option<Arc<()>> {
        let alone = Arc::new(());
        (self.0.strong_count() == 0).then(|| self.0 = Arc::downgrade(&alone)).map(|()| alone)
    }
}

fn set_buffers(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let total = a.need::<u32>("total")? as usize;
    if total > MOST_BUFFERS {
        return Err(a.fault("total", format!("the maximum is {MOST_BUFFERS} buffers")));
    }
    let Some(alone) = c.growing.begin() else {
        return Err(CliError::new(
            "buffers are already being added: try again when this is done (show buffers)",
        ));
    };
    let pool = c.system.router.pool().clone();
    let there = pool.total();
    let more = total.checked_sub(there).ok_or_else(|| {
        let why = format!(
            "there are {there} buffers, and none can be removed: for fewer, set buffers {{ buffers-per-numa N }} in \
             startup.conf and restart the router"
        );
        a.fault("total", why)
    })?;
    if more == 0 {
        return Ok(Output::text(said(total)));
    }
    let (done, added) = mpsc::channel();
    let work = move || {
        let outcome = pool.grow(more);
        match &outcome {
            Ok(()) => {
                tracing::info!(event = "buffers", "there are {total} buffers now, {more} more than before")
            }
            Err(e) => tracing::warn!("{}", refused(total, e)),
        }
        // Before the result is sent: its receiver may add more buffers at once.
        drop(alone);
        let _ = done.send(outcome);
    };
    let begun = thread::Builder::new().name("volley_buffers".into()).spawn(work);
    begun.map_err(|e| a.fault("total", format!("buffers cannot be added: no thread can be started: {e}")))?;
    Ok(Output::job(Adding { args: a.clone(), total, added }))
}

fn said(total: usize) -> String {
    format!(
        "there are {total} buffers now, until the router stops; to keep them, set buffers {{ buffers-per-numa {total} }} in \
         startup.conf\n"
    )
}

fn refused(total: usize, e: &io::Error) -> String {
    format!("cannot allocate {total} buffers: {e}")
}

/// The job that waits for the thread that adds buffers.
struct Adding {
    args: Args,
    total: usize,
    added: Receiver<io::Result<()>>,
}

impl Job<Context> for Adding {
    fn step(&mut self, _: &mut Context, out: &mut String) -> Step {
        let failed = |why| Step::Failed(self.args.fault("total", why));
        match self.added.try_recv() {
            Ok(Ok(())) => {
                out.push_str(&Output::text(said(self.total)).render(self.args.json()).text);
                Step::Done
            }
            Ok(Err(e)) => failed(refused(self.total, &e)),
            Err(TryRecvError::Empty) => Step::After(LOOK),
            Err(TryRecvError::Disconnected) => {
                failed("internal error: the thread that adds buffers died".into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::{Call, Step};
    use crate::testing::Cli;

    #[test]
    fn set_buffers_adds_buffers_and_show_lists_their_memory() {
        let mut cli = Cli::new();
        let before = cli.json("show buffers");
        assert_eq!((&before["at_start"]["total"], &before["added"]), (&64.into(), &serde_json::Value::Null));
        assert!(!cli.ok("show buffers").contains("added"));
        let said = cli.ok("set buffers 1064");
        assert_eq!(
            said,
            "there are 1064 buffers now, until the router stops; to keep them, set buffers { buffers-per-numa 1064 } in \
             startup.conf\n"
        );
        // The same number changes nothing.
        assert_eq!(cli.ok("set buffers 1064"), said);
        assert_eq!(
            cli.json("set buffers 1065")["text"].as_str().map(|t| t.contains("there are 1065")),
            Some(true)
        );
        let after = cli.json("show buffers");
        assert_eq!((&after["total"], &after["at_start"]["total"]), (&1065.into(), &64.into()));
        assert_eq!((&after["added"]["total"], &after["added"]["available"]), (&1001.into(), &1001.into()));
        assert_eq!(
            (&after["added"]["for_devices"], &after["at_start"]["for_devices"]),
            (&false.into(), &true.into())
        );
        let text = cli.ok("show buffers");
        assert!(text.contains("at start") && text.contains("added"), "{text}");
        // It is not part of the configuration.
        assert!(!cli.ok("show config").contains("buffers"));
    }

    #[test]
    fn invalid_totals_are_refused_and_change_nothing() {
        let mut cli = Cli::new();
        for few in ["0", "63"] {
            let why = cli.refused(&format!("set buffers {few}"), few);
            assert!(why.contains("there are 64 buffers") && why.contains("buffers-per-numa"), "{why}");
        }
        for many in ["16777217", "4294967295"] {
            assert!(
                cli.refused(&format!("set buffers {many}"), many).contains("maximum is 16777216 buffers")
            );
        }
        for nonsense in ["4294967296", "-1", "many"] {
            cli.refused(&format!("set buffers {nonsense}"), nonsense);
        }
        assert_eq!(cli.json("show buffers")["total"], 64);
        cli.ok("set buffers 65");
    }

    /// A second command is refused while the first one runs. The first one is completed even if its client disconnects.
    #[test]
    fn one_thread_at_a_time_adds_buffers_even_without_a_client() {
        let mut cli = Cli::new();
        let begun = cli.registry.run(&mut cli.context, "set buffers 40000", Call::default()).unwrap();
        let refused = cli.run("set buffers 70000").unwrap_err().to_string();
        assert!(refused.contains("already being added"), "{refused}");
        assert!(begun.job.is_some());
        drop(begun);
        while cli.json("show buffers")["total"] != 40_000 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let mut again = cli.registry.run(&mut cli.context, "set buffers 40001", Call::default());
        // The thread ends shortly after it has added the buffers.
        while again.is_err() {
            again = cli.registry.run(&mut cli.context, "set buffers 40001", Call::default());
        }
        let (mut job, mut text) = (again.unwrap().job.unwrap(), String::new());
        while matches!(job.step(&mut cli.context, &mut text), Step::After(_)) {}
        assert!(text.starts_with("there are 40001 buffers now"), "{text}");
    }
}
