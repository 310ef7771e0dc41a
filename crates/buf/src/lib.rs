//! Buffers, packet records and frames: what a packet is while it is inside Volley.
//!
//! A **buffer** ([`layout`]) is 2,624 bytes of the one [`arena`]: room for a driver, a cold header, feature
//! fields, headroom, data. A [`Pool`] hands buffers out through a [`Cache`] per thread. What every node reads and
//! writes for every packet is not in the buffer but in a 32-byte [`record`], and up to 256 records make a
//! [`Frame`], which is what nodes are given. A [`Packet`] is the cursor over one record and its buffer; a [`Held`]
//! is one packet taken out of a frame. [`queue`] has the two traits that a driver implements.
//!
//! # Why safe code cannot break this
//!
//! A record names its buffer by index. Only a pool makes indexes, only this crate writes them, records are never
//! copied, and buffers are never unmapped while an index to them exists. So a record is a unique owner of its head
//! buffer, and `offset` and `length` are kept within the buffer by the setters. Everything unsafe in this crate
//! rests on these three sentences.

pub mod arena;
pub mod bpf;
mod depot;
pub mod feature;
pub mod frame;
pub mod layout;
pub mod lent;
pub mod lent_in_order;
mod link;
pub mod packet;
pub mod pool;
pub mod queue;
pub mod record;

pub use feature::{FeatureField, FeatureFields, Field};
pub use frame::{FRAME_SIZE, Frame, Held};
pub use layout::{Cold, Gso, GsoKind};
pub use lent::{Lent, Window};
pub use lent_in_order::LentInOrder;
pub use link::LinkHeader;
pub use packet::{Header, Packet};
pub use pool::{Cache, Part, Pool, PoolStats, Tally};
pub use queue::{Gone, Lost, RxQueue, TxCaps, TxQueue, Unsent};
pub use record::{Flags, NO_INTERFACE, Snapshot};

#[cfg(test)]
mod tests;
