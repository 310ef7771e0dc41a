//! Class A tables: one writer (the main thread), any number of readers (the workers) without locks.
//!
//! - [`published`](fn@published): one value, replaced as a whole (feature chains, configuration of a node).
//! - [`slots`](fn@slots): values by index (interfaces, adjacencies).
//! - [`words`](fn@words): 64-bit values by index, stored inline (forwarding objects).
//!
//! A value is immutable once readers can see it; a change publishes a new one and retires the old one in the
//! table's [`Domain`](crate::quiesce::Domain). The arrays reserve addresses for their whole capacity at the
//! start and take memory only as they are used. So they never move, and a read is one compare and one load.

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
