//! Tests of the drivers from outside: what a worker sees of their queues.
//!
//! Those over real links need root or a user namespace, and are skipped where there is neither.

mod af_packet;
mod af_xdp;
mod cable;
mod lab;
mod memif;
mod pcap;
mod pktgen;
mod tap;
