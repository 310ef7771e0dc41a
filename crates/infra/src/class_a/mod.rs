//! Class A tables have one writer (the main thread), and any number of readers (the workers) that take no
//! locks.
//!
//! - [`published`](fn@published): one value, which the writer replaces as a whole (feature chains,
//!   configuration of a node).
//! - [`slots`](fn@slots): values by index (interfaces, adjacencies).
//! - [`words`](fn@words): 64-bit values by index, stored inline (forwarding objects).
//!
//! A value does not change once readers can see it: the writer publishes a new value, and retires the old one
//! in the table's [`Domain`](crate::quiesce::Domain). The arrays reserve addresses for their whole capacity
//! at the start, but take memory only for the parts in use. So they never move, and a read is one compare and
//! one load.

mod indices;
mod published;
mod slab;
mod slots;
mod words;

pub use indices::Full;
pub(crate) use indices::Indices;
pub use published::{Reader, Writer, published};
pub use slots::{SlotReader, SlotView, SlotWriter, slots};
pub use words::{WordReader, WordWriter, words};
