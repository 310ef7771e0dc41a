//! A cache of values by interface for one frame, so that each interface is usually looked up once per frame.
//!
//! A frame may hold packets of several interfaces in any order. A branch that compares each packet's interface with the previous one could
//! be mispredicted for every other packet. A small direct-mapped table nearly always hits, so its branch is predicted well.

/// Number of cache entries. Interfaces whose indexes have the same lower 6 bits share an entry.
const PLACES: usize = 64;

#[derive(Clone, Copy)]
struct Place<T> {
    /// The interface in the lower 32 bits and the frame's number in the upper 32 bits, so that one comparison checks both.
    key: u64,
    value: T,
}

/// Values by interface, valid for one frame.
pub struct ByFrame<T> {
    /// The number of the current frame, in the upper 32 bits.
    frame: u64,
    /// A bitmap of the entries used in this frame.
    used: u64,
    places: Box<[Place<T>; PLACES]>,
}

impl<T: Copy + Default> Default for ByFrame<T> {
    fn default() -> Self {
        let empty = Place { key: 0, value: T::default() };
        ByFrame { frame: 0, used: 0, places: Box::new([empty; PLACES]) }
    }
}

impl<T: Copy> ByFrame<T> {
    /// Starts a new frame: discards all values.
    pub fn begin(&mut self) {
        self.frame = self.frame.wrapping_add(1 << 32);
        self.used = 0;
        if self.frame == 0 {
            // The frame number wrapped around: old entries must not match it.
            self.places.iter_mut().for_each(|p| p.key = 0);
            self.frame = 1 << 32;
        }
    }

    /// Returns the cached value of `interface`. If it is not cached, calls `load` and caches the result. If this replaces the value
    /// of another interface from the same frame, `load` gets that interface and value.
    #[inline(always)]
    pub fn get(&mut self, interface: u32, load: impl FnOnce(Option<(u32, T)>) -> T) -> &mut T {
        let at = interface as usize % PLACES;
        let place = &mut self.places[at];
        let key = self.frame | u64::from(interface);
        if place.key != key {
            let evicted = (place.key >> 32 == self.frame >> 32).then_some((place.key as u32, place.value));
            *place = Place { key, value: load(evicted) };
            self.used |= 1 << at;
        }
        &mut place.value
    }

    /// Calls `f` with each interface and its value, for the values cached in this frame. Skips evicted values.
    pub fn each(&self, mut f: impl FnMut(u32, T)) {
        let mut used = self.used;
        while used != 0 {
            let place = &self.places[used.trailing_zeros() as usize];
            f(place.key as u32, place.value);
            used &= used - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// For any order of interfaces, counts kept per frame add up to those in a plain map.
        #[test]
        fn counts_add_up(frames in prop::collection::vec(prop::collection::vec(0u32..200, 0..300), 1..4)) {
            let mut by_frame = ByFrame::<u64>::default();
            for frame in frames {
                let (mut found, mut expected) = (BTreeMap::new(), BTreeMap::new());
                by_frame.begin();
                for interface in frame {
                    *expected.entry(interface).or_insert(0) += 1;
                    *by_frame.get(interface, |evicted| {
                        if let Some((i, n)) = evicted {
                            *found.entry(i).or_insert(0) += n;
                        }
                        0
                    }) += 1;
                }
                by_frame.each(|i, n| *found.entry(i).or_insert(0) += n);
                prop_assert_eq!(found, expected);
            }
        }
    }
}
