//! The registry of commands. It also runs a command given as a line.

use super::args::{Args, Taken};
use super::complete::{self, Completion};
use super::error::CliError;
use super::grammar::{self, Seq};
use super::lex::Line;
use super::output::{Answer, Output};
use super::parse::{self, State};
use super::pipe;
use super::report::Report;
use super::role::Role;
use crate::origin::{FrontEnd, Origin, Peer};
use crate::visible::hidden;
use std::path::PathBuf;
use std::rc::Rc;

/// The names that exist in the router, for arguments that must be one of them.
pub trait Values {
    /// Returns all names of a kind, such as `interface`.
    fn values(&self, kind: &str) -> Vec<String>;

    /// True if `name` is a name of this kind. Implement it for kinds with many names, because the default builds the whole list.
    fn has(&self, kind: &str, name: &str) -> bool {
        self.values(kind).iter().any(|value| value == name)
    }

    /// Returns the number of the object called `name`; `None` if there is no such object. Only for kinds whose objects have numbers, such
    /// as `table`.
    fn number(&self, _kind: &str, _name: &str) -> Option<u32> {
        None
    }

    /// Returns a notice, in whole lines, to send with the answer of the last command, and clears it. `None` if there is no notice.
    fn notice(&mut self) -> Option<String> {
        None
    }

    /// Sets the origin of the next command that may change state. A job continues after commands of other clients, so it must keep its
    /// origin itself ([`Args::origin`]).
    fn acts_for(&mut self, _: Origin) {}
}

/// First word of commands that show something and change nothing. Viewers may run them.
const SHOW: &str = "show";

/// The error for filters on JSON.
const NO_JSON: &str = "filters ('|') work on text: remove --json, or filter the JSON with jq";

/// How a command was called.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// True if the client wants JSON instead of text.
    pub json: bool,
    /// The client's working directory, for relative paths.
    pub directory: PathBuf,
    /// Number of `exec` commands that this call is nested in.
    pub depth: u8,
    /// What the caller may do.
    pub role: Role,
    /// True if the client accepts binary data.
    pub binary: bool,
    /// The front end of the call.
    pub front_end: FrontEnd,
    /// The caller.
    pub peer: Peer,
}

/// The function that runs a command.
pub type Handler<C> = Box<dyn Fn(&mut C, &Args) -> Result<Output<C>, CliError>>;

/// The function of a command that needs the registry of commands instead of the router's state.
pub type OwnHandler<C> = fn(&Rc<Registry<C>>, &Args) -> Result<Output<C>, CliError>;

struct Command<C> {
    syntax: String,
    help: String,
    grammar: Seq,
    /// The lowest role that may run the command.
    needs: Role,
    run: Run<C>,
}

enum Run<C> {
    Handler(Handler<C>),
    Own(OwnHandler<C>),
    Help,
    Report(&'static [&'static str]),
}

/// A command that was just declared. The methods set the lowest role that may run it.
pub struct Declared<'r> {
    needs: &'r mut Role,
}

impl Declared<'_> {
    /// Lets viewers run the command. It must not change what other clients see.
    pub fn for_viewers(self) {
        *self.needs = Role::Viewer;
    }

    /// Lets operators run the command. The command must not change the configuration, nor take the name of a file.
    pub fn for_operators(self) {
        *self.needs = Role::Operator;
    }
}

/// The commands. Their functions get the state `C`.
pub struct Registry<C> {
    commands: Vec<Command<C>>,
    /// Kinds of objects. The name of each kind is also an argument type for the syntax of commands.
    objects: Vec<&'static str>,
    /// Commands of features that run at the end of every report. A report, such as `show tech-support`, runs several commands.
    supports: Vec<String>,
    /// Commands that this program does not support, with the reason.
    left_out: Vec<LeftOut>,
}

/// Maximum number of words at the start of a line that are compared with the commands, to explain an error in the line. Every
/// command is identified by fewer words.
const DEEP: usize = 32;

/// Name of the argument that matches the rest of a line whose beginning is refused.
const REST: &str = "rest";

/// A command that this program does not support.
struct LeftOut {
    grammar: Seq,
    why: String,
    /// True if a line must match the whole grammar, not just its beginning.
    whole: bool,
}

impl<C: Values + 'static> Default for Registry<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Values + 'static> Registry<C> {
    /// Returns a registry with only the command `help`.
    pub fn new() -> Registry<C> {
        let mut registry = Registry {
            commands: Vec::new(),
            objects: Vec::new(),
            supports: Vec::new(),
            left_out: Vec::new(),
        };
        registry.insert(
            "help [<command:text>]",
            "List all commands, or only those that begin with the given words.",
            Role::Viewer,
            Run::Help,
        );
        registry
    }

