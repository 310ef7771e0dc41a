//! Writes the manual pages and the shell completions when a package is built. They are made from the declarations of arguments,
//! commands and parameters.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use control::startup;

use crate::Arguments;

/// Shell code that asks the router for completions of its commands. It is appended to the generated completion for bash.
const BASH: &str = include_str!("../../../packaging/completion/router.bash");

/// Sections of the service's manual page besides the arguments: headings, with a paragraph each.
const SERVICE: [(&str, &str); 4] = [
    (
        "SERVICE",
        "Started by systemd as volley.service, the router reports that it is ready, and its status. It notifies the watchdog while its \
         workers run, so a router that hangs is restarted. systemctl reload applies /etc/volley/volley.yaml; unchanged parts are not \
         disturbed.",
    ),
    (
        "SIGNALS",
        "SIGTERM and SIGINT end the router cleanly: interfaces are returned to the kernel as they were found. If the router is killed, a \
         small process beside it returns them. SIGHUP ends the router only if it runs at a terminal. SIGINT does not end it while \
         commands are edited at that terminal.",
    ),
    (
        "ENVIRONMENT",
        "VOLLEY_LOG sets the level of messages: error, warn, info, debug, trace or off, also by class, as in \
         warn,neighbor=debug. It overrides startup.conf.",
    ),
    (
        "FILES",
        "/etc/volley/startup.conf has the settings that the router needs before it starts, /etc/volley/volley.yaml its \
         configuration. The command line listens on /run/volley/cli.sock, for root and the group volley.",
    ),
];

/// Writes all documents into `directory`: pages such as `volley.1`, and completions as `volley.bash` and `_volley`.
///
/// # Errors
/// If a file cannot be written, or the generated completion for zsh has an unexpected form.
pub fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let put = |name: &str, bytes: &[u8]| fs::write(directory.join(name), bytes);
    let mut volley = visible();
    put("volley.bash", (completion(Shell::Bash, &mut volley) + BASH).as_bytes())?;
    put("_volley", zsh(&mut volley)?.as_bytes())?;
    volley.build();
    Man::new(volley.clone()).source(source()).render(&mut File::create(directory.join("volley.1"))?)?;
    // The tester has its own documents.
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

/// Returns the declaration of the program's arguments, without hidden commands.
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

/// Returns the completion script for zsh. It is changed to ask the router for completions of the router's commands.
fn zsh(volley: &mut Command) -> io::Result<String> {
    let text = completion(Shell::Zsh, volley);
    let words =
        volley.find_subcommand("ctl").and_then(|ctl| ctl.get_arguments().find(|a| a.get_id() == "words"));
    let help = words.and_then(|words| words.get_help()).map(ToString::to_string).unwrap_or_default();
    let asking = text.replacen(&format!("{help}:_default'"), &format!("{help}:_volley_router'"), 1);
    if asking == text {
        return Err(io::Error::other("the generated completion for zsh has an unexpected form"));
    }
    Ok(asking)
}

/// Returns the page of the router.
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

/// Returns a manual page with only its title and its section NAME, for a page that does not document arguments.
fn page(name: &str, section: &str, about: &str) -> Roff {
    let mut page = Roff::new();
    page.control("TH", [name, section, "", &source()]);
    page.control("SH", ["NAME"]).text([roman(format!("{name} - {about}"))]);
    page
}

fn see_also(page: &mut Roff, pages: &[&str]) {
    page.control("SH", ["SEE ALSO"]).text([roman(pages.join(", "))]);
}

/// Returns the page of all commands of the CLI.
fn cli() -> Roff {
    let mut page = page("volley-cli", "7", "commands of a running Volley router");
    page.control("SH", ["DESCRIPTION"]).text([roman(
        "volley ctl COMMAND runs one command, volley ctl alone is interactive, volley ctl - reads commands from standard input. \
         Words may be shortened as long as they are unique. With --json the answer is JSON.",
    )]);
    page.control("SH", ["COMMANDS"]);
    for (syntax, help) in volley::features::declared().0.declarations() {
        let syntax: Vec<_> = syntax.split_whitespace().collect();
        page.control("TP", []).text([bold(syntax.join(" "))]).text([roman(help)]);
    }
    see_also(&mut page, &["volley-ctl(1)", "volley(8)"]);
    page
}

/// Returns the page of all parameters of startup.conf.
fn parameters() -> Roff {
    let mut page = page("volley-startup.conf", "5", "start configuration of Volley");
    page.control("SH", ["DESCRIPTION"]).text([roman(
        "The file has sections, each a name and parameters in braces, in the syntax of VPP's startup.conf. A word that begins with \
         # begins a comment. volley run -c FILE reads the file, and does not start the router if it has errors.",
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
