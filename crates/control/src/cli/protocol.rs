//! The protocol between client and server: one JSON object or string per line.
//!
//! ```text
//! > "hello"
//! < {"hello":{"prompt":"volley# "}}
//! > {"run":{"line":"show version","json":false,"directory":"/root"}}
//! < {"out":"volley v0.1.0\n"}
//! < "done"
//! > {"run":{"line":"show vresion","json":false,"directory":"/root"}}
//! < {"failed":"show vresion\n     ^^^^^^^\nunexpected 'vresion'\n…"}
//! > {"complete":{"line":"show ver"}}
//! < {"completion":{"from":5,"candidates":[{"text":"version","help":"…","placeholder":false}]}}
//! ```
//!
//! Each request has one answer: any number of `out` and `data`, then one message of another kind. The line of a `data` message gives a
//! number of bytes, and these bytes follow it; they need not be text. Only requests with `"binary":true` get `data`.
//!
//! Requests are answered in order, also those sent before the client shut down its side of the connection. A command ends early if its
//! client has closed the connection: when sending to the client fails, or when the client's side is shut down and the command has had no
//! output for ten seconds (30 seconds for a client of plain text, or one that has sent more than the server reads ahead). `closed` may
//! arrive instead of any answer, or before a request. Then the request was not started, and the server closes the connection.
//!
//! If the first byte is not that of a request (`{` or `"`), the server takes the client for a person with `nc` or `telnet`. Then there is a
//! prompt, each line is a command, and answers are plain text. `quit` closes the connection. Lines sent before the client shuts down its
//! side of the connection are still answered.
//!
//! The prompt is also shown to a client that sends nothing for two seconds. If the client sends a request after that, it gets the same
//! answer as a program, after the line with the prompt. So programs send `hello` as soon as they are connected.

use std::borrow::Cow;

use model::cli::Completion;
use model::visible::visible;
use serde::{Deserialize, Serialize};

/// Maximum length in bytes of a request, for admins.
pub(super) const LONGEST_REQUEST: usize = 256 << 10;
/// Maximum length in bytes of a request, for all clients that are not admins. Such clients may be many and hostile, and none of their
/// commands needs to be longer.
pub(super) const LONGEST_READ: usize = 8 << 10;

/// A message from the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Request {
    /// Announces a client that uses this protocol.
    Hello,
    /// Runs a command.
    Run {
        line: String,
        /// True to answer as JSON.
        #[serde(default)]
        json: bool,
        /// The base of relative paths in the command.
        #[serde(default)]
        directory: String,
        /// True if the client accepts `data`.
        #[serde(default)]
        binary: bool,
    },
    /// Asks for the possible completions of the line.
    Complete { line: String },
}

/// A message from the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reply {
    /// The answer to `hello`.
    Hello {
        /// The prompt for the client to show.
        prompt: String,
    },
    /// A part of the output, to be printed unchanged.
    Out(String),
    /// Announces a part of the binary output, which follows this line.
    Data {
        /// Number of bytes in this part.
        bytes: usize,
        /// Summary of the output so far, to print if this is the last part.
        told: String,
    },
    /// The answer to `complete`.
    Completion(Completion),
    /// The command was carried out.
    Done,
    /// The command failed, at the start or halfway. The text is the reason, in one or more lines.
    Failed(String),
    /// The server closes the connection, for this reason. The request was not started.
    Closed(String),
}

impl Reply {
    /// Escapes control characters: a hostile server must not control the terminal of the client's user.
    pub(super) fn visible(mut self) -> Reply {
        match &mut self {
            Reply::Hello { prompt: text }
            | Reply::Out(text)
            | Reply::Data { told: text, .. }
            | Reply::Failed(text)
            | Reply::Closed(text) => escape(text),
            Reply::Completion(completion) => {
                completion
                    .candidates
                    .iter_mut()
                    .for_each(|c| [&mut c.text, &mut c.help].into_iter().for_each(escape));
            }
            Reply::Done => {}
        }
        self
    }
}

fn escape(text: &mut String) {
    if let Cow::Owned(escaped) = visible(text) {
        *text = escaped;
    }
}
