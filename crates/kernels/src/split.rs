//! Splits a frame: each packet has a code of one byte, and packets with the same code move to the same
//! frames.

use buf::frame::raw;
use buf::{FRAME_SIZE, Frame};

use crate::Kernels;

/// Number of words of a mask with one bit for each packet.
const WORDS: usize = FRAME_SIZE / 64;

/// One code for each packet.
pub type CodeBytes = [u8; FRAME_SIZE];

/// One bit for each packet.
pub type Mask = [u64; WORDS];

/// Returns the mask of the positions whose code is `code`, including positions without a packet.
///
/// # Safety
/// The CPU supports the level for which the function is compiled.
pub(crate) type EqualFn = unsafe fn(codes: &CodeBytes, code: u8) -> Mask;

/// Copies the records in `mask` to `to`, in order.
///
/// # Safety
/// The CPU supports the level for which the function is compiled; every record in the mask is valid; `to` has room for them and
/// overlaps none of them.
pub(crate) type PickFn = unsafe fn(from: *const [u8; raw::RECORD], mask: &Mask, to: *mut [u8; raw::RECORD]);

/// The codes of the packets of a frame.
#[repr(C, align(64))]
pub struct Codes(pub CodeBytes);

impl Default for Codes {
    fn default() -> Self {
        Codes([0; FRAME_SIZE])
    }
}

/// Provides the frames that receive the packets of a split.
pub trait Target {
    /// Calls `fill` with a frame for the `count` packets whose code is `code`. The frame must have room for all of them. If `fill` is not
    /// called, the buffers of these packets are never freed.
    fn with(&mut self, code: u8, count: usize, fill: impl FnOnce(&mut Frame));
}

impl Codes {
    /// Moves all packets out of `from`. For each different code, in order of first appearance, the packets
    /// move to a frame requested from `target`. Packets with the same code keep their order.
    ///
    /// # Panics
    /// If a frame of `target` is too small for the packets.
    pub fn split(&self, kernels: &Kernels, from: &mut Frame, target: &mut impl Target) {
        let n = from.len();
        let facts = raw::take(from);
        let mut left: Mask = std::array::from_fn(|w| match n.saturating_sub(w * 64) {
            64.. => u64::MAX,
            valid => (1 << valid) - 1,
        });
        // The first packet left determines the next code.
        while let Some(w) = left.iter().position(|&m| m != 0) {
            let code = self.0[w * 64 + left[w].trailing_zeros() as usize];
            // SAFETY: the table was chosen for this CPU.
            let mut mask = unsafe { (kernels.equal)(&self.0, code) };
            let mut count = 0;
            for (m, l) in mask.iter_mut().zip(&mut left) {
                *m &= *l;
                *l &= !*m;
                count += m.count_ones() as usize;
            }
            target.with(code, count, |to| {
                let at = to.len();
                assert!(to.room() >= count, "the target's frame is too small for the packets of the split");
                // SAFETY: the mask contains records of `from` that were valid when it was emptied, each for
                // the first time; `to` is another frame (both are borrowed uniquely) with room for `count`
                // records after its own.
                unsafe {
                    (kernels.pick)(raw::records(from), &mask, raw::records(to).add(at));
                    raw::moved(to, at + count, facts);
                }
            });
            // A target that does not call `fill` leaks the packets, which is safe.
        }
    }
}

/// The plain version of [`EqualFn`], with which tests compare the other versions.
pub(crate) fn equal_v2(codes: &CodeBytes, code: u8) -> Mask {
    std::array::from_fn(|w| (0..64).map(|b| u64::from(codes[w * 64 + b] == code) << b).sum())
}