    /// Refuses lines that begin like one of `commands`, with the reason `why`. A line is not refused if a command of this registry matches
    /// at least as many words of the line. Help and completion do not list `commands`.
    pub fn leave_out(&mut self, commands: Registry<C>, why: String) {
        let commands = commands.commands.into_iter().filter(|command| !matches!(command.run, Run::Help));
        self.left_out.extend(commands.map(|command| LeftOut {
            grammar: command.grammar,
            why: why.clone(),
            whole: false,
        }));
    }

    /// Refuses lines that begin with `beginning`, with the reason `why`. A line is not refused if a command matches at least as many
    /// words of the line. Help and completion do not list `beginning`.
    ///
    /// # Panics
    /// As [`add`](Self::add).
    pub fn refuse(&mut self, beginning: &str, why: String) {
        let syntax = format!("{beginning} [<{REST}:text>]");
        let grammar = grammar::parse(&syntax, &self.objects);
        let grammar =
            grammar.unwrap_or_else(|fault| panic!("the beginning '{beginning}' is faulty: {fault}"));
        self.left_out.push(LeftOut { grammar, why, whole: true });
    }

    /// Declares `kind`, a kind of objects, as an argument type. The value of such an argument is the name of an object that [`Values`]
    /// lists.
    pub fn objects(&mut self, kind: &'static str) {
        self.objects.push(kind);
    }

