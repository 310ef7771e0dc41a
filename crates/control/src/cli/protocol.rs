//! What client and server say to each other: one JSON object or string a line.
//!
//! ```text
//! > {"run":{"line":"show version","json":false,"directory":"/root"}}
//! < {"out":"volley v0.1.0\n"}
//! < "done"
//! > {"run":{"line":"show vresion","json":false,"directory":"/root"}}
//! < {"failed":"show vresion\n     ^^^^^^^\n'vresion' does not fit here\n…"}
//! > {"complete":{"line":"show ver"}}
//! < {"completion":{"from":5,"candidates":[{"text":"version","help":"…","placeholder":false}]}}
//! ```
//!
//! Each request has one answer: any number of `out`, then one of the others. Requests are answered in order. A client
//! that closes its side ends the command that runs for it.

use super::complete::Completion;
use serde::{Deserialize, Serialize};

/// How long a request may be, in bytes.
pub(super) const LONGEST_REQUEST: usize = 256 << 10;

/// From the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Request {
    /// Run a command.
    Run {
        line: String,
        /// Answer as JSON.
        #[serde(default)]
        json: bool,
        /// What relative paths in the command are relative to.
        #[serde(default)]
        directory: String,
    },
    /// Say what can stand at the end of the line.
    Complete { line: String },
}

/// From the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reply {
    /// A part of the output, to be printed as it is.
    Out(String),
    /// What was asked for by `complete`.
    Completion(Completion),
    /// The command was carried out.
    Done,
    /// The command was not carried out, or not to the end: why, in one or more lines.
    Failed(String),
}
