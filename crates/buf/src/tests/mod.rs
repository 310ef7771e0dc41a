//! Property tests of buffers, packets and frames against plain models.

mod feature;
mod frame;
mod lent;
mod lent_in_order;
mod link;
mod packet;
mod pool;

use proptest::prelude::ProptestConfig;

use crate::{Cache, Held};

/// Returns the configuration for `n` cases of a property; few under miri, which takes a second for a
/// millisecond of normal execution.
fn cases(n: u32) -> ProptestConfig {
    ProptestConfig::with_cases(if cfg!(miri) { 2 } else { n })
}

/// Returns the maximum number of steps of a case: `n`, or few under miri.
fn steps(n: usize) -> usize {
    if cfg!(miri) { 2 + n / 20 } else { n }
}

/// Returns a packet of these bytes in as many buffers as necessary; `None` if buffers run out.
fn packet_of(bytes: &[u8], cache: &mut Cache) -> Option<Held> {
    let mut held = Held::alloc(cache)?;
    if held.packet().fill_chained(bytes, cache) {
        Some(held)
    } else {
        held.free(cache);
        None
    }
}

/// All bytes of a packet.
fn bytes_of(held: &mut Held) -> Vec<u8> {
    held.packet().segments().collect::<Vec<_>>().concat()
}

/// Bytes that differ between packets.
fn pattern(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (seed.wrapping_mul(2_654_435_761).wrapping_add(i * 97) >> 7) as u8).collect()
}
