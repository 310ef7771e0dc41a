//! Tests of the generator, which builds packets from stream descriptions, and of the sink, which counts and keeps
//! them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use buf::{Cache, Frame, Gso, GsoKind, Pool};
use drivers::Device;
use drivers::pktgen::{self, Config, Field, Mode, Sizes, Stream, Template};
use proptest::prelude::*;
use wire::Mac;
use wire::builder::PacketBuilder;
use wire::checksum::Sum;

fn cache() -> Cache {
    Pool::new(2048).unwrap().cache()
}

fn poll(device: &mut Device, cache: &mut Cache) -> Vec<Vec<u8>> {
    let mut frame = Frame::new();
    device.rx[0].poll(&mut frame, cache).unwrap();
    let bytes = frame.packets().map(|p| p.bytes().to_vec()).collect();
    frame.free(cache);
    bytes
}

/// Runs one stream for `polls` polls.
fn run(stream: Stream, polls: usize) -> Vec<Vec<u8>> {
    let (mut device, generator, _) = pktgen::open(&Config::default());
    generator.add(stream).unwrap();
    assert!(generator.set_enabled(None, true));
    let mut cache = cache();
    (0..polls).flat_map(|_| poll(&mut device, &mut cache)).collect()
}

fn udp(len: usize) -> Vec<u8> {
    PacketBuilder::ipv4([10, 0, 0, 1].into(), [10, 0, 1, 1].into())
        .ethernet(wire::Mac([2, 0, 0, 0, 0, 1]), wire::Mac([2, 0, 0, 0, 0, 2]))
        .udp(1234, 80)
        .payload(&vec![0; len - 42])
        .build()
}

fn number(packet: &[u8], at: usize, width: usize) -> u64 {
    packet[at..at + width].iter().fold(0, |n, &b| n << 8 | u64::from(b))
}

fn field(offset: usize, width: usize, mode: Mode) -> Field {
    Field { offset, width, mode, ip4_checksum: false }
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        (0..200u64, 0..50u64, 1..20u64).prop_map(|(min, more, step)| Mode::Increment {
            min,
            max: min + more,
            step
        }),
        (0..200u64, 0..50u64).prop_map(|(min, more)| Mode::Random { min, max: min + more }),
        prop::collection::vec(0..256u64, 1..20).prop_map(|all| Mode::List(all.into())),
    ]
}

