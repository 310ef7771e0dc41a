//! Buffers, packet records and frames: the form of a packet inside Volley.
//!
//! A **buffer** ([`layout`]) is 2,624 bytes of the [`arena`]: room for a driver, a cold header, feature fields, headroom, data. A larger
//! packet is a chain of buffers, which some names in the code call segments. A [`Pool`] allocates buffers through a [`Cache`] for each
//! thread. The data that every node reads and writes for every packet is not in the buffer but in a 32-byte [`record`]. Up to 256 records
//! make a [`Frame`], the unit of work of nodes. A [`Packet`] is the cursor over one record and its buffer. A [`Held`] is one packet taken
//! out of a frame. [`queue`] has the two traits that a driver implements.
//!
//! # Why safe code cannot break this
//!
//! A record identifies its buffer by index. Only a pool makes indexes, only this crate writes them, records
//! are never copied, and buffers are never unmapped while an index to them exists. So a record is the unique
//! owner of its head buffer, and the setters keep `offset` and `length` within the buffer. All unsafe code in
//! this crate relies on these three sentences.

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
mod window;

pub use feature::{FeatureField, FeatureFields, Field};
pub use frame::{FRAME_SIZE, Frame};
pub use layout::{Cold, Gso, GsoKind};
pub use lent::Lent;
pub use lent_in_order::LentInOrder;
pub use link::LinkHeader;
pub use packet::{Header, Held, Packet};
pub use pool::{Cache, Part, Pool, PoolStats, Tally};
pub use queue::{Gone, Lost, RxQueue, TxCaps, TxQueue, Unsent};
pub use record::{Flags, NO_INTERFACE, Snapshot};
pub use window::Window;

#[cfg(test)]
mod tests;
