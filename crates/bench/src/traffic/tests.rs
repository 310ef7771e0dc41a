//! Tests that frames match the description.

use std::collections::BTreeSet;

use buf::{Frame, Pool};
use proptest::prelude::*;
use wire::checksum::Sum;
use wire::{Mac, PseudoHeader};

use super::*;
use crate::engine::sender::{Mode, Sender};
use crate::engine::stamp::Place;

fn ends() -> Ends {
    Ends::rfc(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]), false)
}

/// Returns the first `n` frames of the first flow.
fn frames(traffic: &Traffic, n: usize) -> Result<Vec<Vec<u8>>, Box<dyn std::error::Error>> {
    let pool = Pool::new(512)?;
    let (mut cache, mut frame) = (pool.cache(), Frame::new());
    let flow = traffic.flows(&ends())?.swap_remove(0);
    let mut sender = Sender::new(&flow.templates, Mode::Stamped, traffic.seed, 1, 0)?;
    let mut all = Vec::new();
    while all.len() < n {
        sender.fill(&mut frame, &mut cache, 64, 0);
        all.extend(frame.packets().map(|p| p.bytes().to_vec()));
        frame.free(&mut cache);
    }
    all.truncate(n);
    Ok(all)
}

/// True if the checksums of a frame are right; for frames without extension headers and IPv4 options.
fn is_good(frame: &[u8], vlan: bool) -> bool {
    let ip = &frame[if vlan { 18 } else { 14 }..];
    let is_v4 = ip[0] >> 4 == 4;
    let (protocol, l4) = if is_v4 { (ip[9], &ip[20..]) } else { (ip[6], &ip[40..]) };
    let len = l4.len() as u32;
    let pseudo = match (is_v4, protocol) {
        (true, 1) => Some(Sum::ZERO),
        (true, _) => wire::Ipv4Header::split(ip).map(|(h, _)| h.pseudo_header(protocol, len)),
        (false, _) => wire::Ipv6Header::split(ip).map(|(h, _)| h.pseudo_header(protocol, len)),
    };
    let Some(pseudo) = pseudo else { return false };
    (!is_v4 || Sum::of(&ip[..20]).is_valid()) && pseudo.plus(Sum::of(l4)).is_valid()
}

fn kinds() -> impl Strategy<Value = Kind> {
    let family = prop_oneof![Just(Family::Ipv4), Just(Family::Ipv6)];
    let protocol = prop_oneof![Just(Protocol::Udp), Just(Protocol::Tcp), Just(Protocol::Icmp)];
    let vlan = prop_oneof![Just(None), (1u16..=4094).prop_map(Some)];
    let field = prop::sample::select(vec![
        Field::SourceMac,
        Field::DestinationMac,
        Field::Source,
        Field::Destination,
        Field::SourcePort,
        Field::DestinationPort,
    ]);
    let how = prop_oneof![Just(How::Increment), Just(How::Random), Just(How::Permutation)];
    let vary = (field, how, 1u64..1000, 0u64..100).prop_map(|(field, how, min, more)| Vary {
        field,
        how,
        min,
        max: min + more,
        step: 1,
    });
    let vary = prop::collection::vec(vary, 0..3).prop_map(|mut all| {
        let mut seen = BTreeSet::new();
        all.retain(|v| seen.insert(v.field as u8));
        all
    });
    (family, protocol, vlan, vary, 0usize..200).prop_map(|(family, protocol, vlan, vary, more)| {
        let kind = Kind { protocol, vlan, vary, ..Kind::udp(family, 0) };
        let least = kind.least_size(&ends()).unwrap_or(0);
        Kind { size: least + more, ..kind }
    })
}

proptest! {
    /// Whatever fields vary, each frame has its size, room for the tester's stamp, and right checksums.
    #[test]
    fn frames_are_valid_with_any_varying_fields(kind in kinds()) {
        let flow = Flow { name: "test".into(), load: Load::default(), mark: Mark::Stamped, frames: vec![kind.clone()] };
        let traffic = Traffic { name: "any".into(), seed: 3, flows: vec![flow] };
        for frame in frames(&traffic, 20).map_err(|e| TestCaseError::fail(e.to_string()))? {
            prop_assert_eq!(frame.len() + 4, kind.size);
            prop_assert!(Place::find(&frame).is_some());
            prop_assert!(is_good(&frame, kind.vlan.is_some()), "{:02x?}", frame);
        }
    }
}

