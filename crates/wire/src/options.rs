//! The options of an IPv4 header (RFC 791 section 3.1), and the updates by routers.

use std::net::Ipv4Addr;

/// Types of options.
pub mod kind {
    /// The end of the list.
    pub const END: u8 = 0;
    /// No operation; padding.
    pub const NOP: u8 = 1;
    /// Record route: every router writes its address.
    pub const RECORD_ROUTE: u8 = 7;
    /// Timestamp: every router writes the time.
    pub const TIMESTAMP: u8 = 68;
    /// Loose source and record route.
    pub const LOOSE_ROUTE: u8 = 131;
    /// Strict source and record route.
    pub const STRICT_ROUTE: u8 = 137;
    /// Router alert (RFC 2113): every router examines the packet.
    pub const ROUTER_ALERT: u8 = 148;
}

/// The copied flag of an option's type: routers copy the option into every fragment.
pub const COPIED: u8 = 0x80;
/// Length of an address or a timestamp in an option, in bytes.
const WORD: usize = 4;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// Offset of the option in the list in bytes.
    pub at: usize,
    /// Type of the option, see [`kind`].
    pub kind: u8,
    /// The whole option: type, length and data.
    pub bytes: &'a [u8],
}

/// Iterates over a list of options, up to its end or to an option with an invalid length. The error is the offset of the length byte in the
/// list. If the list ends after the type, the error is the offset of the type.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    list: &'a [u8],
    at: usize,
}

