//! The description of a stream, in VPP's syntax:
//!
//! ```text
//! { name x  limit 5  rate 1000  size 64-1500  interface pg0  node ethernet-input  data { PACKET } }
//! ```
//!
//! `size A-B` counts up from size A to B, `size A+B` draws sizes at random. A PACKET is one of
//!
//! ```text
//! IP4: MAC -> MAC  UDP: IP -> IP    [ttl N] [tos N]  [UDP: PORT -> PORT]         [PAYLOAD]
//! IP4: MAC -> MAC  TCP: IP -> IP    [ttl N] [tos N]  [TCP: PORT -> PORT [FLAGS]] [PAYLOAD]
//! IP4: MAC -> MAC  ICMP: IP -> IP   [ttl N] [tos N]  [ICMP echo_request]         [PAYLOAD]
//! IP4: MAC -> MAC  NUMBER: IP -> IP [ttl N] [tos N]                              [PAYLOAD]
//! 0x88b5: MAC -> MAC [PAYLOAD]
//! PAYLOAD
//! ```
//!
//! IPv6 packets begin with `IP6: MAC -> MAC` and have IPv6 addresses. They have `hop-limit N` and `traffic-class N` instead of `ttl` and
//! `tos`, and `ICMP6:` instead of `ICMP:`. `echo_reply` may replace `echo_request`, and `ARP:` the type `0x0806:`.
//!
//! With `node ip4-input` or `node ip6-input`, the description of a packet begins with the IP header, without `IP4: MAC -> MAC`, and `size`
//! does not count the Ethernet header. The packet is received with an Ethernet header, as if a neighbor of the interface had sent it.
//!
//! IP addresses and ports may be `A - B`, which counts up from A to B, or `A + B`, which draws at random between
//! them. In IPv6 addresses, only the last 64 bits may vary. FLAGS are any of SYN, ACK, FIN, RST, PSH and URG. A
//! PAYLOAD is `incrementing N` (the bytes 0 to N - 1, repeated) or `hex 0x…`. Zeros fill the rest of the size.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use drivers::pktgen::{Field, Mode, Sizes, Stream, Template, check_sizes};
use wire::builder::PacketBuilder;
use wire::ethernet::ethertype;
use wire::tcp::Flags;
use wire::{EthernetHeader, Mac};

use super::words::Words;
use crate::cli::CliError;

/// Offsets in bytes of the fields of an IP packet without VLAN tags, options and extension headers.
#[derive(Clone, Copy, PartialEq)]
struct Layout {
    /// Offset of the length field of the IP header.
    len: usize,
    /// Number of bytes at the start of the IP packet that the length field does not count.
    less: usize,
    /// Offset of the part of the source address that may vary.
    src: usize,
    /// Offset of the part of the destination address that may vary.
    dst: usize,
    /// Width of the part of an address that may vary, in bytes.
    address: usize,
    /// Offset of the transport header.
    l4: usize,
    /// True if the IP header has a checksum.
    checksum: bool,
}

const V4: Layout = Layout { len: 16, less: 14, src: 26, dst: 30, address: 4, l4: 34, checksum: true };
const V6: Layout = Layout { len: 18, less: 54, src: 30, dst: 46, address: 8, l4: 54, checksum: false };
/// Offset in bytes of the destination port in a UDP or TCP header.
const DST_PORT: usize = 2;
/// Offset in bytes of the length in a UDP header.
const UDP_LEN: usize = 4;
/// Length in bytes of the Ethernet header, which precedes the IP header.
const L3: usize = 14;
/// Source Ethernet address of packets that are described without an Ethernet header.
const NEIGHBOR: Mac = Mac([2, 0, 0, 0, 0, 1]);
/// Default size of a packet in bytes, if its headers and payload fit. A frame that is given in hex has its own length by default.
const SIZE: usize = 64;

/// A parsed description: the stream, and the name of its interface.
pub(super) struct Description {
    pub(super) stream: Stream,
    pub(super) interface: String,
    /// True if the description omits the Ethernet header, for `ip4-input` or `ip6-input`. The caller then sets the destination of the
    /// Ethernet header.
    pub(super) bare: bool,
}

