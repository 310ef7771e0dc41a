//! What the tests of Volley stand on.
//!
//! * [`harness`]: bytes in → edge, bytes and counters out, for the nodes of a graph.
//! * [`process`]: programs with a time limit, whose output is kept; waiting by polling, never by sleeping.
//! * [`netns`]: a [`netns::Lab`] of network namespaces and the links between them, gone when the test is.
//! * [`rib`]: routing tables of real routers, extended to today's size.
//! * [`router`]: the `volley` binary running in one of the namespaces.
//! * [`skip`]: the report of a test that cannot run here.
#![forbid(unsafe_code)]

pub mod harness;
pub mod netns;
pub mod process;
pub mod rib;
pub mod router;
pub mod skip;