proptest! {
    /// Every packet equals its template except in the fields and the checksum. The fields' values follow a simple
    /// reference rule, and the checksum is correct.
    #[test]
    fn packets_equal_their_template_except_for_the_fields(
        // Identification and DSCP; source; destination at an odd offset; a port outside the header.
        modes in [mode(), mode(), mode(), mode()], widths in [1..=3usize, 1..=8, 1..=3, 1..=8], seed: u64,
    ) {
        let template = udp(100);
        let offsets = [15, 18, 31, 46];
        let widths = [widths[0], widths[1].min(6), widths[2], widths[3]];
        let mut fields: Vec<_> = (0..4).map(|i| field(offsets[i], widths[i], modes[i].clone())).collect();
        for f in &mut fields[..3] {
            f.ip4_checksum = true;
        }
        let description = Template { fields: fields.clone(), ..Template::fixed(template.clone()) };
        let packets =
            run(Stream { templates: vec![description], vector: 64, seed, ..Stream::default() }, 2);
        prop_assert_eq!(packets.len(), 128);
        // The next value of an incrementing field, or the next index in a list.
        let mut expected = fields.iter().map(|f| match f.mode {
            Mode::Increment { min, .. } => min,
            _ => 0,
        }).collect::<Vec<_>>();
        for packet in &packets {
            prop_assert!(Sum::of(&packet[14..34]).is_valid());
            let mut rest = packet.clone();
            for (f, expected) in fields.iter().zip(&mut expected) {
                let value = number(packet, f.offset, f.width);
                match &f.mode {
                    Mode::Increment { min, max, step } => {
                        prop_assert_eq!(value, *expected);
                        *expected = if *expected + step > *max { *min } else { *expected + step };
                    }
                    Mode::Random { min, max } => prop_assert!((*min..=*max).contains(&value)),
                    Mode::List(all) => {
                        prop_assert_eq!(value, all[*expected as usize % all.len()]);
                        *expected += 1;
                    }
                    Mode::Size { .. } => unreachable!("not generated"),
                }
                rest[f.offset..][..f.width].copy_from_slice(&template[f.offset..][..f.width]);
            }
            rest[24..26].copy_from_slice(&template[24..26]);
            prop_assert_eq!(&rest, &template);
        }
    }

    /// The generator refuses a description with an error, or builds the described number of packets, with valid lengths and checksums.
    #[test]
    fn invalid_streams_are_refused(
        offset in 0..70usize, width in 0..10usize, min: u64, max: u64, step in 0..3u64, least in 0..80usize,
        most in 0..2200usize, ip4_checksum: bool, kind in 0..4, vector in 0..300usize,
    ) {
        let mode = match kind {
            0 => Mode::Increment { min, max, step },
            1 => Mode::Random { min, max },
            2 => Mode::List([min, max].into_iter().take(step as usize).collect()),
            _ => Mode::Size { less: offset },
        };
        let fields = vec![Field { offset, width, mode, ip4_checksum }];
        let templates = vec![Template { size: least..=most, fields, ..Template::fixed(udp(60)) }];
        let stream = Stream { templates, vector, ..Stream::default() };
        let (mut device, generator, _) = pktgen::open(&Config::default());
        if generator.add(stream).is_ok() {
            generator.set_enabled(None, true);
            let packets = poll(&mut device, &mut cache());
            prop_assert_eq!(packets.len(), vector);
            for p in packets {
                prop_assert!((least..=most).contains(&p.len()));
                prop_assert!(!ip4_checksum || Sum::of(&p[14..34]).is_valid());
            }
        }
    }
}

#[test]
fn errors_name_the_invalid_field() {
    let (_, generator, _) = pktgen::open(&Config::default());
    let refused = |fields: Vec<Field>| {
        let templates = vec![Template::fixed(udp(60)), Template { fields, ..Template::fixed(udp(60)) }];
        generator.add(Stream { name: "s".into(), templates, ..Stream::default() }).unwrap_err().to_string()
    };
    let random = || Mode::Random { min: 0, max: 1 };
    assert_eq!(
        refused(vec![field(58, 4, random())]),
        "stream s, template 1: field 0: it ends at byte 62, beyond the shortest packet (60 bytes)"
    );
    assert_eq!(
        refused(vec![field(30, 4, random()), field(28, 4, random())]),
        "stream s, template 1: field 1: it overlaps field 0"
    );
    assert!(
        refused(vec![Field { ip4_checksum: true, ..field(34, 2, random()) }])
            .contains("not in bytes 15 to 33")
    );
    assert!(
        refused(vec![Field { ip4_checksum: true, ..field(25, 1, random()) }])
            .contains("overlaps the IPv4 checksum")
    );
    assert!(refused(vec![field(30, 1, Mode::Random { min: 0, max: 256 })]).contains("0 to 256"));
    assert!(refused(vec![field(30, 1, Mode::List([1, 256].into()))]).contains("value 1 of the list"));
    assert!(refused(vec![field(30, 1, Mode::List([].into()))]).contains("has no value"));
    assert!(generator.add(Stream::default()).unwrap_err().to_string().contains("no template"));
}

