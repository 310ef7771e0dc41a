//! Class B tables: any thread inserts, for example a worker that learns an address.
//!
//! Lookups take no locks. An insert takes one of several short locks, which depend on the key, and never waits long for it: the worker must
//! forward packets, and the next packet can insert the key as well. The values are atomic words: any thread changes them in place. One owner
//! removes entries, and makes the table larger in small steps while the others use it.

mod array;
mod map;

pub use map::{Entry, Inserted, Map, Owner, View, map};

#[cfg(all(test, not(feature = "loom")))]
mod tests;
