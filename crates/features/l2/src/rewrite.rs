//! Rewriting of VLAN tags: which tags are removed from a frame, and which are put in front.
//!
//! An operator configures what happens to the frames received on an interface. Sent frames are rewritten the other way: the tags that were
//! put in front are removed, and the interface's own tags are put back.

use std::fmt;

use buf::{Flags, Gso, Packet};
use net::ethernet::{HEADER, TAG, Tags};
use net::setting::{Setting, Switch};
use wire::ethernet::ethertype;

/// Length of the two Ethernet addresses, in bytes. The first tag follows them.
const ADDRESSES: usize = 12;
/// Maximum number of tags that one interface removes or puts in front.
pub(crate) const MOST: usize = 2;
/// Maximum number of tags that a received and a sent frame's rewriting together put in front.
const MOST_PUSHED: usize = 2 * MOST;
/// The bits of a tag for the priority and the drop eligible indicator (IEEE 802.1Q section 9.6).
const PRIORITY: u16 = 0xf000;

/// The rewriting of received frames, as the operator configures it. The default changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Number of tags to remove, the outer ones first; at most 2.
    pop: u8,
    /// The tags to put in front then.
    push: Option<Tags>,
}

/// The forms of a rewriting: its word, the numbers of removed tags and of new ones.
const FORMS: [(&str, u8, usize); 8] = [
    ("push", 0, 1),
    ("push", 0, 2),
    ("pop 1", 1, 0),
    ("pop 2", 2, 0),
    ("translate 1-1", 1, 1),
    ("translate 1-2", 1, 2),
    ("translate 2-1", 2, 1),
    ("translate 2-2", 2, 2),
];

impl Rewrite {
    /// Returns the rewriting with this number in VPP's binary API, from 1 on, and with these new tags.
    pub(crate) fn numbered(number: u32, service: bool, tags: [u32; MOST]) -> Result<Rewrite, String> {
        let at = (number as usize).checked_sub(1).and_then(|at| FORMS.get(at));
        let (_, pop, pushed) = at.ok_or_else(|| format!("unknown rewriting {number}"))?;
        Rewrite::of(*pop, service, &tags[..*pushed])
    }

    fn of(pop: u8, service: bool, tags: &[u32]) -> Result<Rewrite, String> {
        let vlan = |tag: u32| match u16::try_from(tag) {
            Ok(vlan @ 1..=4094) => Ok(vlan),
            _ => Err(format!("invalid VLAN {tag}: expected 1 to 4094")),
        };
        let push = match tags {
            [] => None,
            [outer] => Some(Tags { outer_service: service, outer: vlan(*outer)?, inner: None }),
            [outer, inner, ..] => {
                Some(Tags { outer_service: service, outer: vlan(*outer)?, inner: Some(vlan(*inner)?) })
            }
        };
        Ok(Rewrite { pop, push })
    }

    /// Returns the rewriting with this text, in the syntax of the command.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn parse(text: &str) -> Result<Rewrite, String> {
        let expected = || {
            format!(
                "unexpected \"{text}\": expected \"pop 1\", \"pop 2\", \"push dot1q VLAN [VLAN]\", or \"translate 1-1 dot1q VLAN\" (1-2, 2-1, \
                 2-2; or dot1ad)"
            )
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let head = if words.first() == Some(&"push") { 1 } else { 2 };
        let (form, rest) = words.split_at_checked(head).ok_or_else(expected)?;
        let form = form.join(" ");
        let pushed = match rest.len() {
            0 => 0,
            1 => return Err(expected()),
            n => n - 1,
        };
        let (_, pop, _) = FORMS.into_iter().find(|f| f.0 == form && f.2 == pushed).ok_or_else(expected)?;
        let service = match rest.first() {
            None => false,
            Some(&"dot1q") => false,
            Some(&"dot1ad") => true,
            Some(_) => return Err(expected()),
        };
        let number = |tag: &&str| tag.parse().ok().filter(|n: &u32| n.to_string() == **tag);
        let tags: Option<Vec<u32>> = rest.iter().skip(1).map(number).collect();
        Rewrite::of(pop, service, &tags.ok_or_else(expected)?)
    }

    /// Returns the workers' form, for an interface with these tags.
    ///
    /// # Errors
    /// If the interface has fewer tags of its own than the rewriting removes: then the tags of sent frames are unknown.
    pub(crate) fn plans(self, own: Option<Tags>) -> Result<Plans, String> {
        let own = own.map_or_else(Vec::new, in_order);
        let needs = usize::from(self.pop);
        let back = own.get(..needs).ok_or_else(|| {
            let has = own.len();
            let whose = if has == 0 { "frames without fixed tags" } else { "frames with one tag" };
            let needs = if needs == 1 { "one VLAN tag" } else { "two VLAN tags" };
            format!("{self} needs a sub-interface whose frames have at least {needs} that are known: this interface is for {whose}")
        })?;
        let push = self.push.map_or_else(Vec::new, in_order);
        Ok(Plans { tx: Plan::new(push.len(), back.iter().copied()), rx: Plan::new(needs, push) })
    }
}