#[test]
fn a_mix_follows_its_weights_and_its_seed() {
    let sizes = |seed| {
        let template = |size: usize, weight| Template { weight, ..Template::fixed(udp(size)) };
        let templates = vec![template(64, 7), template(576, 4), template(1500, 1)];
        let packets = run(Stream { templates, seed, ..Stream::default() }, 100);
        packets.into_iter().map(|p| p.len()).collect::<Vec<_>>()
    };
    let one = sizes(1);
    let mut counts = BTreeMap::new();
    for size in &one {
        *counts.entry(size).or_insert(0usize) += 1;
    }
    let of = |size: usize| counts[&size] as f64 / one.len() as f64 * 12.0;
    assert!(
        (6.7..7.3).contains(&of(64)) && (3.7..4.3).contains(&of(576)) && (0.85..1.15).contains(&of(1500))
    );
    assert!(one == sizes(1) && one != sizes(2));
}

#[test]
fn lengths_follow_the_size() {
    let fields = vec![
        Field { ip4_checksum: true, ..field(16, 2, Mode::Size { less: 14 }) },
        field(38, 2, Mode::Size { less: 34 }),
    ];
    let template = Template { size: 60..=1514, fields, ..Template::fixed(udp(60)) };
    let packets = run(Stream { templates: vec![template], ..Stream::default() }, 40);
    for p in &packets {
        assert_eq!((number(p, 16, 2), number(p, 38, 2)), (p.len() as u64 - 14, p.len() as u64 - 34));
        assert!(Sum::of(&p[14..34]).is_valid());
    }
    let (least, most) = (packets.iter().map(Vec::len).min(), packets.iter().map(Vec::len).max());
    assert!(least < Some(70) && most > Some(1500), "{least:?} {most:?}");
}

#[test]
fn increasing_sizes_follow_each_other() {
    let template = Template { size: 60..=63, sizes: Sizes::Increasing, ..Template::fixed(udp(60)) };
    let packets = run(Stream { templates: vec![template], vector: 5, ..Stream::default() }, 2);
    let sizes: Vec<_> = packets.iter().map(Vec::len).collect();
    assert_eq!(sizes, [60, 61, 62, 63, 60, 61, 62, 63, 60, 61]);
}

#[test]
fn checksums_of_transport_headers_are_computed() {
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 1, 1));
    let ip = || PacketBuilder::ipv4(a, b).ethernet(Mac([2; 6]), Mac([4; 6]));
    let mtu = 1514;
    for (builder, header, pseudo) in [
        (ip().udp(1, 2), 8, true),
        (ip().tcp(1, 2, 3, 4, wire::tcp::Flags::SYN), 20, true),
        (ip().echo_request(1, 2), 8, false),
    ] {
        let payload: Vec<u8> = (0..mtu - 34 - header).map(|i| i as u8).collect();
        let bytes = builder.payload(&payload).build();
        let varies = Mode::Random { min: 0x0a00_0000, max: 0x0aff_ffff };
        let mut fields = vec![
            Field { ip4_checksum: true, ..field(16, 2, Mode::Size { less: 14 }) },
            Field { ip4_checksum: true, ..field(30, 4, varies) },
        ];
        if bytes[23] == 17 {
            fields.push(field(38, 2, Mode::Size { less: 34 }));
        }
        let template =
            Template { size: 34 + header..=mtu, fields, l4_checksum: true, ..Template::fixed(bytes) };
        for p in run(Stream { templates: vec![template], ..Stream::default() }, 4) {
            let mut sum = Sum::of(&p[34..]);
            if pseudo {
                let len = (p.len() - 34) as u16;
                sum = sum.plus(Sum::of(&p[26..34])).plus(Sum::of_u16(p[23].into())).plus(Sum::of_u16(len));
            }
            assert!(sum.is_valid() && Sum::of(&p[14..34]).is_valid(), "{p:02x?}");
        }
    }
    let (_, generator, _) = pktgen::open(&Config::default());
    let template = Template { l4_checksum: true, ..Template::fixed(vec![0; 60]) };
    let refused = generator.add(Stream { templates: vec![template], ..Stream::default() }).unwrap_err();
    assert!(refused.to_string().contains("template 0: cannot compute the checksum"), "{refused}");
    let fields = vec![field(41, 1, Mode::Random { min: 0, max: 9 })];
    let template = Template { l4_checksum: true, fields, ..Template::fixed(udp(60)) };
    let refused = generator.add(Stream { templates: vec![template], ..Stream::default() }).unwrap_err();
    assert!(refused.to_string().contains("field 0: it overlaps the computed checksum"), "{refused}");
}