/// The headers of a packet.
enum Head {
    Ip(Box<PacketBuilder>, Layout),
    Raw(Vec<u8>),
}

/// The kind of the first header in a description.
#[derive(Clone, Copy, PartialEq)]
enum Begin {
    Ethernet,
    Ip(Family),
}

#[derive(Clone, Copy, PartialEq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// Returns the word that begins the description of a packet with an Ethernet header, and the node that receives packets without
    /// one.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Family::V4 => ("IP4", "ip4-input"),
            Family::V6 => ("IP6", "ip6-input"),
        }
    }

    fn ethertype(self) -> u16 {
        match self {
            Family::V4 => ethertype::IPV4,
            Family::V6 => ethertype::IPV6,
        }
    }
}

/// The bytes after the headers.
enum Payload {
    Zeros,
    Incrementing(usize),
    Bytes(Vec<u8>),
}

/// The contents of `data { … }`.
struct Packet {
    head: Head,
    /// The first header, if headers are described.
    begin: Option<Begin>,
    fields: Vec<Field>,
    /// True if the transport header has a length field (UDP).
    udp: bool,
    /// True if the transport header has a checksum.
    checksum: bool,
    payload: Payload,
}

impl Payload {
    /// Returns the length in bytes of a payload that the description gives as bytes; 0 for a payload that can have any length.
    fn len(&self) -> usize {
        if let Payload::Bytes(bytes) = self { bytes.len() } else { 0 }
    }

    fn fill(&self, len: usize) -> Vec<u8> {
        match self {
            Payload::Zeros => vec![0; len],
            Payload::Incrementing(n) => (0..len).map(|i| (i % n) as u8).collect(),
            Payload::Bytes(bytes) => bytes.iter().copied().chain(std::iter::repeat(0)).take(len).collect(),
        }
    }
}

/// Parses the description of a stream.
///
/// # Errors
/// If a word is unexpected, or a value is invalid.
pub(super) fn read(text: &str) -> Result<Description, CliError> {
    let mut w = Words::new(text);
    let mut stream = Stream::default();
    let (mut size, mut interface, mut packet) = (None, String::from("pg0"), None);
    let mut node = None;
    w.expect("{")?;
    loop {
        match w.next() {
            Some("}") => break,
            Some("name") => stream.name = w.need("a name")?,
            Some("limit") => stream.limit = Some(w.need("a number of packets")?).filter(|n| *n > 0),
            Some("rate") => stream.rate_pps = Some(w.need("packets a second")?),
            Some("maxframe") => stream.vector = w.need("packets a vector")?,
            Some("size") => {
                let (least, to) = w.varying::<usize>("a size such as 64-1500")?;
                size = Some(match to {
                    None => (least..=least, Sizes::Increasing),
                    Some((most, true)) => (least..=most, Sizes::Random),
                    Some((most, false)) => (least..=most, Sizes::Increasing),
                });
            }
            Some("interface") => interface = w.need("an interface")?,
            Some("node") => {
                node = match w.next() {
                    Some("ethernet-input") => None,
                    Some("ip4-input") => Some(Family::V4),
                    Some("ip6-input") => Some(Family::V6),
                    other => return Err(w.unexpected("ethernet-input, ip4-input or ip6-input", other)),
                }
            }
            Some("data") => packet = Some(read_packet(&mut w)?),
            other => {
                let expected = "name, limit, rate, maxframe, size, interface, node or data";
                return Err(w.unexpected(expected, other));
            }
        }
    }
    if let Some(more) = w.next() {
        return Err(w.unexpected("the end of the stream after its last }", Some(more)));
    }
    let Some(mut packet) = packet else { return Err(CliError::new("the stream has no data { … }")) };
    match (node, packet.begin) {
        (Some(family), Some(Begin::Ethernet)) => {
            let (begin, node) = family.names();
            return Err(CliError::new(format!(
                "packets for {node} begin with their IP header: leave out \"{begin}: MAC -> MAC\", or use \"node \
                 ethernet-input\""
            )));
        }
        (None, Some(Begin::Ip(family))) => {
            let (begin, node) = family.names();
            return Err(CliError::new(format!(
                "packets for ethernet-input begin with \"{begin}: MAC -> MAC\"; use \"node {node}\" for packets without it"
            )));
        }
        (Some(node), Some(Begin::Ip(family))) if node != family => {
            let (node, fits) = (node.names().1, family.names().1);
            return Err(CliError::new(format!(
                "the addresses of the packet need \"node {fits}\", not \"node {node}\""
            )));
        }
        (Some(family), None) => {
            let header = EthernetHeader::new(Mac::ZERO, NEIGHBOR, family.ethertype());
            packet.head = Head::Raw(header.0.to_vec());
        }
        _ => {}
    }
    let bare = node.is_some();
    stream.templates = vec![packet.template(size, if bare { L3 } else { 0 })?];
    Ok(Description { stream, interface, bare })
}

