//! Configuration files in YAML: nodes that know their places, read with all faults at once, and text that is written line by
//! line.

mod read;
mod write;

pub use read::{At, Content, Fields, MOST_FAULTS, NOT_YET, Node, Reader};
pub use write::{Text, ip, mac, quoted};
