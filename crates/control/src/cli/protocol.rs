//! What client and server say to each other: one JSON object or string a line.
//!
//! ```text
//! > "hello"
//! < {"hello":{"prompt":"volley# "}}
//! > {"run":{"line":"show version","json":false,"directory":"/root"}}
//! < {"out":"volley v0.1.0\n"}
//! < "done"
//! > {"run":{"line":"show vresion","json":false,"directory":"/root"}}
//! < {"failed":"show vresion\n     ^^^^^^^\n'vresion' does not fit here\n…"}
//! > {"complete":{"line":"show ver"}}
//! < {"completion":{"from":5,"candidates":[{"text":"version","help":"…","placeholder":false}]}}
//! ```
//!
//! Each request has one answer: any number of `out` and `data`, then one of the others. Behind the line of a `data` come as many bytes as
//! it says, which need be no text; only who asks for it by `"binary":true` gets any. Requests are answered in order, also
//! those that came before the client closed its side. A client that is gone ends the command that runs for it: when
//! something is to be sent to it, or when its side is closed and the command has had nothing to say for ten seconds. `closed` may come instead of any answer, or before a request:
//! the request is not begun, and the server closes the connection.
//!
//! Whoever says something first that does not begin like a request (with `{` or `"`) is taken for a person with `nc` or
//! `telnet`: there is a prompt, each line is a command, and answers are plain text. `quit` closes the connection. What was
//! said before the client closes its side is still answered. Whoever says nothing for two seconds is shown the prompt, too;
//! a program that says its first request later than that is answered as a program, behind the line with the prompt. So
//! programs say hello as soon as they are connected.

use model::cli::Completion;
use serde::{Deserialize, Serialize};

/// How long a request may be, in bytes.
pub(super) const LONGEST_REQUEST: usize = 256 << 10;

/// From the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Request {
    /// Says that the client speaks this language.
    Hello,
    /// Run a command.
    Run {
        line: String,
        /// Answer as JSON.
        #[serde(default)]
        json: bool,
        /// What relative paths in the command are relative to.
        #[serde(default)]
        directory: String,
        /// Whether the client takes `data`.
        #[serde(default)]
        binary: bool,
    },
    /// Say what can stand at the end of the line.
    Complete { line: String },
}

/// From the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reply {
    /// The answer to `hello`.
    Hello {
        /// What a client shows where a command can be typed.
        prompt: String,
    },
    /// A part of the output, to be printed as it is.
    Out(String),
    /// A part of the output that is no text follows.
    Data {
        /// How many bytes.
        bytes: usize,
        /// What there is to say of the whole if no more comes.
        told: String,
    },
    /// What was asked for by `complete`.
    Completion(Completion),
    /// The command was carried out.
    Done,
    /// The command was not carried out, or not to the end: why, in one or more lines.
    Failed(String),
    /// The server closes the connection: why. The request was not begun.
    Closed(String),
}