/// For packets of one size, the checksum is computed from a constant part and the fields. A field may lie anywhere,
/// even across the border of the covered bytes.
#[test]
fn checksums_of_transport_headers_follow_fields_anywhere() {
    let (a, b) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 1, 1));
    let ip = || PacketBuilder::ipv4(a, b).ethernet(Mac([2; 6]), Mac([4; 6]));
    for (builder, checksum, pseudo) in [
        (ip().udp(1, 2), 40, true),
        (ip().tcp(1, 2, 3, 4, wire::tcp::Flags::SYN), 50, true),
        (ip().echo_request(1, 2), 36, false),
    ] {
        let bytes = builder.payload(&[0x5a; 31]).build();
        for (at, width) in (26..70).flat_map(|at| (1..=8).map(move |width| (at, width))) {
            let end = at + width;
            if end > bytes.len() || (at < checksum + 2 && checksum < end) {
                continue;
            }
            let max = u64::MAX >> (64 - 8 * width);
            let fields = vec![field(at, width, Mode::Random { min: 0, max })];
            let template = Template { l4_checksum: true, fields, ..Template::fixed(bytes.clone()) };
            let stream = Stream { templates: vec![template], vector: 3, ..Stream::default() };
            for p in run(stream, 1) {
                let mut sum = Sum::of(&p[34..]);
                if pseudo {
                    let len = (p.len() - 34) as u16;
                    sum =
                        sum.plus(Sum::of(&p[26..34])).plus(Sum::of_u16(p[23].into())).plus(Sum::of_u16(len));
                }
                assert!(sum.is_valid(), "{width} bytes at {at}: {p:02x?}");
            }
        }
    }
}

#[test]
fn random_destinations_are_distributed_evenly() {
    let destination = Mode::Random { min: 0x0a00_0000, max: 0x0aff_ffff };
    let fields = vec![Field { ip4_checksum: true, ..field(30, 4, destination) }];
    let packets = run(
        Stream { templates: vec![Template { fields, ..Template::fixed(udp(60)) }], ..Stream::default() },
        400,
    );
    let mut buckets = [0usize; 256];
    packets.iter().for_each(|p| buckets[number(p, 31, 1) as usize] += 1);
    // 400 per bucket on average; a deviation of 5 standard deviations would be a defect.
    assert!(buckets.iter().all(|n| (300..500).contains(n)), "{buckets:?}");
}

#[test]
fn streams_can_be_enabled_and_limited_and_alternate() {
    let (mut device, generator, _) = pktgen::open(&Config::default());
    let mut cache = cache();
    let stream = |name: &str, size, vector, limit| Stream {
        name: name.into(),
        templates: vec![Template::fixed(udp(size))],
        vector,
        limit,
        ..Stream::default()
    };
    assert!(!device.rx[0].active() && device.rx[0].fd().is_none());
    generator.add(stream("a", 60, 10, Some(25))).unwrap();
    generator.add(stream("b", 80, 1, None)).unwrap();
    assert!(generator.add(stream("b", 80, 1, None)).is_err());
    assert!(poll(&mut device, &mut cache).is_empty());
    assert!(!device.rx[0].active());

    assert!(generator.set_enabled(Some("a"), true) && !generator.set_enabled(Some("c"), true));
    assert!(device.rx[0].active());
    let vectors: Vec<usize> = (0..4).map(|_| poll(&mut device, &mut cache).len()).collect();
    assert_eq!(vectors, [10, 10, 5, 0]);
    assert!(!device.rx[0].active());
    let shown = generator.streams()[0].to_string();
    assert_eq!(shown, "a disabled, 25 packets of 25");

    generator.set_enabled(None, true);
    let mut sizes: Vec<_> = (0..4).map(|_| poll(&mut device, &mut cache)[0].len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [60, 60, 80, 80]);

    assert!(generator.remove("b") && !generator.remove("b"));
    assert_eq!(poll(&mut device, &mut cache).len(), 5);
    assert!(poll(&mut device, &mut cache).is_empty() && !device.rx[0].active());
}