impl<'a> Options<'a> {
    /// Returns the options after the first 20 bytes of a header.
    pub fn of(list: &'a [u8]) -> Options<'a> {
        Options { list, at: 0 }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Ipv4Option<'a>, usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.list.get(at..).unwrap_or(&[]);
        let (&kind, len) = match rest {
            [] | [kind::END, ..] => return None,
            [kind @ kind::NOP, ..] => (kind, 1),
            [kind, len, ..] => (kind, usize::from(*len)),
            [kind] => (kind, 0),
        };
        let bytes = rest.get(..len).filter(|_| len >= 2 || kind == kind::NOP);
        // After an invalid length, the start of the next option is unknown.
        self.at = if bytes.is_some() { at + len } else { self.list.len() };
        Some(bytes.map(|bytes| Ipv4Option { at, kind, bytes }).ok_or((at + 1).min(self.list.len() - 1)))
    }
}

/// Writes an address into a record route option, if there is room.
///
/// # Errors
/// The offset of the faulty byte in the option: its length, or a pointer that is less than 4 or has no room for a whole address.
pub fn record_route(option: &mut [u8], address: Ipv4Addr) -> Result<(), usize> {
    let [_, _, pointer, ..] = *option else { return Err(1) };
    let Some(place) = place(option, pointer, 3, WORD)? else { return Ok(()) };
    place.copy_from_slice(&address.octets());
    option[2] = pointer + WORD as u8;
    Ok(())
}

/// Writes the time (UTC milliseconds since midnight) into a timestamp option. The option's flag determines what is written:
/// - 0: the time alone.
/// - 1: `address` and the time.
/// - 3: the time after the next address in the option, if `is_own` returns true for that address.
///
/// If there is no room, increments the overflow counter, except with flag 3.
///
/// # Errors
/// The offset of the faulty byte in the option: its length, the pointer, or the byte with the overflow counter and the flag. The pointer is
/// faulty if it is less than 5, or points to fewer bytes than are to be written. The byte with the counter and the flag is faulty if the
/// flag is unknown or the counter is full.
pub fn timestamp(
    option: &mut [u8],
    time: u32,
    address: Ipv4Addr,
    is_own: impl FnOnce(Ipv4Addr) -> bool,
) -> Result<(), usize> {
    let [_, _, pointer, overflow, ..] = *option else { return Err(1) };
    let (flag, missed) = (overflow & 15, overflow >> 4);
    let len = match flag {
        0 => WORD,
        1 | 3 => 2 * WORD,
        _ => return Err(3),
    };
    let Some(place) = place(option, pointer, 4, len)? else {
        // With prespecified addresses, a full option is no overflow.
        if flag != 3 {
            option[3] = if missed == 15 { return Err(3) } else { (missed + 1) << 4 | flag };
        }
        return Ok(());
    };
    if let Some((to, rest)) = place.split_first_chunk_mut::<WORD>()
        && !rest.is_empty()
    {
        match flag {
            1 => *to = address.octets(),
            _ if is_own(Ipv4Addr::from(*to)) => {}
            _ => return Ok(()),
        }
    }
    place[len - WORD..].copy_from_slice(&time.to_be_bytes());
    option[2] = pointer + len as u8;
    Ok(())
}

/// Returns the `len` bytes at an option's pointer, or `None` if the option is full. The pointer counts from 1.
///
/// # Errors
/// 2, which is the pointer's offset, if the bytes begin less than `first` bytes after the option's start or do not end within the option.
fn place(option: &mut [u8], pointer: u8, first: usize, len: usize) -> Result<Option<&mut [u8]>, usize> {
    let Some(at) = usize::from(pointer).checked_sub(1).filter(|&at| at >= first) else { return Err(2) };
    if at >= option.len() {
        return Ok(None);
    }
    option.get_mut(at..at + len).map(Some).ok_or(2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    #[test]
    fn a_list_is_parsed_to_its_end() {
        let list = [1, 7, 3, 4, 148, 4, 0, 0, 0, 9, 9, 9];
        let all: Vec<_> = Options::of(&list).map(|o| o.map(|o| (o.at, o.kind, o.bytes.len()))).collect();
        assert_eq!(all, [Ok((0, 1, 1)), Ok((1, 7, 3)), Ok((4, 148, 4))]);
        // No length, invalid lengths, and a length beyond the end.
        for (list, bad) in
            [(&[7][..], 0), (&[1, 1, 7], 2), (&[7, 0, 1, 1], 1), (&[1, 7, 1, 1], 2), (&[7, 5, 1, 1], 1)]
        {
            assert_eq!(Options::of(list).last(), Some(Err(bad)), "{list:?}");
        }
    }

    #[test]
    fn rfc791_a_route_is_recorded_until_the_option_is_full() {
        let mut option = [7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(record_route(&mut option, OWN), Ok(()));
        assert_eq!(option, [7, 11, 8, 10, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(record_route(&mut option, Ipv4Addr::new(1, 2, 3, 4)), Ok(()));
        assert_eq!(option, [7, 11, 12, 10, 0, 0, 1, 1, 2, 3, 4]);
        assert_eq!(record_route(&mut option, OWN), Ok(()), "a full option is valid");
        assert_eq!(option[2..7], [12, 10, 0, 0, 1]);
    }

    #[test]
    fn rfc791_a_timestamp_is_written_by_its_flag() {
        let mut alone = [68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(timestamp(&mut alone, 0x01020304, OWN, |_| false), Ok(()));
        assert_eq!(alone, [68, 12, 9, 0, 1, 2, 3, 4, 0, 0, 0, 0]);
        let mut beside = [68, 12, 5, 0x21, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(timestamp(&mut beside, 0x01020304, OWN, |_| false), Ok(()));
        assert_eq!(beside, [68, 12, 13, 0x21, 10, 0, 0, 1, 1, 2, 3, 4]);
        assert_eq!(timestamp(&mut beside, 5, OWN, |_| false), Ok(()));
        assert_eq!(beside[2..4], [13, 0x31], "one overflow");
        let mut chosen = [68, 12, 5, 3, 10, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(timestamp(&mut chosen, 0x01020304, OWN, |a| a != OWN), Ok(()));
        assert_eq!(chosen[2..], [5, 3, 10, 0, 0, 1, 0, 0, 0, 0], "the next address is another router's");
        assert_eq!(timestamp(&mut chosen, 0x01020304, OWN, |a| a == OWN), Ok(()));
        assert_eq!(chosen[2..], [13, 3, 10, 0, 0, 1, 1, 2, 3, 4]);
        assert_eq!(timestamp(&mut chosen, 5, OWN, |_| true), Ok(()));
        assert_eq!(chosen[3], 3, "full, without an overflow");
    }

    #[test]
    fn faults_are_reported_by_their_offset() {
        let record = |bytes: &[u8]| record_route(&mut bytes.to_vec(), OWN);
        assert_eq!(record(&[7, 2]), Err(1));
        assert_eq!(record(&[7, 7, 3, 0, 0, 0, 0]), Err(2));
        assert_eq!(record(&[7, 7, 0, 0, 0, 0, 0]), Err(2));
        assert_eq!(record(&[7, 7, 5, 0, 0, 0, 0]), Err(2), "room, but not for an address");
        let stamp = |bytes: &[u8]| timestamp(&mut bytes.to_vec(), 1, OWN, |_| true);
        assert_eq!(stamp(&[68, 3, 5]), Err(1));
        assert_eq!(stamp(&[68, 8, 4, 0, 0, 0, 0, 0]), Err(2));
        assert_eq!(stamp(&[68, 8, 6, 0, 0, 0, 0, 0]), Err(2));
        assert_eq!(stamp(&[68, 8, 5, 1, 0, 0, 0, 0]), Err(2), "room for the time, but not for the address");
        assert_eq!(stamp(&[68, 8, 5, 2, 0, 0, 0, 0]), Err(3));
        assert_eq!(stamp(&[68, 8, 9, 0xf0, 0, 0, 0, 0]), Err(3));
    }

    proptest! {
        /// For any bytes, the options are adjacent, and an update changes neither the type nor the length of an option.
        #[test]
        fn any_bytes_are_parsed_within_bounds(mut list in prop::collection::vec(any::<u8>(), 0..41)) {
            let mut at = 0;
            for option in Options::of(&list) {
                match option {
                    Ok(o) => {
                        prop_assert_eq!((o.at, o.bytes), (at, &list[at..at + o.bytes.len()]));
                        at += o.bytes.len();
                    }
                    Err(bad) => prop_assert!(bad == at || bad == at + 1),
                }
            }
            let before = list.clone();
            let _ = record_route(&mut list, OWN);
            prop_assert_eq!(list.get(..2), before.get(..2));
            let before = list.clone();
            let _ = timestamp(&mut list, 1, OWN, |_| true);
            prop_assert_eq!(list.get(..2), before.get(..2));
        }
    }
}
