//! The manual pages and the completions of shells, made from the declarations of arguments, commands and parameters when a
//! package is built.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use control::startup;

use crate::Arguments;

/// Completes by asking the router, where a command for it stands; behind what is generated.
const BASH: &str = include_str!("../../../packaging/completion/router.bash");

/// What the manual page of the service says beside the arguments: headings, with a paragraph each.
const SERVICE: [(&str, &str); 4] = [
    (
        "SERVICE",
        "Started by systemd as volley.service, it says when it forwards, how it is, and that its workers turn, for as long as \
         they do; a router that hangs is started anew. systemctl reload applies /etc/volley/volley.yaml, and what does not \
         change in it is not disturbed.",
    ),
    (
        "SIGNALS",
        "SIGTERM, SIGINT and SIGHUP end the router in order: interfaces are given back to the kernel as they were found. So \
         they are when it is killed, by a small process beside it.",
    ),
    (
        "ENVIRONMENT",
        "VOLLEY_LOG sets the level of messages: error, warn, info, debug, trace or off, also by class, as in \
         warn,neighbor=debug. It goes before what startup.conf says.",
    ),
    (
        "FILES",
        "/etc/volley/startup.conf says what must be known before the router starts, /etc/volley/volley.yaml what it is to do. \
         Its command line listens on /run/volley/cli.sock, for root and the group volley.",
    ),
];

/// Writes all of it into `directory`: pages as `volley.1`, completions as `volley.bash` and `_volley`.
///
/// # Errors
/// A file cannot be written.
pub fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let put = |name: &str, bytes: &[u8]| fs::write(directory.join(name), bytes);
    let mut volley = visible();
    put("volley.bash", (completion(Shell::Bash, &mut volley) + BASH).as_bytes())?;
    put("_volley", zsh(&mut volley)?.as_bytes())?;
    volley.build();
    Man::new(volley.clone()).source(source()).render(&mut File::create(directory.join("volley.1"))?)?;
    // The tester has documents of its own.
    for command in volley.get_subcommands().filter(|c| c.get_name() != "bench") {
        if command.get_name() == "run" {
            put("volley.8", &daemon(command)?)?;
            put("volley-run.1", b".so man8/volley.8\n")?;
        } else {
            let name = format!("volley-{}.1", command.get_name());
            Man::new(command.clone()).source(source()).render(&mut File::create(directory.join(name))?)?;
        }
    }
    put("volley-cli.7", cli().render().as_bytes())?;
    put("volley-startup.conf.5", parameters().render().as_bytes())
}

/// The program without what is not called by hand.
fn visible() -> Command {
    let all = Arguments::command();
    Command::new("volley")
        .version(env!("CARGO_PKG_VERSION"))
        .about(all.get_about().cloned().unwrap_or_default())
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands(all.get_subcommands().filter(|c| !c.is_hide_set()).cloned())
}

fn source() -> String {
    format!("Volley {}", env!("CARGO_PKG_VERSION"))
}

fn completion(shell: Shell, volley: &mut Command) -> String {
    let mut text = Vec::new();
    generate(shell, volley, "volley", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The one for zsh calls the function that asks the router where a command for it stands.
fn zsh(volley: &mut Command) -> io::Result<String> {
    let text = completion(Shell::Zsh, volley);
    let asking = text.replacen("interactive:_default'", "interactive:_volley_router'", 1);
    if asking == text {
        return Err(io::Error::other("the completion for zsh looks different from what was expected"));
    }
    Ok(asking)
}

/// The page of the router itself.
fn daemon(run: &Command) -> io::Result<Vec<u8>> {
    let run = run.clone().name("volley").display_name("volley");
    let page = Man::new(run).title("volley").section("8").source(source());
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    let mut more = Roff::new();
    for (heading, paragraph) in SERVICE {
        more.control("SH", [heading]).text([roman(paragraph)]);
    }
    see_also(&mut more, &["volley(1)", "volley-cli(7)", "volley-startup.conf(5)"]);
    more.to_writer(&mut text)?;
    Ok(text)
}

/// The head of a page that is not about arguments.
fn page(name: &str, section: &str, about: &str) -> Roff {
    let mut page = Roff::new();
    page.control("TH", [name, section, "", &source()]);
    page.control("SH", ["NAME"]).text([roman(format!("{name} - {about}"))]);
    page
}

fn see_also(page: &mut Roff, pages: &[&str]) {
    page.control("SH", ["SEE ALSO"]).text([roman(pages.join(", "))]);
}

/// All commands of the CLI.
fn cli() -> Roff {
    let mut page = page("volley-cli", "7", "commands of a running Volley router");
    page.control("SH", ["DESCRIPTION"]).text([roman(
        "volley ctl COMMAND runs one, volley ctl alone asks for them, volley ctl - reads them from standard input. Words may be \
         shortened as long as they are unique. With --json the answer is JSON.",
    )]);
    page.control("SH", ["COMMANDS"]);
    for (syntax, help) in volley::features::declared().0.declarations() {
        let syntax: Vec<_> = syntax.split_whitespace().collect();
        page.control("TP", []).text([bold(syntax.join(" "))]).text([roman(help)]);
    }
    see_also(&mut page, &["volley-ctl(1)", "volley(8)"]);
    page
}

/// All parameters of startup.conf.
fn parameters() -> Roff {
    let mut page = page("volley-startup.conf", "5", "what Volley has to know before it starts");
    page.control("SH", ["DESCRIPTION"]).text([roman(
        "Sections, each a name and parameters in braces, in the syntax of VPP's startup.conf; a word that begins with # begins a \
         comment. volley run -c FILE reads it, and does not start if anything is wrong with it.",
    )]);
    let mut section = "";
    for entry in startup::entries() {
        if entry.section != section {
            section = entry.section;
            page.control("SH", [section.to_uppercase().as_str()]);
        }
        let names = entry.names.join(", ");
        page.control("TP", []).text([bold(names), roman(" "), italic(entry.values)]);
        let said = format!("{} Default: {}.", entry.help, entry.default);
        page.text([roman(said.replace(['`', '*'], ""))]);
    }
    see_also(&mut page, &["volley(8)"]);
    page
}
