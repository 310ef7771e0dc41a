//! Configuration files in YAML: nodes with their places, a reader that reports all faults at once, and a
//! writer of lines.

mod json;
mod read;
mod write;

pub use json::Json;
pub use read::{At, Content, Fields, MOST_FAULTS, NOT_YET, Node, Reader};
pub use write::{Text, ip, mac, quoted};
