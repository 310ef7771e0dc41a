//! Commands of VPP's scripts for the terminal and for pauses.

use std::time::{Duration, Instant};

use crate::app::{Context, Output};
use crate::cli::{Args, CliError, Job, Registry, Step};

/// Declares the commands.
pub fn register(r: &mut Registry<Context>) {
    r.add("wait <seconds:word>", "Wait for a number of seconds, such as 0.5.", wait);
    r.add(
        "set terminal <settings:text>",
        "Accept the terminal settings of VPP's scripts, which have no effect here. At the client's prompt, \"set terminal pager \
         on\" or \"off\" switches its pager.",
        |_, _| Ok(Output::none()),
    );
    r.add(
        "show bihash [{verbose | detail}]",
        "Accept VPP's command for its hash tables. Volley has no tables of this kind.",
        |_, _| Ok(Output::text("no tables of this kind: see show memory and show ip route-memory\n")),
    );
}

/// A pause of a script.
struct Wait {
    until: Instant,
}

fn wait(_: &mut Context, a: &Args) -> Result<Output, CliError> {
    Ok(Output::job(Wait { until: Instant::now() + a.interval("seconds", 0.0)? }))
}

impl Job<Context> for Wait {
    fn step(&mut self, _: &mut Context, _: &mut String) -> Step {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Step::Done,
            left => Step::After(left),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::testing::Cli;

    #[test]
    fn wait_pauses_and_terminal_settings_are_accepted() {
        let (mut cli, begun) = (Cli::new(), Instant::now());
        assert_eq!(cli.ok("wait 0.02"), "");
        assert!(begun.elapsed() >= Duration::from_millis(20));
        for (line, place) in [("wait 3601", "3601"), ("wait -1", "-1"), ("wait long", "long")] {
            assert!(cli.refused(line, place).contains("an interval must be 0 to 3600 seconds"));
        }
        assert!(cli.run("wait").is_err() && cli.run("set terminal").is_err());
        assert_eq!(cli.ok("set terminal pager off"), "");
        assert_eq!(cli.ok("set terminal history limit 100"), "");
    }
}
