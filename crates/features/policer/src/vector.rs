//! Groups the packets of one vector by policer, so that each policer polices its packets together.

use buf::FRAME_SIZE;
use infra::class_a::SlotView;
use infra::counters::Lane;
use infra::prefetch;

use crate::bucket::{Color, Item, Policer, TRANSMIT};
use crate::rate::Unit;

/// Number of entries of the table that maps a policer's index to the policer's group of packets. Policers whose indexes have the
/// same lower 7 bits share an entry: if their packets alternate, a policer gets several groups.
const PLACES: usize = 128;
/// Marks the end of a list of packets: there is no next packet.
const NONE: u16 = u16::MAX;

/// A packet's size for its policer, and its color on arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of packets on the wire: more than one if the packet is still to be segmented.
    pub packets: u32,
    /// Bytes of all packets on the wire.
    pub bytes: u32,
    /// The packet's color on arrival.
    pub came: Color,
}

impl Load {
    fn tokens(self, unit: Unit) -> u32 {
        match unit {
            Unit::Kbps => self.bytes,
            Unit::Pps => self.packets,
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Place {
    /// Upper 32 bits: the number of the vector that wrote this entry. Lower 32 bits: the policer's index.
    key: u64,
    group: u16,
}

/// The packets of one policer, in order. They form a linked list through [`Vector::next`].
#[derive(Clone, Copy)]
struct Group {
    policer: u32,
    first: u16,
    last: u16,
}

/// The packets of a vector, grouped by policer. It is reused for each vector, so that memory is allocated
/// once.
pub struct Vector {
    /// The number of the current vector, in the upper 32 bits of this word. The lower 32 bits are 0.
    number: u64,
    places: [Place; PLACES],
    groups: Vec<Group>,
    next: [u16; FRAME_SIZE],
    loads: [Load; FRAME_SIZE],
    items: [Item; FRAME_SIZE],
    colors: [Color; FRAME_SIZE],
    actions: [u8; FRAME_SIZE],
}

impl Default for Vector {
    fn default() -> Vector {
        Vector {
            number: 0,
            places: [Place::default(); PLACES],
            groups: Vec::with_capacity(FRAME_SIZE),
            next: [NONE; FRAME_SIZE],
            loads: [Load::default(); FRAME_SIZE],
            items: [Item::default(); FRAME_SIZE],
            colors: [Color::Green; FRAME_SIZE],
            actions: [TRANSMIT; FRAME_SIZE],
        }
    }
}

impl Vector {
    /// Starts a new vector.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.number = self.number.wrapping_add(1 << 32);
        if self.number == 0 {
            // The numbers wrap, and old entries must not look current.
            self.places.fill(Place::default());
            self.number = 1 << 32;
        }
        self.groups.clear();
    }

    /// Adds the packet at `i`, which has no policer.
    #[inline(always)]
    pub fn pass(&mut self, i: usize) {
        self.actions[i % FRAME_SIZE] = TRANSMIT;
    }

    /// Adds the packet at `i` for the policer at `index`, and prefetches the policer. The caller adds packets
    /// in order, each once.
    #[inline(always)]
    pub fn add(&mut self, i: usize, index: u32, policer: &Policer, load: Load) {
        let i = i % FRAME_SIZE;
        self.loads[i] = load;
        self.next[i] = NONE;
        let place = &mut self.places[index as usize % PLACES];
        let key = self.number | u64::from(index);
        if place.key == key {
            if let Some(group) = self.groups.get_mut(usize::from(place.group)) {
                self.next[usize::from(group.last) % FRAME_SIZE] = i as u16;
                group.last = i as u16;
            }
            return;
        }
        prefetch::write(policer);
        // If the policer gets a second group later, that group is behind this one, and its packets are behind the packets of
        // this one.
        *place = Place { key, group: self.groups.len() as u16 };
        self.groups.push(Group { policer: index, first: i as u16, last: i as u16 });
    }

    /// Polices all packets, and counts them. `worker` and `now` are as for [`Policer::all`].
    pub fn police(
        &mut self,
        policers: &SlotView<'_, Policer>,
        counts: &mut Lane<6>,
        worker: usize,
        now: u64,
    ) {
        let Vector { groups, next, loads, items, colors, actions, .. } = self;
        if groups.len() > 1 {
            // An exchange delays later loads, so all data is prefetched before the first exchange.
            for group in &*groups {
                counts.prefetch(group.policer);
                if let Some(policer) = policers.get(group.policer) {
                    policer.prefetch();
                }
            }
        }
        for group in &mut *groups {
            // The policer may be removed by now: then all packets pass, and none counts.
            let Some(policer) = policers.get(group.policer) else {
                members(group, next, |i| actions[i] = TRANSMIT);
                group.first = NONE;
                continue;
            };
            let unit = policer.unit();
            if group.first == group.last {
                let i = usize::from(group.first) % FRAME_SIZE;
                let mut item =
                    Item { tokens: loads[i].tokens(unit), came: loads[i].came, color: Color::Green };
                policer.each(worker, now, std::slice::from_mut(&mut item));
                (colors[i], actions[i]) = (item.color, policer.action(item.color));
                continue;
            }
            let (mut n, mut tokens) = (0, 0);
            members(group, next, |i| {
                items[n] = Item { tokens: loads[i].tokens(unit), came: loads[i].came, color: Color::Green };
                tokens += u64::from(items[n].tokens);
                n += 1;
            });
            if !policer.is_aware() && policer.all(worker, now, tokens) {
                let action = policer.action(Color::Green);
                members(group, next, |i| (colors[i], actions[i]) = (Color::Green, action));
                continue;
            }
            policer.each(worker, now, &mut items[..n]);
            let mut k = 0;
            members(group, next, |i| {
                let color = items[k].color;
                k += 1;
                (colors[i], actions[i]) = (color, policer.action(color));
            });
        }
        // Counted after all exchanges: an exchange waits for earlier stores, and so for the cache lines of the counters.
        for group in &*groups {
            let mut sums = [0u64; 6];
            members(group, next, |i| {
                let color = colors[i] as usize;
                sums[2 * color] += u64::from(loads[i].packets);
                sums[2 * color + 1] += u64::from(loads[i].bytes);
            });
            counts.add(group.policer, sums);
        }
    }

    /// Returns the color of the packet at `i`; meaningless for a packet without a policer.
    #[inline(always)]
    pub fn color(&self, i: usize) -> Color {
        self.colors[i % FRAME_SIZE]
    }

    /// Returns the code of the action for the packet at `i`.
    #[inline(always)]
    pub(crate) fn action(&self, i: usize) -> u8 {
        self.actions[i % FRAME_SIZE]
    }
}

/// Calls `f` for each packet of a group, in order.
#[inline(always)]
fn members(group: &Group, next: &[u16; FRAME_SIZE], mut f: impl FnMut(usize)) {
    let mut i = group.first;
    while i != NONE {
        let at = usize::from(i) % FRAME_SIZE;
        f(at);
        i = next[at];
    }
}

#[cfg(test)]
mod tests {
    use infra::quiesce::Domain;
    use proptest::prelude::*;

    use super::*;
    use crate::rate::Params;
    use crate::table::Policers;

    proptest! {
        /// Policers whose indexes have the same entry in the table of places police exactly their own packets, in order.
        #[test]
        fn each_packet_passes_its_own_policer(
            vectors in prop::collection::vec(prop::collection::vec((0u32..40, 1u32..200), 1..FRAME_SIZE), 1..4),
        ) {
            let domain = Domain::new();
            let mut policers = Policers::new(&domain).unwrap();
            // Eight places with five policers each. The policers have different bursts, which identify them.
            let index = |k: u32| k % 8 + k / 8 * PLACES as u32;
            let burst = |k: u32| 100 + 40 * u64::from(k);
            for k in 0..40 {
                policers.add_at(index(k), Params { cir: 8, cb: burst(k), ..Params::default() }, 0).unwrap();
            }
            let (shared, mut participant) = (policers.shared(), domain.register());
            let mut lane = shared.lane(0).unwrap();
            let section = participant.enter();
            let view = shared.policers.view(section.guard());
            let mut vector = Vector::default();
            let mut left: Vec<u64> = (0..40).map(burst).collect();
            let mut counted = vec![[0u64; 2]; 40];
            // Some vectors before the numbers wrap.
            vector.number = u64::MAX << 33;
            for packets in vectors {
                vector.begin();
                for (i, (k, bytes)) in packets.iter().enumerate() {
                    let policer = view.get(index(*k)).unwrap();
                    vector.add(i, index(*k), policer, Load { packets: 1, bytes: *bytes, came: Color::Green });
                }
                vector.police(&view, &mut lane, 0, 0);
                for (i, (k, bytes)) in packets.iter().enumerate() {
                    let (k, bytes) = (*k as usize, u64::from(*bytes));
                    let passes = left[k] >= bytes;
                    prop_assert_eq!(vector.color(i) == Color::Green, passes);
                    if passes {
                        left[k] -= bytes;
                        counted[k] = [counted[k][0] + 1, counted[k][1] + bytes];
                    }
                }
            }
            for k in 0..40 {
                let green = policers.counted(index(k))[0];
                prop_assert_eq!([green.packets, green.bytes], counted[k as usize]);
            }
        }
    }
}
