//! The output of a command.

use super::error::CliError;
use super::rows::{Listing, Rows};
use serde::Serialize;
use serde_json::Value;
use std::time::Duration;

/// A list pauses for other work after it has produced this many bytes of text.
pub const CHUNK: usize = 64 << 10;

/// The answer of a command: text, the same content as JSON if possible, and a job that does the remaining work.
pub struct Output<C> {
    /// The answer for people; it ends with a line feed, or is empty.
    pub text: String,
    /// The same answer for programs; `None` if the answer has no JSON form.
    pub json: Option<Value>,
    /// Continues the command after the text or the JSON was sent; `None` if the command is complete.
    pub job: Option<Box<dyn Job<C>>>,
}

/// The remaining work of a long command. It runs in slices of about a millisecond, so that the router can do other work in between.
///
/// A job is dropped when its client disconnects. So its `Drop` must undo the job's work, or schedule the undoing in slices.
pub trait Job<C> {
    /// Runs for at most about a millisecond. Text appended to `out` is sent to the client.
    fn step(&mut self, cx: &mut C, out: &mut String) -> Step;

    /// Returns how many bytes of memory the job holds while the router waits for the client to read output; 0 if the job never holds much.
    /// One memory limit applies to the jobs of all non-root users together.
    fn kept(&self) -> usize {
        0
    }
}

/// What happens after a slice of a job.
#[derive(Debug)]
pub enum Step {
    /// The next slice runs after other work had its turn.
    Again,
    /// The next slice runs after this time.
    After(Duration),
    /// The client gets these bytes. The job continues after other work has run. Allowed only with
    /// [`Call::binary`](super::Call::binary).
    Data {
        /// Any bytes, unchanged.
        bytes: Vec<u8>,
        /// The status so far, such as the number of captured packets. It replaces the previous status. The client shows the last one
        /// when the command has ended.
        told: String,
    },
    /// The command is complete.
    Done,
    /// The command has failed.
    Failed(CliError),
}

impl<C> Output<C> {
    /// Returns an empty output.
    pub fn none() -> Output<C> {
        Output { text: String::new(), json: None, job: None }
    }

    /// Returns an output of text without a JSON form.
    pub fn text(text: impl Into<String>) -> Output<C> {
        Output { text: lines(text.into()), ..Output::none() }
    }

    /// Returns an output with `value` as JSON, and the same content as `text`.
    pub fn show(value: impl Serialize, text: impl Into<String>) -> Output<C> {
        // Serialization fails for maps whose keys are not strings; then there is only the text.
        let json = serde_json::to_value(value).ok();
        Output { json, ..Output::text(text) }
    }

    /// Returns an output without text, whose work is all in `job`.
    pub fn job(job: impl Job<C> + 'static) -> Output<C> {
        Output { job: Some(Box::new(job)), ..Output::none() }
    }

    /// Returns the output of a list that may be very long. It is written page by page, with other work in between. As JSON, it is
    /// an array of the rows.
    pub fn rows<R: Rows<C> + 'static>(rows: R, json: bool) -> Output<C>
    where
        C: 'static,
    {
        Output::job(Listing::new(rows, json))
    }

    /// Returns what is printed: JSON if `json` is set, otherwise text. Text without a JSON form becomes `{"text": …}`.
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

/// The output of a command, printed as text or JSON.
pub struct Answer<C> {
    /// Text or JSON; ends with a line feed, or is empty.
    pub text: String,
    /// Continues the command after the text was printed; `None` if the command is complete.
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
    fn json_is_printed_on_request() {
        let show = || Output::<()>::show([1], "one");
        assert_eq!(show().render(false).text, "one\n");
        assert_eq!(show().render(true).text, "[\n  1\n]\n");
        assert_eq!(Output::<()>::text("a\n").render(true).text, "{\n  \"text\": \"a\\n\"\n}\n");
        assert_eq!(Output::<()>::none().render(true).text, "");
    }
}