impl Packet {
    /// Returns the total length of all headers in bytes.
    fn headers(&self) -> usize {
        match &self.head {
            Head::Ip(builder, _) => builder.header_len(),
            Head::Raw(bytes) => bytes.len(),
        }
    }

    /// Returns the template of the packets. `unsaid` is the number of bytes at the start of a packet that the description omits.
    /// `size` does not count these bytes.
    fn template(
        mut self,
        size: Option<(RangeInclusive<usize>, Sizes)>,
        unsaid: usize,
    ) -> Result<Template, CliError> {
        let headers = self.headers();
        // The default size of a frame in hex is its own length.
        let own = match (&self.head, &self.payload) {
            (Head::Raw(_), Payload::Bytes(bytes)) => headers + bytes.len(),
            _ => SIZE.max(headers + self.payload.len()),
        };
        let (size, sizes) = size.unwrap_or((own - unsaid..=own - unsaid, Sizes::Increasing));
        let (least, most) = (*size.start(), *size.end());
        let shortest = headers.max(L3) - unsaid;
        if least < shortest || least > most {
            return Err(CliError::new(format!(
                "invalid size {least}-{most}: this packet has at least {shortest} bytes, and a range begins with \
                 the smaller size"
            )));
        }
        let (least, most) = (least.saturating_add(unsaid), most.saturating_add(unsaid));
        let size = least..=most;
        // Checked first, because the payload fills the largest size.
        check_sizes(&size).map_err(|e| CliError::new(format!("invalid size: {e}")))?;
        if let Head::Ip(_, layout) = self.head
            && least < most
        {
            self.fields.push(field(layout.len, 2, Mode::Size { less: layout.less }, layout.checksum));
            if self.udp {
                self.fields.push(field(layout.l4 + UDP_LEN, 2, Mode::Size { less: layout.l4 }, false));
            }
        }
        let payload = self.payload.fill(most.saturating_sub(headers));
        let bytes = match self.head {
            Head::Ip(builder, _) => builder.payload(&payload).build(),
            Head::Raw(bytes) => [bytes, payload].concat(),
        };
        // Constant packets already have their checksum.
        let l4_checksum = self.checksum && !self.fields.is_empty();
        Ok(Template { size, sizes, l4_checksum, fields: self.fields, ..Template::fixed(bytes) })
    }
}

fn field(offset: usize, width: usize, mode: Mode, ip4_checksum: bool) -> Field {
    Field { offset, width, mode, ip4_checksum }
}

/// Returns the mode of a field that varies from `min` to `max`: at random, or counting up.
fn mode(min: u64, max: u64, random: bool) -> Mode {
    if random { Mode::Random { min, max } } else { Mode::Increment { min, max, step: 1 } }
}

/// Returns the error for a range whose first value is greater than its last value.
fn upside_down(from: impl Display, to: impl Display) -> CliError {
    CliError::new(format!("{from} is more than {to}: a range begins with its lowest value"))
}

/// Reads a port, and its mode if it varies.
fn port(w: &mut Words<'_>) -> Result<(u16, Option<Mode>), CliError> {
    let (from, to) = w.varying::<u16>("a port")?;
    match to {
        Some((to, _)) if from > to => Err(upside_down(from, to)),
        to => Ok((from, to.map(|(to, random)| mode(from.into(), to.into(), random)))),
    }
}

