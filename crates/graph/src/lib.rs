//! The graph: nodes, the edges between them, and the worker that runs frames of packets through the graph. This crate has no code for any
//! network protocol.
//!
//! A node is a struct and one trait impl in one file ([`node`]). Its edges and reasons are enums ([`edge`]). A [`Builder`] collects nodes,
//! arcs and features, resolves every name, and builds a [`Blueprint`]. Each [`Worker`] has its own nodes, made from the blueprint.
//! [`worker`] runs the nodes: read [`Worker::turn`] first.
#![forbid(unsafe_code)]

pub mod arc;
mod books;
pub mod build;
mod builtin;
pub mod edge;
mod entry;
mod erased;
pub mod handoff;
mod info;
mod main_thread;
pub mod node;
mod pending;
pub mod police;
mod rank;
mod resolve;
pub mod rest;
mod rings;
pub mod run;
pub mod stats;
pub mod trace;
mod ways;
pub mod worker;

pub use arc::{ArcControl, ArcError, ArcKey, CONTINUE};
pub use build::{Blueprint, Builder, GraphError, Missing};
pub use builtin::{DROPPED, INJECT, PUNT};
pub use edge::{
    EdgeId, Edges, Extended, MoreReasons, NoNext, NoReason, NodeId, ReasonInfo, Reasons, Severity, Verdict,
};
pub use info::NodeInfo;
pub use main_thread::{MainReason, MainThread};
pub use node::{Cx, FrameNode, InputNode, More, Out, PacketNode, Setup, WaitSet};
pub use rest::{Eager, RxMode};
pub use rings::{Inject, PuntInfo, PuntReason, Punted};
pub use run::{Runner, WorkerPort};
pub use worker::Worker;

#[cfg(all(test, feature = "loom"))]
mod loom_tests;
#[cfg(all(test, not(feature = "loom")))]
mod tests;