#[test]
fn a_rate_is_kept_without_bursts() {
    let (mut device, generator, _) = pktgen::open(&Config::default());
    let mut cache = cache();
    let templates = vec![Template::fixed(udp(60))];
    generator.add(Stream { templates, rate_pps: Some(20_000.0), vector: 32, ..Stream::default() }).unwrap();
    generator.set_enabled(None, true);
    poll(&mut device, &mut cache);
    // After a long pause, the credit is one vector, not 2,000 packets.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(poll(&mut device, &mut cache).len(), 32);
    assert!(poll(&mut device, &mut cache).len() < 32);
    let (start, mut n, mut lost) = (Instant::now(), 0, Duration::ZERO);
    let mut last = start;
    while last - start < Duration::from_millis(200) {
        n += poll(&mut device, &mut cache).len();
        // Packets due while the thread was not scheduled for longer than a vector lasts are lost.
        let now = Instant::now();
        lost += (now - last).saturating_sub(Duration::from_micros(1500));
        last = now;
    }
    let due = |time: Duration| (time.as_micros() / 50) as usize;
    let least = due((last - start).saturating_sub(lost)) * 9 / 10;
    assert!((least..=due(last - start) + 64).contains(&n), "{n} of {least}");
}

#[test]
fn empty_pools_make_short_vectors() {
    let (mut device, generator, _) = pktgen::open(&Config::default());
    generator.add(Stream { templates: vec![Template::fixed(udp(60))], ..Stream::default() }).unwrap();
    generator.set_enabled(None, true);
    let mut cache = Pool::new(100).unwrap().cache();
    let (mut frame, mut second) = (Frame::new(), Frame::new());
    device.rx[0].poll(&mut frame, &mut cache).unwrap();
    device.rx[0].poll(&mut second, &mut cache).unwrap();
    assert_eq!((frame.len(), second.len()), (100, 0));
    frame.free(&mut cache);
}

#[test]
fn the_sink_counts_and_keeps_the_last_packets() {
    let (mut device, _, sink) = pktgen::open(&Config::default());
    let mut cache = cache();
    let gso = Gso { kind: GsoKind::Tcp4, ecn: true, size: 1448, header_len: 66 };
    for round in 0..3u8 {
        sink.keep(usize::from(round));
        let mut frame = Frame::new();
        frame.alloc(&mut cache, 2);
        let mut p = frame.get(0).unwrap();
        assert!(p.fill_chained(&vec![round; 5000], &mut cache));
        p.set_flags(p.flags() | buf::Flags::GSO | buf::Flags::CSUM_PARTIAL);
        p.cold_mut().set_gso(gso);
        (p.cold_mut().csum_start, p.cold_mut().csum_offset) = (34, 16);
        let flags = p.flags();
        frame.note(flags);
        frame.get(1).unwrap().fill(&[round; 60]);
        device.tx[0].send(&mut frame, &mut cache).unwrap();
        assert!(frame.is_empty());
        let kept = sink.take();
        assert_eq!(kept.len(), usize::from(round));
        if let [big, small] = &kept[..] {
            assert_eq!((&big.bytes, big.gso, big.csum), (&vec![round; 5000], Some(gso), Some((34, 16))));
            assert_eq!((&small.bytes, small.gso, small.csum), (&vec![round; 60], None, None));
        }
    }
    assert_eq!(sink.packets(), 6);
    cache.publish();
    assert_eq!(cache.pool().stats().used, 0);
}
