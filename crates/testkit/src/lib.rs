//! Support library for Volley's tests.
//!
//! * [`harness`]: runs graph nodes on given packets, and returns the resulting packets, their edges and the
//!   counters.
//! * [`process`]: runs programs with a time limit and keeps their output; waits for conditions by polling
//!   instead of fixed sleeps.
//! * [`netns`]: a [`netns::Lab`] of network namespaces and links between them, removed with the test.
//! * [`rib`]: routing tables of real routers, extended to today's size.
//! * [`router`]: the `volley` binary running in a namespace.
//! * [`skip`]: reports of tests that cannot run here.
#![forbid(unsafe_code)]

pub mod harness;
pub mod netns;
pub mod process;
pub mod rib;
pub mod router;
pub mod skip;
