//! The command line. Parsing, abbreviation, help and completion follow from one declaration per command.
//!
//! A [`Registry`] holds the commands of the router. Each is declared by its syntax (see [`grammar`]) and a
//! function that gets the router's state.

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
mod role;
mod rows;
mod table;
#[cfg(test)]
mod tests;

pub use args::{Args, FromArg, Value};
pub use complete::{Candidate, Completion, list};
pub use error::CliError;
pub use lex::{Line, Token, comment, is_comment, quote, quote_last, quote_typed};
pub use output::{Answer, CHUNK, Job, Output, Step};
pub use registry::{Call, Declared, Handler, Registry, Values};
pub use role::Role;
pub use rows::{Merge, PAGE, Rows};
pub use table::Table;
