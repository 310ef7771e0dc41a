//! What a command gives back.

use super::error::CliError;
use super::rows::{Listing, Rows};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// How much text a slice makes, in bytes, before it is sent.
pub const CHUNK: usize = 64 << 10;

/// The answer of a command: text, the same as data where there is any, and what remains to be done.
pub struct Output<C> {
    /// For people; ends with a line feed, or is empty.
    pub text: String,
    /// The same for programs.
    pub json: Option<Value>,
    /// Goes on after text and JSON were sent.
    pub job: Option<Box<dyn Job<C>>>,
}

/// The rest of a long command, which runs in slices between which others get their turn.
///
/// A job whose client goes away is dropped, so whatever it must undo belongs into its `Drop`, or is left by that to be
/// done in slices.
pub trait Job<C> {
    /// Runs for at most about a millisecond. What it appends to `out` is sent to the client.
    fn step(&mut self, cx: &mut C, out: &mut String) -> Step;
}

/// What follows a slice of a job.
#[derive(Debug)]
pub enum Step {
    /// The next slice, as soon as the others had their turn.
    Again,
    /// The next slice after this time.
    After(Duration),
    /// Bytes for the client, which is told this if no more come, and the next slice as soon as others had their turn: only
    /// if [`Call::binary`](super::Call::binary).
    Data {
        /// As they are, of any number.
        bytes: Vec<u8>,
        /// What is known of the whole so far.
        told: String,
    },
    /// Nothing: the command is complete.
    Done,
    /// Nothing: the command has failed.
    Failed(CliError),
}

impl<C> Output<C> {
    /// Nothing to say.
    pub fn none() -> Output<C> {
        Output { text: String::new(), json: None, job: None }
    }

    /// Text that has no form for programs.
    pub fn text(text: impl Into<String>) -> Output<C> {
        Output { text: lines(text.into()), ..Output::none() }
    }

    /// A value, and the same as text.
    pub fn show(value: impl Serialize, text: impl Into<String>) -> Output<C> {
        // It fails for maps whose keys are no strings; then there is the text.
        let json = serde_json::to_value(value).ok();
        Output { json, ..Output::text(text) }
    }

    /// Work that goes on.
    pub fn job(job: impl Job<C> + 'static) -> Output<C> {
        Output { job: Some(Box::new(job)), ..Output::none() }
    }

    /// A list that may be long, which is shown in slices; as JSON it is an array of the rows.
    pub fn rows<R: Rows<C> + 'static>(rows: R, json: bool) -> Output<C>
    where
        C: 'static,
    {
        Output::job(Listing::new(rows, json))
    }

    /// As it is printed. As JSON, a text without data is `{"text": …}`.
    pub fn render(self, json: bool) -> Answer<C> {
        let text = match (json, self.json) {
            (false, _) => self.text,
            (true, Some(value)) => lines(format!("{value:#}")),
            (true, None) if self.text.is_empty() => String::new(),
            (true, None) => lines(format!("{:#}", serde_json::json!({ "text": self.text }))),
        };
        Answer { text, job: self.job }
    }
}

/// The output of a command as it is printed.
pub struct Answer<C> {
    /// Text or JSON; ends with a line feed, or is empty.
    pub text: String,
    /// Goes on after the text was printed.
    pub job: Option<Box<dyn Job<C>>>,
}

fn lines(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_given_when_asked_for() {
        let show = || Output::<()>::show([1], "one");
        assert_eq!(show().render(false).text, "one\n");
        assert_eq!(show().render(true).text, "[\n  1\n]\n");
        assert_eq!(Output::<()>::text("a\n").render(true).text, "{\n  \"text\": \"a\\n\"\n}\n");
        assert_eq!(Output::<()>::none().render(true).text, "");
    }
}
