//! Tests of the drivers from outside, through the queues that a worker sees.
//!
//! Tests over real links need root or a user namespace, and are skipped without them.

mod af_packet;
mod af_xdp;
mod cable;
mod lab;
mod memif;
mod pcap;
mod pktgen;
mod tap;
