//! The entries of the MAC table: their keys and values as words.

use wire::Mac;

/// One more than the maximum number of bridge domains: index 0 is no domain.
pub(crate) const DOMAINS: u32 = 1 << 14;
/// Number of interface indexes that an entry can have.
const PORTS: u64 = 1 << 24;

/// The bits of the address in a key of the MAC table.
pub(crate) const ADDRESS: u64 = (1 << 48) - 1;

/// By how many seconds the clocks of workers may differ.
const AHEAD: u16 = 60;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Learned from a received frame.
    Learned = 1,
    /// Configured. It has no age, and the station cannot move.
    Static = 2,
    /// Configured: frames from and to this address are dropped.
    Filter = 3,
}

/// Where a station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub kind: Kind,
    /// The interface that leads to the station.
    pub port: u32,
    /// The [epoch] in which the entry was learned.
    pub epoch: u16,
    /// When the station was last heard, in seconds of the monotonic clock, modulo 2^16.
    pub seen: u16,
}

/// Joins the epochs of a domain and of a port. If one of them changes, entries learned before are void.
pub(crate) const fn epoch(domain: u8, port: u8) -> u16 {
    (domain as u16) << 8 | port as u16
}

/// Returns the key of an address in the domain with this index, which is below [`DOMAINS`].
#[inline(always)]
pub(crate) fn key(domain: u32, mac: u64) -> u64 {
    u64::from(domain) << 48 | mac
}

/// Returns the domain's index and the address of a key.
pub(crate) fn split(key: u64) -> (u32, Mac) {
    let [mac @ .., _, _] = key.to_le_bytes();
    ((key >> 48) as u32, Mac(mac))
}

/// Returns an address as a number, in which the first byte is the lowest.
#[inline(always)]
pub(crate) fn number(mac: Mac) -> u64 {
    of_word(mac.to_word())
}

/// Returns the number of the address in a word of [`Mac::to_word`].
#[inline(always)]
pub(crate) fn of_word(word: u64) -> u64 {
    word >> 16
}

/// True if the address is one of a group: its first byte is odd.
#[inline(always)]
pub(crate) fn is_group(mac: u64) -> bool {
    mac & 1 != 0
}

/// True for the addresses that bridges do not forward (IEEE 802.1Q section 8.6.3): 01:80:c2:00:00:00 to :0f.
#[inline(always)]
pub(crate) fn is_reserved(mac: u64) -> bool {
    mac & !(0xf << 40) == 0xc2_8001
}

impl Place {
    /// Returns the entry's value. It is not 0.
    #[inline(always)]
    pub(crate) fn word(self) -> u64 {
        let port = u64::from(self.port) % PORTS;
        port << 40 | (self.kind as u64) << 32 | u64::from(self.epoch) << 16 | u64::from(self.seen)
    }

    /// Returns the place in an entry's value.
    #[inline(always)]
    pub(crate) fn of(word: u64) -> Place {
        let kind = match word >> 32 & 0xff {
            2 => Kind::Static,
            3 => Kind::Filter,
            _ => Kind::Learned,
        };
        Place { kind, port: (word >> 40) as u32, epoch: (word >> 16) as u16, seen: word as u16 }
    }

    /// True if the entry is void at `now`: it was learned in another epoch, or the station was not heard for `age` seconds. 0 is no limit.
    #[inline(always)]
    pub(crate) fn is_void(self, epoch: u16, age: u16, now: u16) -> bool {
        self.kind == Kind::Learned && (self.epoch != epoch || age != 0 && self.idle(now) >= age)
    }

    /// Returns for how many seconds the station was not heard. Another worker's clock may be ahead: then 0.
    #[inline(always)]
    pub(crate) fn idle(self, now: u16) -> u16 {
        let idle = now.wrapping_sub(self.seen);
        if idle > u16::MAX - AHEAD { 0 } else { idle }
    }
}

/// Returns the time for [`Place::seen`].
#[inline(always)]
pub(crate) fn second(now: u64) -> u16 {
    (now / 1_000_000_000) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_keep_what_they_are_made_of(
            kind in prop::sample::select(vec![Kind::Learned, Kind::Static, Kind::Filter]),
            (port, epoch, seen) in (0..1u32 << 24, any::<u16>(), any::<u16>()),
            (domain, mac) in (1..DOMAINS, any::<[u8; 6]>()),
        ) {
            let place = Place { kind, port, epoch, seen };
            prop_assert_ne!(place.word(), 0);
            prop_assert_eq!(Place::of(place.word()), place);
            let key = key(domain, number(Mac(mac)));
            prop_assert_eq!(split(key), (domain, Mac(mac)));
            prop_assert!(key != 0 && key < 1 << 62);
            prop_assert_eq!(is_group(number(Mac(mac))), mac[0] & 1 == 1);
        }
    }

    #[test]
    fn entries_age_to_the_second() {
        let place = Place { kind: Kind::Learned, port: 1, epoch: epoch(2, 3), seen: 65_530 };
        let void = |age, now| place.is_void(epoch(2, 3), age, now);
        assert!(!void(0, 1_000) && !void(60, 53) && void(60, 54));
        // Other workers are in the next second already.
        assert!(!void(60, 65_529) && !void(1, 65_500) && void(1, 65_531) && place.idle(65_529) == 0);
        assert!(place.is_void(epoch(2, 4), 0, 65_530) && place.is_void(epoch(1, 3), 0, 65_530));
        assert!(!Place { kind: Kind::Static, ..place }.is_void(0, 1, 0));
        let reserved = |bytes| is_reserved(number(Mac(bytes)));
        assert!(reserved([1, 0x80, 0xc2, 0, 0, 0]) && reserved([1, 0x80, 0xc2, 0, 0, 0xf]));
        assert!(!reserved([1, 0x80, 0xc2, 0, 0, 0x10]) && !reserved([1, 0x80, 0xc3, 0, 0, 0]));
    }
}
