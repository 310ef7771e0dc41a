//! Volley: a software router. The library holds the list of features, so that benchmarks and tests build the very graph
//! that the binary runs.

#![forbid(unsafe_code)]

pub mod features;

/// What is allocated is so by the main thread: packets have buffers of their own. The C library's heap puts small pieces that are
/// freed aside, and joins them all when a large one is asked for the next time: after some 100,000 of them, as when a hundred
/// thousand routes went, for 5 to 10 ms, in which no ARP request is answered.
#[global_allocator]
static HEAP: mimalloc::MiMalloc = mimalloc::MiMalloc;
