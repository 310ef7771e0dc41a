//! Volley: a software router. The library has the list of features, so that benchmarks and tests build the same graph
//! as the binary.

#![forbid(unsafe_code)]

pub mod features;

/// The allocator of the main thread; packets have buffers of their own. The C library's heap joins all small freed
/// pieces at the next large allocation. After some 100,000 of them, as when a hundred thousand routes are removed,
/// this takes 5 to 10 ms, in which no ARP request is answered.
#[global_allocator]
static HEAP: mimalloc::MiMalloc = mimalloc::MiMalloc;
