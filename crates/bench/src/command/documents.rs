//! Manual pages and shell completions, generated from the argument declarations when a package is built.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};
use clap_mangen::Man;

use super::Arguments;

/// Writes the manual pages (`volley-bench.1`, …) and the completions (`volley-bench.bash`, `_volley-bench`) into `directory`.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let hidden = |command: &clap::Command| command.is_hide_set();
    let all = Arguments::command();
    let shown: Vec<_> = all.get_subcommands().filter(|command| !hidden(command)).cloned().collect();
    let mut program = clap::Command::new("volley-bench")
        .version(env!("CARGO_PKG_VERSION"))
        .about(all.get_about().cloned().unwrap_or_default())
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands(shown);
    for (shell, name) in [(Shell::Bash, "volley-bench.bash"), (Shell::Zsh, "_volley-bench")] {
        let mut text = Vec::new();
        generate(shell, &mut program, "volley-bench", &mut text);
        fs::write(directory.join(name), text)?;
    }
    program.build();
    let page = |command: &clap::Command, name: &str| {
        let source = format!("Volley {}", env!("CARGO_PKG_VERSION"));
        Man::new(command.clone()).source(source).render(&mut File::create(directory.join(name))?)
    };
    page(&program, "volley-bench.1")?;
    program.get_subcommands().try_for_each(|c| page(c, &format!("volley-bench-{}.1", c.get_name())))
}
