//! Adding packet buffers while the router forwards.

use crate::app::{Adding, Context, Failure, LOOK, Output};
use crate::cli::{Args, CliError, Job, Registry, Step};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add(
        "set buffers <total:u32>",
        "Set the total number of packet buffers, until the router stops. Traffic continues. Buffers cannot be removed.",
        set_buffers,
    );
}

fn set_buffers(c: &mut Context, a: &Args) -> Result<Output, CliError> {
    let total = a.need::<u32>("total")? as usize;
    let adding = c.add_buffers(total).map_err(|e| match e {
        // The error is not about the number, so it marks no word.
        Failure::AddingBuffers => e.into(),
        _ => a.about("total", e),
    })?;
    Ok(match adding {
        Some(adding) => Output::job(Wait { args: a.clone(), total, adding }),
        None => Output::text(said(total)),
    })
}

fn said(total: usize) -> String {
    format!(
        "there are {total} buffers now, until the router stops; to keep them, set buffers {{ buffers-per-numa {total} }} in \
         startup.conf\n"
    )
}

/// The job that waits for the thread that adds buffers.
struct Wait {
    args: Args,
    total: usize,
    adding: Adding,
}

impl Job<Context> for Wait {
    fn step(&mut self, _: &mut Context, out: &mut String) -> Step {
        match self.adding.outcome() {
            None => Step::After(LOOK),
            Some(Ok(())) => {
                out.push_str(&Output::text(said(self.total)).render(self.args.json()).text);
                Step::Done
            }
            Some(Err(e)) => Step::Failed(self.args.about("total", e)),
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
        // The number of buffers is not part of the configuration.
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