#[test]
fn each_rfc2544_network_occurs_once_in_256_frames() -> Result<(), Box<dyn std::error::Error>> {
    for (name, at) in [("rfc2544-256", 14 + 16..14 + 20), ("rfc5180-256", 14 + 24..14 + 32)] {
        let traffic = builtin(name, 84).ok_or("built in")?;
        let frames = frames(&traffic, 256)?;
        let networks: BTreeSet<_> = frames.iter().map(|f| f[at.clone()].to_vec()).collect();
        assert_eq!(networks.len(), 256, "{name}");
        let sorted = frames.windows(2).all(|w| w[0][at.clone()] < w[1][at.clone()]);
        assert!(!sorted, "{name}: they come in order");
    }
    Ok(())
}

#[test]
fn the_mix_of_csit_has_its_proportions() -> Result<(), Box<dyn std::error::Error>> {
    let traffic = builtin("imix", 0).ok_or("built in")?;
    let frames = frames(&traffic, 48)?;
    let count = |size: usize| frames.iter().filter(|f| f.len() + 4 == size).count();
    assert_eq!([64, 570, 1518].map(count), [28, 16, 4]);
    Ok(())
}

#[test]
fn the_profile_of_the_thesis_counts_sources_up() -> Result<(), Box<dyn std::error::Error>> {
    let traffic = builtin("slavik-2025", 512).ok_or("built in")?;
    let sources: Vec<_> = frames(&traffic, 300)?.iter().map(|f| f[26..30].to_vec()).collect();
    assert_eq!((sources[0].as_slice(), sources[299].as_slice()), (&[10, 0, 0, 1][..], &[10, 0, 0, 46][..]));
    let flows = traffic.flows(&ends())?;
    assert_eq!(flows[1].rate, crate::engine::run::Rate::Fixed(5000.0));
    assert_eq!(flows[1].templates[0].bytes.len(), 60);
    Ok(())
}

#[test]
fn all_built_in_traffic_can_be_sent() -> Result<(), Box<dyn std::error::Error>> {
    for (name, _) in BUILTIN {
        for size in [84, 1518] {
            let traffic = builtin(name, size).ok_or(name)?;
            assert!(!frames(&traffic, 10)?.is_empty(), "{name}");
        }
    }
    assert_eq!(builtin("rfc2455", 64), None);
    Ok(())
}

#[test]
fn invalid_frames_are_refused_with_their_place() {
    let kind = Kind::udp(Family::Ipv4, 64);
    let vary = |field, min, max| vec![Vary { field, how: How::Random, min, max, step: 1 }];
    let cases = [
        (
            Kind { size: 63, ..kind.clone() },
            "frames 1: frame size 63 is out of range: this kind of frame has 64 to 2116 bytes",
        ),
        (Kind { family: Family::Ipv6, ..kind.clone() }, "this kind of frame has 84 to 2116 bytes"),
        (Kind { protocol: Protocol::Tcp, ..kind.clone() }, "this kind of frame has 76 to 2116 bytes"),
        (Kind { vlan: Some(4095), ..kind.clone() }, "a VLAN number must be from 1 to 4094, is 4095"),
        (Kind { weight: 0, ..kind.clone() }, "weight is 0"),
        (
            Kind { source: Some([0u16; 8].into()), ..kind.clone() },
            ":: is not an address of the frame's family",
        ),
        (Kind { vary: vary(Field::Vlan, 1, 2), ..kind.clone() }, "vary 1: this kind of frame has no VLAN"),
        (
            Kind { vary: vary(Field::SourcePort, 1, 65536), ..kind.clone() },
            "1 to 65536 is not a range that fits in 2 bytes",
        ),
        (Kind { vary: vary(Field::SourcePort, 2, 1), ..kind.clone() }, "2 to 1 is not a range"),
        (Kind { vary: vary(Field::SourceNetwork, 1, 2), ..kind.clone() }, "no upper 64 bits"),
    ];
    for (kind, why) in cases {
        let flow = Flow { name: "f".into(), load: Load::default(), mark: Mark::Stamped, frames: vec![kind] };
        let traffic = Traffic { name: "t".into(), seed: 1, flows: vec![flow.clone()] };
        let said = traffic.flows(&ends()).map_or_else(|e| e.to_string(), |_| "nothing".into());
        assert!(said.contains(why) && said.starts_with("flows 1 (f): frames 1: "), "{said}, not {why}");
        let none = Traffic { flows: vec![Flow { load: Load::Share(0.0), ..flow }], ..traffic };
        assert!(none.flows(&ends()).is_err_and(|e| e.to_string().contains("flows 1 (f): load: a share")));
    }
}
