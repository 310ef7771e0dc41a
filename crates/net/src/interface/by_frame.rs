//! What is the same for all packets of a frame to one interface, found once a frame.
//!
//! A frame may hold packets to several interfaces in any order. Comparing each packet's interface with the one before
//! would be a branch that the CPU guesses wrong every other time; a small direct-mapped table, nearly always hit, is
//! guessed right.

/// Interfaces that have a place of their own; those with equal lower bits take turns.
const PLACES: usize = 64;

#[derive(Clone, Copy)]
struct Place<T> {
    interface: u32,
    /// The frame that the entry is of.
    frame: u64,
    value: T,
}

/// Values by interface, valid for one frame.
pub struct ByFrame<T> {
    frame: u64,
    /// One bit a place that this frame used.
    used: u64,
    places: Box<[Place<T>; PLACES]>,
}

impl<T: Copy + Default> Default for ByFrame<T> {
    fn default() -> Self {
        let empty = Place { interface: u32::MAX, frame: 0, value: T::default() };
        ByFrame { frame: 0, used: 0, places: Box::new([empty; PLACES]) }
    }
}

impl<T: Copy> ByFrame<T> {
    /// Forgets the values of the last frame.
    pub fn begin(&mut self) {
        self.frame += 1;
        self.used = 0;
    }

    /// The value of `interface`. `load` finds it the first time, and is given the value that has to make room.
    #[inline(always)]
    pub fn get(&mut self, interface: u32, load: impl FnOnce(Option<(u32, T)>) -> T) -> &mut T {
        let at = interface as usize % PLACES;
        let place = &mut self.places[at];
        if place.interface != interface || place.frame != self.frame {
            let evicted = (place.frame == self.frame).then_some((place.interface, place.value));
            *place = Place { interface, frame: self.frame, value: load(evicted) };
            self.used |= 1 << at;
        }
        &mut place.value
    }

    /// Every value of this frame that was not evicted, with its interface.
    pub fn each(&self, mut f: impl FnMut(u32, T)) {
        let mut used = self.used;
        while used != 0 {
            let place = &self.places[used.trailing_zeros() as usize];
            f(place.interface, place.value);
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
        /// Whatever the order of interfaces, counts kept by frame add up to counts kept in a plain map.
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
