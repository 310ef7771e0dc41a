//! The whole graph under scripts that libFuzzer makes up. The harness is that of the test `fuzz_graph`, where a script
//! that fails is looked into: `VOLLEY_FUZZ=<its bytes in hex> cargo test -p volley --test fuzz_graph`.
//!
//! `cargo +nightly fuzz run graph -- -len_control=0 -max_len=6000 -rss_limit_mb=4096`: short scripts do little.
#![no_main]

#[path = "../../crates/volley/tests/fuzz_graph/link.rs"]
mod link;
#[path = "../../crates/volley/tests/fuzz_graph/packet.rs"]
mod packet;
#[path = "../../crates/volley/tests/fuzz_graph/run.rs"]
mod run;
#[path = "../../crates/volley/tests/fuzz_graph/script.rs"]
mod script;
#[path = "../../crates/volley/tests/fuzz_graph/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    run::run(data, false);
});
