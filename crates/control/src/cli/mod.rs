//! The command line: one declaration a command, from which parsing, abbreviation, help and completion follow; the
//! socket that serves it, and the client that talks to the socket.
//!
//! A [`Registry`] holds the commands of the router, each declared by its syntax (see [`grammar`]) and a function
//! over the router's state. The server runs them one slice at a time between the router's other work.

pub mod client;
pub mod grammar;

mod args;
mod complete;
mod editor;
mod error;
mod explain;
mod lex;
mod listen;
mod output;
mod parse;
mod protocol;
mod registry;
mod relay;
mod report;
mod rows;
mod script;
mod server;
mod session;
mod table;
#[cfg(test)]
mod tests;

pub use args::{Args, FromArg};
pub use complete::Candidate;
pub use error::CliError;
pub(crate) use lex::{quote, quote_last};
pub use listen::Listener;
pub use output::{Answer, Job, Output, Step};
pub use registry::{Call, Handler, Registry, Values};
pub use rows::{Merge, PAGE, Rows};
pub use script::{check_commands, run_file, run_job};
pub use server::{Service, serve};
pub use table::Table;
