//! The command line: one declaration per command, for parsing, abbreviation, help and completion.
//!
//! A [`Registry`] holds the commands of the router, each declared by its syntax (see [`grammar`]) and a
//! function over the router's state.

pub mod grammar;

mod args;
mod complete;
mod error;
mod explain;
mod lex;
mod output;
mod parse;
mod pipe;
mod registry;
mod report;
mod rows;
mod table;
#[cfg(test)]
mod tests;

pub use args::{Args, FromArg, Value};
pub use complete::{Candidate, Completion, list};
pub use error::CliError;
pub use lex::{Line, Token, comment, is_comment, quote, quote_last};
pub use output::{Answer, CHUNK, Job, Output, Step};
pub use registry::{Call, Handler, Registry, Values};
pub use rows::{Merge, PAGE, Rows};
pub use table::Table;
