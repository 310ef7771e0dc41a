//! VPP's binary API as its clients see it: definitions of messages, their encoding, their checksums, and the table of a program's messages.
//!
//! This crate does no input or output. A module of messages is defined once, by [`define!`], beside the code that serves it. The encoding,
//! the checksums in the messages' names and the JSON definitions for clients follow from the definition.

#![forbid(unsafe_code)]

mod code;
pub mod crc;
mod define;
pub mod given;
pub mod json;
pub mod shape;
pub mod table;
pub mod types;
pub mod value;
pub mod wire;

pub use code::Code;
pub use define::{Done, Dump, Get, Message, Request};
pub use table::{Caller, DONE, Table, all};

#[cfg(test)]
mod tests;
