//! Memory that does not move: address ranges that are filled with huge pages, and zeroed arrays of which only
//! the used parts take memory.
//!
//! Under miri, which supports neither `mmap` of files nor fixed addresses, both kinds use the allocator.
//! Under loom, whose atomics are not plain words, zeroed arrays are built element by element.

mod allowance;
mod promise;
mod reserve;
mod room;
mod trial;
mod zeroed;

pub use allowance::{Allowance, Watch};
pub use promise::{Account, Promise};
pub use reserve::{PageSize, Reserve, Segment};
pub use room::Room;
pub use zeroed::{Pages, SharedZeroed, ZeroValid, Zeroed};

/// Size and alignment of a huge page, in bytes.
pub const HUGE: usize = 2 << 20;
/// Size of a page that is not huge, in bytes.
pub const SMALL: usize = 4096;

/// Returns an error whose text says that the kernel has refused `bytes` bytes of `what`.
fn refused(what: &str, bytes: usize, error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(
        error.kind(),
        format!("the kernel refused {} KiB of {what}: {error}", bytes.div_ceil(1024)),
    )
}
