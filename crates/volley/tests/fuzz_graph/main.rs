//! The whole graph under arbitrary packets, changes and times: nothing panics, no buffer is lost, what is sent is
//! well-formed, and counters agree. The same scripts run under libFuzzer (`fuzz/`); here there are as many as a test
//! has time for, always the same.

mod link;
mod packet;
mod run;
mod script;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::catch_unwind;

use infra::hash::mix64;

/// Scripts in a test run if `$VOLLEY_FUZZ_SCRIPTS` does not say how many, and bytes of the longest.
const SCRIPTS: u64 = 250;
const LONGEST: u64 = 6000;

/// A script made from a number.
fn script(seed: u64) -> Vec<u8> {
    let len = mix64(seed << 32) % LONGEST;
    (0..len).map(|i| mix64(seed << 32 | (i + 1)) as u8).collect()
}

fn fails(script: &[u8]) -> bool {
    catch_unwind(|| run::run(script, false)).is_err()
}

/// Leaves out what is not needed for a script to fail.
fn shorten(mut script: Vec<u8>) -> Vec<u8> {
    let mut chunk = script.len() / 2;
    while chunk > 0 {
        let mut at = 0;
        while at < script.len() {
            let mut shorter = script.clone();
            shorter.drain(at..(at + chunk).min(script.len()));
            if fails(&shorter) {
                script = shorter;
            } else {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    script
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}

/// The script in `$VOLLEY_FUZZ`, for who looks for the cause of a failure.
fn from_environment() -> Option<Vec<u8>> {
    let text = std::env::var("VOLLEY_FUZZ").ok()?;
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    Some((0..text.len()).step_by(2).map_while(byte).collect())
}

/// Finds out why a script fails, and panics.
fn explain(seed: u64, bytes: Vec<u8>) -> ! {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let short = shorten(bytes);
    std::panic::set_hook(hook);
    eprintln!("script {seed} fails, and so does VOLLEY_FUZZ={}", hex(&short));
    run::run(&short, true);
    panic!("the short script fails only without traces");
}

#[test]
fn scripts_do_no_harm() {
    if let Some(script) = from_environment() {
        run::run(&script, true);
        // Not skipped: the script was run.
        return;
    }
    let scripts = std::env::var("VOLLEY_FUZZ_SCRIPTS").ok().and_then(|n| n.parse().ok()).unwrap_or(SCRIPTS);
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..scripts {
        let bytes = script(seed);
        match catch_unwind(|| run::run(&bytes, false)) {
            Ok(nodes) => nodes.into_iter().for_each(|(node, n)| *seen.entry(node).or_default() += n),
            Err(_) => explain(seed, bytes),
        }
    }
    // The devices here are none of the drivers', though they come in by the node of one; every other had something to do.
    seen.retain(|node, n| *n == 0 && !drivers::INPUT_NODES.contains(node));
    assert!(seen.is_empty(), "no packet came to {seen:?}");
}
