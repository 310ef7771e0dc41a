//! The prompt of `volley ctl`: editing, history, Tab and `?`.

use super::client::{ClientOptions, Connection, Failure, is_farewell};
use super::screen;
use model::cli::{Completion, list};
use reedline::{
    ColumnarMenu, Completer, CompletionResult, Emacs, FileBackedHistory, KeyCode, KeyModifiers, MenuBuilder,
    Prompt, PromptEditMode, PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, Signal, Span,
    Suggestion, default_emacs_keybindings,
};
use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Lines of history kept in `~/.volley_history`.
const HISTORY: usize = 5000;
const MENU: &str = "completion";
const HELP: &str = "?";

/// The connection to the router. After a failure it is opened again.
struct Session {
    socket: PathBuf,
    connection: Option<Connection>,
}

impl Session {
    fn with<T>(
        &mut self,
        mut action: impl FnMut(&mut Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (mut connection, old) = match self.connection.take() {
            Some(connection) => (connection, true),
            None => (Connection::open(&self.socket)?, false),
        };
        let mut result = action(&mut connection);
        if old && matches!(result, Err(Failure::Closed(_))) {
            // The router dropped this idle connection to make room. Reconnect without bothering the operator.
            connection = Connection::open(&self.socket)?;
            result = action(&mut connection);
        }
        // After any other failure, an answer may still arrive. Closing the connection ends the command.
        if matches!(result, Ok(_) | Err(Failure::Refused(_))) {
            self.connection = Some(connection);
        }
        result
    }

    fn complete(&mut self, line: &str) -> Completion {
        self.with(|connection| connection.complete(line)).unwrap_or_default()
    }
}

/// Completes words by asking the router.
struct Remote(Arc<Mutex<Session>>);

impl Completer for Remote {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let line = line.get(..position).unwrap_or(line);
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).complete(line);
        let span = Span { start: found.from.min(line.len()), end: line.len() };
        let suggestions: Vec<Suggestion> = found
            .candidates
            .into_iter()
            .filter(|candidate| !candidate.placeholder)
            .map(|candidate| Suggestion {
                value: candidate.text,
                description: Some(candidate.help),
                span,
                append_whitespace: true,
                ..Suggestion::default()
            })
            .collect();
        CompletionResult::fresh(suggestions)
    }
}

/// Reads commands and runs them until the operator leaves.
///
/// # Errors
/// If no router answers at the start, or the terminal does not work.
pub(super) fn interact(options: &ClientOptions) -> Result<(), Failure> {
    let connection = Connection::open(&options.socket)?;
    let prompt = VolleyPrompt(connection.prompt().to_owned());
    let session = Session { socket: options.socket.clone(), connection: Some(connection) };
    let session = Arc::new(Mutex::new(session));
    let interrupt = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupt))
        .map_err(Failure::Output)?;
    let mut editor = editor(Arc::clone(&session));
    let mut paging = true;
    loop {
        let signal = editor.read_line(&prompt).map_err(|e| Failure::Output(io::Error::other(e)))?;
        let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
        match signal {
            Signal::Success(line) => match line.trim() {
                line if is_farewell(line) => return Ok(()),
                "history" => editor.print_history().map_err(|e| Failure::Output(io::Error::other(e)))?,
                line if pager_of(line).is_some() => paging = pager_of(line) == Some(true),
                line => {
                    interrupt.store(false, Relaxed);
                    let interrupted = || interrupt.load(Relaxed);
                    let run = |c: &mut Connection| match screen::watched(line) {
                        Some(watched) => {
                            screen::watch(c, watched, options.json, &mut io::stdout(), &interrupted)
                        }
                        None if paging && screen::is_list(line) => {
                            screen::page(c, line, options.json, &interrupted)
                        }
                        None => c.run(line, options.json, &mut io::stdout(), &interrupted),
                    };
                    match session.with(run) {
                        Ok(()) | Err(Failure::Left) => {}
                        Err(failure @ Failure::Output(_)) => return Err(failure),
                        Err(failure) => eprintln!("{failure}"),
                    }
                }
            },
            Signal::HostCommand(_) => {
                let found = session.complete(editor.current_buffer_contents());
                println!("\n{}", list(&found.candidates).trim_end());
            }
            Signal::CtrlD => return Ok(()),
            _ => {}
        }
    }
}

/// Returns the new setting, true for `on`, if the line is VPP's command `set terminal pager on` or `set terminal pager off`.
fn pager_of(line: &str) -> Option<bool> {
    match line.split_whitespace().collect::<Vec<_>>()[..] {
        ["set", "terminal", "pager", "on"] => Some(true),
        ["set", "terminal", "pager", "off"] => Some(false),
        _ => None,
    }
}

fn editor(session: Arc<Mutex<Session>>) -> Reedline {
    let mut keys = default_emacs_keybindings();
    let complete = ReedlineEvent::UntilFound(vec![ReedlineEvent::Menu(MENU.into()), ReedlineEvent::MenuNext]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, complete);
    for modifier in [KeyModifiers::NONE, KeyModifiers::SHIFT] {
        keys.add_binding(modifier, KeyCode::Char('?'), ReedlineEvent::ExecuteHostCommand(HELP.into()));
    }
    let menu = ReedlineMenu::EngineCompleter(Box::new(ColumnarMenu::default().with_name(MENU)));
    let editor = Reedline::create()
        .with_completer(Box::new(Remote(session)))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_menu(menu)
        .with_edit_mode(Box::new(Emacs::new(keys)));
    let file = std::env::home_dir().map(|home| home.join(".volley_history"));
    match file.map(|file| FileBackedHistory::with_file(HISTORY, file)) {
        Some(Ok(history)) => editor.with_history(Box::new(history)),
        // Without a file, the history lasts as long as the session.
        _ => editor,
    }
}

/// The prompt, with the text that the router sent.
struct VolleyPrompt(String);

impl Prompt for VolleyPrompt {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        self.0.as_str().into()
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        "".into()
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        "> ".into()
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        format!(" (search: {}) ", search.term).into()
    }
}
