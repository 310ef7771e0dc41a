//! Actions for packets, and the names of DSCPs.

use std::fmt;

/// The action for packets of one color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Drop the packet.
    Drop,
    /// Pass the packet unchanged.
    Transmit,
    /// Set this DSCP (0 to 63), if the packet is an IP packet, and pass it. ECN stays unchanged.
    Mark(u8),
}

/// The largest DSCP (RFC 2474 section 3).
pub const MAX_DSCP: u8 = 63;

/// DSCPs with a name: class selectors (RFC 2474), assured (RFC 2597) and expedited forwarding (RFC 3246).
const DSCPS: [(&str, u8); 21] = [
    ("CS0", 0),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
];

/// The keyword of [`Action::Mark`], before the DSCP.
pub(crate) const MARK: &str = "mark-and-transmit";

/// Reads a DSCP: a name in any case, or a number from 0 to 63.
///
/// # Errors
/// Returns a sentence with the valid DSCPs.
pub(crate) fn dscp(word: &str) -> Result<u8, String> {
    let named = DSCPS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, dscp)| *dscp);
    let number = || word.parse().ok().filter(|dscp| *dscp <= MAX_DSCP && !word.starts_with('+'));
    named.or_else(number).ok_or_else(|| {
        format!("unknown DSCP \"{word}\": use a number from 0 to {MAX_DSCP}, or CS0 to CS7, AF11 to AF43, EF")
    })
}

impl Action {
    /// Reads an action in the form that [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    /// Returns a sentence with the valid actions.
    pub fn parse(text: &str) -> Result<Action, String> {
        let mut words = text.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("drop"), None, _) => Ok(Action::Drop),
            (Some("transmit"), None, _) => Ok(Action::Transmit),
            (Some(MARK), Some(word), None) => dscp(word).map(Action::Mark),
            _ => Err(format!("unknown action \"{text}\": use drop, transmit, or \"{MARK} AF12\"")),
        }
    }
}

/// Writes the action as in commands: `mark-and-transmit AF12`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Drop => f.write_str("drop"),
            Action::Transmit => f.write_str("transmit"),
            Action::Mark(dscp) => match DSCPS.iter().find(|(_, number)| number == dscp) {
                Some((name, _)) => write!(f, "{MARK} {name}"),
                None => write!(f, "{MARK} {dscp}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_read_as_they_are_written() {
        let marks = (0..=MAX_DSCP).map(Action::Mark);
        for action in marks.chain([Action::Drop, Action::Transmit]) {
            assert_eq!(Action::parse(&action.to_string()), Ok(action));
        }
        assert_eq!(Action::Mark(46).to_string(), "mark-and-transmit EF");
        assert_eq!(Action::Mark(3).to_string(), "mark-and-transmit 3");
        assert_eq!(Action::parse("mark-and-transmit af12"), Ok(Action::Mark(12)));
    }

    #[test]
    fn the_error_for_an_unknown_action_lists_valid_ones() {
        for text in ["", "pass", "drop it", "transmit 1", "mark-and-transmit", "mark-and-transmit 1 2"] {
            assert_eq!(
                Action::parse(text).unwrap_err(),
                format!("unknown action \"{text}\": use drop, transmit, or \"mark-and-transmit AF12\"")
            );
        }
        for word in ["64", "-1", "+1", "AF14", "0x1"] {
            let told = Action::parse(&format!("{MARK} {word}")).unwrap_err();
            assert!(
                told.starts_with(&format!("unknown DSCP \"{word}\": use a number from 0 to 63")),
                "{told}"
            );
        }
    }

    /// AFxy is 8x + 2y (RFC 2597 section 6), CSx is 8x (RFC 2474 section 4.2.2.2).
    #[test]
    fn dscp_names_have_the_values_of_the_rfcs() {
        for (name, dscp) in DSCPS {
            let digits: Vec<u8> = name.bytes().filter(u8::is_ascii_digit).map(|c| c - b'0').collect();
            match digits.as_slice() {
                [x, y] => assert_eq!(dscp, 8 * x + 2 * y, "{name}"),
                [x] => assert_eq!(dscp, 8 * x, "{name}"),
                _ => assert_eq!((name, dscp), ("EF", 46)),
            }
        }
    }
}
