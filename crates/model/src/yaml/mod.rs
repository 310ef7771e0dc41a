//! Configuration files in YAML: nodes with their places, reading with all faults at once, and writing line by
//! line.

mod read;
mod write;

pub use read::{At, Content, Fields, MOST_FAULTS, NOT_YET, Node, Reader};
pub use write::{Text, ip, mac, quoted};