/// The plain version of [`PickFn`].
///
/// # Safety
/// As for [`PickFn`].
#[inline(always)]
pub(crate) unsafe fn pick_v2(from: *const [u8; raw::RECORD], mask: &Mask, mut to: *mut [u8; raw::RECORD]) {
    for (w, &word) in mask.iter().enumerate() {
        let mut m = word;
        while m != 0 {
            // SAFETY: the caller guarantees every record in the mask, and the room.
            unsafe {
                std::ptr::copy_nonoverlapping(from.add(w * 64 + m.trailing_zeros() as usize), to, 1);
                to = to.add(1);
            }
            m &= m - 1;
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use std::arch::x86_64::*;

    use super::*;

    /// [`EqualFn`] for CPUs with AVX2.
    ///
    /// # Safety
    /// The CPU has AVX2.
    #[target_feature(enable = "avx2")]
    pub(crate) unsafe fn equal_v3(codes: &CodeBytes, code: u8) -> Mask {
        let wanted = _mm256_set1_epi8(code as i8);
        // SAFETY: the eight loads cover the 256 bytes of the array.
        let half = |i: usize| unsafe {
            let bytes = _mm256_loadu_si256(codes.as_ptr().add(i * 32).cast());
            u64::from(_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, wanted)) as u32)
        };
        [half(0) | half(1) << 32, half(2) | half(3) << 32, half(4) | half(5) << 32, half(6) | half(7) << 32]
    }

    /// [`EqualFn`] for CPUs with AVX-512.
    ///
    /// # Safety
    /// The CPU has AVX-512BW, AVX-512VL, BMI1 and BMI2.
    #[target_feature(enable = "avx512bw,avx512vl,bmi1,bmi2")]
    pub(crate) unsafe fn equal_v4(codes: &CodeBytes, code: u8) -> Mask {
        let wanted = _mm512_set1_epi8(code as i8);
        // SAFETY: the four loads cover the 256 bytes of the array.
        let word = |i: usize| unsafe {
            _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(codes.as_ptr().add(i * 64).cast()), wanted)
        };
        [word(0), word(1), word(2), word(3)]
    }

    /// As `pick_v2`, compiled to copy each record with one 32-byte register, and to find the bits of the mask
    /// with BMI instructions.
    ///
    /// # Safety
    /// As for [`PickFn`]; the CPU has AVX2, BMI1 and BMI2.
    #[target_feature(enable = "avx2,bmi1,bmi2")]
    pub(crate) unsafe fn pick_v3(from: *const [u8; raw::RECORD], mask: &Mask, to: *mut [u8; raw::RECORD]) {
        // SAFETY: the same contract.
        unsafe { pick_v2(from, mask, to) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use buf::Pool;
    use infra::cpu::Level;
    use proptest::prelude::*;
    use testkit::skip::skipped;

    use super::*;

    /// Collects the packets of each code in separate frames.
    struct Collect(BTreeMap<u8, Vec<Frame>>);

    impl Target for Collect {
        fn with(&mut self, code: u8, count: usize, fill: impl FnOnce(&mut Frame)) {
            let frames = self.0.entry(code).or_default();
            if frames.last().is_none_or(|f| f.room() < count) {
                frames.push(Frame::new());
            }
            if let Some(f) = frames.last_mut() {
                fill(f);
            }
        }
    }

    /// Each level of this CPU has a separate table, and the best of them is the default.
    #[test]
    fn each_level_of_the_cpu_has_its_table() {
        for level in [Level::V2, Level::V3, Level::V4] {
            let table = crate::at_most(level);
            assert_eq!(table.level, level.min(infra::cpu::level()));
            let own = level == Level::V2 || level > infra::cpu::level() || {
                let lower = if level == Level::V4 { Level::V3 } else { Level::V2 };
                !std::ptr::fn_addr_eq(table.equal, crate::at_most(lower).equal)
            };
            assert!(own, "{level:?} runs the routines of a lower level");
            if level > infra::cpu::level() {
                skipped(&format!("the routines of {level:?} need a CPU with this level"));
            }
        }
        assert_eq!(crate::best().level, infra::cpu::level());
        #[cfg(target_arch = "x86_64")]
        assert_eq!(infra::cpu::level() == Level::V4, is_x86_feature_detected!("avx512bw"));
    }

    /// If a target panics midway, each packet has one owner or none.
    #[test]
    fn a_panic_midway_frees_nothing_twice() -> std::io::Result<()> {
        struct Fails(Frame);
        impl Target for Fails {
            fn with(&mut self, code: u8, _: usize, fill: impl FnOnce(&mut Frame)) {
                assert!(code != 1, "midway");
                fill(&mut self.0);
            }
        }
        let pool = Pool::new(64)?;
        let (mut cache, mut frame) = (pool.cache(), Frame::new());
        assert_eq!(frame.alloc(&mut cache, 32), 32);
        let mut codes = Codes::default();
        codes.0[16..].fill(1);
        let mut target = Fails(Frame::new());
        let split = std::panic::AssertUnwindSafe(|| codes.split(crate::best(), &mut frame, &mut target));
        assert!(std::panic::catch_unwind(split).is_err());
        assert_eq!((frame.len(), target.0.len()), (0, 16));
        target.0.free(&mut cache);
        cache.publish();
        assert_eq!((pool.stats().used, pool.stats().lost), (16, 0));
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        /// Every level moves each packet like a plain loop over the codes, in order, and loses none.
        #[test]
        fn split_agrees_with_a_plain_loop(codes in prop::collection::vec(0u8..12, 0..=256), wide in any::<bool>()) {
            let pool = Pool::new(512)?;
            for level in [Level::V2, Level::V3, Level::V4] {
                let mut cache = pool.cache();
                let mut frame = Frame::new();
                prop_assert_eq!(frame.alloc(&mut cache, codes.len()), codes.len());
                let mut all = Codes::default();
                let mut expected: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
                for (i, mut p) in frame.packets().enumerate() {
                    let code = if wide { codes[i].wrapping_mul(97) } else { codes[i] };
                    all.0[i] = code;
                    p.set_fwd(i as u32);
                    expected.entry(code).or_default().push(i as u32);
                }
                let mut out = Collect(BTreeMap::new());
                all.split(crate::at_most(level), &mut frame, &mut out);
                prop_assert!(frame.is_empty());
                let found: BTreeMap<u8, Vec<u32>> = out.0.iter_mut()
                    .map(|(c, fs)| (*c, fs.iter_mut().flat_map(|f| f.packets().map(|p| p.fwd()).collect::<Vec<_>>()).collect()))
                    .collect();
                prop_assert_eq!(found, expected);
                out.0.values_mut().flatten().for_each(|f| f.free(&mut cache));
                drop(cache);
                prop_assert_eq!(pool.stats().used, 0);
            }
        }

        /// The masks of all levels agree for any bytes.
        #[test]
        fn equal_agrees(codes in prop::collection::vec(any::<u8>(), 256), code in any::<u8>()) {
            let codes: CodeBytes = codes.try_into().unwrap_or([0; FRAME_SIZE]);
            for level in [Level::V3, Level::V4] {
                // SAFETY: `at_most` returns only levels that this CPU has.
                let mask = unsafe { (crate::at_most(level).equal)(&codes, code) };
                prop_assert_eq!(mask, equal_v2(&codes, code));
            }
        }
    }
}
