//! Conversions between frame rates, bit rates and frame sizes of a link.
//!
//! Frame sizes include the frame check sequence, as in RFC 2544 section 9: the smallest Ethernet frame has 64 bytes.

use serde::{Deserialize, Serialize};

/// Bytes on the wire in addition to a frame: preamble and start delimiter (8) and the minimum gap (12).
pub const OVERHEAD_BYTES: u32 = 20;

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Bit rate in bits per second, including everything on the wire: 10e9 for 10 Gbit/s Ethernet.
    pub bits_per_second: f64,
}

impl Link {
    /// Makes a link of `gigabits` · 10⁹ bits per second.
    pub fn gigabit(gigabits: f64) -> Self {
        Link { bits_per_second: gigabits * 1e9 }
    }

    /// Returns the maximum theoretical frame rate of RFC 9004, in frames per second, for frames of `frame_bytes` (FCS
    /// included).
    pub fn max_fps(&self, frame_bytes: u32) -> f64 {
        self.bits_per_second / wire_bits(frame_bytes)
    }

    /// Returns the share of the link that `fps` frames per second of `frame_bytes` use; above 1 if they exceed its capacity.
    pub fn share(&self, fps: f64, frame_bytes: u32) -> f64 {
        fps / self.max_fps(frame_bytes)
    }

    /// Returns the maximum rate of a mix in frames per second. The mix is given as (frame bytes, weight), for example 28×64, 16×570,
    /// 4×1518. `None` if no weight is above 0.
    pub fn max_fps_of_mix(&self, mix: &[(u32, f64)]) -> Option<f64> {
        let weight: f64 = mix.iter().map(|&(_, weight)| weight).sum();
        let bits: f64 = mix.iter().map(|&(bytes, weight)| wire_bits(bytes) * weight).sum();
        (weight > 0.0).then(|| self.bits_per_second * weight / bits)
    }
}

/// Returns the bits on the wire of a frame of `frame_bytes` (FCS included).
pub fn wire_bits(frame_bytes: u32) -> f64 {
    f64::from(frame_bytes + OVERHEAD_BYTES) * 8.0
}

/// Returns the bit rate on the wire (layer 1) of `fps` frames per second of `frame_bytes`.
pub fn wire_bps(fps: f64, frame_bytes: u32) -> f64 {
    fps * wire_bits(frame_bytes)
}

/// Returns the bit rate of the frames themselves (layer 2, FCS included) at `fps` frames per second.
pub fn frame_bps(fps: f64, frame_bytes: u32) -> f64 {
    fps * f64::from(frame_bytes) * 8.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frame_rates_equal_published_values() {
        assert_eq!(Link::gigabit(10.0).max_fps(64).round(), 14_880_952.0);
        assert_eq!(Link::gigabit(1.0).max_fps(64).round(), 1_488_095.0);
        assert_eq!(Link::gigabit(10.0).max_fps(1518).round(), 812_744.0);
        assert_eq!(Link::gigabit(25.0).max_fps(1518).round(), 2_031_860.0);
    }

    #[test]
    fn a_mix_of_one_size_is_that_size() {
        let link = Link::gigabit(10.0);
        assert_eq!(link.max_fps_of_mix(&[(570, 3.0)]), Some(link.max_fps(570)));
        assert_eq!(link.max_fps_of_mix(&[]), None);
        let mean = (28.0 * 84.0 + 16.0 * 590.0 + 4.0 * 1538.0) / 48.0;
        let mix = link.max_fps_of_mix(&[(64, 28.0), (570, 16.0), (1518, 4.0)]).unwrap();
        assert!((mix - 10e9 / (mean * 8.0)).abs() < 1e-3, "{mix}");
    }

    proptest! {
        #[test]
        fn rates_and_shares_convert_both_ways(gigabits in 0.01f64..800.0, bytes in 64u32..9216, share in 0.0f64..2.0) {
            let link = Link::gigabit(gigabits);
            let fps = link.max_fps(bytes) * share;
            prop_assert!((link.share(fps, bytes) - share).abs() < 1e-9);
            prop_assert!((wire_bps(fps, bytes) - link.bits_per_second * share).abs() <= 1e-6 * link.bits_per_second);
            prop_assert!(frame_bps(fps, bytes) <= wire_bps(fps, bytes));
        }
    }
}
