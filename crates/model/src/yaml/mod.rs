//! Configuration files in YAML: nodes with their places, a reader that reports all faults at once, and a
//! writer of lines.

mod events;
mod json;
mod pointer;
mod read;
mod surrogates;
mod write;

pub use json::Json;
pub use pointer::pointers;
pub use read::{At, Content, Fields, MOST_FAULTS, NOT_YET, Node, Reader};
pub use surrogates::join_surrogates;
pub use write::{Text, ip, mac, quoted};