    /// Declares a command: its syntax (see [`grammar`]), one sentence of help, and its function. Viewers may run it
    /// if its first word is `show`; otherwise only admins may, unless it is [declared](Declared) for another role.
    ///
    /// # Panics
    /// Panics if the syntax is faulty. Declarations are constants of the program, so a test that registers all of them finds the fault.
    pub fn add(
        &mut self,
        syntax: &str,
        help: &str,
        handler: impl Fn(&mut C, &Args) -> Result<Output<C>, CliError> + 'static,
    ) -> Declared<'_> {
        let needs = if first_word(syntax) == SHOW { Role::Viewer } else { Role::Admin };
        Declared { needs: self.insert(syntax, help, needs, Run::Handler(Box::new(handler))) }
    }

    /// Declares a command whose function needs the registry. Only admins may run it.
    ///
    /// # Panics
    /// As [`add`](Self::add).
    pub fn add_own(&mut self, syntax: &str, help: &str, handler: OwnHandler<C>) {
        self.insert(syntax, help, Role::Admin, Run::Own(handler));
    }

    /// Runs `command` also at the end of every report. A report, such as `show tech-support`, runs several commands. `command` must
    /// not change anything.
    pub fn supports(&mut self, command: String) {
        self.supports.push(command);
    }

    /// Declares a command for viewers that runs `commands`, and then those of [`supports`](Self::supports), one after the other. The
    /// output of each is under a heading.
    ///
    /// # Panics
    /// As [`add`](Self::add).
    pub fn report(&mut self, syntax: &str, help: &str, commands: &'static [&'static str]) {
        self.insert(syntax, help, Role::Viewer, Run::Report(commands));
    }

    /// Returns the syntax and the help of every command, in order of the syntax.
    pub fn declarations(&self) -> Vec<(&str, &str)> {
        let mut all: Vec<_> = self.commands.iter().map(|c| (c.syntax.as_str(), c.help.as_str())).collect();
        all.sort_unstable();
        all
    }

    /// Adds a command. Returns a reference to the command's role, so that the caller can change it.
    fn insert(&mut self, syntax: &str, help: &str, needs: Role, run: Run<C>) -> &mut Role {
        let grammar = grammar::parse(syntax, &self.objects);
        let grammar = grammar.unwrap_or_else(|fault| panic!("the declaration '{syntax}' is faulty: {fault}"));
        let command = Command { syntax: syntax.into(), help: help.into(), grammar, needs, run };
        &mut self.commands.push_mut(command).needs
    }

    /// Returns the first words of the commands for clients with this role, other than `help`.
    fn words_for(&self, role: Role) -> Vec<&str> {
        let commands = self.commands.iter().filter(|c| c.needs <= role && !matches!(c.run, Run::Help));
        let mut words = Vec::new();
        for word in commands.map(|command| first_word(&command.syntax)) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words
    }

    /// Runs a line; an empty one does nothing. `--json` or `-j` as its last word requests JSON, and `?` requests the words that may come
    /// next. Filters for the command's text may follow: `| match EXPRESSION`, `| except EXPRESSION`, `| count`.
    ///
    /// # Errors
    /// Returns an error in the line, or the error of the command. Also fails if the caller's role may not run the command, or if the line
    /// combines filters with JSON.
    pub fn run(self: &Rc<Self>, cx: &mut C, line: &str, call: Call) -> Result<Answer<C>, CliError> {
        match pipe::split(line)? {
            (command, None) => self.run_command(cx, command, call),
            (_, Some(_)) if call.json => Err(CliError::new(NO_JSON)),
            (command, Some(_)) if take_json(&mut Line::whole(command)?) => Err(CliError::new(NO_JSON)),
            (command, Some(pipe)) => Ok(pipe.filter(self.run_command(cx, command, call)?)),
        }
    }

    fn run_command(self: &Rc<Self>, cx: &mut C, line: &str, mut call: Call) -> Result<Answer<C>, CliError> {
        let mut found = Line::whole(line)?;
        call.json |= take_json(&mut found);
        if let Some(last) = found.tokens.pop_if(|token| !token.quoted && token.text == "?") {
            let before = line.get(..last.span.start).unwrap_or_default();
            let completion = self.complete(cx, before, call.role);
            let text = complete::list(&completion.candidates);
            return Ok(Output::show(&completion.candidates, text).render(call.json));
        }
        if found.tokens.is_empty() {
            return Ok(Output::none().render(call.json));
        }
        let (index, taken) = self.decide(line, &found, cx)?;
        if self.commands.get(index).is_none_or(|command| command.needs > call.role) {
            return Err(CliError::new(format!(
                "this socket is {}: \"{}\" is not allowed here. Allowed are {} and help; for other commands \
                 use the socket of unix {{ cli-listen ... }}",
                call.role.limits(),
                line.trim(),
                self.words_for(call.role).join(", ")
            )));
        }
        let json = call.json;
        let args = Args { line: line.to_owned(), taken, call };
        if self.commands.get(index).is_some_and(|command| command.needs > Role::Viewer) {
            cx.acts_for(args.origin());
        }
        let output = match self.commands.get(index).map(|command| &command.run) {
            Some(Run::Handler(handler)) => handler(cx, &args),
            Some(Run::Help) => self.help(cx, &args),
            Some(Run::Own(handler)) => handler(self, &args),
            Some(Run::Report(commands)) => {
                let commands = commands.iter().map(|command| command.to_string());
                let commands = commands.chain(self.supports.iter().cloned()).collect();
                Ok(Output::job(Report::new(Rc::clone(self), commands, &args.call)))
            }
            None => Ok(Output::none()),
        };
        // Take the notice even if the command has failed, so that the next command does not show it.
        let notice = cx.notice();
        let mut answer = output?.render(json);
        if let Some(notice) = notice.filter(|_| !json) {
            answer.text += &notice;
        }
        Ok(answer)
    }

    /// Checks, without running it, that `line` is empty or a valid command whose names exist.
    ///
    /// # Errors
    /// Returns the error in the line.
    pub fn check(&self, line: &str, values: &dyn Values) -> Result<(), CliError> {
        let (line, _) = pipe::split(line)?;
        let mut found = Line::whole(line)?;
        take_json(&mut found);
        if found.tokens.is_empty() {
            return Ok(());
        }
        self.decide(line, &found, values).map(|_| ())
    }

    /// True if a command begins with the first word of `line`.
    pub fn begins(&self, line: &str, values: &dyn Values) -> bool {
        let found = Line::read(line);
        found.tokens.get(..1).is_some_and(|first| parse::walk(self.start(), line, first, values).is_ok())
    }

    fn decide(
        &self,
        line: &str,
        found: &Line<'_>,
        values: &dyn Values,
    ) -> Result<(usize, Vec<Taken>), CliError> {
        for token in &found.tokens {
            if let Some(why) = hidden(&token.text) {
                return Err(CliError::new(why).at(line, token.span.clone()));
            }
        }
        let syntax = |index: usize| self.commands.get(index).map_or("", |command| command.syntax.as_str());
        parse::decide(self.start_of(found), line, found, values, syntax).map_err(|e| {
            let depth = self.depth(line, found, values);
            self.refusal(line, found, values, depth).map_or(e, CliError::new)
        })
    }

    /// Returns the reason why this program does not support the command at the start of the line. The command must match more than the
    /// first `depth` words of the line. Returns `None` if no such command matches, or if several match that have different reasons.
    fn refusal(&self, line: &str, found: &Line<'_>, values: &dyn Values, depth: usize) -> Option<&str> {
        let start: Vec<State<'_>> = self
            .left_out
            .iter()
            .enumerate()
            .map(|(i, left_out)| State::start(i, &left_out.grammar))
            .collect();
        let words = (depth + 1..=found.tokens.len().min(DEEP)).rev().filter_map(|n| found.tokens.get(..n));
        let states =
            words.map(|words| parse::walk(start.clone(), line, words, values)).find_map(Result::ok)?;
        let why = |state: &State<'_>| {
            let left_out = self.left_out.get(state.command)?;
            let own = state.taken().iter().filter(|taken| taken.name != REST).count();
            (own > depth && (!left_out.whole || state.may_end())).then_some(left_out.why.as_str())
        };
        let mut whys = states.iter().filter_map(why);
        let first = whys.next()?;
        whys.all(|why| why == first).then_some(first)
    }

    /// Returns how many words at the start of a line match the beginning of a command, at most [`DEEP`].
    fn depth(&self, line: &str, found: &Line<'_>, values: &dyn Values) -> usize {
        let words = |n: &usize| found.tokens.get(..*n);
        let fits =
            |n: &usize| words(n).is_some_and(|w| parse::walk(self.start_of(found), line, w, values).is_ok());
        (1..=found.tokens.len().min(DEEP)).take_while(fits).count()
    }

    /// Returns the candidates for the end of `line`, from the commands that a client with this role may run.
    pub fn complete(&self, cx: &C, line: &str, role: Role) -> Completion {
        if let Some(filters) = pipe::complete(line) {
            return filters;
        }
        let fits =
            |state: &State<'_>| self.commands.get(state.command).is_some_and(|command| command.needs <= role);
        let start = self.start().into_iter().filter(fits).collect();
        complete::complete(start, line, cx, |index| self.commands.get(index).map_or("", |c| c.help.as_str()))
    }

    fn start(&self) -> Vec<State<'_>> {
        self.commands.iter().enumerate().map(|(i, command)| State::start(i, &command.grammar)).collect()
    }

    /// Returns the parser's states before the first word: one for each command that can begin with the first word of the line. If there is
    /// no such command, returns a state for every command, so that the parser can report the error.
    fn start_of(&self, found: &Line<'_>) -> Vec<State<'_>> {
        let Some(first) = found.tokens.first() else { return self.start() };
        let commands = self.commands.iter().enumerate();
        let some = commands.filter(|(_, command)| grammar::may_begin_with(&command.grammar, &first.text));
        let some: Vec<State<'_>> = some.map(|(i, command)| State::start(i, &command.grammar)).collect();
        if some.is_empty() { self.start() } else { some }
    }

    fn help(&self, cx: &C, args: &Args) -> Result<Output<C>, CliError> {
        let topic: String = args.get("command").unwrap_or_default();
        let found = Line::whole(&topic)?;
        let states = parse::walk(self.start(), &topic, &found.tokens, cx)?;
        let mut indexes: Vec<usize> = states.iter().map(|state| state.command).collect();
        indexes.dedup();
        let mut list: Vec<&Command<C>> =
            indexes.iter().filter_map(|index| self.commands.get(*index)).collect();
        let (role, mut refused) = (args.call().role, String::new());
        // If the client may run none of the commands, list them anyway, with a remark.
        match list.iter().any(|command| command.needs <= role) {
            true => list.retain(|command| command.needs <= role),
            false => {
                refused = format!("    This socket is {}: the command is not allowed here.\n", role.limits())
            }
        }
        list.sort_by_key(|command| &command.syntax);
        let text: String = list.iter().map(|c| format!("{}\n    {}\n{refused}", c.syntax, c.help)).collect();
        let data: Vec<_> =
            list.iter().map(|c| serde_json::json!({ "syntax": c.syntax, "help": c.help })).collect();
        Ok(Output::show(data, text))
    }
}

/// Returns the first word of a syntax.
fn first_word(syntax: &str) -> &str {
    syntax.split_whitespace().next().unwrap_or_default()
}

/// Removes the words at the end of a line that request JSON. Returns true if there were any.
fn take_json(found: &mut Line<'_>) -> bool {
    let mut asked = false;
    while let Some(last) =
        found.tokens.pop_if(|token| !token.quoted && (token.text == "--json" || token.text == "-j"))
    {
        found.end = last.span.start;
        asked = true;
    }
    asked
}
