//! The kernel's side of a device: sockets, network interfaces and offload metadata.

pub(crate) mod apart;
pub(crate) mod behind;
pub(crate) mod claim;
pub(crate) mod discard;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod hidden;
pub(crate) mod inotify;
pub(crate) mod lease;
pub(crate) mod mapping;
pub(crate) mod netdev;
pub(crate) mod offload;
pub(crate) mod passing;
pub(crate) mod scratch;
pub(crate) mod slow;
pub(crate) mod stream;
pub(crate) mod sys;
pub mod target;