/// Reads an address, and its mode if it varies. Without a `family`, addresses of both families are accepted.
fn address(w: &mut Words<'_>, family: Option<Family>) -> Result<(IpAddr, Option<Mode>), CliError> {
    let what = match family {
        Some(Family::V4) => "an IPv4 address",
        Some(Family::V6) => "an IPv6 address",
        None => "an IP address",
    };
    let (from, to) = w.varying::<IpAddr>(what)?;
    let other = |a: IpAddr| family.is_some_and(|f| f != Family::of(a));
    if let Some(wrong) = [Some(from), to.map(|t| t.0)].into_iter().flatten().find(|a| other(*a)) {
        return Err(w.unexpected(what, Some(&wrong.to_string())));
    }
    let Some((to, random)) = to else { return Ok((from, None)) };
    if from > to {
        return Err(upside_down(from, to));
    }
    let (min, max) = match (from, to) {
        (IpAddr::V4(min), IpAddr::V4(max)) => (min.to_bits().into(), max.to_bits().into()),
        (IpAddr::V6(min), IpAddr::V6(max)) if min.to_bits() >> 64 == max.to_bits() >> 64 => {
            (min.to_bits() as u64, max.to_bits() as u64)
        }
        _ => {
            let wrong =
                "are not a range: use two IPv4 addresses, or two IPv6 addresses with the same first 64 bits";
            return Err(CliError::new(format!("{from} and {to} {wrong}")));
        }
    };
    Ok((from, Some(mode(min, max, random))))
}

fn read_packet(w: &mut Words<'_>) -> Result<Packet, CliError> {
    w.expect("{")?;
    let mut packet = Packet {
        head: Head::Raw(Vec::new()),
        begin: None,
        fields: Vec::new(),
        udp: false,
        checksum: false,
        payload: Payload::Zeros,
    };
    let label = w.peek().and_then(|word| word.strip_suffix(':'));
    let of_ip = |label: &str| {
        matches!(label, "UDP" | "TCP" | "ICMP" | "ICMP6")
            || number(label).is_some_and(|n| n <= u8::MAX.into())
    };
    if label.is_some_and(of_ip) {
        let family = read_ip(w, &mut packet, None, NEIGHBOR, Mac::ZERO)?;
        packet.begin = Some(Begin::Ip(family));
    } else if let Some(label) = label {
        w.next();
        packet.begin = Some(Begin::Ethernet);
        let kind = match label {
            "IP4" => Some(ethertype::IPV4),
            "ARP" => Some(ethertype::ARP),
            "IP6" => Some(ethertype::IPV6),
            _ => number(label).filter(|n| *n >= ethertype::MIN),
        };
        let Some(kind) = kind else {
            return Err(w.unexpected("a type such as \"IP4:\" or \"0x88b5:\"", Some(label)));
        };
        let src: Mac = w.need("an Ethernet address")?;
        w.expect("->")?;
        let dst: Mac = w.need("an Ethernet address")?;
        packet.head = Head::Raw(EthernetHeader::new(dst, src, kind).0.to_vec());
        let family = [Family::V4, Family::V6].into_iter().find(|f| f.names().0 == label);
        if family.is_some() && w.peek().is_some_and(|word| word.ends_with(':')) {
            read_ip(w, &mut packet, family, src, dst)?;
        }
    }
    packet.payload = read_payload(w)?;
    if let (Head::Raw(head), Payload::Zeros) = (&packet.head, &packet.payload)
        && head.is_empty()
    {
        let word = w.next();
        return Err(w.unexpected("a packet such as \"IP4: …\", or \"hex 0x…\"", word));
    }
    w.expect("}")?;
    Ok(packet)
}

