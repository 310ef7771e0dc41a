//! The sub-interfaces of a device, by VLAN tags.

use std::fmt;
use std::sync::Arc;

/// The VLAN tags of a sub-interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tags {
    /// True if the outer tag is a service tag (0x88a8, 802.1ad) instead of a customer tag (0x8100, 802.1Q).
    pub outer_service: bool,
    /// VLAN of the outer tag, 1–4094.
    pub outer: u16,
    /// VLAN of the inner tag (always type 0x8100), if there are two tags.
    pub inner: Option<u16>,
}

/// The frames of a device that a sub-interface receives. A frame belongs to the most specific match: first exact tags, then any inner VLAN
/// or any VLAN, then the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// Frames without a tag, and frames with only a priority tag. The device's own interface then receives none of these.
    Untagged,
    /// Frames with exactly these tags.
    Tags(Tags),
    /// Frames with exactly two tags: this outer tag, and any inner tag.
    AnyInner {
        /// The type of the outer tag, as in [`Tags`].
        outer_service: bool,
        /// The VLAN of the outer tag.
        outer: u16,
    },
    /// Frames with exactly one tag, of any VLAN.
    AnyOuter {
        /// The type of the tag, as in [`Tags`].
        outer_service: bool,
    },
    /// Frames with any tags that no other sub-interface takes.
    Default,
}

impl Match {
    /// The match that sorts first. It begins the range of a device's sub-interfaces in a sorted map.
    pub(crate) const FIRST: Match = Match::Untagged;

    /// Returns the tags, if the match is for exact tags.
    pub fn tags(self) -> Option<Tags> {
        match self {
            Match::Tags(tags) => Some(tags),
            _ => None,
        }
    }

    /// True if the router can send frames on a sub-interface with this match. It can only if the match is for untagged frames or for exact
    /// tags.
    pub fn sends(self) -> bool {
        matches!(self, Match::Untagged | Match::Tags(_))
    }

    /// Returns the VLAN IDs that a frame must have to match, the outer one first. Empty if the match is for any VLAN or for untagged
    /// frames.
    pub fn vlans(self) -> impl Iterator<Item = u16> {
        let (outer, inner) = match self {
            Match::Tags(tags) => (Some(tags.outer), tags.inner),
            Match::AnyInner { outer, .. } => (Some(outer), None),
            Match::Untagged | Match::AnyOuter { .. } | Match::Default => (None, None),
        };
        outer.into_iter().chain(inner)
    }
}

impl From<Tags> for Match {
    fn from(tags: Tags) -> Match {
        Match::Tags(tags)
    }
}

impl fmt::Display for Match {
    /// Writes the match in the syntax of the command that creates the sub-interface.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |service: bool| if service { "dot1ad" } else { "dot1q" };
        match *self {
            Match::Untagged => f.write_str("untagged"),
            Match::Tags(Tags { outer_service, outer, inner }) => {
                write!(f, "{} {outer}", word(outer_service))?;
                inner.map_or(Ok(()), |inner| write!(f, " inner-dot1q {inner}"))
            }
            Match::AnyInner { outer_service, outer } => {
                write!(f, "{} {outer} inner-dot1q any", word(outer_service))
            }
            Match::AnyOuter { outer_service } => write!(f, "{} any", word(outer_service)),
            Match::Default => f.write_str("default"),
        }
    }
}

/// Maps VLAN tags to sub-interfaces. Clones share the tables, and a change makes new tables.
#[derive(Clone, Debug, Default)]
pub struct Vlans {
    tables: Option<Arc<Tables>>,
    untagged: Option<u32>,
}

/// The tables of sub-interfaces, each sorted.
#[derive(Debug, Default)]
struct Tables {
    /// Sub-interfaces with exact tags.
    exact: Vec<(Tags, u32)>,
    /// Sub-interfaces that match more than one combination of tags. They are searched only if no sub-interface in `exact` has the frame's
    /// tags.
    wide: Vec<(Match, u32)>,
}

impl Vlans {
    /// Creates the tables from these entries. No match may occur twice.
    pub fn new(entries: impl IntoIterator<Item = (Match, u32)>) -> Vlans {
        let (mut tables, mut untagged) = (Tables::default(), None);
        for (takes, sub) in entries {
            match takes {
                Match::Untagged => untagged = Some(sub),
                Match::Tags(tags) => tables.exact.push((tags, sub)),
                wide => tables.wide.push((wide, sub)),
            }
        }
        tables.exact.sort_unstable();
        tables.wide.sort_unstable();
        let empty = tables.exact.is_empty() && tables.wide.is_empty();
        Vlans { tables: (!empty).then(|| Arc::new(tables)), untagged }
    }