impl fmt::Display for Rewrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tags = self.push.map_or_else(Vec::new, in_order);
        let word = FORMS
            .iter()
            .find(|form| (form.1, form.2) == (self.pop, tags.len()))
            .map_or("disable", |form| form.0);
        f.write_str(word)?;
        if let Some(push) = self.push {
            f.write_str(if push.outer_service { " dot1ad" } else { " dot1q" })?;
        }
        tags.iter().try_for_each(|(_, vlan)| write!(f, " {vlan}"))
    }
}

/// Returns tags in the order of a frame, each with its type.
fn in_order(tags: Tags) -> Vec<(u16, u16)> {
    let outer = if tags.outer_service { ethertype::QINQ } else { ethertype::VLAN };
    let inner = tags.inner.map(|inner| (ethertype::VLAN, inner));
    [(outer, tags.outer)].into_iter().chain(inner).collect()
}

/// How workers rewrite the frames of an interface: those that it receives, and those that it sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plans {
    pub(crate) rx: Plan,
    pub(crate) tx: Plan,
}

impl Setting for Plans {
    type Counts = ();
    const COUNTED: &'static str = "/feature/l2-tag-rewrite";

    fn switches(&self) -> Vec<Switch> {
        Vec::new()
    }
}

/// Why a frame cannot be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It has fewer tags than are to be removed.
    FewTags,
    /// There is no room for the new tags.
    NoHeadroom,
}

/// Tags to remove, and tags to put in front then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pop: usize,
    pushed: usize,
    /// Type and VLAN of each tag to put in front.
    push: [(u16, u16); MOST_PUSHED],
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pop = match self.pop {
            0 => None,
            1 => Some("without 1 tag".to_string()),
            n => Some(format!("without {n} tags")),
        };
        let push = self.push[..self.pushed].iter().map(|(kind, vlan)| match *kind {
            ethertype::VLAN => format!("dot1q {vlan}"),
            _ => format!("dot1ad {vlan}"),
        });
        let all: Vec<String> = pop.into_iter().chain(push).collect();
        f.write_str(&all.join(", "))
    }
}

impl Plan {
    fn new(pop: usize, tags: impl IntoIterator<Item = (u16, u16)>) -> Plan {
        let (mut push, mut pushed) = ([(0, 0); MOST_PUSHED], 0);
        for (to, tag) in push.iter_mut().zip(tags) {
            *to = tag;
            pushed += 1;
        }
        Plan { pop, pushed, push }
    }

    /// True if the plan changes nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.pop == 0 && self.pushed == 0
    }

    /// Returns the plan with the effect of this one and then of `next`. Workers call this, so it allocates nothing.
    pub(crate) fn then(&self, next: &Plan) -> Plan {
        let (mine, theirs) = (&self.push[..self.pushed], &next.push[..next.pushed]);
        let left = mine.get(next.pop..).unwrap_or(&[]);
        let pop = self.pop + next.pop.saturating_sub(mine.len());
        Plan::new(pop, theirs.iter().chain(left).copied())
    }

    /// Rewrites the tags of a frame. The new tags have the priority and the drop eligible indicator of the frame's outer tag.
    ///
    /// # Errors
    /// If the frame has too few tags or too little headroom. Then nothing was changed.
    pub(crate) fn apply(&self, p: &mut Packet<'_>) -> Result<(), Fault> {
        let bytes = p.bytes();
        let Some(addresses) = bytes.first_chunk::<ADDRESSES>() else { return Err(Fault::FewTags) };
        let word = |at: usize| bytes.get(at..at + 2).map(|b| u16::from_be_bytes([b[0], b[1]]));
        let is_tag = |n: usize| {
            let at = ADDRESSES + TAG * n;
            word(at).is_some_and(ethertype::is_vlan) && bytes.len() >= at + TAG + 2
        };
        if !(0..self.pop).all(is_tag) || bytes.len() < HEADER {
            return Err(Fault::FewTags);
        }
        let priority = if is_tag(0) { word(HEADER).unwrap_or(0) & PRIORITY } else { 0 };
        let mut head = [0; ADDRESSES + TAG * MOST_PUSHED];
        let (removed, added) = (ADDRESSES + TAG * self.pop, ADDRESSES + TAG * self.pushed);
        let (to, tags) = head.split_at_mut(ADDRESSES);
        to.copy_from_slice(addresses);
        for (to, (kind, vlan)) in tags.chunks_exact_mut(TAG).zip(&self.push[..self.pushed]) {
            to[..2].copy_from_slice(&kind.to_be_bytes());
            to[2..].copy_from_slice(&(priority | vlan).to_be_bytes());
        }
        if !p.has_headroom(added.saturating_sub(removed))
            || !p.advance(removed)
            || !p.push_bytes(&head[..added])
        {
            return Err(Fault::NoHeadroom);
        }
        if p.flags().any(Flags::CSUM_PARTIAL | Flags::GSO) {
            move_offload(p, removed, added);
        }
        Ok(())
    }
}

