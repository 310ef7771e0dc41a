//! The command line's I/O: the server socket, the client (`volley ctl`), and command files.
//!
//! The commands are in a [`Registry`]. The server runs them one slice at a time, between the router's other work.

pub mod client;

mod door;
mod editor;
mod listen;
mod lock;
mod names;
mod pace;
mod programs;
mod protocol;
mod relay;
mod repeated;
mod screen;
mod script;
mod server;
mod session;
mod sessions;
mod turns;

pub(crate) use door::RECOVERY;
pub(crate) use listen::roots;
pub use listen::{Listener, Packets, Use};
pub use model::cli::{
    Answer, Args, Call, Candidate, CliError, FromArg, Handler, Job, Merge, Output, PAGE, Registry, Role,
    Rows, Step, Table, Values, grammar, quote, quote_last,
};
pub(crate) use programs::{Arrival, Programs, serve_programs};
pub use script::{check_commands, exec, run_file, run_job};
pub use server::{Service, serve};
pub(crate) use session::{Seat, State, Stream};
pub use sessions::{Client, Connected, Entrance, Sessions};
pub(crate) use sessions::{Guest, Running};
pub use turns::Turns;
pub(crate) use turns::{Hold, Share, Turn};