    /// True if the device has no sub-interfaces.
    pub fn is_empty(&self) -> bool {
        self.tables.is_none() && self.untagged.is_none()
    }

    /// Returns the sub-interface for frames with these tags; `None` if there is none.
    pub fn get(&self, tags: Tags) -> Option<u32> {
        let tables = self.tables.as_ref()?;
        match tables.exact.binary_search_by_key(&tags, |e| e.0) {
            Ok(at) => Some(tables.exact[at].1),
            Err(_) => tables.wide(tags),
        }
    }

    /// Returns the sub-interface for untagged frames; `None` if the device's own interface receives them.
    #[inline(always)]
    pub fn untagged(&self) -> Option<u32> {
        self.untagged
    }
}

impl Tables {
    /// Returns the sub-interface with the most specific match for tags that are not in `exact`.
    fn wide(&self, Tags { outer_service, outer, inner }: Tags) -> Option<u32> {
        if self.wide.is_empty() {
            return None;
        }
        let of = |takes: Match| {
            let at = self.wide.binary_search_by_key(&takes, |e| e.0).ok()?;
            Some(self.wide[at].1)
        };
        let narrow = match inner {
            Some(_) => Match::AnyInner { outer_service, outer },
            None => Match::AnyOuter { outer_service },
        };
        of(narrow).or_else(|| of(Match::Default))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tags() -> impl Strategy<Value = Tags> {
        // Few VLANs, so that tags and matches meet.
        let vlan = || prop_oneof![8 => 1u16..4, 1 => Just(0), 1 => Just(4095)];
        (any::<bool>(), vlan(), prop::option::of(vlan())).prop_map(|(outer_service, outer, inner)| Tags {
            outer_service,
            outer,
            inner,
        })
    }

    fn one() -> impl Strategy<Value = Match> {
        prop_oneof![
            1 => Just(Match::Untagged),
            6 => tags().prop_map(Match::Tags),
            2 => tags().prop_map(|t| Match::AnyInner { outer_service: t.outer_service, outer: t.outer }),
            1 => any::<bool>().prop_map(|outer_service| Match::AnyOuter { outer_service }),
            1 => Just(Match::Default),
        ]
    }

    /// Returns how specifically `takes` matches the tags `of`: higher is more specific; `None` if they do not match.
    fn rank(takes: Match, of: Tags) -> Option<u8> {
        let (rank, matches) = match takes {
            Match::Untagged => (0, false),
            Match::Tags(tags) => (3, tags == of),
            Match::AnyInner { outer_service, outer } => {
                (2, (outer_service, outer) == (of.outer_service, of.outer) && of.inner.is_some())
            }
            Match::AnyOuter { outer_service } => (1, outer_service == of.outer_service && of.inner.is_none()),
            Match::Default => (0, true),
        };
        matches.then_some(rank)
    }

    proptest! {
        #[test]
        fn the_most_specific_match_takes_a_frame(
            matches in prop::collection::btree_set(one(), 0..12),
            asked in prop::collection::vec(tags(), 1..20),
        ) {
            // In an order that is not sorted.
            let entries: Vec<(Match, u32)> = matches.into_iter().rev().zip(1..).collect();
            let vlans = Vlans::new(entries.clone());
            for of in asked {
                let best = entries.iter().filter_map(|(takes, sub)| Some((rank(*takes, of)?, *sub))).max();
                prop_assert_eq!(vlans.get(of), best.map(|(_, sub)| sub), "{:?}", of);
            }
            let untagged = entries.iter().find(|(takes, _)| *takes == Match::Untagged).map(|(_, sub)| *sub);
            prop_assert_eq!(vlans.untagged(), untagged);
        }
    }

    #[test]
    fn matches_are_written_as_commands() {
        let tags = |outer_service, inner| Match::Tags(Tags { outer_service, outer: 5, inner });
        let all = [
            (Match::Untagged, "untagged"),
            (Match::Default, "default"),
            (Match::AnyOuter { outer_service: false }, "dot1q any"),
            (Match::AnyInner { outer_service: true, outer: 9 }, "dot1ad 9 inner-dot1q any"),
            (tags(false, None), "dot1q 5"),
            (tags(true, Some(7)), "dot1ad 5 inner-dot1q 7"),
        ];
        for (takes, text) in all {
            assert_eq!(takes.to_string(), text);
            assert!(Match::FIRST <= takes, "{text}");
            assert_eq!(takes.sends(), !text.contains("any") && takes != Match::Default);
        }
    }
}
