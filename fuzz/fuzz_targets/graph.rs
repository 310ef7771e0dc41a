//! The whole graph under scripts that libFuzzer makes up. The harness is that of the test `fuzz_graph`, where a script
//! that fails is looked into: `VOLLEY_FUZZ=<its bytes in hex> cargo test -p volley --test fuzz_graph`.
//!
//! `cargo +nightly fuzz run graph -- -len_control=0 -max_len=6000 -rss_limit_mb=4096`: short scripts do little.
//!
//! A world runs `$VOLLEY_FUZZ_LIFE` scripts before there is a new one. With 1, a script that fails fails by itself, and there are
//! a quarter as many a second.
#![no_main]

#[path = "../../crates/volley/tests/fuzz_graph/link.rs"]
mod link;
#[path = "../../crates/volley/tests/fuzz_graph/packet.rs"]
mod packet;
#[path = "../../crates/volley/tests/fuzz_graph/question.rs"]
mod question;
#[path = "../../crates/volley/tests/fuzz_graph/run.rs"]
mod run;
#[path = "../../crates/volley/tests/fuzz_graph/script.rs"]
mod script;
#[path = "../../crates/volley/tests/fuzz_graph/state.rs"]
mod state;
#[path = "../../crates/volley/tests/fuzz_graph/track.rs"]
mod track;
#[path = "../../crates/volley/tests/fuzz_graph/world.rs"]
mod world;

use std::cell::RefCell;

thread_local! {
    static WORLDS: RefCell<run::Worlds> = RefCell::new(run::Worlds::new(life()));
}

fn life() -> usize {
    std::env::var("VOLLEY_FUZZ_LIFE").ok().and_then(|n| n.parse().ok()).unwrap_or(run::LIFE)
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    WORLDS.with_borrow_mut(|worlds| drop(worlds.run(data, false)));
});
