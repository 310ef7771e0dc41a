//! Runs scripts of libFuzzer against the whole graph, with the harness of the test `fuzz_graph`. To debug a failing script:
//! `VOLLEY_FUZZ=<its bytes in hex> cargo test -p volley --test fuzz_graph`.
//!
//! Run `cargo +nightly fuzz run graph -- -len_control=0 -max_len=6000 -rss_limit_mb=4096`, as short scripts test little.
//!
//! A world runs `$VOLLEY_FUZZ_LIFE` scripts before a new world is made. With 1, a failing script fails independently of
//! earlier ones, but only a quarter as many scripts run in a second.
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
#[path = "../../crates/volley/tests/fuzz_graph/sent.rs"]
mod sent;
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