/// Parses a number, decimal or `0x…`.
fn number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Reads an IP header and the transport header. Without a `family`, headers of both families are accepted.
fn read_ip(
    w: &mut Words<'_>,
    packet: &mut Packet,
    family: Option<Family>,
    src_mac: Mac,
    dst_mac: Mac,
) -> Result<Family, CliError> {
    let label = w.next().unwrap_or_default();
    let name = label.strip_suffix(':').unwrap_or(label);
    let (src, src_mode) = address(w, family)?;
    w.expect("->")?;
    let (dst, dst_mode) = address(w, Some(Family::of(src)))?;
    let (builder, at, [hops, class], icmp, request, reply) = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            use wire::icmpv4::kind;
            let words = ["ttl", "tos"];
            (PacketBuilder::ipv4(src, dst), V4, words, "ICMP", kind::ECHO_REQUEST, kind::ECHO_REPLY)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            use wire::icmpv6::kind;
            let words = ["hop-limit", "traffic-class"];
            (PacketBuilder::ipv6(src, dst), V6, words, "ICMP6", kind::ECHO_REQUEST, kind::ECHO_REPLY)
        }
        // Unreachable: the second address was read with the first one's family.
        _ => return Err(CliError::new(format!("{src} and {dst} are of different families"))),
    };
    let mut builder = builder.ethernet(src_mac, dst_mac);
    let mut varying =
        vec![(at.src, at.address, src_mode, at.checksum), (at.dst, at.address, dst_mode, at.checksum)];
    while let Some(word) = w.peek().filter(|word| [hops, class].contains(word)) {
        w.next();
        let n = w.need("a number of 0 to 255")?;
        builder = if word == hops { builder.ttl(n) } else { builder.tos(n) };
    }
    builder = match name {
        "UDP" | "TCP" => {
            let mut ports = (1024, 1024);
            if w.peek() == Some(label) {
                w.next();
                let (src, src_mode) = port(w)?;
                w.expect("->")?;
                let (dst, dst_mode) = port(w)?;
                ports = (src, dst);
                varying.extend([(at.l4, 2, src_mode, false), (at.l4 + DST_PORT, 2, dst_mode, false)]);
            }
            packet.checksum = true;
            packet.udp = name == "UDP";
            match packet.udp {
                true => builder.udp(ports.0, ports.1),
                false => builder.tcp(ports.0, ports.1, 0, 0, read_flags(w)),
            }
        }
        name if name == icmp => {
            let mut message = request;
            if w.peek() == Some("ICMP") {
                w.next();
                message = match w.next() {
                    Some("echo_request") => request,
                    Some("echo_reply") => reply,
                    other => return Err(w.unexpected("echo_request or echo_reply", other)),
                };
            }
            packet.checksum = true;
            builder.icmp(message, 0, 1)
        }
        _ => match number(name).and_then(|n| u8::try_from(n).ok()) {
            Some(protocol) => builder.protocol(protocol),
            None => {
                let expected = format!("\"UDP:\", \"TCP:\", \"{icmp}:\" or a protocol's number");
                return Err(w.unexpected(&expected, Some(label)));
            }
        },
    };
    packet.head = Head::Ip(Box::new(builder), at);
    let modes = varying.into_iter().filter_map(|(at, width, mode, sum)| Some(field(at, width, mode?, sum)));
    packet.fields = modes.collect();
    Ok(Family::of(src))
}

fn read_flags(w: &mut Words<'_>) -> Flags {
    let known = [
        ("SYN", Flags::SYN),
        ("ACK", Flags::ACK),
        ("FIN", Flags::FIN),
        ("RST", Flags::RST),
        ("PSH", Flags::PSH),
        ("URG", Flags::URG),
    ];
    let mut flags = Flags::default();
    while let Some((_, flag)) = known.iter().find(|(name, _)| w.peek() == Some(name)) {
        w.next();
        flags = flags.with(*flag);
    }
    flags
}

fn read_payload(w: &mut Words<'_>) -> Result<Payload, CliError> {
    match w.peek() {
        Some("incrementing") => {
            w.next();
            match w.need("a number of bytes")? {
                0 => Err(CliError::new("invalid payload \"incrementing 0\": use at least 1")),
                n => Ok(Payload::Incrementing(n)),
            }
        }
        Some("hex") => {
            w.next();
            let word: String = w.need("bytes such as 0x0102")?;
            let bytes = word.strip_prefix("0x").and_then(hex).filter(|b| !b.is_empty());
            bytes
                .map(Payload::Bytes)
                .ok_or_else(|| w.unexpected("pairs of hex digits such as 0x0102", Some(&word)))
        }
        _ => Ok(Payload::Zeros),
    }
}

/// Parses pairs of hexadecimal digits.
fn hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = digits.chars().map(|c| Some(c.to_digit(16)? as u8)).collect();
    let digits = digits.filter(|d| d.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