/// Corrects the offsets of a packet's offloads, which count from the beginning of the frame.
#[cold]
fn move_offload(p: &mut Packet<'_>, removed: usize, added: usize) {
    let moved = |place: u16| (usize::from(place) + added).saturating_sub(removed) as u16;
    let cold = p.cold_mut();
    cold.csum_start = moved(cold.csum_start);
    if let Some(gso) = cold.gso() {
        cold.set_gso(Gso { header_len: moved(gso.header_len), ..gso });
    }
}

#[cfg(test)]
mod tests {
    use buf::{Held, Pool};
    use proptest::prelude::*;

    use super::*;

    /// A plain frame: the tags with their types, priorities and VLANs, and the rest.
    fn frame(tags: &[(u16, u16)]) -> Vec<u8> {
        let tags = tags.iter().flat_map(|(kind, tag)| [kind.to_be_bytes(), tag.to_be_bytes()].concat());
        (1..=12).chain(tags).chain([0x08, 0, 0x45, 7, 8, 9]).collect()
    }

    fn rewritten(plan: &Plan, bytes: &[u8]) -> Option<Vec<u8>> {
        let pool = Pool::new(16).unwrap();
        let mut cache = pool.cache();
        let mut held = Held::alloc(&mut cache).unwrap();
        let mut p = held.packet();
        assert!(p.fill(bytes));
        let done = plan.apply(&mut p).ok().map(|()| p.bytes().to_vec());
        assert!(done.is_some() || p.bytes() == bytes, "a refused frame is unchanged");
        held.free(&mut cache);
        done
    }

    fn tag() -> impl Strategy<Value = (u16, u16)> {
        // Without a priority: the second of two steps takes it from the tags that the first one leaves.
        (prop::sample::select(vec![0x8100u16, 0x88a8, 0x9100]), 0u16..0x1000)
    }

    fn rewrite() -> impl Strategy<Value = Rewrite> {
        let tags = (any::<bool>(), 1u16..4095, prop::option::of(1u16..4095));
        let tags = tags.prop_map(|(outer_service, outer, inner)| Tags { outer_service, outer, inner });
        (0u8..3, prop::option::of(tags)).prop_map(|(pop, push)| Rewrite { pop, push })
    }

    proptest! {
        /// What is received and sent again on the same interface is as it was, but for the types and VLANs of the interface's own tags.
        #[test]
        fn sent_frames_are_rewritten_the_other_way(
            rewrite in rewrite(), more in prop::collection::vec(tag(), 0..2), service: bool, vlans: [u16; 2],
        ) {
            let vlans = vlans.map(|vlan| 1 + vlan % 4094);
            let own = Tags { outer_service: service, outer: vlans[0], inner: Some(vlans[1]) };
            let plans = rewrite.plans(Some(own)).unwrap();
            let mut tags: Vec<(u16, u16)> = in_order(own);
            tags.extend(&more);
            let came = frame(&tags);
            let inside = rewritten(&plans.rx, &came).unwrap();
            let expected: Vec<(u16, u16)> =
                rewrite.push.map_or_else(Vec::new, in_order).into_iter().chain(tags[usize::from(rewrite.pop)..].iter().copied()).collect();
            prop_assert_eq!(&inside, &frame(&expected));
            prop_assert_eq!(rewritten(&plans.tx, &inside).unwrap(), came);
        }

        /// Two plans in one step have the effect of one after the other.
        #[test]
        fn plans_are_combined(
            rx in rewrite(), tx in rewrite(), tags in prop::collection::vec(tag(), 0..5), own: [u16; 2], service: bool,
        ) {
            let own = own.map(|vlan| 1 + vlan % 4094);
            let own = Tags { outer_service: service, outer: own[0], inner: Some(own[1]) };
            let (rx, tx) = (rx.plans(Some(own)).unwrap().rx, tx.plans(Some(own)).unwrap().tx);
            let came = frame(&tags);
            let steps = rewritten(&rx, &came).and_then(|inside| rewritten(&tx, &inside));
            let both = rewritten(&rx.then(&tx), &came);
            prop_assert_eq!(both, steps);
        }

        #[test]
        fn texts_are_read_as_written(rewrite in rewrite()) {
            prop_assume!(rewrite != Rewrite::default());
            prop_assert_eq!(Rewrite::parse(&rewrite.to_string()), Ok(rewrite));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(pop|push|translate|1-1|2-2|dot1q|dot1ad|[0-9]{1,5}| ){0,9}") {
            if let Ok(rewrite) = Rewrite::parse(&text) {
                prop_assert_eq!(Rewrite::parse(&rewrite.to_string()), Ok(rewrite));
            }
        }
    }

