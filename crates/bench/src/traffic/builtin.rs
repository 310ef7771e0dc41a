//! Built-in traffic.

use super::describe::{Family, Field, Flow, How, Kind, Load, Mark, Traffic, Vary};

/// The names of all built-in traffic, each with a description.
pub const BUILTIN: [(&str, &str); 6] = [
    ("rfc2544", "one source and one destination, random ports (RFC 2544 appendix C, RFC 4814)"),
    ("rfc2544-256", "random destinations in 256 networks (RFC 2544 section 12)"),
    ("rfc5180", "like rfc2544, with IPv6"),
    ("rfc5180-256", "like rfc2544-256, with IPv6"),
    ("imix", "64, 570 and 1518 bytes, 28:16:4 (the mix of FD.io CSIT)"),
    (
        "slavik-2025",
        "the TRex profile of Slavík 2025 (appendix A): the sources of a /24 in ascending order, and a separate stream of 5,000 pps for latency",
    ),
];

/// Returns built-in traffic for a frame size, in bytes with frame check sequence; a mix has its own sizes. `None` if the name is unknown.
pub fn builtin(name: &str, size: usize) -> Option<Traffic> {
    let v4 = || Kind { vary: ports(), ..Kind::udp(Family::Ipv4, size) };
    let v6 = || Kind { vary: ports(), ..Kind::udp(Family::Ipv6, size) };
    let kinds = match name {
        "rfc2544" => vec![v4()],
        "rfc2544-256" => vec![networks(v4(), Field::Destination, 8)],
        "rfc5180" => vec![v6()],
        "rfc5180-256" => vec![networks(v6(), Field::DestinationNetwork, 0)],
        "imix" => [(64, 28), (570, 16), (1518, 4)].map(|(size, weight)| Kind { size, weight, ..v4() }).into(),
        "slavik-2025" => return Some(slavik(size)),
        _ => return None,
    };
    let test = Flow { name: "test".into(), load: Load::default(), mark: Mark::default(), frames: kinds };
    Some(Traffic { name: name.into(), seed: 1, flows: vec![test] })
}

/// Random ports as in RFC 4814 section 4.5: sources from 1024, destinations from 1 to 49151.
pub(super) fn ports() -> Vec<Vary> {
    let vary = |field, min, max| Vary { field, how: How::Random, min, max, step: 1 };
    vec![vary(Field::SourcePort, 1024, 65535), vary(Field::DestinationPort, 1, 49151)]
}

/// Varies an address field over 256 consecutive networks, in pseudorandom order. The lowest `bits` bits of the field are host bits.
fn networks(mut kind: Kind, field: Field, bits: u32) -> Kind {
    kind.vary.push(Vary { field, how: How::Permutation, min: 0, max: 255 << bits, step: 1 << bits });
    kind
}

/// The two streams of the TRex profile in Slavík 2025. One runs through the source addresses of a /24, from 10.0.0.1 on, as in the
/// thesis' forwarding tests. The other has 64-byte frames, and measures latency.
fn slavik(size: usize) -> Traffic {
    let ip = |a, b, c, d| Some(std::net::Ipv4Addr::new(a, b, c, d).into());
    let of = |size, port, to| Kind {
        source: ip(16, 0, 0, 1),
        destination: ip(48, 0, 0, 1),
        source_port: port,
        destination_port: to,
        ..Kind::udp(Family::Ipv4, size)
    };
    // The last source is 10.0.0.254.
    let sources = Vary { field: Field::Source, how: How::Increment, min: 0, max: 253, step: 1 };
    let heavy = Kind { source: ip(10, 0, 0, 1), vary: vec![sources], ..of(size, 1025, 12) };
    let flow = |name: &str, load, mark, kind| Flow { name: name.into(), load, mark, frames: vec![kind] };
    let flows = vec![
        flow("heavy", Load::Share(1.0), Mark::Flood, heavy),
        flow("latency", Load::Fps(5_000.0), Mark::Stamped, of(64, 1234, 1234)),
    ];
    Traffic { name: "slavik-2025".into(), seed: 1, flows }
}
