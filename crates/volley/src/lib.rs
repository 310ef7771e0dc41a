//! Volley: a software router. The library has the list of features, so that benchmarks and tests build the same graph
//! as the binary.

#![forbid(unsafe_code)]

pub mod features;

/// The allocator of all threads, used in place of the C library's. (Packets have buffers of their own.) The C library's heap
/// joins all small freed pieces at the next large allocation. With about 100,000 freed pieces, for example after 100,000 routes
/// were removed, this takes 5 to 10 ms. In this time, the main thread answers no ARP request.
#[global_allocator]
static HEAP: mimalloc::MiMalloc = mimalloc::MiMalloc;