    #[test]
    fn new_tags_keep_the_priority() {
        let own = Tags { outer_service: false, outer: 5, inner: None };
        let plans = Rewrite::parse("translate 1-2 dot1ad 7 8").unwrap().plans(Some(own)).unwrap();
        let inside = rewritten(&plans.rx, &frame(&[(0x8100, 0xb005)])).unwrap();
        assert_eq!(inside, frame(&[(0x88a8, 0xb007), (0x8100, 0xb008)]));
        assert_eq!(rewritten(&plans.tx, &inside).unwrap(), frame(&[(0x8100, 0xb005)]));
        let push = Rewrite::parse("push dot1q 9").unwrap().plans(None).unwrap();
        assert_eq!(rewritten(&push.rx, &frame(&[])).unwrap(), frame(&[(0x8100, 9)]));
        assert_eq!(rewritten(&push.tx, &frame(&[])), None, "too few tags");
        assert_eq!(rewritten(&push.rx, &[1; 13]), None, "no whole header");
    }

    #[test]
    fn bad_texts_are_refused_with_the_reason() {
        for (text, why) in [
            ("pop 3", "expected \"pop 1\""),
            ("push", "expected \"pop 1\""),
            ("push dot1q", "expected \"pop 1\""),
            ("push dot1x 5", "expected \"pop 1\""),
            ("push dot1q 5000", "invalid VLAN 5000: expected 1 to 4094"),
            ("translate 1-2 dot1q 5", "expected \"pop 1\""),
            ("translate 1-1 dot1q 0", "invalid VLAN 0"),
        ] {
            let told = Rewrite::parse(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
        let one = Tags { outer_service: false, outer: 5, inner: None };
        let told = Rewrite::parse("pop 2").unwrap().plans(Some(one)).unwrap_err();
        assert!(
            told.starts_with("pop 2 needs a sub-interface whose frames have at least two VLAN tags"),
            "{told}"
        );
    }

    /// The numbers are those of VPP.
    #[test]
    fn rewritings_have_the_numbers_of_vpp() {
        let texts = [
            "push dot1q 5",
            "push dot1q 5 6",
            "pop 1",
            "pop 2",
            "translate 1-1 dot1q 5",
            "translate 1-2 dot1q 5 6",
            "translate 2-1 dot1q 5",
            "translate 2-2 dot1q 5 6",
        ];
        for (number, text) in (1..).zip(texts) {
            let rewrite = Rewrite::numbered(number, false, [5, 6]).unwrap();
            assert_eq!((rewrite.to_string().as_str(), Rewrite::parse(text)), (text, Ok(rewrite)));
            let service = Rewrite::numbered(number, true, [5, 6]).unwrap().to_string();
            assert_eq!(service, text.replace("dot1q", "dot1ad"));
        }
        assert!(
            Rewrite::numbered(9, false, [5, 6]).is_err() && Rewrite::numbered(1, false, [4095, 0]).is_err()
        );
    }

    #[test]
    fn offloads_count_from_the_new_beginning() {
        let own = Tags { outer_service: false, outer: 5, inner: None };
        let plans = Rewrite::parse("translate 1-2 dot1ad 7 8").unwrap().plans(Some(own)).unwrap();
        let pool = Pool::new(16).unwrap();
        let mut cache = pool.cache();
        let mut held = Held::alloc(&mut cache).unwrap();
        let mut p = held.packet();
        assert!(p.fill(&frame(&[(0x8100, 5)])));
        p.set_flags(Flags::CSUM_PARTIAL | Flags::GSO);
        p.cold_mut().csum_start = 38;
        p.cold_mut().set_gso(Gso { kind: buf::GsoKind::Tcp4, header_len: 58, size: 1000, ecn: false });
        let places = |p: &Packet<'_>| (p.cold().csum_start, p.cold().gso().map(|gso| gso.header_len));
        plans.rx.apply(&mut p).unwrap();
        assert_eq!(places(&p), (42, Some(62)));
        plans.tx.apply(&mut p).unwrap();
        assert_eq!(places(&p), (38, Some(58)));
        // Without room, nothing changes.
        while p.push_bytes(&[1; 4]) {}
        let before = p.bytes().to_vec();
        let push = Rewrite::parse("push dot1q 9").unwrap().plans(None).unwrap();
        assert_eq!((push.rx.apply(&mut p), p.bytes()), (Err(Fault::NoHeadroom), &before[..]));
        held.free(&mut cache);
    }
}
